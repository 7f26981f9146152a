#include "serve/queue.h"

#include <algorithm>
#include <cmath>

namespace tenon::serve {
namespace {

constexpr double kNew = 0.2;   // weight of a new value in running means
constexpr size_t kMaxServiceTimes = 256;

double Seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

bool BatchQueue::Push(ItemPtr item, size_t others) {
  if (last_arrival_ != TimePoint{}) {
    const double gap = Seconds(item->arrival - last_arrival_);
    gap_s_ = gap_s_ < 0 ? gap : (1 - kNew) * gap_s_ + kNew * gap;
  }
  last_arrival_ = item->arrival;
  overlap_ = (1 - kNew) * overlap_ + (others > 0 ? kNew : 0);
  if (Beside(item->priority) >= Capacity(item->priority)) return false;
  waiting_[item->priority] += Share(*item);
  levels_[item->priority].push_back(std::move(item));
  ++size_;
  return true;
}

size_t BatchQueue::Capacity(uint32_t priority) const {
  const auto own = policy_.own_queues.find(priority);
  return own == policy_.own_queues.end() ? policy_.max_queue : own->second;
}

// Requests that are counted together with those of `priority`.
size_t BatchQueue::Beside(uint32_t priority) const {
  const bool own = policy_.own_queues.count(priority) > 0;
  size_t sum = 0;
  for (const auto& [level, queue] : levels_) {
    if (own ? level == priority : policy_.own_queues.count(level) == 0) sum += queue.size();
  }
  return sum;
}

void RunSize::Add(const Fit& fit) {
  rows_ += fit.rows;
  tokens_ += fit.tokens;
  extents_.resize(std::max(extents_.size(), fit.extents.size()));
  for (size_t i = 0; i < fit.extents.size(); ++i) extents_[i] = std::max(extents_[i], fit.extents[i]);
}

RunSize RunSize::With(const Fit& fit) const {
  RunSize run = *this;
  run.Add(fit);
  return run;
}

int64_t RunSize::padded_tokens() const {
  return std::max(tokens_, TokensOf(rows_, extents_));
}

// Rows of a run that `item` takes up, by rows or by tokens; all of them where it runs alone.
int64_t BatchQueue::Share(const Item& item) const {
  if (item.fit.key.empty()) return policy_.max_rows;
  int64_t share = item.fit.rows;
  if (policy_.max_tokens > 0) {
    const double part = static_cast<double>(item.fit.tokens) / static_cast<double>(policy_.max_tokens);
    share = std::max(share, static_cast<int64_t>(part * static_cast<double>(policy_.max_rows)));
  }
  return std::min(share, policy_.max_rows);
}

bool BatchQueue::IsFull(const RunSize& run) const {
  return run.rows() >= policy_.max_rows || (policy_.max_tokens > 0 && run.padded_tokens() >= policy_.max_tokens);
}

bool BatchQueue::MayJoin(const Item& item, const Item& head, const RunSize& run) const {
  if (item.fit.key.empty() || item.fit.key != head.fit.key) return false;
  const RunSize both = run.With(item.fit);
  const int64_t padded = both.padded_tokens();
  if (both.rows() > policy_.max_rows || (policy_.max_tokens > 0 && padded > policy_.max_tokens)) return false;
  return static_cast<double>(padded - both.tokens()) <= policy_.max_padding * static_cast<double>(padded);
}

double BatchQueue::ServiceSeconds(int64_t rows) const {
  const auto it = service_.find(rows);
  return it == service_.end() ? -1 : it->second.mean;
}

// Company can be expected before the delay is over only when requests overlap; then one more row must cost less than a run of its
// own.
bool BatchQueue::WorthWaiting(const RunSize& run, TimePoint now, TimePoint head) const {
  const int64_t rows = run.rows();
  if (policy_.max_delay <= Duration::zero() || rows >= Target() || IsFull(run) || now - head >= policy_.max_delay) return false;
  if (overlap_ < 0.5 || gap_s_ < 0 || gap_s_ > Seconds(policy_.max_delay)) return false;
  const double together = ServiceSeconds(rows + 1), apart = ServiceSeconds(rows), one = ServiceSeconds(1);
  return together < 0 || apart < 0 || one < 0 || apart + one - together > gap_s_;
}

// How many of `items` to run: as many rows as the largest preferred number that they reach.
size_t BatchQueue::CutToPreferred(const std::vector<ItemPtr>& items) const {
  int64_t total = 0;
  for (const ItemPtr& item : items) total += item->fit.rows;
  int64_t goal = 0;
  for (int p : policy_.preferred) {
    if (p <= total) goal = p;
  }
  if (goal == 0) return items.size();
  int64_t rows = 0;
  size_t n = 0;
  while (n < items.size() && rows + items[n]->fit.rows <= goal) rows += items[n++]->fit.rows;
  return std::max<size_t>(1, n);
}

BatchQueue::Decision BatchQueue::Take(TimePoint now) {
  Decision decision;
  std::vector<ItemPtr> items;
  RunSize run;
  const auto closed = [&] { return !items.empty() && (IsFull(run) || items[0]->fit.key.empty()); };
  const auto choose = [&](const std::deque<ItemPtr>& queue, bool late) {
    for (const ItemPtr& item : queue) {
      if (closed()) return;
      if ((item->due <= now) != late || (!items.empty() && !MayJoin(*item, *items[0], run))) continue;
      items.push_back(item);
      run.Add(item->fit);
    }
  };
  for (const auto& [level, queue] : levels_) {
    choose(queue, false);
    choose(queue, true);
  }
  if (items.empty()) return decision;
  TimePoint oldest = items[0]->arrival;
  for (const ItemPtr& item : items) oldest = std::min(oldest, item->arrival);
  if (!items[0]->fit.key.empty() && WorthWaiting(run, now, oldest)) {
    decision.wait_until = oldest + policy_.max_delay;
    return decision;
  }
  items.resize(CutToPreferred(items));
  for (const ItemPtr& item : items) Remove(item.get());
  decision.items = std::move(items);
  return decision;
}

std::vector<ItemPtr> BatchQueue::TakeExpired(TimePoint now) {
  std::vector<ItemPtr> expired;
  for (auto& [level, queue] : levels_) {
    const auto end = std::stable_partition(queue.begin(), queue.end(), [&](const ItemPtr& item) { return item->deadline > now; });
    for (auto it = end; it != queue.end(); ++it) Forget(**it);
    expired.insert(expired.end(), end, queue.end());
    queue.erase(end, queue.end());
  }
  std::erase_if(levels_, [](const auto& level) { return level.second.empty(); });
  return expired;
}

void BatchQueue::Forget(const Item& item) {
  --size_;
  const auto it = waiting_.find(item.priority);
  it->second -= Share(item);
  if (it->second == 0) waiting_.erase(it);
}

bool BatchQueue::Remove(const Item* item) {
  const auto level = levels_.find(item->priority);
  if (level == levels_.end()) return false;
  auto& queue = level->second;
  const auto it = std::find_if(queue.begin(), queue.end(), [&](const ItemPtr& i) { return i.get() == item; });
  if (it == queue.end()) return false;
  Forget(*item);
  queue.erase(it);
  if (queue.empty()) levels_.erase(level);
  return true;
}

void BatchQueue::OnServed(int64_t rows, Duration duration, Duration waited) {
  cores_s_ = (1 - kNew) * cores_s_ + kNew * Seconds(waited);
  if (policy_.max_rows == 1) rows = 1;
  if (service_.size() >= kMaxServiceTimes && service_.count(rows) == 0) return;
  auto [it, fresh] = service_.emplace(rows, ServiceTime{Seconds(duration)});
  if (fresh) return;
  ServiceTime& time = it->second;
  time.deviation = (1 - kNew) * time.deviation + kNew * std::abs(Seconds(duration) - time.mean);
  time.mean = (1 - kNew) * time.mean + kNew * Seconds(duration);
}

void BatchQueue::OnStopped(int64_t rows, Duration duration) {
  if (ServiceSeconds(policy_.max_rows == 1 ? 1 : rows) < Seconds(duration)) OnServed(rows, duration);
}

TimePoint BatchQueue::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& [level, queue] : levels_) {
    for (const ItemPtr& item : queue) next = std::min(next, item->deadline);
  }
  return next;
}

