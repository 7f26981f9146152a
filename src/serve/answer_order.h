// Answers in the order in which their requests came, whatever order they are ready in.
#ifndef TENON_SERVE_ANSWER_ORDER_H_
#define TENON_SERVE_ANSWER_ORDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace tenon::serve {

class AnswerOrder {
 public:
  /// A place behind all that were given out.
  uint64_t Take();
  /// Runs `answer` when those of all places before have run, perhaps later on another thread; never two at a time. Once for each
  /// place.
  void Put(uint64_t place, std::function<void()> answer);
  /// Answers that wait for one before them.
  size_t waiting() const;

 private:
  mutable std::mutex mutex_;
  uint64_t given_ = 0;  // places
  uint64_t next_ = 0;  // to be answered
  bool answering_ = false;
  std::map<uint64_t, std::function<void()>> ready_;
};

}  // namespace tenon::serve

#endif  // TENON_SERVE_ANSWER_ORDER_H_
