// Loops of events: one that accepts clients and serves most of them, and one for the cores of each resource group whose clients
// keep asking for it. Included by http.cc alone.
#ifndef TENON_SERVER_TRANSPORT_LOOPS_H_
#define TENON_SERVER_TRANSPORT_LOOPS_H_

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/home_cores.h"

namespace tenon::server::transport {

class Loops {
 public:
  ~Loops() { Stop(); }

  boost::asio::io_context& common() { return common_; }

  /// With `threads` threads, which also are the most of any other loop.
  void Run(int threads) {
    threads_ = threads;
    for (int i = 0; i < threads; ++i) running_.emplace_back([this] { common_.run(); });
  }

  /// The loop whose threads stay on `cores`; the common one where those are all that this process has, or where groups were
  /// resized so often that there are loops enough. It runs until Stop.
  boost::asio::io_context& At(const std::vector<int>& cores) {
    if (cores.size() >= all_cores_) return common_;
    const std::lock_guard lock(mutex_);
    if (const auto it = loops_.find(cores); it != loops_.end()) return it->second->context;
    if (stopped_ || loops_.size() >= kMost) return common_;
    Loop& loop = *loops_.emplace(cores, std::make_unique<Loop>()).first->second;
    const int threads = std::min(threads_, static_cast<int>(cores.size()));
    for (int i = 0; i < threads; ++i) {
      running_.emplace_back([&loop, cores] {
        serve::PinSelf(cores);
        loop.context.run();
      });
    }
    return loop.context;
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      common_.stop();
      for (auto& [cores, loop] : loops_) loop->context.stop();
    }
    for (auto& t : running_) t.join();   // none begins any more
    running_.clear();
  }

 private:
  static constexpr size_t kMost = 64;
  struct Loop {
    boost::asio::io_context context;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stays{context.get_executor()};
  };

  const size_t all_cores_ = std::thread::hardware_concurrency();
  int threads_ = 1;
  std::mutex mutex_;
  bool stopped_ = false;
  boost::asio::io_context common_;
  std::map<std::vector<int>, std::unique_ptr<Loop>> loops_;
  std::vector<std::thread> running_;
};

}  // namespace tenon::server::transport

#endif  // TENON_SERVER_TRANSPORT_LOOPS_H_
