// The table of normalisations, and how their f32 rows cut the work for the team.
#include "kernels/norm/norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/float_io.h"
#include "kernels/kernel_util.h"
#include "kernels/reduce/inner.h"
#include "kernels/through_f32.h"

namespace tenon::kernels::norm {
namespace {

constexpr int64_t kGrain = 8192;  // elements worth a thread

Refusal CanReference(const Problem& p) {
  for (const ValueInfo& v : p.in) {
    if (v.present && !IsPlainFloat(v.dtype)) return kRefuseDType;
  }
  return nullptr;
}
Refusal CanLayerF32(const Problem& p) {
  if (Refusal r = RequireF32(p)) return r;
  return p.attrs.Int("stash_type", 1) == 1 ? nullptr : kRefuseAttribute;
}
Refusal CanBatchF32(const Problem& p) {
  if (p.attrs.Int("training_mode", 0) != 0) return kRefuseAttribute;
  return RequireF32(p);
}
Refusal CanLrnF32(const Problem& p) {
  if (p.attrs.Float("beta", 0.75f) != 0.75f || !(p.attrs.Float("bias", 1.0f) > 0)) return kRefuseAttribute;
  return RequireF32(p);
}

template <const NormInner* kInner>
Status RunLayer(const LayerParams& params, const RunArgs& args) {
  TENON_ASSIGN_OR_RETURN(const LayerSizes s, CheckLayer(params, args));
  const auto input = [&](int i) -> const float* {
    return i >= 0 && args.Has(static_cast<size_t>(i)) ? args.in[static_cast<size_t>(i)].Data<float>() : nullptr;
  };
  const auto output = [&](int i) -> float* {
    const bool wanted = i >= 0 && Wants(std::span<const MutView>(args.out), static_cast<size_t>(i));
    return wanted ? args.out[static_cast<size_t>(i)].Data<float>() : nullptr;
  };
  for (const int i : {params.gamma, params.beta}) {
    // A scale that broadcasts in another way than by rows is rare: the plain way knows it.
    if (input(i) != nullptr && args.in[static_cast<size_t>(i)].num_elements() != s.n) return RunLayerReference(params, args);
  }
  TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, args.in[0].shape));
  if (s.n == 0) return {};
  const LayerRow first{input(0),
                       params.skip ? input(1) : nullptr,
                       input(params.bias),
                       input(params.gamma),
                       input(params.beta),
                       y.Data<float>(),
                       output(params.sum_out),
                       output(params.mean_out),
                       output(params.inv_out),
                       s.n,
                       params.epsilon,
                       params.subtract_mean};
  args.team.ParallelFor(s.rows, 1 + kGrain / s.n, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      LayerRow row = first;
      row.x += r * s.n;
      row.y += r * s.n;
      if (row.skip != nullptr) row.skip += r % s.skip_rows * s.n;
      if (row.sum != nullptr) row.sum += r * s.n;
      if (row.mean != nullptr) row.mean += r;
      if (row.inv != nullptr) row.inv += r;
      kInner->layer_row(row);
    }
  });
  return {};
}

// Batch normalisation keeps its folded scale and shift, [channels] each, in scratch.
template <const NormInner* kInner>
class BatchKernel final : public Kernel {
 public:
  explicit BatchKernel(const BatchParams& params) : params_(params) {}
  static Result<std::unique_ptr<Kernel>> Make(const Problem& problem) {
    TENON_ASSIGN_OR_RETURN(const BatchParams params, ParseBatch(problem.op, problem.attrs));
    return std::unique_ptr<Kernel>(std::make_unique<BatchKernel>(params));
  }
  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    Configured c;
    c.scratch_bytes = 2 * sizeof(float) * static_cast<size_t>(in[1].num_elements());
    return c;
  }
  uint32_t InPlaceInputs() const override { return 1; }
  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const ChannelSizes s, CheckChannels(args, 1, 4, "BatchNormalization"));
    TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, args.in[0].shape));
    if (out.num_elements() == 0) return {};
    auto* a = reinterpret_cast<float*>(args.scratch);
    float* b = a + s.channels;
    for (int64_t c = 0; c < s.channels; ++c) {
      a[c] = args.in[1].Data<float>()[c] / std::sqrt(args.in[4].Data<float>()[c] + params_.epsilon);
      b[c] = args.in[2].Data<float>()[c] - args.in[3].Data<float>()[c] * a[c];
    }
    const float* x = args.in[0].Data<float>();
    float* y = out.Data<float>();
    if (s.inner == 1) {
      args.team.ParallelFor(s.batch, 1 + kGrain / s.channels, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) kInner->affine_each(x + r * s.channels, y + r * s.channels, s.channels, a, b);
      });
      return {};
    }
    args.team.ParallelFor(s.batch * s.channels, 1 + kGrain / s.inner, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        kInner->affine(x + r * s.inner, y + r * s.inner, s.inner, a[r % s.channels], b[r % s.channels]);
      }
    });
    return {};
  }

 private:
  BatchParams params_;
};

