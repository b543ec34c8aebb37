/* vocabulary.h - what the setup tape says, ready for use. */
#ifndef DS4_ORACLE_TOKENIZER_VOCABULARY_H
#define DS4_ORACLE_TOKENIZER_VOCABULARY_H

#include "oracles/common/names.h"
#include "oracles/tokenizer/bpe.h"
#include "oracles/tokenizer/split.h"

/* GGUF's token types, as far as they matter. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5, TYPE_BYTE = 6 };

#define NO_TOKEN UINT32_MAX

typedef struct token {
    bytes text;    /* as the tape has it */
    bytes meaning; /* the bytes that it decodes to */
    int32_t type;
} token;

/* Texts to look for, sorted, none empty, none twice. */
typedef struct lexicon {
    struct entry {
        bytes text;
        uint32_t id;
    } *entries;
    size_t count;
} lexicon;

typedef struct vocabulary {
    const pretokenizer *pre;
    int64_t bos;
    bool add_bos;
    token *tokens;
    size_t count;
    uint8_t *texts, *meanings; /* what the tokens point into */
    names by_text;             /* text -> its highest id */
    lexicon special, plain;
    merges merges;
    uint32_t byte_symbol[256]; /* NO_TOKEN: no token is this byte's stand-in */
} vocabulary;

int vocabulary_open(const uint8_t *setup, size_t length, void **state);
void vocabulary_close(void *state);

/* The longest text of the lexicon that stands at data[0], its id and length; 0: none. */
size_t lexicon_match(const lexicon *l, const uint8_t *data, size_t left, uint32_t *id);

#endif
