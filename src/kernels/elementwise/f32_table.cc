#include "kernels/elementwise/f32_table.h"

#include <cmath>

namespace tenon::kernels::elementwise {
namespace {

template <float (*kFunction)(float)>
void Scalar(const float* x, float* y, int64_t n, float /*p0*/, float /*p1*/) {
  for (int64_t i = 0; i < n; ++i) y[i] = kFunction(x[i]);
}

// Mod with the sign of the divisor.
float FloorMod(float a, float b) {
  if (std::isinf(b) && std::isfinite(a)) return a == 0 ? std::copysign(0.0f, b) : (a < 0) == (b < 0) ? a : b;
  const float r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0f, b);
  return (r < 0) != (b < 0) ? r + b : r;
}
float TruncMod(float a, float b) {
  return std::fmod(a, b);
}

template <float (*kFunction)(float, float), int kForm>
void Scalar2(const float* a, const float* b, float* y, int64_t n) {
  if (n <= 0) return;
  const float sa = *a;
  const float sb = *b;
  for (int64_t i = 0; i < n; ++i) y[i] = kFunction(kForm == kFirstScalar ? sa : a[i], kForm == kSecondScalar ? sb : b[i]);
}

template <float (*kFunction)(float, float)>
void SetForms(F32Table* table, BinaryOp op) {
  auto& forms = table->binary[static_cast<int>(op)];
  forms[kBothVectors] = Scalar2<kFunction, kBothVectors>;
  forms[kSecondScalar] = Scalar2<kFunction, kSecondScalar>;
  forms[kFirstScalar] = Scalar2<kFunction, kFirstScalar>;
}

float Acosh(float x) {
  return std::acosh(x);
}
float Asinh(float x) {
  return std::asinh(x);
}
float Atanh(float x) {
  return std::atanh(x);
}
float Cosh(float x) {
  return std::cosh(x);
}
float Sinh(float x) {
  return std::sinh(x);
}
float Tan(float x) {
  return std::tan(x);
}

}  // namespace

void FillLibm(F32Table* table) {
  const auto set = [&](UnaryOp op, UnaryF32 f) { table->unary[static_cast<int>(op)] = f; };
  set(UnaryOp::kAcosh, Scalar<Acosh>);
  set(UnaryOp::kAsinh, Scalar<Asinh>);
  set(UnaryOp::kAtanh, Scalar<Atanh>);
  set(UnaryOp::kCosh, Scalar<Cosh>);
  set(UnaryOp::kSinh, Scalar<Sinh>);
  set(UnaryOp::kTan, Scalar<Tan>);
  SetForms<FloorMod>(table, BinaryOp::kMod);
  SetForms<TruncMod>(table, BinaryOp::kFmod);
}

const F32Table* TableFor(hw::IsaMask isa) {
  if (hw::Covers(isa, hw::kAvx512)) {
    static const F32Table table = [] {
      F32Table t;
      FillLibm(&t);
      FillSimpleAvx512(&t);
      FillMathAvx512(&t);
      FillTrigAvx512(&t);
      FillBinaryAvx512(&t);
      return t;
    }();
    return &table;
  }
  if (hw::Covers(isa, hw::kAvx2)) {
    static const F32Table table = [] {
      F32Table t;
      FillLibm(&t);
      FillSimpleAvx2(&t);
      FillMathAvx2(&t);
      FillTrigAvx2(&t);
      FillBinaryAvx2(&t);
      return t;
    }();
    return &table;
  }
  return nullptr;
}

}  // namespace tenon::kernels::elementwise
