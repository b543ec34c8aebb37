/* gemm_q8_x86.h - integer dot products of 8-bit activations with unsigned codes of at most 6 bits, eight or sixteen
 * outputs at once: the parts that do not know a weight format.
 *
 * A block of 32 contributes to an output, in this order and with these roundings whichever kernel computes it,
 *
 *   acc = fma((float)sum_k(u q), d_w * d_x, acc);   acc = fma(m_w, sum_x, acc)
 *
 * (twice, for either half, where the format scales each 16). Blocks are taken in rising order and the integer sums are
 * exact, so an output has the same bits whatever the number of rows that share the product. For the same reason AVX2 and
 * AVX-512, which differ here only in how they add integers up, give the same bits. */
#ifndef DS4_CPU_GEMM_Q8_X86_H
#define DS4_CPU_GEMM_Q8_X86_H

#include <immintrin.h>

#include "native/backends/cpu/matmul_impl.h"

#if defined(__AVX512VNNI__)
#define WIDE 1 /* sixteen outputs in a register, and multiplications that add */
#else
#define WIDE 0
#endif

/* GEMM_ROWS: as many rows as the registers hold the sums of. */
enum { PANEL_OUTS = 16, PANEL_BLOCKS = 24, GEMM_ROWS = WIDE ? 6 : 3 };

/* An integer sum as it stands. Compilers know that integer additions can be reordered, and make of a running sum a tree
 * of products that do not fit the registers. */
#define KEEP_SUM(v) __asm__("" : "+x"(v))

MM_INLINE __m256i load_i(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

MM_INLINE __m256i broadcast_16_bytes(const int8_t *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}

MM_INLINE int32_t four_bytes(const int8_t *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return v;
}

MM_INLINE __m256i broadcast_4_bytes(const int8_t *p) { return _mm256_set1_epi32(four_bytes(p)); }

/* ---- few rows: a sum in each 128-bit half of p[j], of output j and of output j + 4; the eight of them in order ---- */

/* 16-bit parts of which four fit in 16 bits. */
MM_INLINE __m256i reduce_16(const __m256i p[4]) {
    const __m256i ab = _mm256_add_epi16(_mm256_unpacklo_epi16(p[0], p[1]), _mm256_unpackhi_epi16(p[0], p[1]));
    const __m256i cd = _mm256_add_epi16(_mm256_unpacklo_epi16(p[2], p[3]), _mm256_unpackhi_epi16(p[2], p[3]));
    const __m256i abcd = _mm256_add_epi16(_mm256_unpacklo_epi32(ab, cd), _mm256_unpackhi_epi32(ab, cd));
    const __m256i together = _mm256_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8, 9, 2, 3, 10, 11, 4,
                                              5, 12, 13, 6, 7, 14, 15);
    return _mm256_madd_epi16(_mm256_shuffle_epi8(abcd, together), _mm256_set1_epi16(1));
}

/* 32-bit parts. */
MM_INLINE __m256i reduce_32(const __m256i p[4]) {
    const __m256i ab = _mm256_add_epi32(_mm256_unpacklo_epi32(p[0], p[1]), _mm256_unpackhi_epi32(p[0], p[1]));
    const __m256i cd = _mm256_add_epi32(_mm256_unpacklo_epi32(p[2], p[3]), _mm256_unpackhi_epi32(p[2], p[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}

MM_INLINE __m256i widen(__m256i p) { return _mm256_madd_epi16(p, _mm256_set1_epi16(1)); }

/* The dot products of eight outputs with the 16 (half) or 32 activations of a run; bits is the width of a code. */
MM_INLINE __m256i dot_half(const int bits, const __m256i u[4], __m256i q) {
    __m256i p[4];
#if WIDE
    (void)bits;
    for (int j = 0; j < 4; j++) p[j] = _mm256_dpbusd_epi32(_mm256_setzero_si256(), u[j], q);
    return reduce_32(p);
#else
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) p[j] = _mm256_maddubs_epi16(u[j], q);
    if (bits <= 4) return reduce_16(p); /* 4 * 2 * 15 * 127 < 2^15 */
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) p[j] = widen(p[j]);
    return reduce_32(p);
#endif
}

MM_INLINE __m256i dot_run(const int bits, const __m256i lo[4], const __m256i hi[4], __m256i ql, __m256i qh) {
    __m256i p[4];
#if WIDE
    (void)bits;
    for (int j = 0; j < 4; j++)
        p[j] = _mm256_dpbusd_epi32(_mm256_dpbusd_epi32(_mm256_setzero_si256(), lo[j], ql), hi[j], qh);
    return reduce_32(p);
#else
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) /* 4 * 31 * 127 < 2^15 */
        p[j] = _mm256_add_epi16(_mm256_maddubs_epi16(lo[j], ql), _mm256_maddubs_epi16(hi[j], qh));
    if (bits <= 4) return reduce_16(p); /* 4 * 4 * 15 * 127 < 2^15 */
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) p[j] = widen(p[j]);
    return reduce_32(p);
