#define TENON_FILL FillTypedAvx512
#include "kernels/elementwise/typed-inl.h"
