#include "serve/queue.h"

#include <algorithm>

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
  if (size_ >= policy_.max_queue) return false;
  levels_[item->priority].push_back(std::move(item));
  ++size_;
  return true;
}

double BatchQueue::ServiceSeconds(int64_t rows) const {
  const auto it = service_s_.find(rows);
  return it == service_s_.end() ? -1 : it->second;
}

// Company can be expected before the delay is over only when requests overlap; then one more row must cost less than a run of its
// own.
bool BatchQueue::WorthWaiting(int64_t rows, TimePoint now, TimePoint head) const {
  if (policy_.max_delay <= Duration::zero() || rows >= Target() || now - head >= policy_.max_delay) return false;
  if (overlap_ < 0.5 || gap_s_ < 0 || gap_s_ > Seconds(policy_.max_delay)) return false;
  const double together = ServiceSeconds(rows + 1), apart = ServiceSeconds(rows), one = ServiceSeconds(1);
  return together < 0 || apart < 0 || one < 0 || apart + one - together > gap_s_;
}

// How many of `items` to run: as many rows as the largest preferred number that they reach.
size_t BatchQueue::CutToPreferred(const std::vector<ItemPtr>& items) const {
  int64_t total = 0;
  for (const ItemPtr& item : items) total += item->rows;
  int64_t goal = 0;
  for (int p : policy_.preferred) {
    if (p <= total) goal = p;
  }
  if (goal == 0) return items.size();
  int64_t rows = 0;
  size_t n = 0;
  while (n < items.size() && rows + items[n]->rows <= goal) rows += items[n++]->rows;
  return std::max<size_t>(1, n);
}

BatchQueue::Decision BatchQueue::Take(TimePoint now) {
  Decision decision;
  std::vector<ItemPtr> items;
  int64_t rows = 0;
  for (const auto& [level, queue] : levels_) {
    for (const ItemPtr& item : queue) {
      if (items.empty() || (!item->key.empty() && item->key == items[0]->key && rows + item->rows <= policy_.max_rows)) {
        items.push_back(item);
        rows += item->rows;
      }
      if (rows >= policy_.max_rows || items[0]->key.empty()) break;
    }
    if (!items.empty() && (rows >= policy_.max_rows || items[0]->key.empty())) break;
  }
  if (items.empty()) return decision;
  TimePoint oldest = items[0]->arrival;
  for (const ItemPtr& item : items) oldest = std::min(oldest, item->arrival);
  if (!items[0]->key.empty() && WorthWaiting(rows, now, oldest)) {
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
    expired.insert(expired.end(), end, queue.end());
    queue.erase(end, queue.end());
  }
  size_ -= expired.size();
  return expired;
}

bool BatchQueue::Remove(const Item* item) {
  const auto level = levels_.find(item->priority);
  if (level == levels_.end()) return false;
  auto& queue = level->second;
  const auto it = std::find_if(queue.begin(), queue.end(), [&](const ItemPtr& i) { return i.get() == item; });
  if (it == queue.end()) return false;
  queue.erase(it);
  if (queue.empty()) levels_.erase(level);
  --size_;
  return true;
}

void BatchQueue::OnServed(int64_t rows, Duration duration) {
  if (service_s_.size() >= kMaxServiceTimes && service_s_.count(rows) == 0) return;
  auto [it, fresh] = service_s_.emplace(rows, Seconds(duration));
  if (!fresh) it->second = (1 - kNew) * it->second + kNew * Seconds(duration);
}

TimePoint BatchQueue::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& [level, queue] : levels_) {
    for (const ItemPtr& item : queue) next = std::min(next, item->deadline);
  }
  return next;
}

Duration BatchQueue::ExpectedWait(int instances) const {
  double per_row = 0;
  for (const auto& [rows, seconds] : service_s_) {
    const double cost = seconds / static_cast<double>(rows);
    per_row = per_row == 0 ? cost : std::min(per_row, cost);
  }
  const double seconds = per_row * static_cast<double>(size_) / std::max(1, instances);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace tenon::serve
