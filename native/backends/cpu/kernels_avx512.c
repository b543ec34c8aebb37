/* kernels_avx512.c - kernels.inc over vec_avx512.h. */
#include "native/backends/cpu/vec_avx512.h"

#define KERNELS_TABLE cpu_kernels_avx512
#include "native/backends/cpu/kernels.inc"
