/* gguf.c - the tape, the set of shards, and the inventory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/gguf/file.h"

typedef struct input {
    bool check;
    file *files;
    size_t n;
    names by_name; /* file name -> its number */
} input;

typedef struct set {
    shard *shards;
    size_t n;
} set;

/* ---- the tape ---- */

static void input_free(input *in) {
    for (size_t i = 0; i < in->n; i++) free(in->files[i].name_data);
    free(in->files);
    names_free(&in->by_name);
}

static int read_file(reader *r, input *in) {
    reader line;
    bytes verb, name, size, head;
    uint64_t head_bytes = 0;
    file f = {0};
    if (!reader_line(r, &line) || !reader_word(&line, &verb) || !word_is(verb, "file") || !reader_word(&line, &name) ||
        !reader_word(&line, &size) || !word_uint(size, &f.size) || f.size > INT64_MAX || !reader_word(&line, &head) ||
        !word_uint(head, &head_bytes) || head_bytes > f.size || line.at != line.end)
        return ORACLE_BAD_TAPE;
    if (head_bytes > (uint64_t)(r->end - r->at)) return ORACLE_BAD_TAPE;
    f.head = (bytes){r->at, (size_t)head_bytes};
    r->at += head_bytes;
    f.name_data = malloc(name.length + 1);
    if (f.name_data == NULL) return ORACLE_NO_MEMORY;
    in->files[in->n++] = f; /* owns the name from here on */
    file *kept = &in->files[in->n - 1];
    kept->name.data = f.name_data;
    if (!word_unescape(name, f.name_data, &kept->name.length)) return ORACLE_BAD_TAPE;
    if (kept->name.length == 0 || kept->name.length > 4096 || memchr(f.name_data, 0, kept->name.length) != NULL ||
        memchr(f.name_data, '/', kept->name.length) != NULL)
        return ORACLE_BAD_TAPE;
    const name_outcome added = names_add(&in->by_name, kept->name, in->n - 1);
    return added == NAME_NEW ? ORACLE_OK : added == NAME_THERE ? ORACLE_BAD_TAPE : ORACLE_NO_MEMORY;
}

static int read_input(const uint8_t *data, size_t length, input *in) {
    reader r = reader_over(data, length), line;
    bytes verb, count;
    uint64_t n = 0;
    if (!reader_line(&r, &line) || !reader_word(&line, &verb) || !reader_word(&line, &count) || !word_uint(count, &n) ||
        line.at != line.end || n < 1 || n > 100000 || !(word_is(verb, "load") || word_is(verb, "check")))
        return ORACLE_BAD_TAPE;
    if (n > (uint64_t)(r.end - r.at)) return ORACLE_BAD_TAPE; /* a file takes more than a byte */
    in->check = word_is(verb, "check");
    in->files = malloc((size_t)n * sizeof *in->files);
    if (in->files == NULL) return ORACLE_NO_MEMORY;
    int rc = ORACLE_OK;
    for (uint64_t i = 0; rc == ORACLE_OK && i < n; i++) rc = read_file(&r, in);
    if (rc == ORACLE_OK && r.at != r.end) rc = ORACLE_BAD_TAPE;
    return rc;
}

/* ---- shard names: <stem>-NNNNN-of-NNNNN.gguf ---- */

#define TAIL 20u /* bytes behind the stem */

static bool five_digits(const uint8_t *at, uint32_t *value) {
    *value = 0;
    for (size_t i = 0; i < 5; i++) {
        if (at[i] < '0' || at[i] > '9') return false;
        *value = *value * 10 + (uint32_t)(at[i] - '0');
    }
    return true;
}

static bool shard_name(bytes name, uint32_t *number, uint32_t *count) {
    if (name.length < TAIL + 1) return false;
    const uint8_t *tail = name.data + name.length - TAIL;
    return tail[0] == '-' && five_digits(tail + 1, number) && memcmp(tail + 6, "-of-", 4) == 0 && five_digits(tail + 10, count) &&
           memcmp(tail + 15, ".gguf", 5) == 0 && *number >= 1 && *number <= *count;
}

/* ---- integers among the keys ---- */

static outcome integer(const shard *s, const char *name, const uint64_t *otherwise, tape *out, uint64_t *value) {
    const bytes subject = {(const uint8_t *)name, strlen(name)};
    const key *k = shard_key(s, name);
    if (k == NULL) {
        if (otherwise == NULL) return verdict(out, "metadata_missing", subject, NULL, 0);
        *value = *otherwise;
        return FINE;
    }
    const bool is_signed = k->type == I8 || k->type == I16 || k->type == I32 || k->type == I64;
    if (!is_signed && k->type != U8 && k->type != U16 && k->type != U32 && k->type != U64)
        return verdict(out, "metadata_type", subject, NULL, 0);
    const bool negative = is_signed && k->bits >> (8 * value_width[k->type] - 1) != 0;
    if (negative || k->bits > UINT32_MAX) return verdict(out, "metadata_range", subject, NULL, 0);
    *value = k->bits;
    return FINE;
}

