/* encode.c - a frame's lines to bytes. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/frames/wire.h"

typedef struct stop { /* a hop, or the return address */
    bytes host;
    uint64_t number[HOP_FIELDS];
} stop;

typedef struct request {
    enum kind kind;
    uint64_t number[FIELDS_MOST]; /* in the order of the layout's fields */
    bytes word;                   /* name, message, activations, payload or chunk */
    uint64_t *tokens;
    size_t token_count;
    stop *hops;
    size_t hop_count;
    stop home;           /* the return address, if there are hops */
    uint64_t *telemetry; /* ten numbers a record */
    size_t record_count;
    uint8_t *room; /* for the bytes of words; what is left of it */
} request;

/* The number of this name on the first line. */
static uint64_t number(const request *q, const char *name) {
    const field *f = wire_layouts[q->kind].fields;
    for (size_t i = 0; f[i].name != NULL; i++)
        if (strcmp(f[i].name, name) == 0) return q->number[i];
    return 0;
}

/* ---- the tape ---- */

static bool next_bytes(reader *line, request *q, bytes *value) {
    bytes word;
    if (!reader_word(line, &word) || !word_unescape(word, q->room, &value->length)) return false;
    value->data = q->room;
    q->room += value->length;
    return true;
}

/* The line of this verb, if it is next; `line` is what follows the verb. */
static bool next_verb(reader *r, const char *verb, reader *line) {
    reader ahead = *r;
    bytes word;
    if (!wire_line(&ahead, line) || !reader_word(line, &word) || !word_is(word, verb)) return false;
    *r = ahead;
    return true;
}

static bool read_word_line(reader *r, const char *verb, request *q) {
    reader line;
    return next_verb(r, verb, &line) && next_bytes(&line, q, &q->word) && line.at == line.end;
}

static bool read_tokens(reader *r, request *q) {
    reader line;
    if (!next_verb(r, "tokens", &line)) return false;
    while (line.at != line.end)
        if (!wire_uint(&line, &q->tokens[q->token_count++])) return false;
    return true;
}

static bool read_route(reader *r, request *q) {
    reader line;
    while (next_verb(r, "hop", &line)) {
        stop *h = &q->hops[q->hop_count++];
        if (!next_bytes(&line, q, &h->host)) return false;
        for (int i = 0; i < HOP_FIELDS; i++)
            if (!wire_uint(&line, &h->number[i])) return false;
        if (line.at != line.end) return false;
    }
    if (q->hop_count == 0) return true;
    return next_verb(r, "return", &line) && wire_uint(&line, &q->home.number[0]) && next_bytes(&line, q, &q->home.host) &&
           wire_uint(&line, &q->home.number[1]) && line.at == line.end;
}

static bool read_telemetry(reader *r, request *q) {
    reader line;
    while (next_verb(r, "telemetry", &line)) {
        uint64_t *record = &q->telemetry[TELEMETRY_FIELDS * q->record_count++];
        for (int i = 0; i < TELEMETRY_FIELDS; i++)
            if (!wire_uint(&line, &record[i])) return false;
        if (line.at != line.end) return false;
    }
    return true;
}

static bool read_first(reader *r, request *q) {
    reader line;
    bytes verb;
    int kind = 0;
    if (!wire_line(r, &line) || !reader_word(&line, &verb)) return false;
    while (kind < KINDS && !word_is(verb, wire_layouts[kind].name)) kind++;
    if (kind == KINDS) return false;
    q->kind = (enum kind)kind;
    const field *f = wire_layouts[kind].fields;
    for (size_t i = 0; f[i].name != NULL; i++)
        if (!wire_uint(&line, &q->number[i])) return false;
    if (wire_word_first(q->kind) && !next_bytes(&line, q, &q->word)) return false;
    return line.at == line.end;
}

static bool read_request(reader r, request *q) {
    if (!read_first(&r, q)) return false;
    if (q->kind == WORK && !(read_tokens(&r, q) && read_word_line(&r, "activations", q) && read_route(&r, q))) return false;
    if (q->kind == RESULT && !(read_telemetry(&r, q) && read_word_line(&r, "payload", q))) return false;
    if ((q->kind == SNAPSHOT_BEGIN || q->kind == SNAPSHOT_LOAD) && !read_tokens(&r, q)) return false;
    if (q->kind == SNAPSHOT_BEGIN && !read_word_line(&r, "message", q)) return false;
    return r.at == r.end;
}

