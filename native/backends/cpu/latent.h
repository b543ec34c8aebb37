/* latent.h - the latent cache of the CPU backend: where its rows lie. ds4_ops.h (ds4_cache_desc) says what they are. */
#ifndef DS4_CPU_LATENT_H
#define DS4_CPU_LATENT_H

#include "native/backends/cpu/kernels.h"
#include "native/ops/ds4_ops.h"

#include <stddef.h>

#define LATENT_STREAMS 2 /* by ds4_stream */

/* One stream of a layer that is compressed. Offsets are from the layer's start. */
typedef struct latent_stream {
    int32_t width;     /* of a compressed row; 0: the layer has no such stream */
    int32_t n_state;   /* slots of the rolling state: position p is in slot p % n_state */
    int32_t cols;      /* of what is compressed: width, or twice that where windows overlap */
    size_t state;      /* fp32 [n_state][2][cols]: kv, then the gate with its ape */
    size_t rows;       /* [n_ctx / ratio] rows in the cache's type, on a page of their own */
    size_t row_bytes;
} latent_stream;

typedef struct latent_layer {
    int32_t ratio;
    int32_t n_raw;     /* slots of raw rows: position p is in slot p % n_raw */
    size_t offset;     /* from the bank's start */
    size_t bytes;      /* a whole number of pages; raw rows come first */
    latent_stream stream[LATENT_STREAMS];
} latent_layer;

typedef struct cpu_latent {
    size_t raw_bytes;  /* of one raw row */
    size_t bank_bytes;
    int32_t n_carry;   /* slots of carried rows: position p is in slot p % n_carry */
    size_t carry;      /* fp32 [n_carry][carry], from the bank's start, after the layers */
    latent_layer layers[];
} cpu_latent;

/* The layout, or NULL if the shape is impossible or memory is short. Free with free(). */
cpu_latent *cpu_latent_layout(const ds4_cache_desc *desc);

/* The first position that the next one, at `length`, needs of a stream's rolling state, or raw. */
int32_t cpu_latent_state_from(int32_t ratio, int32_t length);
int32_t cpu_latent_raw_from(const ds4_cache_desc *desc, int32_t length);

/* n elements between fp32 and the cache's type. */
void cpu_latent_put(const cpu_kernels *k, int32_t type, const float *x, int32_t n, uint8_t *row);
void cpu_latent_get(const cpu_kernels *k, int32_t type, const uint8_t *row, int32_t n, float *x);

/* Rounding that models were trained with (rounding.c). E4M3 in groups of 64 under powers of two, in place. */
void cpu_round_fp8(float *x, int32_t n);
/* The orthonormal Hadamard transform of n = 2^k elements, then E2M1 in groups of 32 under powers of two, in place. */
void cpu_round_hadamard_fp4(float *x, int32_t n);

#endif
