/* read.c - reading one file.
 *
 *   "GGUF", u32 version, u64 tensors, u64 keys
 *   keys:     u64 length, name | u32 type | value
 *   tensors:  u64 length, name | u32 dims | u64 dim[dims] | u32 type | u64 offset
 *   padding to the alignment, data
 *
 * All little-endian. A string is u64 length and its bytes; an array is u32 element type, u64 count and its elements.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/common/utf8.h"
#include "oracles/gguf/file.h"

#define LARGEST ((uint64_t)INT64_MAX)

const uint8_t value_width[VALUE_TYPES] = {[U8] = 1, [I8] = 1, [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4, [F32] = 4,
                                          [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8};

/* Elements and bytes of a block, by tensor type; no elements: no type. */
static const struct {
    uint16_t elements, size;
} block[] = {
    [0] = {1, 4},      [1] = {1, 2},      [2] = {32, 18},    [3] = {32, 20},    [6] = {32, 22},    [7] = {32, 24},
    [8] = {32, 34},    [9] = {32, 36},    [10] = {256, 84},  [11] = {256, 110}, [12] = {256, 144}, [13] = {256, 176},
    [14] = {256, 210}, [15] = {256, 292}, [16] = {256, 66},  [17] = {256, 74},  [18] = {256, 98},  [19] = {256, 50},
    [20] = {32, 18},   [21] = {256, 110}, [22] = {256, 82},  [23] = {256, 136}, [24] = {1, 1},     [25] = {1, 2},
    [26] = {1, 4},     [27] = {1, 8},     [28] = {1, 8},     [29] = {256, 56},  [30] = {1, 2},     [34] = {256, 54},
    [35] = {256, 66},  [39] = {32, 17},   [40] = {64, 36},   [41] = {128, 18},  [42] = {64, 18},
};

/* Code points that a name may not have, as stretches. */
static const uint32_t unfit[][2] = {
    {0x0, 0x1f},       {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x200b, 0x200f},
    {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff0, 0xffff}, {0xe0000, 0xe0fff},
};

uint64_t little(const uint8_t *data, size_t n) {
    uint64_t value = 0;
    for (size_t i = n; i > 0; i--) value = value << 8 | data[i - 1];
    return value;
}

/* ---- taking ---- */

typedef struct cursor {
    const file *f;
    size_t number; /* of the file */
    uint64_t at;
    tape *out;
} cursor;

static uint64_t left(const cursor *c) { return c->f->size - c->at; }

static outcome take(cursor *c, uint64_t n, bytes name, const uint64_t *index, size_t indexes, bytes *taken) {
    if (n > left(c)) return verdict(c->out, "gguf_truncated", name, index, indexes);
    if (c->at + n > c->f->head.length) {
        tape_word(c->out, "short");
        tape_uint(c->out, c->number);
        tape_end(c->out);
        return ANSWERED;
    }
    *taken = (bytes){c->f->head.data + c->at, (size_t)n};
    c->at += n;
    return FINE;
}

static outcome fault(cursor *c, const char *code, bytes subject) { return verdict(c->out, code, subject, NULL, 0); }

static outcome take_number(cursor *c, size_t n, bytes subject, uint64_t *value) {
    bytes taken;
    const outcome o = take(c, n, subject, NULL, 0, &taken);
    if (o == FINE) *value = little(taken.data, n);
    return o;
}

static bytes words(const char *text) { return (bytes){(const uint8_t *)text, strlen(text)}; }

/* What makes a name out of a string. */
static outcome take_name(cursor *c, uint64_t limit, bytes subject, bytes *name) {
    uint64_t length = 0;
    outcome o = take_number(c, 8, subject, &length);
    if (o != FINE) return o;
    if (length > limit) return fault(c, "gguf_string_length", subject);
    o = take(c, length, subject, NULL, 0, name);
    if (o != FINE) return o;
    if (!utf8_valid(*name)) return fault(c, "gguf_utf8", subject);
    if (name->length == 0) return fault(c, "gguf_name", subject);
    for (size_t at = 0; at < name->length;) {
        uint32_t code = 0;
        at += utf8_next(name->data + at, name->length - at, &code);
        for (size_t k = 0; k < sizeof unfit / sizeof unfit[0]; k++)
            if (code >= unfit[k][0] && code <= unfit[k][1]) return fault(c, "gguf_name", subject);
    }
    return FINE;
}

/* ---- keys ---- */

