// Tree ensembles: the forest against the walk node by node on random trees of every kind, special cases by hand, and attributes
// that must not be believed.
#include <limits>

#include "kernels/ml/forest.h"
#include "kernels/row_check.h"

namespace tenon::kernels::ml {
namespace {

using Rng = std::mt19937;

int Draw(Rng& rng, int n) {
  return static_cast<int>(rng() % static_cast<uint32_t>(n));
}

// Values on a grid, so that tests of equality meet equals; some NaNs and infinities.
Tensor Features(Rng& rng, int64_t rows, int64_t columns, DType dtype, bool special) {
  std::vector<float> v(static_cast<size_t>(rows * columns));
  for (float& f : v) {
    f = static_cast<float>(Draw(rng, 9) - 4) * 0.5f;
    if (special && Draw(rng, 8) == 0) f = std::numeric_limits<float>::quiet_NaN();
    if (special && Draw(rng, 16) == 0) f = std::numeric_limits<float>::infinity() * static_cast<float>(Draw(rng, 2) * 2 - 1);
  }
  if (dtype == DType::kF32) return Tensor::FromVector<float>({rows, columns}, v);
  if (dtype == DType::kF64) return Tensor::FromVector<double>({rows, columns}, {v.begin(), v.end()});
  std::vector<int64_t> ints;
  for (const float f : v) ints.push_back(std::isfinite(f) ? static_cast<int64_t>(f) : 0);
  return Tensor::FromVector<int64_t>({rows, columns}, ints);
}

struct Table {
  std::vector<int64_t> tree, node, feature, yes, no, missing, weight_tree, weight_node, weight_id;
  std::vector<float> value, weight;
  std::vector<std::string> mode;
};

int64_t Grow(Rng& rng, int64_t tree, int depth, int64_t targets, const std::vector<const char*>& modes, int64_t* next, Table* t) {
  const int64_t me = (*next)++;
  const size_t at = t->tree.size();
  t->tree.push_back(tree), t->node.push_back(me), t->feature.push_back(Draw(rng, 5)), t->yes.push_back(0), t->no.push_back(0);
  t->missing.push_back(Draw(rng, 2)), t->mode.emplace_back("LEAF");
  t->value.push_back(Draw(rng, 12) == 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(Draw(rng, 7) - 3) * 0.5f);
  if (depth == 0 || Draw(rng, 5) == 0) {
    const int first = Draw(rng, static_cast<int>(targets));
    for (int64_t i = first; i < (Draw(rng, 2) == 0 ? targets : first + 1); ++i) {
      t->weight_tree.push_back(tree), t->weight_node.push_back(me), t->weight_id.push_back(i);
      t->weight.push_back(static_cast<float>(Draw(rng, 17) - 8) * 0.125f);
    }
    return me;
  }
  t->mode[at] = modes[static_cast<size_t>(Draw(rng, static_cast<int>(modes.size())))];
  const int64_t yes = Grow(rng, tree, depth - 1, targets, modes, next, t),
                no = Grow(rng, tree, depth - 1, targets, modes, next, t);
  t->yes[at] = yes, t->no[at] = no;
  return me;
}

Attrs TableAttrs(const Table& t, const std::string& prefix) {
  Attrs a;
  a.Set("nodes_treeids", t.tree), a.Set("nodes_nodeids", t.node), a.Set("nodes_featureids", t.feature);
  a.Set("nodes_truenodeids", t.yes), a.Set("nodes_falsenodeids", t.no), a.Set("nodes_modes", t.mode);
  a.Set("nodes_values", t.value), a.Set("nodes_missing_value_tracks_true", t.missing);
  a.Set(prefix + "_treeids", t.weight_tree), a.Set(prefix + "_nodeids", t.weight_node), a.Set(prefix + "_ids", t.weight_id);
  a.Set(prefix + "_weights", t.weight);
  return a;
}

const std::vector<const char*> kAllModes = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};

TEST(Trees, ForestIsTheWalkNodeByNode) {
  Rng rng(7);
  for (int round = 0; round < 60; ++round) {
    const int64_t targets = 1 + Draw(rng, 3);
    Table t;
    const std::vector<const char*> modes = round % 3 == 0 ? std::vector<const char*>{"BRANCH_LEQ"} : kAllModes;
    const int trees = 1 + Draw(rng, 11);
    for (int tree = 0; tree < trees; ++tree) {
      int64_t next = 0;
      Grow(rng, tree, Draw(rng, 7), targets, modes, &next, &t);
    }
    Attrs regressor = TableAttrs(t, "target"), classifier = TableAttrs(t, "class");
    regressor.Set("n_targets", targets);
    regressor.Set("aggregate_function", std::string(std::vector<const char*>{"SUM", "AVERAGE", "MIN", "MAX"}[round % 4]));
    std::vector<std::string> labels;
    for (int64_t i = 0; i < targets; ++i) labels.push_back("class " + std::to_string(i));
    classifier.Set("classlabels_strings", labels);
    const std::string post = std::vector<const char*>{"NONE", "SOFTMAX", "LOGISTIC"}[static_cast<size_t>(Draw(rng, 3))];
    classifier.Set("post_transform", post);
    if (round % 2 == 0) {
      regressor.Set("base_values", std::vector<float>(static_cast<size_t>(targets), 0.25f));
      classifier.Set("base_values", std::vector<float>(static_cast<size_t>(targets), 0.25f));
    }
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kI64}) {
      for (const int64_t rows : {0, 1, 3, 8, 21, 150}) {
        const Tensor x = Features(rng, rows, 6, dtype, round % 4 != 0);
        EXPECT_EQ(CheckRows("ai.onnx.ml.TreeEnsembleRegressor", regressor, {x}, 1, 0, 0), 1);
        EXPECT_EQ(CheckRows("ai.onnx.ml.TreeEnsembleClassifier", classifier, {x}, 2, 0, 0), 1);
      }
    }
  }
}

