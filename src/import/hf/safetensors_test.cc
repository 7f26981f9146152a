// safetensors: what is right is read, what is damaged is refused at once.
#include "import/hf/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tenon::import {
namespace {

std::string File(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  return bytes + header + data;
}

Result<Safetensors> Parse(const std::string& bytes) {
  return Safetensors::Parse(std::as_bytes(std::span(bytes)));
}

TEST(Safetensors, ReadsFloats) {
  std::string data;
  for (float f : {1.5f, -2.f}) data.append(reinterpret_cast<const char*>(&f), 4);
  data += std::string("\xC0\x3F\x00\x3C", 4);   // bf16 1.5, f16 1
  const std::string file =
      File(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
           R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]},"h":{"dtype":"F16","shape":[1],"data_offsets":[10,12]}})",
           data);
  const auto s = Parse(file);
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_EQ(s->Float("a", Shape({2, 1}))->Data<float>()[1], -2.f);
  EXPECT_EQ(s->Float("b", Shape({1}))->Data<float>()[0], 1.5f);
  EXPECT_EQ(s->Float("h", Shape({1}))->Data<float>()[0], 1.f);
  EXPECT_EQ(s->Float("a", Shape({2})).status().code(), Code::kBadInput);
  EXPECT_EQ(s->Float("none", Shape({2})).status().code(), Code::kBadInput);
  for (size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(Parse(file.substr(0, n)).ok()) << n;
}

TEST(Safetensors, RefusesDamage) {
  for (const char* header :
       {"", "[]", "{", R"({"a":1})", R"({"a":{}})", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})",
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
        R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,0]}})",
        R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", R"({"a":{"dtype":3,"shape":[1],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})"}) {
    EXPECT_FALSE(Parse(File(header, "12345678")).ok()) << header;
  }
  std::string huge = File("{}", "");
  std::memset(huge.data(), 0xFF, 8);
  EXPECT_FALSE(Parse(huge).ok());
  EXPECT_FALSE(Parse(File(std::string(100000, '['), "")).ok());
}

}  // namespace
}  // namespace tenon::import
