/* kernels.h - what the CPU backend needs of an instruction set, apart from matrix products: one table for each set.
 *
 * Element-wise kernels give an element the same bits wherever it stands in the range, so that ranges may be cut anywhere. */
#ifndef DS4_CPU_KERNELS_H
#define DS4_CPU_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Positions of one tile of the KV cache, and the unit in which attention sums: see attention.c. */
#define KV_TILE 128

typedef struct cpu_kernels {
    const char *name;

    /* dst = x / sqrt(mean(x^2) + eps) * w; the sum of squares in a fixed order. dst may be x. */
    void (*rmsnorm)(float *dst, const float *x, const float *w, int64_t n, float eps);
    /* dst = x / sqrt(mean(x^2) + eps), likewise. */
    void (*rms)(float *dst, const float *x, int64_t n, float eps);
    /* dst += x */
    void (*add)(float *dst, const float *x, int64_t n);
    /* dst = gate / (1 + exp(-gate)) * up; dst may be gate. */
    void (*swiglu)(float *dst, const float *gate, const float *up, int64_t n);
    /* dst = gelu(gate) * up in its tanh form, which is gate / (1 + exp(-2 sqrt(2 / pi) (gate + 0.044715 gate^3))) * up; dst
     * may be gate. */
    void (*geglu)(float *dst, const float *gate, const float *up, int64_t n);
    /* out = x * cos + partner(x) * sin over the first dim elements; `sin` carries the sign. kind: ds4_rope_kind */
    void (*rope)(float *x, const float *cos, const float *sin, int32_t dim, int32_t kind);
    /* dst = x * factor */
    void (*scale)(float *dst, const float *x, float factor, int64_t n);

    void (*to_f16)(uint16_t *dst, const float *x, int64_t n);
    void (*from_f16)(float *dst, const uint16_t *x, int64_t n);
    /* dst[i] = q[i] * s[i] (scales along the row), n a multiple of 16 */
    void (*from_q8_lanes)(float *dst, const int8_t *q, const uint16_t *s, int64_t n);
    /* dst[i] = q[i] * s, n a multiple of 16 */
    void (*from_q8_block)(float *dst, const int8_t *q, float s, int64_t n);

    /* c[i, j] = sum over k, in rising order, of a[i, k] * b[k, j], for i < m, j < n, n a multiple of 16. b: fp32 or fp16
     * rows of ldb elements. */
    void (*tile_product)(int32_t m, int32_t n, int32_t k, const float *a, int32_t lda, const void *b, int32_t ldb,
                         bool b_f16, float *c, int32_t ldc);
    /* Of one row of n scores (a multiple of 16), those in [from, to) count: p = exp(s - max), 0 elsewhere. Returns the
     * maximum, -infinity when nothing counts; *sum is the sum of p. */
    float (*tile_softmax)(float *s, int32_t n, int32_t from, int32_t to, float *sum);
    /* Adds a tile's (max m, sum l, values a) to the running (max, sum, acc): n a multiple of 16. */
    void (*tile_fold)(float *acc, float *max, float *sum, const float *a, float m, float l, int32_t n);

    /* The rows of tile_product's register block: more rows than twice this are worth a conversion of b beforehand. */
    int32_t tile_rows;
} cpu_kernels;

/* The set of that name, or the best one for NULL; NULL if this processor cannot run it. */
const cpu_kernels *cpu_kernels_find(const char *name);

extern const cpu_kernels cpu_kernels_portable;
#if defined(__x86_64__)
extern const cpu_kernels cpu_kernels_avx2;
extern const cpu_kernels cpu_kernels_avx512;
#elif defined(__aarch64__)
extern const cpu_kernels cpu_kernels_neon;
#endif

#endif
