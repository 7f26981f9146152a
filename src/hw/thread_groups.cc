#include "hw/thread_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hw/cgroups.h"

namespace tenon::hw {
namespace {

constexpr std::string_view kPrefix = "tenon-";
constexpr int64_t kPeriodUs =
    20000;   // shorter than the kernel's 100 ms: a group that has used up its part waits no longer than this

class SystemFiles final : public CgroupFiles {
 public:
  std::optional<std::string> Read(const std::string& path) const override {
    std::ifstream file(path);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) return file ? std::optional<std::string>("") : std::nullopt;
    return text.str();
  }
  bool Writable(const std::string& path) const override { return access(path.c_str(), W_OK) == 0; }
  Status Write(const std::string& path, const std::string& text) override {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const bool written = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const int error = errno;
    if (fd >= 0) close(fd);
    return written ? Status::Ok() : Failure(path, error);
  }
  Status MakeFolder(const std::string& path) override {
    return mkdir(path.c_str(), 0755) == 0 ? Status::Ok() : Failure(path, errno);
  }
  Status RemoveFolder(const std::string& path) override { return rmdir(path.c_str()) == 0 ? Status::Ok() : Failure(path, errno); }
  std::vector<std::string> Folders(const std::string& path) const override {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.is_directory(error)) names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  static Status Failure(const std::string& path, int error) { return ResourceLimit("'{}'; {}", path, std::strerror(error)); }
};

bool HasWord(const std::string& text, std::string_view word) {
  std::istringstream words(text);
  for (std::string w; words >> w;) {
    if (w == word) return true;
  }
  return false;
}

std::string Joined(const std::string& base, const std::string& path) {
  return path == "/" ? base : base + path;
}

class Group final : public ThreadGroup {
 public:
  Group(std::shared_ptr<CgroupFiles> files, std::string parent, std::string path, bool v2)
      : files_(std::move(files)),
        parent_(std::move(parent)),
        path_(std::move(path)),
        threads_(v2 ? "/cgroup.threads" : "/tasks"),
        v2_(v2) {}
  ~Group() override {
    // Whoever is still in it goes on in the process's own.
    std::istringstream tids(files_->Read(path_ + threads_).value_or(""));
    for (std::string tid; tids >> tid;) (void)files_->Write(parent_ + threads_, tid);
    (void)files_->RemoveFolder(path_);
  }
  Status Enter() override { return files_->Write(path_ + threads_, std::to_string(syscall(SYS_gettid))); }
  Status SetCpus(double cpus) override {
    const auto quota = std::to_string(std::max<int64_t>(1000, std::llround(cpus * kPeriodUs)));
    if (v2_) return files_->Write(path_ + "/cpu.max", quota + " " + std::to_string(kPeriodUs));
    TENON_RETURN_IF_ERROR(files_->Write(path_ + "/cpu.cfs_period_us", std::to_string(kPeriodUs)));
    return files_->Write(path_ + "/cpu.cfs_quota_us", quota);
  }

 private:
  std::shared_ptr<CgroupFiles> files_;
  std::string parent_, path_;
  const char* threads_;
  bool v2_;
};

}  // namespace

std::shared_ptr<CgroupFiles> SystemCgroupFiles() {
  return std::make_shared<SystemFiles>();
}

ThreadGroups::ThreadGroups(std::shared_ptr<CgroupFiles> files) : files_(std::move(files)) {
  std::optional<std::string> v1, v2;
  for (const Cgroup& own : ParseCgroups(files_->Read("/proc/self/cgroup").value_or(""))) {
    if (own.path.find("..") != std::string::npos) continue;   // outside what this process sees
    if (own.is_v2()) v2 = own.path;
    if (own.Has("cpu")) v1 = own.path;
  }
  refusal_ = "there is no cgroup with a cpu controller";
  const bool found = (v1 && FindV1(*v1)) || (v2 && FindV2(*v2));
  if (found) refusal_.clear();
}

ThreadGroups::~ThreadGroups() {
  if (enabled_) (void)files_->Write(base_ + "/cgroup.subtree_control", "-cpu");
}

bool ThreadGroups::FindV1(const std::string& own) {
  for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    base_ = Joined(mount, own);
    if (!files_->Read(base_ + "/cpu.cfs_quota_us") && !files_->Read(base_ + "/cpu.shares")) continue;
    if (files_->Writable(base_)) {
      means_ = "cgroup v1";
      return true;
    }
    refusal_ = fmt::format("'{}' may not be written", base_);
  }
  return false;
}

// Threads of one process in different groups are "threaded" groups of v2, which the process's own group becomes the root of: that
// takes a group without domain controllers (memory, io) for its children.
bool ThreadGroups::FindV2(const std::string& own) {
  base_ = Joined("/sys/fs/cgroup", own);
  if (!HasWord(files_->Read(base_ + "/cgroup.controllers").value_or(""), "cpu")) return false;
  const std::string enabled = files_->Read(base_ + "/cgroup.subtree_control").value_or("");
  for (const char* domain : {"memory", "io", "hugetlb", "rdma", "misc"}) {
    if (own == "/" || !HasWord(enabled, domain)) continue;
    refusal_ = fmt::format("'{}' hands {} on to its children, which rules out groups of threads", base_, domain);
    return false;
  }
  if (!files_->Writable(base_) || !files_->Writable(base_ + "/cgroup.subtree_control") ||
      !files_->Writable(base_ + "/cgroup.threads")) {
    refusal_ = fmt::format("'{}' is not delegated to this process", base_);
    return false;
  }
  means_ = "cgroup v2";
  return true;
}

// What a process left behind that was killed: empty groups of its number.
void ThreadGroups::RemoveStale() {
  for (const std::string& name : files_->Folders(base_)) {
    if (!name.starts_with(kPrefix)) continue;
    int64_t pid = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), pid);
    if (pid > 0 && !files_->Read(fmt::format("/proc/{}/stat", pid))) (void)files_->RemoveFolder(base_ + "/" + name);
  }
}

Result<std::unique_ptr<ThreadGroup>> ThreadGroups::Create(double cpus) {
  if (means_.empty()) return Unsupported("groups of threads; {}", refusal_);
  if (made_ == 0) RemoveStale();
  const bool v2 = means_ == "cgroup v2";
  const std::string path = fmt::format("{}/{}{}-{}", base_, kPrefix, getpid(), made_++);
  TENON_RETURN_IF_ERROR(files_->MakeFolder(path));
  auto group = std::make_unique<Group>(files_, base_, path, v2);
  if (v2) {
    TENON_RETURN_IF_ERROR(files_->Write(path + "/cgroup.type", "threaded"));
    if (!HasWord(files_->Read(base_ + "/cgroup.subtree_control").value_or(""), "cpu")) {
      TENON_RETURN_IF_ERROR(files_->Write(base_ + "/cgroup.subtree_control", "+cpu"));
      enabled_ = true;
    }
  }
  TENON_RETURN_IF_ERROR(group->SetCpus(cpus));
  return std::unique_ptr<ThreadGroup>(std::move(group));
}

}  // namespace tenon::hw
