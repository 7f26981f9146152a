// Optimisers and losses: ONNX's own cases and hostile inputs.
#include "kernels/training/training.h"

#include "kernels/golden_test_util.h"
#include "kernels/row_check.h"

namespace tenon::kernels::training {
namespace {

TEST(Training, OnnxNodeCases) {
  testing::RunGoldens("training.golden", 6);
}

TEST(Training, RefusesTensorsThatDoNotMatch) {
  const Tensor x = RandomF32({2}, 1);
  const Tensor t = Tensor::Scalar<int64_t>(0);
  const Tensor r = Tensor::Scalar(0.1f);
  const char* op = "ai.onnx.preview.training.Momentum";
  EXPECT_EQ(Eval(op, {}, {r, t, x, x, RandomF32({3}, 1)}, 2).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval(op, {}, {r, t, x, x, x, x}, 2).status().code(), Code::kBadInput);
  Attrs attrs;
  attrs.Set("mode", std::string("wild"));
  EXPECT_EQ(Eval(op, attrs, {r, t, x, x, x}, 2).status().code(), Code::kBadInput);
}

TEST(Loss, OnnxNodeCases) {
  testing::RunGoldens("loss.golden", 20);
}

TEST(Loss, RefusesLabelsOutOfRange) {
  const Tensor x = RandomF32({2, 3}, 1);
  const auto label = [](int64_t v) { return Tensor::FromVector<int64_t>({2}, {0, v}); };
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    EXPECT_TRUE(Eval(op, {}, {x, label(2)}).ok());
    EXPECT_EQ(Eval(op, {}, {x, label(3)}).status().code(), Code::kBadInput);
    EXPECT_EQ(Eval(op, {}, {x, label(-1)}).status().code(), Code::kBadInput);
    Attrs attrs;
    attrs.Set("ignore_index", int64_t{-1});
    EXPECT_TRUE(Eval(op, attrs, {x, label(-1)}).ok());
    EXPECT_EQ(Eval(op, {}, {x, Tensor::FromVector<int64_t>({3}, {0, 1, 2})}).status().code(), Code::kBadInput);
  }
}

}  // namespace
}  // namespace tenon::kernels::training
