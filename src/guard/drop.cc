#include "guard/drop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "guard/judge.h"
#include "guard/statistics.h"

namespace tenon::guard {
namespace {

constexpr int kResamples = 1000;
constexpr size_t kLeastNeighbours = 50;
constexpr size_t kMostDonors = 1024;   // of those neighbours, evenly chosen

double Relative(double reference, double value, double size, bool higher_is_better) {
  const double lost = higher_is_better ? reference - value : value - reference;
  if (lost == 0 || std::isnan(lost)) return std::isnan(lost) ? std::numeric_limits<double>::infinity() : 0;
  return lost / std::abs(size);   // infinite when there was nothing to lose
}

bool AllOrNothing(const Evaluation& e) {
  return e.combine == Evaluation::Combine::kMean &&
         std::all_of(e.values.begin(), e.values.end(), [](double v) { return v == 0 || v == 1; });
}

double NormalBelow(double x) {
  return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2);
}

// How likely a row of about this lead is right no longer when so much is taken from it; negative: how likely a wrong one is right
// now. Leads of other samples are spread about those seen, by `spread`, reflected at 0: labels that a model itself gave know no
// leads just below it.
struct Loss {
  double spread = 0;

  double operator()(double lead, double taken) const {
    const bool right = lead >= 0;
    if (spread == 0) return (right ? 1 : 0) - (lead - taken >= 0 ? 1 : 0);
    const double towards = right ? taken : -taken;
    if (towards <= 0) return 0;
    const double lead_size = std::abs(lead);
    const double crosses = NormalBelow((towards - lead_size) / spread) - NormalBelow((-towards - lead_size) / spread);
    return right ? crosses : -crosses;
  }
  bool IsNone(double lead, double taken) const {
    return std::min(lead, lead - taken) > 8 * spread || std::max(lead, lead - taken) < -8 * spread;
  }
};

// As wide as what the change took varies (a median deviation as a normal one's), so that the leads that matter are drawn
// together, and no wider than the tenth of leads nearest to 0.
double Spread(const std::vector<double>& leads, std::vector<double> taken) {
  const double middle = Median(taken);
  for (double& t : taken) t = std::abs(t - middle);
  std::vector<double> near = leads;
  for (double& l : near) l = std::abs(l);
  const auto tenth = near.begin() + static_cast<std::ptrdiff_t>(near.size() / 10);
  std::nth_element(near.begin(), tenth, near.end());
  const double deviation = 1.48 * Median(std::move(taken));
  return std::isfinite(deviation) ? std::min(deviation, *tenth) : *tenth;
}

// What the margins expect each row to lose. A sum over pairs, a lead and what was taken from another one: `own` has it by the row
// of the lead, `given` by that of the other.
struct ExpectedLoss {
  std::vector<double> own;
  std::vector<double> given;
};

ExpectedLoss LossByMargins(const Evaluation& reference, const std::vector<Margin>& after) {
  const std::vector<Margin>& before = reference.margins;
  const size_t rows = reference.values.size();
  ExpectedLoss loss{std::vector<double>(rows), std::vector<double>(rows)};
  std::vector<double> choices(rows);  // by row, whose value is the share of them that is right
  std::vector<size_t> order;
  for (size_t i = 0; i < before.size(); ++i) {
    ++choices[before[i].row];
    if (std::isfinite(before[i].lead)) order.push_back(i);
  }
  if (order.empty()) return loss;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before[a].lead < before[b].lead; });
  std::vector<double> leads;
  std::vector<double> taken;
  for (const size_t i : order) {
    leads.push_back(before[i].lead);
    const double t = before[i].lead - after[i].lead;
    taken.push_back(std::isnan(t) ? std::numeric_limits<double>::infinity() : t);
  }
  const Loss lost{Spread(leads, taken)};
  const size_t n = order.size();
  const size_t window = std::min(n, std::max(kLeastNeighbours, n / 4));
  const size_t stride = (window + kMostDonors - 1) / kMostDonors;
  const double share = 1 / static_cast<double>((window + stride - 1) / stride);
  for (size_t at = 0; at < n; ++at) {
    const size_t row = before[order[at]].row;
    const size_t begin = std::min(at - std::min(at, window / 2), n - window);
    for (size_t k = begin; k < begin + window; k += stride) {
      if (lost.IsNone(leads[at], taken[k])) continue;
      const double part = lost(leads[at], taken[k]) * share / choices[row];
      loss.own[row] += part;
      loss.given[before[order[k]].row] += part;
    }
  }
  return loss;
}

double Mean(const std::vector<double>& values) {
  return Combined(values, Evaluation::Combine::kMean);
}

