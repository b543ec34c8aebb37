/* kernels_neon.c - kernels.inc over vec_neon.h. */
#include "native/backends/cpu/vec_neon.h"

#define KERNELS_TABLE cpu_kernels_neon
#include "native/backends/cpu/kernels.inc"
