/* dot_avx512.h - sixteen floats in a register, for gemm_f32.inc. */
#ifndef DS4_CPU_DOT_AVX512_H
#define DS4_CPU_DOT_AVX512_H

#include <immintrin.h>

#include "native/backends/cpu/matmul_impl.h"

#define VW 16
#define F32_DIRECT 1

typedef __m512 vf;

MM_INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
MM_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
MM_INLINE void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
MM_INLINE void vf_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }
MM_INLINE vf vf_fma(vf a, vf b, vf acc) { return _mm512_fmadd_ps(a, b, acc); }
MM_INLINE void vf_settle(vf *v) { (void)v; }
MM_INLINE vf vf_load_part(const float *p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }

MM_INLINE vf vf_load_f16(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }

MM_INLINE vf vf_load_bf16(const uint8_t *p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* Lane 8 to lane 0 first, then lane 4, then neighbours. */
MM_INLINE __m128 fold(vf v) {
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

MM_INLINE void vf_reduce4(vf a, vf b, vf c, vf d, float out[4]) {
    _mm_storeu_ps(out, _mm_hadd_ps(_mm_hadd_ps(fold(a), fold(b)), _mm_hadd_ps(fold(c), fold(d))));
}

#endif
