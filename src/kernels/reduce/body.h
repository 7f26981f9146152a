// The inner loops of f32 reductions for one instruction set; included by avx2.cc and avx512.cc, which name the table.
#include "kernels/reduce/inner.h"
#include "kernels/vec_f32.h"

namespace tenon::kernels::reduce {
namespace {

struct SumOp {
  static V Start() { return Zero(); }
  static V Step(V acc, V x) { return Add(acc, x); }
  static V Join(V a, V b) { return Add(a, b); }
  static float Lanes(V v) { return SumLanes(v); }
};
struct AbsOp : SumOp {
  static V Step(V acc, V x) { return Add(acc, Abs(x)); }
};
struct SquareOp : SumOp {
  static V Step(V acc, V x) { return Fma(x, x, acc); }
};
struct ProdOp {
  static V Start() { return Set1(1.0f); }
  static V Step(V acc, V x) { return Mul(acc, x); }
  static V Join(V a, V b) { return Mul(a, b); }
  static float Lanes(V v) { return MulLanes(v); }
};
// NaN must win: the hardware maximum drops a NaN in its first operand, so a NaN accumulator is put back.
struct MaxOp {
  static V Start() { return Set1(-__builtin_inff()); }
  static V Step(V acc, V x) { return Select(Nan(acc), acc, Max(acc, x)); }
  static V Join(V a, V b) { return Step(a, b); }
  static float Lanes(V v) { return Bits(Nan(v)) != 0 ? __builtin_nanf("") : MaxLanes(v); }
};
struct MinOp {
  static V Start() { return Set1(__builtin_inff()); }
  static V Step(V acc, V x) { return Select(Nan(acc), acc, Min(acc, x)); }
  static V Join(V a, V b) { return Step(a, b); }
  static float Lanes(V v) { return Bits(Nan(v)) != 0 ? __builtin_nanf("") : MinLanes(v); }
};

// Sums go in blocks, so that rounding grows with the number of blocks and not of elements.
constexpr int64_t kBlock = 4096;

template <typename Op>
V RunBlock(const float* x, int64_t n) {
  V a0 = Op::Start(), a1 = a0, a2 = a0, a3 = a0;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a0 = Op::Step(a0, Load(x + i));
    a1 = Op::Step(a1, Load(x + i + kLanes));
    a2 = Op::Step(a2, Load(x + i + 2 * kLanes));
    a3 = Op::Step(a3, Load(x + i + 3 * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) a0 = Op::Step(a0, Load(x + i));
  if (i < n) a1 = Keep(Op::Step(a1, LoadPart(x + i, n - i)), a1, n - i);
  return Op::Join(Op::Join(a0, a1), Op::Join(a2, a3));
}

template <typename Op>
float Run(const float* x, int64_t n) {
  V acc = Op::Start();
  for (int64_t i = 0; i < n; i += kBlock) acc = Op::Join(acc, RunBlock<Op>(x + i, n - i < kBlock ? n - i : kBlock));
  return Op::Lanes(acc);
}

float RunExp(const float* x, int64_t n, float shift) {
  V acc = Zero();
  const V s = Set1(shift);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) acc = Add(acc, Exp(Sub(Load(x + i), s)));
  if (i < n) acc = Add(acc, Keep(Exp(Sub(LoadPart(x + i, n - i), s)), Zero(), n - i));
  return SumLanes(acc);
}

float RunKind(Kind kind, const float* x, int64_t n, float shift) {
  switch (kind) {
    case Kind::kMax: return Run<MaxOp>(x, n);
    case Kind::kMin: return Run<MinOp>(x, n);
    case Kind::kProd: return Run<ProdOp>(x, n);
    case Kind::kL1: return Run<AbsOp>(x, n);
    case Kind::kL2:
    case Kind::kSumSquare: return Run<SquareOp>(x, n);
    case Kind::kLogSumExp: return RunExp(x, n, shift);
    default: return Run<SumOp>(x, n);
  }
}

// Rows added up before they join the total; see kBlock.
constexpr int64_t kRowBlock = 128;

template <typename Op>
void Columns(const float* x, int64_t rows, int64_t width, int64_t stride, float* y) {
  int64_t j = 0;
  for (; j + 4 * kLanes <= width; j += 4 * kLanes) {
    V t0 = Op::Start(), t1 = t0, t2 = t0, t3 = t0;
    for (int64_t r0 = 0; r0 < rows; r0 += kRowBlock) {
      const int64_t r1 = r0 + kRowBlock < rows ? r0 + kRowBlock : rows;
      V a0 = Op::Start(), a1 = a0, a2 = a0, a3 = a0;
      for (int64_t r = r0; r < r1; ++r) {
        const float* p = x + r * stride + j;
        a0 = Op::Step(a0, Load(p));
        a1 = Op::Step(a1, Load(p + kLanes));
        a2 = Op::Step(a2, Load(p + 2 * kLanes));
        a3 = Op::Step(a3, Load(p + 3 * kLanes));
      }
      t0 = Op::Join(t0, a0), t1 = Op::Join(t1, a1), t2 = Op::Join(t2, a2), t3 = Op::Join(t3, a3);
    }
    Store(y + j, t0), Store(y + j + kLanes, t1), Store(y + j + 2 * kLanes, t2), Store(y + j + 3 * kLanes, t3);
  }
  for (; j < width; j += kLanes) {
    const int64_t n = width - j < kLanes ? width - j : kLanes;
    V t = Op::Start();
    for (int64_t r0 = 0; r0 < rows; r0 += kRowBlock) {
      const int64_t r1 = r0 + kRowBlock < rows ? r0 + kRowBlock : rows;
      V a = Op::Start();
      for (int64_t r = r0; r < r1; ++r) a = Op::Step(a, LoadPart(x + r * stride + j, n));
      t = Op::Join(t, a);
    }
    StorePart(y + j, t, n);
  }
}

void ColumnsKind(Kind kind, const float* x, int64_t rows, int64_t width, int64_t stride, float* y) {
  switch (kind) {
    case Kind::kMax: return Columns<MaxOp>(x, rows, width, stride, y);
    case Kind::kMin: return Columns<MinOp>(x, rows, width, stride, y);
    case Kind::kProd: return Columns<ProdOp>(x, rows, width, stride, y);
    case Kind::kL1: return Columns<AbsOp>(x, rows, width, stride, y);
    case Kind::kL2:
    case Kind::kSumSquare: return Columns<SquareOp>(x, rows, width, stride, y);
    default: return Columns<SumOp>(x, rows, width, stride, y);
  }
}

// The extremum first, then where it is: both passes stream, and the second stops early.
int64_t ArgKind(bool max, bool last, const float* x, int64_t n) {
  const float best = max ? Run<MaxOp>(x, n) : Run<MinOp>(x, n);
  const bool nan = best != best;
  const V b = Set1(best);
  const auto hits = [&](int64_t i, int64_t count) {
    const V v = LoadPart(x + i, count);
    return Bits(nan ? Nan(v) : Equal(v, b)) & ((1u << count) - 1);
  };
  if (last) {
    for (int64_t i = (n - 1) / kLanes * kLanes; i >= 0; i -= kLanes) {
      const uint32_t m = hits(i, n - i < kLanes ? n - i : kLanes);
      if (m != 0) return i + 31 - __builtin_clz(m);
    }
  } else {
    for (int64_t i = 0; i < n; i += kLanes) {
      const uint32_t m = hits(i, n - i < kLanes ? n - i : kLanes);
      if (m != 0) return i + __builtin_ctz(m);
    }
  }
  return 0;
}

// One vector of columns: the extremum so far and the row it came from. A NaN, once met, stays; with kLast a later NaN takes over.
template <bool kMax, bool kLast>
void ArgTile(const float* x, int64_t rows, int64_t stride, int64_t n, int64_t* y) {
  V best = LoadPart(x, n);
  V at = Zero();
  for (int64_t r = 1; r < rows; ++r) {
    const float* p = x + r * stride;
    const V v = n == kLanes ? Load(p) : LoadPart(p, n);
    M better = Or(kMax ? Less(best, v) : Less(v, best), Nan(v));
    if (kLast) better = Or(better, Equal(v, best));
    const V row = Set1(static_cast<float>(r));
    const M stuck = Nan(best);
    const V at_stuck = kLast ? Select(Nan(v), row, at) : at;
    at = Select(stuck, at_stuck, Select(better, row, at));
    best = Select(stuck, best, Select(better, v, best));
  }
  float rows_of[kLanes];
  Store(rows_of, at);
  for (int64_t j = 0; j < n; ++j) y[j] = static_cast<int64_t>(rows_of[j]);
}

void ArgColumnsKind(bool max, bool last, const float* x, int64_t rows, int64_t width, int64_t stride, int64_t* y) {
  const auto tile =
      max ? (last ? ArgTile<true, true> : ArgTile<true, false>) : (last ? ArgTile<false, true> : ArgTile<false, false>);
  for (int64_t j = 0; j < width; j += kLanes) tile(x + j, rows, stride, width - j < kLanes ? width - j : kLanes, y + j);
}

}  // namespace
}  // namespace tenon::kernels::reduce
