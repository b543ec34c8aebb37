/* kvc.c - the record that keeps a session on disk, version 1.
 *
 *   offset bytes  field (integers unsigned, little-endian)
 *        0     3  magic "KVC"
 *        3     1  file version, 1
 *        4     1  bits of the routed weights, 2 or 4
 *        5     1  reason
 *        6     1  extension bits
 *        7     1  model id
 *        8     4  tokens, not 0
 *       12     4  hits
 *       16     4  context when it was saved
 *       20     1  payload ABI, 2
 *       21     3  zero
 *       24     8  created, Unix seconds
 *       32     8  last used
 *       40     8  payload bytes P
 *       48     4  text bytes T
 *       52        text, payload, then to the end the sections that the bits announce:
 *
 *   title     u32 length (at most 65536), the title
 *   tool map  "KTM" 01, u32 count, and for each: u32 id length, u32 body length, id, body
 *   identity  "KVI" 01, 32 bytes, "KVI!": always the last 40 bytes
 */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/kvc/sha1.h"

enum { HEADER = 52, FOOTER = 40, DIGEST = 32, ENTRY = 8 };
enum { HAS_TOOLS = 1, HAS_TITLE = 8, HAS_IDENTITY = 64, UNKNOWN_BIT = 128, MARKS = 2 + 4 + 16 + 32 };
enum { TITLE_MOST = 65536, TOOLS_MOST = 400000, ID_MOST = 256, BODY_MOST = 536870912, REASON_MOST = 9 };

/* The numbers of a record, in the order of the tape; where each lies, and in how many bytes. */
enum { QUANT, REASON, MARKS_, MODEL, TOKENS, HITS, CTX, CREATED, USED, NUMBERS };
static const struct {
    const char *name;
    size_t offset, width;
} numbers[NUMBERS] = {
    {"quant", 4, 1}, {"reason", 5, 1}, {"marks", 6, 1},    {"model", 7, 1}, {"tokens", 8, 4},
    {"hits", 12, 4}, {"ctx", 16, 4},   {"created", 24, 8}, {"used", 32, 8},
};

typedef struct verdict {
    const char *code, *subject; /* code NULL: none */
} verdict;

static const verdict fine = {NULL, NULL};

typedef struct tool {
    bytes id, body;
} tool;

static uint64_t get(const uint8_t *at, size_t width) {
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;) value = value << 8 | at[i];
    return value;
}

