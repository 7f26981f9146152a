// Rank agreement of embeddings: does each sample find the others in the same order of likeness as with the reference?
#include <algorithm>
#include <cmath>
#include <numeric>

#include "guard/judge.h"
#include "guard/values.h"

namespace tenon::guard {
namespace {

// A sample is ranked against this many others at most, evenly chosen, so that time grows with the number of samples, not its
// square.
constexpr size_t kMostOthers = 1000;

// Vectors of one length, one a row.
struct Embeddings {
  size_t size = 0;
  std::vector<double> values;
  size_t count() const { return size == 0 ? 0 : values.size() / size; }
  std::span<const double> row(size_t i) const { return std::span(values).subspan(i * size, size); }
};

// 1 for each position of `output` that counts; empty when all do. `attention_mask` is what exports of encoders call that input.
std::vector<double> Mask(const Sample& sample, size_t positions) {
  for (const HostTensor& input : sample.inputs)
    if (input.name == "attention_mask")
      if (auto mask = Doubles(input); mask && mask->size() == positions) return *std::move(mask);
  return {};
}

// Appends the mean over positions of each row's vectors, of length one.
void AddRow(std::span<const double> vectors, std::span<const double> mask, Embeddings* to) {
  std::vector<double> mean(to->size);
  for (size_t p = 0; p < vectors.size() / to->size; ++p)
    if (mask.empty() || mask[p] != 0)
      for (size_t k = 0; k < to->size; ++k) mean[k] += vectors[p * to->size + k];
  const double norm = std::sqrt(std::inner_product(mean.begin(), mean.end(), mean.begin(), 0.0));
  for (const double v : mean) to->values.push_back(norm > 0 ? v / norm : 0);
}

// Ranks from 0; equal values share the mean of theirs. NaN ranks lowest.
std::vector<double> Ranks(std::vector<double> values) {
  for (double& v : values)
    if (std::isnan(v)) v = -std::numeric_limits<double>::infinity();
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return ranks;
}

// Pearson's correlation; where one side does not vary, 1 if the other does not either, else 0.
double Correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean = static_cast<double>(a.size() - 1) / 2;   // of ranks
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  if (aa == 0 || bb == 0) return aa == bb ? 1 : 0;
  return ab / std::sqrt(aa * bb);
}

std::vector<double> Similarities(const Embeddings& all, size_t row, size_t stride) {
  std::vector<double> out;
  const auto own = all.row(row);
  for (size_t k = 1; k < all.count(); k += stride) {
    const auto other = all.row((row + k) % all.count());
    out.push_back(std::inner_product(own.begin(), own.end(), other.begin(), 0.0));
  }
  return out;
}

class RankJudge final : public Judge {
 public:
  explicit RankJudge(const MetricSpec& metric) : metric_(metric) { evaluation_.against_reference = true; }

  Status Add(const Sample& sample, const std::vector<HostTensor>& outputs, const std::vector<HostTensor>* reference) override {
    if (reference == nullptr) return Internal("'{}' was judged without a reference", metric_.name);
    TENON_RETURN_IF_ERROR(AddOutput(sample, outputs, &own_));
    return AddOutput(sample, *reference, &reference_);
  }

  Result<Evaluation> Finish() override {
    const size_t n = own_.count();
    if (n < 3) return Usage("metric '{}' compares samples with each other; {} are too few, give at least 3", metric_.name, n);
    const size_t stride = (n - 2) / kMostOthers + 1;
    for (size_t i = 0; i < n; ++i)
      evaluation_.values.push_back(Correlation(Ranks(Similarities(own_, i, stride)), Ranks(Similarities(reference_, i, stride))));
    evaluation_.value = Combined(evaluation_.values, evaluation_.combine);
    return std::move(evaluation_);
  }

 private:
  Status AddOutput(const Sample& sample, const std::vector<HostTensor>& outputs, Embeddings* to) const {
    TENON_ASSIGN_OR_RETURN(const HostTensor* output, ChooseOutput(metric_, outputs));
    const auto values = Doubles(*output);
    if (!values || output->shape.empty()) return Unsupported("output '{}' holds no vectors to rank by", output->name);
    const auto size = static_cast<size_t>(output->shape.back());
    if (values->empty() || (to->size != 0 && to->size != size))
      return BadInput("output '{}' has vectors of {} elements, the sample before has {}", output->name, size, to->size);
    to->size = size;
    const auto rows = static_cast<size_t>(RowsOf(*output, sample.rows));
    const size_t positions = values->size() / size / rows;
    const std::vector<double> mask = Mask(sample, rows * positions);
    for (size_t r = 0; r < rows; ++r)
      AddRow(std::span(*values).subspan(r * positions * size, positions * size),
             mask.empty() ? std::span<const double>() : std::span(mask).subspan(r * positions, positions), to);
    return Status::Ok();
  }

  MetricSpec metric_;
  Embeddings own_;
  Embeddings reference_;
  Evaluation evaluation_;
};

}  // namespace

std::unique_ptr<Judge> MakeRankJudge(const MetricSpec& metric) {
  return std::make_unique<RankJudge>(metric);
}

}  // namespace tenon::guard
