#define TENON_FILL FillSimpleAvx512
#include "kernels/elementwise/f32_simple-inl.h"
