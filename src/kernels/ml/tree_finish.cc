// From the sums of one row to scores and a label, with every special case of ONNX Runtime, whose scores exporters rely on.
#include <algorithm>
#include <numeric>
#include <set>

#include "kernels/ml/trees.h"

namespace tenon::kernels::ml {

template <typename T>
TreeFinish<T>::TreeFinish(const TreeSpec& spec, const Attrs& attrs, bool classifier)
    : targets_(spec.targets),
      aggregate_(spec.aggregate),
      post_(spec.post),
      trees_(static_cast<T>(spec.roots.size())),
      base_(spec.base_values),
      classifier_(classifier) {
  if (!classifier) return;
  labels_ = attrs.Ints("classlabels_int64s");
  strings_ = attrs.Strings("classlabels_strings");
  if (!strings_.empty()) {
    labels_.resize(strings_.size());
    std::iota(labels_.begin(), labels_.end(), int64_t{0});
  }
  // Also of weights that count for nothing, as in ONNX Runtime.
  const auto ids = attrs.Ints("class_ids");
  one_class_id_ = targets_ == 2 && std::set<int64_t>(ids.begin(), ids.end()).size() == 1;
  for (const auto& w : spec.weights) all_positive_ = all_positive_ && !(w.value < 0);
}

template <typename T>
void TreeFinish<T>::Finish(T* sums, uint8_t* has, int64_t row, const MutView* label) const {
  if (!classifier_) return FinishTargets(sums, has);
  const int64_t chosen = targets_ <= 2 ? FinishTwo(sums, has) : FinishMany(sums, has);
  if (label == nullptr) return;
  if (strings_.empty()) {
    label->Data<int64_t>()[row] = chosen;
  } else {
    label->Data<std::string>()[row] = strings_[static_cast<size_t>(std::clamp<int64_t>(chosen, 0, targets_ - 1))];
  }
}

template <typename T>
void TreeFinish<T>::FinishTargets(T* sums, const uint8_t* has) const {
  for (int64_t t = 0; t < targets_; ++t) {
    if (aggregate_ == Aggregate::kAverage) sums[t] /= trees_;
    // Of several targets, one that no leaf adds to stays 0 whatever its base value, as in ONNX Runtime.
    if (!base_.empty() && (targets_ == 1 || has[t] != 0)) sums[t] += Base(t);
  }
  // To a single target ONNX Runtime applies PROBIT alone.
  if (targets_ == 1) {
    ApplyToOne(post_, sums[0], Second::kNone, sums);
  } else {
    Apply(post_, sums, targets_);
  }
}

template <typename T>
int64_t TreeFinish<T>::FinishMany(T* sums, uint8_t* has) const {
  for (size_t k = 0; k < base_.size(); ++k) {
    sums[k] += Base(static_cast<int64_t>(k));
    has[k] = 1;
  }
  // The first of the greatest scores that some leaf (or base value) gave.
  int64_t best = -1;
  for (int64_t k = 0; k < targets_; ++k) {
    if (has[k] != 0 && (best < 0 || sums[k] > sums[best])) best = k;
  }
  Apply(post_, sums, targets_);
  return labels_[static_cast<size_t>(std::max<int64_t>(best, 0))];
}

// Which of two classes the score of the positive one chooses. When both classes have weights the label is the number 1 or 0
// and not one of the given labels, as in ONNX Runtime.
template <typename T>
typename TreeFinish<T>::Verdict TreeFinish<T>::Binary(T positive, Second fallback) const {
  if (!one_class_id_) return {positive > 0 ? 1 : 0, fallback};
  const bool yes = all_positive_ ? positive > T(0.5) : positive > T(0);
  return {labels_[yes ? 1 : 0], all_positive_ ? Second::kComplement : Second::kNegative};
}

template <typename T>
int64_t TreeFinish<T>::FinishTwo(T* sums, uint8_t* has) const {
  if (targets_ == 1) {
    if (!base_.empty()) sums[0] += Base(0);
    const int64_t label = sums[0] > 0 ? 1 : 0;
    ApplyToOne(post_, sums[0], Second::kNone, sums);
    return label;
  }
  bool both = true;
  Second second = Second::kNone;
  if (base_.size() == 2) {
    if (has[1] != 0) {
      // ONNX Runtime takes the sum of class 0 here, and base value 0 for equal to base value 1.
      sums[1] = Base(1) + sums[0];
      sums[0] = -sums[1];
    } else {
      sums[0] += Base(0);
    }
  } else {
    if (base_.size() == 1) {
      sums[0] += Base(0);
    } else {
      second = Second::kNegative;
    }
    both = has[1] != 0;
  }
  const T zero = has[0] != 0 ? sums[0] : T(0);
  const Verdict verdict = Binary(both && has[1] != 0 ? sums[1] : zero, second);
  if (both) {
    sums[0] = zero;
    sums[1] = has[1] != 0 ? sums[1] : T(0);
    Apply(post_, sums, 2);
  } else {
    sums[1] = 0;   // where only one score is written
    ApplyToOne(post_, zero, verdict.second, sums);
  }
  return verdict.label;
}

template class TreeFinish<float>;
template class TreeFinish<double>;

}  // namespace tenon::kernels::ml
