#include "runtime/packed.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "artifact/artifact.h"
#include "runtime/open.h"

namespace tenon::runtime {
namespace {

namespace fs = std::filesystem;
using artifact::Program;

constexpr int64_t kDepth = 512;
constexpr int64_t kColumns = 600;

// y = Relu(x * w), w of 1.2 MB.
Program Product() {
  std::vector<float> w(kDepth * kColumns);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 7919 % 1013) / 1013 - 0.5f;
  Program p;
  p.values = {{"x", DType::kF32, false, SymShape({Dim::Symbol("n"), Dim(kDepth)}), {}},
              {"w", DType::kF32, false, SymShape(Shape{kDepth, kColumns}), Tensor::FromVector<float>({kDepth, kColumns}, w)},
              {"a", DType::kF32, false, SymShape({Dim::Symbol("n"), Dim(kColumns)}), {}},
              {"y", DType::kF32, false, SymShape({Dim::Symbol("n"), Dim(kColumns)}), {}}};
  p.steps = {{"MatMul", "product", {}, {0, 1}, {2}, {}, ""}, {"Relu", "relu", {}, {2}, {3}, {}, ""}};
  p.inputs = {0};
  p.outputs = {3};
  return p;
}

std::vector<float> Answer(Session& session) {
  std::vector<float> x(3 * kDepth);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 31 % 101) / 101;
  HostTensor in;
  in.name = "x";
  in.dtype = DType::kF32;
  in.shape = {3, kDepth};
  in.data = x.data();
  in.bytes = x.size() * sizeof(float);
  auto out = session.Run({in});
  EXPECT_TRUE(out.ok()) << out.status().message();
  if (!out.ok()) return {};
  const auto* y = static_cast<const float*>((*out)[0].data);
  return {y, y + (*out)[0].bytes / sizeof(float)};
}

class PackedTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (fs::temp_directory_path() /
             fmt::format("tenon_packed_{}_{}.tenon", getpid(), testing::UnitTest::GetInstance()->current_test_info()->name()))
                .string();
    machine_.team.Enter();
    auto session = OpenProgram(Product(), {});
    ASSERT_TRUE(session.ok()) << session.status().message();
    want_ = Answer(**session);
  }
  void TearDown() override { fs::remove(path_); }

  // Writes Product with packed weights after `change` was made to the program.
  void Write(const std::function<void(Program&)>& change = [](Program&) {}) {
    Program p = Product();
    const Status packed = PackWeights(&p, machine_);
    ASSERT_TRUE(packed.ok()) << packed.message();
    ASSERT_FALSE(p.steps[0].packed.empty());
    ASSERT_TRUE(p.values[1].packed_away);
    change(p);
    artifact::WriteOptions options;
    options.packed_for = PackedFor(machine_.isa);
    ASSERT_TRUE(artifact::Write(p, path_, options).ok());
  }

  // Flips one bit of the weights themselves, which lie behind the packed ones.
  void DamageSource() {
    std::string bytes = *ReadFile(path_, 1 << 24);
    const Program p = Product();
    const size_t at = bytes.find(std::string(static_cast<const char*>(p.values[1].constant.data()), 4096));
    ASSERT_LT(at, bytes.size());
    bytes[at + 100] = static_cast<char>(bytes[at + 100] ^ 1);
    std::ofstream(path_, std::ios::binary) << bytes;
  }

  hw::Machine machine_{*hw::ActiveIsa(), 2, {}, 0};
  std::string path_;
  std::vector<float> want_;
};

TEST_F(PackedTest, AnswersAreTheSame) {
  Write();
  for (int threads : {1, 2}) {
    SessionOptions options;
    options.threads = threads;
    auto session = Session::Open(path_, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_EQ(Answer(**session), want_);
    EXPECT_GE((*session)->memory().packed, kDepth * kColumns * sizeof(float));
  }
}

TEST_F(PackedTest, TheSameProgramIsPackedToTheSameBytes) {
  Write();
  const std::string first = *ReadFile(path_, 1 << 24);
  Write();
  EXPECT_EQ(*ReadFile(path_, 1 << 24), first);
}

TEST_F(PackedTest, SourcesAreNotReadWherePackedWeightsServe) {
  Write();
  DamageSource();
  auto session = Session::Open(path_, {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(Answer(**session), want_);
}

TEST_F(PackedTest, AnotherInstructionSetPacksAnew) {
  Write();
  SessionOptions options;
  options.isa = "baseline";
  auto session = Session::Open(path_, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::vector<float> got = Answer(**session);
  ASSERT_EQ(got.size(), want_.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want_[i], 1e-3f);
  if (machine_.isa == *hw::IsaFromLevel("baseline")) return;   // this CPU has nothing else
  DamageSource();
  EXPECT_EQ(Session::Open(path_, options).status().code(), Code::kBadInput);
}

TEST_F(PackedTest, AnotherKernelReadsAndChecksTheSources) {
  const auto others = [](Program& p) { p.steps[0].packed_row = "of another kernel"; };
  Write(others);
  auto session = Session::Open(path_, {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(Answer(**session), want_);
  DamageSource();
  EXPECT_EQ(Session::Open(path_, {}).status().code(), Code::kBadInput);
}

TEST_F(PackedTest, PiecesOfAnotherSizeAreNotTaken) {
  Write([](Program& p) {
    auto piece = Buffer::Allocate(4096);
    std::memset(piece->data(), 1, 4096);
    p.steps[0].packed = {piece};
  });
  auto session = Session::Open(path_, {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(Answer(**session), want_);
}

}  // namespace
}  // namespace tenon::runtime
