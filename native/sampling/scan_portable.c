/* scan_portable.c - scan.inc over vec_portable.h. */
#include "native/backends/cpu/vec_portable.h"

#define SCAN_TABLE ds4_scan_portable
#include "native/sampling/scan.inc"
