#define TENON_FILL FillTypedPortable
#include "kernels/elementwise/typed-inl.h"
