/* scan.c - choosing the table. */
#include "native/sampling/scan.h"
#include "native/backends/cpu/cpuid.h"

#include <stddef.h>
#include <string.h>

extern const ds4_scan ds4_scan_portable;
#if defined(__x86_64__)
extern const ds4_scan ds4_scan_avx2, ds4_scan_avx512;
#elif defined(__aarch64__)
extern const ds4_scan ds4_scan_neon;
#endif

const ds4_scan *ds4_scan_find(const char *name)
{
    if (!ds4_cpu_has_kernels(name))
        return NULL;
    static const ds4_scan *const sets[] = {
        &ds4_scan_portable,
#if defined(__x86_64__)
        &ds4_scan_avx2,
        &ds4_scan_avx512,
#elif defined(__aarch64__)
        &ds4_scan_neon,
#endif
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strcmp(sets[i]->name, name) == 0)
            return sets[i];
    return NULL;
}

const ds4_scan *ds4_scan_best(void) { return ds4_scan_find(ds4_cpu_best_kernels()); }