/* ---- the verdict ---- */

static bool fit(const uint64_t *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (numbers[i] > UINT32_MAX) return false;
    return true;
}

static bool host_is_bad(bytes host, size_t least) {
    return host.length < least || host.length > HOST_MOST || (host.length > 0 && memchr(host.data, 0, host.length) != NULL);
}

static verdict judge_ranges(const request *q) {
    const field *f = wire_layouts[q->kind].fields;
    for (size_t i = 0; f[i].name != NULL; i++)
        if (!f[i].wide && q->number[i] > UINT32_MAX) return (verdict){"frame_range", f[i].name};
    if (!fit(q->tokens, q->token_count)) return (verdict){"frame_range", "tokens"};
    for (size_t i = 0; i < q->hop_count; i++)
        if (!fit(q->hops[i].number, HOP_FIELDS)) return (verdict){"frame_range", "route"};
    if (!fit(q->home.number, RETURN_FIELDS)) return (verdict){"frame_range", "route"};
    if (!fit(q->telemetry, TELEMETRY_FIELDS * q->record_count)) return (verdict){"frame_range", "telemetry"};
    return (verdict){NULL, NULL};
}

static size_t route_bytes(const request *q) {
    if (q->hop_count == 0) return 0;
    size_t n = RETURN_BYTES + q->home.host.length;
    for (size_t i = 0; i < q->hop_count; i++) n += HOP_BYTES + q->hops[i].host.length;
    return n;
}

static size_t body_bytes(const request *q) {
    return wire_layouts[q->kind].least + q->word.length + 4 * q->token_count + TELEMETRY_BYTES * q->record_count + route_bytes(q);
}

static verdict judge(const request *q) {
    const enum kind kind = q->kind;
    const verdict v = judge_ranges(q);
    if (v.code != NULL) return v;
    if (kind == HELLO && (q->word.length > NAME_MOST || (q->word.length > 0 && memchr(q->word.data, 0, q->word.length) != NULL)))
        return (verdict){"frame_name", "name"};
    if (kind == WORK && number(q, "flags") > FLAGS_KNOWN) return (verdict){"frame_flags", "flags"};
    if (kind == RESULT && number(q, "kind") > 2) return (verdict){"frame_kind", "kind"};
    if (kind == WORK || kind == RESULT) {
        const char *bits = kind == WORK ? "activation_bits" : "payload_bits";
        const uint32_t width = wire_width(number(q, bits));
        if (width == 0) return (verdict){"frame_bits", bits};
        if (kind == WORK && q->token_count == 0) return (verdict){"frame_tokens", "tokens"};
        const bool values = kind == WORK || (number(q, "status") == 0 && number(q, "kind") != 0);
        if (values && q->word.length % width != 0) return (verdict){"frame_activations", kind == WORK ? "activations" : "payload"};
    }
    for (size_t i = 0; i < q->hop_count; i++)
        if (host_is_bad(q->hops[i].host, 1)) return (verdict){"frame_host", "route"};
    if (host_is_bad(q->home.host, 0)) return (verdict){"frame_host", "route"};
    if (body_bytes(q) > wire_layouts[kind].most) return (verdict){"frame_length", "body"};
    return (verdict){NULL, NULL};
}

/* ---- the bytes ---- */

static void put32(uint8_t *at, uint64_t value) { wire_put(at, 4, value); }

static uint8_t *put_bytes(uint8_t *at, bytes b) {
    if (b.length > 0) memcpy(at, b.data, b.length);
    return at + b.length;
}

static uint8_t *put_numbers(uint8_t *at, const uint64_t *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) at = wire_put(at, 4, numbers[i]);
    return at;
}

