/* matmul_avx2.c - the kernel set for AVX2, FMA and F16C. */
#include "native/backends/cpu/dot_avx2.h"

#define MM_TABLE ds4_mm_avx2
#define MM_NAME "avx2"
#include "native/backends/cpu/matmul_x86.inc"
