#include "hw/quota.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hw/isa.h"

namespace tenon::hw {
namespace {

namespace fs = std::filesystem;

// A fake root with one cgroup tree.
class QuotaTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("tenon_quota_" + std::to_string(getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) {
    const fs::path full = root_ / path;
    fs::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::optional<double> Quota() { return DetectCpuAllowance(root_.string()).quota; }
  fs::path root_;
};

TEST_F(QuotaTest, FieldCase_M04_CgroupV2) {
  Put("proc/self/cgroup", "0::/a/b\n");
  Put("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(*Quota(), 4.0);
  Put("sys/fs/cgroup/a/cpu.max", "100000 100000\n");  // a parent is tighter
  EXPECT_DOUBLE_EQ(*Quota(), 1.0);
  EXPECT_EQ(DetectCpuAllowance(root_.string()).threads, 1);
  Put("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  Put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_FALSE(Quota().has_value());
}

TEST_F(QuotaTest, FieldCase_M04_CgroupV1) {
  Put("proc/self/cgroup", "5:cpuset:/x\n3:cpu,cpuacct:/docker/1\n");
  Put("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "765000\n");
  Put("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(*Quota(), 7.65);
  Put("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(Quota().has_value());
}

TEST_F(QuotaTest, FieldCase_M04_HalfACpuIsOneThread) {
  Put("proc/self/cgroup", "0::/\n");
  Put("sys/fs/cgroup/cpu.max", "50000 100000\n");
  const CpuAllowance a = DetectCpuAllowance(root_.string());
  EXPECT_EQ(a.threads, 1);
  EXPECT_NE(a.explanation.find("0.50"), std::string::npos);
}

TEST(ParseCpuMax, Nonsense) {
  for (const char* text : {"", "max", "max 100000", "abc 100000", "100000 0", "-5 100000", "100000"}) {
    EXPECT_FALSE(ParseCpuMax(text).has_value()) << text;
  }
  EXPECT_DOUBLE_EQ(*ParseCpuMax("765000 100000"), 7.65);
}

TEST(Isa, LevelsIncludeLowerOnes) {
  EXPECT_TRUE(Covers(*IsaFromLevel("avx512"), *IsaFromLevel("avx2")));
  EXPECT_EQ(*IsaFromLevel("baseline"), kBaseline);
  EXPECT_EQ(IsaFromLevel("mmx").status().code(), Code::kUsage);
}

}  // namespace
}  // namespace tenon::hw
