/* quantize.c - fp32 to F16, BF16 and Q8_0, and the half-precision conversions themselves. */
#include "native/quant/blocks.h"
#include "native/quant/quant.h"

#include <math.h>

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* The significand is moved into place and the exponent corrected by a multiplication with 2^112, which is exact and turns
 * subnormal halves into normal floats. Infinities and NaNs keep their payload. */
float ds4_f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = (uint32_t)(h & 0x7fffu) << 13;
    if ((h & 0x7c00u) == 0x7c00u) return float_of(sign | 0x7f800000u | magnitude);
    return float_of(sign | bits_of(float_of(magnitude) * 0x1p112f));
}

uint16_t ds4_f32_to_f16(float f) {
    const uint32_t u = bits_of(f), magnitude = u & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more round to infinity */
    if (magnitude < 0x38800000u) {
        /* Below 2^-14: adding 0.5 leaves the subnormal's integer, rounded to nearest even, in the low bits. */
        const float shifted = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - 0x3f000000u));
    }
    const uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

static uint16_t f32_to_bf16(float f) {
    const uint32_t u = bits_of(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 64); /* a NaN stays one, and quiet */
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static void put16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void quantize_q8_0(const float *x, ds4_q8_0 *b) {
    float top = 0;
    for (int i = 0; i < DS4_QK; i++) top = fmaxf(top, fabsf(x[i]));
    const float d = top / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
    put16(b->d, ds4_f32_to_f16(d));
    for (int i = 0; i < DS4_QK; i++) {
        /* 1 / d is infinite for a subnormal top, and top * (1 / d) may pass 127 by a rounding */
        const float q = isfinite(inverse) ? nearbyintf(x[i] * inverse) : 0.0f;
        b->qs[i] = (int8_t)fminf(fmaxf(q, -127.0f), 127.0f);
    }
}

int32_t ds4_quantize_row(int32_t type, const float *x, int64_t n, void *blocks) {
    uint8_t *p = blocks;
    if (n < 0 || (n > 0 && ds4_row_bytes(type, n) == 0)) return DS4_ERR_ARG;
    switch (type) {
    case DS4_TYPE_F16:
        for (int64_t i = 0; i < n; i++) put16(p + 2 * i, ds4_f32_to_f16(x[i]));
        return DS4_OK;
    case DS4_TYPE_BF16:
        for (int64_t i = 0; i < n; i++) put16(p + 2 * i, f32_to_bf16(x[i]));
        return DS4_OK;
    case DS4_TYPE_Q8_0:
        for (int64_t i = 0; i < n; i += DS4_QK, p += sizeof(ds4_q8_0)) quantize_q8_0(x + i, (ds4_q8_0 *)p);
        return DS4_OK;
    default:
        return DS4_ERR_ARG;
    }
}
