// Transpose: out[i_perm[0], i_perm[1], ...] = in[i_0, i_1, ...], DepthToSpace and SpaceToDepth, for every element type.
#ifndef TENON_KERNELS_TRANSPOSE_TRANSPOSE_H_
#define TENON_KERNELS_TRANSPOSE_TRANSPOSE_H_

#include "kernels/kernel.h"
#include "kernels/movement/element.h"

namespace tenon::kernels::transpose {

std::span<const OpKernels> Operators();

/// perm[k] = axis of the input that becomes axis k of the output; absent: reversed.
Status InferTranspose(const ShapeArgs& args);
/// Attributes blocksize and, of DepthToSpace, mode: DCR (default) or CRD.
Status InferDepthToSpace(const ShapeArgs& args);
Status InferSpaceToDepth(const ShapeArgs& args);

/// Permutation from attribute `perm`, empty when absent. kBadInput when it is not a permutation.
Status ParsePerm(const Attrs& attrs, std::vector<int>* perm);

/// The oracle: element by element.
class ReferenceKernel final : public movement::MoveKernel {
 public:
  static Status Check(const Problem& problem);
  explicit ReferenceKernel(const Problem& problem);

 protected:
  Status Move(const RunArgs& args) const override;

 private:
  std::vector<int> perm_;
};

}  // namespace tenon::kernels::transpose

#endif  // TENON_KERNELS_TRANSPOSE_TRANSPOSE_H_
