// Cast between the types that models use most, as typed loops; f16 and bf16 through the vector conversions where the CPU has
// them.
#include <algorithm>
#include <limits>

#include "kernels/elementwise/blocks.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/f32_table.h"
#include "kernels/refusals.h"

namespace tenon::kernels::elementwise {
namespace {

using Loop = void (*)(const void* x, void* y, int64_t n);

template <typename From, typename To>
To Convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Saturating, NaN to 0, as the oracle does. The bounds are powers of two, hence exact.
    constexpr double kTwo31 = 2147483648.0;
    constexpr double kUpper = std::is_same_v<To, uint8_t>  ? 256.0
                              : std::is_same_v<To, int8_t> ? 128.0
                              : sizeof(To) == 4            ? kTwo31
                                                           : kTwo31 * kTwo31 * 2;
    constexpr double kLower = std::is_unsigned_v<To> ? -1.0 : -kUpper;
    if (v >= static_cast<From>(kUpper)) return std::numeric_limits<To>::max();
    if (v > static_cast<From>(kLower)) return static_cast<To>(v);
    return v != v ? To{0} : std::numeric_limits<To>::min();
  } else {
    return static_cast<To>(v);
  }
}

template <typename From, typename To>
void PlainLoop(const void* x, void* y, int64_t n) {
  const From* from = static_cast<const From*>(x);
  To* to = static_cast<To*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = Convert<From, To>(from[i]);
}

template <typename From>
Loop LoopTo(DType to) {
  switch (to) {
    case DType::kF32: return PlainLoop<From, float>;
    case DType::kF64: return PlainLoop<From, double>;
    case DType::kI64: return PlainLoop<From, int64_t>;
    case DType::kI32: return PlainLoop<From, int32_t>;
    case DType::kU8: return PlainLoop<From, uint8_t>;
    case DType::kI8: return PlainLoop<From, int8_t>;
    case DType::kBool: return PlainLoop<From, bool>;
    default: return nullptr;
  }
}

Loop LoopOf(DType from, DType to) {
  switch (from) {
    case DType::kF32: return LoopTo<float>(to);
    case DType::kF64: return LoopTo<double>(to);
    case DType::kI64: return LoopTo<int64_t>(to);
    case DType::kI32: return LoopTo<int32_t>(to);
    case DType::kU8: return LoopTo<uint8_t>(to);
    case DType::kI8: return LoopTo<int8_t>(to);
    case DType::kBool: return LoopTo<uint8_t>(to);  // 0 or 1
    default: return nullptr;
  }
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
  CastHalf(const F32Table& table, DType from, DType to) : table_(table), from_(from), to_(to) {}
  uint32_t InPlaceInputs() const override { return DTypeBits(from_) == DTypeBits(to_) ? 1 : 0; }
  Status Run(const RunArgs& args) const override {
    const View& in = args.in[0];
    TENON_ASSIGN_OR_RETURN(void* out, OutputData(args, in.shape));
    const Loop before = LoopOf(from_, DType::kF32);
    const Loop after = LoopOf(DType::kF32, to_);
    const int64_t from_bytes = DTypeBits(from_) / 8;
    const int64_t to_bytes = DTypeBits(to_) / 8;
    args.team.ParallelFor(in.num_elements(), kGrain, [&](int64_t begin, int64_t end, int) {
      float block[kBlock];
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t n = std::min(kBlock, end - at);
        const void* x = static_cast<const std::byte*>(in.data) + at * from_bytes;
        void* y = static_cast<std::byte*>(out) + at * to_bytes;
        if (before != nullptr) {
          before(x, block, n);
        } else {
          (from_ == DType::kF16 ? table_.f16_to_f32 : table_.bf16_to_f32)(static_cast<const uint16_t*>(x), block, n);
        }
        if (after != nullptr) {
          after(block, y, n);
        } else {
          (to_ == DType::kF16 ? table_.f32_to_f16 : table_.f32_to_bf16)(block, static_cast<uint16_t*>(y), n);
        }
      }
    });
    return Status::Ok();
  }

 private:
  const F32Table& table_;
  DType from_;
  DType to_;
};

bool IsHalf(DType t) {
  return t == DType::kF16 || t == DType::kBF16;
}

}  // namespace

Refusal CanCastFast(const Problem& problem) {
  const DType from = problem.in[0].dtype;
  const DType to = problem.out[0].dtype;
  if (from == to) return kRefuseDType;
  if (LoopOf(from, to) != nullptr) return nullptr;
  const bool known = (IsHalf(from) || LoopOf(from, DType::kF32) != nullptr) && (IsHalf(to) || LoopOf(DType::kF32, to) != nullptr);
  if (!known) return kRefuseDType;
  return TableFor(problem.isa) != nullptr ? nullptr : kRefuseIsa;
}

KernelPtr MakeCastFast(const Problem& problem) {
  const DType from = problem.in[0].dtype;
  const DType to = problem.out[0].dtype;
  if (const Loop loop = LoopOf(from, to)) return std::unique_ptr<Kernel>(new CastPlain(loop, from, to));
  return std::unique_ptr<Kernel>(new CastHalf(*TableFor(problem.isa), from, to));
}

}  // namespace tenon::kernels::elementwise