// A complete tree of ai.onnx.ml 5 with sets, every mode, and leaves shared by branches.
TEST(Trees, SetsAndSharedLeaves) {
  Rng rng(11);
  for (int round = 0; round < 40; ++round) {
    constexpr int64_t kNodes = 15;
    std::vector<int64_t> feature, yes, no, yes_leaf, no_leaf, missing;
    std::vector<uint8_t> modes;
    std::vector<float> splits, members;
    for (int64_t i = 0; i < kNodes; ++i) {
      const bool last = 2 * i + 2 >= kNodes;
      feature.push_back(Draw(rng, 5)), missing.push_back(Draw(rng, 2)),
          splits.push_back(static_cast<float>(Draw(rng, 7) - 3) * 0.5f);
      yes.push_back(last ? Draw(rng, 6) : 2 * i + 1), no.push_back(last ? Draw(rng, 6) : 2 * i + 2);
      yes_leaf.push_back(last), no_leaf.push_back(last);
      modes.push_back(static_cast<uint8_t>(Draw(rng, 7)));
      if (modes.back() != 6) continue;
      for (int m = Draw(rng, 6); m > 0; --m) members.push_back(static_cast<float>(Draw(rng, 9) - 4) * 0.5f);
      members.push_back(std::numeric_limits<float>::quiet_NaN());
    }
    Attrs a;
    a.Set("nodes_featureids", feature), a.Set("nodes_truenodeids", yes), a.Set("nodes_falsenodeids", no);
    a.Set("nodes_trueleafs", yes_leaf), a.Set("nodes_falseleafs", no_leaf), a.Set("nodes_missing_value_tracks_true", missing);
    a.Set("nodes_splits", Tensor::FromVector<float>({kNodes}, splits));
    a.Set("nodes_modes", Tensor::FromVector<uint8_t>({kNodes}, modes));
    a.Set("membership_values", Tensor::FromVector<float>({static_cast<int64_t>(members.size())}, members));
    a.Set("leaf_targetids", std::vector<int64_t>{0, 1, 0, 1, 1, 0});
    a.Set("leaf_weights", Tensor::FromVector<float>({6}, {1, 2, 3, 4, 5, 6}));
    a.Set("tree_roots", std::vector<int64_t>{0, 1, 7});
    a.Set("n_targets", int64_t{2});
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      EXPECT_EQ(CheckRows("ai.onnx.ml.TreeEnsemble", a, {Features(rng, 40, 5, dtype, true)}, 1, 0, 0), 1);
      EXPECT_EQ(CheckRows("ai.onnx.ml.TreeEnsemble", a, {Features(rng, 1, 5, dtype, true)}, 1, 0, 0), 1);
    }
  }
}

