/* responses.c - the body of `responses`, part by part. */
#include <math.h>

#include "oracles/request/told.h"

/* What no answer could give back: a lone surrogate, or an infinity, anywhere. */
static bool goes_back(const json *body, size_t node) {
    const json_node *n = &body->nodes[node];
    if (n->kind == JSON_DOUBLE) return isfinite(n->number);
    if (n->kind == JSON_STRING) return !lone_surrogate(n->text);
    if (n->kind != JSON_ARRAY && n->kind != JSON_OBJECT) return true;
    for (size_t i = n->first; i != 0; i = body->nodes[i].next)
        if ((n->kind == JSON_OBJECT && lone_surrogate(body->nodes[i].key)) || !goes_back(body, i)) return false;
    return true;
}

/* What is to be included: sealed reasoning, and log-probabilities. */
static bool read_include(request *r, bool *logprobs) {
    const field f = member_of(r, &r->root, "include");
    if (f.node == ABSENT) return true;
    if (!node_is_kind(&r->body, f.node, JSON_ARRAY)) return deny(r, &f, "invalid_type");
    for (field e = first_of(r, &f); e.node != ABSENT; step(r, &e)) {
        text name;
        if (!read_text(r, &e, &name)) return false;
        if (word_is(name.data, "reasoning.encrypted_content")) r->sealed = true;
        if (word_is(name.data, "message.output_text.logprobs")) *logprobs = true;
    }
    return true;
}

static bool read_bounds(request *r, said *s) {
    const field *body = &r->root;
    bool logprobs = false;
    if (!read_options(r) || !integer_of(r, body, "max_output_tokens", 1, MOST, true, &s->tokens_most)) return false;
    if (s->tokens_most.there) r->budget = s->tokens_most;
    if (!read_include(r, &logprobs) || !integer_of(r, body, "top_logprobs", 0, 20, false, &s->alternatives)) return false;
    if (logprobs || s->alternatives.value > 0) r->logprobs = (number){true, s->alternatives.value};
    return true;
}

static bool read_keeping(request *r) {
    const field *body = &r->root, store = member_of(r, body, "store"), stream = member_of(r, body, "stream");
    if (!boolean_of(r, body, "background", &r->background) || !read_boolean(r, &store, &r->store)) return false;
    if (r->background && !r->store) return deny(r, &store, "invalid_value");
    return !(r->background && r->stream) || deny(r, &stream, "unsupported_parameter");
}

static bool read_end(request *r, const said *s) {
    const field reasoning = member_of(r, &r->root, "reasoning"), effort = member_of(r, &reasoning, "effort");
    text model;
    if (s->effort.there && !is_effort(s->effort.data)) return deny(r, &effort, "invalid_value");
    if (!text_of(r, &r->root, "model", &model)) return false;
    r->effort = s->effort;
    if (r->thinks) r->thinking = alias_of(&model);
    return true;
}

bool read_responses(request *r) {
    const field *body = &r->root, conversation = member_of(r, body, "conversation"), prompt = member_of(r, body, "prompt");
    said s = {0};
    field format;
    bool refers;
    if (!goes_back(&r->body, 0)) return deny_plainly(r, "invalid_json");
    if (!object_of(r, body, "text", &format) || !deny_unless(r, &conversation, false) || !deny_unless(r, &prompt, false)) return false;
    if (!read_bounds(r, &s) || !read_head_fields(r, &s) || !read_keeping(r)) return false;
    if (!r->dialect) return deny_plainly(r, "no_chat_template");
    if (!read_known(r, &s) || !read_items(r, &refers)) return false;
    if (!r->previous.there && !refers && !put_conversation(r, &s.instructions)) return false;
    if (!read_end(r, &s)) return false;
    put_head(r, &s);
    return true;
}
