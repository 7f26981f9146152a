// Normalisations.
//
// Over the last axes, one row at a time (n = product of the axes from `axis` on; t = x, or x + skip + bias):
//   LayerNormalization                y = (t - mean) / sqrt(var + eps) * scale + bias
//   SkipLayerNormalization            the same; inputs x, skip, gamma, beta?, bias?; outputs y, mean?, inv_std?, t?
//   RMSNormalization, SimplifiedLayerNormalization   y = t / sqrt(mean(t^2) + eps) * scale
//   SkipSimplifiedLayerNormalization  inputs x, skip, gamma, bias?; outputs as SkipLayerNormalization
//   `skip` has the shape of x or broadcasts over its leading axes. Skip forms: epsilon 1e-12 by default (com.microsoft).
// By channel (axis 1):
//   BatchNormalization (also in training mode), InstanceNormalization, GroupNormalization (opset 21: scale and bias per channel),
//   LRN
// Over chosen axes:
//   MeanVarianceNormalization, LpNormalization
// f16 and bf16 accumulate wider and round once.
#ifndef TENON_KERNELS_NORM_NORM_H_
#define TENON_KERNELS_NORM_NORM_H_

#include <span>

#include "kernels/kernel.h"
#include "kernels/norm/inner.h"

namespace tenon::kernels::norm {

struct LayerParams {
  int64_t axis = -1;
  float epsilon = 1e-5f;
  bool subtract_mean = true;
  bool skip = false;
  DType stash = DType::kF32;  ///< type of the statistics that come out
  // Places of inputs and outputs; -1: the operator has none.
  int gamma = 1, beta = -1, bias = -1;
  int mean_out = -1, inv_out = -1, sum_out = -1;
};

struct BatchParams {
  float epsilon = 1e-5f;
  float momentum = 0.9f;
  bool training = false;
};

struct GroupParams {
  int64_t groups = 0;  ///< 0: one a channel (InstanceNormalization)
  float epsilon = 1e-5f;
};

struct LrnParams {
  int64_t size = 1;
  float alpha = 1e-4f, beta = 0.75f, bias = 1.0f;
};

struct MvnParams {
  std::vector<int64_t> axes;
};

struct LpParams {
  int64_t axis = -1;
  int64_t p = 2;
};

Result<LayerParams> ParseLayer(std::string_view op, const Attrs& attrs);
Result<BatchParams> ParseBatch(std::string_view op, const Attrs& attrs);
Result<GroupParams> ParseGroup(std::string_view op, const Attrs& attrs);
Result<LrnParams> ParseLrn(std::string_view op, const Attrs& attrs);
Result<MvnParams> ParseMvn(std::string_view op, const Attrs& attrs);
Result<LpParams> ParseLp(std::string_view op, const Attrs& attrs);

// Checks of concrete shapes shared by all rows. Errors are kBadInput.
struct LayerSizes {
  int64_t rows = 0, n = 0;
  int64_t skip_rows = 0;  ///< row r of x goes with row r % skip_rows of skip
};
Result<LayerSizes> CheckLayer(const LayerParams& params, const RunArgs& args);
struct ChannelSizes {
  int64_t batch = 0, channels = 0, inner = 0;
};
/// `first`..`last`: inputs of one element per channel.
Result<ChannelSizes> CheckChannels(const RunArgs& args, size_t first, size_t last, const char* op);
Status CheckGroups(const GroupParams& params, int64_t channels);

Status RunLayerReference(const LayerParams& params, const RunArgs& args);
Status RunBatchReference(const BatchParams& params, const RunArgs& args);
Status RunGroupReference(const GroupParams& params, const RunArgs& args);
Status RunLrnReference(const LrnParams& params, const RunArgs& args);
Status RunMvnReference(const MvnParams& params, const RunArgs& args);
Status RunLpReference(const LpParams& params, const RunArgs& args);

// Shape rules.
Status InferLayer(const ShapeArgs& args);  ///< LayerNormalization, RMSNormalization, SimplifiedLayerNormalization
Status InferSkipLayer(const ShapeArgs& args);
Status InferBatch(const ShapeArgs& args);

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::norm

#endif  // TENON_KERNELS_NORM_NORM_H_
