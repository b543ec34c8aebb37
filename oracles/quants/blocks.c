#include "oracles/quants/blocks.h"
#include "oracles/quants/grid.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const uint8_t *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }

static float of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t raw_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float f32_of(const uint8_t *four) { return of_bits(u32(four)); }
uint32_t f32_bits(float x) { return isnan(x) ? 0x7fc00000u : raw_bits(x); }

float f16_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size;
    if (exponent == 31) size = fraction != 0 ? NAN : INFINITY;
    else if (exponent == 0) size = ldexpf((float)fraction, -24);
    else size = ldexpf((float)(1024 + fraction), exponent - 25);
    return bits & 0x8000 ? -size : size;
}

uint16_t f16_nearest(float x) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double size = fabs((double)x);
    if (isnan(x)) return 0x7e00;
    if (size >= 65520.0) return sign | 0x7c00; /* halfway from the largest number to the next */
    /* In units of the last place; rounding up to the next power of two carries into the exponent by itself. */
    int exponent = -14;
    if (size >= ldexp(1.0, -14)) {
        (void)frexp(size, &exponent);
        exponent--;
    }
    const int units = (int)nearbyint(ldexp(size, 10 - exponent));
    return (uint16_t)(sign | (units + (exponent + 14) * 1024));
}

uint16_t bf16_nearest(float x) {
    if (isnan(x)) return 0x7fc0;
    const uint32_t bits = raw_bits(x);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t q8_0_write(const float x[32], int8_t q[32]) {
    float most = 0.0f;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
    const float d = most / 127.0f;
    const float r = d > 0.0f && isfinite(1.0f / d) ? 1.0f / d : 0.0f;
    for (int i = 0; i < 32; i++) q[i] = (int8_t)nearbyintf(x[i] * r);
    return f16_nearest(d);
}

/* ---- elements ---- */

static float f16_at(const uint8_t *p) { return f16_value(u16(p)); }
static int low(uint8_t b) { return b & 15; }
static int high(uint8_t b) { return b >> 4; }
static int pair(uint8_t b, uint32_t part) { return b >> 2 * part & 3; }

static float plain(float x, double *mass) {
    if (mass != NULL) *mass = fabs((double)x);
    return x;
}

/* a + b or a - b of two rounded products. */
static float both(float a, float b, double *mass) {
    if (mass != NULL) *mass = fabs((double)a) + fabs((double)b);
    return a + b;
}

static float f32_element(const uint8_t *b, uint32_t i, double *mass) { (void)i; return plain(f32_of(b), mass); }
static float f16_element(const uint8_t *b, uint32_t i, double *mass) { (void)i; return plain(f16_at(b), mass); }
static float bf16_element(const uint8_t *b, uint32_t i, double *mass) {
    (void)i;
    return plain(of_bits((uint32_t)u16(b) << 16), mass);
}

static int nibble32(const uint8_t *b, uint32_t i) { return i < 16 ? low(b[i]) : high(b[i - 16]); }
static int fifth32(const uint8_t *b, uint32_t i) { return (int)(u32(b) >> i & 1) * 16; }

static float q4_0_element(const uint8_t *b, uint32_t i, double *mass) {
    return plain(f16_at(b) * (float)(nibble32(b + 2, i) - 8), mass);
}

static float q4_1_element(const uint8_t *b, uint32_t i, double *mass) {
    return both(f16_at(b) * (float)nibble32(b + 4, i), f16_at(b + 2), mass);
}

static float q5_0_element(const uint8_t *b, uint32_t i, double *mass) {
    return plain(f16_at(b) * (float)(nibble32(b + 6, i) + fifth32(b + 2, i) - 16), mass);
}

static float q5_1_element(const uint8_t *b, uint32_t i, double *mass) {
    return both(f16_at(b) * (float)(nibble32(b + 8, i) + fifth32(b + 4, i)), f16_at(b + 2), mass);
}

static float q8_0_element(const uint8_t *b, uint32_t i, double *mass) {
    return plain(f16_at(b) * (float)(int8_t)b[2 + i], mass);
}

static float q2_k_element(const uint8_t *b, uint32_t i, double *mass) {
    const uint8_t s = b[i / 16];
    const int p = pair(b[16 + 32 * (i / 128) + i % 32], i % 128 / 32);
    return both(f16_at(b + 80) * (float)low(s) * (float)p, -(f16_at(b + 82) * (float)high(s)), mass);
}

static float q3_k_element(const uint8_t *b, uint32_t i, double *mass) {
    const uint32_t half = i / 128, part = i % 128 / 32, g = i / 16;
    const uint8_t *scales = b + 96;
    const int scale = (g < 8 ? low(scales[g]) : high(scales[g - 8])) + 16 * pair(scales[8 + g % 4], g / 4);
    const int third = b[i % 32] >> (4 * half + part) & 1;
    const int p = pair(b[32 + 32 * half + i % 32], part) - (third ? 0 : 4);
    return plain(f16_at(b + 108) * (float)(scale - 32) * (float)p, mass);
}

static int scale_k(const uint8_t *b, uint32_t g) { return g < 4 ? b[g] % 64 : low(b[g + 4]) + 16 * (b[g - 4] / 64); }
static int least_k(const uint8_t *b, uint32_t g) { return g < 4 ? b[g + 4] % 64 : high(b[g + 4]) + 16 * (b[g] / 64); }

static int nibble_k(const uint8_t *b, uint32_t i) {
    const uint32_t g = i / 32;
    return g % 2 ? high(b[32 * (g / 2) + i % 32]) : low(b[32 * (g / 2) + i % 32]);
}

static float four_or_five_k(const uint8_t *b, uint32_t g, int n, double *mass) {
    return both(f16_at(b) * (float)scale_k(b + 4, g) * (float)n, -(f16_at(b + 2) * (float)least_k(b + 4, g)), mass);
}

static float q4_k_element(const uint8_t *b, uint32_t i, double *mass) {
    return four_or_five_k(b, i / 32, nibble_k(b + 16, i), mass);
}

static float q5_k_element(const uint8_t *b, uint32_t i, double *mass) {
    return four_or_five_k(b, i / 32, nibble_k(b + 48, i) + 16 * (b[16 + i % 32] >> (i / 32) & 1), mass);
}

static float q6_k_element(const uint8_t *b, uint32_t i, double *mass) {
    const uint32_t half = i / 128, part = i % 128 / 32, l = i % 32;
    const uint8_t two = b[64 * half + 32 * (part % 2) + l];
    const int n = (part < 2 ? low(two) : high(two)) + 16 * pair(b[128 + 32 * half + l], part);
    return plain(f16_at(b + 208) * (float)(int8_t)b[192 + i / 16] * (float)(n - 32), mass);
}

static float mxfp4_element(const uint8_t *b, uint32_t i, double *mass) {
    static const int doubled[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    const int n = nibble32(b + 1, i), size = doubled[n % 8];
    return plain(ldexpf(1.0f, (int)b[0] - 128) * (float)(n < 8 ? size : -size), mass);
}

static float iq2_xxs_element(const uint8_t *b, uint32_t i, double *mass) {
    static const int magnitudes[3] = {8, 25, 43};
    const uint8_t *run = b + 2 + 8 * (i / 32);
    const uint32_t group = i % 32 / 8, word = u32(run + 4);
    uint32_t signs = word >> 7 * group & 127, ones = 0, digits = iq2_grid[run[group]];
    for (int bit = 0; bit < 7; bit++) ones += signs >> bit & 1;
    signs |= ones % 2 << 7;
    for (uint32_t skip = i % 8; skip > 0; skip--) digits /= 3;
    const int size = magnitudes[digits % 3];
    const float scale = f16_at(b) * (0.5f + (float)(word >> 28)) * 0.25f;
    return plain(scale * (float)(signs >> i % 8 & 1 ? -size : size), mass);
}

static const block_kind kinds[] = {
    {"F32", 1, 4, f32_element},        {"F16", 1, 2, f16_element},        {"BF16", 1, 2, bf16_element},
    {"Q4_0", 32, 18, q4_0_element},    {"Q4_1", 32, 20, q4_1_element},    {"Q5_0", 32, 22, q5_0_element},
    {"Q5_1", 32, 24, q5_1_element},    {"Q8_0", 32, 34, q8_0_element},    {"Q2_K", 256, 84, q2_k_element},
    {"Q3_K", 256, 110, q3_k_element},  {"Q4_K", 256, 144, q4_k_element},  {"Q5_K", 256, 176, q5_k_element},
    {"Q6_K", 256, 210, q6_k_element},  {"MXFP4", 32, 17, mxfp4_element},  {"IQ2_XXS", 256, 66, iq2_xxs_element},
};

const block_kind *block_named(bytes word) {
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (word_is(word, kinds[k].name)) return &kinds[k];
    return NULL;
}

void tape_hex(tape *t, uint64_t bits, int digits) {
    char text[17];
    for (int i = 0; i < digits; i++) text[i] = "0123456789abcdef"[bits >> 4 * (digits - 1 - i) & 15];
    text[digits] = 0;
    tape_word(t, text);
}
