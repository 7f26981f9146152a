// Topology out of fake trees.
#include "device/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tenon::device {
namespace {

namespace fs = std::filesystem;

class TopologyTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("tenon_topology_" + std::to_string(getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

std::vector<Core> TwoSockets() {
  std::vector<Core> cores;
  for (int cpu = 0; cpu < 128; ++cpu) cores.push_back({cpu, (cpu / 32) % 2, (cpu / 32) % 2, cpu % 32});
  return cores;
}

TEST_F(TopologyTest, CpuLists) {
  EXPECT_EQ(*ParseCpuList("0-2,8"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(*ParseCpuList("5"), (std::vector<int>{5}));
  for (const char* bad : {"3-1", "a", "-1", "0-", "99999", "0-999999999"}) EXPECT_FALSE(ParseCpuList(bad).ok()) << bad;
}

// Nodes name their own CPUs: 0-31,64-95 and 32-63,96-127 on a machine of two sockets.
TEST_F(TopologyTest, M07_NodesWithInterleavedIds) {
  Put("sys/devices/system/node/node0/cpulist", "0-31,64-95\n");
  Put("sys/devices/system/node/node1/cpulist", "32-63,96-127\n");
  const Topology t = ReadTopology(root_.string());
  for (const Core& c : t.cores) EXPECT_EQ(c.node, (c.cpu / 32) % 2) << c.cpu;
  const auto halves = SplitCores(TwoSockets(), "2");
  ASSERT_TRUE(halves.ok());
  for (int cpu : (*halves)[0].cpus) EXPECT_EQ((cpu / 32) % 2, 0) << cpu;
  for (int cpu : (*halves)[1].cpus) EXPECT_EQ((cpu / 32) % 2, 1) << cpu;
}

TEST_F(TopologyTest, MemoryOfTheTightestCgroup) {
  Put("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
  EXPECT_EQ(ReadTopology(root_.string()).memory_limit, uint64_t{16} << 30);
  Put("proc/self/cgroup", "0::/a/b\n");
  Put("sys/fs/cgroup/a/b/memory.max", "max\n");
  Put("sys/fs/cgroup/a/memory.max", "1073741824\n");
  Put("sys/fs/cgroup/a/memory.current", "1000\n");
  const Topology t = ReadTopology(root_.string());
  EXPECT_EQ(t.memory_limit, uint64_t{1} << 30);
  EXPECT_EQ(t.memory_used, 1000U);
}

TEST_F(TopologyTest, TemperatureOfTheHottestSensorOfACpu) {
  EXPECT_EQ(ReadTemperature(root_.string()), std::nullopt);
  Put("sys/class/hwmon/hwmon0/name", "nvme\n");
  Put("sys/class/hwmon/hwmon0/temp1_input", "90000\n");
  EXPECT_EQ(ReadTemperature(root_.string()), std::nullopt);   // a disk
  Put("sys/class/thermal/thermal_zone0/type", "acpitz\n");
  Put("sys/class/thermal/thermal_zone0/temp", "80000\n");
  Put("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
  Put("sys/class/thermal/thermal_zone1/temp", "41000\n");
  EXPECT_EQ(ReadTemperature(root_.string()), 41);
  Put("sys/class/hwmon/hwmon1/name", "coretemp\n");
  Put("sys/class/hwmon/hwmon1/temp1_input", "45000\n");
  Put("sys/class/hwmon/hwmon1/temp2_input", "61500\n");
  Put("sys/class/hwmon/hwmon1/temp2_crit", "100000\n");
  for (const char* broken : {"", "hot", "-274000", "99999999", "9999999999999999999999"}) {
    Put("sys/class/hwmon/hwmon1/temp3_input", broken);
    EXPECT_EQ(ReadTemperature(root_.string()), 61.5) << broken;
  }
}

TEST_F(TopologyTest, Layouts) {
  const std::vector<Core> four = {{0, 0, 0, 0}, {5, 0, 0, 1}, {7, 0, 0, 2}, {9, 0, 0, 3}};
  EXPECT_EQ(*SplitCores(four, "1/4+3/4"), (std::vector<Part>{{{0}, 1}, {{5, 7, 9}, 1}}));
  EXPECT_EQ(*SplitCores(four, "2"), (std::vector<Part>{{{0, 5}, 1}, {{7, 9}, 1}}));
  EXPECT_EQ(*SplitCores(four, "cores=5,9"), (std::vector<Part>{{{5, 9}, 1}}));
  // No whole cores: all parts share all of them.
  const std::vector<int> all = {0, 5, 7, 9};
  EXPECT_EQ(*SplitCores(four, "1/8+7/8"), (std::vector<Part>{{all, 0.125}, {all, 0.875}}));
  EXPECT_EQ(*SplitCores(four, "8"), std::vector<Part>(8, {all, 0.125}));
  for (const char* bad : {"", "0", "x", "3/4+1/2", "cores=", "cores=6", "1/0", "-1"})
    EXPECT_FALSE(SplitCores(four, bad).ok()) << bad;
}

TEST_F(TopologyTest, UtilisationBetweenTwoReadings) {
  Put("proc/stat", "cpu  0 0 0 0\ncpu0 10 0 10 80 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0\n");
  Utilisation u(root_.string());
  u.Read({0, 1});
  Put("proc/stat", "cpu  0 0 0 0\ncpu0 60 0 10 130 0 0 0 0\ncpu1 0 0 0 200 0 0 0 0\n");
  const auto shares = u.Read({0, 1});
  EXPECT_DOUBLE_EQ(shares[0], 0.5);
  EXPECT_DOUBLE_EQ(shares[1], 0);
}

}  // namespace
}  // namespace tenon::device
