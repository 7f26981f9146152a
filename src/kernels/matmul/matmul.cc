#include "kernels/matmul/matmul.h"

#include <cmath>

#include "kernels/gemm/result_type.h"
#include "kernels/gemm/rows.h"

namespace tenon::kernels::matmul {
namespace {

constexpr gemm::TableRow kTable[] = {
#define KERNEL(op, name, isa, can, make) {op, {name, isa, can, make}},
#include "kernels/matmul/kernels.inc"
#undef KERNEL
};

bool Disagree(const Dim& a, const Dim& b) {
  return a.is_const() && b.is_const() && a.value() != b.value();
}

Status SetOutput(const ShapeArgs& args, DType dtype, SymShape shape) {
  ValueInfo& y = args.out[0];
  if (!y.present) return Status::Ok();
  y.dtype = dtype;
  y.shape = std::move(shape);
  return Status::Ok();
}

// The common rule; operands of rank 1 are for MatMul alone.
Result<SymShape> Product(const SymShape& a, const SymShape& b, bool trans_a, bool trans_b) {
  const int ra = a.rank();
  const int rb = b.rank();
  if (ra < 1 || rb < 1)
    return BadInput("operands of shape {} and {}; a scalar has no matrix product", a.ToString(), b.ToString());
  const Dim& ka = ra == 1 || !trans_a ? a[ra - 1] : a[ra - 2];
  const Dim& kb = rb == 1 ? b[0] : (trans_b ? b[rb - 1] : b[rb - 2]);
  if (Disagree(ka, kb)) {
    return BadInput("operands of shape {} and {} have inner extents {} and {}; they must be equal", a.ToString(), b.ToString(),
                    ka.ToString(), kb.ToString());
  }
  std::vector<Dim> out;
  const int batch_a = std::max(0, ra - 2);
  const int batch_b = std::max(0, rb - 2);
  const int batch = std::max(batch_a, batch_b);
  for (int i = 0; i < batch; ++i) {
    const int ia = i - (batch - batch_a);
    const int ib = i - (batch - batch_b);
    if (ia < 0 || ib < 0) {
      out.push_back(ia < 0 ? b[ib] : a[ia]);
      continue;
    }
    auto d = Dim::Broadcast(a[ia], b[ib]);
    if (!d) return BadInput("batch axes of {} and {} do not broadcast", a.ToString(), b.ToString());
    out.push_back(*d);
  }
  if (ra > 1) out.push_back(trans_a ? a[ra - 1] : a[ra - 2]);
  if (rb > 1) out.push_back(trans_b ? b[rb - 2] : b[rb - 1]);
  return SymShape(std::move(out));
}

}  // namespace

Result<Params> ParseParams(std::string_view op, const Attrs& attrs) {
  Params p;
  if (op == "MatMul") return p;
  p.is_gemm = op == "Gemm";
  p.trans_a = attrs.Int("transA", 0) != 0;
  p.trans_b = attrs.Int("transB", 0) != 0;
  p.alpha = attrs.Float("alpha", 1);
  p.beta = attrs.Float("beta", 1);
  if (!std::isfinite(p.alpha) || !std::isfinite(p.beta)) {
    return BadInput("alpha {} and beta {}; finite numbers are needed", p.alpha, p.beta);
  }
  if (!p.is_gemm) {
    TENON_ASSIGN_OR_RETURN(p.activation, gemm::ParseActivation(attrs));
  }
  return p;
}

Result<Geometry> Resolve(const Params& params, const Shape& a, const Shape& b) {
  TENON_ASSIGN_OR_RETURN(SymShape y, Product(a, b, params.trans_a, params.trans_b));
  Geometry g;
  auto concrete = y.ToShape();
  if (!concrete) return BadInput("batch axes of {} and {} do not broadcast", a.ToString(), b.ToString());
  g.y = *concrete;
  const bool vector_a = a.rank() == 1;
  const bool vector_b = b.rank() == 1;
  g.m = vector_a ? 1 : a.dim(params.trans_a ? -1 : -2);
  g.k = vector_a ? a[0] : a.dim(params.trans_a ? -2 : -1);
  g.n = vector_b ? 1 : b.dim(params.trans_b ? -2 : -1);
  const int batch_rank = g.y.rank() - (vector_a ? 0 : 1) - (vector_b ? 0 : 1);
  g.batch_dims = Shape(std::span<const int64_t>(g.y.begin(), static_cast<size_t>(batch_rank)));
  g.a_batch = Shape::OfRank(batch_rank);
  g.b_batch = Shape::OfRank(batch_rank);
  for (int i = 0; i < batch_rank; ++i) {
    const int ia = i - (batch_rank - (a.rank() - 2));
    const int ib = i - (batch_rank - (b.rank() - 2));
    if (!vector_a && ia >= 0) g.a_batch[i] = a[ia];
    if (!vector_b && ib >= 0) g.b_batch[i] = b[ib];
  }
  g.batch = g.batch_dims.num_elements();
  return g;
}

int64_t OperandBatch(const Shape& batch_dims, const Shape& operand_batch, int64_t i) {
  int64_t index = 0;
  int64_t scale = 1;
  for (int d = batch_dims.rank() - 1; d >= 0; --d) {
    const int64_t at = i % batch_dims[d];
    i /= batch_dims[d];
    if (operand_batch[d] != 1) index += at * scale;
    scale *= operand_batch[d];
  }
  return index;
}

Status InferMatMul(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const DType dtype, gemm::ResultType(args));
  const SymShape& a = args.in[0].shape;
  const SymShape& b = args.in[1].shape;
  if (!a.has_rank() || !b.has_rank()) return SetOutput(args, dtype, SymShape());
  TENON_ASSIGN_OR_RETURN(SymShape y, Product(a, b, false, false));
  return SetOutput(args, dtype, std::move(y));
}

