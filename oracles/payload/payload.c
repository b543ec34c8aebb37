/* payload.c - the host's part of a session payload: header, token ids, and where the native tail lies.
 *
 *   offset  field (unsigned 32-bit little-endian)
 *        0  magic "DSV4"
 *        4  version: 1, 2 and 3 are read, 3 is written
 *        8  context of the writer, in tokens
 *       12  prefill width
 *       16  raw capacity, in rows
 *       20  layout tag, or the raw window of a deepseek payload
 *       24  compressed capacity, in rows
 *       28  token count
 *       32  layers
 *       36  head dim
 *       40  indexer head dim
 *       44  vocabulary size
 *       48  live rows
 *       52  token ids, then the tail to the end
 */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"

enum {
    CTX,
    PREFILL_WIDTH,
    RAW_CAPACITY,
    RAW_WINDOW, /* on the wire the layout tag or this */
    COMPRESSED_CAPACITY,
    TOKEN_COUNT,
    LAYERS,
    HEAD_DIM,
    INDEXER_HEAD_DIM,
    VOCAB,
    LIVE_ROWS,
    FIELDS
};
enum { HEADER_BYTES = 52, FIRST_FIELD = 8, VERSION_WRITTEN = 3 };

/* The verdict names of the fields, in the order in which they lie from offset 8 on. */
static const char *const field_names[FIELDS] = {
    "ctx",    "prefill_width", "raw_capacity",     "raw_window", "compressed_capacity", "token_count",
    "layers", "head_dim",      "indexer_head_dim", "vocab",      "live_rows",
};

typedef struct layout {
    char tag[5];
    const char *name, *family;
    bool rows_are_tokens; /* live rows must be the token count */
    bool takes_all;       /* a context of N takes N tokens, not N - 1 */
} layout;

static const layout layouts[] = {
    {"", "deepseek", "deepseek", false, false}, /* any value that is no tag */
    {"SLR3", "solar", "solar", true, false},
    {"EXA3", "exaone", "exaone", true, false},
    {"MTF3", "motif", "motif", true, false},
    {"DTS3", "dots", "dots", true, false},
    {"QWN3", "qwen", "qwen", false, true},
    {"QWF3", "qwen-fp8", "qwen", false, true},
    {"STP3", "step", "step", true, false},
    {"LNG3", "ling", "ling", true, false},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static uint32_t get32(const uint8_t *at) { return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24; }

static void put32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t tag_of(const layout *l) { return get32((const uint8_t *)l->tag); }

/* The layout that the field at 20 tells. */
static const layout *layout_of(uint32_t value) {
    for (size_t i = 1; i < LAYOUTS; i++)
        if (tag_of(&layouts[i]) == value) return &layouts[i];
    return &layouts[0];
}

static int verdict(const char *code, const char *subject, tape *out) {
    tape_word(out, "error");
    tape_word(out, code);
    tape_word(out, subject);
    tape_end(out);
    return ORACLE_OK;
}

static bool fits(const layout *l, uint64_t count, uint32_t ctx) { return l->takes_all ? count <= ctx : count < ctx; }

/* ---- decode: the command's words, then raw bytes ---- */

static int decode(const char *family, uint32_t ctx, bytes raw, tape *out) {
    uint32_t field[FIELDS];
    if (raw.length < HEADER_BYTES) return verdict("payload_truncated", "header", out);
    if (memcmp(raw.data, "DSV4", 4) != 0) return verdict("payload_magic", "magic", out);
    const uint32_t version = get32(raw.data + 4);
    if (version < 1 || version > VERSION_WRITTEN) return verdict("payload_version", "version", out);
    for (size_t i = 0; i < FIELDS; i++) field[i] = get32(raw.data + FIRST_FIELD + 4 * i);

    const layout *l = layout_of(field[RAW_WINDOW]);
    const uint32_t count = field[TOKEN_COUNT];
    const uint8_t *ids = raw.data + HEADER_BYTES;
    if (family != NULL && strcmp(family, l->family) != 0) return verdict("payload_family", "layout", out);
    if (!fits(l, count, ctx != 0 ? ctx : field[CTX])) return verdict("payload_context", "token_count", out);
    if (count > (raw.length - HEADER_BYTES) / 4) return verdict("payload_truncated", "ids", out);
    if (l->rows_are_tokens && field[LIVE_ROWS] != count) return verdict("payload_live_rows", "live_rows", out);
    for (size_t i = 0; i < count; i++)
        if (get32(ids + 4 * i) >= field[VOCAB]) return verdict("payload_token", "ids", out);

    if (l != &layouts[0]) field[RAW_WINDOW] = 0;
    tape_word(out, "payload");
    tape_uint(out, version);
    tape_word(out, l->name);
    for (size_t i = 0; i < FIELDS; i++) tape_uint(out, field[i]);
    tape_end(out);
    tape_word(out, "ids");
    for (size_t i = 0; i < count; i++) tape_uint(out, get32(ids + 4 * i));
    tape_end(out);
    const size_t tail = HEADER_BYTES + 4 * (size_t)count;
    tape_word(out, "tail");
    tape_uint(out, tail);
    tape_uint(out, raw.length - tail);
    tape_end(out);
    return ORACLE_OK;
}

/* ---- encode ---- */

static int encode(const layout *l, const uint64_t field[FIELDS], const uint64_t *ids, size_t count, tape *out) {
    for (size_t i = 0; i < FIELDS; i++)
        if (i != TOKEN_COUNT && field[i] > UINT32_MAX) return verdict("payload_range", field_names[i], out);
    for (size_t i = 0; i < count; i++)
        if (ids[i] > UINT32_MAX) return verdict("payload_range", "ids", out);
    const uint32_t window = (uint32_t)field[RAW_WINDOW];
    if (l == &layouts[0] ? layout_of(window) != l : window != 0) return verdict("payload_layout", "raw_window", out);
    if (!fits(l, count, (uint32_t)field[CTX])) return verdict("payload_context", "token_count", out);
    if (l->rows_are_tokens && field[LIVE_ROWS] != count) return verdict("payload_live_rows", "live_rows", out);
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= field[VOCAB]) return verdict("payload_token", "ids", out);

    uint8_t *raw = malloc(HEADER_BYTES + 4 * count);
    if (raw == NULL) return ORACLE_NO_MEMORY;
    memcpy(raw, "DSV4", 4);
    put32(raw + 4, VERSION_WRITTEN);
    for (size_t i = 0; i < FIELDS; i++) put32(raw + FIRST_FIELD + 4 * i, (uint32_t)field[i]);
    put32(raw + FIRST_FIELD + 4 * RAW_WINDOW, l == &layouts[0] ? window : tag_of(l));
    put32(raw + FIRST_FIELD + 4 * TOKEN_COUNT, (uint32_t)count);
    for (size_t i = 0; i < count; i++) put32(raw + HEADER_BYTES + 4 * i, (uint32_t)ids[i]);
    tape_word(out, "bytes");
    tape_bytes(out, raw, HEADER_BYTES + 4 * count);
    tape_end(out);
    free(raw);
    return ORACLE_OK;
}

