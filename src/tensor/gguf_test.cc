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

TEST(FieldCases, S02_EveryCutIsRefused) {
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

// One tensor, its extents innermost first.
Maker OneTensor(const std::vector<uint64_t>& extents, uint32_t type = 0, uint32_t dims = 0) {
  Maker m;
  m.Header(1, 0).Text("w").Put<uint32_t>(dims == 0 ? static_cast<uint32_t>(extents.size()) : dims);
  for (uint64_t e : extents) m.Put(e);
  return m.Put(type).Put<uint64_t>(0).Pad();
}

Maker OnePair(const std::string& key, uint32_t type) {
  Maker m;
  return m.Header(0, 1).Text(key).Put(type);
}

TEST(FieldCases, S01_EachFieldIsCheckedAndTheErrorSaysWhere) {
  const uint64_t k16 = 65536;
  const std::vector<std::pair<const char*, Maker>> files = {
      {"no extent", OneTensor({1, 0})},
      {"five axes", OneTensor({1, 1, 1, 1, 1})},
      {"nine axes", OneTensor({1}, 0, 9)},
      {"2^32-1 axes", OneTensor({1}, 0, UINT32_MAX)},
      {"bytes that wrap to 0", OneTensor({uint64_t{1} << 62, 4})},
      {"elements that wrap to 0", OneTensor({k16, k16, k16, k16})},
      {"an unknown type", OneTensor({1}, 9999)},
      {"a key of 2^40 bytes", Maker().Header(0, 1).Put(uint64_t{1} << 40).Pad(64)},
      {"a text of 2^40 bytes", OnePair("k", 8).Put(uint64_t{1} << 40).Pad(64)},
      {"a text of 1 GiB", OnePair("k", 8).Put(uint64_t{1} << 30).Pad(64)},
      {"an array of 2^40 texts", OnePair("k", 9).Put<uint32_t>(8).Put(uint64_t{1} << 40).Pad(64)},
      {"an array of 2^61 numbers", OnePair("k", 9).Put<uint32_t>(10).Put(uint64_t{1} << 61).Pad(64)},
      {"an empty key", OnePair("", 4).Put<uint32_t>(1).Pad(64)},
      {"a key twice",
       Maker().Header(0, 2).Text("k").Put<uint32_t>(4).Put<uint32_t>(1).Text("k").Put<uint32_t>(4).Put<uint32_t>(1)},
  };
  for (const auto& [what, file] : files) {
    const auto parsed = file.Parse();
    ASSERT_FALSE(parsed.ok()) << what;
    EXPECT_NE(parsed.status().message().find(" at byte "), std::string::npos) << what << ": " << parsed.status().message();
  }
  Maker twice;
  twice.Header(2, 0);
  for (int i = 0; i < 2; ++i) twice.Text("w").Put<uint32_t>(1).Put<uint64_t>(1).Put<uint32_t>(0).Put<uint64_t>(0);
  const std::string message = twice.Pad().Put(1.0f).Parse().status().message();
  EXPECT_NE(message.find("tensor 1 at byte "), std::string::npos) << message;
  EXPECT_NE(message.find("appears twice"), std::string::npos) << message;
}

TEST(FieldCases, S01_Alignment) {
  for (uint32_t alignment : {0u, 3u, 1u << 30}) {
    Maker m;
    m.Header(0, 1).Text("general.alignment").Put<uint32_t>(4).Put(alignment);
    EXPECT_FALSE(m.Parse().ok()) << alignment;
  }
  Maker m;
  m.Header(0, 1).Text("general.alignment").Put<uint32_t>(8).Text("32");
  EXPECT_FALSE(m.Parse().ok());
  m.Header(0, 1).Text("general.alignment").Put<uint32_t>(4).Put<uint32_t>(64);
  EXPECT_TRUE(m.Parse().ok());
}

}  // namespace
}  // namespace tenon
