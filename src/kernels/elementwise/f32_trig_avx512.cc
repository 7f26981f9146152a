#define TENON_FILL FillTrigAvx512
#include "kernels/elementwise/f32_trig-inl.h"
