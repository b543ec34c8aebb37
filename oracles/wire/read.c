/* read.c - the tape of an answer: facts, what stands behind them, and the events with their tokens. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/common/json.h"
#include "oracles/common/names.h"
#include "oracles/common/oracle.h"
#include "oracles/common/utf8.h"
#include "oracles/common/words.h"
#include "oracles/wire/wire.h"

#define COUNT_MOST (INT64_C(1) << 31)
#define SECONDS_MOST INT64_C(9007199254740991)

static const char *const surfaces[] = {"chat", "completions", "messages", "responses", NULL};
static const char *const verbs[] = {"open", "delta", "reasoning", "call", "void", "finish", "fail", "alive", "cancel", "unstored", "close", "whole", NULL};
static const char *const reasons[] = {"stop", "length", "tool_calls", NULL};
static const char *const reserved[] = {"error", "incomplete_details", "completed_at", "usage", "status", "timings", "output", NULL};

typedef struct place {
    wire *w;
    reader tape;
    uint8_t *free; /* of the store */
    size_t entries;
    bool no_memory;
} place;

/* ---- words ---- */

static bool plain_digits(bytes word, uint64_t *value) {
    return word_uint(word, value) && (word.length == 1 || word.data[0] != '0');
}

static int64_t count_word(words *l, int64_t low, int64_t high) {
    uint64_t value = 0;
    const bytes word = words_next(l);
    if (l->bad) return low;
    if (!plain_digits(word, &value) || value > (uint64_t)high || (int64_t)value < low) {
        l->bad = true;
        return low;
    }
    return (int64_t)value;
}

static bool switch_word(words *l) { return count_word(l, 0, 1) == 1; }

static double double_word(words *l, bool time) {
    uint64_t bits = 0;
    double value = 0;
    const bytes word = words_next(l);
    if (l->bad) return 0;
    if (!plain_digits(word, &bits)) {
        l->bad = true;
        return 0;
    }
    memcpy(&value, &bits, sizeof value);
    if (!isfinite(value) || (time && !(value >= 0 && value <= 1e12))) l->bad = true;
    return value;
}

static bytes stored(place *p, words *l, bytes word) {
    bytes text = {p->free, 0};
    if (l->bad) return text;
    if (!word_unescape(word, p->free, &text.length)) {
        l->bad = true;
        text.length = 0;
    }
    p->free += text.length;
    return text;
}

static bytes bytes_word(place *p, words *l) {
    const bytes word = words_next(l);
    return stored(p, l, word);
}

static bytes text_word(place *p, words *l) {
    const bytes text = bytes_word(p, l);
    if (!l->bad && !utf8_valid(text)) l->bad = true;
    return text;
}

static optional optional_word(place *p, words *l) {
    optional o = {0};
    bytes word = words_next(l);
    if (l->bad || word_is(word, "-")) return o;
    if (word.length == 0 || word.data[0] != '=') {
        l->bad = true;
        return o;
    }
    word.data++;
    word.length--;
    o.there = true;
    o.text = stored(p, l, word);
    if (!l->bad && !utf8_valid(o.text)) l->bad = true;
    return o;
}

/* ---- in front of the events ---- */

static bool read_facts(place *p) {
    static const char *const opening[] = {"wire", NULL}, *const second[] = {"facts", NULL};
    wire *w = p->w;
    words l = words_of(&p->tape);
    (void)words_choice(&l, opening);
    w->surface = (surface_kind)words_choice(&l, surfaces);
    w->streamed = switch_word(&l);
    if (!words_done(&l)) return false;
    l = words_of(&p->tape);
    (void)words_choice(&l, second);
    w->n = w->choices = 1;
    switch (w->surface) {
    case CHAT:
    case COMPLETIONS:
        w->id = text_word(p, &l);
        w->created = count_word(&l, 0, SECONDS_MOST);
        w->model = text_word(p, &l);
        w->fingerprint = text_word(p, &l);
        w->n = (size_t)count_word(&l, 1, 8);
        w->choices = w->n * (size_t)count_word(&l, 1, 64);
        w->usage = switch_word(&l);
        w->logprobs = switch_word(&l);
        w->reads = switch_word(&l);
        if (w->surface == COMPLETIONS && w->reads) return false;
        break;
    case MESSAGES:
        w->id = text_word(p, &l);
        w->model = text_word(p, &l);
        w->prompt = count_word(&l, 0, COUNT_MOST);
        w->writes = switch_word(&l);
        w->hides = switch_word(&l);
        w->warms = switch_word(&l);
        w->request = text_word(p, &l);
        break;
    default:
        w->finished = count_word(&l, 0, SECONDS_MOST);
        w->queued = switch_word(&l);
        w->summary = switch_word(&l);
        w->sealed = switch_word(&l);
        w->parallel = switch_word(&l);
        if (w->queued && w->streamed) return false;
        break;
    }
    return words_done(&l);
}

static bool is_json(place *p, bytes text) {
    json value = {0};
    const json_outcome outcome = json_read(text, JSON_STRICT, &value);
    json_free(&value);
    if (outcome == JSON_NO_MEMORY) p->no_memory = true;
    return outcome == JSON_READ;
}

static bool first_of_name(place *p, names *map, bytes name) {
    const name_outcome outcome = names_add(map, name, 0);
    if (outcome == NAME_NO_MEMORY) p->no_memory = true;
    return outcome == NAME_NEW;
}

/* The verb of the next line, without taking the line; .data NULL when there is none. */
static bytes peek(const place *p) {
    reader tape = p->tape;
    words l = words_of(&tape);
    return words_next(&l);
}

