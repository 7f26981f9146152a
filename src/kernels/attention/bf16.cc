// The bf16 rows of attention: per head and block of queries two products of gemm/bf16.h with a softmax in f32 between them. Keys
// and values are packed once for all queries of a head.
#include "kernels/gemm/bf16.h"

#include <algorithm>

#include "base/half.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/rows.h"
#include "kernels/kernel_util.h"

namespace tenon::kernels::attention {
namespace {

constexpr int64_t kQueries = 64;   // of one task

size_t AlignBytes(int64_t bytes) {
  return (static_cast<size_t>(bytes) + 63) / 64 * 64;
}

// Bytes of the scratch of a thread, part by part.
struct Parts {
  size_t keys, values, scores, product;
  int64_t score_step;   // floats from query to query

  Parts(const gemm::Bf16Kernels& kernels, const Core& core) {
    keys = AlignBytes(gemm::Bf16PackedElements(core.dim, core.k_len) * 2);
    values = AlignBytes(gemm::Bf16PackedElements(core.k_len, core.v_dim) * 2);
    score_step = (core.k_len + 15) / 16 * 16;
    const int64_t queries = std::min(kQueries, core.q_len);
    scores = AlignBytes(queries * score_step * 4);
    product = gemm::Bf16ScratchBytes(kernels, queries, std::max(core.dim, core.k_len), 1);
    product = AlignBytes(static_cast<int64_t>(product));
  }
  size_t all() const { return keys + values + scores + product; }
};

// Keys of batch b that count at all; what lies behind them may be anything.
int64_t ValidKeys(const Core& core, int64_t b) {
  const int64_t valid = std::min(core.k_len, core.mask_len);
  return core.kv_lens != nullptr ? std::min(valid, core.kv_lens[b]) : valid;
}

const uint16_t* At(const void* p, const Strides& step, int64_t b, int64_t h) {
  return static_cast<const uint16_t*>(p) + b * step.batch + h * step.head;
}

class AttentionBf16 final : public Kernel {
 public:
  AttentionBf16(const AttentionParams& params, const gemm::Bf16Kernels& kernels, const AttentionInner& inner, int threads)
      : params_(params), kernels_(kernels), inner_(inner), threads_(std::max(1, threads)) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    TENON_ASSIGN_OR_RETURN(const Core core, ResolveShapes(params_, in));
    const auto wants = [&](size_t i) { return i < out.size() && out[i].present(); };
    Configured c;
    c.scratch_bytes = SpareBytes(core, in, wants(1), wants(2)) + MaskBytes(in) + Parts(kernels_, core).all() * Slots();
    return c;
  }

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(Core core, Resolve(params_, args, args.scratch));
    const std::span<const MutView> out = args.out;
    std::byte* scratch = args.scratch + SpareBytes(core, args.in, Wants(out, 1), Wants(out, 2));
    if (const size_t bytes = MaskBytes(args.in); bytes > 0) {
      auto* mask = reinterpret_cast<float*>(scratch);
      Widen(args.in[kMask], mask);
      core.mask = mask;
      scratch += bytes;
    }
    if (core.batch * core.heads * core.q_len * core.v_dim == 0) return {};
    const Parts parts(kernels_, core);
    const int64_t group = core.heads / core.kv_heads;
    const int64_t blocks = (core.q_len + kQueries - 1) / kQueries;
    const int64_t tasks = core.batch * core.heads * blocks;
    const int64_t flops = 2 * core.k_len * (core.dim + core.v_dim) + 1;  // of one query
    // Scratch was sized for the threads that make() was told of.
    const int64_t grain = args.team.size() > threads_ ? tasks : 1 + 200000 / (flops * std::min(core.q_len, kQueries));
    // Queries of heads that share keys are neighbours, so that a thread packs the keys once for all of them.
    args.team.ParallelFor(tasks, grain, [&](int64_t begin, int64_t end, int thread) {
      std::byte* own = scratch + static_cast<size_t>(thread) * parts.all();
      int64_t held = -1;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t pair = t / (group * blocks), b = pair / core.kv_heads, g = pair % core.kv_heads;
        if (pair != held) Pack(core, parts, b, g, own);
        held = pair;
        const int64_t first = t % blocks * kQueries;
        Block(core, parts, b, g * group + t / blocks % group, first, std::min(kQueries, core.q_len - first), own);
      }
    });
    return {};
  }

 private:
  static constexpr size_t kMask = 3;

  size_t Slots() const { return static_cast<size_t>(threads_); }
  size_t SpareBytes(const Core& core, std::span<const View> in, bool key, bool value) const {
    return params_.fused ? 0 : AlignBytes(static_cast<int64_t>(PresentBytes(core, in, key, value)));
  }
  // Of a bf16 mask in f32.
  static size_t MaskBytes(std::span<const View> in) {
    const bool wide = in.size() > kMask && in[kMask].present() && in[kMask].dtype == DType::kBF16;
    return wide ? AlignBytes(in[kMask].num_elements() * 4) : 0;
  }
  static void Widen(const View& from, float* to) {
    for (int64_t i = 0; i < from.num_elements(); ++i) to[i] = BF16BitsToF32(from.Data<uint16_t>()[i]);
  }

  void Pack(const Core& core, const Parts& parts, int64_t b, int64_t g, std::byte* own) const {
    const int64_t valid = ValidKeys(core, b);
    gemm::PackBf16(kernels_, At(core.k, core.k_step, b, g), core.dim, valid, 1, core.k_step.seq, reinterpret_cast<uint16_t*>(own),
                   0, gemm::Bf16Panels(valid));
    gemm::PackBf16(kernels_, At(core.v, core.v_step, b, g), valid, core.v_dim, core.v_step.seq, 1,
                   reinterpret_cast<uint16_t*>(own + parts.keys), 0, gemm::Bf16Panels(core.v_dim));
  }

  void Block(const Core& core, const Parts& parts, int64_t b, int64_t h, int64_t first, int64_t rows, std::byte* own) const {
    auto* scores = reinterpret_cast<float*>(own + parts.keys + parts.values);
    std::byte* scratch = own + parts.keys + parts.values + parts.scores;
    int64_t keys = 0;   // that any of these queries sees
    for (int64_t r = 0; r < rows; ++r) keys = std::max(keys, VisibleKeys(core, b, first + r).last);
    hw::Team one(1);
    gemm::Bf16Gemm s;
    s.m = rows;
    s.n = keys;
    s.k = core.dim;
    s.a = At(core.q, core.q_step, b, h) + first * core.q_step.seq;
    s.a_stride = core.q_step.seq;
    s.b = reinterpret_cast<const uint16_t*>(own);
    s.c = scores;
    s.c_f32 = true;
    s.c_stride = parts.score_step;
    s.alpha = core.scale;
    gemm::RunBf16(kernels_, s, scratch, one);
    for (int64_t r = 0; r < rows; ++r) inner_.softmax(core, b, h, first + r, keys, scores + r * parts.score_step);
    gemm::Bf16Gemm o;
    o.m = rows;
    o.n = core.v_dim;
    o.k = keys;
    o.a = scores;
    o.a_f32 = true;
    o.a_stride = parts.score_step;
    o.b = reinterpret_cast<const uint16_t*>(own + parts.keys);
    o.b_panel = gemm::Bf16PanelElements(ValidKeys(core, b));
    o.c = const_cast<uint16_t*>(At(core.y, core.y_step, b, h)) + first * core.y_step.seq;
    o.c_stride = core.y_step.seq;
    gemm::RunBf16(kernels_, o, scratch, one);
  }

  AttentionParams params_;
  const gemm::Bf16Kernels& kernels_;
  const AttentionInner& inner_;
  int threads_;
};