template <const NormInner* kInner>
Status RunGroup(const GroupParams& params, const RunArgs& args) {
  TENON_ASSIGN_OR_RETURN(const ChannelSizes s, CheckChannels(args, 1, 2, "normalization"));
  TENON_RETURN_IF_ERROR(CheckGroups(params, s.channels));
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, args.in[0].shape));
  if (out.num_elements() == 0) return {};
  const int64_t groups = params.groups == 0 ? s.channels : params.groups;
  const int64_t members = s.channels / groups, n = members * s.inner;
  const float* x = args.in[0].Data<float>();
  const float* scale = args.in[1].Data<float>();
  const float* shift = args.in[2].Data<float>();
  float* y = out.Data<float>();
  args.team.ParallelFor(s.batch * groups, 1 + kGrain / n, [&](int64_t begin, int64_t end, int) {
    for (int64_t g = begin; g < end; ++g) {
      float mean = 0, variance = 0;
      kInner->statistics(x + g * n, n, &mean, &variance);
      const float inv = 1.0f / std::sqrt(variance + params.epsilon);
      for (int64_t m = 0; m < members; ++m) {
        const int64_t c = g % groups * members + m;
        const int64_t at = g * n + m * s.inner;
        const float a = inv * scale[c];
        kInner->affine(x + at, y + at, s.inner, a, shift[c] - mean * a);
      }
    }
  });
  return {};
}

template <const NormInner* kInner>
Status RunLrn(const LrnParams& params, const RunArgs& args) {
  const Shape& s = args.in[0].shape;
  if (s.rank() < 2) return BadInput("LRN: x has rank {}; allowed: 2 or more", s.rank());
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, s));
  if (s.num_elements() == 0) return {};
  const int64_t channels = s[1], inner = s.Product(2, s.rank());
  const float* x = args.in[0].Data<float>();
  float* y = out.Data<float>();
  const float scale = params.alpha / static_cast<float>(params.size);
  args.team.ParallelFor(s[0] * channels, 1 + kGrain / inner, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t c = r % channels;
      const int64_t first = std::max<int64_t>(-c, -((params.size - 1) / 2));
      const int64_t last = std::min<int64_t>(channels - 1 - c, params.size / 2);
      kInner->lrn075(x + r * inner, y + r * inner, inner, inner, first, last, scale, params.bias);
    }
  });
  return {};
}

// Rows whose sum leaves the comfortable range of f32 are added in double.
template <const NormInner* kInner, const reduce::ReduceInner* kReduce>
Status RunLp(const LpParams& params, const RunArgs& args) {
  const Shape& s = args.in[0].shape;
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(params.axis, s.rank()));
  if (s.Product(axis + 1, s.rank()) != 1 || s.num_elements() == 0) return RunLpReference(params, args);
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, s));
  const int64_t n = s[axis];
  const auto kind = params.p == 1 ? reduce::Kind::kL1 : reduce::Kind::kSumSquare;
  args.team.ParallelFor(s.Product(0, axis), 1 + kGrain / n, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = args.in[0].Data<float>() + r * n;
      float* y = out.Data<float>() + r * n;
      const float sum = kReduce->run(kind, x, n, 0);
      if (sum > 1e-30f && sum < 1e30f) {
        kInner->affine(x, y, n, 1.0f / (params.p == 1 ? sum : std::sqrt(sum)), 0.0f);
        continue;
      }
      double norm = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double v = x[i];
        norm += params.p == 1 ? std::fabs(v) : v * v;
      }
      if (params.p == 2) norm = std::sqrt(norm);
      for (int64_t i = 0; i < n; ++i) y[i] = norm == 0 ? 0 : static_cast<float>(static_cast<double>(x[i]) / norm);
    }
  });
  return {};
}

// Statistics by channel over everything behind it, and over the batch when axis 0 is averaged too; other axes go the plain way.
template <const NormInner* kInner>
Status RunMvn(const MvnParams& params, const RunArgs& args) {
  const Shape& s = args.in[0].shape;
  uint32_t mask = 0;
  for (const int64_t a : params.axes) {
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(a, s.rank()));
    mask |= 1u << axis;
  }
  const uint32_t behind = s.rank() > 2 ? ((1u << s.rank()) - 1) & ~3u : 0;
  if (behind == 0 || (mask & ~1u) != behind || s.num_elements() == 0) return RunMvnReference(params, args);
  TENON_ASSIGN_OR_RETURN(const MutView out, TakeOutput(args, 0, s));
  const int64_t channels = s[1], inner = s.Product(2, s.rank());
  const int64_t batch = (mask & 1) != 0 ? s[0] : 1, groups = s[0] / batch;  // images of one average, and averages of a channel
  const float* x = args.in[0].Data<float>();
  float* y = out.Data<float>();
  args.team.ParallelFor(groups * channels, 1 + kGrain / (batch * inner), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / channels * batch * channels + i % channels;
      double sum = 0, squares = 0;
      for (int64_t b = 0; b < batch; ++b) {
        float mean = 0, variance = 0;
        kInner->statistics(x + (first + b * channels) * inner, inner, &mean, &variance);
        sum += static_cast<double>(mean);
        squares += static_cast<double>(variance) + static_cast<double>(mean) * static_cast<double>(mean);
      }
      const double mean = sum / static_cast<double>(batch);
      const double variance = std::max(0.0, squares / static_cast<double>(batch) - mean * mean);
      const double a = 1 / (std::sqrt(variance) + 1e-9);
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t at = (first + b * channels) * inner;
        kInner->affine(x + at, y + at, inner, static_cast<float>(a), static_cast<float>(-mean * a));
      }
    }
  });
  return {};
}

