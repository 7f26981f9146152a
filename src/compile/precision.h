// What the user says about precision, as the passes take it.
#ifndef TENON_COMPILE_PRECISION_H_
#define TENON_COMPILE_PRECISION_H_

#include <set>
#include <string>

#include "ir/graph.h"
#include "passes/precision.h"
#include "tenon/compile.h"

namespace tenon::compile {

struct PrecisionWish {
  passes::PrecisionPolicy policy;
  std::set<std::string> must_lower;    ///< operator types that the user himself put on the white list
};

/// Words and files of `options`. kUsage: unknown word, lists without "mixed"; kBadInput: a file that is not in the form
/// promised, or names an operator twice; kUnsupported: a precision that Tenon does not compute in.
Result<PrecisionWish> ReadPrecision(const CompileOptions& options);

/// kBadInput when a node to be kept is not in the model as imported.
Status CheckKeptNodes(const passes::PrecisionPolicy& policy, const ir::Graph& imported);

/// After the passes: everything was obeyed, or kUnsupported says what was not.
Status CheckObeyed(const PrecisionWish& wish, const passes::PrecisionOutcome& outcome);

/// A line for each kind of white node that stays f32 for want of a kernel.
std::vector<std::string> RefusalNotes(const passes::PrecisionOutcome& outcome);

}  // namespace tenon::compile

#endif  // TENON_COMPILE_PRECISION_H_
