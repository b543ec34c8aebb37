/* activations.c - narrow floats.
 *
 *            sign  exponent (bias)  mantissa   top exponent
 *   single     1        8 (127)        23      infinities and NaN
 *   half       1        5 (15)         10      infinities and NaN
 *   E4M3       1        4 (7)           3      0x7F is NaN; 0x78..0x7E are read as 240, the largest, and never written
 */
#include "oracles/frames/activations.h"

#include <math.h>
#include <string.h>

#define SIGN 0x80000000u
#define INFINITE 0x7F800000u
#define QUIET_NAN 0x7FC00000u
#define S65520 0x477FF000u /* what rounds to infinity as a half: midway between 65504 and 65536 */
#define S240 0x43700000u

/* A finite value of no sign, rounded to nearest, ties to the even code. The caller has seen to what is too large. */
static uint32_t narrow(uint32_t single, int bias, int mantissa) {
    const int biased = (int)(single >> 23), lowest = 1 - bias; /* exponents */
    if (biased == 0) return 0;                                 /* below 2^-126: far below half of any unit */
    const uint32_t significand = (single & 0x7FFFFF) | 0x800000; /* the value is significand x 2^(biased - 150) */
    const int exponent = biased - 127 > lowest ? biased - 127 : lowest;
    const int shift = exponent - mantissa - (biased - 150); /* to units of 2^(exponent - mantissa) */
    if (shift > 24) return 0;                               /* less than half a unit */
    uint32_t units = significand >> shift;
    const uint32_t rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (rest > half || (rest == half && (units & 1) != 0)) units++;
    /* The leading bit of a normal number counts as one in the exponent field, and so does a carry into it. */
    return ((uint32_t)(exponent - lowest) << mantissa) + units;
}

/* A finite code of no sign. Exact. */
static uint32_t widen(uint32_t code, int bias, int mantissa) {
    const uint32_t field = code >> mantissa, low = code & ((1u << mantissa) - 1);
    const float value = field == 0 ? ldexpf((float)low, 1 - bias - mantissa)
                                   : ldexpf((float)(low | 1u << mantissa), (int)field - bias - mantissa);
    uint32_t single;
    memcpy(&single, &value, sizeof single);
    return single;
}

uint16_t half_of(uint32_t single) {
    const uint32_t sign = (single & SIGN) >> 16, value = single & ~SIGN;
    if (value > INFINITE) return (uint16_t)(sign | 0x7E00);
    return (uint16_t)(sign | (value >= S65520 ? 0x7C00 : narrow(value, 15, 10)));
}

uint32_t single_of_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, value = half & 0x7FFF;
    if (value >= 0x7C00) return sign | (value == 0x7C00 ? INFINITE : QUIET_NAN);
    return sign | widen(value, 15, 10);
}

uint8_t e4m3_of(uint32_t single) {
    const uint32_t sign = (single & SIGN) >> 24, value = single & ~SIGN;
    if (value > INFINITE) return (uint8_t)(sign | 0x7F);
    return (uint8_t)(sign | (value >= S240 ? 0x77 : narrow(value, 7, 3)));
}

uint32_t single_of_e4m3(uint8_t code) {
    const uint32_t sign = (uint32_t)(code & 0x80) << 24, value = code & 0x7F;
    if (value == 0x7F) return sign | QUIET_NAN;
    return sign | (value > 0x77 ? S240 : widen(value, 7, 3));
}
