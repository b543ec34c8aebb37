/* memgov.c - whether memory may be taken: an account of leases, an observation, and the verdict on an asker.
 *
 * Numbers of bytes run up to 2^63-1 and no sum of them may pass that, so every addition is checked; a sum that would pass
 * is remembered as `too large` and has no value any more.
 */
#include <stdlib.h>

#include "oracles/common/oracle.h"
#include "oracles/common/words.h"

enum { CLASSES = 7 };
static const char *const classes[] = {"boot", "warm", "banks", "serial", "static", "model", "snapshot", NULL};

typedef enum { OFF, OBSERVE, ENFORCE } gov_mode;
static const char *const modes[] = {"off", "observe", "enforce", NULL};

typedef enum { UNSUPPORTED, ERROR, AVAILABLE } observation;
static const char *const observations[] = {"unsupported", "error", "available", NULL};

enum { MODE, LIMIT, SUBSTRATE, OBSERVED, LEASE, RELEASE, ASK, SUM };
static const char *const verbs[] = {"mode", "limit", "substrate", "observe", "lease", "release", "ask", "sum", NULL};

#define MAX31 INT64_C(0x7FFFFFFF)

typedef struct lease {
    int64_t key;
    int kind;
    int64_t intent, resident, extra; /* extra: the reservation of a lease, the transient of an asker */
} lease;

typedef struct governor {
    int64_t floor, substrate, available;
    observation seen;
    gov_mode mode[CLASSES];
    bool limited[CLASSES];
    int64_t limit[CLASSES];
    lease *leases;
    size_t count;
} governor;

/* ---- sums ---- */

typedef struct sum {
    int64_t value;
    bool too_large;
} sum;

/* more is not negative. */
static void add(sum *s, int64_t more) {
    if (s->too_large || s->value > INT64_MAX - more) {
        s->too_large = true;
    } else {
        s->value += more;
    }
}

/* ---- the account ---- */

static size_t find(const governor *g, int64_t key) {
    size_t i = 0;
    while (i < g->count && g->leases[i].key != key) i++;
    return i;
}

static bool sound(const lease *l) { return l->intent >= 0 && l->resident >= 0 && l->extra >= 0 && l->resident <= l->intent; }

/* There is room for one more: there are as many places as lines. */
static bool put(governor *g, const lease *l) {
    if (!sound(l)) return false;
    const size_t i = find(g, l->key);
    g->leases[i] = *l;
    if (i == g->count) g->count++;
    return true;
}

static bool take_out(governor *g, int64_t key) {
    const size_t i = find(g, key);
    if (i == g->count) return false;
    g->leases[i] = g->leases[--g->count];
    return true;
}

/* ---- the verdict ---- */

typedef struct verdict {
    const char *name;
    bool stops; /* under enforcement */
    int64_t required, available, deficit;
    int retry;
} verdict;

static verdict judge(const governor *g, const lease *a) {
    if (!sound(a) || g->substrate < 0) return (verdict){"fault", true, 0, 0, 0, 0};
    if (g->seen == UNSUPPORTED) return (verdict){"unsupported", false, 0, 0, 0, 0};
    if (g->seen == ERROR) return (verdict){"retry_observation", true, 0, 0, 0, 1};

    sum of_class = {a->intent, false}, alone = {g->floor, false}, required;
    add(&alone, g->substrate);
    add(&alone, a->intent - a->resident);
    add(&alone, a->extra);
    required = alone;
    for (size_t i = 0; i < g->count; i++) {
        const lease *l = &g->leases[i];
        if (l->key == a->key) continue;
        if (l->kind == a->kind) add(&of_class, l->intent);
        add(&required, l->extra);
        add(&required, l->intent - l->resident);
    }
    if (g->limited[a->kind] && !of_class.too_large && of_class.value > g->limit[a->kind])
        return (verdict){"refuse_class", true, of_class.value, g->limit[a->kind], of_class.value - g->limit[a->kind], 0};
    if (of_class.too_large || required.too_large) return (verdict){"fault", true, 0, 0, 0, 0};
    if (g->available >= required.value) return (verdict){"admit", false, required.value, g->available, 0, 0};
    return (verdict){"refuse_live", true, required.value, g->available, required.value - g->available, alone.value <= g->available};
}

