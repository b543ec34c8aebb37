/* blocks.h - GGUF's block formats, one element at a time, as oracles/quants/README.md writes them. */
#ifndef DS4_ORACLE_BLOCKS_H
#define DS4_ORACLE_BLOCKS_H

#include "oracles/common/tape.h"

enum { BLOCK_MOST = 256 };

typedef struct block_kind {
    const char *name;
    uint32_t elements, bytes;
    /* Element i of a block. *mass, where not NULL, gets the sum of the magnitudes of the terms that make it: what
     * rounding errors of a product over it are measured by. */
    float (*element)(const uint8_t *block, uint32_t i, double *mass);
} block_kind;

const block_kind *block_named(bytes word); /* NULL: no type of this name */

float f16_value(uint16_t bits);  /* exact */
uint16_t f16_nearest(float x);   /* ties to even */
uint16_t bf16_nearest(float x);
float f32_of(const uint8_t *four);   /* little-endian */
uint32_t f32_bits(float x);          /* with every NaN as 7fc00000 */

/* One block of Q8_0 from 32 finite numbers: the scale's bits, and the integers. */
uint16_t q8_0_write(const float x[32], int8_t q[32]);

void tape_hex(tape *t, uint64_t bits, int digits); /* a word of hex digits */

#endif
