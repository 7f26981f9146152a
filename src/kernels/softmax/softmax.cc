// The table of the softmax family, its attributes and shape rule, and how the work is cut for the team.
#include "kernels/softmax/softmax.h"

#include <algorithm>
#include <cstring>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/reduce/inner.h"
#include "kernels/through_f32.h"

namespace tenon::kernels::softmax {
namespace {

Status Infer(const ShapeArgs& args) {
  const SymShape& x = args.in[0].shape;
  if (x.has_rank()) {
    TENON_RETURN_IF_ERROR(NormalizeAxis(args.attrs.Int("axis", -1), x.rank()).status());
  }
  return InferSame(args);
}

Refusal CanReference(const Problem& p) {
  return IsPlainFloat(p.in[0].dtype) ? nullptr : kRefuseDType;
}

template <const SoftmaxInner* kInner>
Status RunFast(const SoftmaxParams& params, const RunArgs& args) {
  const Shape& s = args.in[0].shape;
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(params.axis, s.rank()));
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, s));
  if (s.num_elements() == 0) return {};
  const int64_t outer = s.Product(0, axis), n = s[axis], inner = s.Product(axis + 1, s.rank());
  const float* x = args.in[0].Data<float>();
  float* y = out.Data<float>();
  constexpr int64_t kGrain = 8192;  // elements; an exponential costs about ten plain operations
  if (inner == 1) {
    args.team.ParallelFor(outer, 1 + kGrain / n, [&](int64_t begin, int64_t end, int) {
      kInner->rows(params.kind, x + begin * n, y + begin * n, end - begin, n);
    });
    return {};
  }
  constexpr int64_t kWidth = 64;
  const int64_t blocks = (inner + kWidth - 1) / kWidth;
  args.team.ParallelFor(outer * blocks, 1 + kGrain / (n * kWidth), [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t j = b % blocks * kWidth;
      const int64_t offset = b / blocks * n * inner + j;
      kInner->columns(params.kind, x + offset, y + offset, n, inner, std::min(kWidth, inner - j));
    }
  });
  return {};
}

// A row of zeros with a one where the first maximum, or the first NaN, is.
template <const reduce::ReduceInner* kReduce>
Status RunHardmax(const SoftmaxParams& params, const RunArgs& args) {
  const Shape& s = args.in[0].shape;
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(params.axis, s.rank()));
  if (s.num_elements() == 0 || s.Product(axis + 1, s.rank()) != 1) return RunSoftmaxReference(params, args);
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, s));
  const int64_t n = s[axis];
  args.team.ParallelFor(s.Product(0, axis), 1 + 32768 / n, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* y = out.Data<float>() + r * n;
      const int64_t at = kReduce->arg(true, false, args.in[0].Data<float>() + r * n, n);
      std::memset(y, 0, static_cast<size_t>(n) * sizeof(float));
      y[at] = 1;
    }
  });
  return {};
}

constexpr auto MakeHardmaxAvx2 = MakeParam<SoftmaxParams, ParseSoftmax, RunHardmax<&reduce::kReduceAvx2>>;
constexpr auto MakeHardmaxAvx512 = MakeParam<SoftmaxParams, ParseSoftmax, RunHardmax<&reduce::kReduceAvx512>>;
constexpr auto MakeReference = MakeParam<SoftmaxParams, ParseSoftmax, RunSoftmaxReference>;
constexpr auto MakeAvx2 = MakeParam<SoftmaxParams, ParseSoftmax, RunFast<&kSoftmaxAvx2>, 1>;
constexpr auto MakeAvx512 = MakeParam<SoftmaxParams, ParseSoftmax, RunFast<&kSoftmaxAvx512>, 1>;

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, isa, can, make) {group, {name, isa, can, make}},
#include "kernels/softmax/kernels.inc"
#undef KERNEL
};

}  // namespace

Result<SoftmaxParams> ParseSoftmax(std::string_view op, const Attrs& attrs) {
  SoftmaxParams p;
  p.kind = op == "Hardmax" ? Kind::kHardmax : op == "LogSoftmax" ? Kind::kLogSoftmax : Kind::kSoftmax;
  p.axis = attrs.Int("axis", -1);
  return p;
}

std::span<const OpKernels> Operators() {
  static const std::vector<Row> softmax = RowsOf(kTable, "Softmax");
  static const std::vector<Row> hardmax = RowsOf(kTable, "Hardmax");
  static const OpKernels ops[] = {
      {"Softmax", Infer, softmax, 1, 1},
      {"LogSoftmax", Infer, softmax, 1, 1},
      {"Hardmax", Infer, hardmax, 1, 1},
  };
  return ops;
}

}  // namespace tenon::kernels::softmax
