// Plain array functions on f32 for one instruction set: what the fast rows and ElementwiseChain are made of. No broadcasting, no
// threads.
#ifndef TENON_KERNELS_ELEMENTWISE_F32_TABLE_H_
#define TENON_KERNELS_ELEMENTWISE_F32_TABLE_H_

#include <cstdint>

#include "hw/isa.h"
#include "kernels/elementwise/op_names.h"

namespace tenon::kernels::elementwise {

/// y[i] = f(x[i]); y may be x.
using UnaryF32 = void (*)(const float* x, float* y, int64_t n, float p0, float p1);
/// y[i] = f(a[i], b[i]), with a or b one element in the kSecondScalar and kFirstScalar forms; y may be a or b.
using BinaryF32 = void (*)(const float* a, const float* b, float* y, int64_t n);
using CompareF32 = void (*)(const float* a, const float* b, bool* y, int64_t n);

enum Form { kBothVectors = 0, kSecondScalar = 1, kFirstScalar = 2, kForms = 3 };

struct F32Table {
  UnaryF32 unary[static_cast<int>(UnaryOp::kCount)] = {};  ///< null: not served
  BinaryF32 binary[static_cast<int>(BinaryOp::kCount)][kForms] = {};
  CompareF32 compare[static_cast<int>(BinaryOp::kCount)][kForms] = {};
  UnaryF32 mul_add = nullptr;  ///< x*p0 + p1 in two roundings
  void (*f16_to_f32)(const uint16_t* x, float* y, int64_t n) = nullptr;
  void (*f32_to_f16)(const float* x, uint16_t* y, int64_t n) = nullptr;
  void (*bf16_to_f32)(const uint16_t* x, float* y, int64_t n) = nullptr;
  void (*f32_to_bf16)(const float* x, uint16_t* y, int64_t n) = nullptr;
};

/// The table for the best of `isa` that has one; nullptr below AVX2.
const F32Table* TableFor(hw::IsaMask isa);

// Each ISA's parts, and what the C library serves for all of them.
void FillSimpleAvx2(F32Table* table);
void FillMathAvx2(F32Table* table);
void FillTrigAvx2(F32Table* table);
void FillBinaryAvx2(F32Table* table);
void FillSimpleAvx512(F32Table* table);
void FillMathAvx512(F32Table* table);
void FillTrigAvx512(F32Table* table);
void FillBinaryAvx512(F32Table* table);
void FillLibm(F32Table* table);

}  // namespace tenon::kernels::elementwise

#endif  // TENON_KERNELS_ELEMENTWISE_F32_TABLE_H_