#endif
}

MM_INLINE __m256 accumulate(__m256 acc, __m256i sum, __m256 d, const float *dx, __m256 m, const float *sum_x) {
    acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, _mm256_broadcast_ss(dx)), acc);
    return _mm256_fmadd_ps(m, _mm256_broadcast_ss(sum_x), acc);
}

/* dst[0..n) = or += v */
MM_INLINE void put8(__m256 v, int64_t n, mm_store store, float *dst) {
    if (n >= 8) {
        if (store == MM_STORE_ADD) v = _mm256_add_ps(_mm256_loadu_ps(dst), v);
        _mm256_storeu_ps(dst, v);
        return;
    }
    float t[8];
    _mm256_storeu_ps(t, v);
    for (int64_t o = 0; o < n; o++) dst[o] = store == MM_STORE_ADD ? dst[o] + t[o] : t[o];
}

/* ---- many rows: panels of sixteen outputs ----
 *
 * One block of a panel, halves = 1 or 2:
 *
 *   u8  codes[8][16][4]      elements 4 i .. 4 i + 3 of output o
 *   f32 d[halves][16]
 *   f32 m[halves][16]                                                                                                */

MM_INLINE size_t panel_block_bytes(const int halves) { return 512 + 128 * (size_t)halves; }

/* 4 x 4 dwords in each 128-bit half: from four dwords of each of four outputs to one dword of all, four times. */
MM_INLINE void store_transposed(const __m256i v[4], uint8_t *to, size_t stride) {
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    _mm256_store_si256((__m256i *)(void *)to, _mm256_unpacklo_epi64(a, c));
    _mm256_store_si256((__m256i *)(void *)(to + stride), _mm256_unpackhi_epi64(a, c));
    _mm256_store_si256((__m256i *)(void *)(to + 2 * stride), _mm256_unpacklo_epi64(b, d));
    _mm256_store_si256((__m256i *)(void *)(to + 3 * stride), _mm256_unpackhi_epi64(b, d));
}

