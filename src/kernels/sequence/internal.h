// Makers of the rows of this family.
#ifndef TENON_KERNELS_SEQUENCE_INTERNAL_H_
#define TENON_KERNELS_SEQUENCE_INTERNAL_H_

#include "kernels/movement/element.h"
#include "kernels/sequence/sequence.h"

namespace tenon::kernels::sequence {

Result<std::unique_ptr<Kernel>> MakeEdit(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeRead(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeOptional(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeSplitToSequence(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeConcatFromSequence(const Problem& problem);

inline Status NeedSequence(std::string_view op, const View& v) {
  return v.sequence != nullptr ? Status::Ok()
                               : BadInput("{}: input 0 must be a sequence, not a {} tensor", op, DTypeName(v.dtype));
}
inline Status NeedOutput(std::string_view op, const MutView& v) {
  return v.sequence != nullptr ? Status::Ok() : Internal("{}: no sequence to fill", op);
}

/// The output is a sequence of tensors of `dtype`.
inline void SetSequence(ValueInfo* out, DType dtype) {
  movement::SetTensor(out, dtype, {});
  out->is_sequence = true;
}

}  // namespace tenon::kernels::sequence

#endif  // TENON_KERNELS_SEQUENCE_INTERNAL_H_
