#include "artifact/artifact.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

namespace tenon::artifact {
namespace {

namespace fs = std::filesystem;

class ArtifactTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() /
           fmt::format("tenon_artifact_{}_{}", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string Path(const char* name) const { return (dir_ / name).string(); }

  fs::path dir_;
};

// y = x + w, then an If with two bodies, every kind of attribute.
Program Sample() {
  Program body;
  body.name = "body";
  body.values = {{"c", DType::kF32, false, SymShape(Shape{2}), {}}};
  body.inputs = {0};
  body.outputs = {0};
  Program p;
  p.name = "sample";
  p.values.resize(5);
  p.values[0] = {"x", DType::kF32, false, SymShape({Dim::Symbol("n"), Dim(2)}), {}};
  p.values[1] = {"w", DType::kF32, false, SymShape(Shape{2}), Tensor::FromVector<float>({2}, {1.5f, -2})};
  p.values[2] = {"y", DType::kF32, false, SymShape({Dim::Symbol("n"), Dim(2)}), {}};
  p.values[3] = {"c", DType::kBool, false, SymShape(Shape()), Tensor::Scalar<bool>(true)};
  p.values[4] = {"z", DType::kF32, false, SymShape(), {}};
  Step add{"Add", "add0", {}, {0, 1}, {2}, {}, ""};
  add.attrs.Set("i", int64_t{7});
  add.attrs.Set("f", 0.5f);
  add.attrs.Set("s", std::string("text\0more", 9));
  add.attrs.Set("is", std::vector<int64_t>{1, -2});
  add.attrs.Set("fs", std::vector<float>{1, 2});
  add.attrs.Set("ss", std::vector<std::string>{"a", ""});
  add.attrs.Set("t", Tensor::FromStrings({2}, {"p", "q"}));
  p.steps = {add, Step{"If", "if0", {}, {3, 2}, {4}, {body, body}, ""}};
  p.inputs = {0};
  p.outputs = {4};
  p.metadata["character"] = "a\nb";
  p.ranges["n"] = {1, 8};
  return p;
}

TEST_F(ArtifactTest, RoundTrip) {
  for (bool external : {false, true}) {
    const std::string path = Path("a.tenon");
    ASSERT_TRUE(Write(Sample(), path, {external, {{"tool", "test"}}, "{}"}).ok());
    auto read = Read(path);
    ASSERT_TRUE(read.ok()) << read.status().message();
    const Program& p = read->program;
    const Program want = Sample();
    ASSERT_EQ(p.values.size(), want.values.size());
    EXPECT_EQ(p.values[0].shape.ToString(), "[n,2]");
    EXPECT_TRUE(SameTensor(p.values[1].constant.view(), want.values[1].constant.view()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p.values[1].constant.data()) % 64, 0u);
    EXPECT_TRUE(p.steps[0].attrs == want.steps[0].attrs);
    EXPECT_EQ(p.steps[1].bodies.size(), 2u);
    EXPECT_EQ(p.metadata.at("character"), "a\nb");
    EXPECT_EQ(p.ranges.at("n").second, 8);
    EXPECT_EQ(read->provenance.at("tool"), "test");
    EXPECT_FALSE(p.values[4].shape.has_rank());
  }
}

TEST_F(ArtifactTest, EveryCutIsRefused) {
  const std::string path = Path("a.tenon");
  ASSERT_TRUE(Write(Sample(), path, {}).ok());
  const std::string bytes = *ReadFile(path, 1 << 20);
  for (size_t n = 0; n < bytes.size(); n += 7) {
    std::ofstream(Path("cut.tenon"), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(n));
    EXPECT_EQ(Read(Path("cut.tenon")).status().code(), Code::kBadInput) << n;
  }
}

TEST_F(ArtifactTest, EveryFlippedByteIsRefusedOrHarmless) {
  const std::string path = Path("a.tenon");
  ASSERT_TRUE(Write(Sample(), path, {}).ok());
  const std::string bytes = *ReadFile(path, 1 << 20);
  std::mt19937 random(1);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 + random() % 255));
    std::ofstream(Path("flip.tenon"), std::ios::binary) << flipped;
    auto read = Read(Path("flip.tenon"));
    if (read.ok()) {  // padding between sections
      EXPECT_TRUE(SameTensor(read->program.values[1].constant.view(), Sample().values[1].constant.view())) << i;
      EXPECT_TRUE(read->program.steps[0].attrs == Sample().steps[0].attrs) << i;
    } else {
      EXPECT_EQ(read.status().code(), Code::kBadInput) << i;
    }
  }
}