// Of `of(picks)` over resampled rows.
template <typename Of>
void SetInterval(size_t rows, Of of, Drop* drop) {
  std::vector<double> drops;
  std::mt19937_64 random(42);
  std::vector<size_t> picks(rows);
  for (int k = 0; k < kResamples; ++k) {
    for (size_t& pick : picks) pick = random() % rows;
    drops.push_back(of(picks));
  }
  std::sort(drops.begin(), drops.end());
  drop->low = drops[static_cast<size_t>(kResamples * 0.025)];
  drop->high = drops[static_cast<size_t>(kResamples * 0.975) - 1];
}

void JudgeByMargins(const Evaluation& reference, const Evaluation& value, Drop* drop) {
  const ExpectedLoss loss = LossByMargins(reference, value.margins);
  const double expected = Mean(loss.own);
  drop->expected = Relative(reference.value, reference.value - expected, reference.value, true);
  SetInterval(
      drop->rows,
      [&](const std::vector<size_t>& picks) {
        Combiner was(Evaluation::Combine::kMean);
        Combiner lost(Evaluation::Combine::kMean);
        for (const size_t i : picks) {
          was.Add(reference.values[i]);
          lost.Add(loss.own[i] + loss.given[i] - expected);  // both resampled, to first order
        }
        return Relative(was.Get(), was.Get() - lost.Get(), was.Get(), true);
      },
      drop);
}

// Rows of which no more is known than that they are right or wrong. Agresti and Min, "Simple improved confidence intervals for
// comparing matched proportions", 2005: half an answer more in each cell, so that no changed answer does not mean that none can
// change.
void JudgeByAnswers(const Evaluation& reference, const Evaluation& value, Drop* drop) {
  double lost = 0;
  double won = 0;
  for (size_t i = 0; i < drop->rows; ++i) {
    lost += reference.values[i] > value.values[i] ? 1 : 0;
    won += reference.values[i] < value.values[i] ? 1 : 0;
  }
  const double n = static_cast<double>(drop->rows) + 2;
  const double middle = (lost - won) / n;
  const double half = 1.96 * std::sqrt(lost + won + 1 - (lost - won) * middle) / n;
  const auto relative = [&](double less) { return Relative(reference.value, reference.value - less, reference.value, true); };
  drop->low = relative(middle - half);
  drop->high = relative(middle + half);
}

void JudgeByRows(const Evaluation& reference, const Evaluation& value, Drop* drop) {
  const bool sized = !value.sizes.empty();
  SetInterval(
      drop->rows,
      [&](const std::vector<size_t>& picks) {
        Combiner was(reference.combine);
        Combiner is(value.combine);
        Combiner of(value.combine);
        for (const size_t i : picks) {
          was.Add(reference.values[i]);
          is.Add(value.values[i]);
          if (sized) of.Add(value.sizes[i]);
        }
        return Relative(was.Get(), is.Get(), sized ? of.Get() : was.Get(), value.higher_is_better);
      },
      drop);
}

}  // namespace

Result<Drop> Compare(const Evaluation& reference, const Evaluation& value) {
  const size_t n = value.values.size();
  if (reference.metric != value.metric || reference.values.size() != n)
    return Internal("two evaluations on different samples were compared: {} and {} rows", reference.values.size(), n);
  Drop drop;
  drop.metric = value.metric;
  drop.reference = reference.value;
  drop.value = value.value;
  drop.rows = n;
  const double size = value.sizes.empty() ? reference.value : Combined(value.sizes, value.combine);
  drop.relative = Relative(drop.reference, drop.value, size, value.higher_is_better);
  drop.expected = drop.low = drop.high = drop.relative;
  const bool answers = n > 0 && value.higher_is_better && AllOrNothing(reference) && AllOrNothing(value);
  if (answers) drop.step = Relative(1, 0, size * static_cast<double>(n), true);
  if (n < 2) return drop;
  const bool margins = !reference.margins.empty() && reference.margins.size() == value.margins.size();
  (margins ? JudgeByMargins : answers ? JudgeByAnswers : JudgeByRows)(reference, value, &drop);
  return drop;
}

bool Within(const Drop& drop, double max_drop) {
  return drop.relative <= max_drop && drop.high <= max_drop;
}

size_t RowsToTell(const Drop& drop, double max_drop) {
  if (Within(drop, max_drop) || !(drop.expected < max_drop) || !std::isfinite(drop.high)) return 0;
  const double narrower = std::max((drop.high - drop.expected) / (max_drop - drop.expected), 1.0);
  return static_cast<size_t>(std::min(std::ceil(static_cast<double>(drop.rows) * narrower * narrower), 1e9));
}

}  // namespace tenon::guard
