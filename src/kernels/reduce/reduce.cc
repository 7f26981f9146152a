// The table of reductions and their attributes.
#include "kernels/reduce/reduce.h"

#include <algorithm>

#include "kernels/kernel_util.h"
#include "kernels/reduce/shape.h"
#include "kernels/through_f32.h"

namespace tenon::kernels::reduce {
namespace {

struct Op {
  std::string_view name;
  Kind kind;
};
constexpr Op kOps[] = {
    {"ReduceSum", Kind::kSum},
    {"ReduceMean", Kind::kMean},
    {"ReduceMax", Kind::kMax},
    {"ReduceMin", Kind::kMin},
    {"ReduceProd", Kind::kProd},
    {"ReduceL1", Kind::kL1},
    {"ReduceL2", Kind::kL2},
    {"ReduceLogSum", Kind::kLogSum},
    {"ReduceLogSumExp", Kind::kLogSumExp},
    {"ReduceSumSquare", Kind::kSumSquare},
};

template <Kind kKind>
Status Infer(const ShapeArgs& args) {
  return InferReduce(kKind, args);
}

bool IsReference(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kF16 || t == DType::kBF16 || (IsInteger(t) && DTypeBits(t) >= 8);
}
Refusal CanReduceReference(const Problem& p) {
  const bool order = p.op == "ReduceMax" || p.op == "ReduceMin";
  return IsReference(p.in[0].dtype) || (order && p.in[0].dtype == DType::kBool) ? nullptr : kRefuseDType;
}
Refusal CanArgReference(const Problem& p) {
  return IsReference(p.in[0].dtype) ? nullptr : kRefuseDType;
}

template <const ReduceInner* kInner>
Status RunReduceFast(const ReduceParams& params, const RunArgs& args) {
  TENON_ASSIGN_OR_RETURN(const uint32_t mask, AxesMask(params, args));
  const Shape& s = args.in[0].shape;
  // Merge runs of kept and of reduced axes; extents of 1 belong to either.
  int64_t extent[kMaxRank];
  bool reduced[kMaxRank];
  int n = 0;
  for (int i = 0; i < s.rank(); ++i) {
    if (s[i] == 1) continue;
    const bool r = (mask >> i & 1) != 0;
    if (n > 0 && reduced[n - 1] == r) {
      extent[n - 1] *= s[i];
    } else {
      extent[n] = s[i];
      reduced[n++] = r;
    }
  }
  const int first = n > 0 && !reduced[0] ? 1 : 0;
  if (n - first == 3 && s.num_elements() != 0 && params.kind != Kind::kLogSumExp) {  // [kept] reduced kept reduced
    TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, ReducedShape(s, mask, params.keepdims)));
    ReduceAroundF32(*kInner, params.kind, first == 1 ? extent[0] : 1, extent[first], extent[first + 1], extent[first + 2],
                    args.in[0].Data<float>(), out.Data<float>(), args.team);
    return {};
  }
  // Patterns served: [kept] reduced [kept]; the rest, and empty tensors, go the plain way.
  if (n - first > 2 || s.num_elements() == 0) return RunReduceReference(params, args);
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, ReducedShape(s, mask, params.keepdims)));
  Collapsed c;
  if (first == 1) c.outer = extent[0];
  if (n > first) c.reduce = extent[first];
  if (n > first + 1) c.inner = extent[first + 1];
  if (n == 1 && first == 1) {  // nothing reduced: columns of one row vectorise best
    c.outer = 1;
    c.inner = extent[0];
  }
  ReduceF32(*kInner, params.kind, c, args.in[0].Data<float>(), out.Data<float>(), args.team);
  return {};
}

