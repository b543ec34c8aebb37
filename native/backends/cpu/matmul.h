/* matmul.h - the CPU backend's matrix products, apart from its pool and programs.
 *
 * A product runs in two stages. First the activations are prepared (copied, or quantised, into a form that the kernels
 * want): rows are independent, so threads share them by row. After a barrier, threads take ranges of outputs ("grains")
 * in any order. Neither the number of threads nor the order of grains changes a bit of the result; nor, in either numeric
 * mode, does the number of rows that share the product, so prefill in any chunking and batched decode agree to the bit. */
#ifndef DS4_CPU_MATMUL_H
#define DS4_CPU_MATMUL_H

#include "native/bridge/ds4_bridge.h"

typedef struct cpu_weight {
    int32_t type;      /* ds4_type */
    int64_t n_out;     /* rows of W */
    int64_t n_in;      /* cols of W */
    size_t row_bytes;
    const uint8_t *data; /* mapped; row o at data + o * row_bytes; no alignment beyond that of the file is promised */
} cpu_weight;

/* How x is prepared. Chosen from (weight type, n_rows, numeric, kernels); weights that share an input and a form share
 * its preparation. */
typedef enum mm_form {
    MM_FORM_F32 = 0, /* as it is: mm_run reads x itself, nothing to prepare */
    MM_FORM_Q8 = 1,  /* blocks of 32 int8 with an fp32 scale (and sums) */
    MM_FORM_I16 = 2  /* the same integers as int16: packed panels of Q8_0 weights, many rows */
} mm_form;

typedef enum mm_store { MM_STORE_SET = 0, MM_STORE_ADD = 1 } mm_store;

typedef struct mm_kernels mm_kernels; /* one set of instruction-set variants */

/* The best set for this processor, or the named one ("portable", "avx2", "avx512", "neon"); NULL if it cannot run here. */
const mm_kernels *mm_kernels_find(const char *name);
const char *mm_kernels_name(const mm_kernels *k);

mm_form mm_choose(const mm_kernels *k, int32_t type, int64_t n_in, int32_t n_rows, int32_t numeric);

/* Bytes that n_rows prepared rows of n_in take in a form (0 for F32); 64-byte aligned memory is to be passed. */
size_t mm_prepared_bytes(mm_form form, int64_t n_in, int32_t n_rows);

/* Prepares rows [r0, r1) of x into `prepared` (the whole step's area). */
void mm_prepare(const mm_kernels *k, mm_form form, const float *x, int64_t stride, int64_t n_in, int32_t r0, int32_t r1,
                void *prepared);

/* Outputs that one grain should have, a multiple of 16 where n_out is larger; and the scratch bytes a thread needs. */
int64_t mm_grain(const mm_kernels *k, const cpu_weight *w, mm_form form, int32_t n_rows, int32_t n_threads);
size_t mm_scratch_bytes(const mm_kernels *k, const cpu_weight *w, mm_form form, int32_t n_rows);

/* dst[r * dst_stride + o] = or += sum_k W[o, k] x[r, k] for o in [o0, o1), r in [0, n_rows). dst points at output 0 of row
 * 0. scratch: thread-private, 64-byte aligned. */
void mm_run(const mm_kernels *k, const cpu_weight *w, mm_form form, const float *x, int64_t x_stride, const void *prepared,
            int32_t n_rows, int64_t o0, int64_t o1, float *dst, int64_t dst_stride, mm_store store, void *scratch);

#endif
