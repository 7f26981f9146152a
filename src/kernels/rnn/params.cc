// Attributes and shape rules of the recurrent layers.
#include <algorithm>
#include <cctype>
#include <limits>

#include "kernels/rnn/rnn.h"

namespace tenon::kernels::rnn {
namespace {

struct Named {
  std::string_view name;
  ActivationKind kind;
  bool has_alpha, has_beta;
  float alpha, beta;
};

constexpr Named kActivations[] = {
    {"relu", ActivationKind::kRelu, false, false, 0, 0},
    {"tanh", ActivationKind::kTanh, false, false, 0, 0},
    {"sigmoid", ActivationKind::kSigmoid, false, false, 0, 0},
    {"affine", ActivationKind::kAffine, true, true, 1.0f, 0},
    {"leakyrelu", ActivationKind::kLeakyRelu, true, false, 0.01f, 0},
    {"thresholdedrelu", ActivationKind::kThresholdedRelu, true, false, 1.0f, 0},
    {"scaledtanh", ActivationKind::kScaledTanh, true, true, 1.0f, 1.0f},
    {"hardsigmoid", ActivationKind::kHardSigmoid, true, true, 0.2f, 0.5f},
    {"elu", ActivationKind::kElu, true, false, 1.0f, 0},
    {"softsign", ActivationKind::kSoftsign, false, false, 0, 0},
    {"softplus", ActivationKind::kSoftplus, false, false, 0, 0},
};

std::string Lower(std::string s) {
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

// alpha and beta are consumed in the order of the functions that have one.
Status ParseActivations(const Attrs& attrs, Params* p) {
  std::vector<std::string> names = attrs.Strings("activations");
  if (names.empty()) {
    for (int d = 0; d < p->dirs; ++d) {
      if (p->cell != Cell::kRnn) names.push_back("Sigmoid");
      for (int i = p->cell == Cell::kRnn ? 0 : 1; i < p->functions; ++i) names.push_back("Tanh");
    }
  }
  const size_t want = static_cast<size_t>(p->functions * p->dirs);
  if (names.size() != want) {
    return BadInput("{} activations given; attribute activations; {} needed: {} for each of {} directions", names.size(), want,
                    p->functions, p->dirs);
  }
  const std::vector<float> alphas = attrs.Floats("activation_alpha");
  const std::vector<float> betas = attrs.Floats("activation_beta");
  size_t next_alpha = 0;
  size_t next_beta = 0;
  for (size_t i = 0; i < want; ++i) {
    const std::string lower = Lower(names[i]);
    const auto* found =
        std::find_if(std::begin(kActivations), std::end(kActivations), [&](const Named& n) { return n.name == lower; });
    if (found == std::end(kActivations)) {
      return BadInput(
          "activation '{}'; attribute activations; allowed: Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, "
          "ScaledTanh, HardSigmoid, Elu, Softsign, Softplus",
          names[i]);
    }
    Activation& a = p->activations[i];
    a = {found->kind, found->alpha, found->beta};
    if (found->has_alpha && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    if (found->has_beta && next_beta < betas.size()) a.beta = betas[next_beta++];
  }
  return Status::Ok();
}

// Sets *dim to what the shape says at `axis`; a contradiction between two numbers is an error.
Status Meet(const ValueInfo& v, const char* what, int axis, Dim* dim) {
  if (!v.present || !v.shape.has_rank()) return Status::Ok();
  const Dim& got = v.shape[axis];
  if (got.is_const() && dim->is_const() && !(got == *dim)) {
    return BadInput("{} has shape {}; axis {} must be {}", what, v.shape.ToString(), axis, dim->ToString());
  }
  if (got.is_const() || dim->is_unknown()) *dim = got;
  return Status::Ok();
}

Status MeetAll(const ShapeArgs& args, size_t i, const char* what, std::initializer_list<Dim*> dims) {
  if (!args.Has(i)) return Status::Ok();
  const ValueInfo& v = args.in[i];
  if (v.shape.has_rank() && v.shape.rank() != static_cast<int>(dims.size())) {
    return BadInput("{} has shape {}; rank {} needed", what, v.shape.ToString(), dims.size());
  }
  int axis = 0;
  for (Dim* d : dims) TENON_RETURN_IF_ERROR(Meet(v, what, axis++, d));
  return Status::Ok();
}

Status CheckTypes(const ShapeArgs& args) {
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && t != DType::kF32 && t != DType::kF64 && t != DType::kF16 && t != DType::kBF16) {
    return BadInput("X is {}; allowed: float32, float64, float16, bfloat16", DTypeName(t));
  }
  for (size_t i = 1; i < args.in.size(); ++i) {
    if (!args.Has(i) || args.in[i].dtype == DType::kUndefined || t == DType::kUndefined) continue;
    const DType want = i == 4 ? DType::kI32 : t;
    if (args.in[i].dtype != want) {
      return BadInput("input {} is {}; {} needed", i, DTypeName(args.in[i].dtype), DTypeName(want));
    }
  }
  return Status::Ok();
}

Status Infer(std::string_view op, const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams(op, args.attrs));
  TENON_RETURN_IF_ERROR(CheckTypes(args));
  Dim dirs = p.dirs;
  Dim seq = Dim::Unknown(), batch = Dim::Unknown(), in = Dim::Unknown();
  Dim hidden = p.hidden > 0 ? Dim(p.hidden) : Dim::Unknown();
  TENON_RETURN_IF_ERROR(p.batch_first ? MeetAll(args, 0, "X", {&batch, &seq, &in}) : MeetAll(args, 0, "X", {&seq, &batch, &in}));
  Dim gate_rows = Dim::Unknown();
  TENON_RETURN_IF_ERROR(MeetAll(args, 2, "R", {&dirs, &gate_rows, &hidden}));
  if (hidden.is_const() && hidden.value() <= 0) return BadInput("hidden size {}; R; at least 1 needed", hidden.value());
  Dim gate_width = hidden * Dim(p.gates);
  if (hidden.is_unknown()) gate_width = Dim::Unknown();
  TENON_RETURN_IF_ERROR(MeetAll(args, 2, "R", {&dirs, &gate_width, &hidden}));
  TENON_RETURN_IF_ERROR(MeetAll(args, 1, "W", {&dirs, &gate_width, &in}));
  Dim bias_width = gate_width.is_unknown() ? Dim::Unknown() : gate_width * Dim(2);
  TENON_RETURN_IF_ERROR(MeetAll(args, 3, "B", {&dirs, &bias_width}));
  TENON_RETURN_IF_ERROR(MeetAll(args, 4, "sequence_lens", {&batch}));
  for (size_t i = 5; i <= 6; ++i) {
    const char* what = i == 5 ? "initial_h" : "initial_c";
    TENON_RETURN_IF_ERROR(p.batch_first ? MeetAll(args, i, what, {&batch, &dirs, &hidden})
                                        : MeetAll(args, i, what, {&dirs, &batch, &hidden}));
  }
  Dim peep_width = hidden.is_unknown() ? Dim::Unknown() : hidden * Dim(3);
  TENON_RETURN_IF_ERROR(MeetAll(args, 7, "P", {&dirs, &peep_width}));

  for (size_t i = 0; i < args.out.size(); ++i) {
    ValueInfo& o = args.out[i];
    o.dtype = args.in[0].dtype;
    if (i == 0) {
      o.shape = p.batch_first ? SymShape({batch, seq, dirs, hidden}) : SymShape({seq, dirs, batch, hidden});
    } else {
      o.shape = p.batch_first ? SymShape({batch, dirs, hidden}) : SymShape({dirs, batch, hidden});
    }
  }
  return Status::Ok();
}

}  // namespace

Result<Params> ParseParams(std::string_view op, const Attrs& attrs) {
  Params p;
  p.cell = op == "LSTM" ? Cell::kLstm : op == "GRU" ? Cell::kGru : Cell::kRnn;
  p.gates = p.cell == Cell::kLstm ? 4 : p.cell == Cell::kGru ? 3 : 1;
  p.functions = p.cell == Cell::kLstm ? 3 : p.cell == Cell::kGru ? 2 : 1;
  const std::string direction = attrs.String("direction", "forward");
  if (direction == "reverse") {
    p.reverse[0] = true;
  } else if (direction == "bidirectional") {
    p.dirs = 2;
    p.reverse[1] = true;
  } else if (direction != "forward") {
    return BadInput("direction '{}'; allowed: forward, reverse, bidirectional", direction);
  }
  TENON_RETURN_IF_ERROR(ParseActivations(attrs, &p));
  p.clip = attrs.Float("clip", std::numeric_limits<float>::infinity());
  if (!(p.clip >= 0)) return BadInput("clip {}; at least 0 needed", p.clip);
  p.input_forget = attrs.Int("input_forget", 0) != 0;
  p.linear_before_reset = attrs.Int("linear_before_reset", 0) != 0;
  const int64_t layout = attrs.Int("layout", 0);
  if (layout != 0 && layout != 1) return BadInput("layout {}; allowed: 0, 1", layout);
  p.batch_first = layout == 1;
  p.hidden = attrs.Int("hidden_size", 0);
  if (p.hidden < 0) return BadInput("hidden_size {}; at least 1 needed", p.hidden);
  return p;
}

Status InferRnn(const ShapeArgs& args) {
  return Infer("RNN", args);
}
Status InferGru(const ShapeArgs& args) {
  return Infer("GRU", args);
}
Status InferLstm(const ShapeArgs& args) {
  return Infer("LSTM", args);
}

Extents ExtentsOf(const Params& p, const Shape& x, const Shape& r) {
  return {x[p.batch_first ? 1 : 0], x[p.batch_first ? 0 : 1], x[2], r[2]};
}

Offsets OffsetsOf(const Params& p, const Extents& e) {
  const int64_t h = e.hidden;
  if (p.batch_first) return {e.in, e.seq * e.in, p.dirs * h, h, e.seq * p.dirs * h, h, p.dirs * h};
  return {e.batch * e.in, e.in, p.dirs * e.batch * h, e.batch * h, h, e.batch * h, h};
}

Status CheckLengths(const View& lengths, int64_t seq) {
  if (!lengths.present()) return Status::Ok();
  for (int64_t b = 0; b < lengths.num_elements(); ++b) {
    const int32_t n = lengths.Data<int32_t>()[b];
    if (n < 0 || n > seq) return BadInput("sequence length {}; sequence_lens[{}]; allowed: 0 to {}", n, b, seq);
  }
  return Status::Ok();
}

}  // namespace tenon::kernels::rnn