Result<std::unique_ptr<Kernel>> Make(const Problem& problem, hw::IsaMask isa, const AttentionInner& inner) {
  TENON_ASSIGN_OR_RETURN(const AttentionParams params, ParseAttention(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(std::make_unique<AttentionBf16>(params, gemm::SelectBf16(isa), inner, problem.threads));
}

}  // namespace

Refusal CanBf16(const Problem& p) {
  for (size_t i = 0; i < p.in.size(); ++i) {
    const bool mask = i == 3 && p.in[i].dtype == DType::kBool, lens = i == 6;
    if (p.in[i].present && p.in[i].dtype != DType::kBF16 && !mask && !lens) return kRefuseDType;
  }
  return Wants(p.out, 3) ? "qk_matmul_output is not served" : nullptr;
}
Result<std::unique_ptr<Kernel>> MakeBf16Amx(const Problem& problem) {
  return Make(problem, gemm::kNeedsAmx, kAttentionAvx512);
}
Result<std::unique_ptr<Kernel>> MakeBf16Avx512Bf16(const Problem& problem) {
  return Make(problem, gemm::kNeedsAvx512Bf16, kAttentionAvx512);
}
Result<std::unique_ptr<Kernel>> MakeBf16Avx512(const Problem& problem) {
  return Make(problem, hw::kAvx2 | hw::kAvx512, kAttentionAvx512);
}
Result<std::unique_ptr<Kernel>> MakeBf16Avx2(const Problem& problem) {
  return Make(problem, hw::kAvx2, kAttentionAvx2);
}

}  // namespace tenon::kernels::attention
