// System shared memory that clients register: tensors come and go through it instead of the connection.
#ifndef TENON_SERVER_SHARED_MEMORY_H_
#define TENON_SERVER_SHARED_MEMORY_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::server {

class SharedMemory {
 public:
  struct Region {
    std::string name, key;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::shared_ptr<char> memory;   // of `offset`; unmapped when nobody uses it any more
  };

  /// kUsage: the name is taken, or the object is missing or shorter than offset + bytes.
  Status Register(const std::string& name, const std::string& key, uint64_t offset, uint64_t bytes);
  /// Empty name: all. Unknown names are no failure, as the protocol has it.
  void Unregister(const std::string& name);
  /// Empty name: all. kUsage: unknown.
  Result<std::vector<Region>> List(const std::string& name) const;
  /// `bytes` at `offset` of a region; kUsage when they are not inside.
  Result<std::shared_ptr<char>> Find(const std::string& name, uint64_t offset, uint64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Region> regions_;
};

}  // namespace tenon::server

#endif  // TENON_SERVER_SHARED_MEMORY_H_
