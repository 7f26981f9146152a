// Random numbers: RandomNormal, RandomUniform, their Like forms, Bernoulli, Multinomial, Dropout in training.
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), keyed by the bits of
// attribute `seed` and counted by the element's index: element i depends on the seed and i alone, so every machine, every number
// of threads and every run give the same values. Without a seed each kernel draws its own key from the operating system, and each
// run moves on. ONNX leaves the sequence to the implementation; other runtimes give other numbers for the same seed.
// Dropout alone, whose results ONNX's own tests fix, draws with a seed what NumPy draws.
#ifndef TENON_KERNELS_RANDOM_RANDOM_H_
#define TENON_KERNELS_RANDOM_RANDOM_H_

#include <array>

#include "kernels/kernel.h"

namespace tenon::kernels::random {

std::span<const OpKernels> Operators();

/// Four 32-bit words for a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);
/// In [0, 1), 53 bits: element `i` of run `run`.
double PhiloxUniform(std::array<uint32_t, 2> key, uint32_t run, int64_t i);

// dropout.cc
Status InferDropout(const ShapeArgs& args);
Result<std::unique_ptr<Kernel>> MakeDropout(const Problem& p);

}  // namespace tenon::kernels::random

#endif  // TENON_KERNELS_RANDOM_RANDOM_H_