static uint8_t *put_route(uint8_t *at, const request *q) {
    if (q->hop_count == 0) return at;
    for (size_t i = 0; i < q->hop_count; i++) {
        at = wire_put(at, 4, q->hops[i].host.length);
        at = put_bytes(put_numbers(at, q->hops[i].number, HOP_FIELDS), q->hops[i].host);
    }
    at = wire_put(at, 4, q->home.number[0]);
    at = wire_put(at, 4, q->home.host.length);
    return put_bytes(wire_put(at, 4, q->home.number[1]), q->home.host);
}

static void put_counts(uint8_t *body, const request *q) {
    switch (q->kind) {
    case HELLO:
        put32(body + HELLO_NAME_BYTES, q->word.length);
        break;
    case WORK:
        put32(body + WORK_TOKENS, q->token_count);
        put32(body + WORK_TOKEN_BYTES, 4 * q->token_count);
        put32(body + WORK_ACTIVATION_BYTES, q->word.length);
        put32(body + WORK_HOPS, q->hop_count);
        put32(body + WORK_ROUTE_BYTES, route_bytes(q));
        break;
    case RESULT:
        put32(body + RESULT_RECORDS, q->record_count);
        put32(body + RESULT_RECORD_BYTES, TELEMETRY_BYTES * q->record_count);
        put32(body + RESULT_PAYLOAD_BYTES, q->word.length);
        break;
    case SNAPSHOT_BEGIN:
    case SNAPSHOT_LOAD:
        put32(body + SNAPSHOT_TOKENS, q->token_count);
        put32(body + SNAPSHOT_TOKEN_BYTES, 4 * q->token_count);
        put32(body + SNAPSHOT_MESSAGE_BYTES, q->word.length);
        break;
    case SNAPSHOT_CHUNK:
        put32(body + CHUNK_BYTES, q->word.length);
        break;
    case SNAPSHOT_DONE:
        put32(body + DONE_MESSAGE_BYTES, q->word.length);
        break;
    default:
        break;
    }
}

static int write_frame(const request *q, tape *out) {
    const layout *l = &wire_layouts[q->kind];
    const size_t size = body_bytes(q);
    uint8_t *frame = calloc(1, HEADER + size);
    if (frame == NULL) return ORACLE_NO_MEMORY;
    uint8_t *body = frame + HEADER;
    memcpy(frame, "DS4D", 4);
    put32(frame + 4, (uint64_t)q->kind + 1);
    put32(frame + 8, size);
    for (size_t i = 0; l->fields[i].name != NULL; i++)
        wire_put(body + l->fields[i].offset, l->fields[i].wide ? 8 : 4, q->number[i]);
    put_counts(body, q);
    uint8_t *at = put_numbers(body + l->least, q->tokens, q->token_count);
    at = put_numbers(at, q->telemetry, TELEMETRY_FIELDS * q->record_count);
    at = put_bytes(at, q->word);
    put_route(at, q);
    tape_word(out, "bytes");
    tape_bytes(out, frame, HEADER + size);
    tape_end(out);
    free(frame);
    return ORACLE_OK;
}

int wire_encode(reader r, size_t length, tape *out, verdict *v) {
    *v = (verdict){NULL, NULL};
    if (length > SIZE_MAX / 64) return ORACLE_NO_MEMORY;
    /* No part of a frame comes from less text than this: a byte of a word from one character, a number from a digit and
     * what separates it, a hop from "hop" and a newline. */
    request q = {0};
    uint8_t *room = malloc(length + 1);
    q.room = room;
    q.tokens = malloc((length / 2 + 1) * sizeof *q.tokens);
    q.hops = malloc((length / 4 + 1) * sizeof *q.hops);
    q.telemetry = malloc((length / 10 + 1) * TELEMETRY_FIELDS * sizeof *q.telemetry);
    int rc = ORACLE_NO_MEMORY;
    if (room != NULL && q.tokens != NULL && q.hops != NULL && q.telemetry != NULL) {
        rc = read_request(r, &q) ? ORACLE_OK : ORACLE_BAD_TAPE;
        if (rc == ORACLE_OK) *v = judge(&q);
        if (rc == ORACLE_OK && v->code == NULL) rc = write_frame(&q, out);
    }
    free(q.telemetry);
    free(q.hops);
    free(q.tokens);
    free(room);
    return rc;
}
