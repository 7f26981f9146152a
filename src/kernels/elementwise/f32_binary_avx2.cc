#define TENON_FILL FillBinaryAvx2
#include "kernels/elementwise/f32_binary-inl.h"