/* ---- the set ---- */

static outcome read_shard(const input *in, size_t number, set *all, tape *out) {
    return shard_read(&in->files[number], number, out, &all->shards[all->n++]);
}

static outcome hold_to_place(const shard *s, uint64_t place, uint64_t count, tape *out) {
    uint64_t value = 0;
    outcome o = integer(s, "split.count", NULL, out, &value);
    if (o != FINE) return o;
    if (value != count) return verdict(out, "split_count", (bytes){(const uint8_t *)"split.count", 11}, NULL, 0);
    o = integer(s, "split.no", NULL, out, &value);
    if (o != FINE) return o;
    return value == place ? FINE : verdict(out, "split_number", (bytes){(const uint8_t *)"split.no", 8}, NULL, 0);
}

/* Puts sibling k's number into a shard name. */
static void name_sibling(bytes name, uint8_t *data, uint32_t k) {
    char digits[16];
    snprintf(digits, sizeof digits, "%05u", (unsigned)k);
    memcpy(data + name.length - TAIL + 1, digits, 5);
}

/* Reads shards 2..count beside the opened one. */
static outcome read_siblings(const input *in, uint32_t count, set *all, tape *out) {
    const bytes opened = in->files[0].name;
    uint8_t *data = malloc(opened.length);
    const bytes sibling = {data, opened.length};
    uint64_t number = 0;
    if (data == NULL) return NO_MEMORY;
    memcpy(data, opened.data, opened.length);
    outcome o = FINE;
    for (uint32_t k = 2; o == FINE && k <= count; k++) {
        name_sibling(opened, data, k);
        if (!names_get(&in->by_name, sibling, &number)) o = verdict(out, "split_missing", sibling, NULL, 0);
    }
    if (o == FINE) { /* so there are no more shards than files */
        shard *shards = realloc(all->shards, count * sizeof *shards);
        if (shards == NULL) o = NO_MEMORY;
        else all->shards = shards;
    }
    for (uint32_t k = 2; o == FINE && k <= count; k++) {
        name_sibling(opened, data, k);
        names_get(&in->by_name, sibling, &number);
        o = read_shard(in, (size_t)number, all, out);
        if (o == FINE) o = hold_to_place(&all->shards[k - 1], k - 1, count, out);
    }
    free(data);
    return o;
}

static outcome read_set(const input *in, set *all, tape *out) {
    static const uint64_t one = 1;
    const file *opened = &in->files[0];
    uint32_t number = 0, count = 0;
    uint64_t told = 0;
    const bool named = shard_name(opened->name, &number, &count);
    if (named && number > 1) return verdict(out, "split_first", opened->name, NULL, 0);
    all->shards = malloc(sizeof *all->shards);
    if (all->shards == NULL) return NO_MEMORY;
    outcome o = read_shard(in, 0, all, out);
    if (o == FINE) o = integer(&all->shards[0], "split.count", &one, out, &told);
    if (o != FINE) return o;
    if (!named) return told > 1 ? verdict(out, "split_name", opened->name, NULL, 0) : FINE;
    if (count == 1 && shard_key(&all->shards[0], "split.count") == NULL) return FINE;
    o = hold_to_place(&all->shards[0], 0, count, out);
    return o == FINE ? read_siblings(in, count, all, out) : o;
}

static outcome merge(const set *all, names *seen, tape *out) {
    uint64_t total = 0;
    for (size_t i = 0; i < all->n; i++) {
        for (size_t k = 0; k < all->shards[i].n_tensors; k++) {
            const bytes name = all->shards[i].tensors[k].name; /* within a shard names differ: reading saw to it */
            const name_outcome added = names_add(seen, name, i);
            if (added == NAME_NO_MEMORY) return NO_MEMORY;
            if (added == NAME_THERE) return verdict(out, "split_duplicate", name, NULL, 0);
            total++;
        }
    }
    outcome o = FINE;
    for (size_t i = 0; o == FINE && i < all->n; i++) {
        uint64_t told = 0;
        o = integer(&all->shards[i], "split.tensors.count", &total, out, &told);
        if (o == FINE && told != total) o = verdict(out, "split_tensors", (bytes){(const uint8_t *)"split.tensors.count", 19}, NULL, 0);
    }
    return o;
}

/* ---- the inventory ---- */