// Sample with packed weights: `w` is packed away, its step has two pieces.
Program Packed() {
  Program p = Sample();
  p.values[1].packed_away = true;
  p.steps[0].packed_row = "row";
  for (char fill : {'a', 'b'}) {
    auto piece = Buffer::Allocate(100);
    std::memset(piece->data(), fill, 100);
    p.steps[0].packed.push_back(piece);
  }
  return p;
}

TEST_F(ArtifactTest, PackedWeightsAreForTheirMachineOnly) {
  for (bool external : {false, true}) {
    const std::string path = Path("a.tenon");
    ASSERT_TRUE(Write(Packed(), path, {external, {}, "", "this"}).ok());
    const auto here = Read(path, {nullptr, "this"});
    ASSERT_TRUE(here.ok()) << here.status().message();
    EXPECT_TRUE(here->packed);
    EXPECT_TRUE(here->program.values[1].packed_away);
    EXPECT_FALSE(here->program.values[3].packed_away);
    const Step& step = here->program.steps[0];
    EXPECT_EQ(step.packed_row, "row");
    ASSERT_EQ(step.packed.size(), 2u);
    EXPECT_EQ(step.packed[1]->bytes(), 100u);
    EXPECT_EQ(static_cast<const char*>(step.packed[1]->data())[99], 'b');
    for (const char* other : {"", "other"}) {
      const auto elsewhere = Read(path, {nullptr, other});
      ASSERT_TRUE(elsewhere.ok()) << elsewhere.status().message();
      EXPECT_FALSE(elsewhere->packed);
      EXPECT_EQ(elsewhere->packed_for, "this");
      EXPECT_TRUE(elsewhere->program.steps[0].packed.empty());
      EXPECT_FALSE(elsewhere->program.values[1].packed_away);
      EXPECT_TRUE(SameTensor(elsewhere->program.values[1].constant.view(), Sample().values[1].constant.view()));
    }
  }
}

TEST_F(ArtifactTest, WhatIsReadIsChecked) {
  const std::string path = Path("a.tenon");
  ASSERT_TRUE(Write(Packed(), path, {false, {}, "", "this"}).ok());
  const std::string bytes = *ReadFile(path, 1 << 24);
  const auto damaged = [&](size_t at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    std::ofstream(Path("flip.tenon"), std::ios::binary) << flipped;
    return Path("flip.tenon");
  };
  const size_t packed = bytes.find(std::string(100, 'a'));
  const float w[] = {1.5f, -2};
  const size_t source = bytes.find(std::string(reinterpret_cast<const char*>(w), sizeof(w)));
  ASSERT_LT(packed, source);
  ASSERT_LT(source, bytes.size());
  EXPECT_EQ(Read(damaged(packed), {nullptr, "this"}).status().code(), Code::kBadInput);
  EXPECT_TRUE(Read(damaged(packed)).ok());
  EXPECT_TRUE(Read(damaged(source), {nullptr, "this"}).ok());
  EXPECT_EQ(Read(damaged(source)).status().code(), Code::kBadInput);
}

TEST_F(ArtifactTest, FailedWriteLeavesNothing) {
  EXPECT_EQ(Write(Sample(), Path("no/such/dir/a.tenon"), {}).code(), Code::kBadInput);
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST(Validate, UseBeforeDefinition) {
  Program p = Sample();
  std::swap(p.steps[0], p.steps[1]);
  EXPECT_EQ(Validate(p).code(), Code::kBadInput);
  p = Sample();
  p.steps[0].inputs[0] = 99;
  EXPECT_EQ(Validate(p).code(), Code::kBadInput);
  p = Sample();
  p.steps[0].outputs[0] = 0;
  EXPECT_EQ(Validate(p).code(), Code::kBadInput);
  p = Sample();
  p.steps[1].bodies.pop_back();
  EXPECT_EQ(Validate(p).code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::artifact
