#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace tenon {
namespace {

namespace fs = std::filesystem;

Status Write(const std::string& path, const std::string& text) {
  TENON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TENON_RETURN_IF_ERROR(file.Append(text.data(), text.size()));
  return file.Commit();
}

TEST(AtomicFile, NeverReplacesDevicesPipesOrLinks) {
  std::string folder = testing::TempDir() + "atomic-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ASSERT_TRUE(Write(folder + "/a", "one").ok());
  fs::create_symlink("a", folder + "/link");
  ASSERT_TRUE(Write(folder + "/link", "two").ok());
  EXPECT_TRUE(fs::is_symlink(folder + "/link"));
  EXPECT_EQ(*ReadFile(folder + "/a", 100), "two");
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(Write(folder + "/pipe", "three").code(), Code::kUsage);
  EXPECT_TRUE(fs::is_fifo(folder + "/pipe"));
  fs::create_symlink("pipe", folder + "/to_pipe");
  EXPECT_EQ(Write(folder + "/to_pipe", "three").code(), Code::kUsage);
  EXPECT_EQ(Write(folder, "three").code(), Code::kUsage);
  fs::create_symlink("nowhere", folder + "/lost");
  EXPECT_EQ(Write(folder + "/lost", "three").code(), Code::kBadInput);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tenon