static void write_answer(const governor *g, const lease *a, tape *out) {
    verdict v = {"off", false, 0, 0, 0, 0};
    if (g->mode[a->kind] != OFF) v = judge(g, a);
    tape_word(out, "verdict");
    tape_word(out, v.name);
    tape_int(out, v.required);
    tape_int(out, v.available);
    tape_int(out, v.deficit);
    tape_int(out, v.retry);
    tape_word(out, v.stops && g->mode[a->kind] == ENFORCE ? "stop" : "go");
    tape_end(out);
}

static void write_outcome(bool good, const char *fault, tape *out) {
    tape_word(out, good ? "ok" : "error");
    if (!good) tape_word(out, fault);
    tape_end(out);
}

static void write_sum(const governor *g, tape *out) {
    sum resident = {0}, unfilled = {0}, reserved = {0};
    for (size_t i = 0; i < g->count; i++) {
        add(&resident, g->leases[i].resident);
        add(&unfilled, g->leases[i].intent - g->leases[i].resident);
        add(&reserved, g->leases[i].extra);
    }
    if (resident.too_large || unfilled.too_large || reserved.too_large) {
        write_outcome(false, "overflow", out);
        return;
    }
    tape_word(out, "sum");
    tape_uint(out, g->count);
    tape_int(out, resident.value);
    tape_int(out, unfilled.value);
    tape_int(out, reserved.value);
    tape_end(out);
}

/* ---- the tape ---- */

static lease read_lease(words *w) {
    lease l;
    l.key = words_int(w, 0, MAX31);
    l.kind = words_choice(w, classes);
    l.intent = words_int(w, INT64_MIN, INT64_MAX);
    l.resident = words_int(w, INT64_MIN, INT64_MAX);
    l.extra = words_int(w, INT64_MIN, INT64_MAX);
    return l;
}

/* One line. False: the tape is bad. */
static bool step(governor *g, reader *tape_in, tape *out) {
    words w = words_of(tape_in);
    const int verb = words_choice(&w, verbs);
    if (w.bad) return false;
    lease l = {0};
    int kind = 0, choice = 0;
    int64_t number = 0;
    switch (verb) {
    case MODE:
        kind = words_choice(&w, classes);
        choice = words_choice(&w, modes);
        break;
    case LIMIT:
        kind = words_choice(&w, classes);
        number = words_int(&w, 0, INT64_MAX);
        break;
    case SUBSTRATE: number = words_int(&w, INT64_MIN, INT64_MAX); break;
    case OBSERVED:
        choice = words_choice(&w, observations);
        if (choice == AVAILABLE) number = words_int(&w, 0, INT64_MAX);
        break;
    case LEASE:
    case ASK: l = read_lease(&w); break;
    case RELEASE: number = words_int(&w, 0, MAX31); break;
    default: break;
    }
    if (!words_done(&w)) return false;
    switch (verb) {
    case MODE: g->mode[kind] = (gov_mode)choice; break;
    case LIMIT:
        g->limited[kind] = true;
        g->limit[kind] = number;
        break;
    case SUBSTRATE: g->substrate = number; break;
    case OBSERVED:
        g->seen = (observation)choice;
        g->available = number;
        break;
    case LEASE: write_outcome(put(g, &l), "lease", out); break;
    case RELEASE: write_outcome(take_out(g, number), "key", out); break;
    case ASK: write_answer(g, &l, out); break;
    default: write_sum(g, out); break;
    }
    return true;
}

static size_t lines_in(reader tape) {
    size_t n = 0;
    reader line;
    while (reader_line(&tape, &line)) n++;
    return n;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    static const char *const opening[] = {"memgov", NULL};
    reader tape_in = reader_over(input, length);
    const size_t lines = lines_in(tape_in);
    governor g = {0};
    for (int i = 0; i < CLASSES; i++) g.mode[i] = ENFORCE;
    words w = words_of(&tape_in);
    (void)words_choice(&w, opening);
    g.floor = words_int(&w, 0, INT64_MAX);
    if (!words_done(&w)) return ORACLE_BAD_TAPE;
    if (lines > SIZE_MAX / sizeof *g.leases) return ORACLE_NO_MEMORY;
    g.leases = malloc(lines * sizeof *g.leases);
    if (g.leases == NULL) return ORACLE_NO_MEMORY;
    int rc = ORACLE_OK;
    while (rc == ORACLE_OK && tape_in.at != tape_in.end && !out->failed)
        if (!step(&g, &tape_in, out)) rc = ORACLE_BAD_TAPE; /* of a tape that turns out to be bad nothing is kept */
    free(g.leases);
    return rc;
}

const oracle_kind oracle_memgov = {"memgov", NULL, run, NULL};
