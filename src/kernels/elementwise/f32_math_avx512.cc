#define TENON_FILL FillMathAvx512
#include "kernels/elementwise/f32_math-inl.h"
