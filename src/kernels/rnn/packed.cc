// Fast f32 recurrent layers for constant weights: W and R packed once; per block of steps one product of X with W (no dependency
// between steps), then per step the thin product of the state with R, whose tiles go straight into the gate arithmetic.
#include <cstring>
#include <limits>

#include "kernels/refusals.h"
#include "kernels/rnn/rnn.h"
#include "kernels/rnn/simd.h"

namespace tenon::kernels::rnn {
namespace {

// Rows of X per block: enough to reuse a weight panel from L1, few enough for the products to stay in L2.
constexpr int64_t kBlockRows = 96;
// Multiply-adds below which a thread is not worth waking.
constexpr int64_t kThreadWork = 1 << 17;

// A weight matrix as panels (simd.h), for some gates of the layer.
struct Panels {
  int vectors = 0;  // per panel
  int blocks = 0;   // unit blocks per panel
  int64_t k = 0;
  int64_t count = 0;
  std::shared_ptr<Buffer> buffer;

  const float* Panel(int64_t p, int lanes) const { return static_cast<const float*>(buffer->data()) + p * k * vectors * lanes; }
};

// `rows` is [gates*hidden, k]; gates [first, first + gates) are packed. Units [hidden, padded) are zeros.
Result<Panels> Pack(const float* rows, int first, int gates, int blocks, int64_t hidden, int64_t padded, int64_t k, int lanes) {
  Panels out;
  out.vectors = gates * blocks;
  out.blocks = blocks;
  out.k = k;
  const int64_t units = static_cast<int64_t>(blocks) * lanes;
  out.count = padded / units;
  const size_t floats = static_cast<size_t>(out.count * k * out.vectors * lanes);
  out.buffer = Buffer::Allocate(floats * sizeof(float));
  if (out.buffer == nullptr) return ResourceLimit("no memory for {} bytes of packed recurrent weights", floats * sizeof(float));
  float* to = static_cast<float*>(out.buffer->data());
  for (int64_t p = 0; p < out.count; ++p) {
    for (int64_t j = 0; j < k; ++j) {
      for (int g = first; g < first + gates; ++g) {
        for (int64_t u = p * units; u < (p + 1) * units; ++u) *to++ = u < hidden ? rows[(g * hidden + u) * k + j] : 0.0f;
      }
    }
  }
  return out;
}

// Any activation, input_forget: scalar.
struct AnyGates {
  const Params* params;
  const Activation* act;
  int lanes;
};

float Act(const GateArgs& g, const AnyGates& any, int which, float v) {
  return Activate(any.act[which], v > g.clip ? g.clip : v < -g.clip ? -g.clip : v);
}

float Pre(const GateArgs& g, int gate, int l) {
  return g.tile[gate * g.tile_stride + l] + g.x[gate * g.x_stride + l];
}

void AnyRnn(const GateArgs& g) {
  const auto& any = *static_cast<const AnyGates*>(g.context);
  for (int l = 0; l < any.lanes; ++l) g.h_next[l] = Act(g, any, 0, Pre(g, 0, l));
}

void AnyGruLinear(const GateArgs& g) {
  const auto& any = *static_cast<const AnyGates*>(g.context);
  for (int l = 0; l < any.lanes; ++l) {
    const float z = Act(g, any, 0, Pre(g, 0, l));
    const float r = Act(g, any, 0, Pre(g, 1, l));
    const float n = Act(g, any, 1, g.x[2 * g.x_stride + l] + r * (g.tile[2 * g.tile_stride + l] + g.rb[l]));
    g.h_next[l] = (1 - z) * n + z * g.h[l];
  }
}

void AnyGruPhase0(const GateArgs& g) {
  const auto& any = *static_cast<const AnyGates*>(g.context);
  for (int l = 0; l < any.lanes; ++l) {
    g.z[l] = Act(g, any, 0, Pre(g, 0, l));
    g.scaled[l] = Act(g, any, 0, Pre(g, 1, l)) * g.h[l];
  }
}

void AnyGruPhase1(const GateArgs& g) {
  const auto& any = *static_cast<const AnyGates*>(g.context);
  for (int l = 0; l < any.lanes; ++l) {
    const float n = Act(g, any, 1, g.tile[l] + g.x[2 * g.x_stride + l]);
    g.h_next[l] = (1 - g.z[l]) * n + g.z[l] * g.h[l];
  }
}

void AnyLstm(const GateArgs& g) {
  const auto& any = *static_cast<const AnyGates*>(g.context);
  const auto peep = [&](int gate, int l) { return g.peephole != nullptr ? g.peephole[gate * g.peephole_stride + l] : 0.0f; };
  for (int l = 0; l < any.lanes; ++l) {
    const float old = g.c[l];
    const float i = Act(g, any, 0, Pre(g, 0, l) + peep(0, l) * old);
    const float f = any.params->input_forget ? 1 - i : Act(g, any, 0, Pre(g, 2, l) + peep(2, l) * old);
    const float c = f * old + i * Act(g, any, 1, Pre(g, 3, l));
    const float o = Act(g, any, 0, Pre(g, 1, l) + peep(1, l) * c);
    g.c[l] = c;
    g.h_next[l] = o * Act(g, any, 2, c);
  }
}

// One direction's weights and gate functions.
struct Direction {
  Panels w;
  Panels r[2];  // two phases for GRU without linear_before_reset, else one
  GateFunction gates[2] = {nullptr, nullptr};
  std::vector<float> bias;      // [unit block][gate][lanes], summed W and R halves
  std::vector<float> rb;        // GRU with linear_before_reset
  std::vector<float> peephole;  // [3][padded]
  AnyGates any;
};

// The scratch of one direction, cut from the bytes that Run is handed.
struct Scratch {
  float *h0, *h1, *c, *z, *scaled, *xg;
  const float** x_rows;  // [block rows]
  float** xg_rows;       // [block rows]
  const float** h;       // [batch] state before the step
  float** h_next;        // [batch]
  int64_t* active;       // [batch]
  size_t bytes;
};

class Packed final : public Kernel {
 public:
  Packed(Params p, const Simd& simd, int64_t hidden, int64_t in)
      : p_(p), simd_(simd), hidden_(hidden), in_(in), split_(p.cell == Cell::kGru && !p.linear_before_reset) {
    const int64_t unit = simd.lanes * (split_ || p.cell == Cell::kRnn ? 4 : 1);
    padded_ = (hidden + unit - 1) / unit * unit;
  }

