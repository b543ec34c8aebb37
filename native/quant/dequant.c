/* dequant.c - every block format to fp32: the reference that kernels are tested against.
 *
 * Each element takes the fp32 operations that the formula in blocks.h names, in that order, so that the result equals
 * the `gguf` package's to the bit. */
#include "native/quant/blocks.h"
#include "native/quant/iq2_tables.h"
#include "native/quant/quant.h"

static const struct {
    int32_t type, elements, bytes;
} formats[] = {
    {DS4_TYPE_F32, 1, 4},
    {DS4_TYPE_F16, 1, 2},
    {DS4_TYPE_BF16, 1, 2},
    {DS4_TYPE_Q4_0, DS4_QK, sizeof(ds4_q4_0)},
    {DS4_TYPE_Q4_1, DS4_QK, sizeof(ds4_q4_1)},
    {DS4_TYPE_Q5_0, DS4_QK, sizeof(ds4_q5_0)},
    {DS4_TYPE_Q5_1, DS4_QK, sizeof(ds4_q5_1)},
    {DS4_TYPE_Q8_0, DS4_QK, sizeof(ds4_q8_0)},
    {DS4_TYPE_Q2_K, DS4_QK_K, sizeof(ds4_q2_k)},
    {DS4_TYPE_Q3_K, DS4_QK_K, sizeof(ds4_q3_k)},
    {DS4_TYPE_Q4_K, DS4_QK_K, sizeof(ds4_q4_k)},
    {DS4_TYPE_Q5_K, DS4_QK_K, sizeof(ds4_q5_k)},
    {DS4_TYPE_Q6_K, DS4_QK_K, sizeof(ds4_q6_k)},
    {DS4_TYPE_IQ2_XXS, DS4_QK_K, sizeof(ds4_iq2_xxs)},
    {DS4_TYPE_I32, 1, 4},
    {DS4_TYPE_MXFP4, DS4_QK, sizeof(ds4_mxfp4)},
};

int32_t ds4_block_elements(int32_t type) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (formats[i].type == type) return formats[i].elements;
    return 0;
}

int32_t ds4_block_bytes(int32_t type) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (formats[i].type == type) return formats[i].bytes;
    return 0;
}

uint64_t ds4_row_bytes(int32_t type, int64_t n) {
    const int32_t elements = ds4_block_elements(type), bytes = ds4_block_bytes(type);
    if (elements == 0 || n <= 0 || n % elements != 0) return 0;
    const uint64_t blocks = (uint64_t)(n / elements);
    if (blocks > UINT64_MAX / (uint64_t)bytes) return 0;
    return blocks * (uint64_t)bytes;
}

static float f16_at(const uint8_t p[2]) { return ds4_f16_to_f32(ds4_load16(p)); }

static float f32_of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static void row_f32(const uint8_t *p, int64_t n, float *out) { memcpy(out, p, (size_t)n * 4); }

static void row_f16(const uint8_t *p, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) out[i] = f16_at(p + 2 * i);
}

static void row_bf16(const uint8_t *p, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) out[i] = f32_of_bits((uint32_t)ds4_load16(p + 2 * i) << 16);
}

static void block_q4_0(const void *p, float *out) {
    const ds4_q4_0 *b = p;
    const float d = f16_at(b->d);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((b->qs[i] & 15) - 8);
        out[i + 16] = d * (float)((b->qs[i] >> 4) - 8);
    }
}

static void block_q4_1(const void *p, float *out) {
    const ds4_q4_1 *b = p;
    const float d = f16_at(b->d), m = f16_at(b->m);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(b->qs[i] & 15) + m;
        out[i + 16] = d * (float)(b->qs[i] >> 4) + m;
    }
}

static void block_q5_0(const void *p, float *out) {
    const ds4_q5_0 *b = p;
    const float d = f16_at(b->d);
    const uint32_t qh = ds4_load32(b->qh);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((int)((b->qs[i] & 15u) | (qh >> i & 1) << 4) - 16);
        out[i + 16] = d * (float)((int)((b->qs[i] >> 4u) | (qh >> (i + 16) & 1) << 4) - 16);
    }
}

static void block_q5_1(const void *p, float *out) {
    const ds4_q5_1 *b = p;
    const float d = f16_at(b->d), m = f16_at(b->m);
    const uint32_t qh = ds4_load32(b->qh);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((b->qs[i] & 15u) | (qh >> i & 1) << 4) + m;
        out[i + 16] = d * (float)((b->qs[i] >> 4u) | (qh >> (i + 16) & 1) << 4) + m;
    }
}

static void block_q8_0(const void *p, float *out) {
    const ds4_q8_0 *b = p;
    const float d = f16_at(b->d);
    for (int i = 0; i < 32; i++) out[i] = (float)b->qs[i] * d;
}

static void block_q2_k(const void *p, float *out) {
    const ds4_q2_k *b = p;
    const float d = f16_at(b->d), dmin = f16_at(b->dmin);
    for (int s = 0; s < 16; s++) {
        const float dl = d * (float)(b->scales[s] & 15), ml = dmin * (float)(b->scales[s] >> 4);
        const uint8_t *q = b->qs + 32 * (s / 8) + 16 * (s % 2);
        for (int l = 0; l < 16; l++) out[16 * s + l] = dl * (float)(q[l] >> 2 * (s / 2 % 4) & 3) - ml;
    }
}