/* Sums of the sixteen outputs. */
#if WIDE
typedef struct out16 { __m512 v; } out16;
MM_INLINE out16 out16_zero(void) { return (out16){_mm512_setzero_ps()}; }
MM_INLINE out16 out16_load(const float *p) { return (out16){_mm512_load_ps(p)}; }
MM_INLINE void out16_store(float *p, out16 a) { _mm512_store_ps(p, a.v); }
MM_INLINE void out16_put(out16 a, int64_t n, mm_store store, float *dst) {
    const __mmask16 mask = n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
    if (store == MM_STORE_ADD) a.v = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, dst), a.v);
    _mm512_mask_storeu_ps(dst, mask, a.v);
}
#else
typedef struct out16 { __m256 v[2]; } out16;
MM_INLINE out16 out16_zero(void) { return (out16){{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
MM_INLINE out16 out16_load(const float *p) { return (out16){{_mm256_load_ps(p), _mm256_load_ps(p + 8)}}; }
MM_INLINE void out16_store(float *p, out16 a) {
    _mm256_store_ps(p, a.v[0]);
    _mm256_store_ps(p + 8, a.v[1]);
}
MM_INLINE void out16_put(out16 a, int64_t n, mm_store store, float *dst) {
    put8(a.v[0], n, store, dst);
    if (n > 8) put8(a.v[1], n - 8, store, dst + 8);
}
#endif

/* rows (a constant, 1..GEMM_ROWS) of one panel over n blocks from block b0 of the rows on. */
#if WIDE
MM_INLINE void gemm_u(const int rows, const int halves, const int bits, const uint8_t *panel, int64_t n, const mm_row *x,
                      int64_t b0, out16 acc[GEMM_ROWS]) {
    (void)bits;
    for (int64_t b = 0; b < n; b++, panel += panel_block_bytes(halves)) {
        const float *scales = (const float *)(const void *)(panel + 512);
        MM_UNROLL(2)
        for (int h = 0; h < halves; h++) {
            __m512i sum[GEMM_ROWS];
            MM_UNROLL(8)
            for (int i = 0; i < 8 / halves; i++) {
                const int at = 8 / halves * h + i;
                const __m512i u = _mm512_load_si512(panel + 64 * at);
                MM_UNROLL(6)
                for (int r = 0; r < rows; r++)
                    sum[r] = _mm512_dpbusd_epi32(i == 0 ? _mm512_setzero_si512() : sum[r], u,
                                                 _mm512_set1_epi32(four_bytes(x[r].q + 32 * (b0 + b) + 4 * at)));
            }
            const __m512 d = _mm512_load_ps(scales + 16 * h), m = _mm512_load_ps(scales + 16 * (halves + h));
            MM_UNROLL(6)
            for (int r = 0; r < rows; r++) {
                const float sum_x = halves == 2 ? x[r].half[2 * (b0 + b) + h] : x[r].sum[b0 + b];
                acc[r].v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r]), _mm512_mul_ps(d, _mm512_set1_ps(x[r].d[b0 + b])), acc[r].v);
                acc[r].v = _mm512_fmadd_ps(m, _mm512_set1_ps(sum_x), acc[r].v);
            }
        }
    }
}
#else
MM_INLINE void gemm_u(const int rows, const int halves, const int bits, const uint8_t *panel, int64_t n, const mm_row *x,
                      int64_t b0, out16 acc[GEMM_ROWS]) {
    /* groups of 4 elements whose products can be added up in 16 bits */
    const int fit = bits <= 4 ? 8 : bits == 5 ? 4 : 2, group = halves == 2 ? (fit < 4 ? fit : 4) : fit;
    for (int64_t b = 0; b < n; b++, panel += panel_block_bytes(halves)) {
        const float *scales = (const float *)(const void *)(panel + 512);
        __m256i sum[GEMM_ROWS][2];
        MM_UNROLL(8)
        for (int g = 0; g < 8 / group; g++) {
            __m256i part[GEMM_ROWS][2];
            MM_UNROLL(8)
            for (int i = 0; i < group; i++) {
                const __m256i u0 = load_i(panel + 64 * (g * group + i)), u1 = load_i(panel + 64 * (g * group + i) + 32);
                MM_UNROLL(3)
                for (int r = 0; r < rows; r++) {
                    const __m256i q = broadcast_4_bytes(x[r].q + 32 * (b0 + b) + 4 * (g * group + i));
                    const __m256i p0 = _mm256_maddubs_epi16(u0, q), p1 = _mm256_maddubs_epi16(u1, q);
                    part[r][0] = i == 0 ? p0 : _mm256_add_epi16(part[r][0], p0);
                    part[r][1] = i == 0 ? p1 : _mm256_add_epi16(part[r][1], p1);
                    KEEP_SUM(part[r][0]);
                    KEEP_SUM(part[r][1]);
                }
            }
            const int per = 8 / group / halves; /* parts of one sum */
            MM_UNROLL(3)
            for (int r = 0; r < rows; r++) {
                MM_UNROLL(2)
                for (int v = 0; v < 2; v++) {
                    const __m256i wide = widen(part[r][v]);
                    sum[r][v] = g % per == 0 ? wide : _mm256_add_epi32(sum[r][v], wide);
                }
            }
            if (g % per == per - 1) {
                const int h = g / per;
                MM_UNROLL(2)
                for (int v = 0; v < 2; v++) {
                    const __m256 d = _mm256_load_ps(scales + 16 * h + 8 * v);
                    const __m256 m = _mm256_load_ps(scales + 16 * (halves + h) + 8 * v);
                    MM_UNROLL(3)
                    for (int r = 0; r < rows; r++)
                        acc[r].v[v] = accumulate(acc[r].v[v], sum[r][v], d, x[r].d + b0 + b, m,
                                               halves == 2 ? x[r].half + 2 * (b0 + b) + h : x[r].sum + b0 + b);
                }
            }
        }
    }
}
#endif

/* The same for signed weights of 8 bits, Q8_0 and IQ2_XXS, whose panel has 16-bit codes and no mins:
 *
 *   i16 codes[16][16][2]     elements 2 i, 2 i + 1 of output o
 *   f32 d[16]                                                                                                         */
MM_INLINE size_t panel_block_bytes_i16(void) { return 1024 + 64; }

