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
  DType target = DType::kF32;                 ///< kF32: nothing is lowered. kBF16 is the one other choice so far
  std::set<std::string, std::less<>> white;
  std::set<std::string, std::less<>> grey;
  std::set<std::string, std::less<>> black;        ///< wins over the others
  std::set<std::string, std::less<>> keep_nodes;   ///< nodes that stay f32, by the source model's name
  /// Of the nodes that the lists allow only these are lowered, each named by its first output. For the accuracy guard.
  std::optional<std::set<std::string, std::less<>>> only;
  /// Lowered nodes read and write rounded tensors even where a reader or writer is f32, and grey ones need no lowered neighbour:
  /// shows what a node does to the model when it alone is lowered.
  bool isolated = false;
};

/// The default lists: matrix products, convolutions and attention white; what moves, pools, normalises or maps elements grey.
PrecisionPolicy DefaultPolicy(DType target);

/// A node that computes in `precision` now.
struct LoweredNode {
  std::string name;  ///< of the source model
  std::string op;  ///< as in the optimised graph
  std::string output;  ///< name of its first output before it was lowered: unique, for PrecisionPolicy::only
  DType precision = DType::kUndefined;
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
