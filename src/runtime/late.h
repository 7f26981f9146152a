// Values whose shape is known only during a run: their memory comes from a small pool that keeps buffers between runs.
#ifndef TENON_RUNTIME_LATE_H_
#define TENON_RUNTIME_LATE_H_

#include <memory>
#include <optional>
#include <vector>

#include "hw/machine.h"
#include "tensor/tensor.h"

namespace tenon::runtime {

class BufferPool {
 public:
  explicit BufferPool(hw::Budget& budget) : charged_(budget) {}

  /// A buffer of at least `bytes`; kResourceLimit over the budget. Give it back with Return.
  Result<std::shared_ptr<Buffer>> Take(size_t bytes);
  void Return(std::shared_ptr<Buffer> buffer);
  /// Frees idle buffers.
  void Trim();

 private:
  hw::Charged charged_;
  std::vector<std::shared_ptr<Buffer>> idle_;
};

/// One late value during a run.
struct LateValue {
  View view;                        ///< !present() while the value does not exist
  std::shared_ptr<Buffer> buffer;   ///< owner of the bytes; null when they belong to somebody else
  bool pooled = false;              ///< `buffer` goes back to the pool
  Sequence sequence;

  void Clear(BufferPool* pool) {
    if (pooled && buffer.use_count() == 1) pool->Return(std::move(buffer));
    buffer.reset();
    pooled = false;
    view = View{};
    sequence.clear();
  }
};

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_LATE_H_
