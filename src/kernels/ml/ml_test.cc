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

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Strings = std::vector<std::string>;

Attrs LinearClassifier(int64_t classes) {
  Attrs a;
  Floats coefficients;
  for (int64_t i = 0; i < classes * 3; ++i) coefficients.push_back(static_cast<float>((i * 7) % 5 - 2));
  a.Set("coefficients", coefficients);
  a.Set("intercepts", Floats(static_cast<size_t>(classes), 0.5f));
  a.Set("classlabels_ints", Ints{4, 6, 8, 10, 12});
  if (classes != 5) a.Set("classlabels_ints", classes == 1 ? Ints{4, 6} : Ints{4, 6, 8});
  return a;
}

TEST(Ml, LinearRowsMatchReference) {
  for (const char* post : {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"}) {
    for (const int64_t classes : {1, 3, 5}) {
      Attrs a = LinearClassifier(classes);
      a.Set("post_transform", std::string(post));
      for (const int64_t rows : {0, 1, 7, 1500}) {
        EXPECT_EQ(CheckRows("ai.onnx.ml.LinearClassifier", a, {RandomF32({rows, 3}, 5)}, 2, 1e-5, 1e-6), 1);
        a.Set("targets", classes);
        EXPECT_EQ(CheckRows("ai.onnx.ml.LinearRegressor", a, {RandomF32({rows, 3}, 6)}, 1, 1e-5, 1e-6), 1);
      }
    }
  }
  const auto one = Eval("ai.onnx.ml.LinearClassifier", LinearClassifier(1), {Tensor::FromVector<float>({1, 3}, {0, 0, 0})}, 2);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ((*one)[0].Data<int64_t>()[0], 6);
  EXPECT_EQ((*one)[1].Data<float>()[0], 0.5f);
}

Attrs SvmClassifier(const char* kernel, int64_t classes, bool proba) {
  Attrs a;
  const int64_t vectors = classes * 20, pairs = classes * (classes - 1) / 2;
  const auto floats = [&](int64_t n, uint32_t seed) {
    const Tensor t = RandomF32({n}, seed, -1, 1);
    return Floats(t.Data<float>(), t.Data<float>() + n);
  };
  a.Set("kernel_type", std::string(kernel));
  a.Set("kernel_params", Floats{0.3f, 0.1f, 3});
  a.Set("vectors_per_class", Ints(static_cast<size_t>(classes), 20));
  a.Set("support_vectors", floats(vectors * 4, 1));
  a.Set("coefficients", floats(vectors * (classes - 1), 2));
  a.Set("rho", floats(pairs, 3));
  if (proba) a.Set("prob_a", floats(pairs, 4)), a.Set("prob_b", floats(pairs, 5));
  Strings labels;
  for (int64_t i = 0; i < classes; ++i) labels.push_back(std::string(1, static_cast<char>('a' + i)));
  a.Set("classlabels_strings", labels);
  a.Set("n_supports", vectors);
  return a;
}

TEST(Ml, SvmRowsMatchReference) {
  for (const char* kernel : {"LINEAR", "POLY", "RBF", "SIGMOID"}) {
    for (const int64_t classes : {2, 4}) {
      for (const bool proba : {false, true}) {
        const Attrs a = SvmClassifier(kernel, classes, proba);
        for (const int64_t rows : {0, 1, 70}) {
          EXPECT_EQ(CheckRows("ai.onnx.ml.SVMClassifier", a, {RandomF32({rows, 4}, 8)}, 2, 1e-4, 1e-5), 1);
        }
      }
    }
    Attrs regressor = SvmClassifier(kernel, 2, false);
    EXPECT_EQ(CheckRows("ai.onnx.ml.SVMRegressor", regressor, {RandomF32({70, 4}, 9)}, 1, 1e-4, 1e-5), 1);
  }
}

TEST(Ml, SvmRefusesHostileAttributes) {
  const Tensor x = RandomF32({3, 4}, 1);
  const Attrs good = SvmClassifier("RBF", 3, true);
  ASSERT_TRUE(Eval("ai.onnx.ml.SVMClassifier", good, {x}, 2).ok());
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, AttrValue>>{{"kernel_params", Floats{1}},
                                                      {"kernel_type", std::string("COSINE")},
                                                      {"vectors_per_class", Ints{20, 20}},
                                                      {"vectors_per_class", Ints{20, 20, -20}},
                                                      {"vectors_per_class", Ints{20, 20, int64_t{1} << 62}},
                                                      {"support_vectors", Floats(61, 0)},
                                                      {"support_vectors", Floats()},
                                                      {"coefficients", Floats{1}},
                                                      {"coefficients", Floats()},
                                                      {"rho", Floats{1}},
                                                      {"rho", Floats()},
                                                      {"prob_a", Floats{1}},
                                                      {"prob_b", Floats{1}},
                                                      {"classlabels_strings", Strings()},
                                                      {"classlabels_strings", Strings{"a"}}}) {
    Attrs a = good;
    a.Set(name, value);
    EXPECT_EQ(Eval("ai.onnx.ml.SVMClassifier", a, {x}, 2).status().code(), Code::kBadInput) << name;
  }
  EXPECT_EQ(Eval("ai.onnx.ml.SVMClassifier", good, {RandomF32({3, 5}, 1)}, 2).status().code(), Code::kBadInput);
}

