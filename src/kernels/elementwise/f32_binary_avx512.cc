#define TENON_FILL FillBinaryAvx512
#include "kernels/elementwise/f32_binary-inl.h"
