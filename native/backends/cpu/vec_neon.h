/* vec_neon.h - the vector vocabulary of kernels.inc on aarch64: 4 lanes, fused multiply-add. */
#ifndef DS4_CPU_VEC_H
#define DS4_CPU_VEC_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define VEC_NAME "neon"
#define VW 4
#define VEC_MR 4
#define VEC_NV 4

typedef float32x4_t vf;

static inline vf v_load(const float *p) { return vld1q_f32(p); }
static inline void v_store(float *p, vf x) { vst1q_f32(p, x); }
static inline vf v_set(float x) { return vdupq_n_f32(x); }
static inline vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
/* A number wins over a NaN, as the first operand of x86's max loses when it is one. */
static inline vf v_max(vf a, vf b) { return vmaxnmq_f32(a, b); }
static inline vf v_min(vf a, vf b) { return vminnmq_f32(a, b); }
static inline vf v_keep_ge(vf x, vf t, vf y)
{
    return vreinterpretq_f32_u32(vandq_u32(vcgeq_f32(x, t), vreinterpretq_u32_f32(y)));
}
static inline vf v_round(vf x) { return vrndnq_f32(x); }
static inline vf v_pow2(vf n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}
static inline float v_sum(vf x) { return vaddvq_f32(x); }
static inline float v_maxall(vf x) { return vmaxnmvq_f32(x); }
static inline vf v_swap_pairs(vf x) { return vrev64q_f32(x); }
static inline vf v_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline void v_store_f16(uint16_t *p, vf x) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
static inline vf v_load_i8(const int8_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    int8x8_t b = vreinterpret_s8_s32(vdup_n_s32(word));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(b))));
}

#endif
