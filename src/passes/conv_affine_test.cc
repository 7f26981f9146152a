#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/testing.h"

namespace tenon::passes::testing {
namespace {

// Weights of 4 output channels in 2 groups over 4 input channels; for ConvTranspose [4, 2].
constexpr const char* kHead = R"(graph g(x: float32[n,4,h,w]) -> (y) {
    w: float32[4,2,1,2] = const [1, 2, -3, 4, 5, 0.5, 7, -8, 0.25, 1, 2, 3, -1, -2, 0.75, 1]
    b: float32[4] = const [0.5, -1, 2, 0]
    gamma: float32[4] = const [1, -0.5, 2, 3]
    beta: float32[4] = const [0.1, 0.2, 0.3, 0.4]
    mean: float32[4] = const [-1, 0, 1, 2]
    var: float32[4] = const [1, 2, 0.5, 4]
    s: float32[1,4,1,1] = const [2, 0.5, -1, 4]
    c: float32[4,1,1] = const [1, -2, 3, 0.25]
    k: float32[] = const [3]
)";

void ExpectOneConv(const std::string& body, const char* op, int others = 0) {
  const Outcome o = Optimise(kHead + body + "}", {"ConvBatchNormFusion", "ConvMulFusion", "ConvAddFusion", "MulConvFusion"});
  EXPECT_EQ(CountOps(o.graph, op), 1) << ir::Print(o.graph);
  EXPECT_EQ(CountOps(o.graph), 1 + others) << ir::Print(o.graph);
  EXPECT_LT(o.difference, 2e-5) << body;
}

TEST(ConvAffine, FoldsIntoWeights) {
  ExpectOneConv("a = Conv(x, w) {group=2}\n y = BatchNormalization(a, gamma, beta, mean, var)", "Conv");
  ExpectOneConv(
      "a = Conv(x, w, b) {group=2, pads=[1, 1, 0, 1]}\n y = BatchNormalization(a, gamma, beta, mean, var) {epsilon=0.1}", "Conv");
  ExpectOneConv("a = ConvTranspose(x, w, b) {group=2, strides=[2, 2]}\n y = BatchNormalization(a, gamma, beta, mean, var)",
                "ConvTranspose");
  ExpectOneConv("a = Conv(x, w, b) {group=2}\n m = Mul(s, a)\n d = Div(m, k)\n e = Add(d, c)\n f = Sub(e, k)\n y = Sub(c, f)",
                "Conv");
  ExpectOneConv("a = Mul(x, s)\n y = Conv(a, w, b) {group=2, pads=[1, 1, 1, 1]}", "Conv");
  ExpectOneConv("a = Add(x, c)\n m = Mul(a, s)\n y = Conv(m, w) {group=2}", "Conv");
  ExpectOneConv("m = Mul(x, s)\n y = ConvTranspose(m, w) {group=2}", "ConvTranspose");
}

TEST(ConvAffine, KeepsWhatWouldBeWrong) {
  ExpectOneConv("a = Add(x, c)\n y = Conv(a, w) {group=2, pads=[1, 1, 1, 1]}", "Conv", 1);
  ExpectOneConv("a = Conv(x, w) {group=2}\n m = Mul(a, s)\n y = Add(m, a)", "Conv", 2);
  const Outcome o = Optimise(R"(graph g(x: float32[1,1,3,4]) -> (y) {
    w: float32[1,1,1,1] = const [2]
    v: float32[1,1,1,4] = const [1, 2, 3, 4]
    a = Conv(x, w)
    y = Mul(a, v)
  })",
                             {"ConvMulFusion"});
  EXPECT_EQ(CountOps(o.graph), 2);
}

TEST(PadConvFusion, ZerosAroundPictures) {
  for (const char* body :
       {"p = Pad(x, pads)\n y = Conv(p, w) {pads=[0, 1, 1, 0]}", "p = Pad(x, two, zero, axes)\n y = Conv(p, w) {strides=[2, 1]}",
        "p = Pad(x, pads, zero)\n y = Conv(p, w, b) {auto_pad=\"VALID\", dilations=[2, 1]}"}) {
    const std::string head = R"(graph g(x: float32[n,1,5,4]) -> (y) {
    w: float32[2,1,2,3] = const [1, 2, -3, 4, 5, 0.5, 7, -8, 0.25, 1, 2, 3]
    b: float32[2] = const [0.5, -1]
    zero: float32[] = const [0]
    pads: int64[8] = const [0, 0, 1, 2, 0, 0, 3, 0]
    two: int64[4] = const [1, 2, 3, 0]
    axes: int64[2] = const [-2, 3]
)";
    const Outcome o = Optimise(head + body + "}", {"PadConvFusion"});
    EXPECT_EQ(CountOps(o.graph), 1) << ir::Print(o.graph);
    EXPECT_LT(o.difference, 1e-6) << body;
  }
}

TEST(PadConvFusion, KeepsOtherPads) {
  for (const char* body :
       {"p = Pad(x, pads, one)", "p = Pad(x, pads) {mode=\"edge\"}", "p = Pad(x, channels)", "p = Pad(x, cut)"}) {
    const std::string head = R"(graph g(x: float32[n,1,5,4]) -> (y) {
    w: float32[2,1,2,3] = const [1, 2, -3, 4, 5, 0.5, 7, -8, 0.25, 1, 2, 3]
    v: float32[2,2,2,3] = const [1, 2, -3, 4, 5, 0.5, 7, -8, 0.25, 1, 2, 3, 1, 2, -3, 4, 5, 0.5, 7, -8, 0.25, 1, 2, 3]
    one: float32[] = const [1]
    pads: int64[8] = const [0, 0, 1, 2, 0, 0, 3, 0]
    channels: int64[8] = const [0, 1, 0, 0, 0, 0, 0, 0]
    cut: int64[8] = const [0, 0, -1, 0, 0, 0, 0, 0]
)";
    const std::string conv =
        std::string(body).find("channels") == std::string::npos ? "\n y = Conv(p, w)}" : "\n y = Conv(p, v)}";
    const Outcome o = Optimise(head + body + conv, {"PadConvFusion"});
    EXPECT_EQ(CountOps(o.graph), 2) << ir::Print(o.graph);
  }
}

// G01 for this family: the convolution's own result is an output as well.
TEST(FieldCase, G01ConvAffine) {
  const Outcome o = Optimise(R"(graph g(x: float32[1,1,4,4]) -> (a, y) {
    w: float32[1,1,1,1] = const [2]
    k: float32[] = const [3]
    a = Conv(x, w)
    y = Mul(a, k)
  })");
  EXPECT_EQ(o.difference, 0);
}

TEST(BatchNorm, BecomesMulAdd) {
  const Outcome o =
      Optimise(std::string(kHead) + "a = Relu(x)\n y = BatchNormalization(a, gamma, beta, mean, var)\n}", {"BatchNormToMulAdd"});
  EXPECT_EQ(CountOps(o.graph, "BatchNormalization"), 0);
  EXPECT_LT(o.difference, 1e-5);
}

}  // namespace
}  // namespace tenon::passes::testing
