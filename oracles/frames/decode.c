/* decode.c - a frame's bytes to lines. Everything is looked at before anything is written. */
#include <string.h>

#include "oracles/frames/wire.h"

static const verdict fine = {NULL, NULL};

static uint64_t u32(const uint8_t *at) { return wire_get(at, 4); }

static bool holds_zero(bytes b) { return b.length > 0 && memchr(b.data, 0, b.length) != NULL; }

static bytes cut(const uint8_t **at, uint64_t n) {
    const bytes b = {*at, (size_t)n};
    *at += n;
    return b;
}

/* ---- route ---- */

/* A record of `fixed` bytes with a host behind it, whose length stands at `length_at`. */
static verdict take_stop(reader *route, size_t fixed, size_t length_at, uint64_t least, const uint8_t **record, bytes *host) {
    if ((size_t)(route->end - route->at) < fixed) return (verdict){"frame_truncated", "route"};
    *record = route->at;
    route->at += fixed;
    const uint64_t length = u32(*record + length_at);
    if (length < least || length > HOST_MOST) return (verdict){"frame_host", "route"};
    if (length > (size_t)(route->end - route->at)) return (verdict){"frame_truncated", "route"};
    *host = cut(&route->at, length);
    return holds_zero(*host) ? (verdict){"frame_host", "route"} : fine;
}

static verdict take_hop(reader *route, const uint8_t **record, bytes *host) {
    return take_stop(route, HOP_BYTES, 0, 1, record, host);
}

static verdict take_return(reader *route, const uint8_t **record, bytes *host) {
    return take_stop(route, RETURN_BYTES, 4, 0, record, host);
}

static verdict judge_route(bytes raw, uint64_t hops) {
    reader route = reader_over(raw.data, raw.length);
    const uint8_t *record;
    bytes host;
    if (hops == 0) return raw.length == 0 ? fine : (verdict){"frame_trailing", "route"};
    if (hops > raw.length / (HOP_BYTES + 1)) return (verdict){"frame_truncated", "route"};
    verdict v = fine;
    for (uint64_t i = 0; i < hops && v.code == NULL; i++) v = take_hop(&route, &record, &host);
    if (v.code == NULL) v = take_return(&route, &record, &host);
    if (v.code == NULL && route.at != route.end) v = (verdict){"frame_trailing", "route"};
    return v;
}

static void write_route(bytes raw, uint64_t hops, tape *out) {
    reader route = reader_over(raw.data, raw.length);
    const uint8_t *record = NULL;
    bytes host = {NULL, 0};
    if (hops == 0) return;
    for (uint64_t i = 0; i < hops && take_hop(&route, &record, &host).code == NULL; i++) {
        tape_word(out, "hop");
        tape_bytes(out, host.data, host.length);
        for (int k = 0; k < HOP_FIELDS; k++) tape_uint(out, u32(record + 4 + 4 * k));
        tape_end(out);
    }
    if (take_return(&route, &record, &host).code != NULL) return;
    tape_word(out, "return");
    tape_uint(out, u32(record));
    tape_bytes(out, host.data, host.length);
    tape_uint(out, u32(record + 8));
    tape_end(out);
}

/* ---- what a body is made of, and what is wrong with it ---- */

typedef struct parts {
    bytes tokens, records, route;
    bytes word; /* the one stretch of free bytes: name, message, activations, payload or chunk */
} parts;

static verdict judge_work(const uint8_t *body, uint64_t follows, parts *p) {
    const uint64_t count = u32(body + WORK_TOKENS), tokens = u32(body + WORK_TOKEN_BYTES);
    const uint64_t activations = u32(body + WORK_ACTIVATION_BYTES), route = u32(body + WORK_ROUTE_BYTES);
    const uint32_t width = wire_width(u32(body + WORK_BITS));
    if (u32(body + WORK_FLAGS) > FLAGS_KNOWN) return (verdict){"frame_flags", "flags"};
    if (width == 0) return (verdict){"frame_bits", "activation_bits"};
    if (count == 0 || tokens != 4 * count) return (verdict){"frame_tokens", "tokens"};
    if (tokens + activations + route != follows) return (verdict){"frame_sizes", "body"};
    if (activations % width != 0) return (verdict){"frame_activations", "activations"};
    const uint8_t *at = body + wire_layouts[WORK].least;
    p->tokens = cut(&at, tokens);
    p->word = cut(&at, activations);
    p->route = cut(&at, route);
    return judge_route(p->route, u32(body + WORK_HOPS));
}

