// Tree ensembles of ai.onnx.ml: one description of what the three operators say, checked once, from which the reference walks
// and the fast rows build their forest.
#ifndef TENON_KERNELS_ML_TREES_H_
#define TENON_KERNELS_ML_TREES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ml/ml.h"

namespace tenon::kernels::ml {

enum class Mode : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };
enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };

/// More targets or classes than this are refused: scores of a block of rows are kept for each thread.
inline constexpr int64_t kMaxTargets = int64_t{1} << 20;

struct TreeSpec {
  /// Where a branch leads: node `r` when r >= 0, leaf `~r` otherwise.
  using Ref = int64_t;
  struct Node {
    Mode mode = Mode::kLeq;
    bool missing_is_true = false;   ///< NaN takes the true branch
    int64_t feature = 0;
    double split = 0;
    Ref if_true = 0, if_false = 0;
    size_t set_begin = 0, set_end = 0;   ///< kMember: range of `members`, ascending
  };
  struct Weight {
    int64_t target;
    double value;
  };

  std::vector<Node> nodes;
  std::vector<Ref> roots;                ///< one for each tree
  std::vector<size_t> leaf_begin = {0};  ///< weights of leaf i: [leaf_begin[i], leaf_begin[i + 1])
  std::vector<Weight> weights;
  std::vector<double> members;
  std::vector<double> base_values;       ///< as given: 0, 1, 2 or `targets` of them
  int64_t targets = 0;
  int64_t features = 0;                  ///< how many a row must have
  Aggregate aggregate = Aggregate::kSum;
  PostTransform post = PostTransform::kNone;

  size_t leaves() const { return leaf_begin.size() - 1; }
  /// The leaf of one tree for one row. Ends: the loaders check that there is no cycle.
  size_t Leaf(Ref root, const double* row) const;
  bool Test(const Node& node, double value) const;
};

/// TreeEnsemble of ai.onnx.ml 5. `round_to`: type in which splits and weights are compared and added (kF32 or kF64).
Result<TreeSpec> LoadTreeEnsemble(const Attrs& attrs, DType round_to);
/// TreeEnsembleRegressor (weights "target_*") and TreeEnsembleClassifier ("class_*", `targets` = number of labels).
Result<TreeSpec> LoadRegressor(const Attrs& attrs, DType round_to);
Result<TreeSpec> LoadClassifier(const Attrs& attrs, DType round_to);

/// Numbers of an attribute given as floats or, with suffix "_as_tensor", as a tensor; rounded to `round_to`.
Result<std::vector<double>> FloatsOrTensor(const Attrs& attrs, const std::string& name, DType round_to);
/// Elements of a tensor attribute as doubles, rounded to `round_to`; empty when absent.
Result<std::vector<double>> TensorNumbers(const Attrs& attrs, const std::string& name, DType round_to);
/// kBadInput when some way down never ends.
Status CheckAcyclic(const TreeSpec& spec);

/// kF64 for double inputs, kF32 for all others: the type of thresholds and sums in ONNX Runtime.
inline DType ThresholdType(DType input) {
  return input == DType::kF64 ? DType::kF64 : DType::kF32;
}

/// Turns the sums of one row into scores and, for a classifier, a label: base values, averages, the special cases of two
/// classes, the post transform.
template <typename T>
class TreeFinish {
 public:
  /// `classifier` reads the labels from `attrs`.
  TreeFinish(const TreeSpec& spec, const Attrs& attrs, bool classifier);

  /// `sums` and `has` (some leaf added to it) have `targets` entries; `sums` become scores. `label`: of a classifier, or null.
  void Finish(T* sums, uint8_t* has, int64_t row, const MutView* label) const;

 private:
  struct Verdict {
    int64_t label;   ///< one of labels_, or 0 or 1
    Second second;
  };
  void FinishTargets(T* sums, const uint8_t* has) const;
  int64_t FinishMany(T* sums, uint8_t* has) const;
  int64_t FinishTwo(T* sums, uint8_t* has) const;
  Verdict Binary(T positive, Second fallback) const;
  T Base(int64_t i) const { return static_cast<T>(base_[static_cast<size_t>(i)]); }

  int64_t targets_;
  Aggregate aggregate_;
  PostTransform post_;
  T trees_;
  std::vector<double> base_;
  bool classifier_, one_class_id_ = false, all_positive_ = true;
  std::vector<int64_t> labels_;        ///< integer labels, or 0, 1, ... for strings_
  std::vector<std::string> strings_;
};

}  // namespace tenon::kernels::ml

#endif  // TENON_KERNELS_ML_TREES_H_
