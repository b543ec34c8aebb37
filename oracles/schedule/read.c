/* read.c - the tape, checked as a whole before anything is run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/schedule/schedule.h"

#define MOST_TOKEN INT32_MAX

bool tokens_push(tokens *t, int32_t token) {
    if (t->count == t->room) {
        const size_t room = t->room == 0 ? 8 : 2 * t->room;
        int32_t *data = room > SIZE_MAX / 8 ? NULL : realloc(t->data, room * sizeof *data);
        if (data == NULL) return false;
        t->data = data;
        t->room = room;
    }
    t->data[t->count++] = token;
    return true;
}

/* One more zeroed item of an array that grows; NULL: no memory. */
static void *more(void **items, size_t *count, size_t *room, size_t size) {
    if (*count == *room) {
        const size_t wider = *room == 0 ? 16 : 2 * *room;
        void *grown = wider > SIZE_MAX / size ? NULL : realloc(*items, wider * size);
        if (grown == NULL) return NULL;
        *items = grown;
        *room = wider;
    }
    return memset((char *)*items + (*count)++ * size, 0, size);
}

static bool next_int(reader *line, int64_t low, int64_t high, int64_t *value) {
    bytes word;
    return reader_word(line, &word) && word_int(word, value) && *value >= low && *value <= high;
}

static bool next_flag(reader *line, bool *flag) {
    int64_t value = 0;
    if (!next_int(line, 0, 1, &value)) return false;
    *flag = value == 1;
    return true;
}

static bool is_done(const reader *line) { return line->at == line->end; }

static size_t words_left(reader line) {
    size_t n = 0;
    bytes word;
    while (reader_word(&line, &word)) n++;
    return n;
}

/* `count` tokens, none less than `low`. */
static int next_tokens(reader *line, size_t count, int64_t low, tokens *t) {
    for (size_t i = 0; i < count; i++) {
        int64_t token = 0;
        if (!next_int(line, low, MOST_TOKEN, &token)) return ORACLE_BAD_TAPE;
        if (!tokens_push(t, (int32_t)token)) return ORACLE_NO_MEMORY;
    }
    return ORACLE_OK;
}

static int rest_tokens(reader *line, int64_t low, tokens *t) {
    const int rc = next_tokens(line, words_left(*line), low, t);
    return rc == ORACLE_OK && !is_done(line) ? ORACLE_BAD_TAPE : rc;
}

/* `-`, or the sixteen digits of a double that is finite and positive. */
static bool next_double(reader *line, double *value) {
    bytes word;
    uint64_t bits = 0;
    if (!reader_word(line, &word)) return false;
    *value = 0;
    if (word_is(word, "-")) return true;
    if (word.length != 16) return false;
    for (size_t i = 0; i < 16; i++) {
        const uint8_t c = word.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'))) return false;
        bits = bits << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'A' + 10);
    }
    *value = pace_of_bits(bits);
    return isfinite(*value) && *value > 0;
}

