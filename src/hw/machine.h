// The machine context of a session, handed down by reference: instruction set, thread team, memory budget. No singletons, so
// that two sessions may own disjoint cores in one process.
#ifndef TENON_HW_MACHINE_H_
#define TENON_HW_MACHINE_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "hw/isa.h"
#include "hw/team.h"

namespace tenon::hw {

/// Counts every byte charged to a partition. Thread-safe.
class Budget {
 public:
  /// `limit` in bytes; 0: no limit.
  explicit Budget(uint64_t limit = 0) : limit_(limit) {}

  /// kResourceLimit with limit, in use and asked when it does not fit.
  Status Charge(uint64_t bytes, std::string_view what) {
    const uint64_t before = used_.fetch_add(bytes, std::memory_order_relaxed);
    if (limit_ == 0 || before + bytes <= limit_) return Status::Ok();
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return ResourceLimit("memory limit {} bytes; {} in use, {} asked for {}", limit_, before, bytes, what);
  }
  void Release(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }

 private:
  uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

/// A charge that is given back when it goes out of scope or changes.
class Charged {
 public:
  explicit Charged(Budget& budget) : budget_(&budget) {}
  ~Charged() { budget_->Release(bytes_); }
  Charged(const Charged&) = delete;
  Charged& operator=(const Charged&) = delete;
  Status Resize(uint64_t bytes, std::string_view what) {
    if (bytes > bytes_) TENON_RETURN_IF_ERROR(budget_->Charge(bytes - bytes_, what));
    if (bytes < bytes_) budget_->Release(bytes_ - bytes);
    bytes_ = bytes;
    return Status::Ok();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  Budget* budget_;
  uint64_t bytes_ = 0;
};

struct Machine {
  Machine(IsaMask isa_mask, int threads, std::vector<int> cores, uint64_t memory_limit)
      : isa(isa_mask), team(threads, std::move(cores)), budget(memory_limit) {}
  IsaMask isa;
  Team team;
  Budget budget;
};

}  // namespace tenon::hw

#endif  // TENON_HW_MACHINE_H_