  Status Prepare(const Problem& problem) {
    for (int d = 0; d < p_.dirs; ++d) TENON_RETURN_IF_ERROR(PrepareDirection(problem, d));
    for (size_t i : {1, 2, 3, 7}) consumed_ |= problem.Has(i) ? 1u << i : 0;
    return Status::Ok();
  }

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    const Extents e = ExtentsOf(p_, in[0].shape, in[2].shape);
    Configured c;
    c.scratch_bytes = Cut(nullptr, e).bytes * static_cast<size_t>(p_.dirs);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    const Extents e = ExtentsOf(p_, args.in[0].shape, args.in[2].shape);
    TENON_RETURN_IF_ERROR(CheckLengths(args.Has(4) ? args.in[4] : View{}, e.seq));
    // Directions are independent: side by side when one step cannot feed the team.
    const int64_t step_work = e.batch * hidden_ * hidden_ * p_.gates;
    const int64_t all_work = step_work * e.seq;
    const bool apart =
        p_.dirs == 2 && args.team.size() > 1 && all_work >= kThreadWork && (args.team.size() == 2 || step_work < 4 * kThreadWork);
    args.team.ParallelFor(p_.dirs, apart ? 1 : p_.dirs, [&](int64_t begin, int64_t end, int) {
      for (int64_t d = begin; d < end; ++d) RunDirection(args, e, static_cast<int>(d));
    });
    return Status::Ok();
  }

