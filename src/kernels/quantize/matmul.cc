// MatMulInteger and QLinearMatMul: shape rules and the plain kernel.
#include "kernels/quantize/matmul.h"

#include "kernels/kernel_util.h"

namespace tenon::kernels::quantize {
namespace {

bool IsByte(DType t) {
  return t == DType::kU8 || t == DType::kI8;
}

Status CheckByte(const ShapeArgs& args, size_t i) {
  if (!args.Has(i) || args.in[i].dtype == DType::kUndefined || IsByte(args.in[i].dtype)) return Status::Ok();
  return Unsupported("input {} is {}; int8 and uint8 are served", i, DTypeName(args.in[i].dtype));
}

Status CheckSame(const ShapeArgs& args, size_t i, size_t k) {
  if (!args.Has(i) || !args.Has(k) || args.in[i].dtype == DType::kUndefined || args.in[k].dtype == DType::kUndefined)
    return Status::Ok();
  if (args.in[i].dtype == args.in[k].dtype) return Status::Ok();
  return BadInput("input {} is {} and input {} is {}; equal types needed", i, DTypeName(args.in[i].dtype), k,
                  DTypeName(args.in[k].dtype));
}

// The shape rule of MatMul on the operands alone.
Status ProductShape(const ShapeArgs& args, const MatMulInputs& m) {
  ValueInfo operands[2] = {args.in[m.a], args.in[m.b]};
  for (ValueInfo& v : operands) v.dtype = DType::kF32;
  return matmul::InferMatMul({args.attrs, operands, args.out});
}

class IntegerMatMul final : public Kernel {
 public:
  explicit IntegerMatMul(MatMulInputs m) : m_(m) {}

  Status Run(const RunArgs& args) const override {
    const View& a = args.in[m_.a];
    const View& b = args.in[m_.b];
    TENON_ASSIGN_OR_RETURN(const matmul::Geometry g, matmul::Resolve({}, a.shape, b.shape));
    const auto in = [&](size_t i) { return i != 0 && args.Has(i) ? args.in[i] : View{}; };
    const View a_zero = in(m_.a_zero), b_zero = in(m_.b_zero);
    const int64_t a_count = g.a_batch.num_elements(), b_count = g.b_batch.num_elements();
    TENON_ASSIGN_OR_RETURN(const PerLine az, ResolvePerLine(a_zero, "a_zero_point", a_count, g.m));
    TENON_ASSIGN_OR_RETURN(const PerLine bz, ResolvePerLine(b_zero, "b_zero_point", b_count, g.n));
    const View a_scale = in(m_.a_scale), b_scale = in(m_.b_scale), y_scale = in(m_.y_scale), y_zero = in(m_.y_zero);
    TENON_ASSIGN_OR_RETURN(const PerLine as, ResolvePerLine(a_scale, "a_scale", a_count, g.m));
    TENON_ASSIGN_OR_RETURN(const PerLine bs, ResolvePerLine(b_scale, "b_scale", b_count, g.n));
    TENON_ASSIGN_OR_RETURN(const PerLine ys, ResolvePerLine(y_scale, "y_scale", a_count, g.m));
    TENON_ASSIGN_OR_RETURN(const PerLine yz, ResolvePerLine(y_zero, "y_zero_point", a_count, g.m));
    MutView& y = args.out[0];
    int32_t low = 0, high = 0;
    QuantizedRange(y.dtype, &low, &high);
    for (int64_t batch = 0; batch < g.batch; ++batch) {
      const int64_t ia = matmul::OperandBatch(g.batch_dims, g.a_batch, batch);
      const int64_t ib = matmul::OperandBatch(g.batch_dims, g.b_batch, batch);
      for (int64_t i = 0; i < g.m; ++i) {
        const int32_t za = a_zero.present() ? LoadInt(a_zero.dtype, a_zero.data, az.Index(ia, i)) : 0;
        for (int64_t j = 0; j < g.n; ++j) {
          const int32_t zb = b_zero.present() ? LoadInt(b_zero.dtype, b_zero.data, bz.Index(ib, j)) : 0;
          uint32_t sum = 0;
          for (int64_t k = 0; k < g.k; ++k) {
            const int32_t va = LoadInt(a.dtype, a.data, (ia * g.m + i) * g.k + k) - za;
            const int32_t vb = LoadInt(b.dtype, b.data, (ib * g.k + k) * g.n + j) - zb;
            sum += static_cast<uint32_t>(va * vb);
          }
          const int64_t at = (batch * g.m + i) * g.n + j;
          const auto total = static_cast<int32_t>(sum);
          if (!m_.requantize) {
            y.Data<int32_t>()[at] = total;
            continue;
          }
          const float scale = LoadFloat(a_scale.dtype, a_scale.data, as.Index(ia, i)) *
                              LoadFloat(b_scale.dtype, b_scale.data, bs.Index(ib, j)) /
                              LoadFloat(y_scale.dtype, y_scale.data, ys.Index(ia, i));
          const int32_t zero = LoadInt(y_zero.dtype, y_zero.data, yz.Index(ia, i));
          StoreInt(y.dtype, y.data, at, RoundSaturate(static_cast<float>(total) * scale, zero, low, high));
        }
      }
    }
    return Status::Ok();
  }

 private:
  MatMulInputs m_;
};

}  // namespace

Result<PerLine> ResolvePerLine(const View& v, const char* what, int64_t batch, int64_t lines) {
  if (!v.present() || v.num_elements() == 1) return PerLine{};
  if (v.num_elements() == lines) return PerLine{0, 1};
  if (v.num_elements() == batch * lines) return PerLine{lines, 1};
  return BadInput("{} of shape {}; 1, {} or {} elements needed", what, v.shape.ToString(), lines, batch * lines);
}

Status InferMatMulInteger(const ShapeArgs& args) {
  for (size_t i = 0; i < 4; ++i) TENON_RETURN_IF_ERROR(CheckByte(args, i));
  TENON_RETURN_IF_ERROR(CheckSame(args, 0, 2));
  TENON_RETURN_IF_ERROR(CheckSame(args, 1, 3));
  TENON_RETURN_IF_ERROR(ProductShape(args, InputsOf("MatMulInteger")));
  args.out[0].dtype = DType::kI32;
  return Status::Ok();
}

Status InferQLinearMatMul(const ShapeArgs& args) {
  for (size_t i : {0, 2, 3, 5, 7}) TENON_RETURN_IF_ERROR(CheckByte(args, i));
  TENON_RETURN_IF_ERROR(CheckSame(args, 0, 2));
  TENON_RETURN_IF_ERROR(CheckSame(args, 3, 5));
  for (size_t i : {1, 4, 6}) {
    const DType t = args.in[i].dtype;
    if (t != DType::kUndefined && t != DType::kF32 && t != DType::kF16 && t != DType::kBF16) {
      return BadInput("input {} is {}; a scale is float32, float16 or bfloat16", i, DTypeName(t));
    }
  }
  TENON_RETURN_IF_ERROR(ProductShape(args, InputsOf("QLinearMatMul")));
  args.out[0].dtype = args.in[7].dtype;
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeIntegerMatMul(const Problem& problem) {
  return std::unique_ptr<Kernel>(new IntegerMatMul(InputsOf(problem.op)));
}

}  // namespace tenon::kernels::quantize