static void put(uint8_t *at, size_t width, uint64_t value) {
    for (size_t i = 0; i < width; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static bool holds_zero(bytes b) { return b.length > 0 && memchr(b.data, 0, b.length) != NULL; }

static int write_verdict(verdict v, tape *out) {
    tape_word(out, "error");
    tape_word(out, v.code);
    tape_word(out, v.subject);
    tape_end(out);
    return ORACLE_OK;
}

static void write_word(const char *verb, bytes word, tape *out) {
    tape_word(out, verb);
    tape_bytes(out, word.data, word.length);
    tape_end(out);
}

/* A record answers for its text; one with a title, for the title and the time it was made. */
static void write_name(bytes text, const bytes *title, uint64_t created, tape *out) {
    char name[41 + 3];
    uint8_t time[8];
    put(time, sizeof time, created);
    sha1_hex(title != NULL ? *title : text, (bytes){time, title != NULL ? sizeof time : 0}, name);
    memcpy(name + 40, ".kv", 4);
    tape_word(out, "name");
    tape_word(out, name);
    tape_end(out);
}

/* ---- decode ---- */

static size_t left(const reader *r) { return (size_t)(r->end - r->at); }

static bytes take(reader *r, size_t n) {
    const bytes taken = {r->at, n};
    r->at += n;
    return taken;
}

static verdict take_title(reader *r, bytes *title) {
    if (left(r) < 4) return (verdict){"kvc_truncated", "title"};
    const uint64_t length = get(take(r, 4).data, 4);
    if (length > TITLE_MOST) return (verdict){"kvc_title", "title"};
    if (length > left(r)) return (verdict){"kvc_truncated", "title"};
    *title = take(r, (size_t)length);
    return fine;
}

static verdict take_tool(reader *r, tool *t) {
    if (left(r) < ENTRY) return (verdict){"kvc_truncated", "tool_map"};
    const uint64_t id = get(take(r, 4).data, 4), body = get(take(r, 4).data, 4);
    if (id < 1 || id > ID_MOST) return (verdict){"kvc_tool_id", "tool_map"};
    if (body < 1 || body > BODY_MOST) return (verdict){"kvc_tool_body", "tool_map"};
    if (id + body > left(r)) return (verdict){"kvc_truncated", "tool_map"};
    t->id = take(r, (size_t)id);
    t->body = take(r, (size_t)body);
    if (holds_zero(t->id)) return (verdict){"kvc_tool_id", "tool_map"};
    if (holds_zero(t->body)) return (verdict){"kvc_tool_body", "tool_map"};
    return fine;
}

static verdict take_tool_map(reader *r, uint64_t *count, reader *entries) {
    if (left(r) < 8) return (verdict){"kvc_truncated", "tool_map"};
    if (memcmp(take(r, 4).data, "KTM\1", 4) != 0) return (verdict){"kvc_tool_magic", "tool_map"};
    *count = get(take(r, 4).data, 4);
    /* The smallest entry has ten bytes. */
    if (*count == 0 || *count > TOOLS_MOST || *count > left(r) / (ENTRY + 2)) return (verdict){"kvc_tool_count", "tool_map"};
    *entries = *r;
    verdict v = fine;
    tool t;
    for (uint64_t i = 0; i < *count && v.code == NULL; i++) v = take_tool(r, &t);
    return v;
}

typedef struct record {
    uint64_t number[NUMBERS];
    uint8_t extensions;
    bytes text, payload, title, digest;
    uint64_t tool_count;
    reader tools; /* from the first entry on */
} record;

static verdict read_record(bytes file, record *rec) {
    reader r = reader_over(file.data, file.length);
    if (left(&r) < HEADER) return (verdict){"kvc_truncated", "header"};
    const uint8_t *header = take(&r, HEADER).data;
    if (memcmp(header, "KVC", 3) != 0) return (verdict){"kvc_magic", "magic"};
    if (header[3] != 1) return (verdict){"kvc_version", "version"};
    if (header[20] != 2) return (verdict){"kvc_abi", "abi"};
    if (get(header + 21, 3) != 0) return (verdict){"kvc_reserved", "reserved"};
    for (size_t i = 0; i < NUMBERS; i++) rec->number[i] = get(header + numbers[i].offset, numbers[i].width);
    if (rec->number[QUANT] != 2 && rec->number[QUANT] != 4) return (verdict){"kvc_quant", "quant"};
    rec->extensions = header[6];
    if (rec->extensions & UNKNOWN_BIT) return (verdict){"kvc_extension", "extensions"};
    if (rec->number[TOKENS] == 0) return (verdict){"kvc_tokens", "tokens"};
    rec->number[MARKS_] &= MARKS;
    if (rec->number[REASON] > REASON_MOST) rec->number[REASON] = 0;

    const uint64_t payload = get(header + 40, 8), text = get(header + 48, 4);
    if (text > left(&r)) return (verdict){"kvc_truncated", "text"};
    rec->text = take(&r, (size_t)text);
    if (payload > left(&r)) return (verdict){"kvc_truncated", "payload"};
    rec->payload = take(&r, (size_t)payload);

    verdict v = fine;
    if (rec->extensions & HAS_IDENTITY) {
        if (left(&r) < FOOTER) return (verdict){"kvc_truncated", "identity"};
        r.end -= FOOTER;
        if (memcmp(r.end, "KVI\1", 4) != 0 || memcmp(r.end + 4 + DIGEST, "KVI!", 4) != 0) return (verdict){"kvc_identity", "identity"};
        rec->digest = (bytes){r.end + 4, DIGEST};
    }
    if (rec->extensions & HAS_TITLE) v = take_title(&r, &rec->title);
    if (v.code == NULL && rec->extensions & HAS_TOOLS) v = take_tool_map(&r, &rec->tool_count, &rec->tools);
    if (v.code == NULL && left(&r) > 0) v = (verdict){"kvc_trailing", "trailer"};
    return v;
}

static int decode(bytes file, tape *out) {
    record rec = {0};
    const verdict v = read_record(file, &rec);
    if (v.code != NULL) return write_verdict(v, out);
    const bool titled = rec.extensions & HAS_TITLE;

    tape_word(out, "record");
    for (size_t i = 0; i < NUMBERS; i++) tape_uint(out, rec.number[i]);
    tape_end(out);
    write_word("text", rec.text, out);
    tape_word(out, "payload");
    tape_uint(out, HEADER + rec.text.length);
    tape_uint(out, rec.payload.length);
    tape_end(out);
    if (titled) write_word("title", rec.title, out);
    for (uint64_t i = 0; i < rec.tool_count; i++) {
        tool t;
        if (take_tool(&rec.tools, &t).code != NULL) break; /* read_record has seen that it is whole */
        tape_word(out, "tool");
        tape_bytes(out, t.id.data, t.id.length);
        tape_bytes(out, t.body.data, t.body.length);
        tape_end(out);
    }
    if (rec.extensions & HAS_IDENTITY) write_word("identity", rec.digest, out);
    write_name(rec.text, titled ? &rec.title : NULL, rec.number[CREATED], out);
    return ORACLE_OK;
}

/* ---- encode ---- */

typedef struct request {
    uint64_t number[NUMBERS];
    bytes text, payload, title, identity;
    bool titled, identified;
    tool *tools;
    size_t tool_count;
} request;

static verdict judge(const request *q) {
    for (size_t i = 0; i < NUMBERS; i++)
        if (numbers[i].width < 8 && q->number[i] >> 8 * numbers[i].width != 0) return (verdict){"kvc_range", numbers[i].name};
    if (q->number[QUANT] != 2 && q->number[QUANT] != 4) return (verdict){"kvc_quant", "quant"};
    if (q->number[REASON] > REASON_MOST) return (verdict){"kvc_reason", "reason"};
    if ((q->number[MARKS_] & ~(uint64_t)MARKS) != 0) return (verdict){"kvc_extension", "extensions"};
    if (q->number[TOKENS] == 0) return (verdict){"kvc_tokens", "tokens"};
    if (q->text.length > UINT32_MAX) return (verdict){"kvc_text", "text"};
    if (q->title.length > TITLE_MOST) return (verdict){"kvc_title", "title"};
    if (q->tool_count > TOOLS_MOST) return (verdict){"kvc_tool_count", "tool_map"};
    for (size_t i = 0; i < q->tool_count; i++) {
        const tool *t = &q->tools[i];
        if (t->id.length < 1 || t->id.length > ID_MOST || holds_zero(t->id)) return (verdict){"kvc_tool_id", "tool_map"};
        if (t->body.length < 1 || t->body.length > BODY_MOST || holds_zero(t->body)) return (verdict){"kvc_tool_body", "tool_map"};
    }
    if (q->identified && q->identity.length != DIGEST) return (verdict){"kvc_identity", "identity"};
    return fine;
}

static uint8_t *put_bytes(uint8_t *at, bytes b) {
    if (b.length > 0) memcpy(at, b.data, b.length);
    return at + b.length;
}

static uint8_t *put_u32(uint8_t *at, size_t value) {
    put(at, 4, value);
    return at + 4;
}

/* The file into `to`, which has room for it; returns its size. */
static size_t write_file(const request *q, uint8_t *to) {
    memset(to, 0, HEADER);
    memcpy(to, "KVC\1", 4);
    for (size_t i = 0; i < NUMBERS; i++) put(to + numbers[i].offset, numbers[i].width, q->number[i]);
    to[6] |= (uint8_t)((q->titled ? HAS_TITLE : 0) | (q->tool_count > 0 ? HAS_TOOLS : 0) | (q->identified ? HAS_IDENTITY : 0));
    to[20] = 2;
    put(to + 40, 8, q->payload.length);
    put(to + 48, 4, q->text.length);
    uint8_t *at = put_bytes(to + HEADER, q->text);
    at = put_bytes(at, q->payload);
    if (q->titled) at = put_bytes(put_u32(at, q->title.length), q->title);
    if (q->tool_count > 0) at = put_u32(put_bytes(at, (bytes){(const uint8_t *)"KTM\1", 4}), q->tool_count);
    for (size_t i = 0; i < q->tool_count; i++) {
        at = put_u32(put_u32(at, q->tools[i].id.length), q->tools[i].body.length);
        at = put_bytes(put_bytes(at, q->tools[i].id), q->tools[i].body);
    }
    if (q->identified) {
        at = put_bytes(at, (bytes){(const uint8_t *)"KVI\1", 4});
        at = put_bytes(at, q->identity);
        at = put_bytes(at, (bytes){(const uint8_t *)"KVI!", 4});
    }
    return (size_t)(at - to);
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

/* The next word's bytes, at *room, which they take up. */
static bool next_bytes(reader *line, uint8_t **room, bytes *value) {
    bytes word;
    if (!reader_word(line, &word) || !word_unescape(word, *room, &value->length)) return false;
    value->data = *room;
    *room += value->length;
    return true;
}

/* The line of this verb, if it is next; `line` is what follows the verb. */
static bool next_verb(reader *r, const char *verb, reader *line) {
    reader ahead = *r;
    bytes word;
    if (!next_line(&ahead, line) || !reader_word(line, &word) || !word_is(word, verb)) return false;
    *r = ahead;
    return true;
}

static bool read_request(reader r, reader line, request *q, uint8_t *room) {
    for (size_t i = 0; i < NUMBERS; i++)
        if (!next_uint(&line, &q->number[i])) return false;
    if (line.at != line.end) return false;
    if (!next_verb(&r, "text", &line) || !next_bytes(&line, &room, &q->text) || line.at != line.end) return false;
    if (!next_verb(&r, "payload", &line) || !next_bytes(&line, &room, &q->payload) || line.at != line.end) return false;
    q->titled = next_verb(&r, "title", &line);
    if (q->titled && (!next_bytes(&line, &room, &q->title) || line.at != line.end)) return false;
    while (next_verb(&r, "tool", &line)) {
        tool *t = &q->tools[q->tool_count++];
        if (!next_bytes(&line, &room, &t->id) || !next_bytes(&line, &room, &t->body) || line.at != line.end) return false;
    }
    q->identified = next_verb(&r, "identity", &line);
    if (q->identified && (!next_bytes(&line, &room, &q->identity) || line.at != line.end)) return false;
    return r.at == r.end;
}

static int encode(reader r, reader line, size_t length, tape *out) {
    if (length > SIZE_MAX / 64) return ORACLE_NO_MEMORY;
    /* A word's bytes are no more than its spelling; a tool line is "tool", a newline or more, and has eight bytes in the
     * file that are not of the tape. */
    request q = {0};
    uint8_t *room = malloc(length), *file = NULL;
    q.tools = malloc((length / 5 + 1) * sizeof *q.tools);
    int rc = ORACLE_NO_MEMORY;
    if (room != NULL && q.tools != NULL) rc = read_request(r, line, &q, room) ? ORACLE_OK : ORACLE_BAD_TAPE;
    if (rc == ORACLE_OK) {
        const verdict v = judge(&q);
        if (v.code != NULL) {
            rc = write_verdict(v, out);
        } else if ((file = malloc(length + ENTRY * q.tool_count + HEADER + 4 + 8 + FOOTER)) == NULL) {
            rc = ORACLE_NO_MEMORY;
        } else {
            write_word("bytes", (bytes){file, write_file(&q, file)}, out);
            write_name(q.text, q.titled ? &q.title : NULL, q.number[CREATED], out);
        }
    }
    free(file);
    free(q.tools);
    free(room);
    return rc;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    reader r = reader_over(input, length), line;
    bytes verb;
    if (!next_line(&r, &line) || !reader_word(&line, &verb)) return ORACLE_BAD_TAPE;
    if (word_is(verb, "encode")) return encode(r, line, length, out);
    if (!word_is(verb, "decode") || line.at != line.end) return ORACLE_BAD_TAPE;
    return decode(reader_rest(&r), out);
}

const oracle_kind oracle_kvc = {"kvc", NULL, run, NULL};
