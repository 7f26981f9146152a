// f32 reductions over [outer][reduce][inner]: how the work is cut for the team. The cut depends on the shape alone, so that the
// number of threads never changes a bit of the result.
#include <algorithm>
#include <cmath>

#include "kernels/reduce/reduce.h"

namespace tenon::kernels::reduce {
namespace {

constexpr int64_t kGrainElements = 16384;  // below that a thread costs more than it saves
constexpr int64_t kPartials = 64;          // partial results of one long run

float Finish(Kind kind, float acc, int64_t n) {
  switch (kind) {
    case Kind::kMean: return acc / static_cast<float>(n);
    case Kind::kL2: return std::sqrt(acc);
    case Kind::kLogSum: return std::log(acc);
    default: return acc;
  }
}

float Row(const ReduceInner& inner, Kind kind, const float* x, int64_t n) {
  if (kind != Kind::kLogSumExp) return Finish(kind, inner.run(kind, x, n, 0), n);
  const float max = inner.run(Kind::kMax, x, n, 0);
  return std::isfinite(max) ? max + std::log(inner.run(kind, x, n, max)) : max;
}

// One long run in kPartials pieces.
float LongRow(const ReduceInner& inner, Kind kind, const float* x, int64_t n, hw::Team& team) {
  float partial[kPartials];
  const int64_t piece = (n + kPartials - 1) / kPartials;
  const auto pass = [&](Kind k, float shift) {
    const int64_t pieces = (n + piece - 1) / piece;
    team.ParallelFor(pieces, std::max<int64_t>(1, kGrainElements / piece), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) partial[i] = inner.run(k, x + i * piece, std::min(piece, n - i * piece), shift);
    });
    const bool add = k != Kind::kMax && k != Kind::kMin && k != Kind::kProd;
    return inner.run(add ? Kind::kSum : k, partial, pieces, 0);
  };
  if (kind != Kind::kLogSumExp) return Finish(kind, pass(kind, 0), n);
  const float max = pass(Kind::kMax, 0);
  return std::isfinite(max) ? max + std::log(pass(kind, max)) : max;
}

// Columns [begin, end) of one outer slice of a LogSumExp: online over rows would cost as much; columns are few in practice.
void LogSumExpColumns(const float* x, int64_t rows, int64_t stride, int64_t begin, int64_t end, float* y) {
  for (int64_t j = begin; j < end; ++j) {
    float max = x[j];
    for (int64_t r = 1; r < rows; ++r) {
      const float v = x[r * stride + j];
      if (v > max || std::isnan(v)) max = v;
      if (std::isnan(max)) break;
    }
    float sum = 0;
    for (int64_t r = 0; r < rows && std::isfinite(max); ++r) sum += std::exp(x[r * stride + j] - max);
    y[j] = std::isfinite(max) ? max + std::log(sum) : max;
  }
}

}  // namespace

void ReduceF32(const ReduceInner& inner, Kind kind, const Collapsed& c, const float* x, float* y, hw::Team& team) {
  if (c.inner == 1) {
    if (c.outer < 16 && c.reduce >= 4 * kGrainElements) {
      for (int64_t o = 0; o < c.outer; ++o) y[o] = LongRow(inner, kind, x + o * c.reduce, c.reduce, team);
      return;
    }
    team.ParallelFor(c.outer, 1 + kGrainElements / c.reduce, [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) y[o] = Row(inner, kind, x + o * c.reduce, c.reduce);
    });
    return;
  }
  // Column blocks of 64 floats: four lines of cache, one tile of the inner function.
  constexpr int64_t kWidth = 64;
  const int64_t blocks = (c.inner + kWidth - 1) / kWidth;
  team.ParallelFor(c.outer * blocks, 1 + kGrainElements / (c.reduce * kWidth), [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end;) {
      const int64_t o = b / blocks;
      const int64_t last = std::min(end, (o + 1) * blocks);
      const int64_t j0 = (b - o * blocks) * kWidth;
      const int64_t j1 = std::min(c.inner, (last - o * blocks) * kWidth);
      const float* xo = x + o * c.reduce * c.inner;
      float* yo = y + o * c.inner;
      if (kind == Kind::kLogSumExp) {
        LogSumExpColumns(xo, c.reduce, c.inner, j0, j1, yo);
      } else {
        inner.columns(kind, xo + j0, c.reduce, j1 - j0, c.inner, yo + j0);
        for (int64_t j = j0; j < j1; ++j) yo[j] = Finish(kind, yo[j], c.reduce);
      }
      b = last;
    }
  });
}

void ReduceAroundF32(const ReduceInner& inner, Kind kind, int64_t outer, int64_t lead, int64_t kept, int64_t reduce,
                     const float* x, float* y, hw::Team& team) {
  team.ParallelFor(outer * kept, 1 + kGrainElements / (lead * reduce), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t o = i / kept, k = i % kept;
      double acc = 0;  // of the runs' accumulators
      for (int64_t l = 0; l < lead; ++l) {
        const double v = static_cast<double>(inner.run(kind, x + ((o * lead + l) * kept + k) * reduce, reduce, 0));
        if (l == 0) {
          acc = v;
        } else if (kind == Kind::kMax) {
          acc = std::isnan(acc) || acc >= v ? acc : v;
        } else if (kind == Kind::kMin) {
          acc = std::isnan(acc) || acc <= v ? acc : v;
        } else {
          acc = kind == Kind::kProd ? acc * v : acc + v;
        }
      }
      y[i] = Finish(kind, static_cast<float>(acc), lead * reduce);
    }
  });
}

}  // namespace tenon::kernels::reduce
