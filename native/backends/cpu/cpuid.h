/* cpuid.h - what this processor can run. Our own cpuid: the compiler's __builtin_cpu_supports does not link under every
 * toolchain that builds us. */
#ifndef DS4_CPU_CPUID_H
#define DS4_CPU_CPUID_H

#include <stdbool.h>

typedef struct ds4_cpu_features {
    /* x86-64; each also needs the operating system to save the registers */
    bool avx2;       /* AVX2, FMA and F16C: what the sources of the avx2 group are compiled for */
    bool avx512;     /* AVX-512 F, BW, VL, DQ and VNNI, and all of avx2: the avx512 group */
    bool avx_vnni;   /* VEX-coded VNNI */
    /* aarch64 */
    bool neon;       /* always, there */
    bool dotprod;    /* SDOT, UDOT */
    bool i8mm;       /* SMMLA */
} ds4_cpu_features;

/* Found once, on the first call. [any thread] */
const ds4_cpu_features *ds4_cpu_features_get(void);

/* The name of the best kernel set here: "avx512", "avx2", "neon" or "portable". [any thread] */
const char *ds4_cpu_best_kernels(void);

/* Whether the set of that name can run here. */
bool ds4_cpu_has_kernels(const char *name);

#endif