static const char *const type_word[VALUE_TYPES] = {"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

static uint32_t crc32_of(bytes data) {
    uint32_t table[256], crc = 0xffffffffu;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = (c & 1) != 0 ? c >> 1 ^ 0xedb88320u : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < data.length; i++) crc = table[(crc ^ data.data[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

static void write_hex(tape *out, uint64_t value, int digits) {
    char text[20];
    snprintf(text, sizeof text, "%0*llX", digits, (unsigned long long)value);
    tape_word(out, text);
}

static void write_key(tape *out, const key *k) {
    tape_word(out, "key");
    tape_bytes(out, k->name.data, k->name.length);
    tape_word(out, type_word[k->type]);
    switch (k->type) {
    case I8: tape_int(out, (int8_t)k->bits); break;
    case I16: tape_int(out, (int16_t)k->bits); break;
    case I32: tape_int(out, (int32_t)k->bits); break;
    case I64: tape_int(out, (int64_t)k->bits); break;
    case F32:
        if ((k->bits & 0x7fffffff) > 0x7f800000) tape_word(out, "nan");
        else write_hex(out, k->bits, 8);
        break;
    case F64:
        if ((k->bits & 0x7fffffffffffffff) > 0x7ff0000000000000) tape_word(out, "nan");
        else write_hex(out, k->bits, 16);
        break;
    case STRING: tape_bytes(out, k->text.data, k->text.length); break;
    case ARRAY:
        tape_word(out, type_word[k->element]);
        tape_uint(out, k->count);
        tape_uint(out, k->start);
        tape_uint(out, k->text.length);
        write_hex(out, crc32_of(k->text), 8);
        break;
    default: tape_uint(out, k->bits); break;
    }
    tape_end(out);
}

static int by_data(const void *left, const void *right) {
    const tensor *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->nbytes != b->nbytes) return a->nbytes > b->nbytes ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Sorts the shard's tensors: they are not needed in the file's order any more. */
static void write_aliases(tape *out, shard *s, size_t index) {
    if (s->n_tensors > 1) qsort(s->tensors, s->n_tensors, sizeof *s->tensors, by_data);
    for (size_t i = 0, next; i < s->n_tensors; i = next) {
        uint64_t end = s->tensors[i].offset + s->tensors[i].nbytes;
        for (next = i + 1; next < s->n_tensors && s->tensors[next].offset < end; next++) {
            const uint64_t its_end = s->tensors[next].offset + s->tensors[next].nbytes;
            if (its_end > end) end = its_end;
        }
        if (next == i + 1) continue;
        tape_word(out, "alias");
        tape_uint(out, index);
        tape_uint(out, s->tensors[i].offset);
        tape_uint(out, end - s->tensors[i].offset);
        for (size_t k = i; k < next; k++) tape_bytes(out, s->tensors[k].name.data, s->tensors[k].name.length);
        tape_end(out);
    }
}

static void write_inventory(tape *out, set *all) {
    tape_word(out, "ok");
    tape_uint(out, all->n);
    tape_end(out);
    for (size_t i = 0; i < all->n; i++) {
        const shard *s = &all->shards[i];
        const uint64_t numbers[] = {i, s->file, s->version, s->alignment, s->data, s->size, s->n_keys, s->n_tensors};
        tape_word(out, "shard");
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) tape_uint(out, numbers[k]);
        tape_end(out);
        for (size_t k = 0; k < s->n_keys; k++) write_key(out, &s->keys[k]);
        for (size_t k = 0; k < s->n_tensors; k++) {
            const tensor *t = &s->tensors[k];
            tape_word(out, "tensor");
            tape_bytes(out, t->name.data, t->name.length);
            tape_uint(out, i);
            tape_uint(out, t->type);
            tape_uint(out, t->offset);
            tape_uint(out, t->nbytes);
            for (uint32_t d = 0; d < t->dims; d++) tape_uint(out, t->dim[d]);
            tape_end(out);
        }
    }
    for (size_t i = 0; i < all->n; i++) write_aliases(out, &all->shards[i], i);
}

static int run(const void *state, const uint8_t *data, size_t length, tape *out) {
    (void)state;
    input in = {0};
    set all = {0};
    int rc = read_input(data, length, &in);
    if (rc == ORACLE_OK) {
        names seen = {0};
        outcome o = read_set(&in, &all, out);
        if (o == FINE) o = merge(&all, &seen, out);
        names_free(&seen);
        for (size_t i = 0; in.check && o == FINE && i < all.n; i++) o = shard_check(&all.shards[i], out);
        if (o == FINE) write_inventory(out, &all);
        if (o == NO_MEMORY) rc = ORACLE_NO_MEMORY;
    }
    for (size_t i = 0; i < all.n; i++) shard_free(&all.shards[i]);
    free(all.shards);
    input_free(&in);
    return rc;
}

const oracle_kind oracle_gguf = {"gguf", NULL, run, NULL};
