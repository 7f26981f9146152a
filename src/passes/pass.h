// The passes that pipeline.cc lists. Each works on one graph; the pipeline visits bodies.
#ifndef TENON_PASSES_PASS_H_
#define TENON_PASSES_PASS_H_

#include "passes/rewriter.h"

namespace tenon::passes {

#define PASS(name, phase, level) Status name(Rewriter& r);
#include "passes/passes.inc"
#undef PASS

}  // namespace tenon::passes

#endif  // TENON_PASSES_PASS_H_
