// What the packed recurrent kernels need of an instruction set: a thin matrix product over packed panels, and gate arithmetic.
//
// A unit block is `lanes` hidden units. A panel holds V vectors for every k: [k][V][lanes]; V = gates * unit blocks. The product
// of a panel with a row is a tile [V][lanes], gate-major within each panel: vector v = gate * blocks + block.
#ifndef TENON_KERNELS_RNN_SIMD_H_
#define TENON_KERNELS_RNN_SIMD_H_

#include <cstdint>

namespace tenon::kernels::rnn {

inline constexpr int kMaxLanes = 16;
inline constexpr int kMaxVectors = 4;
inline constexpr int kMaxRows = 6;

/// Gate arithmetic of one row on `lanes` units. `tile` and `x` hold one vector per gate, `tile_stride` and `x_stride` floats
/// apart; x carries the biases. All other pointers are at the first unit.
struct GateArgs {
  const float* tile;
  int64_t tile_stride;
  const float* x;
  int64_t x_stride;
  const float* h;         ///< state before the step
  float* h_next;          ///< state after it; may not alias h
  float* c;               ///< LSTM: cell, updated in place
  const float* peephole;  ///< LSTM: i, o, f at peephole_stride, or null
  int64_t peephole_stride;
  const float* rb;  ///< GRU with linear_before_reset: recurrent bias of gate h
  float* z;         ///< GRU without: phase 0 writes z and scaled = r*h, phase 1 reads z
  float* scaled;
  float clip;
  const void* context;  ///< for gate functions that know more than these fields
};
using GateFunction = void (*)(const GateArgs&);

struct Simd {
  int lanes;
  int max_rows;
  /// out[i][v*lanes + l] = init[v*lanes + l] + sum_k a[i][k] * panel[(k*V + v)*lanes + l], i < rows <= max_rows; V is 3 or 4.
  /// init may be null (zero).
  void (*product3)(int rows, const float* const* a, int64_t k, const float* panel, const float* init, float* const* out);
  void (*product4)(int rows, const float* const* a, int64_t k, const float* panel, const float* init, float* const* out);
  // The default activations: sigmoid for f, tanh for g and h.
  GateFunction rnn_tanh, rnn_relu, gru_linear, gru_phase0, gru_phase1, lstm;
};

extern const Simd kSimdAvx2;
extern const Simd kSimdAvx512;

}  // namespace tenon::kernels::rnn

#endif  // TENON_KERNELS_RNN_SIMD_H_