  size_t PackedBytes() const override { return packed_bytes_; }
  bool ConsumedConstant(size_t i) const override { return i < 32 && (consumed_ >> i & 1) != 0; }

 private:
  int64_t BlockSteps(const Extents& e) const {
    return std::max<int64_t>(1, std::min(e.seq, kBlockRows / std::max<int64_t>(1, e.batch)));
  }

  Scratch Cut(std::byte* base, const Extents& e) const {
    size_t at = 0;
    const auto take = [&](int64_t n, size_t size) {
      const size_t here = at;
      at += (static_cast<size_t>(n) * size + 63) / 64 * 64;
      return base == nullptr ? nullptr : base + here;
    };
    const auto floats = [&](int64_t n) { return reinterpret_cast<float*>(take(n, sizeof(float))); };
    const int64_t state = e.batch * padded_;
    const int64_t rows = BlockSteps(e) * e.batch;
    Scratch s;
    s.h0 = floats(state);
    s.h1 = floats(state);
    s.c = floats(p_.cell == Cell::kLstm ? state : 0);
    s.z = floats(split_ ? state : 0);
    s.scaled = floats(split_ ? state : 0);
    s.xg = floats(rows * p_.gates * padded_);
    s.x_rows = reinterpret_cast<const float**>(take(rows, sizeof(float*)));
    s.xg_rows = reinterpret_cast<float**>(take(rows, sizeof(float*)));
    s.h = reinterpret_cast<const float**>(take(e.batch, sizeof(float*)));
    s.h_next = reinterpret_cast<float**>(take(e.batch, sizeof(float*)));
    s.active = reinterpret_cast<int64_t*>(take(e.batch, sizeof(int64_t)));
    s.bytes = at;
    return s;
  }

  Status PrepareDirection(const Problem& problem, int d);
  void RunDirection(const RunArgs& args, const Extents& e, int d) const;
  void ProjectX(const RunArgs& args, const Direction& dir, const Scratch& s, int64_t rows) const;
  void Phase(const RunArgs& args, const Direction& dir, const Scratch& s, int phase, int64_t active, const float* xg) const;

  void Product(const Panels& m, int rows, const float* const* a, int64_t panel, const float* init, float* const* out) const {
    (m.vectors == 3 ? simd_.product3 : simd_.product4)(rows, a, m.k, m.Panel(panel, simd_.lanes), init, out);
  }
  static int64_t Grain(const Panels& m, int64_t rows, int lanes) {
    return std::max<int64_t>(1, kThreadWork / std::max<int64_t>(1, rows * m.k * m.vectors * lanes));
  }

