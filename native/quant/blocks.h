/* blocks.h - the byte tables of GGUF's block formats, and the unpacking of their packed sub-block scales.
 *
 * Integers are little-endian, f16 is IEEE binary16. Structs hold bytes only, so they have no padding and no alignment:
 * a block may stand anywhere in a mapped file. Source of the layouts: the GGUF format as the `gguf` Python package
 * reads it (gguf/quants.py), against which the tests compare. */
#ifndef DS4_QUANT_BLOCKS_H
#define DS4_QUANT_BLOCKS_H

#include <stdint.h>
#include <string.h>

#define DS4_QK 32   /* elements of a plain block */
#define DS4_QK_K 256 /* elements of a K block */

/* In the plain 4- and 5-bit blocks byte i of qs holds element i in its low and element i + 16 in its high nibble, and
 * bit i of the little-endian word qh is bit 4 of element i.
 *
 *            | off size
 * Q4_0   18  |  0  f16 d | 2 qs[16]                            x = d * (q - 8)
 * Q4_1   20  |  0  f16 d | 2 f16 m | 4 qs[16]                  x = d * q + m
 * Q5_0   22  |  0  f16 d | 2 u32 qh | 6 qs[16]                 x = d * (q - 16)
 * Q5_1   24  |  0  f16 d | 2 f16 m | 4 u32 qh | 8 qs[16]       x = d * q + m
 * Q8_0   34  |  0  f16 d | 2 i8 qs[32]                         x = d * q                                        */
typedef struct ds4_q4_0 { uint8_t d[2], qs[16]; } ds4_q4_0;
typedef struct ds4_q4_1 { uint8_t d[2], m[2], qs[16]; } ds4_q4_1;
typedef struct ds4_q5_0 { uint8_t d[2], qh[4], qs[16]; } ds4_q5_0;
typedef struct ds4_q5_1 { uint8_t d[2], m[2], qh[4], qs[16]; } ds4_q5_1;
typedef struct ds4_q8_0 { uint8_t d[2]; int8_t qs[32]; } ds4_q8_0;

/* K blocks: 256 elements seen as 8 runs t = 0..7 of 32. The runs of Q2_K and Q3_K lie in two halves h = t / 4: element l
 * of run t is the 2 bits at 2 * (t % 4) of qs[32 h + l]. Those of Q4_K and Q5_K lie in pairs: element l of run t is nibble
 * t % 2 of qs[32 (t / 2) + l]. Run t of Q6_K, with j = t % 4: nibble j / 2 of ql[64 h + 32 (j % 2) + l], and above it the 2
 * bits at 2 j of qh[32 h + l]. In the 2-, 3- and 6-bit formats each 16 elements have a scale, number 2 t + l / 16;
 * in the others each run has one.
 *
 * Q2_K   84  | 0 scales[16] (low nibble sc, high m) | 16 qs[64] | 80 f16 d | 82 f16 dmin     x = d sc q - dmin m
 * Q3_K  110  | 0 hmask[32] (bit t of byte l) | 32 qs[64] | 96 scales[12] | 108 f16 d         x = d sc (q + 4 hbit - 4)
 * Q4_K  144  | 0 f16 d | 2 f16 dmin | 4 scales[12] | 16 qs[128]                              x = d sc q - dmin m
 * Q5_K  176  | 0 f16 d | 2 f16 dmin | 4 scales[12] | 16 qh[32] (bit t of byte l) | 48 qs[128] x = d sc q - dmin m
 * Q6_K  210  | 0 ql[128] | 128 qh[64] | 192 i8 scales[16] | 208 f16 d                        x = d sc (q - 32)    */
typedef struct ds4_q2_k { uint8_t scales[16], qs[64], d[2], dmin[2]; } ds4_q2_k;
typedef struct ds4_q3_k { uint8_t hmask[32], qs[64], scales[12], d[2]; } ds4_q3_k;
typedef struct ds4_q4_k { uint8_t d[2], dmin[2], scales[12], qs[128]; } ds4_q4_k;
typedef struct ds4_q5_k { uint8_t d[2], dmin[2], scales[12], qh[32], qs[128]; } ds4_q5_k;
typedef struct ds4_q6_k { uint8_t ql[128], qh[64]; int8_t scales[16]; uint8_t d[2]; } ds4_q6_k;

