// TopK. Elements become 64-bit keys in the order wanted, so that one selection serves every type.
#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/movement/element.h"
#include "kernels/select/internal.h"

namespace tenon::kernels::select {
namespace {

using movement::SetTensor;

// A key whose unsigned order is the order of the values; -0 equals 0, and all NaN are equal and largest.
template <typename T>
uint64_t OrderKey(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return OrderKey(static_cast<float>(v));
  } else if constexpr (std::is_same_v<T, float>) {
    if (v != v) return std::numeric_limits<uint64_t>::max();
    const auto bits = std::bit_cast<uint32_t>(v + 0.0f);
    return (bits >> 31) != 0 ? static_cast<uint32_t>(~bits) : (bits | 0x80000000u);
  } else if constexpr (std::is_same_v<T, double>) {
    if (v != v) return std::numeric_limits<uint64_t>::max();
    const auto bits = std::bit_cast<uint64_t>(v + 0.0);
    return (bits >> 63) != 0 ? ~bits : (bits | (uint64_t{1} << 63));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(v)) ^ (uint64_t{1} << 63);
  } else {
    return static_cast<uint64_t>(v);
  }
}

struct Entry {
  uint64_t key;  // larger is better
  int64_t index;
};
bool Better(const Entry& a, const Entry& b) {
  return a.key > b.key || (a.key == b.key && a.index < b.index);
}

// Up to this k, the best so far are kept sorted by insertion.
constexpr int64_t kInsertion = 32;

// Elements that are compared with the worst kept one at once: most blocks of a long line have none that is better.
constexpr int64_t kScan = 64;

// Whether one of kScan elements may beat `worst` (never false when one does). Largest: NaN beats every number.
template <typename T>
bool AnyBetter([[maybe_unused]] const T* x, [[maybe_unused]] T worst, [[maybe_unused]] bool largest) {
  if constexpr (!std::is_arithmetic_v<T>) {
    return true;  // 16-bit floats have no comparisons of their own
  } else {
    int any = 0;
    if (largest) {
      for (int64_t i = 0; i < kScan; ++i) any |= static_cast<int>(!(x[i] <= worst));
    } else {
      for (int64_t i = 0; i < kScan; ++i) any |= static_cast<int>(!(x[i] >= worst));
    }
    return any != 0;
  }
}

class TopKKernel final : public Kernel {
 public:
  explicit TopKKernel(const Problem& p)
      : axis_(p.attrs.Int("axis", -1)),
        flip_(p.attrs.Int("largest", 1) != 0 ? 0 : ~uint64_t{0}),
        threads_(std::max(1, p.threads)) {}

