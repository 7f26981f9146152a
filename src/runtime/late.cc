#include "runtime/late.h"

#include <algorithm>

namespace tenon::runtime {

Result<std::shared_ptr<Buffer>> BufferPool::Take(size_t bytes) {
  // The smallest idle buffer that is large enough without wasting more than half of itself.
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    const size_t have = (*it)->bytes();
    if (have >= bytes && have <= 2 * bytes + 4096 && (best == idle_.end() || have < (*best)->bytes())) best = it;
  }
  if (best != idle_.end()) {
    std::shared_ptr<Buffer> buffer = std::move(*best);
    *best = std::move(idle_.back());
    idle_.pop_back();
    return buffer;
  }
  const size_t padded = (bytes + 255) / 256 * 256;
  Status s = charged_.Resize(charged_.bytes() + padded, "a value of data-dependent shape");
  if (!s.ok()) {
    Trim();
    TENON_RETURN_IF_ERROR(charged_.Resize(charged_.bytes() + padded, "a value of data-dependent shape"));
  }
  auto buffer = Buffer::Allocate(padded);
  if (buffer == nullptr) return ResourceLimit("cannot allocate {} bytes for a value of data-dependent shape", padded);
  return buffer;
}

void BufferPool::Return(std::shared_ptr<Buffer> buffer) {
  constexpr size_t kMaxIdle = 64;
  idle_.push_back(std::move(buffer));
  if (idle_.size() <= kMaxIdle) return;
  auto largest =
      std::max_element(idle_.begin(), idle_.end(), [](const auto& a, const auto& b) { return a->bytes() < b->bytes(); });
  (void)charged_.Resize(charged_.bytes() - (*largest)->bytes(), "");
  idle_.erase(largest);
}

void BufferPool::Trim() {
  size_t bytes = 0;
  for (const auto& b : idle_) bytes += b->bytes();
  idle_.clear();
  (void)charged_.Resize(charged_.bytes() - bytes, "");
}

}  // namespace tenon::runtime
