/* request.c - the tape of a body, the surface that reads it, and the request as it is told. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/utf8.h"
#include "oracles/common/words.h"
#include "oracles/request/request.h"

static const char *const surfaces[] = {"chat", "completions", "messages", "responses", NULL};

/* ---- the tape ---- */

static uint64_t plain_word(words *l, uint64_t low, uint64_t high) {
    uint64_t value = 0;
    const bytes word = words_next(l);
    if (l->bad) return low;
    if (!word_uint(word, &value) || (word.length > 1 && word.data[0] == '0') || value < low || value > high) {
        l->bad = true;
        return low;
    }
    return value;
}

static bool switch_word(words *l) { return plain_word(l, 0, 1) == 1; }

static double double_word(words *l) {
    const uint64_t bits = plain_word(l, 0, UINT64_MAX);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void verb_word(words *l, const char *verb) {
    const char *const only[] = {verb, NULL};
    (void)words_choice(l, only);
}

static int read_name(request *r, words *l) {
    verb_word(l, "model");
    const bytes word = words_next(l);
    if (!words_done(l)) return ORACLE_BAD_TAPE;
    r->name_room = malloc(word.length + 1);
    if (r->name_room == NULL) return ORACLE_NO_MEMORY;
    r->name.data = r->name_room;
    return word_unescape(word, r->name_room, &r->name.length) && utf8_valid(r->name) ? ORACLE_OK : ORACLE_BAD_TAPE;
}

static bool read_defaults(sampling *s, words *l) {
    const char *culprit;
    verb_word(l, "defaults");
    s->temperature = double_word(l);
    s->top_p = double_word(l);
    s->top_k = (int64_t)plain_word(l, 0, INT32_MAX);
    s->min_p = double_word(l);
    s->repetition = double_word(l);
    s->frequency = double_word(l);
    s->presence = double_word(l);
    return words_done(l) && within_ranges(s, &culprit);
}

static int read_head(request *r, reader *tape) {
    words l = words_of(tape);
    verb_word(&l, "request");
    r->surface = (surface_kind)words_choice(&l, surfaces);
    r->dialect = switch_word(&l);
    r->thinks = switch_word(&l);
    r->keeps = switch_word(&l);
    r->vocabulary = (int64_t)plain_word(&l, 1, INT32_MAX);
    if (!words_done(&l)) return ORACLE_BAD_TAPE;
    l = words_of(tape);
    const int rc = read_name(r, &l);
    if (rc != ORACLE_OK) return rc;
    l = words_of(tape);
    return read_defaults(&r->sampling, &l) ? ORACLE_OK : ORACLE_BAD_TAPE;
}

/* ---- the output ---- */

static void tell_switch(tape *out, bool value) { tape_word(out, value ? "1" : "0"); }

static void tell_optional(tape *out, bool there, bytes data) {
    if (!there) {
        tape_word(out, "-");
        return;
    }
    tape_word(out, "="); /* and the escaped word directly behind it */
    out->started = false;
    tape_bytes(out, data.data, data.length);
}

static void tell_number(tape *out, number n) {
    if (n.there) tape_int(out, n.value);
    else tape_word(out, "-");
}

static void tell_double(tape *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    tape_uint(out, bits);
}

static void tell_bytes(tape *out, const char *verb, bytes data) {
    tape_word(out, verb);
    tape_bytes(out, data.data, data.length);
    tape_end(out);
}

static void tell_lines(tape *out, const char *verb, const lines *l) {
    for (size_t i = 0; i < l->count; i++) {
        const size_t start = i == 0 ? 0 : l->ends[i - 1];
        tell_bytes(out, verb, (bytes){l->data.data + start, l->ends[i] - start});
    }
}

static void tell_fault(tape *out, const request *r) {
    tape_word(out, "error");
    tape_word(out, "400");
    tape_word(out, r->code);
    tell_optional(out, r->has_param, bytes_in(&r->param));
    tape_end(out);
}

static void tell_prompts(tape *out, const request *r) {
    for (size_t i = 0; i < r->prompt_count; i++) {
        const json_node *prompt = &r->body.nodes[r->prompts[i]];
        if (prompt->kind == JSON_STRING) {
            tell_bytes(out, "prompt", prompt->text);
            continue;
        }
        tape_word(out, "ids");
        for (size_t id = prompt->first; id != 0; id = r->body.nodes[id].next) {
            int64_t token = 0; /* each was read before */
            (void)word_int(r->body.nodes[id].text, &token);
            tape_int(out, token);
        }
        tape_end(out);
    }
}

static void tell_sampling(tape *out, const request *r) {
    const sampling *s = &r->sampling;
    tape_word(out, "sampling");
    tell_double(out, s->temperature);
    tell_double(out, s->top_p);
    tape_int(out, s->top_k);
    tell_double(out, s->min_p);
    tell_double(out, s->repetition);
    tell_double(out, s->frequency);
    tell_double(out, s->presence);
    if (r->has_seed) tape_uint(out, r->seed);
    else tape_word(out, "-");
    tape_end(out);
    for (size_t i = 0; i < r->bias_count; i++) {
        tape_word(out, "bias");
        tape_int(out, r->biases[i].token);
        tell_double(out, r->biases[i].value);
        tape_end(out);
    }
}

static void tell_answer(tape *out, const request *r) {
    for (size_t i = 0; i < r->stop_count; i++) tell_bytes(out, "stop", r->stops[i]);
    tape_word(out, "answer");
    tape_int(out, r->n);
    tell_number(out, r->budget);
    tell_number(out, r->logprobs);
    tape_end(out);
    tape_word(out, "flags");
    tell_switch(out, r->stream);
    tell_switch(out, r->usage);
    tell_switch(out, r->ignore_eos);
    tell_switch(out, r->cache_prompt && r->keeps);
    tape_end(out);
}

static void tell_shown(tape *out, const request *r) {
    tape_word(out, "shown");
    tell_switch(out, r->caches);
    tell_switch(out, r->hides);
    tell_switch(out, r->warms);
    tell_number(out, r->thought);
    tape_end(out);
}

static void tell_kept(tape *out, const request *r) {
    tape_word(out, "keep");
    tell_optional(out, r->previous.there, r->previous.data);
    tell_switch(out, r->store);
    tell_switch(out, r->background);
    tape_end(out);
    tape_word(out, "told");
    tell_switch(out, r->summary);
    tell_switch(out, r->sealed);
    tell_switch(out, r->parallel);
    tape_end(out);
    tell_lines(out, "item", &r->items);
    for (size_t i = 0; i < r->known_count; i++) {
        const known *tool = &r->known[i];
        tape_word(out, "known");
        tape_bytes(out, tool->told, tool->told_length);
        tape_bytes(out, tool->name.data, tool->name.length);
        tell_optional(out, tool->space.there, tool->space.data);
        tell_switch(out, tool->custom);
        tape_end(out);
    }
    tell_bytes(out, "head", bytes_in(&r->head));
}

static void tell_request(tape *out, const request *r) {
    if (r->surface == COMPLETIONS) {
        tell_prompts(out, r);
    } else {
        tape_word(out, "chat");
        if (r->thinking < 0) tape_word(out, "-");
        else tell_switch(out, r->thinking == 1);
        tell_optional(out, r->effort.there, r->effort.data);
        tape_end(out);
        tell_lines(out, "message", &r->messages);
        tell_lines(out, "tool", &r->tools);
    }
    tell_sampling(out, r);
    tell_answer(out, r);
    if (r->surface == MESSAGES) tell_shown(out, r);
    if (r->surface == RESPONSES) tell_kept(out, r);
}

/* ---- the whole ---- */

static bool read_surface(request *r) {
    switch (r->surface) {
    case CHAT: return read_chat(r);
    case COMPLETIONS: return read_completions(r);
    case MESSAGES: return read_messages(r);
    default: return read_responses(r);
    }
}

static bool lost_memory(const request *r) {
    return r->no_memory || r->param.failed || r->messages.data.failed || r->tools.data.failed || r->items.data.failed || r->head.failed;
}

static int read_body(request *r, bytes body, tape *out) {
    const json_outcome outcome =
        utf8_valid(body) ? json_read(body, JSON_INTEGER_LIMIT | JSON_SHALLOW, &r->body) : JSON_NOT;
    if (outcome == JSON_NO_MEMORY) return ORACLE_NO_MEMORY;
    if (outcome == JSON_NOT || r->body.nodes[0].kind != JSON_OBJECT) {
        (void)deny_plainly(r, "invalid_json");
        tell_fault(out, r);
        return ORACLE_OK;
    }
    const char *outside = outside_of(r);
    if (outside != NULL) {
        tape_word(out, "outside");
        tape_word(out, outside);
        tape_end(out);
        return ORACLE_OK;
    }
    const bool good = read_surface(r);
    if (lost_memory(r)) return ORACLE_NO_MEMORY;
    if (good) tell_request(out, r);
    else tell_fault(out, r);
    return ORACLE_OK;
}

static void request_free(request *r) {
    free(r->name_room);
    json_free(&r->body);
    buffer_free(&r->param);
    buffer_free(&r->head);
    lines_free(&r->messages);
    lines_free(&r->tools);
    lines_free(&r->items);
    for (size_t i = 0; i < r->known_count; i++) free(r->known[i].told);
    free(r->known);
    free(r);
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    reader tape = reader_over(input, length);
    request *r = calloc(1, sizeof *r);
    if (r == NULL) return ORACLE_NO_MEMORY;
    r->thinking = -1;
    r->n = 1;
    r->cache_prompt = r->store = r->parallel = true;
    int rc = read_head(r, &tape);
    if (rc == ORACLE_OK) rc = read_body(r, reader_rest(&tape), out);
    request_free(r);
    return rc;
}

const oracle_kind oracle_request = {"request", NULL, run, NULL};
