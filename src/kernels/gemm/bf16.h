// Matrix products of bf16 with f32 sums: C[m, n] = epilogue(alpha * A[m, k] * B[k, n]).
//
// B is bf16, packed once into panels that every instruction set reads. A is bf16 or f32 (rounded to bf16 as it is read); rows of
// bf16 whose depth is a multiple of 32 are read where they lie where the instruction set can, all others are copied block by
// block into scratch, by `fill` when the rows are not rows of a matrix (a convolution's windows).
//
//   epilogue: act(sum + bias[n] + residual[m, n]) as in gemm/activation.h, in f32, rounded once to the type of C
//
// Products are exact in f32 and sums are f32. The result of one row does not depend on the other rows or the number of threads.
// Where the CPU multiplies bf16 itself, subnormal operands and sums count as 0.
#ifndef TENON_KERNELS_GEMM_BF16_H_
#define TENON_KERNELS_GEMM_BF16_H_

#include <cstddef>
#include <cstdint>

#include "hw/isa.h"
#include "hw/team.h"
#include "kernels/gemm/act.h"
#include "kernels/gemm/bf16_tile.h"

namespace tenon::kernels::gemm {

/// The micro-kernels for `isa`; the same object for the life of the process. Baseline always exists.
const Bf16Kernels& SelectBf16(hw::IsaMask isa);

/// Panels of n columns.
int64_t Bf16Panels(int64_t n);
/// Elements of one packed panel of depth k, and of all panels of a k x n matrix.
int64_t Bf16PanelElements(int64_t k);
int64_t Bf16PackedElements(int64_t k, int64_t n);

/// Packs panels [begin, end) of B; B[k][n] at b[k * k_stride + n * n_stride]. `packed` 64-byte aligned for best speed.
void PackBf16(const Bf16Kernels& kernels, const uint16_t* b, int64_t k, int64_t n, int64_t k_stride, int64_t n_stride,
              uint16_t* packed, int64_t begin, int64_t end);

struct Bf16Gemm {
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  bool a_f32 = false;
  int64_t a_stride = 0;                ///< elements from row to row; rows are contiguous
  /// Instead of `a`: writes rows [row, row + count) to to[(r - row) * stride], as `Bf16Kernels::convert` would with k padded to
  /// a multiple of 32, in order; may write 64 bytes more. Called from several threads.
  void (*fill)(const void* context, int64_t row, int64_t count, void* to, int64_t stride) = nullptr;
  const void* fill_context = nullptr;
  const uint16_t* b = nullptr;  ///< from PackBf16
  int64_t b_panel = 0;  ///< elements from panel to panel; 0: those of depth k. More where B was packed deeper than k
  void* c = nullptr;
  bool c_f32 = false;
  int64_t c_stride = 0;
  const float* bias = nullptr;  ///< [n] or null
  const void* residual = nullptr;  ///< [m, n] or null; may be C itself when of its type
  bool residual_f32 = false;
  int64_t residual_stride = 0;
  float alpha = 1;
  Activation activation;
};

/// Bytes of scratch that RunBf16 needs for a product of up to m rows and depth k on up to `threads` threads.
size_t Bf16ScratchBytes(const Bf16Kernels& kernels, int64_t m, int64_t k, int threads);

/// Shared out over rows or columns, whichever balances; small products stay on the calling thread. m, n or k of zero are fine.
void RunBf16(const Bf16Kernels& kernels, const Bf16Gemm& gemm, std::byte* scratch, hw::Team& team);

}  // namespace tenon::kernels::gemm

#endif  // TENON_KERNELS_GEMM_BF16_H_
