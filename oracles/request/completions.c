/* completions.c - the body of a completion: its prompts are texts or token ids. */
#include "oracles/request/request.h"

static bool read_ids(request *r, const field *f) {
    for (field e = first_of(r, f); e.node != ABSENT; step(r, &e)) {
        const field id = {f->up, f->name, f->index, e.node}; /* its faults are the array's */
        number token;
        if (!node_is_kind(&r->body, e.node, JSON_INTEGER)) return deny(r, f, "invalid_type");
        if (!read_integer(r, &id, 0, r->vocabulary - 1, false, &token)) return false;
    }
    return true;
}

static bool read_prompts(request *r) {
    const field f = member_of(r, &r->root, "prompt");
    text prompt;
    if (node_is_kind(&r->body, f.node, JSON_STRING)) {
        r->prompts[r->prompt_count++] = f.node;
        return read_text(r, &f, &prompt);
    }
    if (!node_is_kind(&r->body, f.node, JSON_ARRAY)) return deny(r, &f, "invalid_type");
    const field first = first_of(r, &f);
    if (first.node == ABSENT) return deny(r, &f, "invalid_value");
    const bool texts = node_is_kind(&r->body, first.node, JSON_STRING);
    if (!texts && !node_is_kind(&r->body, first.node, JSON_ARRAY)) {
        r->prompts[r->prompt_count++] = f.node;
        return read_ids(r, &f);
    }
    if (count_of(r, f.node) > PROMPTS_MOST) return deny(r, &f, "invalid_value");
    if (!texts)
        for (field e = first; e.node != ABSENT; step(r, &e))
            if (!node_is_kind(&r->body, e.node, JSON_ARRAY)) return deny(r, &e, "invalid_type");
    for (field e = first; e.node != ABSENT; step(r, &e)) {
        r->prompts[r->prompt_count++] = e.node;
        if (!(texts ? read_text(r, &e, &prompt) : read_ids(r, &e))) return false;
    }
    return true;
}

bool read_completions(request *r) {
    const field *body = &r->root;
    const field echo = member_of(r, body, "echo"), suffix = member_of(r, body, "suffix"), best = member_of(r, body, "best_of");
    text model;
    number best_of = {false, 0};
    if (!text_of(r, body, "model", &model)) return false;
    if (!deny_unless(r, &echo, node_is_kind(&r->body, echo.node, JSON_FALSE))) return false;
    if (!deny_unless(r, &suffix, node_is(&r->body, suffix.node, "")) || !read_options(r)) return false;
    if (!read_integer(r, &best, 1, 8, false, &best_of)) return false;
    if (best_of.there && best_of.value != r->n) return deny(r, &best, "unsupported_parameter");
    return integer_of(r, body, "logprobs", 0, 20, false, &r->logprobs) && read_prompts(r);
}
