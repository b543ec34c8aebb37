/* read.c - the tape. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/bind/model.h"
#include "oracles/common/utf8.h"

#define LARGEST ((uint64_t)INT64_MAX)

static const char *const type_word[VALUE_TYPES] = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bool", "string", "array"};

static bool next_uint(reader *line, uint64_t low, uint64_t high, uint64_t *value) {
    bytes word;
    return reader_word(line, &word) && word_uint(word, value) && *value >= low && *value <= high;
}

static bool is_done(const reader *line) { return line->at == line->end; }

/* A line that begins with this verb. */
static bool next_line(reader *r, const char *verb, reader *line) {
    bytes word;
    return reader_line(r, line) && reader_word(line, &word) && word_is(word, verb);
}

/* UTF-8 at *end of the texts, which it moves on. */
static bool next_text(reader *line, uint8_t **end, bytes *text) {
    bytes word;
    size_t length = 0;
    if (!reader_word(line, &word) || !word_unescape(word, *end, &length)) return false;
    *text = (bytes){*end, length};
    *end += length;
    return utf8_valid(*text);
}

static int next_name(reader *line, uint8_t **end, names *index, size_t place, bytes *name) {
    if (!next_text(line, end, name) || name->length == 0) return ORACLE_BAD_TAPE;
    const name_outcome added = names_add(index, *name, place);
    return added == NAME_NEW ? ORACLE_OK : added == NAME_THERE ? ORACLE_BAD_TAPE : ORACLE_NO_MEMORY;
}

static bool next_type(reader *line, value_type *type) {
    bytes word;
    int t = 0;
    if (!reader_word(line, &word)) return false;
    while (t < VALUE_TYPES && !word_is(word, type_word[t])) t++;
    *type = (value_type)t;
    return t < VALUE_TYPES;
}

static bool next_integer(reader *line, value_type type, uint64_t *bits) {
    const unsigned width = 8u << type / 2; /* of u8 i8 u16 i16 u32 i32 u64 i64 */
    bytes word;
    if (!reader_word(line, &word)) return false;
    if (!is_signed(type)) return word_uint(word, bits) && (width == 64 || *bits >> width == 0);
    int64_t value = 0;
    const int64_t most = (int64_t)(UINT64_MAX >> (65 - width));
    if (!word_int(word, &value) || value > most || value < -most - 1) return false;
    *bits = (uint64_t)value;
    return true;
}

/* `nan`, or `digits` hex digits that are no NaN. */
static bool next_float(reader *line, size_t digits, double *value) {
    bytes word;
    uint64_t bits = 0;
    *value = NAN;
    if (!reader_word(line, &word)) return false;
    if (word_is(word, "nan")) return true;
    if (word.length != digits) return false;
    for (size_t i = 0; i < digits; i++) {
        const uint8_t c = word.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'))) return false;
        bits = bits << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'A' + 10);
    }
    if (digits == 8) {
        const uint32_t half = (uint32_t)bits;
        float single;
        memcpy(&single, &half, sizeof single);
        *value = (double)single;
    } else {
        memcpy(value, &bits, sizeof *value);
    }
    return !isnan(*value);
}

static bool not_above(value_type type, uint64_t a, uint64_t b) { return is_signed(type) ? (int64_t)a <= (int64_t)b : a <= b; }

static bool next_array(reader *line, key *k) {
    if (!next_type(line, &k->element) || !next_uint(line, 0, LARGEST, &k->count)) return false;
    if (!is_integer(k->element) || k->count == 0) return true;
    return next_integer(line, k->element, &k->least) && next_integer(line, k->element, &k->greatest) &&
           not_above(k->element, k->least, k->greatest) && (k->count > 1 || k->least == k->greatest);
}

static bool next_value(reader *line, uint8_t **end, key *k) {
    if (!next_type(line, &k->type)) return false;
    switch (k->type) {
    case F32: return next_float(line, 8, &k->number);
    case F64: return next_float(line, 16, &k->number);
    case BOOL: return next_uint(line, 0, 1, &k->bits);
    case STRING: return next_text(line, end, &k->text);
    case ARRAY: return next_array(line, k);
    default: return next_integer(line, k->type, &k->bits);
    }
}

