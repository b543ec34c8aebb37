/* unpack_x86.h - quantised blocks of eight neighbouring outputs to bytes in registers.
 *
 * Every format but Q8_0 and IQ2_XXS is seen as x = d * u + m with u an unsigned code of at most 6 bits; where the format has a fixed
 * offset instead of a min, m is -offset * d. For eight rows w, w + rb, ... an unpack gives the codes of one run of 32:
 *
 *   lo[j] = elements 0-15 of output j | elements 0-15 of output j + 4       j = 0..3
 *   hi[j] = elements 16-31 of either
 *
 * and a scales gives d and m of the block's runs (or half runs) as vectors over the eight outputs.
 *
 * Scales of neighbouring outputs are collected by blending loads: a load that begins i elements before output i's scale
 * has it in lane i, at one instruction a scale. Rows of a tile follow each other, so that such a load begins within
 * an earlier row of the tile and ends within a later one, or within the last. */
#ifndef DS4_CPU_UNPACK_X86_H
#define DS4_CPU_UNPACK_X86_H

#include <immintrin.h>

#include "native/backends/cpu/matmul_impl.h"

typedef struct scales1 { __m256 d[1], m[1]; } scales1;    /* one block */
typedef struct scales16 { __m256 d[16], m[16]; } scales16; /* a K block: 8 runs or 16 half runs */

MM_INLINE __m128i load16(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

/* 16 bytes of output j and of output j + 4; p is the place in output 0. */
MM_INLINE __m256i load_pair(const uint8_t *p, size_t rb, int j) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p + (size_t)j * rb)), load16(p + (size_t)(j + 4) * rb), 1);
}

/* The 16-bit words at p, p + rb, ..., p + 7 rb. */
MM_INLINE __m128i gather8x16(const uint8_t *p, size_t rb) {
    __m128i v = load16(p);
    v = _mm_blend_epi16(v, load16(p + rb - 2), 1 << 1);
    v = _mm_blend_epi16(v, load16(p + 2 * rb - 4), 1 << 2);
    v = _mm_blend_epi16(v, load16(p + 3 * rb - 6), 1 << 3);
    v = _mm_blend_epi16(v, load16(p + 4 * rb - 8), 1 << 4);
    v = _mm_blend_epi16(v, load16(p + 5 * rb - 10), 1 << 5);
    v = _mm_blend_epi16(v, load16(p + 6 * rb - 12), 1 << 6);
    return _mm_blend_epi16(v, load16(p + 7 * rb - 14), 1 << 7);
}

MM_INLINE __m128i gather4x32(const uint8_t *p, size_t rb) {
    const __m128i a = _mm_blend_epi32(load16(p), load16(p + rb - 4), 1 << 1);
    const __m128i b = _mm_blend_epi32(load16(p + 2 * rb - 8), load16(p + 3 * rb - 12), 1 << 3);
    return _mm_blend_epi32(a, b, 0xc);
}

/* Two neighbouring f16 of each of eight outputs. */
MM_INLINE void gather_two_f16(const uint8_t *p, size_t rb, __m256 *first, __m256 *second) {
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(gather4x32(p, rb)), gather4x32(p + 4 * rb, rb), 1);
    const __m256i split = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3,
                                           6, 7, 10, 11, 14, 15);
    const __m256i sorted = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(both, split), 0xd8);
    *first = _mm256_cvtph_ps(_mm256_castsi256_si128(sorted));
    *second = _mm256_cvtph_ps(_mm256_extracti128_si256(sorted, 1));
}

MM_INLINE __m256 gather_f16(const uint8_t *p, size_t rb) { return _mm256_cvtph_ps(gather8x16(p, rb)); }

MM_INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
MM_INLINE __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

MM_INLINE void unpack_nibbles(const uint8_t *qs, size_t rb, __m256i lo[4], __m256i hi[4]) {
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const __m256i v = load_pair(qs, rb, j);
        lo[j] = low_nibbles(v);
        hi[j] = high_nibbles(v);
    }
}

/* Adds 16 where the element's bit of the 32-bit word qh is set. */
MM_INLINE void add_fifth_bits(const uint8_t *qh, size_t rb, __m256i lo[4], __m256i hi[4]) {
    const __m256i pick_lo = _mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101);
    const __m256i pick_hi = _mm256_setr_epi64x(0x0202020202020202, 0x0303030303030303, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    const __m256i sixteen = _mm256_set1_epi8(16);
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const __m256i word = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi32((int)ds4_load32(qh + (size_t)j * rb))),
                                                     _mm_set1_epi32((int)ds4_load32(qh + (size_t)(j + 4) * rb)), 1);
        const __m256i l = _mm256_and_si256(_mm256_shuffle_epi8(word, pick_lo), bit);
        const __m256i h = _mm256_and_si256(_mm256_shuffle_epi8(word, pick_hi), bit);
        lo[j] = _mm256_or_si256(lo[j], _mm256_and_si256(_mm256_cmpeq_epi8(l, bit), sixteen));
        hi[j] = _mm256_or_si256(hi[j], _mm256_and_si256(_mm256_cmpeq_epi8(h, bit), sixteen));
    }
}

