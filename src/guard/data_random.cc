// Samples that come from no file: made up, or given by the caller.
#include <map>
#include <random>

#include "guard/source.h"

namespace tenon::guard {
namespace {

Result<Tensor> MakeUp(DType dtype, const Shape& shape, std::mt19937_64& random) {
  TENON_ASSIGN_OR_RETURN(Tensor t, Tensor::Zeros(dtype, shape));
  const int64_t n = shape.num_elements();
  // Own scaling: std::uniform_real_distribution may differ between libraries.
  const auto next = [&] { return static_cast<float>(random() >> 40) * 0x1p-24f; };
  const bool filled = DispatchDType<TENON_NUMERIC_TYPES>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < n; ++i) {
      // Integers are 0 or 1: valid as masks, token types and indices of anything.
      if constexpr (std::is_integral_v<T>) {
        t.MutableData<T>()[i] = static_cast<T>(next() >= 0.5f);
      } else {
        t.MutableData<T>()[i] = static_cast<T>(next());
      }
    }
  });
  if (!filled && dtype == DType::kBool) {
    for (int64_t i = 0; i < n; ++i) t.MutableData<uint8_t>()[i] = next() >= 0.5f ? 1 : 0;
  }
  return t;
}

class RandomData final : public DataSet {
 public:
  RandomData(std::vector<TensorInfo> inputs, std::vector<Shape> shapes, size_t count, uint64_t seed)
      : inputs_(std::move(inputs)), shapes_(std::move(shapes)), count_(count), seed_(seed) {}
  size_t size() const override { return count_; }
  bool has_labels() const override { return false; }
  Result<Sample> Load(size_t i) override {
    Sample sample;
    std::mt19937_64 random(seed_ + i);
    for (size_t k = 0; k < inputs_.size(); ++k) {
      TENON_ASSIGN_OR_RETURN(const Tensor t, MakeUp(inputs_[k].dtype, shapes_[k], random));
      sample.inputs.push_back(ToHost(inputs_[k].name, t));
    }
    sample.where = fmt::format("random sample {}", i);
    return sample;
  }
  std::string Describe() const override { return fmt::format("{} samples of random values, seed {}", count_, seed_); }

 private:
  std::vector<TensorInfo> inputs_;
  std::vector<Shape> shapes_;
  size_t count_;
  uint64_t seed_;
};

class GivenData final : public DataSet {
 public:
  GivenData(std::vector<Sample> samples, std::string description)
      : samples_(std::move(samples)), description_(std::move(description)) {}
  size_t size() const override { return samples_.size(); }
  bool has_labels() const override { return !samples_.empty() && samples_[0].labels.defined(); }
  Result<Sample> Load(size_t i) override { return samples_[i]; }
  std::string Describe() const override { return description_; }

 private:
  std::vector<Sample> samples_;
  std::string description_;
};

}  // namespace

std::unique_ptr<DataSet> DataSet::Of(std::vector<Sample> samples, const std::string& description) {
  return std::make_unique<GivenData>(std::move(samples), description);
}

Result<std::unique_ptr<DataSet>> DataSet::Random(const Session& session, size_t count, uint64_t seed) {
  std::vector<Shape> shapes;
  for (const TensorInfo& info : session.inputs()) {
    if (info.is_sequence) return Unsupported("input '{}' is a sequence; give data", info.name);
    if (!info.has_rank) return Unsupported("input '{}' has no declared rank, so no values are made up for it", info.name);
    std::vector<int64_t> dims;
    for (const std::string& d : info.dims) dims.push_back(FixedExtent(d).value_or(1));
    TENON_ASSIGN_OR_RETURN(Shape shape, CheckedShape(dims));
    shapes.push_back(shape);
  }
  return {std::make_unique<RandomData>(session.inputs(), std::move(shapes), count, seed)};
}

}  // namespace tenon::guard
