// Implementation modes, as ATC's --op_select_implmode: high precision leaves out kernels that are faster and less exact.
#ifndef TENON_COMPILE_IMPLMODE_H_
#define TENON_COMPILE_IMPLMODE_H_

#include "ir/graph.h"
#include "tenon/compile.h"

namespace tenon::compile {

/// kUsage: unknown word, or a list without a mode; kBadInput: the model has no operator of a type on the list.
Status CheckImplMode(const CompileOptions& options, const ir::Graph& imported);

/// Sets the attribute `exact`, which kernels obey, on the operators that `options` ask it for and that have a faster way.
void ApplyImplMode(const CompileOptions& options, ir::Graph* graph);

}  // namespace tenon::compile

#endif  // TENON_COMPILE_IMPLMODE_H_
