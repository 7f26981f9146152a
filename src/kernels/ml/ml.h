// Operators of domain ai.onnx.ml: preprocessing, labels, linear models, support vectors, tree ensembles.
//
// Where ONNX Runtime and the text of ONNX differ, these kernels do what ONNX Runtime does: it is what exporters test against.
// Each such place says so in a line.
#ifndef TENON_KERNELS_ML_ML_H_
#define TENON_KERNELS_ML_ML_H_

#include <string>

#include "kernels/kernel.h"

namespace tenon::kernels::ml {

std::span<const OpKernels> Operators();

// Shape rules, refusals and makers, each for every row that names it.
#define KERNEL(op, rule, min_in, max_in, outputs, view, row, can, make) \
  Status rule(const ShapeArgs& args);                                   \
  Result<std::unique_ptr<Kernel>> make(const Problem& problem);
#include "kernels/ml/kernels.inc"
#undef KERNEL
Refusal CanLinear(const Problem& problem);
Refusal CanSvm(const Problem& problem);

/// What is done to the scores of one row.
enum class PostTransform { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
Result<PostTransform> PostTransformFromName(const std::string& name);

/// To n >= 2 scores of one row. Computed in f32, as in ONNX Runtime, whatever T (float or double).
template <typename T>
void Apply(PostTransform transform, T* scores, int64_t n);
float Logistic(float x);
float Probit(float x);

/// How one score becomes the two of a binary classifier (`add_second_class` of ONNX Runtime).
enum class Second { kNone, kComplement, kNegative };
/// Scores of a row that has one score: PROBIT alone is applied to a lone score; LOGISTIC only where the second is its negative.
/// out[0] and, for two scores, out[1].
template <typename T>
void ApplyToOne(PostTransform transform, T score, Second second, T* out);

/// Rows and columns of an input that is [rows, columns] or one row [columns].
struct Matrix {
  int64_t rows = 0, columns = 0;
};
Matrix AsMatrix(const Shape& shape);
/// Rows of such an input before a run; kBadInput for other ranks.
Result<Dim> RowsOf(const ValueInfo& x);
/// kBadInput unless the input has a plain numeric type (or is not known yet).
Status CheckNumeric(const ValueInfo& v);
/// Row r of a matrix as f32.
void LoadRow(const View& x, int64_t row, int64_t columns, float* to);

/// Class labels: attribute `ints` or "classlabels_strings", exactly one of them.
Result<int64_t> CountLabels(const Attrs& attrs, const std::string& ints);
DType LabelType(const Attrs& attrs);

/// The label of each row, written to an output of LabelType (or nowhere).
class Labels {
 public:
  Labels(const Attrs& attrs, const std::string& ints);
  int64_t size() const { return static_cast<int64_t>(strings_.empty() ? ints_.size() : strings_.size()); }
  void Write(const MutView& out, int64_t row, int64_t label) const;
  /// 1 or 0, which ONNX Runtime writes instead of labels when there is one score and not two labels.
  void WriteSign(const MutView& out, int64_t row, bool positive) const;

 private:
  std::vector<int64_t> ints_;
  std::vector<std::string> strings_;
};

}  // namespace tenon::kernels::ml

#endif  // TENON_KERNELS_ML_ML_H_
