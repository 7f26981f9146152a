// RotaryEmbedding and SwiGLU.
#include <cmath>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/llm/llm.h"

namespace tenon::kernels::llm {
namespace {

bool Differ(const Dim& a, const Dim& b) {
  return a.is_const() && b.is_const() && !(a == b);
}

struct Rotary {
  bool interleaved = false;
  int64_t heads = 0;   // of rank-3 input
  int64_t dim = 0;     // 0: the whole head
};

Result<Rotary> ParseRotary(const Attrs& attrs) {
  Rotary p;
  p.interleaved = attrs.Int("interleaved", 0) != 0;
  p.heads = attrs.Int("num_heads", 0);
  p.dim = attrs.Int("rotary_embedding_dim", 0);
  if (p.heads < 0 || p.dim < 0) return BadInput("num_heads {} and rotary_embedding_dim {}; at least 0 needed", p.heads, p.dim);
  if (p.dim % 2 != 0) return BadInput("rotary_embedding_dim {}; an even number needed", p.dim);
  return p;
}

template <typename E, typename T>
void Turn(const E* x, E* y, const E* cos, const E* sin, int64_t half, bool interleaved, int64_t dim) {
  const int64_t step = interleaved ? 2 : 1;
  const int64_t other = interleaved ? 1 : half;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const T a = static_cast<T>(x[i * step]), b = static_cast<T>(x[i * step + other]);
    const T c = static_cast<T>(cos[i]), s = static_cast<T>(sin[i]);
    y[i * step] = E(c * a - s * b);
    y[i * step + other] = E(s * a + c * b);
  }
  if (x != y) {
    for (int64_t i = 2 * half; i < dim; ++i) y[i] = x[i];
  }
}

class RotaryKernel final : public Kernel {
 public:
  explicit RotaryKernel(Rotary p) : p_(p) {}
  // Both elements of a pair are read before either is written.
  uint32_t InPlaceInputs() const override { return 1; }

  Status Run(const RunArgs& args) const override {
    switch (args.in[0].dtype) {
      case DType::kF32: return RunAs<float, float>(args);
      case DType::kF16: return RunAs<Half, float>(args);
      case DType::kBF16: return RunAs<BFloat16, float>(args);
      case DType::kF64: return RunAs<double, double>(args);
      default: return Unsupported("RotaryEmbedding of {}", DTypeName(args.in[0].dtype));
    }
  }

 private:
  template <typename E, typename T>
  Status RunAs(const RunArgs& args) const {
    const Shape& x = args.in[0].shape;
    const bool four = x.rank() == 4;
    const int64_t batch = x[0], seq = four ? x[2] : x[1];
    const int64_t heads = four ? x[1] : p_.heads;
    if (heads < 1 || (!four && x[2] % heads != 0)) return BadInput("{} heads for input of shape {}", heads, x.ToString());
    const int64_t dim = four ? x[3] : x[2] / heads;
    const int64_t half = (p_.dim == 0 ? dim : p_.dim) / 2;
    if (2 * half > dim || (p_.dim == 0 && dim % 2 != 0)) return BadInput("rotary_embedding_dim {} for heads of {}", p_.dim, dim);
    const Shape& cache = args.in[1].shape;
    const bool by_id = args.Has(3);
    const bool fits = by_id ? cache.rank() == 2 && cache[1] == half : cache == Shape({batch, seq, half});
    if (!fits || !(args.in[2].shape == cache)) {
      return BadInput("caches of shape {} and {}; [{}{}] needed", cache.ToString(), args.in[2].shape.ToString(),
                      by_id ? "positions, " : fmt::format("{}, {}, ", batch, seq), half);
    }
    if (by_id) {
      if (!(args.in[3].shape == Shape({batch, seq}))) return BadInput("position_ids of shape {}", args.in[3].shape.ToString());
      for (int64_t i = 0; i < batch * seq; ++i) {
        const int64_t id = args.in[3].Data<int64_t>()[i];
        if (id < 0 || id >= cache[0]) return BadInput("position {}; position_ids; allowed: 0 to {}", id, cache[0] - 1);
      }
    }
    const E* from = args.in[0].Data<E>();
    E* to = args.out[0].Data<E>();
    args.team.ParallelFor(
        batch * seq, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, heads * dim)), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t row = (by_id ? args.in[3].Data<int64_t>()[i] : i) * half;
            for (int64_t h = 0; h < heads; ++h) {
              const int64_t at = four ? ((i / seq * heads + h) * seq + i % seq) * dim : (i * heads + h) * dim;
              Turn<E, T>(from + at, to + at, args.in[1].Data<E>() + row, args.in[2].Data<E>() + row, half, p_.interleaved, dim);
            }
          }
        });
    return {};
  }

  Rotary p_;
};

