// Products with weights in block formats (tensor/blocks/blocks.h), which stay as they are in the model's file until a kernel
// packs them for its instruction set.
//
//   BlockMatMul(X, residual?, W0, bias0?, W1, bias1?, ...) -> y
//     X [.., k] f32; Wp uint8 [n_p, bytes of a row]; biasp f32 [n_p]. Attribute `formats`: the format of each W.
//     y [.., n_0 + n_1 + ..] = X Wp^T + biasp, side by side, + residual
//     Attribute `exact` 1: X of many rows is not rounded to bf16 or eight bits.
//     Attribute `gate` "silu" or "gelu" (tanh form): two W of one n; y [.., n] = gate(X W0^T + bias0) * (X W1^T + bias1) +
//     residual
//   BlockGather(W, ids) -> y [.., k]
//     rows of W by ids (int32 or int64; kBadInput outside [0, n)); attribute `format`, and `scale` (default 1); with `from_end`
//     1 negative ids count from the end, down to -n, as Gather's do
//   SelectRows(x) -> y
//     x [.., d] f32; with a cache the rows that the KvStep asks for, [r, d], else x as it is
#ifndef TENON_KERNELS_BLOCK_MATMUL_BLOCK_MATMUL_H_
#define TENON_KERNELS_BLOCK_MATMUL_BLOCK_MATMUL_H_

#include <span>
#include <vector>

#include "kernels/kernel.h"
#include "tensor/blocks/blocks.h"

namespace tenon::kernels::block_matmul {

enum class Gate { kNone, kSilu, kGelu };

/// Place of W and bias of part p among the inputs.
inline size_t WeightInput(size_t p) {
  return 2 + 2 * p;
}
inline size_t BiasInput(size_t p) {
  return 3 + 2 * p;
}

struct Params {
  std::vector<const BlockFormat*> formats;
  Gate gate = Gate::kNone;
};
Result<Params> ParseParams(const Attrs& attrs);

float ApplyGate(Gate gate, float x);

Status InferBlockMatMul(const ShapeArgs& args);
Status InferBlockGather(const ShapeArgs& args);
Status InferSelectRows(const ShapeArgs& args);

Result<std::unique_ptr<Kernel>> MakeReference(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeGather(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakeSelectRows(const Problem& problem);

Refusal CanPacked(const Problem& problem);
Result<std::unique_ptr<Kernel>> MakePacked(const Problem& problem);

std::span<const OpKernels> Operators();

}  // namespace tenon::kernels::block_matmul

#endif  // TENON_KERNELS_BLOCK_MATMUL_BLOCK_MATMUL_H_
