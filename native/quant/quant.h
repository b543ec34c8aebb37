/* quant.h - GGUF's block formats: one definition for all backends, and their conversion to fp32.
 *
 * Layouts are the file's own (little-endian, fp16 scales). The byte table of each format stands in blocks.h. */
#ifndef DS4_QUANT_H
#define DS4_QUANT_H

#include "native/bridge/ds4_bridge.h"

/* Elements of one block (1 for F32, F16, BF16) and its bytes; 0 if the type is not one of ds4_type. */
int32_t ds4_block_elements(int32_t type);
int32_t ds4_block_bytes(int32_t type);

/* Bytes of a row of n elements, or 0 if n is not a whole number of blocks or the product overflows. */
uint64_t ds4_row_bytes(int32_t type, int64_t n);

/* n elements, a whole number of blocks, to fp32: the reference conversion, plain C. 0, or DS4_ERR_ARG. */
int32_t ds4_dequant_row(int32_t type, const void *blocks, int64_t n, float *out);

/* The other way, for Q8_0 (KV cache), F16 and BF16: round to nearest even; Q8_0 by absmax / 127. */
int32_t ds4_quantize_row(int32_t type, const float *x, int64_t n, void *blocks);

float ds4_f16_to_f32(uint16_t h);
uint16_t ds4_f32_to_f16(float f);

#endif
