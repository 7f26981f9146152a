#define TENON_FILL FillSimpleAvx2
#include "kernels/elementwise/f32_simple-inl.h"
