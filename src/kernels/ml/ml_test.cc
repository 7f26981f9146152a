// Domain ai.onnx.ml: ONNX's own cases, small models by hand, hostile attributes.
#include "kernels/ml/ml.h"

#include "kernels/golden_test_util.h"
#include "kernels/row_check.h"

namespace tenon::kernels::ml {
namespace {

TEST(Ml, OnnxNodeCases) {
  testing::RunGoldens("ml.golden", 6);
}

TEST(Ml, LinearRegressorScalerNormalizer) {
  const Tensor x = Tensor::FromVector<float>({2, 2}, {1, 2, 3, 4});
  Attrs linear;
  linear.Set("coefficients", std::vector<float>{1, 10});
  linear.Set("intercepts", std::vector<float>{0.5f});
  const auto y = Eval("ai.onnx.ml.LinearRegressor", linear, {x});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_FLOAT_EQ((*y)[0].Data<float>()[1], 43.5f);
  Attrs scale;
  scale.Set("offset", std::vector<float>{1, 2});
  scale.Set("scale", std::vector<float>{2});
  const auto s = Eval("ai.onnx.ml.Scaler", scale, {x});
  ASSERT_TRUE(s.ok());
  EXPECT_FLOAT_EQ((*s)[0].Data<float>()[3], 4.0f);
  Attrs norm;
  norm.Set("norm", std::string("L1"));
  const auto n = Eval("ai.onnx.ml.Normalizer", norm, {x});
  ASSERT_TRUE(n.ok());
  EXPECT_FLOAT_EQ((*n)[0].Data<float>()[0], 1.0f / 3);
}

TEST(Ml, RefusesBadInput) {
  const Tensor x = Tensor::FromVector<float>({1, 2}, {1, 2});
  EXPECT_EQ(Eval("ai.onnx.ml.ArrayFeatureExtractor", {}, {x, Tensor::FromVector<int64_t>({1}, {2})}).status().code(),
            Code::kBadInput);
  EXPECT_EQ(Eval("ai.onnx.ml.LabelEncoder", {}, {x}).status().code(), Code::kBadInput);
  // A tree whose only node leads back to itself would never end.
  Attrs tree;
  const std::vector<int64_t> zero = {0};
  for (const char* name :
       {"nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs", "tree_roots"}) {
    tree.Set(name, zero);
  }
  tree.Set("nodes_splits", Tensor::FromVector<float>({1}, {0}));
  tree.Set("nodes_modes", Tensor::FromVector<uint8_t>({1}, {0}));
  tree.Set("n_targets", int64_t{1});
  const auto y = Eval("ai.onnx.ml.TreeEnsemble", tree, {x});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::ml