/* An array for the key `subject`. Only the outermost is told of its element type, count and start. */
static outcome take_array(cursor *c, bytes subject, unsigned depth, key *outermost) {
    uint64_t element = 0, count = 0;
    bytes taken;
    if (depth > MAX_DEPTH) return fault(c, "gguf_array_depth", subject);
    outcome o = take_number(c, 4, subject, &element);
    if (o != FINE) return o;
    if (element >= VALUE_TYPES) return fault(c, "gguf_value_type", subject);
    o = take_number(c, 8, subject, &count);
    if (o != FINE) return o;
    const uint64_t width = element == STRING ? 8 : element == ARRAY ? 12 : value_width[element];
    if (count > left(c) / width) return fault(c, "gguf_array_count", subject);
    const uint64_t start = c->at;
    if (element != STRING && element != ARRAY) o = take(c, count * width, subject, NULL, 0, &taken);
    for (uint64_t i = 0; o == FINE && i < count; i++) {
        if (element == ARRAY) o = take_array(c, subject, depth + 1, NULL);
        if (element == STRING) {
            o = take(c, 8, subject, &i, 1, &taken);
            if (o == FINE) o = take(c, little(taken.data, 8), subject, &i, 1, &taken);
        }
    }
    if (o == FINE && outermost != NULL) {
        outermost->element = (uint32_t)element;
        outermost->count = count;
        outermost->start = start;
        outermost->text = (bytes){c->f->head.data + start, (size_t)(c->at - start)};
    }
    return o;
}

static outcome take_value(cursor *c, key *k) {
    if (k->type == ARRAY) return take_array(c, k->name, 1, k);
    if (k->type == STRING) {
        uint64_t length = 0;
        outcome o = take_number(c, 8, k->name, &length);
        if (o == FINE) o = take(c, length, k->name, NULL, 0, &k->text);
        if (o == FINE && !utf8_valid(k->text)) return fault(c, "gguf_utf8", k->name);
        return o;
    }
    const outcome o = take_number(c, value_width[k->type], k->name, &k->bits);
    if (o == FINE && k->type == BOOL && k->bits > 1) return fault(c, "gguf_bool", k->name);
    return o;
}

/* Room for one more in an array that grows: a count from the file is not believed before its items are there. */
static bool reserve(void **items, size_t *room, size_t used, size_t size) {
    if (used < *room) return true;
    const size_t more = *room == 0 ? 16 : 2 * *room;
    void *grown = more > SIZE_MAX / size ? NULL : realloc(*items, more * size);
    if (grown == NULL) return false;
    *items = grown;
    *room = more;
    return true;
}

static outcome take_key(cursor *c, shard *s, uint64_t index) {
    char number[32];
    snprintf(number, sizeof number, "key %llu", (unsigned long long)index);
    key k = {0};
    uint64_t type = 0;
    outcome o = take_name(c, 65535, words(number), &k.name);
    if (o != FINE) return o;
    const name_outcome added = names_add(&s->by_key, k.name, index);
    if (added == NAME_NO_MEMORY) return NO_MEMORY;
    if (added == NAME_THERE) return fault(c, "gguf_duplicate_key", k.name);
    o = take_number(c, 4, k.name, &type);
    if (o != FINE) return o;
    if (type >= VALUE_TYPES) return fault(c, "gguf_value_type", k.name);
    k.type = (uint32_t)type;
    o = take_value(c, &k);
    if (o != FINE) return o;
    void *keys = s->keys;
    if (!reserve(&keys, &s->key_room, s->n_keys, sizeof k)) return NO_MEMORY;
    s->keys = keys;
    s->keys[s->n_keys++] = k;
    return FINE;
}

/* ---- tensors ---- */

static outcome take_tensor(cursor *c, shard *s, uint64_t index) {
    char number[32];
    snprintf(number, sizeof number, "tensor %llu", (unsigned long long)index);
    tensor t = {0};
    uint64_t dims = 0, type = 0, elements = 1;
    t.place = (size_t)index;
    outcome o = take_name(c, 64, words(number), &t.name);
    if (o == FINE) o = take_number(c, 4, t.name, &dims);
    if (o != FINE) return o;
    if (dims == 0 || dims > 4) return fault(c, "gguf_dims", t.name);
    t.dims = (uint32_t)dims;
    for (uint32_t d = 0; o == FINE && d < t.dims; d++) o = take_number(c, 8, t.name, &t.dim[d]);
    if (o != FINE) return o;
    for (uint32_t d = 0; d < t.dims; d++) {
        if (t.dim[d] == 0 || t.dim[d] > LARGEST / elements) return fault(c, "gguf_dims", t.name);
        elements *= t.dim[d];
    }
    o = take_number(c, 4, t.name, &type);
    if (o != FINE) return o;
    if (type >= sizeof block / sizeof block[0] || block[type].elements == 0) return fault(c, "gguf_tensor_type", t.name);
    t.type = (uint32_t)type;
    if (t.dim[0] % block[type].elements != 0) return fault(c, "gguf_blocks", t.name);
    const uint64_t blocks = elements / block[type].elements;
    if (blocks > LARGEST / block[type].size) return fault(c, "gguf_dims", t.name);
    t.nbytes = blocks * block[type].size;
    o = take_number(c, 8, t.name, &t.offset);
    if (o != FINE) return o;
    if (t.offset % s->alignment != 0 || t.offset > LARGEST) return fault(c, "gguf_offset", t.name);
    void *tensors = s->tensors;
    if (!reserve(&tensors, &s->tensor_room, s->n_tensors, sizeof t)) return NO_MEMORY;
    s->tensors = tensors;
    s->tensors[s->n_tensors++] = t;
    return FINE;
}

