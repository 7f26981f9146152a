// Table of the signal family.
#include "kernels/signal/signal.h"

#include "kernels/kernel_util.h"

namespace tenon::kernels::signal {
namespace {

constexpr GroupedRow kTable[] = {
#define KERNEL(group, name, needs, can, make) {group, {name, needs, can, make}},
#include "kernels/signal/kernels.inc"
#undef KERNEL
};

}  // namespace

std::span<const OpKernels> Operators() {
  static const auto dft = RowsOf(kTable, "DFT");
  static const auto window = RowsOf(kTable, "Window");
  static const auto mel = RowsOf(kTable, "MelWeightMatrix");
  static const OpKernels operators[] = {
      {"DFT", InferDft, dft, 1, 3, 1, 1},
      {"STFT", InferStft, dft, 2, 4, 1, 1},
      {"HannWindow", InferWindow, window, 1, 1, 1, 1},
      {"HammingWindow", InferWindow, window, 1, 1, 1, 1},
      {"BlackmanWindow", InferWindow, window, 1, 1, 1, 1},
      {"MelWeightMatrix", InferMelWeights, mel, 5, 5, 1, 1},
  };
  return operators;
}

}  // namespace tenon::kernels::signal
