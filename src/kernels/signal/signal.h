// Signal processing.
//
//   DFT               y[k] = sum_n x[n] exp(-2 pi i k n / N) along one axis; inverse: the conjugate, divided by N.
//                     Inputs x [..., 1 or 2], dft_length?, axis? (-2). onesided forward keeps bins 0..N/2 of real input; onesided
//                     inverse takes those bins and gives the real signal [..., 1].
//   STFT              DFT of windowed frames: signal [batch, length, 1 or 2], frame_step, window?, frame_length? ->
//                     [batch, (length - frame_length) / frame_step + 1, bins, 2]
//   HannWindow, HammingWindow, BlackmanWindow   size -> [size]
//   MelWeightMatrix   num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz -> [dft_length/2 + 1, bins]
#ifndef TENON_KERNELS_SIGNAL_SIGNAL_H_
#define TENON_KERNELS_SIGNAL_SIGNAL_H_

#include "kernels/kernel.h"

namespace tenon::kernels::signal {

std::span<const OpKernels> Operators();

/// Longest transform accepted.
inline constexpr int64_t kMaxLength = int64_t{1} << 26;

/// A set of transforms of one length, described by where their elements lie. Row r is batch r / row_mod, within it r % row_mod.
struct Transforms {
  int64_t rows = 0;
  int64_t row_mod = 1;
  int64_t in_batch = 0, in_row = 0, in_step = 0;  ///< element offsets per batch, per row, per sample of the input
  int64_t out_batch = 0, out_row = 0, out_step = 0;
  int64_t length = 0;  ///< N
  int64_t given = 0;  ///< samples present; the rest of N is zero
  int64_t bins = 0;  ///< values written
  bool complex_in = false;  ///< input elements are (re, im) pairs
  bool real_out = false;  ///< inverse onesided: `given` bins of half a spectrum in, real samples out
  bool inverse = false;
};

/// The transforms of one DFT or STFT run, from concrete inputs with data. STFT: input 2 is the window.
Result<Transforms> ResolveDft(const Attrs& attrs, std::span<const View> in);
Result<Transforms> ResolveStft(const Attrs& attrs, std::span<const View> in);

Status InferDft(const ShapeArgs& args);
Status InferStft(const ShapeArgs& args);
Status InferWindow(const ShapeArgs& args);
Status InferMelWeights(const ShapeArgs& args);

Refusal CanFft(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeFftAvx512(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeFftAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeFft(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeWindow(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeMelWeights(const Problem& problem);

}  // namespace tenon::kernels::signal

#endif  // TENON_KERNELS_SIGNAL_SIGNAL_H_
