// Operators of domain ai.onnx.ml: preprocessing, linear models, tree ensembles.
#ifndef TENON_KERNELS_ML_ML_H_
#define TENON_KERNELS_ML_ML_H_

#include "kernels/kernel.h"

namespace tenon::kernels::ml {

std::span<const OpKernels> Operators();

Status InferArrayFeatureExtractor(const ShapeArgs& args);
Status InferSameNumeric(const ShapeArgs& args);     ///< Binarizer
Status InferToFloat(const ShapeArgs& args);         ///< Scaler, Normalizer
Status InferLabelEncoder(const ShapeArgs& args);
Status InferLinearRegressor(const ShapeArgs& args);
Status InferTreeEnsemble(const ShapeArgs& args);

Result<std::unique_ptr<Kernel>> MakeArrayFeatureExtractor(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeBinarizer(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeScaler(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeNormalizer(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeLabelEncoder(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeLinearRegressor(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeTreeEnsemble(const Problem& problem);

/// What is done to the scores of one row.
enum class PostTransform { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };
Result<PostTransform> PostTransformFromName(const std::string& name);
void Apply(PostTransform transform, double* scores, int64_t n);

}  // namespace tenon::kernels::ml

#endif  // TENON_KERNELS_ML_ML_H_
