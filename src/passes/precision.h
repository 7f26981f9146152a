// Which operators may compute in less than f32, and which did.
#ifndef TENON_PASSES_PRECISION_H_
#define TENON_PASSES_PRECISION_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace tenon::passes {

/// The words of mixed-precision lists: white operators are lowered where a kernel exists, grey ones when they stand between
/// lowered ones (that saves casts); black ones, and those on no list, stay f32. Types are those of the source model: `Conv` also
/// names FusedConv, `MatMul` and `Gemm` FusedMatMul; a fused operator is black when one of its parts is.
struct PrecisionPolicy {
  bool bf16 = false;                          ///< bf16 is allowed; neither this nor int8: nothing is lowered
  bool int8 = false;                          ///< integers are allowed, and preferred to bf16 where a white node can have them
  std::set<std::string, std::less<>> white;
  std::set<std::string, std::less<>> grey;
  std::set<std::string, std::less<>> black;        ///< wins over the others
  std::set<std::string, std::less<>> keep_nodes;   ///< nodes that stay f32, by the source model's name
  /// Of the nodes that the lists allow only these are lowered, each named by its first output, to kBF16 or kI8. For the accuracy
  /// guard.
  std::optional<std::map<std::string, DType, std::less<>>> only;
  /// Smallest and largest element of values seen in runs: what convolutions need to read integers.
  std::map<std::string, std::pair<float, float>, std::less<>> ranges;
  /// Integers are those of weights alone, in blocks: kI8 or kI4. Products and tables compute in f32; kUndefined: not.
  DType weights_only = DType::kUndefined;
  bool static_products = false;  ///< matrix products read their input by `ranges` too; else they measure it in each run
  /// Lowered nodes read and write rounded tensors even where a reader or writer is f32, and grey ones need no lowered neighbour:
  /// shows what a node does to the model when it alone is lowered.
  bool isolated = false;

  bool lowers() const { return bf16 || int8; }
};

/// The default lists: matrix products, convolutions and attention white; what moves, pools, normalises or maps elements grey.
PrecisionPolicy DefaultPolicy();

/// A node that computes in `precision` now.
struct LoweredNode {
  std::string name;  ///< of the source model
  std::string op;  ///< as in the optimised graph
  std::string output;  ///< name of its first output before it was lowered: unique, for PrecisionPolicy::only
  DType precision = DType::kUndefined;  ///< kBF16 or kI8
  bool white = false;  ///< chosen for its own sake; grey otherwise
};

struct PrecisionOutcome {
  struct Refusal {
    std::string name;
    std::string op;
    std::string reason;
  };
  std::vector<LoweredNode> lowered;  ///< in execution order
  std::vector<Refusal> refused;  ///< white nodes that no kernel serves in the wanted precision
  std::set<std::string, std::less<>> kept;  ///< those of PrecisionPolicy::keep_nodes that were there
};

/// Operator types of the source model that `op` may stand for, itself first.
std::vector<std::string_view> PartsOf(std::string_view op);

}  // namespace tenon::passes

#endif  // TENON_PASSES_PRECISION_H_