class SwiGlu final : public Kernel {
 public:
  explicit SwiGlu(float alpha) : alpha_(alpha) {}
  uint32_t InPlaceInputs() const override { return 3; }
  Status Run(const RunArgs& args) const override {
    const View &a = args.in[0], &b = args.in[1];
    args.team.ParallelFor(a.num_elements(), 4096, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const double v = LoadDouble(a.dtype, a.data, i);
        StoreDouble(a.dtype, args.out[0].data, i, v / (1 + std::exp(-alpha_ * v)) * LoadDouble(b.dtype, b.data, i));
      }
    });
    return {};
  }

 private:
  double alpha_;
};

}  // namespace

Status InferRotary(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const Rotary p, ParseRotary(args.attrs));
  const DType t = args.in[0].dtype;
  if (t != DType::kUndefined && !IsPlainFloat(t)) return BadInput("X is {}; a float type needed", DTypeName(t));
  for (size_t i = 1; i < 3; ++i) {
    if (args.in[i].dtype != t)
      return BadInput("input {} is {} and X {}; equal types needed", i, DTypeName(args.in[i].dtype), DTypeName(t));
  }
  if (args.Has(3) && args.in[3].dtype != DType::kUndefined && args.in[3].dtype != DType::kI64) {
    return BadInput("position_ids is {}; int64 needed", DTypeName(args.in[3].dtype));
  }
  const SymShape& x = args.in[0].shape;
  if (x.has_rank() && x.rank() != 3 && x.rank() != 4) return BadInput("X has shape {}; rank 3 or 4 needed", x.ToString());
  if (x.has_rank() && x.rank() == 3 && p.heads == 0) return BadInput("X has shape {}; num_heads needed for rank 3", x.ToString());
  SetOutput(args, 0, t, x);
  return {};
}

Status InferSwiGlu(const ShapeArgs& args) {
  const ValueInfo &a = args.in[0], &b = args.in[1];
  if (a.dtype != DType::kUndefined && !IsPlainFloat(a.dtype)) return BadInput("A is {}; a float type needed", DTypeName(a.dtype));
  if (a.dtype != b.dtype) return BadInput("A is {} and B {}; equal types needed", DTypeName(a.dtype), DTypeName(b.dtype));
  bool same = !a.shape.has_rank() || !b.shape.has_rank() || a.shape.rank() == b.shape.rank();
  for (int i = 0; same && a.shape.has_rank() && b.shape.has_rank() && i < a.shape.rank(); ++i)
    same = !Differ(a.shape[i], b.shape[i]);
  if (!same) return BadInput("A has shape {} and B {}; equal shapes needed", a.shape.ToString(), b.shape.ToString());
  SetOutput(args, 0, a.dtype, a.shape.has_rank() ? a.shape : b.shape);
  return {};
}

Result<std::unique_ptr<Kernel>> MakeRotary(const Problem& p) {
  TENON_ASSIGN_OR_RETURN(const Rotary r, ParseRotary(p.attrs));
  return std::unique_ptr<Kernel>(new RotaryKernel(r));
}

Result<std::unique_ptr<Kernel>> MakeSwiGlu(const Problem& p) {
  return std::unique_ptr<Kernel>(new SwiGlu(p.attrs.Float("alpha", 1)));
}

}  // namespace tenon::kernels::llm