  Result<Configured> Configure(std::span<const View> in, std::span<const View> /*out*/) const override {
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, in[0].shape.rank()));
    Configured c;
    c.scratch_bytes = static_cast<size_t>(in[0].shape[axis]) * sizeof(Entry) * static_cast<size_t>(threads_);
    return c;
  }

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    TENON_ASSIGN_OR_RETURN(const int axis, movement::NormalizeAxis(axis_, x.shape.rank()));
    const int64_t n = x.shape[axis];
    if (args.in[1].dtype != DType::kI64 || args.in[1].num_elements() != 1) return BadInput("TopK: k must be one int64");
    const int64_t k = *args.in[1].Data<int64_t>();
    if (k < 0 || k > n) return BadInput("TopK: k {} is outside [0, {}], the extent of axis {}", k, n, axis);
    Shape shape = x.shape;
    shape[axis] = k;
    for (size_t i = 0; i < 2; ++i) {
      if (movement::HasOutput(args, i)) TENON_RETURN_IF_ERROR(movement::PrepareOutput(args, i, shape));
    }
    if (shape.num_elements() == 0) return Status::Ok();
    const int64_t inner = x.shape.Product(axis + 1, x.shape.rank());
    const int64_t lines = x.shape.Product(0, axis) * inner;
    const bool known = DispatchDType<TENON_NUMERIC_TYPES>(x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto body = [&](int64_t begin, int64_t end, int thread) {
        Entry* entries = reinterpret_cast<Entry*>(args.scratch) + thread * n;
        for (int64_t line = begin; line < end; ++line) {
          Line(x.Data<T>() + line / inner * n * inner + line % inner, n, k, inner, entries);
          Store<T>(args, line / inner * k * inner + line % inner, x.Data<T>() + line / inner * n * inner + line % inner, k, inner,
                   entries);
        }
      };
      if (args.team.size() > threads_) return body(0, lines, 0);  // scratch was sized for fewer
      args.team.ParallelFor(lines, std::max<int64_t>(1, 16384 / n), body);
    });
    return known ? Status::Ok() : Unsupported("TopK of {}", DTypeName(x.dtype));
  }

 private:
  // entries[0..k) become the best of the line, best first. `entries` has room for n.
  template <typename T>
  void Line(const T* x, int64_t n, int64_t k, int64_t stride, Entry* entries) const {
    if (k <= kInsertion) return Inserted(x, n, k, stride, entries);
    // Up to `room` candidates are collected; when it is full, the best k of them stay.
    const int64_t room = std::min(n, std::max<int64_t>(4 * k, 256));
    int64_t count = 0;
    uint64_t worst = 0;
    bool full = false;  // `worst` is the key of the k-th best so far
    const auto shrink = [&] {
      std::nth_element(entries, entries + k - 1, entries + count, Better);
      count = k;
      worst = entries[k - 1].key;
      full = true;
      return entries[k - 1].index;
    };
    T threshold{};
    for (int64_t i = 0; i < n;) {
      const int64_t m = std::min(kScan, n - i);
      if (full && stride == 1 && m == kScan && !AnyBetter(x + i, threshold, flip_ == 0)) {
        i += m;
        continue;
      }
      for (const int64_t end = i + m; i < end; ++i) {
        const uint64_t key = OrderKey(x[i * stride]) ^ flip_;
        if (full && key <= worst) continue;
        entries[count++] = {key, i};
        if (count == room && count > k) threshold = x[shrink() * stride];
      }
    }
    if (count > k) shrink();
    std::sort(entries, entries + k, Better);
  }

  // The best so far are kept sorted.
  template <typename T>
  void Inserted(const T* x, int64_t n, int64_t k, int64_t stride, Entry* entries) const {
    int64_t count = 0;
    for (int64_t i = 0; i < n;) {
      const int64_t m = std::min(kScan, n - i);
      if (count == k && stride == 1 && m == kScan && !AnyBetter(x + i, x[entries[k - 1].index], flip_ == 0)) {
        i += m;
        continue;
      }
      for (const int64_t end = i + m; i < end; ++i) {
        const uint64_t key = OrderKey(x[i * stride]) ^ flip_;
        if (count == k && key <= entries[k - 1].key) continue;
        int64_t at = count < k ? count++ : k - 1;
        for (; at > 0 && entries[at - 1].key < key; --at) entries[at] = entries[at - 1];
        entries[at] = {key, i};
      }
    }
  }

  template <typename T>
  void Store(const RunArgs& args, int64_t base, const T* x, int64_t k, int64_t stride, const Entry* entries) const {
    if (movement::HasOutput(args, 0)) {
      T* out = args.out[0].Data<T>() + base;
      for (int64_t i = 0; i < k; ++i) out[i * stride] = x[entries[i].index * stride];
    }
    if (movement::HasOutput(args, 1)) {
      int64_t* out = args.out[1].Data<int64_t>() + base;
      for (int64_t i = 0; i < k; ++i) out[i * stride] = entries[i].index;
    }
  }

  int64_t axis_;
  uint64_t flip_;
  int threads_;
};

}  // namespace

Status InferTopK(const ShapeArgs& args) {
  const SymShape& x = args.in[0].shape;
  SymShape shape = x;
  if (x.has_rank()) {
    auto axis = movement::NormalizeAxis(args.attrs.Int("axis", -1), x.rank());
    if (!axis.ok()) return std::move(axis).TakeStatus().Within("TopK");
    Dim k = Dim::Unknown();
    const Dim count = args.in[1].shape.NumElements();
    if (count.is_const() && !count.Is(1))
      return BadInput("TopK: k has shape {}; one number is allowed", args.in[1].shape.ToString());
    if (auto known = movement::SmallElements(args.in[1]); known && known->size() == 1) k = (*known)[0];
    if (k.is_const() && (k.value() < 0 || (x[*axis].is_const() && k.value() > x[*axis].value()))) {
      return BadInput("TopK: k {} is outside [0, {}], the extent of axis {}", k.value(), x[*axis].ToString(), *axis);
    }
    shape[*axis] = k;
  }
  if (!args.out.empty() && args.out[0].present) SetTensor(&args.out[0], args.in[0].dtype, shape);
  if (args.out.size() > 1 && args.out[1].present) SetTensor(&args.out[1], DType::kI64, shape);
  return Status::Ok();
}

Result<std::unique_ptr<Kernel>> MakeTopK(const Problem& p) {
  return movement::Make<TopKKernel>(p);
}

}  // namespace tenon::kernels::select
