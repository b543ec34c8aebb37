/* scan_neon.c - scan.inc over vec_neon.h. */
#include "native/backends/cpu/vec_neon.h"

#define SCAN_TABLE ds4_scan_neon
#include "native/sampling/scan.inc"
