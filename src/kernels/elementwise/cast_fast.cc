// Cast between the types that models use most, as typed loops; f16 and bf16 through the vector conversions where the CPU has
// them.
#include <algorithm>

#include "kernels/elementwise/blocks.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/f32_table.h"
#include "kernels/elementwise/typed.h"
#include "kernels/refusals.h"

namespace tenon::kernels::elementwise {
namespace {

using Loop = TypedUnary;

int PlainOf(DType t) {
  switch (t) {
    case DType::kF32: return kPlainF32;
    case DType::kF64: return kPlainF64;
    case DType::kI64: return kPlainI64;
    case DType::kI32: return kPlainI32;
    case DType::kU8: return kPlainU8;
    case DType::kI8: return kPlainI8;
    case DType::kBool: return kPlainBool;
    default: return -1;
  }
}

// Null when one of the types is not plain.
Loop LoopOf(hw::IsaMask isa, DType from, DType to) {
  const int f = PlainOf(from);
  const int t = PlainOf(to);
  return f < 0 || t < 0 ? nullptr : TypedTableFor(isa).cast[f][t];
}

class CastPlain final : public Kernel {
 public:
  CastPlain(Loop loop, DType from, DType to) : loop_(loop), from_(DTypeBits(from) / 8), to_(DTypeBits(to) / 8) {}
  uint32_t InPlaceInputs() const override { return from_ == to_ ? 1 : 0; }
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    args.team.ParallelFor(in.num_elements(), kGrain, [&](int64_t begin, int64_t end, int) {
      loop_(static_cast<const std::byte*>(in.data) + begin * from_, static_cast<std::byte*>(out) + begin * to_, end - begin);
    });
    return Status::Ok();
  }

 private:
  Loop loop_;
  int64_t from_;
  int64_t to_;
};

// One side, or both, is f16 or bf16: in f32 blocks.
class CastHalf final : public Kernel {
 public:
  CastHalf(hw::IsaMask isa, DType from, DType to)
      : table_(*TableFor(isa)),
        before_(LoopOf(isa, from, DType::kF32)),
        after_(LoopOf(isa, DType::kF32, to)),
        from_(from),
        to_(to) {}
  uint32_t InPlaceInputs() const override { return DTypeBits(from_) == DTypeBits(to_) ? 1 : 0; }
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    const int64_t from_bytes = DTypeBits(from_) / 8;
    const int64_t to_bytes = DTypeBits(to_) / 8;
    args.team.ParallelFor(in.num_elements(), kGrain, [&](int64_t begin, int64_t end, int) {
      const auto* from = static_cast<const std::byte*>(in.data);
      auto* to = static_cast<std::byte*>(out);
      // To or from f32 itself: in one go.
      if (to_ == DType::kF32) return Widen(from + begin * 2, reinterpret_cast<float*>(to) + begin, end - begin);
      if (from_ == DType::kF32) return Narrow(reinterpret_cast<const float*>(from) + begin, to + begin * 2, end - begin);
      float block[kBlock];
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t n = std::min(kBlock, end - at);
        Widen(from + at * from_bytes, block, n);
        Narrow(block, to + at * to_bytes, n);
      }
    });
    return Status::Ok();
  }

 private:
  void Widen(const std::byte* x, float* y, int64_t n) const {
    if (before_ != nullptr) return before_(x, y, n);
    (from_ == DType::kF16 ? table_.f16_to_f32 : table_.bf16_to_f32)(reinterpret_cast<const uint16_t*>(x), y, n);
  }
  void Narrow(const float* x, std::byte* y, int64_t n) const {
    if (after_ != nullptr) return after_(x, y, n);
    (to_ == DType::kF16 ? table_.f32_to_f16 : table_.f32_to_bf16)(x, reinterpret_cast<uint16_t*>(y), n);
  }

  const F32Table& table_;
  Loop before_;
  Loop after_;
  DType from_;
  DType to_;
};

bool IsHalf(DType t) {
  return t == DType::kF16 || t == DType::kBF16;
}

}  // namespace

Refusal CanCastPlain(const Problem& problem) {
  const DType from = problem.in[0].dtype;
  const DType to = problem.out[0].dtype;
  return from != to && LoopOf(hw::kBaseline, from, to) != nullptr ? nullptr : kRefuseDType;
}

Refusal CanCastFast(const Problem& problem) {
  const DType from = problem.in[0].dtype;
  const DType to = problem.out[0].dtype;
  if (from == to) return kRefuseDType;
  const bool known = (IsHalf(from) || LoopOf(hw::kBaseline, from, DType::kF32) != nullptr) &&
                     (IsHalf(to) || LoopOf(hw::kBaseline, DType::kF32, to) != nullptr);
  return known || CanCastPlain(problem) == nullptr ? nullptr : kRefuseDType;
}

namespace {

template <hw::IsaMask kIsa>
KernelPtr MakeCast(const Problem& problem) {
  const DType from = problem.in[0].dtype;
  const DType to = problem.out[0].dtype;
  if (const Loop loop = LoopOf(kIsa, from, to)) return std::unique_ptr<Kernel>(new CastPlain(loop, from, to));
  return std::unique_ptr<Kernel>(new CastHalf(kIsa, from, to));
}

}  // namespace

KernelPtr MakeCastPortable(const Problem& problem) {
  return MakeCast<hw::kBaseline>(problem);
}
KernelPtr MakeCastAvx2(const Problem& problem) {
  return MakeCast<hw::kAvx2>(problem);
}
KernelPtr MakeCastAvx512(const Problem& problem) {
  return MakeCast<hw::kAvx512>(problem);
}

}  // namespace tenon::kernels::elementwise
