/* model.h - what the tape says of a model. */
#ifndef DS4_ORACLE_BIND_MODEL_H
#define DS4_ORACLE_BIND_MODEL_H

#include "oracles/common/names.h"
#include "oracles/common/oracle.h"

typedef struct shard {
    uint64_t size, data, alignment;
} shard;

/* Value types; the integers come first. */
typedef enum { U8, I8, U16, I16, U32, I32, U64, I64, F32, F64, BOOL, STRING, ARRAY, VALUE_TYPES } value_type;

static inline bool is_integer(value_type t) { return t <= I64; }
static inline bool is_signed(value_type t) { return is_integer(t) && t % 2 == 1; }

typedef struct key {
    bytes name;
    value_type type;
    uint64_t bits; /* an integer (two's complement) or a boolean */
    double number; /* a float */
    bytes text;    /* a string */
    value_type element;
    uint64_t count, least, greatest; /* an array; the last two of integers */
} key;

typedef struct tensor {
    bytes name;
    uint64_t shard, type, offset, nbytes, dim[4];
    size_t dims;
    bool filled; /* a slot */
} tensor;

typedef struct model {
    shard *shards;
    key *keys;
    tensor *tensors;
    size_t n_shards, n_keys, n_tensors;
    names key_index, tensor_index;
    uint8_t *texts; /* what names and strings point into */
} model;

int model_read(model *m, const uint8_t *input, size_t length); /* m is to be freed whatever comes */
void model_free(model *m);

#endif