/* MXFP4: 32 elements, each E2M1 (sign, two bits of exponent, one of mantissa), under a power of two. Nibbles stand as in
 * the plain 4-bit blocks; value(q) = 0 0.5 1 1.5 2 3 4 6 and from 8 on the same negated.
 *
 * MXFP4  17  | 0 u8 e | 1 qs[16]                               x = 2^(e - 127) value(q)
 *
 * IQ2_XXS: 256 elements as 8 runs of 32, a run as 4 groups of 8. Run t: the u32 at 2 + 8 t holds the 4 groups' grid rows, a
 * byte each; the next u32 7 bits of signs for each group (bit 7 g + i: element i of group g; the sign of the 8th
 * makes their number even) and in its top 4 bits the scale s. The grid is in iq2_tables.h.
 *
 * IQ2_XXS 66 | 0 f16 d | 2 qs[64]                              x = d (0.5 + s) 0.25 grid, signed                      */
typedef struct ds4_mxfp4 { uint8_t e, qs[16]; } ds4_mxfp4;
typedef struct ds4_iq2_xxs { uint8_t d[2], qs[64]; } ds4_iq2_xxs;

_Static_assert(sizeof(ds4_mxfp4) == 17 && sizeof(ds4_iq2_xxs) == 66, "4-bit float and 2-bit grid blocks");
_Static_assert(sizeof(ds4_q4_0) == 18 && sizeof(ds4_q4_1) == 20, "4-bit blocks");
_Static_assert(sizeof(ds4_q5_0) == 22 && sizeof(ds4_q5_1) == 24, "5-bit blocks");
_Static_assert(sizeof(ds4_q8_0) == 34, "8-bit block");
_Static_assert(sizeof(ds4_q2_k) == 84 && sizeof(ds4_q3_k) == 110, "2- and 3-bit K blocks");
_Static_assert(sizeof(ds4_q4_k) == 144 && sizeof(ds4_q5_k) == 176 && sizeof(ds4_q6_k) == 210, "4- to 6-bit K blocks");

static inline uint16_t ds4_load16(const void *p) {
    const uint8_t *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t ds4_load32(const void *p) {
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline void ds4_store32(void *p, uint32_t v) {
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
    b[2] = (uint8_t)(v >> 16);
    b[3] = (uint8_t)(v >> 24);
}

/* The 12 bytes of Q4_K and Q5_K: eight 6-bit scales into out[0..8), eight 6-bit mins into out[8..16). The first four of
 * each are the low 6 bits of bytes 0-3 and 4-7; the others have their low nibble in bytes 8-11 (scales low, mins high)
 * and their upper 2 bits at the top of bytes 0-3 and 4-7. Four bytes are done at once. */
static inline void ds4_unpack_scales_4k(const uint8_t s[12], uint8_t out[16]) {
    const uint32_t a = ds4_load32(s), b = ds4_load32(s + 4), c = ds4_load32(s + 8);
    ds4_store32(out, a & 0x3f3f3f3fu);
    ds4_store32(out + 4, (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u));
    ds4_store32(out + 8, b & 0x3f3f3f3fu);
    ds4_store32(out + 12, (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u));
}

/* The 12 bytes of Q3_K: sixteen 6-bit scales, stored plus 32. Low nibbles: bytes 0-7 low, then bytes 0-7 high; upper 2
 * bits: bytes 8-11 from bit 0 up, four scales for each 2 bits. */
static inline void ds4_unpack_scales_3k(const uint8_t s[12], int8_t out[16]) {
    const uint32_t a = ds4_load32(s), b = ds4_load32(s + 4), c = ds4_load32(s + 8);
    uint8_t u[16];
    ds4_store32(u, (a & 0x0f0f0f0fu) | (c & 0x03030303u) << 4);
    ds4_store32(u + 4, (b & 0x0f0f0f0fu) | (c >> 2 & 0x03030303u) << 4);
    ds4_store32(u + 8, (a >> 4 & 0x0f0f0f0fu) | (c >> 4 & 0x03030303u) << 4);
    ds4_store32(u + 12, (b >> 4 & 0x0f0f0f0fu) | (c >> 6 & 0x03030303u) << 4);
    for (int i = 0; i < 16; i++) out[i] = (int8_t)(u[i] - 32);
}

/* The scale of MXFP4's doubled values: 2^(e - 128), which for e < 2 is a subnormal. */
static inline float ds4_mxfp4_half_scale(uint8_t e) {
    const uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* The second u32 of a run of IQ2_XXS: a bit for each of its 32 elements, set where the element is negative. */
static inline uint32_t ds4_iq2_signs(uint32_t word) {
    const uint32_t seven =
        (word & 0x7f) | (word << 1 & 0x7f00) | (word << 2 & 0x7f0000) | (word << 3 & 0x7f000000);
    uint32_t parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return seven | (parity & 0x01010101) << 7;
}

#endif
