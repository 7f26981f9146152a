// Sampling.
#include "generate/sampler.h"

#include <algorithm>
#include <cmath>

namespace tenon::generate {
namespace {

constexpr int32_t kMaxLogprobs = 20;

// The better first; among equals the smaller id, so that no sort decides.
template <typename C>
bool Better(const C& a, const C& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

double UniformAt(uint64_t seed, uint64_t counter) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  const uint64_t bits = Mix(Mix(seed + kGolden) + kGolden * (counter + 1));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

Status SamplerOptions::Check() const {
  const auto range = [](float v, float low, float high) { return v >= low && v <= high; };
  if (!range(temperature, 0, 100)) return Usage("temperature {}; allowed: 0..100", temperature);
  if (top_k < 0) return Usage("top-k {}; allowed: 0 (all) or more", top_k);
  if (!(top_p > 0 && top_p <= 1)) return Usage("top-p {}; allowed: above 0, up to 1", top_p);
  if (!range(min_p, 0, 1)) return Usage("min-p {}; allowed: 0..1", min_p);
  if (!(typical_p > 0 && typical_p <= 1)) return Usage("typical-p {}; allowed: above 0, up to 1", typical_p);
  if (!(repetition_penalty > 0 && repetition_penalty <= 100))
    return Usage("repetition penalty {}; allowed: above 0, up to 100", repetition_penalty);
  if (!range(frequency_penalty, -100, 100) || !range(presence_penalty, -100, 100))
    return Usage("frequency and presence penalty; allowed: -100..100");
  if (penalty_window < -1) return Usage("penalty window {}; allowed: -1 (all), 0 or more", penalty_window);
  if (logprobs < 0 || logprobs > kMaxLogprobs) return Usage("logprobs {}; allowed: 0..{}", logprobs, kMaxLogprobs);
  for (const auto& [id, bias] : logit_bias) {
    if (std::isnan(bias) || bias > 1e30f) return Usage("the bias of token {} is no number that can be added", id);
  }
  return Status::Ok();
}

Sampler::Sampler(SamplerOptions options) : options_(std::move(options)) {}

void Sampler::Accept(int32_t id) {
  seen_.push_back(id);
  ++counts_[id];
  if (options_.penalty_window < 0 || seen_.size() <= static_cast<size_t>(options_.penalty_window)) return;
  const int32_t gone = seen_[seen_.size() - 1 - static_cast<size_t>(options_.penalty_window)];
  if (--counts_[gone] == 0) counts_.erase(gone);
  // Only the window is needed: what lies before it goes once it is as long again.
  if (seen_.size() > 2 * static_cast<size_t>(options_.penalty_window) + 64) {
    seen_.erase(seen_.begin(), seen_.end() - options_.penalty_window);
  }
}

void Sampler::Penalize(std::span<const float> logits) {
  const bool penalties = options_.repetition_penalty != 1 || options_.frequency_penalty != 0 || options_.presence_penalty != 0;
  changed_.clear();
  if (options_.logit_bias.empty() && (!penalties || counts_.empty())) return;
  changed_.assign(logits.begin(), logits.end());
  const auto in_range = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < changed_.size(); };
  for (const auto& [id, bias] : options_.logit_bias) {
    if (in_range(id)) changed_[static_cast<size_t>(id)] += bias;
  }
  for (const auto& [id, count] : counts_) {
    if (!penalties || !in_range(id)) continue;
    float& score = changed_[static_cast<size_t>(id)];
    score = score > 0 ? score / options_.repetition_penalty : score * options_.repetition_penalty;
    score -= static_cast<float>(count) * options_.frequency_penalty + options_.presence_penalty;
  }
}

// The candidates, the best first; those beyond top_k never enter a sort.
void Sampler::Gather(std::span<const float> logits) {
  candidates_.clear();
  const size_t k = options_.top_k > 0 ? static_cast<size_t>(options_.top_k) : logits.size();
  if (k < logits.size() / 8) {
    // A heap of the k best so far, the worst of them on top: almost every token ends at one comparison.
    const auto worst_first = [](const Candidate& a, const Candidate& b) { return Better(a, b); };
    for (size_t i = 0; i < logits.size(); ++i) {
      const Candidate c{static_cast<int32_t>(i), logits[i], 0};
      if (!std::isfinite(c.score)) continue;
      if (candidates_.size() < k) {
        candidates_.push_back(c);
        std::push_heap(candidates_.begin(), candidates_.end(), worst_first);
      } else if (c.score > candidates_.front().score) {
        std::pop_heap(candidates_.begin(), candidates_.end(), worst_first);
        candidates_.back() = c;
        std::push_heap(candidates_.begin(), candidates_.end(), worst_first);
      }
    }
  } else {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (std::isfinite(logits[i])) candidates_.push_back({static_cast<int32_t>(i), logits[i], 0});
    }
  }
  std::sort(candidates_.begin(), candidates_.end(), Better<Candidate>);
  KeepBest(k);
}

void Sampler::KeepBest(size_t k) {
  candidates_.resize(std::min(k, candidates_.size()));
}

void Sampler::Softmax() {
  double sum = 0;
  for (Candidate& c : candidates_) {
    c.probability = static_cast<float>(std::exp(static_cast<double>(c.score - candidates_.front().score)));
    sum += c.probability;
  }
  for (Candidate& c : candidates_) c.probability = static_cast<float>(c.probability / sum);
}

void Sampler::CutTypical() {
  if (options_.typical_p >= 1) return;
  Softmax();
  double entropy = 0;
  for (const Candidate& c : candidates_)
    entropy -= c.probability > 0 ? c.probability * std::log(static_cast<double>(c.probability)) : 0;
  const auto distance = [&](const Candidate& c) {
    return std::fabs(-std::log(std::max<double>(c.probability, 1e-30)) - entropy);
  };
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [&](const Candidate& a, const Candidate& b) { return distance(a) < distance(b); });
  double sum = 0;
  size_t keep = 0;
  while (keep < candidates_.size() && sum < options_.typical_p) sum += candidates_[keep++].probability;
  KeepBest(std::max<size_t>(keep, 1));
  std::sort(candidates_.begin(), candidates_.end(), Better<Candidate>);
}

