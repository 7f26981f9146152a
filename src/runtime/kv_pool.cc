#include "runtime/kv_pool.h"

#include <sys/mman.h>

#include <charconv>

namespace tenon::runtime {

using kernels::KvShape;

Result<KvShape> KvShapeOf(const std::map<std::string, std::string>& metadata) {
  KvShape shape;
  const auto read = [&](const char* key, int64_t most, int64_t* to) -> Status {
    const auto it = metadata.find(key);
    if (it == metadata.end()) return BadInput("the model's metadata has no '{}'; it is no language model that generates", key);
    const std::string& text = it->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *to);
    if (error != std::errc() || end != text.data() + text.size() || *to < 1 || *to > most) {
      return BadInput("metadata '{}' is '{}'; a number from 1 to {} needed", key, text, most);
    }
    return {};
  };
  TENON_RETURN_IF_ERROR(read("tenon.layers", 4096, &shape.layers));
  TENON_RETURN_IF_ERROR(read("tenon.kv_heads", 1 << 16, &shape.kv_heads));
  TENON_RETURN_IF_ERROR(read("tenon.head_dim", 1 << 16, &shape.head_dim));
  const auto kept = metadata.find("tenon.kv_cache");
  const auto type = kernels::ParseKvType(kept != metadata.end() ? kept->second : "f16", shape.head_dim);
  if (!type.ok()) return BadInput("metadata 'tenon.kv_cache': {}", type.status().message());
  shape.type = *type;
  return shape;
}

Result<std::unique_ptr<KvPool>> KvPool::Create(const KvShape& shape, int64_t blocks) {
  constexpr uint64_t kMost = uint64_t{1} << 46;
  const auto each = static_cast<uint64_t>(shape.block_bytes());
  if (blocks < 1 || each > kMost / static_cast<uint64_t>(blocks)) {
    return ResourceLimit("a cache of {} blocks of {} bytes; at most {} bytes allowed", blocks, each, kMost);
  }
  const uint64_t bytes = each * static_cast<uint64_t>(blocks);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return ResourceLimit("cannot map {} bytes for keys and values", bytes);
  return std::unique_ptr<KvPool>(new KvPool(shape, static_cast<std::byte*>(p), blocks));
}

KvPool::KvPool(const KvShape& shape, std::byte* memory, int64_t blocks)
    : shape_(shape), memory_(memory), users_(static_cast<size_t>(blocks), 0) {
  free_.reserve(users_.size());
  for (int64_t i = blocks; i-- > 0;) free_.push_back(static_cast<int32_t>(i));
}

KvPool::~KvPool() {
  munmap(memory_, static_cast<size_t>(shape_.block_bytes()) * users_.size());
}

Result<int32_t> KvPool::Take() {
  if (free_.empty())
    return ResourceLimit("all {} blocks of {} tokens for keys and values are in use", blocks(), kernels::kKvBlockTokens);
  const int32_t block = free_.back();
  free_.pop_back();
  users_[static_cast<size_t>(block)] = 1;
  return block;
}

void KvPool::Release(int32_t block) {
  int32_t& users = users_[static_cast<size_t>(block)];
  CHECK(users > 0);
  if (--users == 0) free_.push_back(block);
}

void KvPool::Describe(kernels::KvStep* step) const {
  step->pool = memory_;
  step->num_blocks = blocks();
  step->shape = shape_;
}

}  // namespace tenon::runtime
