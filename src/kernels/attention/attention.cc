// The table of attention, and how its f32 rows cut the work for the team.
#include "kernels/attention/attention.h"

#include <algorithm>

#include "kernels/attention/shape.h"
#include "kernels/float_io.h"
#include "kernels/gemm/rows.h"
#include "kernels/kernel_util.h"
#include "kernels/through_f32.h"

namespace tenon::kernels::attention {
namespace {

Refusal CanReference(const Problem& p) {
  return IsPlainFloat(p.in[0].dtype) ? nullptr : kRefuseDType;
}
Refusal CanF32(const Problem& p) {
  for (size_t i = 0; i < p.in.size(); ++i) {
    const DType t = p.in[i].dtype;
    const bool mask = i == 3 && t == DType::kBool, lens = i == 6;
    if (p.in[i].present && t != DType::kF32 && !mask && !lens) return kRefuseDType;
  }
  return Wants(p.out, 3) ? "qk_matmul_output is not served" : nullptr;
}

// With null `inner`: the reference.
class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const AttentionParams& params, const AttentionInner* inner, int threads)
      : params_(params), inner_(inner), threads_(std::max(1, threads)) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> out) const override {
    TENON_ASSIGN_OR_RETURN(const Core core, ResolveShapes(params_, in));
    const auto wants = [&](size_t i) { return i < out.size() && out[i].present(); };
    Configured c;
    c.scratch_bytes = params_.fused ? 0 : Aligned(PresentBytes(core, in, wants(1), wants(2)));
    if (inner_ != nullptr) c.scratch_bytes += static_cast<size_t>(threads_ * ThreadFloats(core)) * sizeof(float);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Core core, Resolve(params_, args, args.scratch));
    if (inner_ == nullptr) return RunReference(params_, core, args);
    const std::span<const MutView> out = args.out;
    const size_t spare = params_.fused ? 0 : Aligned(PresentBytes(core, args.in, Wants(out, 1), Wants(out, 2)));
    RunFast(core, reinterpret_cast<float*>(args.scratch + spare), args.team);
    return {};
  }

 private:
  static size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t ThreadFloats(const Core& core) const {
    const ScratchSizes s = inner_->scratch(core);
    return (s.keys + s.values + s.work + 15) / 16 * 16;
  }

  void RunFast(const Core& core, float* scratch, hw::Team& team) const {
    const int64_t group = core.heads / core.kv_heads;
    const int64_t pairs = core.batch * core.kv_heads;
    const int64_t each = ThreadFloats(core);
    const ScratchSizes sizes = inner_->scratch(core);
    const int64_t flops = 2 * core.k_len * (core.dim + core.v_dim) + 1;  // of one query
    // Scratch was sized for the threads that make() was told of.
    const bool alone = team.size() > threads_;
    if (core.q_len * group <= kFewRows) {
      const int64_t grain = alone ? pairs : 1 + 40000 / (flops * core.q_len * group + 1);
      team.ParallelFor(pairs, grain, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t p = begin; p < end; ++p) inner_->few(core, p / core.kv_heads, p % core.kv_heads, scratch + thread * each);
      });
      return;
    }
    // Queries of heads that share keys are neighbours, so that a thread packs the keys once for all of them.
    const int64_t blocks = (core.q_len + kQueryBlock - 1) / kQueryBlock;
    const int64_t tasks = pairs * group * blocks;
    const int64_t grain = alone ? tasks : 1 + 40000 / (flops * std::min(core.q_len, kQueryBlock));
    team.ParallelFor(tasks, grain, [&](int64_t begin, int64_t end, int thread) {
      float* keys = scratch + thread * each;
      float* values = keys + sizes.keys;
      float* work = values + sizes.values;
      const bool whole = core.k_len <= kWholeKeys;
      int64_t held = -1;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t pair = t / (group * blocks), b = pair / core.kv_heads, g = pair % core.kv_heads;
        if (whole && pair != held) {
          const float* k = static_cast<const float*>(core.k) + b * core.k_step.batch + g * core.k_step.head;
          const float* v = static_cast<const float*>(core.v) + b * core.v_step.batch + g * core.v_step.head;
          inner_->pack(core, k, v, core.k_len, keys, values);
          held = pair;
        }
        const int64_t h = g * group + t / blocks % group, first = t % blocks * kQueryBlock;
        inner_->block(core, b, h, first, std::min(kQueryBlock, core.q_len - first), whole, keys, values, work);
      }
    });
  }

  AttentionParams params_;
  const AttentionInner* inner_;
  int threads_;
};

Result<std::unique_ptr<Kernel>> MakeWith(const Problem& problem, const AttentionInner* inner) {
  TENON_ASSIGN_OR_RETURN(const AttentionParams params, ParseAttention(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(std::make_unique<AttentionKernel>(params, inner, problem.threads));
}
template <const AttentionInner* kInner>
Result<std::unique_ptr<Kernel>> MakeFast(const Problem& problem) {
  return MakeWith(problem, kInner);
}
Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem) {
  return MakeWith(problem, nullptr);
}

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, isa, can, make) {group, {name, isa, can, make}},
#include "kernels/attention/kernels.inc"
#undef KERNEL
};

}  // namespace

std::span<const OpKernels> Operators() {
  static const std::vector<Row> rows = RowsOf(kTable, "Attention");
  static const OpKernels ops[] = {
      {"Attention", InferAttention, rows, 3, 7, 1, 4},
      {"FusedAttention", InferFusedAttention, rows, 1, 4, 1, 1},
  };
  return ops;
}

}  // namespace tenon::kernels::attention
