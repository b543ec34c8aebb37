/* scan_avx2.c - scan.inc over vec_avx2.h. */
#include "native/backends/cpu/vec_avx2.h"

#define SCAN_TABLE ds4_scan_avx2
#include "native/sampling/scan.inc"
