#include "serve/answer_order.h"

#include <utility>

namespace tenon::serve {

uint64_t AnswerOrder::Take() {
  const std::lock_guard lock(mutex_);
  return given_++;
}

void AnswerOrder::Put(uint64_t place, std::function<void()> answer) {
  std::unique_lock lock(mutex_);
  ready_.emplace(place, std::move(answer));
  if (answering_) return;
  answering_ = true;
  for (auto it = ready_.find(next_); it != ready_.end(); it = ready_.find(next_)) {
    const std::function<void()> run = std::move(it->second);
    ready_.erase(it);
    ++next_;
    lock.unlock();
    run();
    lock.lock();
  }
  answering_ = false;
}

size_t AnswerOrder::waiting() const {
  const std::lock_guard lock(mutex_);
  return ready_.size();
}

}  // namespace tenon::serve