// Longer than most, in the cheapest way known: in a larger run, or in several smaller ones.
double BatchQueue::RunSeconds(int64_t rows) const {
  double least = -1;
  for (const auto& [n, service] : service_) {
    const double seconds = service.mean + 2 * service.deviation;
    const double time = n >= rows ? seconds : seconds * static_cast<double>(rows) / static_cast<double>(n);
    least = least < 0 ? time : std::min(least, time);
  }
  return std::max(0.0, least);
}

BatchQueue::Estimate BatchQueue::Expect(const Item& item, const std::vector<Running>& instances, TimePoint now) const {
  int64_t ahead = 0;
  for (const auto& [level, rows] : waiting_) ahead += level <= item.priority ? rows : 0;
  std::vector<double> free;  // seconds until each instance is
  for (const Running& r : instances) free.push_back(r.rows == 0 ? 0 : std::max(0.0, RunSeconds(r.rows) - Seconds(now - r.since)));
  std::sort(free.begin(), free.end());
  const auto runs = static_cast<size_t>((ahead + Share(item) - 1) / policy_.max_rows);  // before the one that takes `item` in
  const double wait =
      free[runs % free.size()] + static_cast<double>(runs / free.size()) * (cores_s_ + RunSeconds(policy_.max_rows));
  const auto duration = [](double s) { return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s)); };
  return {duration(wait), duration(cores_s_ + RunSeconds(Share(item)))};
}

}  // namespace tenon::serve