/* Places the tensors in the file: offsets are counted from the data until here. */
static outcome place_tensors(cursor *c, shard *s, names *seen) {
    for (size_t i = 0; i < s->n_tensors; i++) {
        tensor *t = &s->tensors[i];
        const name_outcome added = names_add(seen, t->name, i);
        if (added == NAME_NO_MEMORY) return NO_MEMORY;
        if (added == NAME_THERE) return fault(c, "gguf_duplicate_tensor", t->name);
        const uint64_t size = c->f->size;
        if (s->data > size || t->offset > size - s->data || t->nbytes > size - s->data - t->offset)
            return fault(c, "gguf_tensor_past_end", t->name);
        t->offset += s->data;
    }
    return FINE;
}

/* ---- the whole ---- */

static outcome take_count(cursor *c, const char *subject, uint64_t least, uint64_t most, uint64_t *count) {
    const outcome o = take_number(c, 8, words(subject), count);
    if (o == FINE && (*count > left(c) / least || *count > most)) return fault(c, "gguf_count", words(subject));
    return o;
}

static outcome take_header(cursor *c, shard *s, uint64_t *tensors, uint64_t *keys) {
    bytes magic;
    uint64_t version = 0;
    if (c->f->size < 4) return fault(c, "gguf_magic", words("magic"));
    outcome o = take(c, 4, words("magic"), NULL, 0, &magic);
    if (o != FINE) return o;
    if (memcmp(magic.data, "GGUF", 4) != 0) return fault(c, "gguf_magic", words("magic"));
    o = take_number(c, 4, words("version"), &version);
    if (o != FINE) return o;
    if (version != 2 && version != 3) {
        const uint64_t turned = (version & 0xff) << 24 | (version & 0xff00) << 8 | (version >> 8 & 0xff00) | version >> 24;
        return fault(c, version != 0 && turned <= 65535 ? "gguf_big_endian" : "gguf_version", words("version"));
    }
    s->version = (uint32_t)version;
    o = take_count(c, "tensor count", 33, 262144, tensors);
    if (o == FINE) o = take_count(c, "key count", 14, 65536, keys);
    return o;
}

outcome shard_read(const file *f, size_t number, tape *out, shard *s) {
    cursor c = {f, number, 0, out};
    uint64_t tensors = 0, keys = 0;
    *s = (shard){.file = number, .alignment = 32, .size = f->size};
    outcome o = take_header(&c, s, &tensors, &keys);
    for (uint64_t i = 0; o == FINE && i < keys; i++) o = take_key(&c, s, i);
    if (o != FINE) return o;
    const key *alignment = shard_key(s, "general.alignment");
    if (alignment != NULL) {
        const uint64_t a = alignment->bits;
        if (alignment->type != U32 || a < 8 || a > 1048576 || (a & (a - 1)) != 0)
            return fault(&c, "gguf_alignment", words("general.alignment"));
        s->alignment = a;
    }
    for (uint64_t i = 0; o == FINE && i < tensors; i++) o = take_tensor(&c, s, i);
    if (o != FINE) return o;
    s->data = (c.at + s->alignment - 1) / s->alignment * s->alignment;
    names seen = {0};
    o = place_tensors(&c, s, &seen);
    names_free(&seen);
    return o;
}

void shard_free(shard *s) {
    free(s->keys);
    free(s->tensors);
    names_free(&s->by_key);
}

const key *shard_key(const shard *s, const char *name) {
    uint64_t index = 0;
    return names_get(&s->by_key, words(name), &index) ? &s->keys[index] : NULL;
}

/* ---- the elements of arrays ---- */

/* Checks `count` elements that begin at *at, which is moved behind them; they were all read before, so they are there. */
static outcome check_elements(const key *k, uint32_t element, uint64_t count, const uint8_t **at, uint64_t *index, size_t depth, tape *out) {
    if (element != ARRAY && element != STRING && element != BOOL) {
        *at += count * value_width[element];
        return FINE;
    }
    for (uint64_t i = 0; i < count; i++) {
        index[depth - 1] = i;
        if (element == BOOL) {
            if (*(*at)++ > 1) return verdict(out, "gguf_bool", k->name, index, depth);
        } else if (element == STRING) {
            const bytes text = {*at + 8, (size_t)little(*at, 8)};
            if (!utf8_valid(text)) return verdict(out, "gguf_utf8", k->name, index, depth);
            *at = text.data + text.length;
        } else {
            const uint32_t inner = (uint32_t)little(*at, 4);
            const uint64_t inner_count = little(*at + 4, 8);
            *at += 12;
            const outcome o = check_elements(k, inner, inner_count, at, index, depth + 1, out);
            if (o != FINE) return o;
        }
    }
    return FINE;
}

outcome shard_check(const shard *s, tape *out) {
    outcome o = FINE;
    for (size_t i = 0; o == FINE && i < s->n_keys; i++) {
        if (s->keys[i].type != ARRAY) continue;
        const uint8_t *at = s->keys[i].text.data;
        uint64_t index[MAX_DEPTH];
        o = check_elements(&s->keys[i], s->keys[i].element, s->keys[i].count, &at, index, 1, out);
    }
    return o;
}