  Params p_;
  const Simd& simd_;
  int64_t hidden_, in_, padded_ = 0;
  bool split_;
  Direction dirs_[2];
  size_t packed_bytes_ = 0;
  uint32_t consumed_ = 0;
};

bool Is(const Activation& a, ActivationKind kind) {
  return a.kind == kind;
}

// Sets the gate functions: vector ones for the usual activations, scalar ones for the rest.
void ChooseGates(const Params& p, const Simd& simd, Direction* dir) {
  const Activation* a = dir->any.act;
  const bool usual = Is(a[0], ActivationKind::kSigmoid) && Is(a[1], ActivationKind::kTanh);
  switch (p.cell) {
    case Cell::kRnn:
      dir->gates[0] = Is(a[0], ActivationKind::kTanh) ? simd.rnn_tanh : Is(a[0], ActivationKind::kRelu) ? simd.rnn_relu : AnyRnn;
      break;
    case Cell::kGru:
      if (p.linear_before_reset) {
        dir->gates[0] = usual ? simd.gru_linear : AnyGruLinear;
      } else {
        dir->gates[0] = usual ? simd.gru_phase0 : AnyGruPhase0;
        dir->gates[1] = usual ? simd.gru_phase1 : AnyGruPhase1;
      }
      break;
    case Cell::kLstm: dir->gates[0] = usual && Is(a[2], ActivationKind::kTanh) && !p.input_forget ? simd.lstm : AnyLstm; break;
  }
}

Status Packed::PrepareDirection(const Problem& problem, int d) {
  Direction& dir = dirs_[d];
  const int g = p_.gates;
  const int lanes = simd_.lanes;
  const float* w = problem.in[1].data->Data<float>() + d * g * hidden_ * in_;
  const float* r = problem.in[2].data->Data<float>() + d * g * hidden_ * hidden_;
  TENON_ASSIGN_OR_RETURN(dir.w, Pack(w, 0, g, g == 1 ? 4 : 1, hidden_, padded_, in_, lanes));
  if (split_) {
    TENON_ASSIGN_OR_RETURN(dir.r[0], Pack(r, 0, 2, 2, hidden_, padded_, hidden_, lanes));
    TENON_ASSIGN_OR_RETURN(dir.r[1], Pack(r, 2, 1, 4, hidden_, padded_, hidden_, lanes));
  } else {
    TENON_ASSIGN_OR_RETURN(dir.r[0], Pack(r, 0, g, g == 1 ? 4 : 1, hidden_, padded_, hidden_, lanes));
  }
  const bool linear = p_.cell == Cell::kGru && p_.linear_before_reset;
  dir.bias.assign(static_cast<size_t>(padded_ * g), 0.0f);
  dir.rb.assign(static_cast<size_t>(linear ? padded_ : 0), 0.0f);
  if (problem.Has(3)) {
    const float* b = problem.in[3].data->Data<float>() + d * 2 * g * hidden_;
    for (int gate = 0; gate < g; ++gate) {
      for (int64_t u = 0; u < hidden_; ++u) {
        const float wb = b[gate * hidden_ + u];
        const float rb = b[(g + gate) * hidden_ + u];
        const bool apart = linear && gate == 2;
        dir.bias[static_cast<size_t>((u / lanes * g + gate) * lanes + u % lanes)] = apart ? wb : wb + rb;
        if (apart) dir.rb[static_cast<size_t>(u)] = rb;
      }
    }
  }
  if (problem.Has(7)) {
    const float* peep = problem.in[7].data->Data<float>() + d * 3 * hidden_;
    dir.peephole.assign(static_cast<size_t>(3 * padded_), 0.0f);
    for (int gate = 0; gate < 3; ++gate) {
      std::copy_n(peep + gate * hidden_, hidden_, dir.peephole.begin() + gate * padded_);
    }
  }
  dir.any = {&p_, &p_.activations[static_cast<size_t>(d * p_.functions)], lanes};
  ChooseGates(p_, simd_, &dir);
  packed_bytes_ += dir.w.buffer->bytes() + dir.r[0].buffer->bytes() + (split_ ? dir.r[1].buffer->bytes() : 0) +
                   (dir.bias.size() + dir.rb.size() + dir.peephole.size()) * sizeof(float);
  return Status::Ok();
}

void Packed::ProjectX(const RunArgs& args, const Direction& dir, const Scratch& s, int64_t rows) const {
  const int64_t width = static_cast<int64_t>(dir.w.vectors) * simd_.lanes;
  args.team.ParallelFor(dir.w.count, Grain(dir.w, rows, simd_.lanes), [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t i = 0; i < rows; i += simd_.max_rows) {
        const int n = static_cast<int>(std::min<int64_t>(simd_.max_rows, rows - i));
        float* out[kMaxRows];
        for (int j = 0; j < n; ++j) out[j] = s.xg_rows[i + j] + p * width;
        Product(dir.w, n, s.x_rows + i, p, dir.bias.data() + p * width, out);
      }
    }
  });
}

