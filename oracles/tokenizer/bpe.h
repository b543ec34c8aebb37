/* bpe.h - byte-pair merges over a vocabulary. */
#ifndef DS4_ORACLE_TOKENIZER_BPE_H
#define DS4_ORACLE_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A map from a pair of tokens to the merge they make. */
typedef struct merge {
    uint32_t left, right, rank, result;
    bool used;
} merge;

typedef struct merges {
    merge *cells;
    size_t capacity; /* a power of two */
} merges;

bool merges_make(merges *map, size_t count);
void merges_put(merges *map, merge m); /* in place of what the pair had */
const merge *merges_get(const merges *map, uint32_t left, uint32_t right);
void merges_free(merges *map);

/* Applies merges to `ids` in place until none applies: always the pair of the lowest rank, of equal ranks the leftmost.
 * *count is what is left. False: no memory. */
bool bpe_apply(const merges *map, uint32_t *ids, size_t *count);

#endif