static verdict judge_result(const uint8_t *body, uint64_t follows, parts *p) {
    const uint64_t records = u32(body + RESULT_RECORD_BYTES), payload = u32(body + RESULT_PAYLOAD_BYTES);
    const uint64_t kind = u32(body + RESULT_KIND);
    const uint32_t width = wire_width(u32(body + RESULT_BITS));
    if (kind > 2) return (verdict){"frame_kind", "kind"};
    if (width == 0) return (verdict){"frame_bits", "payload_bits"};
    if (records != TELEMETRY_BYTES * u32(body + RESULT_RECORDS)) return (verdict){"frame_telemetry", "telemetry"};
    if (records + payload != follows) return (verdict){"frame_sizes", "body"};
    /* Of a failure the payload is a message. */
    if (u32(body + RESULT_STATUS) == 0 && kind != 0 && payload % width != 0) return (verdict){"frame_activations", "payload"};
    const uint8_t *at = body + wire_layouts[RESULT].least;
    p->records = cut(&at, records);
    p->word = cut(&at, payload);
    return fine;
}

static verdict judge_snapshot(enum kind kind, const uint8_t *body, uint64_t follows, parts *p) {
    const uint64_t tokens = u32(body + SNAPSHOT_TOKEN_BYTES), message = u32(body + SNAPSHOT_MESSAGE_BYTES);
    if (tokens != 4 * u32(body + SNAPSHOT_TOKENS)) return (verdict){"frame_tokens", "tokens"};
    if (kind == SNAPSHOT_LOAD && message != 0) return (verdict){"frame_message", "message"};
    if (tokens + message != follows) return (verdict){"frame_sizes", "body"};
    const uint8_t *at = body + wire_layouts[kind].least;
    p->tokens = cut(&at, tokens);
    p->word = cut(&at, message);
    return fine;
}

static verdict judge(enum kind kind, bytes body, parts *p) {
    const uint32_t fixed = wire_layouts[kind].least;
    p->word = (bytes){body.data + fixed, body.length - fixed};
    switch (kind) {
    case HELLO:
        if (u32(body.data + HELLO_NAME_BYTES) != p->word.length) return (verdict){"frame_sizes", "name"};
        return holds_zero(p->word) ? (verdict){"frame_name", "name"} : fine;
    case WORK:
        return judge_work(body.data, p->word.length, p);
    case RESULT:
        return judge_result(body.data, p->word.length, p);
    case SNAPSHOT_BEGIN:
    case SNAPSHOT_LOAD:
        return judge_snapshot(kind, body.data, p->word.length, p);
    case SNAPSHOT_CHUNK:
    case SNAPSHOT_DONE:
        return u32(body.data + (kind == SNAPSHOT_CHUNK ? CHUNK_BYTES : DONE_MESSAGE_BYTES)) == p->word.length
                   ? fine
                   : (verdict){"frame_sizes", "body"};
    default:
        return fine;
    }
}

/* ---- lines ---- */

static void write_word_line(const char *verb, bytes word, tape *out) {
    tape_word(out, verb);
    tape_bytes(out, word.data, word.length);
    tape_end(out);
}

static void write_numbers_line(const char *verb, bytes numbers, tape *out) {
    tape_word(out, verb);
    for (size_t i = 0; i < numbers.length; i += 4) tape_uint(out, u32(numbers.data + i));
    tape_end(out);
}

static void write(enum kind kind, const uint8_t *body, const parts *p, tape *out) {
    const layout *l = &wire_layouts[kind];
    tape_word(out, l->name);
    for (const field *f = l->fields; f->name != NULL; f++) tape_uint(out, wire_get(body + f->offset, f->wide ? 8 : 4));
    if (wire_word_first(kind)) tape_bytes(out, p->word.data, p->word.length);
    tape_end(out);
    if (kind == WORK) {
        write_numbers_line("tokens", p->tokens, out);
        write_word_line("activations", p->word, out);
        write_route(p->route, u32(body + WORK_HOPS), out);
    } else if (kind == RESULT) {
        for (size_t i = 0; i < p->records.length; i += TELEMETRY_BYTES)
            write_numbers_line("telemetry", (bytes){p->records.data + i, TELEMETRY_BYTES}, out);
        write_word_line("payload", p->word, out);
    } else if (kind == SNAPSHOT_BEGIN || kind == SNAPSHOT_LOAD) {
        write_numbers_line("tokens", p->tokens, out);
        if (kind == SNAPSHOT_BEGIN) write_word_line("message", p->word, out);
    }
}

verdict wire_decode(bytes frame, tape *out) {
    if (frame.length < HEADER) return (verdict){"frame_truncated", "header"};
    if (memcmp(frame.data, "DS4D", 4) != 0) return (verdict){"frame_magic", "magic"};
    const uint64_t type = u32(frame.data + 4), length = u32(frame.data + 8);
    if (type < 1 || type > KINDS) return (verdict){"frame_type", "type"};
    const enum kind kind = (enum kind)(type - 1);
    if (length < wire_layouts[kind].least || length > wire_layouts[kind].most) return (verdict){"frame_length", "body"};
    if (frame.length - HEADER < length) return (verdict){"frame_truncated", "body"};
    if (frame.length - HEADER > length) return (verdict){"frame_trailing", "body"};
    const bytes body = {frame.data + HEADER, (size_t)length};
    parts p = {0};
    const verdict v = judge(kind, body, &p);
    if (v.code == NULL) write(kind, body.data, &p, out);
    return v;
}