static int read_key(reader *r, model *m, size_t place, uint8_t **end) {
    reader line;
    key *k = &m->keys[place];
    if (!next_line(r, "key", &line)) return ORACLE_BAD_TAPE;
    const int rc = next_name(&line, end, &m->key_index, place, &k->name);
    if (rc != ORACLE_OK) return rc;
    return next_value(&line, end, k) && is_done(&line) ? ORACLE_OK : ORACLE_BAD_TAPE;
}

static int read_tensor(reader *r, model *m, size_t place, uint8_t **end) {
    reader line;
    tensor *t = &m->tensors[place];
    if (!next_line(r, "tensor", &line)) return ORACLE_BAD_TAPE;
    const int rc = next_name(&line, end, &m->tensor_index, place, &t->name);
    if (rc != ORACLE_OK) return rc;
    if (!next_uint(&line, 0, UINT32_MAX, &t->shard) || !next_uint(&line, 0, UINT32_MAX, &t->type) ||
        !next_uint(&line, 0, LARGEST, &t->offset) || !next_uint(&line, 0, LARGEST, &t->nbytes))
        return ORACLE_BAD_TAPE;
    while (t->dims < 4 && !is_done(&line))
        if (!next_uint(&line, 0, LARGEST, &t->dim[t->dims++])) return ORACLE_BAD_TAPE;
    return t->dims > 0 && is_done(&line) ? ORACLE_OK : ORACLE_BAD_TAPE;
}

static int read_shard(reader *r, shard *s) {
    reader line;
    const bool fine = next_line(r, "shard", &line) && next_uint(&line, 0, LARGEST, &s->size) && next_uint(&line, 0, LARGEST, &s->data) &&
                      next_uint(&line, 1, UINT64_C(1) << 31, &s->alignment) && is_done(&line);
    return fine ? ORACLE_OK : ORACLE_BAD_TAPE;
}

int model_read(model *m, const uint8_t *input, size_t length) {
    reader r = reader_over(input, length), line;
    uint64_t shards = 0, keys = 0, tensors = 0;
    *m = (model){0};
    if (!next_line(&r, "plan", &line) || !next_uint(&line, 1, 100000, &shards) || !next_uint(&line, 0, length, &keys) ||
        !next_uint(&line, 0, length, &tensors) || !is_done(&line))
        return ORACLE_BAD_TAPE;
    /* a line takes more than eight bytes: no more is set aside than the tape can hold */
    if (shards > length / 8 || keys > length / 8 || tensors > length / 8) return ORACLE_BAD_TAPE;
    m->n_shards = (size_t)shards;
    m->n_keys = (size_t)keys;
    m->n_tensors = (size_t)tensors;
    m->shards = calloc(m->n_shards, sizeof *m->shards);
    m->keys = calloc(m->n_keys + 1, sizeof *m->keys);
    m->tensors = calloc(m->n_tensors + 1, sizeof *m->tensors);
    m->texts = malloc(length + 1); /* escapes only shrink */
    if (m->shards == NULL || m->keys == NULL || m->tensors == NULL || m->texts == NULL) return ORACLE_NO_MEMORY;
    uint8_t *end = m->texts;
    int rc = ORACLE_OK;
    for (size_t i = 0; rc == ORACLE_OK && i < m->n_shards; i++) rc = read_shard(&r, &m->shards[i]);
    for (size_t i = 0; rc == ORACLE_OK && i < m->n_keys; i++) rc = read_key(&r, m, i, &end);
    for (size_t i = 0; rc == ORACLE_OK && i < m->n_tensors; i++) rc = read_tensor(&r, m, i, &end);
    return rc == ORACLE_OK && r.at != r.end ? ORACLE_BAD_TAPE : rc;
}

void model_free(model *m) {
    free(m->shards);
    free(m->keys);
    free(m->tensors);
    free(m->texts);
    names_free(&m->key_index);
    names_free(&m->tensor_index);
}
