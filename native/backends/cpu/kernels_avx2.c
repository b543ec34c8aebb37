/* kernels_avx2.c - kernels.inc over vec_avx2.h. */
#include "native/backends/cpu/vec_avx2.h"

#define KERNELS_TABLE cpu_kernels_avx2
#include "native/backends/cpu/kernels.inc"
