// The inner functions of products with weights in blocks, for any CPU.
#include "base/half.h"
#include "kernels/block_matmul/packed.h"

namespace tenon::kernels::block_matmul {
namespace {
// Order matters: each builds on the ones before.
// clang-format off
#include "kernels/v16/portable.inl"
#include "kernels/v16/math.inl"
#include "kernels/block_matmul/factors.inl"
#include "kernels/block_matmul/generic.inl"
#include "kernels/block_matmul/quantize.inl"
#include "kernels/block_matmul/plain.inl"
// clang-format on
}  // namespace

extern const Inner kPortable = {"portable", QuantizePlain, DotPlain, UnpackPlain, Finish};

}  // namespace tenon::kernels::block_matmul
