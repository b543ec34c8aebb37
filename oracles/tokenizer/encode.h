/* encode.h - a prompt to ids. */
#ifndef DS4_ORACLE_TOKENIZER_ENCODE_H
#define DS4_ORACLE_TOKENIZER_ENCODE_H

#include "oracles/tokenizer/vocabulary.h"

typedef struct segment {
    bytes text; /* UTF-8 */
    bool special;
} segment;

typedef struct ids {
    uint32_t *data;
    size_t count, room;
} ids;

bool encode(const vocabulary *v, const segment *segments, size_t count, ids *out); /* false: no memory */

#endif
