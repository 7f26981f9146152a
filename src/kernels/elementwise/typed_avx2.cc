#define TENON_FILL FillTypedAvx2
#include "kernels/elementwise/typed-inl.h"