template <const ReduceInner* kInner>
Status RunArgFast(const ArgParams& params, const RunArgs& args) {
  const Shape& s = args.in[0].shape;
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(params.axis, s.rank()));
  const int64_t n = s[axis];
  const int64_t inner = s.Product(axis + 1, s.rank());
  if (s.num_elements() == 0 || (inner != 1 && n > kMaxArgRows)) return RunArgReference(params, args);
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, ReducedShape(s, 1u << axis, params.keepdims)));
  const float* x = args.in[0].Data<float>();
  int64_t* y = out.Data<int64_t>();
  if (inner != 1) {
    constexpr int64_t kWidth = 64;  // four lines of cache
    const int64_t blocks = (inner + kWidth - 1) / kWidth;
    args.team.ParallelFor(s.Product(0, axis) * blocks, 1 + 16384 / (n * kWidth), [&](int64_t begin, int64_t end, int) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t o = b / blocks;
        const int64_t j = b % blocks * kWidth;
        kInner->arg_columns(params.max, params.select_last_index, x + o * n * inner + j, n, std::min(kWidth, inner - j), inner,
                            y + o * inner + j);
      }
    });
    return {};
  }
  args.team.ParallelFor(s.Product(0, axis), 1 + 40000 / n, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) y[i] = kInner->arg(params.max, params.select_last_index, x + i * n, n);
  });
  return {};
}

constexpr auto MakeReduceReference = MakeParam<ReduceParams, ParseReduce, RunReduceReference>;
constexpr auto MakeReduceAvx2 = MakeParam<ReduceParams, ParseReduce, RunReduceFast<&kReduceAvx2>>;
constexpr auto MakeReduceAvx512 = MakeParam<ReduceParams, ParseReduce, RunReduceFast<&kReduceAvx512>>;
constexpr auto MakeArgReference = MakeParam<ArgParams, ParseArg, RunArgReference>;
constexpr auto MakeArgAvx2 = MakeParam<ArgParams, ParseArg, RunArgFast<&kReduceAvx2>>;
constexpr auto MakeArgAvx512 = MakeParam<ArgParams, ParseArg, RunArgFast<&kReduceAvx512>>;

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, isa, can, make) {group, {name, isa, can, make}},
#include "kernels/reduce/kernels.inc"
#undef KERNEL
};

}  // namespace

Result<ReduceParams> ParseReduce(std::string_view op, const Attrs& attrs) {
  ReduceParams p;
  for (const Op& o : kOps) {
    if (o.name == op) p.kind = o.kind;
  }
  p.keepdims = attrs.Int("keepdims", 1) != 0;
  p.noop_with_empty_axes = attrs.Int("noop_with_empty_axes", 0) != 0;
  return p;
}

Result<ArgParams> ParseArg(std::string_view op, const Attrs& attrs) {
  ArgParams p;
  p.max = op == "ArgMax";
  p.axis = attrs.Int("axis", 0);
  p.keepdims = attrs.Int("keepdims", 1) != 0;
  p.select_last_index = attrs.Int("select_last_index", 0) != 0;
  return p;
}

std::span<const OpKernels> Operators() {
  static const std::vector<Row> reduce = RowsOf(kTable, "Reduce");
  static const std::vector<Row> arg = RowsOf(kTable, "Arg");
  static const OpKernels ops[] = {
      {"ReduceSum", Infer<Kind::kSum>, reduce, 1, 2},
      {"ReduceMean", Infer<Kind::kMean>, reduce, 1, 2},
      {"ReduceMax", Infer<Kind::kMax>, reduce, 1, 2},
      {"ReduceMin", Infer<Kind::kMin>, reduce, 1, 2},
      {"ReduceProd", Infer<Kind::kProd>, reduce, 1, 2},
      {"ReduceL1", Infer<Kind::kL1>, reduce, 1, 2},
      {"ReduceL2", Infer<Kind::kL2>, reduce, 1, 2},
      {"ReduceLogSum", Infer<Kind::kLogSum>, reduce, 1, 2},
      {"ReduceLogSumExp", Infer<Kind::kLogSumExp>, reduce, 1, 2},
      {"ReduceSumSquare", Infer<Kind::kSumSquare>, reduce, 1, 2},
      {"ArgMax", InferArg, arg, 1, 1},
      {"ArgMin", InferArg, arg, 1, 1},
  };
  return ops;
}

}  // namespace tenon::kernels::reduce
