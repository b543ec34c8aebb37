/* gemm_iq2_x86.h - products with IQ2_XXS: rows of a grid of magnitudes, signed.
 *
 * A sign moves from the weight to the activation, as with Q8_0, so that the integer sums are those of signed weights and
 * a run has no min: acc = fma((float)sum_k(w q), d_w * d_x, acc), runs in rising order, whatever the number of rows. Many
 * rows take the panel of Q8_0, whose 16-bit codes hold any signed byte.
 *
 * The signs of eight outputs are completed in one register: for each run a dword of each output, which is also how a
 * shuffle wants to have them, as outputs j and j + 4 lie in the same place of its two halves. */
#ifndef DS4_CPU_GEMM_IQ2_X86_H
#define DS4_CPU_GEMM_IQ2_X86_H

#include "native/backends/cpu/gemm_q8_x86.h"
#include "native/backends/cpu/unpack_x86.h"
#include "native/quant/iq2_tables.h"

/* IQ2_FEW: up to so many rows, looking rows of the grid up again for every two is faster than packing a panel. */
enum { IQ2_BYTES_OF_BLOCK = 66, IQ2_RUNS = 8, IQ2_FEW = 3 };

/* A run of eight outputs: a bit for each sign, and d (0.5 + s) 0.25. */
typedef struct iq2_run {
    __m256i signs;
    __m256 scale;
} iq2_run;

MM_INLINE __m256i gather8x32(const uint8_t *p, size_t rb) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(gather4x32(p, rb)), gather4x32(p + 4 * rb, rb), 1);
}

/* ds4_iq2_signs of eight words: each sign's eighth bit makes their number even. */
MM_INLINE __m256i iq2_signs(__m256i word) {
    const __m256i seven = _mm256_or_si256(
        _mm256_or_si256(_mm256_and_si256(word, _mm256_set1_epi32(0x7f)),
                        _mm256_and_si256(_mm256_slli_epi32(word, 1), _mm256_set1_epi32(0x7f00))),
        _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi32(word, 2), _mm256_set1_epi32(0x7f0000)),
                        _mm256_and_si256(_mm256_slli_epi32(word, 3), _mm256_set1_epi32(0x7f000000))));
    /* 0x80 where a nibble has an odd number of bits */
    const __m256i odd = _mm256_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0, 0, -128, -128,
                                         0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0);
    const __m256i parity = _mm256_xor_si256(_mm256_shuffle_epi8(odd, low_nibbles(seven)),
                                            _mm256_shuffle_epi8(odd, high_nibbles(seven)));
    return _mm256_or_si256(seven, parity);
}

MM_INLINE iq2_run iq2_run_at(const uint8_t *run, size_t rb, __m256 d) {
    const __m256i word = gather8x32(run + 4, rb);
    const __m256 s = _mm256_add_ps(_mm256_set1_ps(0.5f), _mm256_cvtepi32_ps(_mm256_srli_epi32(word, 28)));
    return (iq2_run){iq2_signs(word), _mm256_mul_ps(_mm256_mul_ps(d, s), _mm256_set1_ps(0.25f))};
}

MM_INLINE __m128i iq2_two_rows(uint32_t first, uint32_t second) {
    const __m128i row = _mm_loadl_epi64((const __m128i *)(const void *)(iq2_xxs_grid + first));
    return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(row), (const __m64 *)(const void *)(iq2_xxs_grid + second)));
}

/* Magnitudes as unpack_x86.h lays them: lo of outputs j and j + 4, and hi. */
MM_INLINE void iq2_magnitudes(const uint8_t *run, size_t rb, int j, __m256i *lo, __m256i *hi) {
    const uint8_t *a = run + (size_t)j * rb, *b = run + (size_t)(j + 4) * rb;
    *lo = _mm256_inserti128_si256(_mm256_castsi128_si256(iq2_two_rows(a[0], a[1])), iq2_two_rows(b[0], b[1]), 1);
    *hi = _mm256_inserti128_si256(_mm256_castsi128_si256(iq2_two_rows(a[2], a[3])), iq2_two_rows(b[2], b[3]), 1);
}

/* A byte above or below zero for each of the 16 elements whose signs begin at byte `at` of outputs j and j + 4: what is added
 * to a bit takes it to the sign of the byte, and leaves no zero. */
MM_INLINE __m256i iq2_direction(__m256i signs, int j, int at) {
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const char first = (char)(4 * j + at), second = (char)(4 * j + at + 1);
    const __m256i pick = _mm256_setr_epi8(first, first, first, first, first, first, first, first, second, second, second, second,
                                          second, second, second, second, first, first, first, first, first, first, first, first,
                                          second, second, second, second, second, second, second, second);
    const __m256i carry = _mm256_set1_epi64x(0x01406070787c7e7f);
    return _mm256_add_epi8(_mm256_and_si256(_mm256_shuffle_epi8(signs, pick), bit), carry);
}

