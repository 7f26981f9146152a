#define TENON_FILL FillMathAvx2
#include "kernels/elementwise/f32_math-inl.h"
