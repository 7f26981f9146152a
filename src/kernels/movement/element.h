// What operators that only move elements share: element sizes instead of types, outputs, axes, small integer inputs.
// An element is 1, 2, 4, 8 or 16 bytes or a std::string; 4- and 2-bit types are unpacked to bytes around the move.
#ifndef TENON_KERNELS_MOVEMENT_ELEMENT_H_
#define TENON_KERNELS_MOVEMENT_ELEMENT_H_

#include <cstdint>
#include <string>

#include "kernels/kernel.h"

namespace tenon::kernels::movement {

/// "Element size" of a std::string, which is assigned instead of copied bytewise.
inline constexpr int kStringSize = 0;

/// 1, 2, 4, 8, 16, or kStringSize. Sub-byte types count as 1 (they are moved unpacked).
int ElementSize(DType t);
inline bool IsSubByte(DType t) {
  const int bits = DTypeBits(t);
  return bits > 0 && bits < 8;
}

inline int64_t StrideBytes(int size) {
  return size == kStringSize ? static_cast<int64_t>(sizeof(std::string)) : size;
}
inline const void* At(const void* p, int64_t index, int size) {
  return static_cast<const char*>(p) + index * StrideBytes(size);
}
inline void* At(void* p, int64_t index, int size) {
  return static_cast<char*>(p) + index * StrideBytes(size);
}

/// dst[0..n) = src[0..n).
void CopyElements(void* dst, const void* src, int64_t n, int size);
/// The same with threads when it is large.
void CopyElementsParallel(void* dst, const void* src, int64_t n, int size, hw::Team& team);
/// dst[0..n) = *value; `value` null means zero (empty string).
void FillElements(void* dst, const void* value, int64_t n, int size);

struct Bytes16 {
  uint64_t lo, hi;
  friend bool operator==(const Bytes16&, const Bytes16&) = default;
};

/// Calls f(T*) with a null pointer of the storage type of `size`.
template <typename F>
decltype(auto) DispatchSize(int size, F&& f) {
  switch (size) {
    case 1: return f(static_cast<uint8_t*>(nullptr));
    case 2: return f(static_cast<uint16_t*>(nullptr));
    case 4: return f(static_cast<uint32_t*>(nullptr));
    case 8: return f(static_cast<uint64_t*>(nullptr));
    case 16: return f(static_cast<Bytes16*>(nullptr));
    default: return f(static_cast<std::string*>(nullptr));
  }
}

/// Makes output `i` ready: asks the allocator when the plan did not know the shape, else checks the plan.
Status PrepareOutput(const RunArgs& args, size_t i, const Shape& shape);
inline bool HasOutput(const RunArgs& args, size_t i) {
  return i < args.out.size() && args.out[i].present();
}

/// A kernel whose elements may be packed below a byte: Move sees them as bytes.
class MoveKernel : public Kernel {
 public:
  Status Run(const RunArgs& args) const final;

 protected:
  virtual Status Move(const RunArgs& args) const = 0;

 private:
  Status RunUnpacked(const RunArgs& args) const;
};

/// make of a kernel class with a constructor from Problem; K::Check(problem) may refuse attributes first.
template <typename K>
Result<std::unique_ptr<Kernel>> Make(const Problem& problem) {
  if constexpr (requires { K::Check(problem); }) TENON_RETURN_IF_ERROR(K::Check(problem));
  return std::unique_ptr<Kernel>(new K(problem));
}

/// `axis` counted from the front; kBadInput outside [-rank, rank).
Result<int> NormalizeAxis(int64_t axis, int rank);

/// Up to kCapacity integers of an int32 or int64 tensor, without allocating.
struct SmallInts {
  static constexpr int kCapacity = 2 * kMaxRank;
  int64_t values[kCapacity];
  int count = 0;
  int64_t operator[](int i) const { return values[i]; }
  std::span<const int64_t> span() const { return {values, static_cast<size_t>(count)}; }
};
Status ReadSmallInts(const View& v, std::string_view what, SmallInts* out);
inline int64_t ReadInt(const View& v, int64_t i) {
  return v.dtype == DType::kI64 ? v.Data<int64_t>()[i] : v.Data<int32_t>()[i];
}
inline bool IsIndexType(DType t) {
  return t == DType::kI32 || t == DType::kI64;
}

/// Largest number of elements of a shape-like value that rules carry as symbols.
inline constexpr int64_t kMaxKnownElements = 64;
/// KnownElements for integer values of rank <= 1 with at most kMaxKnownElements elements, else nullopt.
std::optional<std::vector<Dim>> SmallElements(const ValueInfo& v);
/// KnownInts that refuses to look at more than `limit` elements.
std::optional<std::vector<int64_t>> SmallKnownInts(const ValueInfo& v, int64_t limit = 2 * kMaxRank);
void SetElements(ValueInfo* out, std::vector<Dim> elements);

/// Refusal of a shape with a negative extent or more elements than Tenon accepts, for rules: extents that are numbers only.
Status CheckDims(const SymShape& shape);

inline void SetTensor(ValueInfo* out, DType dtype, SymShape shape) {
  out->dtype = dtype;
  out->is_sequence = false;
  out->shape = std::move(shape);
  out->elements.reset();
}

}  // namespace tenon::kernels::movement

#endif  // TENON_KERNELS_MOVEMENT_ELEMENT_H_
