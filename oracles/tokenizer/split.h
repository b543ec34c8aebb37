/* split.h - the pre-tokenizers: where a text falls apart before byte pairs are merged. */
#ifndef DS4_ORACLE_TOKENIZER_SPLIT_H
#define DS4_ORACLE_TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oracles/common/tape.h"

/* A text by characters. Each has a code point, a class (tables.h), and the place of its first byte; at[count] is the length. */
typedef struct characters {
    size_t count;
    uint32_t *code;
    uint8_t *class;
    size_t *at;
    bool *first; /* whether a piece begins here; first[count] is true */
} characters;

/* The length in bytes of the UTF-8 character at data[0] and its code point; 0: none is there (overlong, surrogate, past
 * U+10FFFF, cut short, or no lead byte). */
size_t utf8_next(const uint8_t *data, size_t left, uint32_t *code);

bool characters_read(characters *c, bytes text, bool *memory); /* false: not UTF-8, or (*memory false) no memory */
void characters_free(characters *c);

/* Finds the end of a match that begins at character i of the piece that ends at `end`; i: no match begins there. */
typedef size_t (*matcher)(const characters *c, size_t i, size_t end);

typedef struct pretokenizer {
    const char *name;
    matcher stages[4]; /* each splits every piece that the one before left, ended by NULL */
} pretokenizer;

const pretokenizer *pretokenizer_named(bytes name); /* NULL: unknown */

/* Marks where pieces begin: every match is one, and so is every stretch between matches. */
void split(const pretokenizer *p, characters *c);

#endif