static bool read_member(place *p, words *l, names *known) {
    member m;
    m.name = text_word(p, l);
    m.json = text_word(p, l);
    if (!words_done(l)) return false;
    for (size_t i = 0; reserved[i] != NULL; i++)
        if (word_is(m.name, reserved[i])) return false;
    p->w->members[p->w->member_count++] = m;
    return first_of_name(p, known, m.name) && is_json(p, m.json);
}

static bool read_tool(place *p, words *l, names *known) {
    tool t;
    t.told = text_word(p, l);
    t.name = text_word(p, l);
    t.space = optional_word(p, l);
    t.custom = switch_word(l);
    if (!words_done(l)) return false;
    p->w->tools[p->w->tool_count++] = t;
    return first_of_name(p, known, t.told);
}

static bool read_suffix(place *p, words *l) {
    p->w->suffixes[p->w->suffix_count++] = text_word(p, l);
    return words_done(l);
}

static bool read_own_lines(place *p) {
    names members = {0}, tools = {0};
    bool good = true;
    for (int stage = 0; good && stage < 3; stage++) {
        static const char *const names_of[] = {"member", "tool", "suffix"};
        while (good && word_is(peek(p), names_of[stage])) {
            words l = words_of(&p->tape);
            (void)words_next(&l);
            good = stage == 0 ? read_member(p, &l, &members) : stage == 1 ? read_tool(p, &l, &tools) : read_suffix(p, &l);
        }
    }
    names_free(&members);
    names_free(&tools);
    return good;
}

/* ---- events ---- */

static bool read_tokens(place *p, event *e) {
    for (size_t i = 0; i < e->token_count; i++) {
        if (!word_is(peek(p), "token")) return false;
        words l = words_of(&p->tape);
        (void)words_next(&l);
        entry *token = &p->w->entries[p->entries];
        size_t n = 0;
        do {
            entry *one = &token[n++];
            one->data = bytes_word(p, &l);
            one->logprob = double_word(&l, false);
            one->alternatives = 0;
        } while (words_left(&l));
        if (!words_done(&l)) return false;
        token->alternatives = n - 1;
        p->entries += n;
    }
    return true;
}

static bool read_event(place *p, event *e) {
    const wire *w = p->w;
    words l = words_of(&p->tape);
    e->verb = (verb_kind)words_choice(&l, verbs);
    if (l.bad) return false;
    if (e->verb == DELTA || e->verb == REASONING || e->verb == CALL || e->verb == VOID || e->verb == FINISH) {
        e->choice = (size_t)count_word(&l, 0, COUNT_MOST);
        if (e->choice >= w->choices) return false;
    }
    if (e->verb == CALL || e->verb == VOID) e->index = count_word(&l, 0, COUNT_MOST);
    if (e->verb == CALL) {
        e->id = text_word(p, &l);
        e->name = text_word(p, &l);
    }
    if (e->verb == DELTA || e->verb == REASONING || e->verb == CALL) {
        e->text = text_word(p, &l);
        words tokens = l;
        if (word_is(words_next(&tokens), "-")) {
            l = tokens;
        } else {
            e->has_tokens = true;
            e->token_count = (size_t)count_word(&l, 0, COUNT_MOST);
        }
        if (w->surface == MESSAGES && e->has_tokens) return false;
        if ((w->surface == CHAT || w->surface == COMPLETIONS) && e->has_tokens != w->logprobs) return false;
    }
    if (e->verb == FINISH) {
        e->reason = (reason_kind)words_choice(&l, reasons);
        e->prompt = count_word(&l, 0, COUNT_MOST);
        e->cached = count_word(&l, 0, COUNT_MOST);
        e->completion = count_word(&l, 0, COUNT_MOST);
        e->arrived = double_word(&l, true);
        e->first = double_word(&l, true);
        e->last = double_word(&l, true);
        e->thought = count_word(&l, 0, COUNT_MOST);
        e->stop = optional_word(p, &l);
        if (e->cached > e->prompt) return false;
    }
    if (e->verb == FAIL) {
        e->status = (int)count_word(&l, 400, 599);
        e->id = text_word(p, &l);
        e->code = optional_word(p, &l);
        e->param = optional_word(p, &l);
        e->text = text_word(p, &l);
    }
    if (!words_done(&l)) return false;
    e->tokens = p->w->entries + p->entries;
    return read_tokens(p, e);
}

static size_t count_bytes(const uint8_t *data, size_t length, uint8_t byte) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) n += data[i] == byte;
    return n;
}

int wire_read(const uint8_t *input, size_t length, wire *w) {
    *w = (wire){0};
    const size_t lines = count_bytes(input, length, '\n'), spaces = count_bytes(input, length, ' ');
    w->members = calloc(lines + 1, sizeof *w->members);
    w->tools = calloc(lines + 1, sizeof *w->tools);
    w->suffixes = calloc(lines + 1, sizeof *w->suffixes);
    w->events = calloc(lines + 1, sizeof *w->events);
    w->entries = calloc(spaces + 1, sizeof *w->entries); /* each has a space in front of it */
    w->store = malloc(length + 1);
    if (w->members == NULL || w->tools == NULL || w->suffixes == NULL || w->events == NULL || w->entries == NULL || w->store == NULL)
        return ORACLE_NO_MEMORY;
    place p = {w, reader_over(input, length), w->store, 0, false};
    bool good = read_facts(&p) && (w->surface != RESPONSES || read_own_lines(&p));
    while (good && p.tape.at != p.tape.end) good = read_event(&p, &w->events[w->event_count++]);
    return p.no_memory ? ORACLE_NO_MEMORY : good ? ORACLE_OK : ORACLE_BAD_TAPE;
}

void wire_free(wire *w) {
    free(w->members);
    free(w->tools);
    free(w->suffixes);
    free(w->events);
    free(w->entries);
    free(w->store);
}
