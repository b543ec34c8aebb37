/* matmul_avx2.c - the kernel set for AVX2, FMA and F16C. */
#include <stdbool.h>

#include "native/backends/cpu/gemm_q8_avx2.h"
#include "native/backends/cpu/unpack_avx2.h"
#include "native/backends/cpu/dot_avx2.h"

#include "native/backends/cpu/gemm_f32.inc"

#define Q q4_0
#define Q_SCALES scales1
#define Q_BYTES 18
#define Q_RUNS 1
#define Q_HALVES 1
#define Q_BITS 4
#define Q_FEW 5
#include "native/backends/cpu/gemm_q8.inc"

#define Q q4_1
#define Q_SCALES scales1
#define Q_BYTES 20
#define Q_RUNS 1
#define Q_HALVES 1
#define Q_BITS 4
#define Q_FEW 5
#include "native/backends/cpu/gemm_q8.inc"

#define Q q5_0
#define Q_SCALES scales1
#define Q_BYTES 22
#define Q_RUNS 1
#define Q_HALVES 1
#define Q_BITS 5
#define Q_FEW 5
#include "native/backends/cpu/gemm_q8.inc"

#define Q q5_1
#define Q_SCALES scales1
#define Q_BYTES 24
#define Q_RUNS 1
#define Q_HALVES 1
#define Q_BITS 5
#define Q_FEW 5
#include "native/backends/cpu/gemm_q8.inc"

#define Q q2_k
#define Q_SCALES scales16
#define Q_BYTES 84
#define Q_RUNS 8
#define Q_HALVES 2
#define Q_BITS 2
#define Q_FEW 5
#include "native/backends/cpu/gemm_q8.inc"

#define Q q3_k
#define Q_SCALES scales16
#define Q_BYTES 110
#define Q_RUNS 8
#define Q_HALVES 2
#define Q_BITS 3
#define Q_FEW 5
#include "native/backends/cpu/gemm_q8.inc"

#define Q q4_k
#define Q_SCALES scales16
#define Q_BYTES 144
#define Q_RUNS 8
#define Q_HALVES 1
#define Q_BITS 4
#define Q_FEW 5
#include "native/backends/cpu/gemm_q8.inc"

#define Q q5_k
#define Q_SCALES scales16
#define Q_BYTES 176
#define Q_RUNS 8
#define Q_HALVES 1
#define Q_BITS 5
#define Q_FEW 5
#include "native/backends/cpu/gemm_q8.inc"

#define Q q6_k
#define Q_SCALES scales16
#define Q_BYTES 210
#define Q_RUNS 8
#define Q_HALVES 2
#define Q_BITS 6
#define Q_FEW 5
#include "native/backends/cpu/gemm_q8.inc"

/* ---- Q8_0: signed weights of 8 bits ---- */

enum { Q8_0_BYTES = 34, Q8_0_FEW = 8 };

/* |w| times q with w's sign: 2 * 128 * 127 < 2^15. */
MM_INLINE __m256i dot_signed(__m256i magnitude, __m256i w, __m256i q) {
    return widen(_mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(q, w)));
}

MM_INLINE void gemv_rows_q8_0(const int rows, const mm_job *job, const uint8_t *w, int64_t r, int64_t o) {
    const size_t rb = job->w->row_bytes;
    const int64_t blocks = job->w->n_in / DS4_QK;
    mm_row x[4];
    __m256 acc[4];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        x[i] = mm_row_at(MM_FORM_Q8, job->w->n_in, job->prepared, r + i);
        acc[i] = _mm256_setzero_ps();
    }
    for (int64_t b = 0; b < blocks; b++, w += Q8_0_BYTES) {
        const __m256 d = gather_f16(w, rb);
        __m256i sum[4][4];
        for (int i = 0; i < 8 * Q8_0_BYTES; i += 64)
            _mm_prefetch((const char *)w + 8 * rb + 7 * b * Q8_0_BYTES + i, _MM_HINT_T0);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const __m256i lo = load_pair(w + 2, rb, j), hi = load_pair(w + 18, rb, j);
            const __m256i lo_abs = _mm256_abs_epi8(lo), hi_abs = _mm256_abs_epi8(hi);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                sum[i][j] = _mm256_add_epi32(dot_signed(lo_abs, lo, broadcast_16_bytes(x[i].q + 32 * b)),
                                             dot_signed(hi_abs, hi, broadcast_16_bytes(x[i].q + 32 * b + 16)));
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(reduce_32(sum[i])),
                                     _mm256_mul_ps(d, _mm256_broadcast_ss(x[i].d + b)), acc[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) put8(acc[i], job->o1 - o, job->store, job->dst + (r + i) * job->dst_stride + o);
}

