/* scan_avx512.c - scan.inc over vec_avx512.h. */
#include "native/backends/cpu/vec_avx512.h"

#define SCAN_TABLE ds4_scan_avx512
#include "native/sampling/scan.inc"
