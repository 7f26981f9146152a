// Files: read-only mappings, whole reads with a size limit, and writes that appear whole or not at all.
#ifndef TENON_BASE_MAPPED_FILE_H_
#define TENON_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace tenon {

/// A regular file mapped read-only. The file must not shrink while mapped.
/// Tells the system that the pages wholly inside [data, data + size) are not needed any more. Those of a mapped file can be read
/// again; those of the heap read as zeros.
void ReleasePages(const void* data, size_t size);

class MappedFile {
 public:
  /// Refuses what is not a regular file; never waits for a writer of a pipe. `follow_links` false: a symlink in the last
  /// component is refused; `allow_hard_links` false: a file with a second name is (it may come from anywhere).
  static Result<std::shared_ptr<MappedFile>> Open(const std::string& path, bool follow_links = true,
                                                  bool allow_hard_links = true);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  /// Reads [offset, offset + size) without touching the mapping (resident memory stays as it is).
  Status ReadAt(uint64_t offset, void* out, size_t size) const;

 private:
  MappedFile() = default;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  std::string path_;
};

/// The whole file; kResourceLimit when it is larger than `max_bytes`.
Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes);

/// Collects bytes in a temporary file beside `path` and renames it on Commit. Without Commit nothing remains.
class AtomicFile {
 public:
  /// Links are followed, not replaced. kUsage: `path` is a device, pipe or folder.
  static Result<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status Append(const void* data, size_t size);
  Status WriteAt(uint64_t offset, const void* data, size_t size);
  uint64_t size() const { return size_; }
  Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  Status Failed(const char* what) const;
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// Removes the temporary files of this process; async-signal-safe, for the Ctrl-C handler of the command line.
void RemoveTemporaryFiles();

}  // namespace tenon

#endif  // TENON_BASE_MAPPED_FILE_H_