// The product of the active rows' states (phase 1: of their scaled states) with R, and the gates. xg: rows of this step by batch.
void Packed::Phase(const RunArgs& args, const Direction& dir, const Scratch& s, int phase, int64_t active,
                   const float* xg) const {
  const Panels& m = dir.r[phase];
  const int lanes = simd_.lanes;
  const int64_t row_width = p_.gates * padded_;
  args.team.ParallelFor(m.count, Grain(m, active, lanes), [&](int64_t begin, int64_t end, int) {
    alignas(64) float tiles[kMaxRows][kMaxVectors * kMaxLanes];
    float* out[kMaxRows];
    for (int j = 0; j < kMaxRows; ++j) out[j] = tiles[j];
    GateArgs g{};
    g.tile_stride = m.blocks * lanes;
    g.x_stride = lanes;
    g.peephole_stride = padded_;
    g.clip = p_.clip;
    g.context = &dir.any;
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t i = 0; i < active; i += simd_.max_rows) {
        const int n = static_cast<int>(std::min<int64_t>(simd_.max_rows, active - i));
        const float* a[kMaxRows];
        for (int j = 0; j < n; ++j) a[j] = phase == 0 ? s.h[s.active[i + j]] : s.scaled + s.active[i + j] * padded_;
        Product(m, n, a, p, nullptr, out);
        for (int j = 0; j < n; ++j) {
          const int64_t b = s.active[i + j];
          for (int u = 0; u < m.blocks; ++u) {
            const int64_t unit = (p * m.blocks + u) * lanes;
            g.tile = tiles[j] + u * lanes;
            g.x = xg + b * row_width + unit * p_.gates;
            g.h = s.h[b] + unit;
            g.h_next = s.h_next[b] + unit;
            g.c = s.c + b * padded_ + unit;
            g.z = s.z + b * padded_ + unit;
            g.scaled = s.scaled + b * padded_ + unit;
            g.peephole = dir.peephole.empty() ? nullptr : dir.peephole.data() + unit;
            g.rb = dir.rb.empty() ? nullptr : dir.rb.data() + unit;
            dir.gates[phase](g);
          }
        }
      }
    }
  });
}

void LoadState(const RunArgs& args, size_t input, int64_t offset, int64_t hidden, int64_t padded, float* to) {
  int64_t done = 0;
  if (args.Has(input)) {
    std::memcpy(to, args.in[input].Data<float>() + offset, static_cast<size_t>(hidden) * sizeof(float));
    done = hidden;
  }
  std::memset(to + done, 0, static_cast<size_t>(padded - done) * sizeof(float));
}

