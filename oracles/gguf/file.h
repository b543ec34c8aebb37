/* file.h - one GGUF file as the tape has it, and what reading it found. */
#ifndef DS4_ORACLE_GGUF_FILE_H
#define DS4_ORACLE_GGUF_FILE_H

#include "oracles/common/names.h"
#include "oracles/common/tape.h"

typedef struct file {
    uint8_t *name_data;
    bytes name;
    uint64_t size; /* the true one */
    bytes head;    /* what the tape carries */
} file;

/* Value types by their number in the format. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, VALUE_TYPES };

extern const uint8_t value_width[VALUE_TYPES]; /* bytes; 0 of strings and arrays */

typedef struct key {
    bytes name;
    uint32_t type;
    uint64_t bits;  /* a number's or boolean's, not sign-extended */
    bytes text;     /* a string's bytes; the bytes of all elements of an array */
    uint32_t element;
    uint64_t count, start;
} key;

typedef struct tensor {
    bytes name;
    uint32_t type, dims;
    uint64_t dim[4], offset, nbytes; /* the offset is counted from the start of the file */
    size_t place;                    /* in the directory */
} tensor;

typedef struct shard {
    size_t file; /* its number on the tape */
    uint32_t version;
    uint64_t alignment, data, size;
    key *keys;
    size_t n_keys, key_room;
    tensor *tensors;
    size_t n_tensors, tensor_room;
    names by_key; /* name -> index of the key */
} shard;

typedef enum {
    FINE,
    ANSWERED, /* the verdict, or `short`, stands in the output */
    NO_MEMORY
} outcome;

#define MAX_DEPTH 4

/* Writes `error <code> <subject>`; the subject is the name and, for each index, [index]. */
outcome verdict(tape *out, const char *code, bytes name, const uint64_t *index, size_t indexes);

outcome shard_read(const file *f, size_t number, tape *out, shard *s); /* s is to be freed whatever the outcome */
void shard_free(shard *s);

/* The elements of arrays: strings that are no UTF-8, booleans above 1. */
outcome shard_check(const shard *s, tape *out);

const key *shard_key(const shard *s, const char *name);

uint64_t little(const uint8_t *data, size_t n);

#endif
