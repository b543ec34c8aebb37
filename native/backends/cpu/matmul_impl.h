/* matmul_impl.h - what the kernel sets of matmul.h share: their table and the layout of prepared rows. */
#ifndef DS4_CPU_MATMUL_IMPL_H
#define DS4_CPU_MATMUL_IMPL_H

#include <string.h>

#include "native/backends/cpu/matmul.h"
#include "native/quant/blocks.h"
#include "native/quant/quant.h"

#define MM_ALIGN 64
#define MM_TILE 16 /* grains are multiples of this many outputs */

/* Kernels keep their sums in arrays, which reach registers only where functions are inlined with their constants and the
 * loops over the sums unrolled. Instrumented by a sanitizer, the same would take the compiler many minutes. */
#define MM_PRAGMA(text) _Pragma(#text)
#if defined(__SANITIZE_ADDRESS__)
#pragma GCC optimize("O1")
#define MM_INLINE static inline
#define MM_UNROLL(n)
#else
#define MM_INLINE static inline __attribute__((always_inline))
#define MM_UNROLL(n) MM_PRAGMA(GCC unroll n)
#endif

/* One product over outputs [o0, o1); see mm_run. */
typedef struct mm_job {
    const cpu_weight *w;
    const float *x;
    int64_t x_stride;
    const uint8_t *prepared;
    int32_t n_rows;
    int64_t o0, o1;
    float *dst;
    int64_t dst_stride;
    mm_store store;
    uint8_t *scratch;
} mm_job;

struct mm_kernels {
    const char *name;
    /* The form in shipping mode. */
    mm_form (*choose)(int32_t type, int64_t n_in, int32_t n_rows);
    /* One row of x; row points at mm_row_bytes of memory. NULL if choose only ever answers F32. */
    void (*prepare)(mm_form form, const float *x, int64_t n_in, uint8_t *row);
    size_t (*scratch)(const cpu_weight *w, mm_form form, int32_t n_rows);
    void (*run)(mm_form form, const mm_job *job);
};

extern const mm_kernels ds4_mm_portable;
#if defined(__x86_64__)
extern const mm_kernels ds4_mm_avx2, ds4_mm_avx512;
#elif defined(__aarch64__)
extern const mm_kernels ds4_mm_neon;
#endif

static inline size_t mm_round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static inline int64_t mm_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* A prepared row of n = n_in / 32 blocks, quantised by q = round(x * 127 / absmax of the block), d = absmax / 127:
 *
 *   Q8    i8  q[n][32]    I16   i16 q[n][32]      the same integers in either
 *         f32 d[n]              f32 d[n]
 *         f32 sum[n]                              d * (sum of the block's q): multiplies the mins of the weights
 *         f32 half[n][2]                          the same of each 16, for weights that have a min for each 16
 *
 * The row is padded to 64 bytes. */
typedef struct mm_row {
    const int8_t *q;
    const float *d, *sum, *half;
} mm_row;

static inline size_t mm_row_bytes(mm_form form, int64_t n_in) {
    const size_t n = (size_t)(n_in / DS4_QK);
    switch (form) {
    case MM_FORM_Q8: return mm_round_up(n * (DS4_QK + 16), MM_ALIGN);
    case MM_FORM_I16: return mm_round_up(n * (2 * DS4_QK + 4), MM_ALIGN);
    default: return 0;
    }
}

static inline mm_row mm_row_at(mm_form form, int64_t n_in, const uint8_t *prepared, int64_t r) {
    const int64_t n = n_in / DS4_QK;
    const uint8_t *p = prepared + (size_t)r * mm_row_bytes(form, n_in);
    const float *d = (const float *)(const void *)(p + n * DS4_QK * (form == MM_FORM_I16 ? 2 : 1));
    return (mm_row){(const int8_t *)p, d, d + n, d + 2 * n};
}

#endif