void Packed::RunDirection(const RunArgs& args, const Extents& e, int d) const {
  const Direction& dir = dirs_[d];
  const Offsets o = OffsetsOf(p_, e);
  const size_t share = Cut(nullptr, e).bytes;
  const Scratch s = Cut(args.scratch + share * static_cast<size_t>(d), e);
  const auto out = [&](size_t i) { return i < args.out.size() && args.out[i].present() ? args.out[i].Data<float>() : nullptr; };
  const size_t row_bytes = static_cast<size_t>(hidden_) * sizeof(float);
  const int32_t* lengths = args.Has(4) ? args.in[4].Data<int32_t>() : nullptr;
  const float* x = args.in[0].Data<float>();
  float* const y = out(0);
  for (int64_t b = 0; b < e.batch; ++b) {
    s.h[b] = s.h0 + b * padded_;
    s.h_next[b] = s.h1 + b * padded_;
    LoadState(args, 5, d * o.s_d + b * o.s_b, hidden_, padded_, s.h0 + b * padded_);
    if (p_.cell == Cell::kLstm) LoadState(args, 6, d * o.s_d + b * o.s_b, hidden_, padded_, s.c + b * padded_);
  }
  const int64_t row_width = p_.gates * padded_;
  const int64_t block = BlockSteps(e);
  for (int64_t s0 = 0; s0 < e.seq; s0 += block) {
    const int64_t s1 = std::min(e.seq, s0 + block);
    int64_t rows = 0;
    for (int64_t step = s0; step < s1; ++step) {
      for (int64_t b = 0; b < e.batch; ++b) {
        const int64_t length = lengths != nullptr ? lengths[b] : e.seq;
        if (step >= length) continue;
        const int64_t t = p_.reverse[d] ? length - 1 - step : step;
        s.x_rows[rows] = x + t * o.x_t + b * o.x_b;
        s.xg_rows[rows++] = s.xg + ((step - s0) * e.batch + b) * row_width;
      }
    }
    ProjectX(args, dir, s, rows);
    for (int64_t step = s0; step < s1; ++step) {
      int64_t active = 0;
      for (int64_t b = 0; b < e.batch; ++b) {
        if (lengths == nullptr || step < lengths[b]) {
          s.active[active++] = b;
        } else if (y != nullptr) {
          std::memset(y + step * o.y_t + d * o.y_d + b * o.y_b, 0, row_bytes);
        }
      }
      if (active == 0) continue;
      const float* xg = s.xg + (step - s0) * e.batch * row_width;
      Phase(args, dir, s, 0, active, xg);
      if (split_) Phase(args, dir, s, 1, active, xg);
      for (int64_t i = 0; i < active; ++i) {
        const int64_t b = s.active[i];
        const int64_t length = lengths != nullptr ? lengths[b] : e.seq;
        const int64_t t = p_.reverse[d] ? length - 1 - step : step;
        if (y != nullptr) std::memcpy(y + t * o.y_t + d * o.y_d + b * o.y_b, s.h_next[b], row_bytes);
        float* const old = const_cast<float*>(s.h[b]);
        s.h[b] = s.h_next[b];
        s.h_next[b] = old;
      }
    }
  }
  for (int64_t b = 0; b < e.batch; ++b) {
    if (float* yh = out(1)) std::memcpy(yh + d * o.s_d + b * o.s_b, s.h[b], row_bytes);
    if (float* yc = out(2)) std::memcpy(yc + d * o.s_d + b * o.s_b, s.c + b * padded_, row_bytes);
  }
}

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, const Simd& simd) {
  TENON_ASSIGN_OR_RETURN(const Params p, ParseParams(problem.op, problem.attrs));
  const Shape& w = problem.in[1].data->shape;
  const Shape& r = problem.in[2].data->shape;
  if (w.rank() != 3 || r.rank() != 3 || r[0] != p.dirs || w[0] != p.dirs || r[1] != p.gates * r[2] || w[1] != r[1]) {
    return BadInput("W has shape {} and R {}; [{}, {}*hidden, in] and [{}, {}*hidden, hidden] needed", w.ToString(), r.ToString(),
                    p.dirs, p.gates, p.dirs, p.gates);
  }
  auto kernel = std::make_unique<Packed>(p, simd, r[2], w[2]);
  TENON_RETURN_IF_ERROR(kernel->Prepare(problem));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace

Refusal CanPacked(const Problem& problem) {
  if (problem.in[0].dtype != DType::kF32) return kRefuseDType;
  if (!problem.IsConst(1) || !problem.IsConst(2)) return kRefuseWeightsNotConstant;
  for (size_t i : {3, 7}) {
    if (problem.Has(i) && !problem.IsConst(i)) return kRefuseWeightsNotConstant;
  }
  return nullptr;
}

Result<std::unique_ptr<Kernel>> MakePackedAvx2(const Problem& problem) {
  return Make(problem, kSimdAvx2);
}
Result<std::unique_ptr<Kernel>> MakePackedAvx512(const Problem& problem) {
  return Make(problem, kSimdAvx512);
}

}  // namespace tenon::kernels::rnn