// Two trees of one test each: x0 <= 0.5 and x1 <= 0.5.
Attrs TwoStumps(const std::string& prefix) {
  Table t;
  t.tree = {0, 0, 0, 1, 1, 1}, t.node = {0, 1, 2, 0, 1, 2}, t.feature = {0, 0, 0, 1, 0, 0};
  t.yes = {1, 0, 0, 1, 0, 0}, t.no = {2, 0, 0, 2, 0, 0}, t.missing = {1, 0, 0, 0, 0, 0};
  t.mode = {"BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"};
  t.value = {0.5f, 0, 0, 0.5f, 0, 0};
  t.weight_tree = {0, 0, 1, 1}, t.weight_node = {1, 2, 1, 2}, t.weight_id = {0, 0, 0, 0},
  t.weight = {0.125f, 0.25f, 0.375f, 0.5f};
  return TableAttrs(t, prefix);
}

TEST(Trees, RegressorByHand) {
  Attrs a = TwoStumps("target");
  a.Set("n_targets", int64_t{1});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::FromVector<float>({3, 2}, {0, 0, 1, 1, nan, nan});
  for (const auto& [aggregate, want] : {std::pair{"SUM", std::vector<float>{0.5f, 0.75f, 0.625f}},
                                        {"AVERAGE", {0.25f, 0.375f, 0.3125f}},
                                        {"MIN", {0.125f, 0.25f, 0.125f}},
                                        {"MAX", {0.375f, 0.5f, 0.5f}}}) {
    a.Set("aggregate_function", std::string(aggregate));
    const auto y = Eval("ai.onnx.ml.TreeEnsembleRegressor", a, {x});
    ASSERT_TRUE(y.ok()) << y.status().message();
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*y)[0].Data<float>()[i], want[i]) << aggregate << " " << i;
  }
}

TEST(Trees, BinaryClassifierByHand) {
  Attrs a = TwoStumps("class");
  a.Set("classlabels_int64s", std::vector<int64_t>{7, 9});
  const Tensor x = Tensor::FromVector<float>({2, 2}, {0, 0, 1, 1});
  const auto y = Eval("ai.onnx.ml.TreeEnsembleClassifier", a, {x}, 2);
  ASSERT_TRUE(y.ok()) << y.status().message();
  // Weights of one class, none negative: a score above 0.5 is the second class, and the first has what is left of 1.
  EXPECT_EQ((*y)[0].Data<int64_t>()[0], 7);
  EXPECT_EQ((*y)[0].Data<int64_t>()[1], 9);
  EXPECT_EQ((*y)[1].Data<float>()[2], 0.25f);
  EXPECT_EQ((*y)[1].Data<float>()[3], 0.75f);
}

void ExpectRefused(const Attrs& a, const char* what, const std::string& op = "ai.onnx.ml.TreeEnsembleRegressor",
                   int64_t columns = 2) {
  const Tensor x = RandomF32({9, columns}, 1);
  for (const char* row : {"", "reference"}) {
    const auto y = Eval(op, a, {x}, op == "ai.onnx.ml.TreeEnsembleClassifier" ? 2 : 1, row);
    ASSERT_FALSE(y.ok()) << what;
    EXPECT_EQ(y.status().code(), Code::kBadInput) << what << ": " << y.status().message();
  }
}