/* ---- the tape ---- */

static bool next_line(reader *r, reader *line) {
    return reader_line(r, line) && line->at != line->end && line->end[-1] != ' ';
}

/* Plain digits below 2^64, leading zeros allowed. */
static bool next_uint(reader *line, uint64_t *value) {
    bytes word;
    if (!reader_word(line, &word)) return false;
    while (word.length > 1 && word.data[0] == '0') word = (bytes){word.data + 1, word.length - 1};
    return word_uint(word, value);
}

static int read_encode(reader *r, reader line, tape *out) {
    const layout *l = NULL;
    uint64_t field[FIELDS] = {0};
    bytes word;
    if (!reader_word(&line, &word)) return ORACLE_BAD_TAPE;
    for (size_t i = 0; i < LAYOUTS; i++)
        if (word_is(word, layouts[i].name)) l = &layouts[i];
    if (l == NULL) return ORACLE_BAD_TAPE;
    for (size_t i = 0; i < FIELDS; i++)
        if (i != TOKEN_COUNT && !next_uint(&line, &field[i])) return ORACLE_BAD_TAPE;
    if (line.at != line.end) return ORACLE_BAD_TAPE;

    if (!next_line(r, &line) || !reader_word(&line, &word) || !word_is(word, "ids") || r->at != r->end) return ORACLE_BAD_TAPE;
    const size_t room = (size_t)(line.end - line.at);
    if (room > SIZE_MAX / 8 - 8) return ORACLE_NO_MEMORY;
    uint64_t *ids = malloc((room / 2 + 1) * sizeof *ids); /* an id and the space behind it are two bytes or more */
    if (ids == NULL) return ORACLE_NO_MEMORY;
    size_t count = 0;
    int rc = ORACLE_OK;
    while (rc == ORACLE_OK && line.at != line.end)
        if (!next_uint(&line, &ids[count++])) rc = ORACLE_BAD_TAPE;
    if (rc == ORACLE_OK) rc = encode(l, field, ids, count, out);
    free(ids);
    return rc;
}

static int read_decode(reader *r, reader line, tape *out) {
    const char *family = NULL;
    uint64_t ctx;
    bytes word;
    if (!reader_word(&line, &word)) return ORACLE_BAD_TAPE;
    for (size_t i = 0; i < LAYOUTS && family == NULL; i++)
        if (word_is(word, layouts[i].family)) family = layouts[i].family;
    if (family == NULL && !word_is(word, "any")) return ORACLE_BAD_TAPE;
    if (!next_uint(&line, &ctx) || ctx > UINT32_MAX || line.at != line.end) return ORACLE_BAD_TAPE;
    return decode(family, (uint32_t)ctx, reader_rest(r), out);
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    reader r = reader_over(input, length), line;
    bytes verb;
    if (!next_line(&r, &line) || !reader_word(&line, &verb)) return ORACLE_BAD_TAPE;
    if (word_is(verb, "decode")) return read_decode(&r, line, out);
    if (word_is(verb, "encode")) return read_encode(&r, line, out);
    return ORACLE_BAD_TAPE;
}

const oracle_kind oracle_payload = {"payload", NULL, run, NULL};
