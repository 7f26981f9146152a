#define TENON_FILL FillTrigAvx2
#include "kernels/elementwise/f32_trig-inl.h"