/* ---- plain blocks ---- */

MM_INLINE void scales_offset(const uint8_t *w, size_t rb, float offset, scales1 *s) {
    s->d[0] = gather_f16(w, rb);
    s->m[0] = _mm256_mul_ps(s->d[0], _mm256_set1_ps(-offset));
}

MM_INLINE void scales_q4_0(const uint8_t *w, size_t rb, scales1 *s) { scales_offset(w, rb, 8, s); }
MM_INLINE void scales_q5_0(const uint8_t *w, size_t rb, scales1 *s) { scales_offset(w, rb, 16, s); }
MM_INLINE void scales_q4_1(const uint8_t *w, size_t rb, scales1 *s) { gather_two_f16(w, rb, &s->d[0], &s->m[0]); }
MM_INLINE void scales_q5_1(const uint8_t *w, size_t rb, scales1 *s) { gather_two_f16(w, rb, &s->d[0], &s->m[0]); }

MM_INLINE void unpack_q4_0(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    (void)t;
    unpack_nibbles(w + 2, rb, lo, hi);
}

MM_INLINE void unpack_q4_1(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    (void)t;
    unpack_nibbles(w + 4, rb, lo, hi);
}

MM_INLINE void unpack_q5_0(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    (void)t;
    unpack_nibbles(w + 6, rb, lo, hi);
    add_fifth_bits(w + 2, rb, lo, hi);
}

MM_INLINE void unpack_q5_1(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    (void)t;
    unpack_nibbles(w + 8, rb, lo, hi);
    add_fifth_bits(w + 4, rb, lo, hi);
}

/* MXFP4: twice the value of a code, plus 12, and half of the scale. Scales of 2^125 and more, whose products overflow in any
 * way of computing them, may give NaN here where a conversion to fp32 gives infinity. */
MM_INLINE void scales_mxfp4(const uint8_t *w, size_t rb, scales1 *s) {
    const __m256i e = _mm256_and_si256(_mm256_cvtepu16_epi32(gather8x16(w, rb)), _mm256_set1_epi32(0xff));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i bits = _mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e));
    s->d[0] = _mm256_castsi256_ps(bits);
    s->m[0] = _mm256_mul_ps(s->d[0], _mm256_set1_ps(-12));
}

MM_INLINE void unpack_mxfp4(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    (void)t;
    const __m256i code = _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0, 12, 13, 14, 15, 16, 18, 20, 24,
                                          12, 11, 10, 9, 8, 6, 4, 0);
    unpack_nibbles(w + 1, rb, lo, hi);
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        lo[j] = _mm256_shuffle_epi8(code, lo[j]);
        hi[j] = _mm256_shuffle_epi8(code, hi[j]);
    }
}

/* ---- K blocks ---- */

/* Columns c and c + 1 of eight rows of 16 bytes, for all c: 8 registers of two columns each. */
MM_INLINE void transpose_8x16(const uint8_t rows[8][16], __m128i columns[8]) {
    __m128i r[8], t[8], u[8];
    for (int i = 0; i < 8; i++) r[i] = load16(rows[i]);
    for (int i = 0; i < 4; i++) {
        t[i] = _mm_unpacklo_epi8(r[i], r[i + 4]);
        t[i + 4] = _mm_unpackhi_epi8(r[i], r[i + 4]);
    }
    for (int i = 0; i < 2; i++) {
        u[4 * i] = _mm_unpacklo_epi8(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = _mm_unpacklo_epi8(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 2] = _mm_unpackhi_epi8(t[4 * i], t[4 * i + 2]);
        u[4 * i + 3] = _mm_unpackhi_epi8(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        columns[2 * i] = _mm_unpacklo_epi8(u[2 * i], u[2 * i + 1]);
        columns[2 * i + 1] = _mm_unpackhi_epi8(u[2 * i], u[2 * i + 1]);
    }
}

MM_INLINE __m256 column(const __m128i columns[8], int c) {
    const __m128i two = columns[c / 2];
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c % 2 ? _mm_unpackhi_epi64(two, two) : two));
}

/* d of each half run, from signed scales; the codes are `offset` above the values. */
MM_INLINE void scales_signed(const uint8_t rows[8][16], __m256 d, float offset, scales16 *s) {
    __m128i columns[8];
    transpose_8x16(rows, columns);
    const __m256 down = _mm256_set1_ps(-offset);
    for (int c = 0; c < 16; c++) {
        s->d[c] = _mm256_mul_ps(d, column(columns, c));
        s->m[c] = _mm256_mul_ps(s->d[c], down);
    }
}

MM_INLINE void scales_q6_k(const uint8_t *w, size_t rb, scales16 *s) {
    uint8_t rows[8][16];
    for (int i = 0; i < 8; i++) memcpy(rows[i], w + (size_t)i * rb + 192, 16);
    scales_signed(rows, gather_f16(w + 208, rb), 32, s);
}

