/* cpuid.c - cpuid and xgetbv on x86-64, the auxiliary vector or sysctl on aarch64. */
#include "native/backends/cpu/cpuid.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

static ds4_cpu_features features;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)

/* Which register states the operating system saves: XCR0. */
static uint64_t saved_states(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

#define BIT(word, n) (((word) >> (n)) & 1u)

static void find(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !BIT(c, 27)) /* OSXSAVE */
        return;
    uint64_t states = saved_states();
    bool ymm = (states & 0x06) == 0x06; /* XMM, YMM */
    bool zmm = (states & 0xe6) == 0xe6; /* and opmask, both halves of ZMM */
    bool avx = BIT(c, 28), fma = BIT(c, 12), f16c = BIT(c, 29);
    uint32_t b7, c7, d7;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7))
        return;
    uint32_t sub_leaves = a;
    features.avx2 = ymm && avx && fma && f16c && BIT(b7, 5);
    features.avx512 = features.avx2 && zmm && BIT(b7, 16) && BIT(b7, 17) && BIT(b7, 30) && BIT(b7, 31) && BIT(c7, 11);
    if (sub_leaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
        features.avx_vnni = features.avx2 && BIT(a, 4);
}

#elif defined(__aarch64__)

static void find(void)
{
    features.neon = true;
#if defined(__linux__)
    /* Bit numbers of the kernel's ABI; older headers lack the names. */
    features.dotprod = (getauxval(AT_HWCAP) >> 20) & 1;
    features.i8mm = (getauxval(AT_HWCAP2) >> 13) & 1;
#elif defined(__APPLE__)
    int value = 0;
    size_t size = sizeof value;
    features.dotprod = sysctlbyname("hw.optional.arm.FEAT_DotProd", &value, &size, NULL, 0) == 0 && value;
    value = 0;
    size = sizeof value;
    features.i8mm = sysctlbyname("hw.optional.arm.FEAT_I8MM", &value, &size, NULL, 0) == 0 && value;
#endif
}

#else

static void find(void) {}

#endif

const ds4_cpu_features *ds4_cpu_features_get(void)
{
    pthread_once(&once, find);
    return &features;
}

const char *ds4_cpu_best_kernels(void)
{
    const ds4_cpu_features *f = ds4_cpu_features_get();
    return f->avx512 ? "avx512" : f->avx2 ? "avx2" : f->neon ? "neon" : "portable";
}

bool ds4_cpu_has_kernels(const char *name)
{
    const ds4_cpu_features *f = ds4_cpu_features_get();
    if (strcmp(name, "portable") == 0)
        return true;
    if (strcmp(name, "avx2") == 0)
        return f->avx2;
    if (strcmp(name, "avx512") == 0)
        return f->avx512;
    if (strcmp(name, "neon") == 0)
        return f->neon;
    return false;
}
