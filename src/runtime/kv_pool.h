// Memory for the keys and values of sequences: blocks of 64 tokens in one mapping, counted by how many sequences use them.
#ifndef TENON_RUNTIME_KV_POOL_H_
#define TENON_RUNTIME_KV_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/kv_step.h"

namespace tenon::runtime {

/// What a model's metadata tells of its cache. kBadInput when these are no metadata of a decoder.
Result<kernels::KvShape> KvShapeOf(const std::map<std::string, std::string>& metadata);

/// Not thread-safe.
class KvPool {
 public:
  /// Pages become resident as blocks are first used. kResourceLimit when the memory cannot be had.
  static Result<std::unique_ptr<KvPool>> Create(const kernels::KvShape& shape, int64_t blocks);
  ~KvPool();
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  /// A block with one user; kResourceLimit when none is free.
  Result<int32_t> Take();
  /// One more user of a block.
  void Share(int32_t block) { ++users_[static_cast<size_t>(block)]; }
  /// One user less; without any the block is free again.
  void Release(int32_t block);

  const kernels::KvShape& shape() const { return shape_; }
  int64_t blocks() const { return static_cast<int64_t>(users_.size()); }
  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }
  /// Sets all that concerns the pool.
  void Describe(kernels::KvStep* step) const;

 private:
  KvPool(const kernels::KvShape& shape, std::byte* memory, int64_t blocks);
  kernels::KvShape shape_;
  std::byte* memory_;
  std::vector<int32_t> users_;
  std::vector<int32_t> free_;   // the next one last
};

}  // namespace tenon::runtime

#endif  // TENON_RUNTIME_KV_POOL_H_
