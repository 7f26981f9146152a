// Recurrent layers: RNN, GRU and LSTM of ONNX (all attributes of opset 22).
//
//   X [seq, batch, in], W [dirs, G*H, in], R [dirs, G*H, H], B [dirs, 2*G*H], sequence_lens [batch] (int32),
//   initial_h and initial_c [dirs, batch, H], P [dirs, 3*H]; Y [seq, dirs, batch, H], Y_h and Y_c [dirs, batch, H].
//   layout 1 puts batch first: X [batch, seq, in], Y [batch, seq, dirs, H], states [batch, dirs, H].
//   G = 1 (RNN), 3 (GRU: z r h), 4 (LSTM: i o f c).
//
// A sequence shorter than `seq` has zeros in Y beyond its end; its final state is the one after its last step.
#ifndef TENON_KERNELS_RNN_RNN_H_
#define TENON_KERNELS_RNN_RNN_H_

#include <array>

#include "kernels/kernel.h"
#include "kernels/rnn/activation.h"

namespace tenon::kernels::rnn {

enum class Cell { kRnn, kGru, kLstm };

struct Params {
  Cell cell = Cell::kRnn;
  int gates = 1;
  int dirs = 1;
  bool reverse[2] = {false, false};       ///< of direction 0 and 1
  std::array<Activation, 6> activations;  ///< [direction * functions + k], k = f, g, h
  int functions = 1;                      ///< activations per direction
  float clip = 0;                         ///< bound on the input of every activation; infinity for none
  bool input_forget = false;
  bool linear_before_reset = false;
  bool batch_first = false;  ///< layout 1
  int64_t hidden = 0;        ///< 0: not given, taken from R
};

/// `op` is RNN, GRU or LSTM. kBadInput for unknown words and numbers out of range.
Result<Params> ParseParams(std::string_view op, const Attrs& attrs);

Status InferRnn(const ShapeArgs& args);
Status InferGru(const ShapeArgs& args);
Status InferLstm(const ShapeArgs& args);

/// Extents of one run.
struct Extents {
  int64_t seq, batch, in, hidden;
};
Extents ExtentsOf(const Params& p, const Shape& x, const Shape& r);

/// Element offsets within X, Y and the states, for both layouts.
struct Offsets {
  int64_t x_t, x_b;       ///< X: per step, per batch row
  int64_t y_t, y_d, y_b;  ///< Y
  int64_t s_d, s_b;       ///< initial_h, initial_c, Y_h, Y_c
};
Offsets OffsetsOf(const Params& p, const Extents& e);

/// Length of row `b`: sequence_lens[b] or all of seq. kBadInput when a length lies outside [0, seq].
Status CheckLengths(const View& lengths, int64_t seq);

Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem);
Refusal CanPacked(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakePackedAvx2(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakePackedAvx512(const Problem& problem);

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::rnn

#endif  // TENON_KERNELS_RNN_RNN_H_
