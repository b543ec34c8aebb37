/* dot_avx2.h - eight floats in a register, for gemm_f32.inc. */
#ifndef DS4_CPU_DOT_AVX2_H
#define DS4_CPU_DOT_AVX2_H

#include <immintrin.h>

#include "native/backends/cpu/matmul_impl.h"

#define VW 8
#define F32_DIRECT 1

typedef __m256 vf;

MM_INLINE vf vf_zero(void) { return _mm256_setzero_ps(); }
MM_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
MM_INLINE void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
MM_INLINE void vf_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }
MM_INLINE vf vf_fma(vf a, vf b, vf acc) { return _mm256_fmadd_ps(a, b, acc); }


/* Twelve sums, three activations and one weight are all of the sixteen registers: a compiler that converts the next weight
 * before it is done with this one spills a sum, and the sum then waits for memory in every turn of the loop. */
MM_INLINE void vf_settle(vf *v) { __asm__ volatile("" : "+x"(*v)); }

MM_INLINE vf vf_load_part(const float *p, int n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}

MM_INLINE vf vf_load_f16(const uint8_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }

MM_INLINE vf vf_load_bf16(const uint8_t *p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* Lane 4 to lane 0 first, then neighbours: ((0+4) + (1+5)) + ((2+6) + (3+7)). */
MM_INLINE void vf_reduce4(vf a, vf b, vf c, vf d, float out[4]) {
    const __m128 a4 = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 b4 = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 c4 = _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1));
    const __m128 d4 = _mm_add_ps(_mm256_castps256_ps128(d), _mm256_extractf128_ps(d, 1));
    _mm_storeu_ps(out, _mm_hadd_ps(_mm_hadd_ps(a4, b4), _mm_hadd_ps(c4, d4)));
}

#endif
