/* decode.h - bytes to text as they come, with U+FFFD for what is no UTF-8. */
#ifndef DS4_ORACLE_TOKENIZER_DECODE_H
#define DS4_ORACLE_TOKENIZER_DECODE_H

#include <stddef.h>
#include <stdint.h>

/* What may still become a character: `length` bytes of it, `missing` to come, the next of which is in low..high. */
typedef struct decoder {
    uint8_t held[3], length, missing, low, high;
} decoder;

/* At most this many bytes are written for each byte that comes, and at the end. */
#define MOST_WRITTEN 6u

size_t decoder_push(decoder *d, uint8_t byte, uint8_t *out); /* returns the bytes written to out */
size_t decoder_end(decoder *d, uint8_t *out);

#endif
