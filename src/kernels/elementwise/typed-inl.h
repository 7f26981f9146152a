// The loops of typed.h, which the compiler vectorises: plain selects without branches, and -O3 for GCC, whose -O2 leaves loops of
// unknown length alone. Included by typed_*.cc, which name the function that fills the table.
#include "kernels/elementwise/typed.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#define TENON_NO_ALIAS _Pragma("GCC ivdep")
#else
#pragma clang diagnostic ignored "-Wpass-failed"  // division has no vectors
#define TENON_NO_ALIAS _Pragma("clang loop vectorize(assume_safety)")
#endif

namespace tenon::kernels::elementwise {
namespace {

// Types by hand: this file may not instantiate the library's templates.
template <typename A, typename B>
struct SameType {
  static constexpr bool kValue = false;
};
template <typename A>
struct SameType<A, A> {
  static constexpr bool kValue = true;
};
template <typename T>
constexpr bool kIsFloat = SameType<T, float>::kValue || SameType<T, double>::kValue;

template <typename T>
struct UnsignedOf {
  using Type = uint64_t;
};
template <>
struct UnsignedOf<int32_t> {
  using Type = uint32_t;
};
template <>
struct UnsignedOf<uint8_t> {
  using Type = uint8_t;
};

template <typename T, BinaryOp kOp>
inline auto Apply(T a, T b) {
  using U = typename UnsignedOf<T>::Type;
  if constexpr (kOp == BinaryOp::kAdd) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  if constexpr (kOp == BinaryOp::kSub) return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  if constexpr (kOp == BinaryOp::kMul) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  if constexpr (kOp == BinaryOp::kDiv)
    return b == 0 ? T{0} : b == -1 ? static_cast<T>(U{0} - static_cast<U>(a)) : static_cast<T>(a / b);
  if constexpr (kOp == BinaryOp::kMod) {
    if (b == 0 || b == -1) return T{0};
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
  }
  if constexpr (kOp == BinaryOp::kFmod) return b == 0 || b == -1 ? T{0} : static_cast<T>(a % b);
  if constexpr (kOp == BinaryOp::kMax) return a > b ? a : b;
  if constexpr (kOp == BinaryOp::kMin) return a < b ? a : b;
  if constexpr (kOp == BinaryOp::kAnd || kOp == BinaryOp::kBitwiseAnd) return static_cast<T>(a & b);
  if constexpr (kOp == BinaryOp::kOr || kOp == BinaryOp::kBitwiseOr) return static_cast<T>(a | b);
  if constexpr (kOp == BinaryOp::kXor || kOp == BinaryOp::kBitwiseXor) return static_cast<T>(a ^ b);
  if constexpr (kOp == BinaryOp::kEqual) return static_cast<uint8_t>(a == b);
  if constexpr (kOp == BinaryOp::kLess) return static_cast<uint8_t>(a < b);
  if constexpr (kOp == BinaryOp::kLessOrEqual) return static_cast<uint8_t>(a <= b);
  if constexpr (kOp == BinaryOp::kGreater) return static_cast<uint8_t>(a > b);
  if constexpr (kOp == BinaryOp::kGreaterOrEqual) return static_cast<uint8_t>(a >= b);
}

template <typename T, BinaryOp kOp, int kForm>
void Binary(const void* pa, const void* pb, void* py, int64_t n) {
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  auto* y = static_cast<decltype(Apply<T, kOp>(T{}, T{}))*>(py);
  if (n <= 0) return;
  const T sa = *a;
  const T sb = *b;
  TENON_NO_ALIAS
  for (int64_t i = 0; i < n; ++i) y[i] = Apply<T, kOp>(kForm == kFirstScalar ? sa : a[i], kForm == kSecondScalar ? sb : b[i]);
}

template <typename T, UnaryOp kOp>
void Unary(const void* px, void* py, int64_t n) {
  using U = typename UnsignedOf<T>::Type;
  const T* x = static_cast<const T*>(px);
  T* y = static_cast<T*>(py);
  TENON_NO_ALIAS
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i];
    if constexpr (kOp == UnaryOp::kNot) y[i] = static_cast<T>(v == 0);
    if constexpr (kOp == UnaryOp::kBitwiseNot) y[i] = static_cast<T>(~v);
    if constexpr (kOp == UnaryOp::kNeg) y[i] = static_cast<T>(U{0} - static_cast<U>(v));
    if constexpr (kOp == UnaryOp::kAbs) y[i] = v < 0 ? static_cast<T>(U{0} - static_cast<U>(v)) : v;
  }
}

void IsNan(const float* x, uint8_t* y, int64_t n, bool, bool) {
  TENON_NO_ALIAS
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] != x[i];
}

void IsInf(const float* x, uint8_t* y, int64_t n, bool negative, bool positive) {
  // A sign that is not asked for compares with NaN, which nothing equals.
  const float low = negative ? -__builtin_inff() : __builtin_nanf("");
  const float high = positive ? __builtin_inff() : __builtin_nanf("");
  TENON_NO_ALIAS
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[i];
    y[i] = static_cast<uint8_t>(static_cast<int>(v == low) | static_cast<int>(v == high));
  }
}

struct Bool {};  // as the target of a cast

template <typename T>
struct Storage {
  using Type = T;
};
template <>
struct Storage<Bool> {
  using Type = uint8_t;
};