void Sampler::CutTopP() {
  if (options_.top_p >= 1) return;
  Softmax();
  double sum = 0;
  size_t keep = 0;
  while (keep < candidates_.size() && sum < options_.top_p) sum += candidates_[keep++].probability;
  KeepBest(std::max<size_t>(keep, 1));
}

void Sampler::CutMinP() {
  if (options_.min_p <= 0) return;
  const float least = candidates_.front().score + std::log(options_.min_p);
  size_t keep = 1;
  while (keep < candidates_.size() && candidates_[keep].score >= least) ++keep;
  KeepBest(keep);
}

void Sampler::Report(std::span<const float> logits, int32_t chosen) {
  logprobs_.clear();
  if (options_.logprobs == 0) return;
  std::vector<Candidate> best;
  double top = -INFINITY;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) continue;
    best.push_back({static_cast<int32_t>(i), logits[i], 0});
    top = std::max<double>(top, logits[i]);
  }
  double sum = 0;
  for (const Candidate& c : best) sum += std::exp(c.score - top);
  const double log_sum = top + std::log(sum);
  const size_t n = std::min(static_cast<size_t>(options_.logprobs), best.size());
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(n), best.end(), Better<Candidate>);
  logprobs_.push_back({chosen, static_cast<float>(logits[static_cast<size_t>(chosen)] - log_sum)});
  for (size_t i = 0; i < n; ++i) logprobs_.push_back({best[i].id, static_cast<float>(best[i].score - log_sum)});
}

int32_t Sampler::Sample(std::span<const float> logits) {
  CHECK(!logits.empty());
  Penalize(logits);
  const std::span<const float> scores = changed_.empty() ? logits : std::span<const float>(changed_);
  const uint64_t draw = sampled_++;
  int32_t chosen = -1;
  if (options_.temperature == 0) {
    for (size_t i = 0; i < scores.size(); ++i) {
      if (!std::isnan(scores[i]) && (chosen < 0 || scores[i] > scores[static_cast<size_t>(chosen)]))
        chosen = static_cast<int32_t>(i);
    }
  } else {
    Gather(scores);
    if (!candidates_.empty()) {
      for (Candidate& c : candidates_) c.score /= options_.temperature;
      CutTypical();
      CutTopP();
      CutMinP();
      Softmax();
      double left = UniformAt(options_.seed, draw);
      size_t at = 0;
      while (at + 1 < candidates_.size() && left >= candidates_[at].probability) left -= candidates_[at++].probability;
      chosen = candidates_[at].id;
    }
  }
  chosen = std::max(chosen, 0);
  Report(logits, chosen);
  Accept(chosen);
  return chosen;
}

}  // namespace tenon::generate
