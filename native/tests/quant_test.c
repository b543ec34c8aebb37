/* Conversions of block formats. The values themselves are held to the `gguf` package by host/tests/native. */
#include "native/tests/check.h"
#include "native/tests/matmul_data.h"

static void every_half_comes_back_from_a_float(void) {
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = ds4_f16_to_f32((uint16_t)h);
        const uint16_t back = ds4_f32_to_f16(f);
        if (isnan(f))
            CHECK((back & 0x7c00) == 0x7c00 && (back & 0x3ff) != 0 && (back >> 15) == (h >> 15), "half %04x", h);
        else
            CHECK(back == h, "half %04x came back as %04x", h, back);
    }
}

/* Between two neighbouring halves the nearer one is chosen, and of two equally near ones the even. */
static void floats_round_to_the_nearest_half_and_ties_to_even(void) {
    for (uint32_t h = 0; h < 0x7bff; h++) {
        const float a = ds4_f16_to_f32((uint16_t)h), b = ds4_f16_to_f32((uint16_t)(h + 1)), middle = 0.5f * (a + b);
        CHECK(ds4_f32_to_f16(middle) == (h % 2 ? h + 1 : h), "tie after %04x", h);
        CHECK(ds4_f32_to_f16(nextafterf(middle, a)) == h, "below the tie after %04x", h);
        CHECK(ds4_f32_to_f16(-nextafterf(middle, b)) == ((h + 1) | 0x8000), "above the tie after %04x", h);
    }
    CHECK(ds4_f32_to_f16(65519.996f) == 0x7bff);
    CHECK(ds4_f32_to_f16(65520.0f) == 0x7c00);
    CHECK(ds4_f32_to_f16(INFINITY) == 0x7c00);
}

static void bf16_keeps_what_it_can_and_rounds_the_rest(void) {
    const float x[4] = {1.0f, 1.00390625f, 1.01171875f, NAN};
    uint8_t b[8];
    float y[4];
    CHECK(ds4_quantize_row(DS4_TYPE_BF16, x, 4, b) == DS4_OK);
    CHECK(ds4_dequant_row(DS4_TYPE_BF16, b, 4, y) == DS4_OK);
    CHECK(y[0] == 1.0f && y[1] == 1.0f && y[2] == 1.015625f && isnan(y[3]));
}

static void q8_0_is_within_half_a_step(void) {
    float x[64], y[64];
    uint8_t b[68];
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 64; i++) x[i] = data_unit() * (float)(1 << round % 20);
        CHECK(ds4_quantize_row(DS4_TYPE_Q8_0, x, 64, b) == DS4_OK);
        CHECK(ds4_dequant_row(DS4_TYPE_Q8_0, b, 64, y) == DS4_OK);
        for (int i = 0; i < 64; i++) {
            float top = 0;
            for (int j = 0; j < 32; j++) top = fmaxf(top, fabsf(x[i / 32 * 32 + j]));
            /* half a step, and the scale's own rounding to 11 bits times up to 127 steps */
            CHECK(fabsf(x[i] - y[i]) <= top / 127 * 0.5f + top * 0x1p-11f, "%g became %g", x[i], y[i]);
        }
    }
    memset(x, 0, sizeof x);
    x[3] = 1e-44f;
    CHECK(ds4_quantize_row(DS4_TYPE_Q8_0, x, 64, b) == DS4_OK);
    CHECK(ds4_dequant_row(DS4_TYPE_Q8_0, b, 64, y) == DS4_OK);
    CHECK(y[3] == 0 && y[63] == 0);
}

static void parts_of_blocks_and_unknown_types_are_refused(void) {
    float y[512];
    uint8_t b[1024] = {0};
    for (int i = 0; i < DATA_TYPES; i++) {
        const int32_t n = ds4_block_elements(data_types[i].type);
        CHECK(ds4_row_bytes(data_types[i].type, 2 * n) == 2 * (uint64_t)ds4_block_bytes(data_types[i].type));
        CHECK(ds4_dequant_row(data_types[i].type, b, n, y) == DS4_OK, "%s", data_types[i].name);
        if (n > 1) CHECK(ds4_dequant_row(data_types[i].type, b, n - 1, y) == DS4_ERR_ARG, "%s", data_types[i].name);
        if (n > 1) CHECK(ds4_row_bytes(data_types[i].type, n + 1) == 0, "%s", data_types[i].name);
    }
    CHECK(ds4_block_elements(4) == 0 && ds4_block_bytes(31) == 0);
    CHECK(ds4_dequant_row(9, b, 32, y) == DS4_ERR_ARG);
    CHECK(ds4_quantize_row(DS4_TYPE_Q4_0, y, 32, b) == DS4_ERR_ARG);
    CHECK(ds4_row_bytes(DS4_TYPE_F32, INT64_MAX) == 0, "a size past 64 bits");
    CHECK(ds4_row_bytes(DS4_TYPE_Q8_0, 0) == 0 && ds4_row_bytes(DS4_TYPE_Q8_0, -32) == 0);
}

int main(void) {
    RUN(every_half_comes_back_from_a_float);
    RUN(floats_round_to_the_nearest_half_and_ties_to_even);
    RUN(bf16_keeps_what_it_can_and_rounds_the_rest);
    RUN(q8_0_is_within_half_a_step);
    RUN(parts_of_blocks_and_unknown_types_are_refused);
    CHECK_DONE();
}
