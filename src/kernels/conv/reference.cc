#include <array>
#include <vector>

#include "base/dtype.h"
#include "kernels/conv/conv.h"
#include "kernels/float_io.h"
#include "kernels/refusals.h"

namespace tenon::kernels::conv {
namespace {

// Walks all index tuples below `extents`, last axis fastest.
using Index = std::array<int64_t, kMaxSpatial>;

bool Next(Index& index, const int64_t* extents, int rank) {
  for (int i = rank - 1; i >= 0; --i) {
    if (++index[static_cast<size_t>(i)] < extents[i]) return true;
    index[static_cast<size_t>(i)] = 0;
  }
  return false;
}

int64_t Flat(const Index& index, const int64_t* extents, int rank) {
  int64_t at = 0;
  for (int i = 0; i < rank; ++i) at = at * extents[i] + index[static_cast<size_t>(i)];
  return at;
}

class Reference final : public Kernel {
 public:
  explicit Reference(Params params) : params_(std::move(params)) {}

  Status Run(const RunArgs& args) const override {
    TENON_ASSIGN_OR_RETURN(const Geometry g, Resolve(params_, args.in[0].shape, args.in[1].shape));
    TENON_RETURN_IF_ERROR(CheckAddends(g, args.in));
    if (g.y.num_elements() == 0) return Status::Ok();
    if (args.in[1].dtype == DType::kBF16) {
      ConvolveBf16(args, g);
      return Status::Ok();
    }
    const bool served = DispatchDType<TENON_FLOAT_TYPES>(args.in[0].dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* in[4] = {};
      for (size_t i = 0; i < 4; ++i) in[i] = args.Has(i) ? args.in[i].Data<T>() : nullptr;
      Convolve(in, g, args.out[0]);
    });
    return served ? Status::Ok() : Unsupported("convolution of {}", DTypeName(args.in[0].dtype));
  }

 private:
  template <typename T>
  static double Value(const T& v) {
    if constexpr (std::is_same_v<T, double>) return v;
    return static_cast<double>(static_cast<float>(v));
  }

  // Input position that meets output position `out` at kernel position `tap` on axis i; -1 when there is none.
  int64_t Source(const Geometry& g, int i, int64_t out, int64_t tap) const {
    int64_t at;
    if (params_.transpose) {
      at = out + g.pad[i] - tap * g.dilation[i];
      if (at < 0 || at % g.stride[i] != 0) return -1;
      at /= g.stride[i];
    } else {
      at = out * g.stride[i] - g.pad[i] + tap * g.dilation[i];
    }
    return at >= 0 && at < g.in[i] ? at : -1;
  }

  // Weights are bf16, all others bf16 or f32.
  void ConvolveBf16(const RunArgs& args, const Geometry& g) const {
    std::vector<double> values[4];
    const double* in[4] = {};
    for (size_t i = 0; i < 4; ++i) {
      if (!args.Has(i)) continue;
      values[i].resize(static_cast<size_t>(args.in[i].shape.num_elements()));
      for (size_t j = 0; j < values[i].size(); ++j) {
        const double v = LoadAt(args.in[i], static_cast<int64_t>(j));
        values[i][j] = i == 0 ? LoadF(StoreF<BFloat16>(v)) : v;
      }
      in[i] = values[i].data();
    }
    Convolve(in, g, args.out[0]);
  }

  template <typename T>
  void Convolve(const T* const (&in)[4], const Geometry& g, const MutView& y) const {
    const T* x = in[0];
    const T* w = in[1];
    const T* bias = in[2];
    const T* residual = in[3];
    const int64_t in_pixels = g.in_pixels();
    const int64_t out_pixels = g.out_pixels();
    Index at{};
    for (int64_t n = 0; n < g.n; ++n) {
      do {
        const int64_t pixel = Flat(at, g.out, g.spatial);
        for (int64_t o = 0; o < g.oc; ++o) {
          double v = Sum(g, x, w, n, o, at, in_pixels) + (bias != nullptr ? Value(bias[o]) : 0);
          const int64_t to = params_.nhwc ? (n * out_pixels + pixel) * g.oc + o : (n * g.oc + o) * out_pixels + pixel;
          if (residual != nullptr) v += Value(residual[to]);
          v = gemm::Apply(params_.activation, v);
          StoreAt(y, to, v);
        }
      } while (Next(at, g.out, g.spatial));
    }
  }

  template <typename T>
  double Sum(const Geometry& g, const T* x, const T* w, int64_t n, int64_t o, const Index& at, int64_t in_pixels) const {
    const int64_t group = o / g.ocg();
    const int64_t taps = g.taps();
    Index tap{};
    Index source{};
    double sum = 0;
    do {
      bool inside = true;
      for (int i = 0; inside && i < g.spatial; ++i) {
        const auto s = static_cast<size_t>(i);
        source[s] = Source(g, i, at[s], tap[s]);
        inside = source[s] >= 0;
      }
      if (!inside) continue;
      const int64_t pixel = Flat(source, g.in, g.spatial);
      const int64_t t = Flat(tap, g.kernel, g.spatial);
      for (int64_t c = 0; c < g.icg(); ++c) {
        const int64_t channel = group * g.icg() + c;
        const T& vx = params_.nhwc ? x[(n * in_pixels + pixel) * g.c + channel] : x[(n * g.c + channel) * in_pixels + pixel];
        const T& vw = params_.transpose ? w[(channel * g.ocg() + o % g.ocg()) * taps + t] : w[(o * g.icg() + c) * taps + t];
        sum += Value(vx) * Value(vw);
      }
    } while (Next(tap, g.kernel, g.spatial));
    return sum;
  }

  Params params_;
};

}  // namespace

Refusal CanReference(const Problem& problem) {
  return DispatchDType<TENON_FLOAT_TYPES>(problem.in[0].dtype, [](auto) {}) ? nullptr : kRefuseDType;
}

Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem) {
  TENON_ASSIGN_OR_RETURN(Params p, ParseParams(problem.op, problem.attrs));
  return std::unique_ptr<Kernel>(new Reference(std::move(p)));
}

}  // namespace tenon::kernels::conv