/* 16 signed bytes of outputs j and j + 4, j = 0..3, to one half of such a panel's block. */
MM_INLINE void store_bytes_as_16(const __m256i q[4], uint8_t *to) {
    __m256i first[4], second[4]; /* elements 0-7 and 8-15 */
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const __m256i sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), q[j]);
        first[j] = _mm256_unpacklo_epi8(q[j], sign);
        second[j] = _mm256_unpackhi_epi8(q[j], sign);
    }
    store_transposed(first, to, 64);
    store_transposed(second, to + 256, 64);
}

#if WIDE
MM_INLINE void gemm_i16(const int rows, const uint8_t *panel, int64_t n, const mm_row *x, int64_t b0, out16 acc[GEMM_ROWS]) {
    for (int64_t b = 0; b < n; b++, panel += panel_block_bytes_i16()) {
        __m512i sum[GEMM_ROWS];
        MM_UNROLL(16)
        for (int i = 0; i < 16; i++) {
            const __m512i w = _mm512_load_si512(panel + 64 * i);
            MM_UNROLL(6)
            for (int r = 0; r < rows; r++)
                sum[r] = _mm512_dpwssd_epi32(i == 0 ? _mm512_setzero_si512() : sum[r], w,
                                             _mm512_set1_epi32(four_bytes(x[r].q + 64 * (b0 + b) + 4 * i)));
        }
        const __m512 d = _mm512_load_ps(panel + 1024);
        MM_UNROLL(6)
        for (int r = 0; r < rows; r++)
            acc[r].v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r]), _mm512_mul_ps(d, _mm512_set1_ps(x[r].d[b0 + b])), acc[r].v);
    }
}
#else
MM_INLINE void gemm_i16(const int rows, const uint8_t *panel, int64_t n, const mm_row *x, int64_t b0,
                        out16 acc[GEMM_ROWS]) {
    for (int64_t b = 0; b < n; b++, panel += panel_block_bytes_i16()) {
        __m256i sum[GEMM_ROWS][2];
        MM_UNROLL(16)
        for (int i = 0; i < 16; i++) {
            const __m256i w0 = load_i(panel + 64 * i), w1 = load_i(panel + 64 * i + 32);
            MM_UNROLL(3)
            for (int r = 0; r < rows; r++) {
                const __m256i q = broadcast_4_bytes(x[r].q + 64 * (b0 + b) + 4 * i);
                const __m256i p0 = _mm256_madd_epi16(w0, q), p1 = _mm256_madd_epi16(w1, q);
                sum[r][0] = i == 0 ? p0 : _mm256_add_epi32(sum[r][0], p0);
                sum[r][1] = i == 0 ? p1 : _mm256_add_epi32(sum[r][1], p1);
                KEEP_SUM(sum[r][0]);
                KEEP_SUM(sum[r][1]);
            }
        }
        const float *scales = (const float *)(const void *)(panel + 1024);
        const __m256 d0 = _mm256_load_ps(scales), d1 = _mm256_load_ps(scales + 8);
        MM_UNROLL(3)
        for (int r = 0; r < rows; r++) {
            const __m256 dx = _mm256_broadcast_ss(x[r].d + b0 + b);
            acc[r].v[0] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r][0]), _mm256_mul_ps(d0, dx), acc[r].v[0]);
            acc[r].v[1] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r][1]), _mm256_mul_ps(d1, dx), acc[r].v[1]);
        }
    }
}
#endif

/* rows rows from row r on against a packed panel of blocks [b0, b0 + n) of outputs o.. of the job. Sums go on from carry
 * (f32 [n_rows][16]) unless these are the first blocks, and to dst with the last. bits == 8: the signed panel. */
MM_INLINE void panel_rows(const int rows, const int halves, const int bits, const mm_job *job, int64_t r,
                          const uint8_t *panel, int64_t o, int64_t b0, int64_t n, float *carry) {
    const int64_t n_in = job->w->n_in;
    const bool first = b0 == 0, last = b0 + n == n_in / DS4_QK;
    const mm_form form = bits == 8 ? MM_FORM_I16 : MM_FORM_Q8;
    mm_row x[GEMM_ROWS];
    out16 acc[GEMM_ROWS];
    MM_UNROLL(6)
    for (int i = 0; i < rows; i++) {
        x[i] = mm_row_at(form, n_in, job->prepared, r + i);
        acc[i] = first ? out16_zero() : out16_load(carry + 16 * (r + i));
    }
    if (bits == 8)
        gemm_i16(rows, panel, n, x, b0, acc);
    else
        gemm_u(rows, halves, bits, panel, n, x, b0, acc);
    MM_UNROLL(6)
    for (int i = 0; i < rows; i++) {
        if (last)
            out16_put(acc[i], job->o1 - o, job->store, job->dst + (r + i) * job->dst_stride + o);
        else
            out16_store(carry + 16 * (r + i), acc[i]);
    }
}

