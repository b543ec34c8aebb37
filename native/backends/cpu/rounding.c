/* rounding.c - imitations of the narrow formats that DeepSeek V4 was trained with. Values stay fp32; only their bits thin
 * out. Scales are powers of two, so that scaling is exact and all rounding happens in the format's own steps. */
#include "native/backends/cpu/latent.h"

#include <math.h>

#define FP8_GROUP 64
#define FP4_GROUP 32

static float absmax(const float *x, int32_t n)
{
    float most = 0;
    for (int32_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* The least k with 2^k >= x, for x > 0. */
static int ceil_log2(float x)
{
    int e;
    return frexpf(x, &e) == 0.5f ? e - 1 : e;
}

static float clamp(float x, float most) { return x > most ? most : x < -most ? -most : x; }

/* The nearest E4M3 of |x| <= 448, ties to the even code: 3 bits of mantissa, least exponent -6. */
static float to_e4m3(float x)
{
    int e;
    frexpf(x, &e); /* |x| = m 2^e, m in [0.5, 1) */
    const int step = (e - 1 > -6 ? e - 1 : -6) - 3;
    return x == 0 ? x : ldexpf(rintf(ldexpf(x, -step)), step);
}

/* The nearest of 0 0.5 1 1.5 2 3 4 6, ties to the even code, which is the even multiple of the step. */
static float to_e2m1(float x)
{
    const float a = fabsf(x), step = a < 2 ? 0.5f : a < 4 ? 1 : 2;
    return rintf(x / step) * step;
}

void cpu_round_fp8(float *x, int32_t n)
{
    for (int32_t from = 0; from < n; from += FP8_GROUP) {
        const int32_t count = n - from < FP8_GROUP ? n - from : FP8_GROUP;
        float *group = x + from;
        const int k = ceil_log2(fmaxf(absmax(group, count), 1e-4f) / 448.0f);
        for (int32_t i = 0; i < count; i++)
            group[i] = ldexpf(to_e4m3(clamp(ldexpf(group[i], -k), 448.0f)), k);
    }
}

void cpu_round_hadamard_fp4(float *x, int32_t n)
{
    for (int32_t stride = 1; stride < n; stride *= 2)
        for (int32_t from = 0; from < n; from += 2 * stride)
            for (int32_t i = from; i < from + stride; i++) {
                const float a = x[i], b = x[i + stride];
                x[i] = a + b;
                x[i + stride] = a - b;
            }
    const float norm = 1.0f / sqrtf((float)n);
    for (int32_t i = 0; i < n; i++)
        x[i] *= norm;
    for (int32_t from = 0; from < n; from += FP4_GROUP) {
        const int32_t count = n - from < FP4_GROUP ? n - from : FP4_GROUP;
        float *group = x + from;
        const int k = ceil_log2(fmaxf(absmax(group, count), 6 * 0x1p-126f) / 6.0f);
        for (int32_t i = 0; i < count; i++)
            group[i] = ldexpf(to_e2m1(clamp(ldexpf(group[i], -k), 6.0f)), k);
    }
}
