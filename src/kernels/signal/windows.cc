// Window functions and the mel filter bank: computed in double, stored in the type asked for.
#include <cmath>
#include <numbers>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/signal/signal.h"

namespace tenon::kernels::signal {
namespace {

Result<DType> OutputType(const Attrs& attrs) {
  const int64_t raw = attrs.Int("output_datatype", 1);
  if (raw < 1 || raw > 100 || !IsPlainNumeric(static_cast<DType>(raw))) {
    return BadInput("output_datatype {}; a plain numeric type needed", raw);
  }
  return static_cast<DType>(raw);
}

// cos terms of w[n] = a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
struct Cosines {
  double a0, a1, a2;
};
Cosines CosinesOf(std::string_view op) {
  if (op == "HannWindow") return {0.5, 0.5, 0};
  if (op == "HammingWindow") return {25.0 / 46, 21.0 / 46, 0};
  return {0.42, 0.5, 0.08};
}

class Window final : public Kernel {
 public:
  Window(Cosines c, bool periodic) : c_(c), periodic_(periodic) {}
  Status Run(const RunArgs& args) const override {
    const double size = LoadDouble(args.in[0].dtype, args.in[0].data, 0);
    if (size < 0 || size > static_cast<double>(kMaxLength))
      return BadInput("window of {} samples; allowed: 0 to {}", size, kMaxLength);
    const auto n = static_cast<int64_t>(size);
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, Shape{n}));
    const int64_t period = periodic_ ? n : n - 1;
    for (int64_t i = 0; i < n; ++i) {
      // A symmetric window of one sample is its peak.
      const double t =
          period == 0 ? std::numbers::pi : 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period);
      StoreDouble(y.dtype, y.data, i, c_.a0 - c_.a1 * std::cos(t) + c_.a2 * std::cos(2 * t));
    }
    return {};
  }

 private:
  Cosines c_;
  bool periodic_;
};

// Triangles between mel-spaced points, as in ONNX's reference: points are rounded down to bins.
class MelWeights final : public Kernel {
 public:
  Status Run(const RunArgs& args) const override {
    double in[5];
    for (size_t i = 0; i < 5; ++i) in[i] = LoadDouble(args.in[i].dtype, args.in[i].data, 0);
    const double top = static_cast<double>(kMaxLength);
    if (!(in[0] >= 0 && in[0] <= top)) return BadInput("num_mel_bins is {}; allowed: 0 to {}", in[0], kMaxLength);
    if (!(in[1] >= 1 && in[1] <= top)) return BadInput("dft_length is {}; allowed: 1 to {}", in[1], kMaxLength);
    if (!(in[2] >= 1)) return BadInput("sample_rate is {}; at least 1 needed", in[2]);
    if (!(in[3] >= 0 && in[4] >= in[3] && in[4] <= 1e12))
      return BadInput("edges {} and {} Hz; 0 <= lower <= upper needed", in[3], in[4]);
    const auto bands = static_cast<int64_t>(in[0]);
    const int64_t bins = static_cast<int64_t>(in[1]) / 2 + 1;
    const double low = 2595 * std::log10(1 + in[3] / 700);
    const double step = (2595 * std::log10(1 + in[4] / 700) - low) / static_cast<double>(bands + 2);
    std::vector<int64_t> points;
    for (int64_t i = 0; i < bands + 2; ++i) {
      const double hertz = 700 * (std::pow(10.0, (low + static_cast<double>(i) * step) / 2595) - 1);
      points.push_back(static_cast<int64_t>(std::floor((in[1] + 1) * hertz / in[2])));
    }
    if (bands > 0 && points.back() > bins) {
      return BadInput("upper edge of {} Hz lies beyond half the sample rate of {} Hz", in[4], in[2]);
    }
    TENON_ASSIGN_OR_RETURN(const MutView y, TakeOutput(args, 0, Shape{bins, bands}));
    std::memset(y.data, 0, y.bytes());
    const auto set = [&](int64_t bin, int64_t band, double v) {
      if (bin < bins) StoreDouble(y.dtype, y.data, bin * bands + band, v);
    };
    for (int64_t band = 0; band < bands; ++band) {
      const int64_t* p = points.data() + band;
      if (p[1] == p[0]) set(p[1], band, 1);
      for (int64_t j = p[0]; p[1] > p[0] && j <= p[1]; ++j)
        set(j, band, static_cast<double>(j - p[0]) / static_cast<double>(p[1] - p[0]));
      for (int64_t j = p[1]; j < p[2]; ++j) set(j, band, static_cast<double>(p[2] - j) / static_cast<double>(p[2] - p[1]));
    }
    return {};
  }
};

Result<Dim> Count(const ShapeArgs& args, size_t i, const char* what) {
  const DType t = args.in[i].dtype;
  if (t != DType::kUndefined && t != DType::kI32 && t != DType::kI64)
    return BadInput("{} is {}; int32 or int64 needed", what, DTypeName(t));
  const auto elements = KnownElements(args.in[i]);
  if (!elements) return Dim::Unknown();
  if (elements->size() != 1) return BadInput("{} has {} elements; a scalar needed", what, elements->size());
  const Dim n = (*elements)[0];
  if (n.is_const() && (n.value() < 0 || n.value() > kMaxLength))
    return BadInput("{} is {}; allowed: 0 to {}", what, n.value(), kMaxLength);
  return n;
}

}  // namespace

Status InferWindow(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const DType t, OutputType(args.attrs));
  TENON_ASSIGN_OR_RETURN(Dim n, Count(args, 0, "size"));
  SetOutput(args, 0, t, SymShape({n}));
  return {};
}

Status InferMelWeights(const ShapeArgs& args) {
  TENON_ASSIGN_OR_RETURN(const DType t, OutputType(args.attrs));
  TENON_ASSIGN_OR_RETURN(Dim bands, Count(args, 0, "num_mel_bins"));
  TENON_ASSIGN_OR_RETURN(Dim n, Count(args, 1, "dft_length"));
  for (size_t i = 2; i < 5; ++i) {
    if (args.in[i].dtype != DType::kUndefined && !IsPlainNumeric(args.in[i].dtype)) {
      return BadInput("input {} is {}; a plain numeric type needed", i, DTypeName(args.in[i].dtype));
    }
    if (args.in[i].shape.has_rank() && args.in[i].shape.is_const() && !args.in[i].shape.NumElements().Is(1)) {
      return BadInput("input {} has shape {}; a scalar needed", i, args.in[i].shape.ToString());
    }
  }
  SetOutput(args, 0, t, SymShape({Dim::FloorDiv(n, 2) + 1, bands}));
  return {};
}

Result<std::unique_ptr<Kernel>> MakeWindow(const Problem& p) {
  return std::unique_ptr<Kernel>(new Window(CosinesOf(p.op), p.attrs.Int("periodic", 1) != 0));
}

Result<std::unique_ptr<Kernel>> MakeMelWeights(const Problem& /*p*/) {
  return std::unique_ptr<Kernel>(new MelWeights());
}

}  // namespace tenon::kernels::signal