MM_INLINE void panel_all_rows(const int halves, const int bits, const mm_job *job, const uint8_t *panel, int64_t o, int64_t b0,
                              int64_t n, float *carry) {
    int64_t r = 0;
    for (; r + GEMM_ROWS <= job->n_rows; r += GEMM_ROWS) panel_rows(GEMM_ROWS, halves, bits, job, r, panel, o, b0, n, carry);
    if (job->n_rows - r >= 3) {
        panel_rows(3, halves, bits, job, r, panel, o, b0, n, carry);
        r += 3;
    }
    if (job->n_rows - r == 2) panel_rows(2, halves, bits, job, r, panel, o, b0, n, carry);
    if (job->n_rows - r == 1) panel_rows(1, halves, bits, job, r, panel, o, b0, n, carry);
}

/* One body for each way to add up codes, shared by the formats. */
typedef void panel_kernel(const mm_job *job, const uint8_t *panel, int64_t o, int64_t b0, int64_t n, float *carry);

#define PANEL_KERNEL(name, halves, bits)                                                                               \
    static __attribute__((noinline)) void name(const mm_job *job, const uint8_t *panel, int64_t o, int64_t b0, int64_t n, \
                                               float *carry) {                                                          \
        panel_all_rows(halves, bits, job, panel, o, b0, n, carry);                                                      \
    }
PANEL_KERNEL(panel_4_bits, 1, 4)
PANEL_KERNEL(panel_5_bits, 1, 5)
PANEL_KERNEL(panel_3_bits_halves, 2, 3)
PANEL_KERNEL(panel_6_bits_halves, 2, 6)
PANEL_KERNEL(panel_8_bits, 1, 8)
#undef PANEL_KERNEL

MM_INLINE panel_kernel *panel_kernel_of(const int halves, const int bits) {
    if (halves == 2) return bits <= 3 ? panel_3_bits_halves : panel_6_bits_halves;
    return bits <= 4 ? panel_4_bits : panel_5_bits;
}

/* ---- what both sizes of product share ---- */

/* Rows are too short, and too many at once, for the processor to foresee the next tile; but the bytes of the next tile
 * follow this one's, so each block of this one asks for as many bytes of that. */
MM_INLINE void prefetch(const uint8_t *p, int bytes) {
    for (int i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + i, _MM_HINT_T0);
}

/* Scratch: a copy of the last, incomplete tile's rows | one panel piece | sums carried between pieces. */
typedef struct q8_scratch {
    uint8_t *rows, *panel;
    float *carry;
} q8_scratch;

static inline size_t q8_rows_bytes(const cpu_weight *w) { return mm_round_up(PANEL_OUTS * w->row_bytes, MM_ALIGN); }

static inline size_t q8_panel_bytes(const cpu_weight *w, size_t block_bytes) {
    return (size_t)mm_min(w->n_in / DS4_QK, PANEL_BLOCKS) * block_bytes;
}

static inline size_t q8_scratch_bytes(const cpu_weight *w, int32_t n_rows, size_t block_bytes) {
    const size_t carry = w->n_in / DS4_QK > PANEL_BLOCKS ? (size_t)n_rows * PANEL_OUTS * sizeof(float) : 0;
    return q8_rows_bytes(w) + q8_panel_bytes(w, block_bytes) + carry;
}

static inline q8_scratch q8_scratch_at(const cpu_weight *w, size_t block_bytes, uint8_t *base) {
    uint8_t *panel = base + q8_rows_bytes(w);
    return (q8_scratch){base, panel, (float *)(void *)(panel + q8_panel_bytes(w, block_bytes))};
}

/* The rows of `tile` outputs from o on. Where the job has fewer, they are copied and followed by zero rows, which stand
 * for zero weights in every format: a tile may then read anywhere in its rows. */
MM_INLINE const uint8_t *tile_rows(const mm_job *job, int64_t o, int64_t tile, const q8_scratch *s) {
    const cpu_weight *w = job->w;
    const uint8_t *from = w->data + (size_t)o * w->row_bytes;
    const int64_t n = job->o1 - o;
    if (n >= tile) return from;
    memcpy(s->rows, from, (size_t)n * w->row_bytes);
    memset(s->rows + (size_t)n * w->row_bytes, 0, (size_t)(tile - n) * w->row_bytes);
    return s->rows;
}

#endif