static void gemv_q8_0(const mm_job *job, const q8_scratch *scratch) {
    for (int64_t o = job->o0; o < job->o1; o += 8) {
        const uint8_t *w = tile_rows(job, o, 8, scratch);
        int64_t r = 0;
        for (; r + 2 <= job->n_rows; r += 2) gemv_rows_q8_0(2, job, w, r, o);
        if (r < job->n_rows) gemv_rows_q8_0(1, job, w, r, o);
    }
}

static void pack_q8_0(const uint8_t *w, size_t rb, int64_t b0, int64_t n, uint8_t *panel) {
    for (int v = 0; v < 2; v++, w += 8 * rb) {
        const uint8_t *block = w + b0 * Q8_0_BYTES;
        uint8_t *to = panel + 32 * v;
        for (int64_t b = 0; b < n; b++, block += Q8_0_BYTES, to += panel_block_bytes_i16()) {
            for (int h = 0; h < 2; h++) {
                __m256i first[4], second[4]; /* elements 0-7 and 8-15 of the half run */
                for (int j = 0; j < 4; j++) {
                    const __m256i q = load_pair(block + 2 + 16 * h, rb, j);
                    const __m256i sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), q);
                    first[j] = _mm256_unpacklo_epi8(q, sign);
                    second[j] = _mm256_unpackhi_epi8(q, sign);
                }
                store_transposed(first, to + 512 * h, 64);
                store_transposed(second, to + 512 * h + 256, 64);
            }
            _mm256_store_ps((float *)(void *)(to + 1024), gather_f16(block, rb));
        }
    }
}

static void gemm_q8_0(const mm_job *job, const q8_scratch *scratch) {
    const int64_t blocks = job->w->n_in / DS4_QK;
    for (int64_t o = job->o0; o < job->o1; o += PANEL_OUTS) {
        const uint8_t *w = tile_rows(job, o, PANEL_OUTS, scratch);
        for (int64_t b0 = 0; b0 < blocks; b0 += PANEL_BLOCKS) {
            const int64_t n = mm_min(PANEL_BLOCKS, blocks - b0);
            pack_q8_0(w, job->w->row_bytes, b0, n, scratch->panel);
            panel_all_rows(1, 8, job, scratch->panel, o, b0, n, scratch->carry);
        }
    }
}

/* ---- the set ---- */

/* Integer dot products for integer weights. Q8_0 with many rows wants its activations in 16 bits; the other formats read
 * the same 8-bit rows whatever their number. */
static mm_form choose(int32_t type, int64_t n_in, int32_t n_rows) {
    (void)n_in;
    switch (type) {
    case DS4_TYPE_F32:
    case DS4_TYPE_F16:
    case DS4_TYPE_BF16: return MM_FORM_F32;
    case DS4_TYPE_Q8_0: return n_rows <= Q8_0_FEW ? MM_FORM_Q8 : MM_FORM_I16;
    default: return MM_FORM_Q8;
    }
}