// Saturating, NaN to 0, as the oracle does: clamped into what the type holds, so that the conversion is always defined.
template <typename From, typename To>
inline To ToInteger(From v) {
  constexpr bool kWide = sizeof(To) > 4 || (sizeof(To) == 4 && sizeof(From) == 4);  // the upper bound is no value of From
  constexpr From kTwo31 = From(2147483648.0), kTwo63 = kTwo31 * kTwo31 * 2;
  constexpr bool kUnsigned = To(-1) > To(0);
  constexpr From kUpper = sizeof(To) == 8 ? kTwo63 : sizeof(To) == 4 ? kTwo31 : kUnsigned ? From(256) : From(128);
  constexpr From kLower = kUnsigned ? From(0) : -kUpper;
  // The greatest value of From that To holds.
  constexpr From kGreatest =
      !kWide ? kUpper - 1 : kUpper - kUpper / (sizeof(From) == 4 ? From(16777216.0) : From(9007199254740992.0));
  const From ordered = v == v ? v : From(0);
  const From above = ordered > kLower ? ordered : kLower;
  const From inside = above < kGreatest ? above : kGreatest;
  if constexpr (sizeof(To) < 4) {
    return static_cast<To>(static_cast<int32_t>(inside));
  } else {
    constexpr To kMax = static_cast<To>(~typename UnsignedOf<To>::Type{0} >> 1);
    const To whole = static_cast<To>(inside);
    return kWide && v >= kUpper ? kMax : whole;
  }
}

template <typename From, typename To>
void Cast(const void* px, void* py, int64_t n) {
  using Y = typename Storage<To>::Type;
  const From* x = static_cast<const From*>(px);
  Y* y = static_cast<Y*>(py);
  TENON_NO_ALIAS
  for (int64_t i = 0; i < n; ++i) {
    const From v = x[i];
    if constexpr (SameType<To, Bool>::kValue) {
      y[i] = v != From(0);
    } else if constexpr (kIsFloat<From> && !kIsFloat<To>) {
      y[i] = ToInteger<From, To>(v);
    } else {
      y[i] = static_cast<Y>(v);
    }
  }
}

template <typename T, bool kScalarA, bool kScalarB>
void Select(const uint8_t* c, const void* pa, const void* pb, void* py, int64_t n) {
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  T* y = static_cast<T*>(py);
  if (n <= 0) return;
  const T sa = *a;
  const T sb = *b;
  TENON_NO_ALIAS
  for (int64_t i = 0; i < n; ++i) {
    const T va = kScalarA ? sa : a[i];
    const T vb = kScalarB ? sb : b[i];
    y[i] = c[i] != 0 ? va : vb;
  }
}

template <typename T, BinaryOp... kOps>
void SetBinary(TypedTable::Ops* ops) {
  ((ops->binary[static_cast<int>(kOps)][kBothVectors] = Binary<T, kOps, kBothVectors>,
    ops->binary[static_cast<int>(kOps)][kSecondScalar] = Binary<T, kOps, kSecondScalar>,
    ops->binary[static_cast<int>(kOps)][kFirstScalar] = Binary<T, kOps, kFirstScalar>),
   ...);
}

template <typename T, UnaryOp... kOps>
void SetUnary(TypedTable::Ops* ops) {
  ((ops->unary[static_cast<int>(kOps)] = Unary<T, kOps>), ...);
}

template <typename T>
void SetInteger(TypedTable::Ops* ops) {
  SetBinary<T, BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv, BinaryOp::kMod, BinaryOp::kFmod, BinaryOp::kMax,
            BinaryOp::kMin, BinaryOp::kBitwiseAnd, BinaryOp::kBitwiseOr, BinaryOp::kBitwiseXor, BinaryOp::kEqual, BinaryOp::kLess,
            BinaryOp::kLessOrEqual, BinaryOp::kGreater, BinaryOp::kGreaterOrEqual>(ops);
  SetUnary<T, UnaryOp::kNeg, UnaryOp::kAbs, UnaryOp::kBitwiseNot>(ops);
}

template <typename From>
void SetCasts(TypedUnary* to) {
  to[kPlainF32] = Cast<From, float>;
  to[kPlainF64] = Cast<From, double>;
  to[kPlainI64] = Cast<From, int64_t>;
  to[kPlainI32] = Cast<From, int32_t>;
  to[kPlainU8] = Cast<From, uint8_t>;
  to[kPlainI8] = Cast<From, int8_t>;
  to[kPlainBool] = Cast<From, Bool>;
}

template <typename T>
void SetSelect(TypedSelect* select) {
  select[0] = Select<T, false, false>;
  select[1] = Select<T, true, false>;
  select[2] = Select<T, false, true>;
  select[3] = Select<T, true, true>;
}

}  // namespace

void TENON_FILL(TypedTable* table) {
  SetInteger<int64_t>(&table->i64);
  SetInteger<int32_t>(&table->i32);
  SetBinary<uint8_t, BinaryOp::kAnd, BinaryOp::kOr, BinaryOp::kXor, BinaryOp::kEqual>(&table->boolean);
  SetUnary<uint8_t, UnaryOp::kNot>(&table->boolean);
  table->is_nan = IsNan;
  table->is_inf = IsInf;
  SetCasts<float>(table->cast[kPlainF32]);
  SetCasts<double>(table->cast[kPlainF64]);
  SetCasts<int64_t>(table->cast[kPlainI64]);
  SetCasts<int32_t>(table->cast[kPlainI32]);
  SetCasts<uint8_t>(table->cast[kPlainU8]);
  SetCasts<int8_t>(table->cast[kPlainI8]);
  SetCasts<uint8_t>(table->cast[kPlainBool]);  // 0 or 1
  SetSelect<uint8_t>(table->select[0]);
  SetSelect<uint16_t>(table->select[1]);
  SetSelect<uint32_t>(table->select[2]);
  SetSelect<uint64_t>(table->select[3]);
}

}  // namespace tenon::kernels::elementwise
