#include "tensor/blocks/blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/mapped_file.h"

namespace tenon {
namespace {

// Random blocks and what the `gguf` package makes of them (scripts/make_block_goldens.py).
TEST(Blocks, UnpackAsTheGgufPackageDoes) {
  const auto file = ReadFile(TENON_SOURCE_DIR "/src/tensor/testdata/blocks.bin", 1 << 20);
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::set<std::string_view> seen;
  for (size_t at = 0; at < file->size();) {
    const std::string name(file->data() + at);
    uint32_t bytes = 0, elements = 0;
    std::memcpy(&bytes, file->data() + at + 16, 4);
    std::memcpy(&elements, file->data() + at + 20, 4);
    at += 24;
    const BlockFormat* format = FindBlockFormat(name);
    ASSERT_NE(format, nullptr) << name;
    ASSERT_EQ(format->RowElements(bytes), elements) << name;
    seen.insert(format->name);
    std::vector<float> got(elements), want(elements);
    std::memcpy(want.data(), file->data() + at + bytes, elements * 4);
    UnpackRow(*format, reinterpret_cast<const uint8_t*>(file->data() + at), elements, got.data());
    for (size_t i = 0; i < elements; ++i) ASSERT_EQ(got[i], want[i]) << name << " element " << i;
    at += bytes + elements * 4;
  }
  for (const BlockFormat& f : BlockFormats()) EXPECT_TRUE(seen.count(f.name)) << f.name << " has no goldens";
}

}  // namespace
}  // namespace tenon
