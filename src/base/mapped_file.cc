#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tenon {
namespace {

// Names of temporary files that exist now, for RemoveTemporaryFiles. Fixed slots, so that a signal handler can walk them.
constexpr size_t kSlots = 16;
std::array<std::atomic<const char*>, kSlots> temporary_names;

void Remember(const char* name) {
  for (auto& slot : temporary_names) {
    const char* expected = nullptr;
    if (slot.compare_exchange_strong(expected, name)) return;
  }
}

void Forget(const char* name) {
  for (auto& slot : temporary_names) {
    const char* expected = name;
    if (slot.compare_exchange_strong(expected, nullptr)) return;
  }
}

Status OpenFailed(const std::string& path) {
  const int e = errno;
  if (e == EMFILE || e == ENFILE || e == ENOMEM) return ResourceLimit("cannot open '{}'; {}", path, std::strerror(e));
  return BadInput("cannot open '{}'; {}", path, std::strerror(e));
}

}  // namespace

Result<std::shared_ptr<MappedFile>> MappedFile::Open(const std::string& path, bool follow_links, bool allow_hard_links) {
  std::shared_ptr<MappedFile> file(new MappedFile());
  file->path_ = path;
  file->fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow_links ? 0 : O_NOFOLLOW));
  if (file->fd_ < 0) return OpenFailed(path);
  struct stat st{};
  if (fstat(file->fd_, &st) != 0) return OpenFailed(path);
  if (!S_ISREG(st.st_mode)) return BadInput("'{}' is not a regular file", path);
  if (!allow_hard_links && st.st_nlink > 1) {
    return BadInput("'{}' has {} hard links, so it may be a file from outside its folder; make a copy of it", path, st.st_nlink);
  }
  file->size_ = static_cast<uint64_t>(st.st_size);
  if (file->size_ == 0) return file;
  void* p = mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, file->fd_, 0);
  if (p == MAP_FAILED) return ResourceLimit("cannot map '{}' ({} bytes); {}", path, file->size_, std::strerror(errno));
  file->data_ = static_cast<const std::byte*>(p);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) close(fd_);
}

Status MappedFile::ReadAt(uint64_t offset, void* out, size_t size) const {
  auto* p = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t n = pread(fd_, p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return BadInput("cannot read '{}' at {}; {}", path_, offset, std::strerror(errno));
    if (n == 0) return BadInput("'{}' ends at {}, before the {} bytes that were expected", path_, offset, size);
    p += n;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
  return Status::Ok();
}

void ReleasePages(const void* data, size_t size) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data) + size) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  TENON_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  if (file->size() > max_bytes) {
    return ResourceLimit("'{}' has {} bytes; at most {} are read", path, file->size(), max_bytes);
  }
  std::string bytes(file->size(), '\0');
  TENON_RETURN_IF_ERROR(file->ReadAt(0, bytes.data(), bytes.size()));
  return bytes;
}

namespace {

// What a rename would put the file in place of: the target of links, which stay; never a device, pipe or folder.
Result<std::string> Destination(const std::string& path) {
  struct stat info{};
  std::string target = path;
  if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    char* resolved = realpath(path.c_str(), nullptr);
    if (resolved == nullptr) return BadInput("cannot write '{}'; it is a link to what is not there", path);
    target = resolved;
    std::free(resolved);
  }
  if (stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return Usage("cannot write '{}'; it is no regular file, and would be replaced by one", path);
  return target;
}

}  // namespace

Result<AtomicFile> AtomicFile::Create(const std::string& wish) {
  TENON_ASSIGN_OR_RETURN(const std::string path, Destination(wish));
  std::string temporary = path + ".tmp-XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return BadInput("cannot write '{}'; {}", path, std::strerror(errno));
  fchmod(fd, 0644);
  AtomicFile file(path, std::move(temporary), fd);
  Remember(file.temporary_.c_str());
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept : path_(std::move(other.path_)), fd_(other.fd_), size_(other.size_) {
  // The registered name is the string's own buffer: register anew after the move.
  Forget(other.temporary_.c_str());
  temporary_ = std::move(other.temporary_);
  other.temporary_.clear();
  other.fd_ = -1;
  if (!temporary_.empty()) Remember(temporary_.c_str());
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) {
    unlink(temporary_.c_str());
    Forget(temporary_.c_str());
  }
}

Status AtomicFile::Failed(const char* what) const {
  const int e = errno;
  if (e == ENOSPC || e == EDQUOT || e == EFBIG) return ResourceLimit("cannot {} '{}'; {}", what, path_, std::strerror(e));
  return Usage("cannot {} '{}'; {}", what, path_, std::strerror(e));
}

Status AtomicFile::Append(const void* data, size_t size) {
  return WriteAt(size_, data, size);
}

Status AtomicFile::WriteAt(uint64_t offset, const void* data, size_t size) {
  const auto* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = pwrite(fd_, p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Failed("write");
    p += n;
    offset += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
  size_ = std::max(size_, offset);
  return Status::Ok();
}

Status AtomicFile::Commit() {
  if (close(fd_) != 0) {
    fd_ = -1;
    return Failed("write");
  }
  fd_ = -1;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("create");
  Forget(temporary_.c_str());
  temporary_.clear();
  return Status::Ok();
}

void RemoveTemporaryFiles() {
  for (auto& slot : temporary_names) {
    const char* name = slot.load();
    if (name != nullptr) unlink(name);
  }
}

}  // namespace tenon
