// Constant per-channel maps y = scale*x + shift, as Mul, Add, Sub, Div and BatchNormalization with constant operands make them:
// what can be folded into the weights and the bias of a linear operator.
#ifndef TENON_PASSES_AFFINE_H_
#define TENON_PASSES_AFFINE_H_

#include <optional>
#include <vector>

#include "passes/rewriter.h"

namespace tenon::passes {

struct Affine {
  ValueId x = kNone;                 ///< the variable operand
  std::vector<double> scale, shift;  ///< one entry per channel
};

/// The node as an affine map over axis `axis` (negative: from the end) of a tensor of rank `rank` with `channels` channels there;
/// nullopt when it is none, when its constants vary along other axes, or when broadcasting would change the shape.
std::optional<Affine> AffineOf(const Rewriter& r, NodeId id, int rank, int axis, int64_t channels);

/// A float constant that varies along one axis only, as `channels` numbers; nullopt otherwise.
std::optional<std::vector<double>> ChannelConstant(const Rewriter& r, ValueId v, int rank, int axis, int64_t channels);

/// Whether `op` may be an affine map.
bool MayBeAffine(std::string_view op);

}  // namespace tenon::passes

#endif  // TENON_PASSES_AFFINE_H_
