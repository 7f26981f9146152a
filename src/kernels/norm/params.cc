// Attributes, shape rules and checks of normalisations.
#include "kernels/kernel_util.h"
#include "kernels/norm/norm.h"

namespace tenon::kernels::norm {

Result<LayerParams> ParseLayer(std::string_view op, const Attrs& attrs) {
  LayerParams p;
  p.skip = op.starts_with("Skip");
  p.subtract_mean = op == "LayerNormalization" || op == "SkipLayerNormalization";
  p.axis = p.skip ? -1 : attrs.Int("axis", -1);
  p.epsilon = attrs.Float("epsilon", p.skip ? 1e-12f : 1e-5f);
  if (!(p.epsilon >= 0)) return BadInput("epsilon is {}; allowed: 0 or more", p.epsilon);
  const int64_t stash = attrs.Int("stash_type", 1);
  if (stash != 1 && stash != 10 && stash != 11 && stash != 16) {
    return BadInput("stash_type is {}; allowed: 1 (float32), 10 (float16), 11 (float64), 16 (bfloat16)", stash);
  }
  p.stash = static_cast<DType>(stash);
  if (p.skip) {
    p.gamma = 2;
    p.beta = p.subtract_mean ? 3 : -1;
    p.bias = p.subtract_mean ? 4 : 3;
    p.mean_out = 1, p.inv_out = 2, p.sum_out = 3;
  } else if (op == "LayerNormalization") {
    p.beta = 2, p.mean_out = 1, p.inv_out = 2;
  } else if (op == "SimplifiedLayerNormalization") {
    p.inv_out = 1;
  }
  return p;
}

Result<BatchParams> ParseBatch(std::string_view /*op*/, const Attrs& attrs) {
  return BatchParams{attrs.Float("epsilon", 1e-5f), attrs.Float("momentum", 0.9f), attrs.Int("training_mode", 0) != 0};
}

Result<GroupParams> ParseGroup(std::string_view op, const Attrs& attrs) {
  GroupParams p;
  p.epsilon = attrs.Float("epsilon", 1e-5f);
  if (op == "GroupNormalization") {
    p.groups = attrs.Int("num_groups", 0);
    if (p.groups < 1) return BadInput("num_groups is {}; allowed: 1 or more", p.groups);
  }
  return p;
}

Result<LrnParams> ParseLrn(std::string_view /*op*/, const Attrs& attrs) {
  LrnParams p{attrs.Int("size", 0), attrs.Float("alpha", 1e-4f), attrs.Float("beta", 0.75f), attrs.Float("bias", 1.0f)};
  if (p.size < 1) return BadInput("size is {}; allowed: 1 or more", p.size);
  return p;
}

Result<MvnParams> ParseMvn(std::string_view /*op*/, const Attrs& attrs) {
  return MvnParams{attrs.Ints("axes", {0, 2, 3})};
}

Result<LpParams> ParseLp(std::string_view /*op*/, const Attrs& attrs) {
  LpParams p{attrs.Int("axis", -1), attrs.Int("p", 2)};
  if (p.p != 1 && p.p != 2) return BadInput("p is {}; allowed: 1, 2", p.p);
  return p;
}

namespace {

// [leading axes..., 1, ...]: the shape of statistics.
SymShape StatisticsShape(const SymShape& x, int axis) {
  SymShape s = x;
  for (int i = axis; i < x.rank(); ++i) s[i] = Dim(1);
  return s;
}

}  // namespace

Status InferLayer(const ShapeArgs& args) {
  const ValueInfo& x = args.in[0];
  SymShape statistics;
  if (x.shape.has_rank()) {
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(args.attrs.Int("axis", -1), x.shape.rank()));
    statistics = StatisticsShape(x.shape, axis);
  }
  const auto stash = static_cast<DType>(args.attrs.Int("stash_type", 1));
  if (!IsFloat(stash)) return BadInput("stash_type is {}; allowed: a float type", static_cast<int>(stash));
  SetOutput(args, 0, x.dtype, x.shape);
  SetOutput(args, 1, stash, statistics);
  SetOutput(args, 2, stash, statistics);
  return {};
}

Status InferSkipLayer(const ShapeArgs& args) {
  const ValueInfo& x = args.in[0];
  SymShape statistics;
  if (x.shape.has_rank()) {
    TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(-1, x.shape.rank()));
    statistics = StatisticsShape(x.shape, axis);
  }
  SetOutput(args, 0, x.dtype, x.shape);
  SetOutput(args, 1, DType::kF32, statistics);
  SetOutput(args, 2, DType::kF32, statistics);
  SetOutput(args, 3, x.dtype, x.shape);
  return {};
}

Status InferBatch(const ShapeArgs& args) {
  SetOutput(args, 0, args.in[0].dtype, args.in[0].shape);
  if (args.attrs.Int("training_mode", 0) == 0) {
    if (Wants(std::span<const ValueInfo>(args.out), 1)) {
      return BadInput("BatchNormalization gives running statistics in training mode only");
    }
    return {};
  }
  SetOutput(args, 1, args.in[3].dtype, args.in[3].shape);
  SetOutput(args, 2, args.in[4].dtype, args.in[4].shape);
  return {};
}

Result<LayerSizes> CheckLayer(const LayerParams& params, const RunArgs& args) {
  const Shape& x = args.in[0].shape;
  TENON_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(params.axis, x.rank()));
  LayerSizes s;
  s.rows = x.Product(0, axis);
  s.n = x.Product(axis, x.rank());
  if (!params.skip) return s;
  const Shape& skip = args.in[1].shape;
  bool ok = skip.rank() >= 1 && skip.rank() <= x.rank();
  bool full = false;  // leading axes may be 1 until the first that is not
  for (int i = 0; ok && i < skip.rank(); ++i) {
    const int64_t want = x[x.rank() - skip.rank() + i];
    if (skip[i] != 1 || i + 1 == skip.rank()) full = true;
    ok = full ? skip[i] == want : true;
  }
  if (!ok) return BadInput("skip is {}; allowed: the shape of x, {}, or its last axes", skip.ToString(), x.ToString());
  s.skip_rows = s.n == 0 ? 1 : std::max<int64_t>(1, skip.num_elements() / s.n);
  for (const int i : {params.gamma, params.beta, params.bias}) {
    if (i >= 0 && args.Has(static_cast<size_t>(i)) && args.in[static_cast<size_t>(i)].num_elements() != s.n) {
      return BadInput("input {} is {}; allowed: [{}]", i, args.in[static_cast<size_t>(i)].shape.ToString(), s.n);
    }
  }
  return s;
}

Result<ChannelSizes> CheckChannels(const RunArgs& args, size_t first, size_t last, const char* op) {
  const Shape& x = args.in[0].shape;
  if (x.rank() < 1) return BadInput("{}: x has rank 0; allowed: 1 or more", op);
  ChannelSizes s{x[0], x.rank() > 1 ? x[1] : 1, x.Product(2, x.rank() > 1 ? x.rank() : 2)};
  for (size_t i = first; i <= last; ++i) {
    const Shape& p = args.in[i].shape;
    if (p.rank() != 1 || p[0] != s.channels) {
      return BadInput("{}: input {} is {}; allowed: [{}], one for each channel", op, i, p.ToString(), s.channels);
    }
  }
  return s;
}

Status CheckGroups(const GroupParams& params, int64_t channels) {
  if (params.groups != 0 && channels % params.groups != 0) {
    return BadInput("num_groups is {}; allowed: a divisor of the {} channels", params.groups, channels);
  }
  return {};
}

}  // namespace tenon::kernels::norm
