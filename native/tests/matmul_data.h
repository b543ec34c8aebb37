/* matmul_data.h - random weights of every format and exact products, for the matrix product's test and bench. */
#ifndef DS4_TESTS_MATMUL_DATA_H
#define DS4_TESTS_MATMUL_DATA_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/quant/blocks.h"
#include "native/quant/quant.h"

static const struct {
    int32_t type;
    const char *name;
} data_types[] = {
    {DS4_TYPE_F32, "F32"},   {DS4_TYPE_F16, "F16"},   {DS4_TYPE_BF16, "BF16"}, {DS4_TYPE_Q8_0, "Q8_0"}, {DS4_TYPE_Q4_0, "Q4_0"},
    {DS4_TYPE_Q4_1, "Q4_1"}, {DS4_TYPE_Q5_0, "Q5_0"}, {DS4_TYPE_Q5_1, "Q5_1"}, {DS4_TYPE_Q2_K, "Q2_K"}, {DS4_TYPE_Q3_K, "Q3_K"},
    {DS4_TYPE_Q4_K, "Q4_K"}, {DS4_TYPE_Q5_K, "Q5_K"}, {DS4_TYPE_Q6_K, "Q6_K"}, {DS4_TYPE_MXFP4, "MXFP4"},
    {DS4_TYPE_IQ2_XXS, "IQ2_XXS"},
};
enum { DATA_TYPES = sizeof data_types / sizeof data_types[0] };

static uint64_t data_state = 0x9e3779b97f4a7c15u;

static inline uint64_t data_next(void) {
    data_state ^= data_state << 13;
    data_state ^= data_state >> 7;
    data_state ^= data_state << 17;
    return data_state;
}

static inline float data_unit(void) { return (float)(int32_t)(data_next() >> 32) * 0x1p-31f; } /* [-1, 1) */

static inline void data_put_f16(uint8_t *p, float f) {
    const uint16_t h = ds4_f32_to_f16(f);
    memcpy(p, &h, 2);
}

/* n elements of random bits, with scales that make them about as large as a trained model's. */
static inline void data_fill(int32_t type, uint8_t *w, int64_t n) {
    const int64_t elements = ds4_block_elements(type), bytes = ds4_block_bytes(type);
    for (int64_t i = 0; i < n / elements; i++, w += bytes) {
        const float d = data_unit() * 0.01f;
        for (int64_t b = 0; b < bytes; b++) w[b] = (uint8_t)(data_next() >> 40);
        switch (type) {
        case DS4_TYPE_F32: memcpy(w, &d, 4); break;
        case DS4_TYPE_F16: data_put_f16(w, d); break;
        case DS4_TYPE_BF16: ds4_quantize_row(DS4_TYPE_BF16, &d, 1, w); break;
        case DS4_TYPE_Q2_K: data_put_f16(w + 80, d); data_put_f16(w + 82, data_unit() * 0.01f); break;
        case DS4_TYPE_Q3_K: data_put_f16(w + 108, d * 0.1f); break;
        case DS4_TYPE_Q6_K: data_put_f16(w + 208, d * 0.1f); break;
        case DS4_TYPE_Q4_1:
        case DS4_TYPE_Q5_1:
        case DS4_TYPE_Q4_K:
        case DS4_TYPE_Q5_K: data_put_f16(w + 2, data_unit() * 0.01f); data_put_f16(w, d); break;
        case DS4_TYPE_MXFP4: w[0] = (uint8_t)(118 + w[0] % 3); break; /* a power of two */
        default: data_put_f16(w, d); break;
        }
    }
}

#endif
