// Dropout where training_mode may be true (the importer turns the others into Identity).
#include <atomic>
#include <cmath>
#include <random>

#include "kernels/element.h"
#include "kernels/kernel_util.h"
#include "kernels/movement/element.h"
#include "kernels/random/random.h"

namespace tenon::kernels::random {
namespace {

constexpr double kDefaultRatio = 0.5;

bool IsScalar(const ValueInfo& v) {
  return !v.shape.has_rank() || !v.shape.is_const() || v.shape.NumElements().Is(1);
}

// The sequence of NumPy's RandomState(seed).uniform(), which ONNX's reference draws from: 53 bits of two words each.
class NumpyUniform {
 public:
  explicit NumpyUniform(uint32_t seed) : words_(seed) {}
  double Next() {
    const uint32_t a = static_cast<uint32_t>(words_()) >> 5, b = static_cast<uint32_t>(words_()) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
  }

 private:
  std::mt19937 words_;
};

class DropoutKernel final : public Kernel {
 public:
  explicit DropoutKernel(const Attrs& attrs) : seeded_(attrs.Has("seed")) {
    seed_ = static_cast<uint32_t>(attrs.Int("seed", 0));
    std::random_device device;
    if (!seeded_) key_ = {device(), device()};
  }

  Status Run(const RunArgs& args) const override {
    const View& x = args.in[0];
    const double ratio = args.Has(1) ? LoadDouble(args.in[1].dtype, args.in[1].data, 0) : kDefaultRatio;
    const bool training = args.Has(2) && *args.in[2].Data<bool>();
    MutView y = args.out[0];
    if (!y.present()) return Internal("Dropout: no output");
    bool* mask = Wants(args.out, 1) ? args.out[1].Data<bool>() : nullptr;
    const int64_t n = x.num_elements();
    if (!training || ratio == 0) {
      if (mask != nullptr) std::fill_n(mask, n, true);
      movement::CopyElementsParallel(y.data, x.data, n, movement::ElementSize(x.dtype), args.team);
      return {};
    }
    if (!(ratio > 0 && ratio < 1)) return BadInput("ratio {}; at least 0 and less than 1 needed", ratio);
    const double scale = 1 / (1 - ratio);
    const auto put = [&](int64_t i, double draw) {
      const bool keep = draw >= ratio;
      StoreDouble(x.dtype, y.data, i, keep ? LoadDouble(x.dtype, x.data, i) * scale : 0);
      if (mask != nullptr) mask[i] = keep;
    };
    if (seeded_) {
      NumpyUniform uniform(seed_);
      for (int64_t i = 0; i < n; ++i) put(i, uniform.Next());
      return {};
    }
    const uint32_t run = runs_.fetch_add(1, std::memory_order_relaxed);
    args.team.ParallelFor(n, 4096, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) put(i, PhiloxUniform(key_, run, i));
    });
    return {};
  }

 private:
  bool seeded_;
  uint32_t seed_;
  std::array<uint32_t, 2> key_{};
  mutable std::atomic<uint32_t> runs_{0};
};

}  // namespace

Status InferDropout(const ShapeArgs& args) {
  const int64_t seed = args.attrs.Int("seed", 0);
  if (seed < 0 || seed > UINT32_MAX) return BadInput("seed {}; allowed: 0 to {}", seed, UINT32_MAX);
  const auto is_float = [](DType t) { return t == DType::kUndefined || IsPlainFloat(t); };
  if (!is_float(args.in[0].dtype)) return Unsupported("training mode of {} is not supported", DTypeName(args.in[0].dtype));
  for (size_t i = 1; i < args.in.size(); ++i) {
    const DType t = args.in[i].dtype;
    if (!args.Has(i)) continue;
    if (!IsScalar(args.in[i])) return BadInput("input {} of shape {}; a scalar needed", i, args.in[i].shape.ToString());
    if (i == 1 ? !is_float(t) : t != DType::kBool && t != DType::kUndefined) {
      return BadInput("input {} is {}; {} needed", i, DTypeName(t), i == 1 ? "a float type" : "bool");
    }
  }
  SetOutput(args, 0, args.in[0].dtype, args.in[0].shape);
  SetOutput(args, 1, DType::kBool, args.in[0].shape);
  return {};
}

Result<std::unique_ptr<Kernel>> MakeDropout(const Problem& p) {
  return std::unique_ptr<Kernel>(std::make_unique<DropoutKernel>(p.attrs));
}

}  // namespace tenon::kernels::random
