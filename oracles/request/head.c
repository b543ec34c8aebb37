/* head.c - what a response says about its request: the fields that are read for it, and its JSON. */
#include "oracles/request/told.h"

enum { METADATA_MOST = 16, KEY_MOST = 64, VALUE_MOST = 512 };

static bool read_summary(request *r, text *summary) {
    const field f = member_of(r, &r->root, "reasoning"), first = member_of(r, &f, "summary");
    if (!read_object(r, &f) || !read_text(r, &first, summary)) return false;
    if (!filled(summary) && !text_of(r, &f, "generate_summary", summary)) return false;
    if (!summary->there || word_is(summary->data, "none")) {
        summary->there = false;
        return true;
    }
    return word_is(summary->data, "auto") || word_is(summary->data, "concise") || word_is(summary->data, "detailed") ||
           deny(r, &first, "invalid_value");
}

static bool read_metadata(request *r, said *s) {
    field *f = &s->metadata;
    if (!object_of(r, &r->root, "metadata", f)) return false;
    if (count_of(r, f->node) > METADATA_MOST) return deny(r, f, "invalid_value");
    for (field e = first_of(r, f); e.node != ABSENT; step(r, &e)) {
        const field value = {f->up, f->name, 0, e.node}; /* its faults are the whole field's */
        text read;
        if (character_count(r->body.nodes[e.node].key) > KEY_MOST) return deny(r, f, "invalid_value");
        if (!read_text(r, &value, &read)) return false;
        if (character_count(read.data) > VALUE_MOST) return deny(r, f, "invalid_value");
    }
    return true;
}

bool read_head_fields(request *r, said *s) {
    const field *body = &r->root, truncation = member_of(r, body, "truncation");
    const field reasoning = member_of(r, body, "reasoning"), format = member_of(r, body, "text");
    if (!read_summary(r, &s->summary) || !read_text(r, &truncation, &s->truncation) || !text_of(r, body, "instructions", &s->instructions) ||
        !integer_of(r, body, "max_tool_calls", 1, MOST, true, &s->calls_most) || !read_metadata(r, s) ||
        !boolean_of(r, body, "parallel_tool_calls", &r->parallel) || !text_of(r, body, "previous_response_id", &r->previous) ||
        !text_of(r, body, "prompt_cache_key", &s->cache_key) || !text_of(r, &reasoning, "effort", &s->effort) ||
        !text_of(r, body, "safety_identifier", &s->safety) || !text_of(r, &format, "verbosity", &s->verbosity))
        return false;
    if (filled(&s->truncation) && !word_is(s->truncation.data, "auto") && !word_is(s->truncation.data, "disabled"))
        return deny(r, &truncation, "invalid_value");
    r->summary = s->summary.there;
    return text_of(r, body, "user", &s->user);
}

/* ---- writing ---- */

static void put_value(buffer *out, const text *value, const char *otherwise) {
    if (value->there) json_write_string(value->data, out);
    else buffer_text(out, otherwise);
}

static void put_text(buffer *out, const char *key, const text *value) {
    put_key(out, ", ", key);
    put_value(out, value, "null");
}

static void put_choice(buffer *out, const char *key, const text *value, const char *usual) {
    put_pair(out, key, filled(value) ? value->data : bytes_from(usual));
}

static void put_number(buffer *out, const char *key, const number *value) {
    char digits[24], *end = digits + sizeof digits - 1;
    uint64_t left = value->there ? (uint64_t)value->value : 0; /* none of them is negative */
    *end = 0;
    do *--end = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    put_key(out, ", ", key);
    buffer_text(out, value->there ? end : "null");
}

static void put_switch(buffer *out, const char *key, bool value) {
    put_key(out, ", ", key);
    buffer_text(out, value ? "true" : "false");
}

static void put_field(request *r, const char *key, const field *f, const char *otherwise) {
    put_key(&r->head, ", ", key);
    if (f->node == ABSENT) buffer_text(&r->head, otherwise);
    else json_write(&r->body, f->node, &r->head);
}

void put_head(request *r, const said *s) {
    buffer *out = &r->head;
    const number top = {true, s->alternatives.there ? s->alternatives.value : 0};
    put_key(out, "{", "instructions");
    put_value(out, &s->instructions, "null");
    put_number(out, "max_tool_calls", &s->calls_most);
    put_field(r, "metadata", &s->metadata, "{}");
    put_pair(out, "model", r->name);
    put_switch(out, "parallel_tool_calls", r->parallel);
    put_text(out, "previous_response_id", &r->previous);
    put_text(out, "prompt_cache_key", &s->cache_key);
    put_key(out, ", ", "reasoning");
    put_key(out, "{", "effort");
    put_value(out, &s->effort, "null");
    put_text(out, "summary", &s->summary);
    buffer_text(out, "}");
    put_text(out, "safety_identifier", &s->safety);
    put_pair(out, "service_tier", bytes_from("default"));
    put_key(out, ", ", "text");
    buffer_text(out, "{\"format\": {\"type\": \"text\"}");
    put_choice(out, "verbosity", &s->verbosity, "medium");
    buffer_text(out, "}");
    put_pair(out, "tool_choice", bytes_from("auto"));
    put_field(r, "tools", &s->tools, "[]");
    put_choice(out, "truncation", &s->truncation, "disabled");
    put_text(out, "user", &s->user);
    put_switch(out, "background", r->background);
    put_switch(out, "store", r->store);
    put_number(out, "max_output_tokens", &s->tokens_most);
    put_key(out, ", ", "temperature");
    json_write_double(r->sampling.temperature, out);
    put_key(out, ", ", "top_p");
    json_write_double(r->sampling.top_p, out);
    put_number(out, "top_logprobs", &top);
    buffer_text(out, "}");
}
