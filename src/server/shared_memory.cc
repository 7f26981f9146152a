#include "server/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tenon::server {
namespace {

constexpr size_t kMaxRegions = 4096;

}  // namespace

Status SharedMemory::Register(const std::string& name, const std::string& key, uint64_t offset, uint64_t bytes) {
  if (name.empty() || key.empty()) return Usage("a shared memory region needs a name and a key");
  const std::lock_guard lock(mutex_);
  if (regions_.count(name) > 0) return Usage("shared memory region '{}' is registered already", name);
  if (regions_.size() >= kMaxRegions)
    return ResourceLimit("{} shared memory regions are registered; no more are allowed", kMaxRegions);
  // Names are those of shm_open: one '/' in front and none after.
  const std::string object = key[0] == '/' ? key : "/" + key;
  if (object.find('/', 1) != std::string::npos) return Usage("shared memory key '{}'; no '/' is allowed inside", key);
  const int file = shm_open(object.c_str(), O_RDWR, 0);
  if (file < 0) return Usage("shared memory region '{}'; cannot open key '{}': {}", name, key, std::strerror(errno));
  struct stat info{};
  const bool known = fstat(file, &info) == 0 && info.st_size >= 0;
  const auto size = known ? static_cast<uint64_t>(info.st_size) : 0;
  if (bytes == 0 || bytes > size || offset > size - bytes) {
    close(file);
    return Usage("shared memory region '{}'; {} bytes at {} asked; key '{}' has {}", name, bytes, offset, key, size);
  }
  void* base = mmap(nullptr, offset + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (base == MAP_FAILED) return ResourceLimit("shared memory region '{}'; cannot map {} bytes", name, offset + bytes);
  Region region{name, key, offset, bytes, nullptr};
  region.memory =
      std::shared_ptr<char>(static_cast<char*>(base) + offset, [base, length = offset + bytes](char*) { munmap(base, length); });
  regions_[name] = std::move(region);
  return Status::Ok();
}

void SharedMemory::Unregister(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (name.empty()) {
    regions_.clear();
  } else {
    regions_.erase(name);
  }
}

Result<std::vector<SharedMemory::Region>> SharedMemory::List(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<Region> found;
  for (const auto& [key, region] : regions_) {
    if (name.empty() || key == name) found.push_back(region);
  }
  if (found.empty() && !name.empty()) return Usage("shared memory region '{}' is not registered", name);
  return found;
}

Result<std::shared_ptr<char>> SharedMemory::Find(const std::string& name, uint64_t offset, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto it = regions_.find(name);
  if (it == regions_.end()) return Usage("shared memory region '{}' is not registered", name);
  const Region& r = it->second;
  if (bytes > r.bytes || offset > r.bytes - bytes) {
    return Usage("shared memory region '{}'; {} bytes at {} asked; it has {}", name, bytes, offset, r.bytes);
  }
  return std::shared_ptr<char>(r.memory, r.memory.get() + offset);
}

}  // namespace tenon::server