// x and skip may be overwritten: element i of a row is read for the last time before it is written.
constexpr auto MakeLayerAvx2 = MakeParam<LayerParams, ParseLayer, RunLayer<&kNormAvx2>, 1>;
constexpr auto MakeLayerAvx512 = MakeParam<LayerParams, ParseLayer, RunLayer<&kNormAvx512>, 1>;
constexpr auto MakeLayerReference = MakeParam<LayerParams, ParseLayer, RunLayerReference>;
constexpr auto MakeBatchAvx2 = BatchKernel<&kNormAvx2>::Make;
constexpr auto MakeBatchAvx512 = BatchKernel<&kNormAvx512>::Make;
constexpr auto MakeBatchReference = MakeParam<BatchParams, ParseBatch, RunBatchReference>;
constexpr auto MakeGroupAvx2 = MakeParam<GroupParams, ParseGroup, RunGroup<&kNormAvx2>, 1>;
constexpr auto MakeGroupAvx512 = MakeParam<GroupParams, ParseGroup, RunGroup<&kNormAvx512>, 1>;
constexpr auto MakeGroupReference = MakeParam<GroupParams, ParseGroup, RunGroupReference>;
constexpr auto MakeLrnAvx2 = MakeParam<LrnParams, ParseLrn, RunLrn<&kNormAvx2>>;
constexpr auto MakeLrnAvx512 = MakeParam<LrnParams, ParseLrn, RunLrn<&kNormAvx512>>;
constexpr auto MakeLrnReference = MakeParam<LrnParams, ParseLrn, RunLrnReference>;
constexpr auto MakeMvnReference = MakeParam<MvnParams, ParseMvn, RunMvnReference>;
constexpr auto MakeMvnAvx2 = MakeParam<MvnParams, ParseMvn, RunMvn<&kNormAvx2>>;
constexpr auto MakeMvnAvx512 = MakeParam<MvnParams, ParseMvn, RunMvn<&kNormAvx512>>;
constexpr auto MakeLpAvx2 = MakeParam<LpParams, ParseLp, RunLp<&kNormAvx2, &reduce::kReduceAvx2>>;
constexpr auto MakeLpAvx512 = MakeParam<LpParams, ParseLp, RunLp<&kNormAvx512, &reduce::kReduceAvx512>>;
constexpr auto MakeLpReference = MakeParam<LpParams, ParseLp, RunLpReference>;

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, isa, can, make) {group, {name, isa, can, make}},
#include "kernels/norm/kernels.inc"
#undef KERNEL
};

}  // namespace

std::span<const OpKernels> Operators() {
  static const std::vector<Row> layer = RowsOf(kTable, "Layer"), batch = RowsOf(kTable, "Batch"), group = RowsOf(kTable, "Group"),
                                lrn = RowsOf(kTable, "Lrn"), mvn = RowsOf(kTable, "Mvn"), lp = RowsOf(kTable, "Lp");
  static const OpKernels ops[] = {
      {"LayerNormalization", InferLayer, layer, 2, 3, 1, 3},
      {"RMSNormalization", InferLayer, layer, 2, 2, 1, 1},
      {"SimplifiedLayerNormalization", InferLayer, layer, 2, 2, 1, 2},
      {"SkipLayerNormalization", InferSkipLayer, layer, 3, 5, 1, 4},
      {"SkipSimplifiedLayerNormalization", InferSkipLayer, layer, 3, 4, 1, 4},
      {"BatchNormalization", InferBatch, batch, 5, 5, 1, 3},
      {"InstanceNormalization", InferSame, group, 3, 3},
      {"GroupNormalization", InferSame, group, 3, 3},
      {"LRN", InferSame, lrn, 1, 1},
      {"MeanVarianceNormalization", InferSame, mvn, 1, 1},
      {"LpNormalization", InferSame, lp, 1, 1},
  };
  return ops;
}

}  // namespace tenon::kernels::norm
