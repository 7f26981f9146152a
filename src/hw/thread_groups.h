// Groups of threads of this process whose CPU time the kernel limits, by cgroup v1 or v2. They are made below the cgroup that the
// process is in, where it may write there, and go when they are destroyed; nothing else is touched.
#ifndef TENON_HW_THREAD_GROUPS_H_
#define TENON_HW_THREAD_GROUPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::hw {

/// What cgroups are to this code: files and folders. Paths begin with '/'.
class CgroupFiles {
 public:
  virtual ~CgroupFiles() = default;
  virtual std::optional<std::string> Read(const std::string& path) const = 0;
  virtual bool Writable(const std::string& path) const = 0;
  /// Kernel messages on failure, as kResourceLimit.
  virtual Status Write(const std::string& path, const std::string& text) = 0;
  virtual Status MakeFolder(const std::string& path) = 0;
  virtual Status RemoveFolder(const std::string& path) = 0;
  virtual std::vector<std::string> Folders(const std::string& path) const = 0;  ///< names
};
/// Those of the system.
std::shared_ptr<CgroupFiles> SystemCgroupFiles();

/// Threads that together get no more than some CPUs. All functions: any thread.
class ThreadGroup {
 public:
  virtual ~ThreadGroup() = default;
  /// The calling thread, and threads that it starts from now on. kResourceLimit: the kernel's reason.
  virtual Status Enter() = 0;
  virtual Status SetCpus(double cpus) = 0;
};

class ThreadGroups {
 public:
  /// Looks, and changes nothing.
  explicit ThreadGroups(std::shared_ptr<CgroupFiles> files = SystemCgroupFiles());
  /// After all of its groups.
  ~ThreadGroups();
  ThreadGroups(const ThreadGroups&) = delete;
  ThreadGroups& operator=(const ThreadGroups&) = delete;

  /// "cgroup v2", "cgroup v1"; empty: neither may be used here.
  const std::string& means() const { return means_; }
  /// Why neither.
  const std::string& refusal() const { return refusal_; }

  /// `cpus`: 0.05 and more. kResourceLimit: the kernel's reason; kUnsupported: there are no means.
  Result<std::unique_ptr<ThreadGroup>> Create(double cpus);

 private:
  bool FindV2(const std::string& own);
  bool FindV1(const std::string& own);
  void RemoveStale();

  std::shared_ptr<CgroupFiles> files_;
  std::string means_, refusal_;
  std::string base_;  // the cgroup of this process
  uint64_t made_ = 0;
  bool enabled_ = false;  // the controller for children, by us
};

}  // namespace tenon::hw

#endif  // TENON_HW_THREAD_GROUPS_H_
