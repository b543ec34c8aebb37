/* matmul_avx512.c - the kernel set for AVX-512 F, BW, VL, DQ and VNNI. */
#include "native/backends/cpu/dot_avx512.h"

#define MM_TABLE ds4_mm_avx512
#define MM_NAME "avx512"
#include "native/backends/cpu/matmul_x86.inc"
