/* split.h - the pre-tokenizers: where a text falls apart before byte pairs are merged. */
#ifndef DS4_ORACLE_TOKENIZER_SPLIT_H
#define DS4_ORACLE_TOKENIZER_SPLIT_H

#include "oracles/common/tape.h"

/* A text by characters. Each has a code point, a class (classes.h), and the place of its first byte. Once turned to
 * stand-ins (standin.h), each byte is a character. */
typedef struct characters {
    size_t count;
    uint32_t *code;
    uint8_t *class;
    size_t *at;  /* at[count] is the length */
    bool *first; /* whether a piece begins here; first[count] is true */
} characters;

bool characters_read(characters *c, bytes text); /* false: no memory. The text is UTF-8. */
void characters_free(characters *c);

/* The end of the match that begins at character i of a piece that ends at `end`; i: none does. It is asked at every
 * character of the piece, from its beginning on, that no match has covered yet. */
typedef size_t (*matcher)(const characters *c, size_t i, size_t end);

#define STAGES 7

typedef struct pretokenizer {
    const char *name;
    bool compose;     /* texts are brought to Normalization Form C */
    bool whole_words; /* a piece that is a token is taken without a look at merges */
    matcher stages[STAGES]; /* each cuts every piece that the one before left; ended by NULL */
    size_t stand_ins; /* the stage from which on characters are stand-ins; 0: none */
} pretokenizer;

const pretokenizer *pretokenizer_named(bytes name); /* NULL: unknown */

/* Marks where pieces begin: every match is one, and so is every stretch between matches. False: no memory. */
bool split(const pretokenizer *p, characters *c, bytes text);

/* Normalization Form C of a UTF-8 text; NULL: no memory. */
uint8_t *normalise(bytes text, size_t *length);

#endif
