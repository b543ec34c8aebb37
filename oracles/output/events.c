#include <string.h>

#include "oracles/common/json.h"
#include "oracles/output/answer.h"

void event_end_delta(events *e) {
    if (e->kind == NULL) return;
    tape_word(e->out, e->kind);
    if (strcmp(e->kind, "arguments") == 0) tape_uint(e->out, e->index);
    tape_bytes(e->out, e->delta.data, e->delta.length);
    tape_end(e->out);
    e->kind = NULL;
    e->delta.length = 0;
}

static void begin_delta(events *e, const char *kind, uint64_t index) {
    if (e->kind != NULL && (strcmp(e->kind, kind) != 0 || e->index != index)) event_end_delta(e);
    e->kind = kind;
    e->index = index;
}

static void add_delta(events *e, const char *kind, uint64_t index, bytes text) {
    if (text.length == 0) return;
    begin_delta(e, kind, index);
    buffer_put(&e->delta, text);
}

void event_delta(events *e, const char *kind, bytes text) { add_delta(e, kind, 0, text); }

void event_raw(events *e, uint64_t index, bytes text) { add_delta(e, "arguments", index, text); }

void event_quoted(events *e, uint64_t index, bytes text) {
    if (text.length == 0) return;
    begin_delta(e, "arguments", index);
    json_write_characters(text, &e->delta);
}

void event_arguments(events *e, uint64_t index, const char *text) { event_raw(e, index, (bytes){(const uint8_t *)text, strlen(text)}); }

void event_word(events *e, const char *event) {
    event_end_delta(e);
    tape_word(e->out, event);
}

void event_text(events *e, const char *event, bytes text) {
    event_word(e, event);
    tape_bytes(e->out, text.data, text.length);
    tape_end(e->out);
}

void event_call(events *e, uint64_t index, bytes name) {
    event_word(e, "call");
    tape_uint(e->out, index);
    tape_bytes(e->out, name.data, name.length);
    tape_end(e->out);
}

void event_end(events *e, uint64_t index) {
    event_word(e, "end");
    tape_uint(e->out, index);
    tape_end(e->out);
}
