/* kernels_portable.c - kernels.inc over vec_portable.h. */
#include "native/backends/cpu/vec_portable.h"

#define KERNELS_TABLE cpu_kernels_portable
#include "native/backends/cpu/kernels.inc"
