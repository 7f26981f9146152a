#include "kernels/gemm/result_type.h"

#include "base/dtype.h"

namespace tenon::kernels::gemm {

Result<DType> ResultType(const ShapeArgs& args) {
  const DType x = args.in[0].dtype;
  const DType w = args.in[1].dtype;
  const int64_t wanted = args.attrs.Int("output_dtype", static_cast<int64_t>(x));
  const bool bf16 = w == DType::kBF16;
  for (size_t i = 0; i < args.in.size(); ++i) {
    const DType t = args.in[i].dtype;
    if (!args.Has(i) || t == DType::kUndefined || x == DType::kUndefined) continue;
    if (bf16 && t != DType::kBF16 && t != DType::kF32) {
      return BadInput("input {} is {} beside bfloat16 weights; allowed: bfloat16, float32", i, DTypeName(t));
    }
    if (!bf16 && t != x) {
      return BadInput("input {} is {} but input 0 is {}; equal types are needed", i, DTypeName(t), DTypeName(x));
    }
  }
  const bool plain = wanted == static_cast<int64_t>(x);
  const bool served = wanted == static_cast<int64_t>(DType::kF32) || wanted == static_cast<int64_t>(DType::kBF16);
  if (plain || (bf16 && served)) return static_cast<DType>(wanted);
  return BadInput("attribute output_dtype is {} for an input of {} and weights of {}; allowed: {}", wanted, DTypeName(x),
                  DTypeName(w), bf16 ? "1 (float32), 16 (bfloat16)" : "the input's type");
}

}  // namespace tenon::kernels::gemm