Status InferGemm(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const DType dtype, gemm::ResultType(args));
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams("Gemm", args.attrs));
  const SymShape& a = args.in[0].shape;
  const SymShape& b = args.in[1].shape;
  if ((a.has_rank() && a.rank() != 2) || (b.has_rank() && b.rank() != 2)) {
    return BadInput("operands of shape {} and {}; Gemm takes matrices", a.ToString(), b.ToString());
  }
  SymShape y = SymShape::OfRank(2);
  if (a.has_rank() && b.has_rank()) {
    TENON_ASSIGN_OR_RETURN(y, Product(a, b, p.trans_a, p.trans_b));
  } else if (a.has_rank()) {
    y[0] = a[p.trans_a ? 1 : 0];
  } else if (b.has_rank()) {
    y[1] = b[p.trans_b ? 0 : 1];
  }
  if (args.Has(2) && args.in[2].shape.has_rank()) {
    const SymShape& c = args.in[2].shape;
    bool fits = c.rank() <= 2;
    for (int i = 1; fits && i <= c.rank(); ++i) {
      const Dim& d = c[c.rank() - i];
      fits = d.Is(1) || !Disagree(d, y[2 - i]);
    }
    if (!fits) return BadInput("C of shape {}; it must broadcast to {}", c.ToString(), y.ToString());
  }
  return SetOutput(args, dtype, std::move(y));
}

Status InferFusedMatMul(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const DType dtype, gemm::ResultType(args));
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams("FusedMatMul", args.attrs));
  const SymShape& a = args.in[0].shape;
  const SymShape& b = args.in[1].shape;
  if (!a.has_rank() || !b.has_rank()) return SetOutput(args, dtype, SymShape());
  if (a.rank() < 2 || b.rank() < 2) {
    return BadInput("operands of shape {} and {}; FusedMatMul takes rank 2 and more", a.ToString(), b.ToString());
  }
  TENON_ASSIGN_OR_RETURN(SymShape y, Product(a, b, p.trans_a, p.trans_b));
  if (args.Has(2) && args.in[2].shape.has_rank()) {
    const SymShape& bias = args.in[2].shape;
    if (bias.rank() != 1 || Disagree(bias[0], y[y.rank() - 1])) {
      return BadInput("bias of shape {}; [{}] is needed", bias.ToString(), y[y.rank() - 1].ToString());
    }
  }
  if (args.Has(3) && args.in[3].shape.has_rank()) {
    const SymShape& r = args.in[3].shape;
    bool same = r.rank() == y.rank();
    for (int i = 0; same && i < y.rank(); ++i) same = !Disagree(r[i], y[i]);
    if (!same) return BadInput("residual of shape {}; the result's shape {} is needed", r.ToString(), y.ToString());
  }
  return SetOutput(args, dtype, std::move(y));
}

std::span<const OpKernels> Operators() {
  static const auto matmul_rows = gemm::RowsOf(kTable, "MatMul");
  static const auto gemm_rows = gemm::RowsOf(kTable, "Gemm");
  static const auto fused_rows = gemm::RowsOf(kTable, "FusedMatMul");
  static const OpKernels ops[] = {
      {"MatMul", InferMatMul, matmul_rows, 2, 2, 1, 1},
      {"Gemm", InferGemm, gemm_rows, 2, 3, 1, 1},
      {"FusedMatMul", InferFusedMatMul, fused_rows, 2, 4, 1, 1},
  };
  return ops;
}

}  // namespace tenon::kernels::matmul
