/* shared.c - the fields that several surfaces have: how tokens are drawn, stops, options. */
#include <stdio.h>
#include <string.h>

#include "oracles/request/request.h"

/* ---- sampling ---- */

/* The range that is left of ends which are excluded once they are rounded to single precision. */
static bool above_zero(double value) { return value > 0 && (float)value > 0; }
static bool below_one(double value) { return value < 1 && (float)value < 1; }

bool within_ranges(const sampling *s, const char **culprit) {
    const struct {
        const char *name;
        bool good;
    } rules[] = {
        {"temperature", s->temperature >= 0 && s->temperature <= 100},
        {"top_p", above_zero(s->top_p) && s->top_p <= 1},
        {"min_p", s->min_p >= 0 && below_one(s->min_p)},
        {"repetition_penalty", above_zero(s->repetition) && s->repetition <= 100},
        {"frequency_penalty", s->frequency >= -2 && s->frequency <= 2},
        {"presence_penalty", s->presence >= -2 && s->presence <= 2},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].good) continue;
        *culprit = rules[i].name;
        return false;
    }
    return true;
}

/* 1 to 9 digits that make a number below the vocabulary. */
static bool token_of(bytes key, int64_t vocabulary, int64_t *token) {
    uint64_t value;
    if (key.length > 9 || !word_uint(key, &value)) return false;
    *token = (int64_t)value;
    return *token < vocabulary;
}

static void set_bias(request *r, int64_t token, double value) {
    size_t i = 0;
    while (i < r->bias_count && r->biases[i].token != token) i++;
    if (i == r->bias_count) r->bias_count++;
    r->biases[i] = (bias){token, value};
}

static bool read_biases(request *r) {
    field f;
    if (!object_of(r, &r->root, "logit_bias", &f)) return false;
    if (count_of(r, f.node) > BIASES_MOST) return deny(r, &f, "invalid_value");
    for (field e = first_of(r, &f); e.node != ABSENT; step(r, &e)) {
        const field value = {&r->root, "logit_bias", 0, e.node}; /* its faults are the whole field's */
        int64_t token;
        double number = 0;
        if (!token_of(r->body.nodes[e.node].key, r->vocabulary, &token)) return deny(r, &f, "invalid_value");
        if (!read_number(r, &value, &number)) return false;
        if (number < -100 || number > 100) return deny(r, &f, "invalid_value");
        set_bias(r, token, number);
    }
    return true;
}

bool read_sampling(request *r) {
    const field *body = &r->root, seed = member_of(r, body, "seed"), repetition = member_of(r, body, "repetition_penalty");
    sampling *s = &r->sampling;
    number top_k = {false, 0};
    const char *culprit;
    if (!read_seed(r, &seed) || !integer_of(r, body, "top_k", -1, MOST, true, &top_k)) return false;
    if (top_k.there) s->top_k = top_k.value < 0 ? 0 : top_k.value > r->vocabulary ? r->vocabulary : top_k.value;
    if (!number_of(r, body, "temperature", &s->temperature) || !number_of(r, body, "top_p", &s->top_p) || !number_of(r, body, "min_p", &s->min_p))
        return false;
    if (!number_of(r, body, repetition.node != ABSENT ? "repetition_penalty" : "repeat_penalty", &s->repetition)) return false;
    if (!number_of(r, body, "frequency_penalty", &s->frequency) || !number_of(r, body, "presence_penalty", &s->presence)) return false;
    if (!read_biases(r)) return false;
    if (within_ranges(s, &culprit)) return true;
    const field out_of_range = {body, culprit, 0, ABSENT};
    return deny(r, &out_of_range, "invalid_value");
}

/* ---- stops ---- */

static void add_stop(request *r, bytes stop) {
    for (size_t i = 0; i < r->stop_count; i++)
        if (r->stops[i].length == stop.length && memcmp(r->stops[i].data, stop.data, stop.length) == 0) return;
    r->stops[r->stop_count++] = stop;
}

static bool read_stop(request *r, const field *f, bool judge) {
    text stop;
    if (!read_text(r, f, &stop)) return false;
    if (!judge) return true;
    const size_t length = character_count(stop.data);
    if (length < 1 || length > 1024) return deny(r, f, "invalid_value");
    add_stop(r, stop.data);
    return true;
}

bool read_stops(request *r, const char *name) {
    const field f = member_of(r, &r->root, name);
    if (f.node == ABSENT) return true;
    if (node_is_kind(&r->body, f.node, JSON_STRING)) {
        const field only = {&f, NULL, 0, f.node};
        return read_stop(r, &only, true);
    }
    if (!node_is_kind(&r->body, f.node, JSON_ARRAY)) return deny(r, &f, "invalid_type");
    if (count_of(r, f.node) > STOPS_MOST) return deny(r, &f, "invalid_value");
    for (int judge = 0; judge < 2; judge++)
        for (field e = first_of(r, &f); e.node != ABSENT; step(r, &e))
            if (!read_stop(r, &e, judge == 1)) return false;
    return true;
}

/* ---- options ---- */

bool read_options(request *r) {
    const field *body = &r->root;
    field stream;
    number most = {false, 0}, n = {true, 1};
    if (!integer_of(r, body, "max_tokens", 1, MOST, true, &r->budget)) return false;
    if (!integer_of(r, body, "max_completion_tokens", 1, MOST, true, &most)) return false;
    if (most.there) r->budget = most;
    if (!object_of(r, body, "stream_options", &stream) || !boolean_of(r, &stream, "include_usage", &r->usage)) return false;
    if (!read_sampling(r) || !integer_of(r, body, "n", 1, 8, false, &n) || !read_stops(r, "stop")) return false;
    r->n = n.value;
    return boolean_of(r, body, "ignore_eos", &r->ignore_eos) && boolean_of(r, body, "cache_prompt", &r->cache_prompt) &&
           boolean_of(r, body, "stream", &r->stream);
}

bool is_effort(bytes data) {
    static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++)
        if (word_is(data, efforts[i])) return true;
    return false;
}

int alias_of(const text *model) {
    if (model->there && word_is(model->data, "deepseek-chat")) return 0;
    if (model->there && word_is(model->data, "deepseek-reasoner")) return 1;
    return -1;
}
