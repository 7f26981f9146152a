#include "tensor/gguf.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tenon {
namespace {

// Writes files by hand, so that each field can be made wrong.
struct Maker {
  std::string bytes;
  template <typename T>
  Maker& Put(T v) {
    bytes.append(reinterpret_cast<const char*>(&v), sizeof(v));
    return *this;
  }
  Maker& Text(const std::string& s) {
    Put<uint64_t>(s.size());
    bytes += s;
    return *this;
  }
  Maker& Header(uint64_t tensors, uint64_t pairs, uint32_t version = 3) {
    bytes = "GGUF";
    return Put(version).Put(tensors).Put(pairs);
  }
  Maker& Pad(size_t n = 32) {
    while (bytes.size() % n != 0) bytes += '\0';
    return *this;
  }
  Result<GgufFile> Parse() const { return GgufFile::Parse(std::as_bytes(std::span(bytes.data(), bytes.size()))); }
};

Maker Small() {
  Maker m;
  m.Header(1, 3);
  m.Text("general.name").Put<uint32_t>(8).Text("tiny");
  m.Text("n").Put<uint32_t>(4).Put<uint32_t>(7);
  m.Text("list").Put<uint32_t>(9).Put<uint32_t>(8).Put<uint64_t>(2).Text("a").Text("bc");
  m.Text("w").Put<uint32_t>(2).Put<uint64_t>(32).Put<uint64_t>(2).Put<uint32_t>(2).Put<uint64_t>(0);
  m.Pad();
  m.bytes.append(36, '\x11');
  return m;
}

TEST(Gguf, ReadsMetadataAndTensors) {
  const Maker m = Small();
  const auto file = m.Parse();
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->Find("general.name")->String(), "tiny");
  EXPECT_EQ(file->Find("n")->Int(), 7);
  EXPECT_EQ(file->Find("n")->Text(), "7");
  EXPECT_EQ(file->Find("list")->Strings(), (std::vector<std::string>{"a", "bc"}));
  EXPECT_FALSE(file->Find("list")->Ints().has_value());
  const GgufTensor* w = file->FindTensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(w->format->name, "q4_0");
  EXPECT_EQ(w->bytes, 36u);
}

TEST(Gguf, EveryCutIsRefused) {
  const std::string whole = Small().bytes;
  for (size_t n = 0; n < whole.size(); ++n) {
    Maker m;
    m.bytes = whole.substr(0, n);
    EXPECT_FALSE(m.Parse().ok()) << n;
  }
}

TEST(Gguf, NoByteChangedMakesItCrash) {
  const std::string whole = Small().bytes;
  for (size_t i = 0; i < whole.size() - 36; ++i) {
    for (int v : {0, 1, 0x7f, 0x80, 0xff}) {
      Maker m;
      m.bytes = whole;
      m.bytes[i] = static_cast<char>(v);
      const auto file = m.Parse();
      if (!file.ok()) continue;
      for (const auto& [key, value] : file->metadata()) (void)value.Text();
      for (const GgufTensor& t : file->tensors()) {
        EXPECT_GE(t.data, reinterpret_cast<const std::byte*>(m.bytes.data()));
        EXPECT_LE(t.data + t.bytes, reinterpret_cast<const std::byte*>(m.bytes.data() + m.bytes.size()));
      }
    }
  }
}

TEST(Gguf, SaysWhatIsWrong) {
  const auto message = [](const Maker& m) { return m.Parse().status().message(); };
  Maker m;
  m.bytes = "abcdefgh";
  EXPECT_NE(message(m).find("no GGUF file"), std::string::npos);
  EXPECT_NE(message(Maker().Header(0, 0, 1)).find("version 1"), std::string::npos);
  EXPECT_NE(message(Maker().Header(0, 0, 3u << 24)).find("big-endian"), std::string::npos);
  EXPECT_NE(message(Maker().Header(uint64_t{1} << 60, 0)).find("tensors in a file"), std::string::npos);
  m.Header(1, 0).Text("w").Put<uint32_t>(1).Put<uint64_t>(31).Put<uint32_t>(2).Put<uint64_t>(0);
  EXPECT_NE(message(m).find("blocks of 32"), std::string::npos);
  m.Header(1, 0).Text("w").Put<uint32_t>(2).Put<uint64_t>(1ull << 40).Put<uint64_t>(1ull << 40).Put<uint32_t>(2).Put<uint64_t>(0);
  EXPECT_NE(message(m).find("2^48"), std::string::npos);
  m.Header(1, 0).Text("w").Put<uint32_t>(1).Put<uint64_t>(32).Put<uint32_t>(0).Put<uint64_t>(uint64_t{1} << 63).Pad();
  EXPECT_NE(message(m).find("beyond the end"), std::string::npos);
}

}  // namespace
}  // namespace tenon