TEST(Trees, RefusesHostileAttributes) {
  Attrs good = TwoStumps("target");
  good.Set("n_targets", int64_t{1});
  ASSERT_TRUE(Eval("ai.onnx.ml.TreeEnsembleRegressor", good, {RandomF32({9, 2}, 1)}).ok());
  const auto with = [&](const char* name, const AttrValue& value) {
    Attrs a = good;
    a.Set(name, value);
    return a;
  };
  using Ints = std::vector<int64_t>;
  for (const char* name : {"nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids",
                           "nodes_missing_value_tracks_true", "target_treeids", "target_nodeids", "target_ids"}) {
    ExpectRefused(with(name, Ints{0}), name);
  }
  for (const char* name : {"nodes_values", "target_weights"}) ExpectRefused(with(name, std::vector<float>{0}), name);
  ExpectRefused(with("nodes_modes", std::vector<std::string>{"LEAF"}), "modes");
  ExpectRefused(with("nodes_modes", std::vector<std::string>{"BRANCH_LEQ", "LEAF", "leaf", "BRANCH_LEQ", "LEAF", "LEAF"}),
                "mode");
  ExpectRefused(with("nodes_nodeids", Ints{0, 1, 1, 0, 1, 2}), "a node twice");
  ExpectRefused(with("nodes_truenodeids", Ints{9, 0, 0, 1, 0, 0}), "a branch to nowhere");
  ExpectRefused(with("nodes_truenodeids", Ints{-1, 0, 0, 1, 0, 0}), "a negative branch");
  ExpectRefused(with("nodes_truenodeids", Ints{0, 0, 0, 1, 0, 0}), "a cycle");
  ExpectRefused(with("nodes_featureids", Ints{0, 0, 0, 2, 0, 0}), "a feature that rows lack");
  ExpectRefused(with("nodes_featureids", Ints{0, 0, 0, -1, 0, 0}), "a negative feature");
  ExpectRefused(with("nodes_featureids", Ints{0, 0, 0, int64_t{1} << 62, 0, 0}), "a huge feature");
  ExpectRefused(with("target_ids", Ints{0, 0, 0, 1}), "a target too many");
  ExpectRefused(with("target_ids", Ints{0, 0, 0, -1}), "a negative target");
  ExpectRefused(with("target_nodeids", Ints{1, 2, 1, 5}), "a weight of no node");
  ExpectRefused(with("n_targets", int64_t{0}), "no targets");
  ExpectRefused(with("n_targets", int64_t{1} << 40), "a huge number of targets");
  ExpectRefused(with("base_values", std::vector<float>{1, 2}), "base values");
  ExpectRefused(with("aggregate_function", std::string("MEDIAN")), "aggregate");
  ExpectRefused(with("post_transform", std::string("COSINE")), "post transform");
  ExpectRefused(Attrs(), "nothing");
  Attrs labels = TwoStumps("class");
  ExpectRefused(labels, "no labels", "ai.onnx.ml.TreeEnsembleClassifier");
  labels.Set("classlabels_int64s", Ints{1, 2});
  labels.Set("classlabels_strings", std::vector<std::string>{"a", "b"});
  ExpectRefused(labels, "two lists of labels", "ai.onnx.ml.TreeEnsembleClassifier");
}

// Both branches of node i lead to node i + 1: 2^40 ways down. Walked as it stands, refused as a tree.
TEST(Trees, NodesSharedByManyParentsAreNotWrittenOut) {
  constexpr int64_t kNodes = 40;
  std::vector<int64_t> next, leaf(kNodes, 0), zero(kNodes, 0);
  for (int64_t i = 0; i < kNodes; ++i) next.push_back(i + 1);
  next.back() = 0, leaf.back() = 1;
  Attrs a;
  a.Set("nodes_featureids", zero), a.Set("nodes_truenodeids", next), a.Set("nodes_falsenodeids", next);
  a.Set("nodes_trueleafs", leaf), a.Set("nodes_falseleafs", leaf);
  a.Set("nodes_splits", Tensor::FromVector<float>({kNodes}, std::vector<float>(kNodes, 0)));
  a.Set("nodes_modes", Tensor::FromVector<uint8_t>({kNodes}, std::vector<uint8_t>(kNodes, 0)));
  a.Set("leaf_targetids", std::vector<int64_t>{0});
  a.Set("leaf_weights", Tensor::FromVector<float>({1}, {3}));
  a.Set("tree_roots", std::vector<int64_t>{0});
  a.Set("n_targets", int64_t{1});
  const auto y = Eval("ai.onnx.ml.TreeEnsemble", a, {RandomF32({2, 1}, 1)}, 1, "reference");
  ASSERT_TRUE(y.ok());
  EXPECT_EQ((*y)[0].Data<float>()[1], 3.0f);
  EXPECT_EQ(Eval("ai.onnx.ml.TreeEnsemble", a, {RandomF32({2, 1}, 1)}).status().code(), Code::kBadInput);
}

}  // namespace
}  // namespace tenon::kernels::ml
