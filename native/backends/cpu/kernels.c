/* kernels.c - choosing the table. */
#include "native/backends/cpu/kernels.h"
#include "native/backends/cpu/cpuid.h"

#include <stddef.h>
#include <string.h>

const cpu_kernels *cpu_kernels_find(const char *name)
{
    if (!name)
        name = ds4_cpu_best_kernels();
    if (!ds4_cpu_has_kernels(name))
        return NULL;
    static const cpu_kernels *const sets[] = {
        &cpu_kernels_portable,
#if defined(__x86_64__)
        &cpu_kernels_avx2,
        &cpu_kernels_avx512,
#elif defined(__aarch64__)
        &cpu_kernels_neon,
#endif
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strcmp(sets[i]->name, name) == 0)
            return sets[i];
    return NULL;
}