static int by_number(const void *left, const void *right) {
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

static int read_first(reader *r, schedule *s) {
    reader line;
    bytes word;
    if (!reader_line(r, &line) || !reader_word(&line, &word) || !word_is(word, "schedule") || !next_int(&line, 1, 4096, &s->n_banks) ||
        !next_int(&line, 1, 1048576, &s->rows) || !next_int(&line, 0, INT32_MAX, &s->max_queue) ||
        !next_int(&line, 0, INT64_C(1) << 60, &s->max_bytes) || !next_int(&line, 0, INT64_C(1) << 62, &s->max_age) || !is_done(&line))
        return ORACLE_BAD_TAPE;
    s->banks = calloc((size_t)s->n_banks, sizeof *s->banks);
    if (s->banks == NULL) return ORACLE_NO_MEMORY;
    for (int64_t b = 0; b < s->n_banks; b++) s->banks[b].owner = NOBODY;
    return ORACLE_OK;
}

static int read_hold(reader *line, schedule *s, bool *told) {
    int64_t b = 0;
    if (!next_int(line, 0, s->n_banks - 1, &b) || told[b] || !next_int(line, 0, INT64_C(1) << 53, &s->banks[b].used_at)) return ORACLE_BAD_TAPE;
    told[b] = true;
    if (s->banks[b].used_at > s->uses) s->uses = s->banks[b].used_at;
    return rest_tokens(line, UNKNOWN, &s->banks[b].holds);
}

/* `first` is the first sequence that has not arrived. */
static int read_sequence(reader *line, schedule *s, size_t first) {
    void *items = s->sequences;
    sequence *q = more(&items, &s->n_sequences, &s->sequence_room, sizeof *q);
    if (q == NULL) return ORACLE_NO_MEMORY;
    s->sequences = items;
    const int64_t own = (int64_t)s->n_sequences; /* its key */
    int64_t leader = 0, stops = 0;
    q->bank = q->home = NOBODY;
    q->scope = s->scope;
    if (!next_int(line, 1, INT32_MAX, &q->max_tokens) || !next_flag(line, &q->reuse) || !next_int(line, 0, own - 1, &leader) ||
        !next_flag(line, &q->chain) || !next_int(line, 0, INT32_MAX, &q->top) || !next_int(line, 0, INT64_C(1) << 40, &q->nbytes) ||
        !next_int(line, 0, INT64_MAX, &stops))
        return ORACLE_BAD_TAPE;
    if (leader != 0 && (size_t)leader <= first) return ORACLE_BAD_TAPE;
    q->leader = leader == 0 ? NOBODY : (size_t)leader - 1;
    if ((uint64_t)stops >= words_left(*line)) return ORACLE_BAD_TAPE; /* a prompt's token is left */
    const int rc = next_tokens(line, (size_t)stops, 0, &q->stops);
    if (rc != ORACLE_OK) return rc;
    if (q->stops.count > 1) qsort(q->stops.data, q->stops.count, sizeof *q->stops.data, by_number);
    return rest_tokens(line, 0, &q->prompt);
}

static int read_event(bytes word, reader *line, schedule *s, size_t *first) {
    static const struct {
        const char *name;
        verb verb;
    } verbs[] = {{"arrive", ARRIVE},   {"plan", PLAN},     {"complete", COMPLETE}, {"finish", FINISH}, {"abandon", ABANDON},
                 {"forget", FORGET},   {"floor", FLOOR},   {"guard", GUARD},       {"belongs", BELONGS}, {"banks", BANKS},
                 {"pace", PACE}};
    if (word_is(word, "home")) { /* of the newest sequence, before it arrives */
        int64_t home = 0;
        if (*first == s->n_sequences || !next_int(line, 0, s->n_banks - 1, &home) || !is_done(line)) return ORACLE_BAD_TAPE;
        s->sequences[s->n_sequences - 1].home = (size_t)home;
        return ORACLE_OK;
    }
    const int64_t latest = INT64_C(1) << 62, longest = INT64_C(1) << 53;
    size_t v = 0;
    while (v < sizeof verbs / sizeof verbs[0] && !word_is(word, verbs[v].name)) v++;
    if (v == sizeof verbs / sizeof verbs[0]) return ORACLE_BAD_TAPE;
    void *items = s->events;
    event *e = more(&items, &s->n_events, &s->event_room, sizeof *e);
    if (e == NULL) return ORACLE_NO_MEMORY;
    s->events = items;
    e->verb = verbs[v].verb;
    bool fine = true;
    switch (e->verb) {
    case ARRIVE:
        e->first = *first;
        e->end = *first = s->n_sequences;
        fine = e->first < e->end && next_int(line, 0, latest, &e->a);
        break;
    case PLAN: fine = next_int(line, 0, latest, &e->a); break;
    case COMPLETE:
        if (!next_int(line, -longest, longest, &e->a)) return ORACLE_BAD_TAPE;
        return rest_tokens(line, 0, &e->drawn);
    case FINISH:
        fine = next_int(line, INT64_MIN, INT64_MAX, &e->a) && reader_word(line, &word) &&
               (word_is(word, "stop") || word_is(word, "cancelled") || word_is(word, "error"));
        break;
    case FORGET: fine = next_int(line, INT64_MIN, INT64_MAX, &e->a) && next_int(line, INT64_MIN, INT64_MAX, &e->b); break;
    case FLOOR:
    case BELONGS: fine = next_int(line, 0, s->n_banks - 1, &e->a) && next_int(line, 0, INT32_MAX, &e->b); break;
    case GUARD: fine = next_int(line, 0, s->n_banks - 1, &e->a) && next_int(line, 0, longest, &e->b); break;
    case ABANDON:
    case BANKS:
    case PACE: break;
    }
    return fine && is_done(line) ? ORACLE_OK : ORACLE_BAD_TAPE;
}

static int read_lines(reader *r, schedule *s, bool *told) {
    enum { HOLDS, LEARNED, EVENTS } part = HOLDS;
    size_t first = 0;
    int rc = ORACLE_OK;
    while (rc == ORACLE_OK && r->at != r->end) {
        reader line;
        bytes word;
        if (!reader_line(r, &line) || !reader_word(&line, &word)) return ORACLE_BAD_TAPE;
        if (word_is(word, "hold")) {
            rc = part == HOLDS ? read_hold(&line, s, told) : ORACLE_BAD_TAPE;
        } else if (word_is(word, "learned")) {
            const bool fine = part == HOLDS && next_double(&line, &s->pace.decode) && next_double(&line, &s->pace.per_token) && is_done(&line);
            rc = fine ? ORACLE_OK : ORACLE_BAD_TAPE;
            part = LEARNED;
        } else {
            part = EVENTS;
            if (word_is(word, "scope")) rc = next_int(&line, 0, MOST_TOKEN, &s->scope) && is_done(&line) ? ORACLE_OK : ORACLE_BAD_TAPE;
            else if (word_is(word, "seq")) rc = read_sequence(&line, s, first);
            else rc = read_event(word, &line, s, &first);
        }
    }
    return rc;
}

int schedule_read(schedule *s, const uint8_t *input, size_t length) {
    reader r = reader_over(input, length);
    *s = (schedule){0};
    int rc = read_first(&r, s);
    if (rc != ORACLE_OK) return rc;
    bool *told = calloc((size_t)s->n_banks, sizeof *told);
    rc = told != NULL ? read_lines(&r, s, told) : ORACLE_NO_MEMORY;
    free(told);
    if (rc != ORACLE_OK) return rc;
    s->queue = malloc((s->n_sequences + 1) * sizeof *s->queue);
    s->active = malloc((size_t)s->n_banks * sizeof *s->active);
    return s->queue != NULL && s->active != NULL ? ORACLE_OK : ORACLE_NO_MEMORY;
}

void schedule_free(schedule *s) {
    for (int64_t b = 0; s->banks != NULL && b < s->n_banks; b++) free(s->banks[b].holds.data);
    for (size_t i = 0; i < s->n_sequences; i++) {
        free(s->sequences[i].stops.data);
        free(s->sequences[i].prompt.data);
        free(s->sequences[i].drawn.data);
    }
    for (size_t i = 0; i < s->n_events; i++) free(s->events[i].drawn.data);
    for (size_t i = 0; i < s->n_flying; i++) {
        free(s->flying[i].draws);
        free(s->flying[i].touched);
    }
    free(s->banks);
    free(s->sequences);
    free(s->events);
    free(s->queue);
    free(s->active);
}