static void prepare(mm_form form, const float *x, int64_t n_in, uint8_t *row) {
    const mm_row to = mm_row_at(form, n_in, row, 0);
    int8_t *q = (int8_t *)to.q;
    float *d = (float *)to.d, *sum = (float *)to.sum, *half = (float *)to.half;
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (int64_t b = 0; b < n_in / DS4_QK; b++, x += DS4_QK) {
        __m256 v[4], top = _mm256_setzero_ps();
        for (int i = 0; i < 4; i++) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            top = _mm256_max_ps(top, _mm256_andnot_ps(sign, v[i]));
        }
        __m128 t = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
        t = _mm_max_ps(t, _mm_movehl_ps(t, t));
        t = _mm_max_ss(t, _mm_movehdup_ps(t));
        const float absmax = _mm_cvtss_f32(t);
        /* Below 2^-110 the quotient could overflow: such a block is zero. */
        const float scale = absmax > 0x1p-110f ? 127.0f / absmax : 0.0f;
        __m256i wide[4];
        for (int i = 0; i < 4; i++) wide[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(scale)));
        d[b] = scale != 0 ? absmax / 127.0f : 0.0f;
        /* packs works in 128-bit halves: dwords come out as 0 2 1 3 of each pair */
        const __m256i a = _mm256_permute4x64_epi64(_mm256_packs_epi32(wide[0], wide[1]), 0xd8);
        const __m256i c = _mm256_permute4x64_epi64(_mm256_packs_epi32(wide[2], wide[3]), 0xd8);
        if (form == MM_FORM_I16) {
            _mm256_storeu_si256((__m256i *)(void *)(q + 64 * b), a);
            _mm256_storeu_si256((__m256i *)(void *)(q + 64 * b + 32), c);
            continue;
        }
        _mm256_storeu_si256((__m256i *)(void *)(q + 32 * b), _mm256_permute4x64_epi64(_mm256_packs_epi16(a, c), 0xd8));
        __m256i s = _mm256_hadd_epi32(widen(a), widen(c)); /* a a c c | a a c c */
        s = _mm256_hadd_epi32(s, s);                       /* a c a c | a c a c */
        const __m128i halves = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
        const int32_t first = _mm_cvtsi128_si32(halves), second = _mm_extract_epi32(halves, 1);
        half[2 * b] = d[b] * (float)first;
        half[2 * b + 1] = d[b] * (float)second;
        sum[b] = d[b] * (float)(first + second);
    }
}

static size_t scratch(const cpu_weight *w, mm_form form, int32_t n_rows) {
    switch (form) {
    case MM_FORM_F32: return scratch_f32(w, n_rows);
    case MM_FORM_I16: return q8_scratch_bytes(w, n_rows, panel_block_bytes_i16());
    default: return q8_scratch_bytes(w, n_rows, panel_block_bytes(2));
    }
}

static void run(mm_form form, const mm_job *job) {
    if (form == MM_FORM_F32) {
        run_f32(job);
        return;
    }
    switch (job->w->type) {
    case DS4_TYPE_Q4_0: run_q4_0(job); break;
    case DS4_TYPE_Q4_1: run_q4_1(job); break;
    case DS4_TYPE_Q5_0: run_q5_0(job); break;
    case DS4_TYPE_Q5_1: run_q5_1(job); break;
    case DS4_TYPE_Q2_K: run_q2_k(job); break;
    case DS4_TYPE_Q3_K: run_q3_k(job); break;
    case DS4_TYPE_Q4_K: run_q4_k(job); break;
    case DS4_TYPE_Q5_K: run_q5_k(job); break;
    case DS4_TYPE_Q6_K: run_q6_k(job); break;
    case DS4_TYPE_Q8_0: {
        const q8_scratch s = q8_scratch_at(job->w, panel_block_bytes_i16(), job->scratch);
        if (form == MM_FORM_Q8)
            gemv_q8_0(job, &s);
        else
            gemm_q8_0(job, &s);
        break;
    }
    default: break;
    }
}

const mm_kernels ds4_mm_avx2 = {"avx2", choose, prepare, scratch, run};
