// Groups of threads in cgroups that are made up, with the kernel's rules.
#include "hw/thread_groups.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <map>

namespace tenon::hw {
namespace {

// Files by path; folders are paths that have some. A new group gets its files from the kernel.
class FakeCgroups final : public CgroupFiles {
 public:
  std::map<std::string, std::string> files;
  bool read_only = false;

  std::optional<std::string> Read(const std::string& path) const override {
    const auto it = files.find(path);
    return it == files.end() ? std::nullopt : std::optional(it->second);
  }
  bool Writable(const std::string&) const override { return !read_only; }
  Status Write(const std::string& path, const std::string& text) override {
    const auto it = files.find(path);
    if (read_only || it == files.end()) return ResourceLimit("'{}'; not there, or not to be written", path);
    const std::string folder = path.substr(0, path.rfind('/')), file = path.substr(folder.size() + 1);
    if (file == "cgroup.threads" || file == "tasks") {
      if (file == "cgroup.threads" && files[folder + "/cgroup.type"] == "domain") return ResourceLimit("Operation not supported");
      for (auto& [p, content] : files) {   // a thread is in one group
        const size_t at = p.ends_with("/" + file) ? content.find(text + "\n") : std::string::npos;
        if (at != std::string::npos) content.erase(at, text.size() + 1);
      }
      it->second += text + "\n";
    } else if (file == "cgroup.subtree_control") {
      const size_t at = it->second.find(text.substr(1));
      if (text[0] == '+') it->second += " " + text.substr(1);
      if (text[0] == '-' && at != std::string::npos) it->second.erase(at, text.size() - 1);
    } else {
      it->second = text;
    }
    return Status::Ok();
  }
  Status MakeFolder(const std::string& path) override {
    if (read_only) return ResourceLimit("'{}'; Read-only file system", path);
    for (const char* f : {"cgroup.type", "cgroup.threads", "cpu.max", "tasks", "cpu.cfs_quota_us", "cpu.cfs_period_us"})
      files[path + "/" + f] = std::string(f) == "cgroup.type" ? "domain" : "";
    return Status::Ok();
  }
  Status RemoveFolder(const std::string& path) override {
    if (!files[path + "/cgroup.threads"].empty() || !files[path + "/tasks"].empty()) return ResourceLimit("busy");
    std::erase_if(files, [&](const auto& f) { return f.first.starts_with(path + "/"); });
    return Status::Ok();
  }
  std::vector<std::string> Folders(const std::string& path) const override {
    std::vector<std::string> names;
    for (const auto& [p, content] : files) {
      if (!p.starts_with(path + "/")) continue;
      const std::string rest = p.substr(path.size() + 1);
      const size_t slash = rest.find('/');
      if (slash != std::string::npos && (names.empty() || names.back() != rest.substr(0, slash)))
        names.push_back(rest.substr(0, slash));
    }
    return names;
  }
};

constexpr char kV2[] = "/sys/fs/cgroup/system.slice/tenon.service";

std::shared_ptr<FakeCgroups> V2() {
  auto fake = std::make_shared<FakeCgroups>();
  const std::string own = kV2;
  fake->files = {{"/proc/self/cgroup", "0::/system.slice/tenon.service\n"},
                 {own + "/cgroup.controllers", "cpuset cpu io memory pids\n"},
                 {own + "/cgroup.subtree_control", "\n"},
                 {own + "/cgroup.type", "domain threaded"},
                 {own + "/cgroup.threads", ""}};
  return fake;
}

std::shared_ptr<FakeCgroups> V1(const std::string& mount) {
  auto fake = std::make_shared<FakeCgroups>();
  fake->files = {{"/proc/self/cgroup", "5:memory:/m\n3:cpu,cpuacct:/docker/abc\n0::/\n"},
                 {mount + "/docker/abc/cpu.cfs_quota_us", "-1"},
                 {mount + "/docker/abc/tasks", ""}};
  return fake;
}

std::string Tid() {
  return std::to_string(syscall(SYS_gettid));
}

TEST(ThreadGroups, V2LimitsThreadsInThreadedGroups) {
  const auto fake = V2();
  const auto before = fake->files;
  {
    ThreadGroups groups(fake);
    EXPECT_EQ(groups.means(), "cgroup v2");
    EXPECT_EQ(fake->files, before);   // looking changes nothing
    auto quarter = groups.Create(0.25);
    ASSERT_TRUE(quarter.ok()) << quarter.status().message();
    const std::string path = fmt::format("{}/tenon-{}-0", kV2, getpid());
    EXPECT_EQ(fake->files[path + "/cgroup.type"], "threaded");
    EXPECT_EQ(fake->files[path + "/cpu.max"], "5000 20000");
    EXPECT_NE(fake->files[std::string(kV2) + "/cgroup.subtree_control"].find("cpu"), std::string::npos);
    ASSERT_TRUE((*quarter)->Enter().ok());
    EXPECT_EQ(fake->files[path + "/cgroup.threads"], Tid() + "\n");
    ASSERT_TRUE((*quarter)->SetCpus(1.5).ok());
    EXPECT_EQ(fake->files[path + "/cpu.max"], "30000 20000");
    EXPECT_TRUE(groups.Create(0.5).ok());
  }
  EXPECT_TRUE(fake->Folders(kV2).empty());   // the thread that was in it is back
  EXPECT_EQ(fake->files[std::string(kV2) + "/cgroup.threads"], Tid() + "\n");
  EXPECT_EQ(fake->files[std::string(kV2) + "/cgroup.subtree_control"].find("cpu"), std::string::npos);
}

TEST(ThreadGroups, V1LimitsTasks) {
  for (const std::string mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    const auto fake = V1(mount);
    ThreadGroups groups(fake);
    EXPECT_EQ(groups.means(), "cgroup v1");
    auto half = groups.Create(0.5);
    ASSERT_TRUE(half.ok()) << half.status().message();
    const std::string path = fmt::format("{}/docker/abc/tenon-{}-0", mount, getpid());
    EXPECT_EQ(fake->files[path + "/cpu.cfs_period_us"], "20000");
    EXPECT_EQ(fake->files[path + "/cpu.cfs_quota_us"], "10000");
    ASSERT_TRUE((*half)->Enter().ok());
    EXPECT_EQ(fake->files[path + "/tasks"], Tid() + "\n");
    half->reset();
    EXPECT_EQ(fake->files.count(path + "/tasks"), 0U);
  }
}

TEST(ThreadGroups, SaysWhyThereAreNone) {
  const auto refusal = [](const std::shared_ptr<FakeCgroups>& fake) {
    ThreadGroups groups(fake);
    EXPECT_EQ(groups.means(), "");
    EXPECT_EQ(groups.Create(0.5).status().code(), Code::kUnsupported);
    return groups.refusal();
  };
  EXPECT_NE(refusal(std::make_shared<FakeCgroups>()).find("no cgroup"), std::string::npos);
  auto fake = V2();
  fake->read_only = true;
  EXPECT_NE(refusal(fake).find("not delegated"), std::string::npos);
  fake = V2();
  fake->files[std::string(kV2) + "/cgroup.controllers"] = "cpuset memory";
  EXPECT_NE(refusal(fake).find("no cgroup with a cpu controller"), std::string::npos);
  fake = V2();
  fake->files[std::string(kV2) + "/cgroup.subtree_control"] = "memory";
  EXPECT_NE(refusal(fake).find("memory"), std::string::npos);
  fake = V2();
  fake->files["/proc/self/cgroup"] = "0::/../other\n";
  EXPECT_NE(refusal(fake).find("no cgroup"), std::string::npos);
  fake = V1("/sys/fs/cgroup/cpu");
  fake->read_only = true;
  EXPECT_NE(refusal(fake).find("may not be written"), std::string::npos);
}

// Of a process that was killed, and of nobody else.
TEST(ThreadGroups, RemovesWhatADeadProcessLeft) {
  const auto fake = V2();
  const std::string own = kV2;
  for (const char* name : {"/tenon-4000001-0", "/tenon-4000002-0", "/tenon-4000003-0", "/other-4000001-0"})
    ASSERT_TRUE(fake->MakeFolder(own + name).ok());
  fake->files["/proc/4000002/stat"] = "lives";
  fake->files[own + "/tenon-4000003-0/cgroup.threads"] = "77\n";
  ThreadGroups groups(fake);
  EXPECT_EQ(fake->Folders(kV2).size(), 4U);
  {
    const auto group = groups.Create(1);
  }
  EXPECT_EQ(fake->Folders(kV2), (std::vector<std::string>{"other-4000001-0", "tenon-4000002-0", "tenon-4000003-0"}));
}

}  // namespace
}  // namespace tenon::hw