static void block_q3_k(const void *p, float *out) {
    const ds4_q3_k *b = p;
    const float d = f16_at(b->d);
    int8_t scales[16];
    ds4_unpack_scales_3k(b->scales, scales);
    for (int s = 0; s < 16; s++) {
        const float dl = d * (float)scales[s];
        const uint8_t *q = b->qs + 32 * (s / 8) + 16 * (s % 2), *h = b->hmask + 16 * (s % 2);
        for (int l = 0; l < 16; l++)
            out[16 * s + l] = dl * (float)((q[l] >> 2 * (s / 2 % 4) & 3) + 4 * (h[l] >> s / 2 & 1) - 4);
    }
}

static void block_q4_k(const void *p, float *out) {
    const ds4_q4_k *b = p;
    const float d = f16_at(b->d), dmin = f16_at(b->dmin);
    uint8_t scales[16];
    ds4_unpack_scales_4k(b->scales, scales);
    for (int t = 0; t < 8; t++) {
        const float dl = d * (float)scales[t], ml = dmin * (float)scales[8 + t];
        for (int l = 0; l < 32; l++)
            out[32 * t + l] = dl * (float)(b->qs[32 * (t / 2) + l] >> 4 * (t % 2) & 15) - ml;
    }
}

static void block_q5_k(const void *p, float *out) {
    const ds4_q5_k *b = p;
    const float d = f16_at(b->d), dmin = f16_at(b->dmin);
    uint8_t scales[16];
    ds4_unpack_scales_4k(b->scales, scales);
    for (int t = 0; t < 8; t++) {
        const float dl = d * (float)scales[t], ml = dmin * (float)scales[8 + t];
        for (int l = 0; l < 32; l++) {
            const int q = (b->qs[32 * (t / 2) + l] >> 4 * (t % 2) & 15) | (b->qh[l] >> t & 1) << 4;
            out[32 * t + l] = dl * (float)q - ml;
        }
    }
}

static void block_q6_k(const void *p, float *out) {
    const ds4_q6_k *b = p;
    const float d = f16_at(b->d);
    for (int s = 0; s < 16; s++) {
        const int h = s / 8, j = s / 2 % 4, from = 16 * (s % 2);
        const float dl = d * (float)b->scales[s];
        const uint8_t *ql = b->ql + 64 * h + 32 * (j % 2) + from, *qh = b->qh + 32 * h + from;
        for (int l = 0; l < 16; l++) {
            const int q = (ql[l] >> 4 * (j / 2) & 15) | (qh[l] >> 2 * j & 3) << 4;
            out[16 * s + l] = dl * (float)(q - 32);
        }
    }
}

static void block_mxfp4(const void *p, float *out) {
    static const int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const ds4_mxfp4 *b = p;
    const float half = ds4_mxfp4_half_scale(b->e);
    for (int i = 0; i < 16; i++) {
        out[i] = half * (float)twice[b->qs[i] & 15];
        out[i + 16] = half * (float)twice[b->qs[i] >> 4];
    }
}

static void block_iq2_xxs(const void *p, float *out) {
    const ds4_iq2_xxs *b = p;
    const float d = f16_at(b->d);
    for (int t = 0; t < 8; t++) {
        const uint8_t *rows = b->qs + 8 * t;
        const uint32_t word = ds4_load32(rows + 4);
        const float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
        const uint32_t signs = ds4_iq2_signs(word);
        for (int i = 0; i < 32; i++) {
            const float x = scale * (float)(iq2_xxs_grid[rows[i / 8]] >> 8 * (i % 8) & 0xff);
            out[32 * t + i] = signs >> i & 1 ? -x : x;
        }
    }
}

int32_t ds4_dequant_row(int32_t type, const void *blocks, int64_t n, float *out) {
    const uint8_t *p = blocks;
    void (*block)(const void *, float *) = NULL;
    if (n < 0 || (n > 0 && ds4_row_bytes(type, n) == 0)) return DS4_ERR_ARG;
    switch (type) {
    case DS4_TYPE_F32: row_f32(p, n, out); return DS4_OK;
    case DS4_TYPE_F16: row_f16(p, n, out); return DS4_OK;
    case DS4_TYPE_BF16: row_bf16(p, n, out); return DS4_OK;
    case DS4_TYPE_Q4_0: block = block_q4_0; break;
    case DS4_TYPE_Q4_1: block = block_q4_1; break;
    case DS4_TYPE_Q5_0: block = block_q5_0; break;
    case DS4_TYPE_Q5_1: block = block_q5_1; break;
    case DS4_TYPE_Q8_0: block = block_q8_0; break;
    case DS4_TYPE_Q2_K: block = block_q2_k; break;
    case DS4_TYPE_Q3_K: block = block_q3_k; break;
    case DS4_TYPE_Q4_K: block = block_q4_k; break;
    case DS4_TYPE_Q5_K: block = block_q5_k; break;
    case DS4_TYPE_Q6_K: block = block_q6_k; break;
    case DS4_TYPE_IQ2_XXS: block = block_iq2_xxs; break;
    case DS4_TYPE_MXFP4: block = block_mxfp4; break;
    default: return DS4_ERR_ARG;
    }
    const int32_t elements = ds4_block_elements(type), bytes = ds4_block_bytes(type);
    for (int64_t i = 0; i < n; i += elements, p += bytes) block(p, out + i);
    return DS4_OK;
}