MM_INLINE void scales_q3_k(const uint8_t *w, size_t rb, scales16 *s) {
    uint8_t rows[8][16];
    for (int i = 0; i < 8; i++) ds4_unpack_scales_3k(w + (size_t)i * rb + 96, (int8_t *)rows[i]);
    scales_signed(rows, gather_f16(w + 108, rb), 4, s);
}

MM_INLINE void scales_q2_k(const uint8_t *w, size_t rb, scales16 *s) {
    uint8_t low[8][16], high[8][16];
    __m128i columns[8], min_columns[8];
    __m256 d, dmin;
    for (int i = 0; i < 8; i++) {
        const __m128i v = load16(w + (size_t)i * rb), mask = _mm_set1_epi8(15);
        _mm_storeu_si128((__m128i *)(void *)low[i], _mm_and_si128(v, mask));
        _mm_storeu_si128((__m128i *)(void *)high[i], _mm_and_si128(_mm_srli_epi16(v, 4), mask));
    }
    transpose_8x16(low, columns);
    transpose_8x16(high, min_columns);
    gather_two_f16(w + 80, rb, &d, &dmin);
    dmin = _mm256_sub_ps(_mm256_setzero_ps(), dmin);
    for (int c = 0; c < 16; c++) {
        s->d[c] = _mm256_mul_ps(d, column(columns, c));
        s->m[c] = _mm256_mul_ps(dmin, column(min_columns, c));
    }
}

MM_INLINE void scales_q4_k(const uint8_t *w, size_t rb, scales16 *s) {
    uint8_t rows[8][16];
    __m128i columns[8];
    __m256 d, dmin;
    for (int i = 0; i < 8; i++) ds4_unpack_scales_4k(w + (size_t)i * rb + 4, rows[i]);
    transpose_8x16(rows, columns);
    gather_two_f16(w, rb, &d, &dmin);
    dmin = _mm256_sub_ps(_mm256_setzero_ps(), dmin);
    for (int t = 0; t < 8; t++) {
        s->d[t] = _mm256_mul_ps(d, column(columns, t));
        s->m[t] = _mm256_mul_ps(dmin, column(columns, 8 + t));
    }
}

MM_INLINE void scales_q5_k(const uint8_t *w, size_t rb, scales16 *s) { scales_q4_k(w, rb, s); }

/* (v >> by) & mask in each byte; the mask has at most 8 - by bits. */
MM_INLINE __m256i field(__m256i v, int by, int mask) {
    return _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(by)), _mm256_set1_epi8((char)mask));
}

MM_INLINE void unpack_q4_k(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    const uint8_t *qs = w + 16 + 32 * (t / 2);
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        lo[j] = field(load_pair(qs, rb, j), 4 * (t % 2), 15);
        hi[j] = field(load_pair(qs + 16, rb, j), 4 * (t % 2), 15);
    }
}

MM_INLINE void unpack_q5_k(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    const uint8_t *qs = w + 48 + 32 * (t / 2), *qh = w + 16;
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const __m256i l = _mm256_slli_epi16(field(load_pair(qh, rb, j), t, 1), 4);
        const __m256i h = _mm256_slli_epi16(field(load_pair(qh + 16, rb, j), t, 1), 4);
        lo[j] = _mm256_or_si256(l, field(load_pair(qs, rb, j), 4 * (t % 2), 15));
        hi[j] = _mm256_or_si256(h, field(load_pair(qs + 16, rb, j), 4 * (t % 2), 15));
    }
}

MM_INLINE void unpack_q6_k(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    const int h = t / 4, i = t % 4;
    const uint8_t *ql = w + 64 * h + 32 * (i % 2), *qh = w + 128 + 32 * h;
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const __m256i l = _mm256_slli_epi16(field(load_pair(qh, rb, j), 2 * i, 3), 4);
        const __m256i u = _mm256_slli_epi16(field(load_pair(qh + 16, rb, j), 2 * i, 3), 4);
        lo[j] = _mm256_or_si256(l, field(load_pair(ql, rb, j), 4 * (i / 2), 15));
        hi[j] = _mm256_or_si256(u, field(load_pair(ql + 16, rb, j), 4 * (i / 2), 15));
    }
}

MM_INLINE void unpack_q2_k(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    const uint8_t *qs = w + 16 + 32 * (t / 4);
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        lo[j] = field(load_pair(qs, rb, j), 2 * (t % 4), 3);
        hi[j] = field(load_pair(qs + 16, rb, j), 2 * (t % 4), 3);
    }
}

MM_INLINE void unpack_q3_k(const uint8_t *w, size_t rb, int t, __m256i lo[4], __m256i hi[4]) {
    const uint8_t *qs = w + 32 + 32 * (t / 4);
    MM_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        const __m256i l = _mm256_slli_epi16(field(load_pair(w, rb, j), t, 1), 2);
        const __m256i h = _mm256_slli_epi16(field(load_pair(w + 16, rb, j), t, 1), 2);
        lo[j] = _mm256_or_si256(l, field(load_pair(qs, rb, j), 2 * (t % 4), 3));
        hi[j] = _mm256_or_si256(h, field(load_pair(qs + 16, rb, j), 2 * (t % 4), 3));
    }
}

#endif