/* rows (1 or 2) by the eight outputs at w. */
MM_INLINE void gemv_rows_iq2_xxs(const int rows, const mm_job *job, const uint8_t *w, int64_t r, int64_t o) {
    const size_t rb = job->w->row_bytes;
    const int64_t blocks = job->w->n_in / DS4_QK_K;
    mm_row x[2];
    __m256 acc[2];
    MM_UNROLL(2)
    for (int i = 0; i < rows; i++) {
        x[i] = mm_row_at(MM_FORM_Q8, job->w->n_in, job->prepared, r + i);
        acc[i] = _mm256_setzero_ps();
    }
    for (int64_t b = 0; b < blocks; b++, w += IQ2_BYTES_OF_BLOCK) {
        const __m256 d = gather_f16(w, rb);
        prefetch(w + 8 * rb + 7 * b * IQ2_BYTES_OF_BLOCK, 8 * IQ2_BYTES_OF_BLOCK);
        for (int t = 0; t < IQ2_RUNS; t++) {
            const int64_t at = b * IQ2_RUNS + t;
            const uint8_t *codes = w + 2 + 8 * t;
            const iq2_run run = iq2_run_at(codes, rb, d);
            __m256i sum[2][4];
            MM_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                __m256i lo, hi;
                iq2_magnitudes(codes, rb, j, &lo, &hi);
                const __m256i lo_sign = iq2_direction(run.signs, j, 0), hi_sign = iq2_direction(run.signs, j, 2);
                MM_UNROLL(2)
                for (int i = 0; i < rows; i++) {
                    const __m256i ql = _mm256_sign_epi8(broadcast_16_bytes(x[i].q + 32 * at), lo_sign);
                    const __m256i qh = _mm256_sign_epi8(broadcast_16_bytes(x[i].q + 32 * at + 16), hi_sign);
                    /* 4 * 43 * 127 < 2^15 */
                    sum[i][j] = widen(_mm256_add_epi16(_mm256_maddubs_epi16(lo, ql), _mm256_maddubs_epi16(hi, qh)));
                }
            }
            MM_UNROLL(2)
            for (int i = 0; i < rows; i++)
                acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(reduce_32(sum[i])),
                                         _mm256_mul_ps(run.scale, _mm256_broadcast_ss(x[i].d + at)), acc[i]);
        }
    }
    MM_UNROLL(2)
    for (int i = 0; i < rows; i++) put8(acc[i], job->o1 - o, job->store, job->dst + (r + i) * job->dst_stride + o);
}

static void gemv_iq2_xxs(const mm_job *job, const q8_scratch *scratch) {
    for (int64_t o = job->o0; o < job->o1; o += 8) {
        const uint8_t *w = tile_rows(job, o, 8, scratch);
        int64_t r = 0;
        for (; r + 2 <= job->n_rows; r += 2) gemv_rows_iq2_xxs(2, job, w, r, o);
        if (r < job->n_rows) gemv_rows_iq2_xxs(1, job, w, r, o);
    }
}

/* Runs [b0, b0 + n) of sixteen outputs to a panel of 16-bit codes; b0 is a whole number of blocks. */
static void pack_iq2_xxs(const uint8_t *w, size_t rb, int64_t b0, int64_t n, uint8_t *panel) {
    for (int v = 0; v < 2; v++, w += 8 * rb) {
        uint8_t *to = panel + 32 * v;
        for (int64_t b = b0 / IQ2_RUNS; b < (b0 + n) / IQ2_RUNS; b++) {
            const uint8_t *block = w + b * IQ2_BYTES_OF_BLOCK;
            const __m256 d = gather_f16(block, rb);
            prefetch(w + PANEL_OUTS * rb + 8 * b * IQ2_BYTES_OF_BLOCK, 8 * IQ2_BYTES_OF_BLOCK);
            for (int t = 0; t < IQ2_RUNS; t++, to += panel_block_bytes_i16()) {
                const uint8_t *codes = block + 2 + 8 * t;
                const iq2_run run = iq2_run_at(codes, rb, d);
                __m256i half[2][4];
                MM_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    iq2_magnitudes(codes, rb, j, &half[0][j], &half[1][j]);
                    MM_UNROLL(2)
                    for (int h = 0; h < 2; h++)
                        half[h][j] = _mm256_sign_epi8(half[h][j], iq2_direction(run.signs, j, 2 * h));
                }
                store_bytes_as_16(half[0], to);
                store_bytes_as_16(half[1], to + 512);
                _mm256_store_ps((float *)(void *)(to + 1024), run.scale);
            }
        }
    }
}

static void gemm_iq2_xxs(const mm_job *job, const q8_scratch *scratch) {
    const int64_t blocks = job->w->n_in / DS4_QK;
    for (int64_t o = job->o0; o < job->o1; o += PANEL_OUTS) {
        const uint8_t *w = tile_rows(job, o, PANEL_OUTS, scratch);
        for (int64_t b0 = 0; b0 < blocks; b0 += PANEL_BLOCKS) {
            const int64_t n = mm_min(PANEL_BLOCKS, blocks - b0);
            pack_iq2_xxs(w, job->w->row_bytes, b0, n, scratch->panel);
            panel_8_bits(job, scratch->panel, o, b0, n, scratch->carry);
        }
    }
}

#endif
