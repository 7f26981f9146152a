// For building llama.cpp with GCC 12 on a CPU with AMX: that compiler's _tile_loadconfig names 8 of the 64 bytes it reads as its
// input, and what fills the others is dropped as a dead store. bench/README.md says how it is used.
#include <immintrin.h>
#undef _tile_loadconfig
#define _tile_loadconfig(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(const char(*)[64])(config)))