TEST(Ml, CategoriesAndMaps) {
  Attrs hot;
  hot.Set("cats_strings", Strings{"b", "a"});
  const Tensor words = Tensor::FromStrings({3}, {"a", "?", "b"});
  const auto y = Eval("ai.onnx.ml.OneHotEncoder", hot, {words});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_TRUE(SameTensor((*y)[0].view(), Tensor::FromVector<float>({3, 2}, {0, 1, 0, 0, 1, 0}).view()));
  hot.Set("zeros", int64_t{0});
  EXPECT_EQ(Eval("ai.onnx.ml.OneHotEncoder", hot, {words}).status().code(), Code::kBadInput);

  Attrs dict;
  dict.Set("string_vocabulary", Strings{"x", "a", "b"});
  const auto v = Eval("ai.onnx.ml.DictVectorizer", dict, {words, Tensor::FromVector<float>({3}, {1, 2, 3})});
  ASSERT_TRUE(v.ok()) << v.status().message();
  EXPECT_TRUE(SameTensor((*v)[0].view(), Tensor::FromVector<float>({1, 3}, {0, 1, 3}).view()));

  Attrs cast;
  const std::vector<Tensor> map = {Tensor::FromVector<int64_t>({2}, {3, 1}), Tensor::FromStrings({2}, {"2.5", "-1"})};
  const auto dense = Eval("ai.onnx.ml.CastMap", cast, map);
  ASSERT_TRUE(dense.ok()) << dense.status().message();
  EXPECT_TRUE(SameTensor((*dense)[0].view(), Tensor::FromVector<float>({1, 2}, {-1, 2.5f}).view()));
  cast.Set("map_form", std::string("SPARSE"));
  cast.Set("max_map", int64_t{3});
  cast.Set("cast_to", std::string("TO_INT64"));
  const auto sparse = Eval("ai.onnx.ml.CastMap", cast, map);
  ASSERT_TRUE(sparse.ok()) << sparse.status().message();
  EXPECT_TRUE(SameTensor((*sparse)[0].view(), Tensor::FromVector<int64_t>({1, 3}, {0, -1, 0}).view()));
  cast.Set("max_map", int64_t{1} << 50);
  EXPECT_EQ(Eval("ai.onnx.ml.CastMap", cast, map).status().code(), Code::kBadInput);

  Attrs zip;
  zip.Set("classlabels_strings", Strings{"x", "a", "b"});
  EXPECT_EQ(Eval("ai.onnx.ml.ZipMap", zip, {RandomF32({4, 2}, 1)}).status().code(), Code::kBadInput);
  EXPECT_TRUE(Eval("ai.onnx.ml.ZipMap", zip, {RandomF32({4, 3}, 1)}).ok());
}

TEST(Ml, ImputerAndFeatureVectorizer) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Attrs impute;
  impute.Set("imputed_value_floats", Floats{7, 8});
  impute.Set("replaced_value_float", nan);
  const auto y = Eval("ai.onnx.ml.Imputer", impute, {Tensor::FromVector<float>({2, 2}, {nan, 1, 2, nan})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_TRUE(SameTensor((*y)[0].view(), Tensor::FromVector<float>({2, 2}, {7, 1, 2, 8}).view()));
  EXPECT_EQ(Eval("ai.onnx.ml.Imputer", {}, {RandomF32({2, 2}, 1)}).status().code(), Code::kBadInput);

  Attrs widths;
  widths.Set("inputdimensions", Ints{1, 3});
  const std::vector<Tensor> in = {Tensor::FromVector<float>({1, 2}, {1, 2}), Tensor::FromVector<int64_t>({1, 2}, {3, 4})};
  const auto v = Eval("ai.onnx.ml.FeatureVectorizer", widths, in);
  ASSERT_TRUE(v.ok()) << v.status().message();
  EXPECT_TRUE(SameTensor((*v)[0].view(), Tensor::FromVector<float>({1, 4}, {1, 3, 4, 0}).view()));
  EXPECT_EQ(Eval("ai.onnx.ml.FeatureVectorizer", widths, {in[0]}).status().code(), Code::kBadInput);
  EXPECT_EQ(Eval("ai.onnx.ml.FeatureVectorizer", widths, {in[0], RandomF32({2, 3}, 1)}).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::ml
