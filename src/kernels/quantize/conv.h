// Integer convolutions: their inputs and quantities per channel.
#ifndef TENON_KERNELS_QUANTIZE_CONV_H_
#define TENON_KERNELS_QUANTIZE_CONV_H_

#include "kernels/conv/conv.h"
#include "kernels/quantize/quantize.h"

namespace tenon::kernels::quantize {

/// Input numbers: ConvInteger(x, w, x_zero?, w_zero?); QLinearConv(x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero,
/// bias?).
struct ConvInputs {
  bool requantize;
  size_t x, w, x_zero, w_zero;
  size_t x_scale = 0, w_scale = 0, y_scale = 0, y_zero = 0, bias = 0;   ///< QLinearConv only
};
inline ConvInputs ConvInputsOf(std::string_view op) {
  if (op == "QLinearConv") return {true, 0, 3, 2, 5, 1, 4, 6, 7, 8};
  return {false, 0, 1, 2, 3};
}

/// A quantity per tensor or per output channel.
inline Status CheckPerChannel(const View& v, const char* what, int64_t channels) {
  if (!v.present() || v.num_elements() == 1 || v.num_elements() == channels) return Status::Ok();
  return BadInput("{} of shape {}; 1 or {} elements needed", what, v.shape.ToString(), channels);
}
inline int64_t ChannelIndex(const View& v, int64_t channel) {
  return v.num_elements() == 1 ? 0 : channel;
}

}  // namespace tenon::kernels::quantize

#endif  // TENON_KERNELS_QUANTIZE_CONV_H_
