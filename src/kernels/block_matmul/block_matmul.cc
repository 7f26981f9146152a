// Table and shape rules of products with weights in blocks.
#include "kernels/block_matmul/block_matmul.h"

#include <cmath>

#include "kernels/kernel_util.h"

namespace tenon::kernels::block_matmul {
namespace {

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, needs, can, make) {group, {name, needs, can, make}},
#include "kernels/block_matmul/kernels.inc"
#undef KERNEL
};

Result<const BlockFormat*> FormatOf(const std::string& name) {
  const BlockFormat* f = FindBlockFormat(name);
  if (f == nullptr) return BadInput("block format '{}' is not known", name);
  return f;
}

// Rows and elements of a row of packed weights.
struct Extents {
  int64_t n = 0, k = 0;
};
Result<Extents> WeightExtents(const ValueInfo& w, const BlockFormat& format, size_t input) {
  if (w.dtype != DType::kU8) return BadInput("input {} is {}; uint8 needed", input, DTypeName(w.dtype));
  if (!w.shape.has_rank() || w.shape.rank() != 2 || !w.shape[0].is_const() || !w.shape[1].is_const()) {
    return BadInput("input {} has shape {}; [rows, bytes of a row] needed", input, w.shape.ToString());
  }
  const Extents e{w.shape[0].value(), format.RowElements(w.shape[1].value())};
  if (e.k < 1 || e.n < 1) {
    return BadInput("input {} has shape {}; rows of whole {} blocks of {} bytes needed", input, w.shape.ToString(), format.name,
                    format.bytes);
  }
  return e;
}

bool Differ(const Dim& a, int64_t b) {
  return a.is_const() && a.value() != b;
}

}  // namespace

Result<Params> ParseParams(const Attrs& attrs) {
  Params p;
  for (const std::string& name : attrs.Strings("formats")) {
    TENON_ASSIGN_OR_RETURN(const BlockFormat* f, FormatOf(name));
    p.formats.push_back(f);
  }
  if (p.formats.empty()) return BadInput("attribute formats is missing");
  const std::string gate = attrs.String("gate", "");
  if (gate == "silu") {
    p.gate = Gate::kSilu;
  } else if (gate == "gelu") {
    p.gate = Gate::kGelu;
  } else if (!gate.empty()) {
    return BadInput("gate '{}'; allowed: silu, gelu", gate);
  }
  if (p.gate != Gate::kNone && p.formats.size() != 2) return BadInput("{} weights with a gate; two needed", p.formats.size());
  return p;
}

float ApplyGate(Gate gate, float x) {
  switch (gate) {
    case Gate::kSilu: return x / (1.0f + std::exp(-x));
    case Gate::kGelu: return 0.5f * x * (1.0f + std::tanh(0.79788456080286535588f * x * (1.0f + 0.044715f * x * x)));
    case Gate::kNone: break;
  }
  return x;
}

Status InferBlockMatMul(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams(args.attrs));
  const ValueInfo& x = args.in[0];
  if (x.dtype != DType::kUndefined && x.dtype != DType::kF32) return BadInput("X is {}; float32 needed", DTypeName(x.dtype));
  if (args.in.size() > WeightInput(p.formats.size())) {
    return BadInput("{} inputs for {} formats", args.in.size(), p.formats.size());
  }
  int64_t n = 0, k = 0, first_n = 0;
  for (size_t i = 0; i < p.formats.size(); ++i) {
    const size_t at = WeightInput(i);
    if (!args.Has(at)) return BadInput("input {} is missing", at);
    TENON_ASSIGN_OR_RETURN(const Extents e, WeightExtents(args.in[at], *p.formats[i], at));
    if (i > 0 && (e.k != k || (p.gate != Gate::kNone && e.n != first_n))) {
      return BadInput("input {} has {} rows of {} elements; {} of {} needed", at, e.n, e.k, first_n, k);
    }
    if (i == 0) k = e.k, first_n = e.n;
    n += e.n;
    const size_t bias = BiasInput(i);
    if (!args.Has(bias)) continue;
    const ValueInfo& b = args.in[bias];
    if (b.dtype != DType::kF32 || !b.shape.has_rank() || b.shape.rank() != 1 || Differ(b.shape[0], e.n)) {
      return BadInput("input {} is {} {}; float32 [{}] needed", bias, DTypeName(b.dtype), b.shape.ToString(), e.n);
    }
  }
  if (p.gate != Gate::kNone) n = first_n;
  if (!x.shape.has_rank()) {
    SetOutput(args, 0, DType::kF32, SymShape());
    return {};
  }
  if (x.shape.rank() < 1 || Differ(x.shape[x.shape.rank() - 1], k)) {
    return BadInput("X has shape {}; rows of {} needed", x.shape.ToString(), k);
  }
  std::vector<Dim> dims(x.shape.dims().begin(), x.shape.dims().end());
  dims.back() = Dim(n);
  const SymShape shape(dims);
  if (args.Has(1)) {
    const ValueInfo& r = args.in[1];
    bool same = r.dtype == DType::kF32 && (!r.shape.has_rank() || r.shape.rank() == shape.rank());
    for (int i = 0; same && r.shape.has_rank() && i < shape.rank(); ++i)
      same = !shape[i].is_const() || !Differ(r.shape[i], shape[i].value());
    if (!same)
      return BadInput("the residual is {} {}; float32 {} needed", DTypeName(r.dtype), r.shape.ToString(), shape.ToString());
  }
  SetOutput(args, 0, DType::kF32, shape);
  return {};
}

Status InferBlockGather(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const BlockFormat* f, FormatOf(args.attrs.String("format", "")));
  TENON_ASSIGN_OR_RETURN(const Extents e, WeightExtents(args.in[0], *f, 0));
  const ValueInfo& ids = args.in[1];
  if (ids.dtype != DType::kUndefined && ids.dtype != DType::kI32 && ids.dtype != DType::kI64) {
    return BadInput("ids are {}; int32 or int64 needed", DTypeName(ids.dtype));
  }
  if (!ids.shape.has_rank()) {
    SetOutput(args, 0, DType::kF32, SymShape());
    return {};
  }
  std::vector<Dim> dims(ids.shape.dims().begin(), ids.shape.dims().end());
  dims.push_back(Dim(e.k));
  SetOutput(args, 0, DType::kF32, SymShape(dims));
  return {};
}

// Which rows there are is known in a run only.
Status InferSelectRows(const ShapeArgs& args) {
  const ValueInfo& x = args.in[0];
  if (x.dtype != DType::kUndefined && x.dtype != DType::kF32) return BadInput("x is {}; float32 needed", DTypeName(x.dtype));
  if (x.shape.has_rank() && x.shape.rank() < 1) return BadInput("x is a scalar; at least rank 1 needed");
  SetOutput(args, 0, DType::kF32, SymShape());
  return {};
}

std::span<const OpKernels> Operators() {
  static const auto matmul = RowsOf(kTable, "BlockMatMul");
  static const auto gather = RowsOf(kTable, "BlockGather");
  static const auto select = RowsOf(kTable, "SelectRows");
  static const OpKernels operators[] = {
      {"BlockMatMul", InferBlockMatMul, matmul, 1, kVariadic, 1, 1},
      {"BlockGather", InferBlockGather, gather, 2, 2, 1, 1},
      {"SelectRows", InferSelectRows, select, 1, 1, 1, 1},
  };
  return operators;
}

}  // namespace tenon::kernels::block_matmul
