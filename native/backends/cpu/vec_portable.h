/* vec_portable.h - the vector vocabulary of kernels.inc in the compiler's own vectors: 4 lanes, no fused multiply-add. */
#ifndef DS4_CPU_VEC_H
#define DS4_CPU_VEC_H

#include "native/quant/quant.h"

#include <stdint.h>
#include <string.h>

#define VEC_NAME "portable"
#define VW 4    /* lanes */
#define VEC_MR 3 /* rows and vectors of a register block: MR * NV sums, MR factors and one vector fit the registers */
#define VEC_NV 4

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi_ __attribute__((vector_size(16)));

static inline vf v_load(const float *p) { vf x; memcpy(&x, p, sizeof x); return x; }
static inline void v_store(float *p, vf x) { memcpy(p, &x, sizeof x); }
static inline vf v_set(float x) { return (vf){x, x, x, x}; }
static inline vf v_add(vf a, vf b) { return a + b; }
static inline vf v_sub(vf a, vf b) { return a - b; }
static inline vf v_mul(vf a, vf b) { return a * b; }
static inline vf v_div(vf a, vf b) { return a / b; }
static inline vf v_fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf v_pick_(vi_ m, vf a, vf b) { return (vf)((m & (vi_)a) | (~m & (vi_)b)); }
static inline vf v_max(vf a, vf b) { return v_pick_(a > b, a, b); }
static inline vf v_min(vf a, vf b) { return v_pick_(a < b, a, b); }
/* y where x >= t, else 0 */
static inline vf v_keep_ge(vf x, vf t, vf y) { return (vf)((x >= t) & (vi_)y); }
/* To the nearest integer, ties to even; |x| < 2^22. */
static inline vf v_round(vf x)
{
    const vf magic = v_set(12582912.0f);
    return (x + magic) - magic;
}
/* 2^n of integral n in [-126, 127] */
static inline vf v_pow2(vf n) { return (vf)((__builtin_convertvector(n, vi_) + 127) << 23); }
static inline float v_sum(vf x) { return (x[0] + x[2]) + (x[1] + x[3]); }
static inline float v_maxall(vf x)
{
    float a = x[0] > x[2] ? x[0] : x[2], b = x[1] > x[3] ? x[1] : x[3];
    return a > b ? a : b;
}
static inline vf v_swap_pairs(vf x) { return (vf){x[1], x[0], x[3], x[2]}; }

static inline vf v_load_f16(const uint16_t *p)
{
    vi_ h = {p[0], p[1], p[2], p[3]};
    vf f = (vf)((h & 0x7fff) << 13) * v_set(0x1p112f);
    vi_ special = (vi_)(f >= v_set(65536.0f)) & 0x7f800000;
    return (vf)((vi_)f | special | ((h & 0x8000) << 16));
}
static inline void v_store_f16(uint16_t *p, vf x)
{
    for (int i = 0; i < VW; i++)
        p[i] = ds4_f32_to_f16(x[i]);
}
static inline vf v_load_i8(const int8_t *p) { return (vf){p[0], p[1], p[2], p[3]}; }

#endif
