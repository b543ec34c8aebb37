/* continuation.c - whose turn a bank is kept for: records of answers that will be continued, newest first.
 *
 * Ids of a line are unescaped into one store that outlives the line; a record keeps a stretch of it.
 */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/common/utf8.h"
#include "oracles/common/words.h"

enum { PUBLISH, MOVED, DEMOTE, PIN, UNPIN, RESOLVE, HOLD, VICTIM, RANKS, RECORDS };
static const char *const verbs[] = {"publish", "moved", "demote", "pin", "unpin", "resolve", "hold", "victim", "ranks", "records", NULL};

enum { MAX_ID = 94, LAST_OWNER = 65535, OWNERS = LAST_OWNER + 2 };
#define SPAN_LIMIT (INT64_C(1) << 60)
#define TIME_LIMIT (INT64_C(1) << 62)
#define COUNT_LIMIT (INT64_C(1) << 53)

typedef struct record {
    int64_t number;
    bool live;
    bytes protocol;
    int64_t owner, generation, frontier, published, refs, pinned_until;
    const bytes *ids;
    size_t id_count;
} record;

typedef struct fact {
    bool known;
    int64_t generation, frontier;
} fact;

typedef struct registry {
    int64_t capacity, grace, ttl, pin, shed, second;
    record *records; /* oldest first */
    size_t count;
    int64_t published;
    fact *facts; /* [owner + 1] */
    uint8_t *text;
    size_t text_used;
    bytes *ids; /* as many places as the tape has words */
    size_t ids_used;
    bool *listed; /* [owner + 1]: met in the line that is being read */
} registry;

/* What a line asks about: this protocol's turn with these ids. */
typedef struct turn {
    bytes protocol;
    const bytes *ids;
    size_t count;
} turn;

/* ---- sets of ids ---- */

static bool same(bytes a, bytes b) { return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0); }

static bool among(const bytes *ids, size_t count, bytes id) {
    for (size_t i = 0; i < count; i++)
        if (same(ids[i], id)) return true;
    return false;
}

static bool same_ids(const record *r, const turn *t) {
    if (r->id_count != t->count) return false;
    for (size_t i = 0; i < t->count; i++)
        if (!among(r->ids, r->id_count, t->ids[i])) return false;
    return true;
}

static bool shares_an_id(const record *r, const turn *t) {
    for (size_t i = 0; i < t->count; i++)
        if (among(r->ids, r->id_count, t->ids[i])) return true;
    return false;
}

/* ---- time ---- */

static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t span_of(const registry *g, int64_t owner) {
    return owner >= 0 || g->grace < g->shed ? g->grace : g->shed;
}

static bool pinned(const record *r, int64_t now) { return r->refs > 0 && now < r->pinned_until; }

static bool held(const registry *g, const record *r, int64_t now) {
    return r->live && (pinned(r, now) || now - r->published < span_of(g, r->owner));
}

static int64_t retry_of(const registry *g, const record *r, int64_t now) {
    int64_t remaining = largest(0, r->published + span_of(g, r->owner) - now);
    if (pinned(r, now)) remaining = largest(remaining, r->pinned_until - now);
    return largest(1, remaining / g->second + (remaining % g->second != 0));
}

static void grow_old(registry *g, int64_t now) {
    for (size_t i = 0; i < g->count; i++) {
        record *r = &g->records[i];
        if (r->live && now - r->published >= g->ttl && !pinned(r, now)) r->live = false;
    }
}

/* The record that stands in the way of this turn's taking the owner; NULL: none. */
static record *in_the_way(const registry *g, int64_t owner, const turn *t, int64_t now) {
    for (size_t i = 0; i < g->count; i++) {
        record *r = &g->records[i];
        if (r->owner != owner || !held(g, r, now)) continue;
        if (t->count > 0 && same(r->protocol, t->protocol) && same_ids(r, t)) continue;
        return r;
    }
    return NULL;
}

static record *find(const registry *g, int64_t number) {
    for (size_t i = 0; i < g->count; i++)
        if (g->records[i].number == number) return &g->records[i];
    return NULL;
}

/* ---- what the lines do ---- */

static void say(tape *out, const char *word) {
    tape_word(out, word);
    tape_end(out);
}

static void say_two(tape *out, const char *first, const char *second) {
    tape_word(out, first);
    say(out, second);
}

static void say_numbers(tape *out, const char *word, int64_t a, int64_t b) {
    tape_word(out, word);
    tape_int(out, a);
    tape_int(out, b);
    tape_end(out);
}

static void say_number(tape *out, const char *word, int64_t a) {
    tape_word(out, word);
    tape_int(out, a);
    tape_end(out);
}

static void learn(registry *g, int64_t owner, int64_t generation, int64_t frontier) {
    g->facts[owner + 1] = (fact){true, generation, frontier};
}

static void publish(registry *g, const turn *t, int64_t owner, int64_t generation, int64_t frontier, int64_t now, tape *out) {
    if (t->count == 0 || generation == 0 || frontier == 0) {
        say(out, "none");
        return;
    }
    for (size_t i = 0; i < g->count; i++)
        if (g->records[i].owner == owner) g->records[i].live = false;
    g->records[g->count++] =
        (record){++g->published, true, t->protocol, owner, generation, frontier, now, 0, 0, t->ids, t->count};
    learn(g, owner, generation, frontier);
    size_t kept = 0, excess = (int64_t)g->count > g->capacity ? g->count - (size_t)g->capacity : 0;
    for (size_t i = 0; i < g->count; i++) { /* oldest first */
        if (excess > 0 && !g->records[i].live && g->records[i].refs == 0) {
            excess--;
        } else {
            g->records[kept++] = g->records[i];
        }
    }
    g->count = kept;
    say_numbers(out, "published", g->published, (int64_t)g->count);
}

static void pin_or_unpin(record *r, int verb, int64_t until, tape *out) {
    if (verb == PIN ? !r->live : r->refs == 0) {
        say_two(out, "error", verb == PIN ? "replay" : "refs");
        return;
    }
    r->refs += verb == PIN ? 1 : -1;
    if (verb == PIN) r->pinned_until = largest(r->pinned_until, until);
    say_numbers(out, "pinned", r->refs, r->pinned_until);
}

static void resolve(const registry *g, const turn *t, tape *out) {
    const record *found = NULL;
    bool partial = false;
    for (size_t i = 0; i < g->count && t->count > 0; i++) {
        const record *r = &g->records[i];
        if (!same(r->protocol, t->protocol)) continue;
        if (same_ids(r, t)) found = r; /* the newest comes last */
        partial = partial || shares_an_id(r, t);
    }
    if (found == NULL) {
        if (partial) {
            say_two(out, "conflict", "partial");
        } else {
            say(out, "cold");
        }
    } else if (!found->live) {
        say_number(out, "replay", found->number);
    } else {
        const fact *f = &g->facts[found->owner + 1];
        if (!f->known || f->generation != found->generation || f->frontier != found->frontier) {
            say_two(out, "conflict", "stale");
        } else {
            say_numbers(out, "live", found->number, found->owner);
        }
    }
}

static void hold(const registry *g, const turn *t, int64_t owner, int64_t now, tape *out) {
    const record *r = in_the_way(g, owner, t, now);
    if (r == NULL) {
        say(out, "free");
    } else {
        say_numbers(out, "held", r->number, retry_of(g, r, now));
    }
}

/* owners: a walk over just these words, which have been looked at. */
static void victim(registry *g, const turn *t, words owners, int64_t now, tape *out) {
    record *oldest = NULL;
    int64_t wait = 0;
    if (!words_left(&owners)) {
        say(out, "none");
        return;
    }
    while (words_left(&owners)) {
        const int64_t owner = words_int(&owners, -1, LAST_OWNER);
        record *r = in_the_way(g, owner, t, now);
        if (r == NULL) {
            say_number(out, "take", owner);
            return;
        }
        const int64_t retry = retry_of(g, r, now);
        if (wait == 0 || retry < wait) wait = retry;
        if (!pinned(r, now) && (oldest == NULL || r->number < oldest->number)) oldest = r;
    }
    if (oldest == NULL) {
        say_number(out, "wait", wait);
        return;
    }
    oldest->live = false;
    say_numbers(out, "yield", oldest->owner, oldest->number);
}

static int by_owner(const void *a, const void *b) {
    const record *x = *(const record *const *)a, *y = *(const record *const *)b;
    return (x->owner > y->owner) - (x->owner < y->owner);
}

/* False: no memory. */
static bool ranks(const registry *g, int64_t now, tape *out) {
    const record **all = malloc((g->count + 1) * sizeof *all);
    size_t n = 0;
    if (all == NULL) return false;
    for (size_t i = 0; i < g->count; i++) /* an owner has one live record at most */
        if (held(g, &g->records[i], now)) all[n++] = &g->records[i];
    qsort(all, n, sizeof *all, by_owner);
    for (size_t i = 0; i < n; i++) say_numbers(out, "rank", all[i]->owner, all[i]->number);
    say(out, "end");
    free(all);
    return true;
}

static void write_records(const registry *g, tape *out) {
    for (size_t i = g->count; i-- > 0;) {
        const record *r = &g->records[i];
        tape_word(out, "record");
        tape_int(out, r->number);
        tape_word(out, r->live ? "live" : "replay");
        tape_bytes(out, r->protocol.data, r->protocol.length);
        tape_int(out, r->owner);
        tape_int(out, r->generation);
        tape_int(out, r->frontier);
        tape_int(out, r->published);
        tape_int(out, r->refs);
        tape_int(out, r->pinned_until);
        for (size_t k = 0; k < r->id_count; k++) tape_bytes(out, r->ids[k].data, r->ids[k].length);
        tape_end(out);
    }
    say(out, "end");
}

/* ---- the tape ---- */

/* The next word as text, in the registry's store. */
static bytes read_text(registry *g, words *w) {
    const bytes word = words_next(w);
    bytes text = {g->text + g->text_used, 0};
    if (w->bad) return text;
    if (!word_unescape(word, g->text + g->text_used, &text.length) || !utf8_valid(text)) w->bad = true;
    if (!w->bad) g->text_used += text.length;
    return text;
}

static bytes cut(bytes id) {
    if (id.length <= MAX_ID) return id;
    id.length = MAX_ID;
    while (id.length > 0 && (id.data[id.length] & 0xC0) == 0x80) id.length--; /* the byte behind the end goes on */
    return id;
}

/* The rest of the line as ids, each once. */
static void read_ids(registry *g, words *w, turn *t) {
    bytes *ids = g->ids + g->ids_used;
    t->ids = ids;
    t->count = 0;
    while (words_left(w)) {
        const bytes id = cut(read_text(g, w));
        if (!w->bad && !among(ids, t->count, id)) ids[t->count++] = id;
    }
    g->ids_used += t->count;
}

static int64_t read_owner(words *w) { return words_int(w, -1, LAST_OWNER); }

/* The n owners of a `victim` line: that they are there and each once. Leaves *owners as a walk over just these. */
static void read_owners(registry *g, words *w, words *owners) {
    const int64_t n = words_int(w, 0, LAST_OWNER + 1);
    *owners = *w;
    for (int64_t i = 0; i < n && !w->bad; i++) {
        const int64_t owner = read_owner(w);
        if (!w->bad && g->listed[owner + 1]) w->bad = true;
        if (!w->bad) g->listed[owner + 1] = true;
    }
    owners->line.end = w->bad || n == 0 ? owners->line.at : w->line.at;
    if (!w->bad && n > 0 && words_left(w)) owners->line.end--; /* the space behind the last */
    for (words again = *owners; words_left(&again);) g->listed[read_owner(&again) + 1] = false;
}

static int step(registry *g, reader *tape_in, tape *out) {
    words w = words_of(tape_in), owners = {0};
    const int verb = words_choice(&w, verbs);
    turn t = {0};
    int64_t owner = 0, generation = 0, frontier = 0, now = 0, number = 0;
    if (w.bad) return ORACLE_BAD_TAPE;
    const bool about_a_turn = verb == PUBLISH || verb == RESOLVE || verb == HOLD || verb == VICTIM;
    if (verb == MOVED || verb == HOLD) owner = read_owner(&w);
    if (verb == DEMOTE || verb == PIN || verb == UNPIN) number = words_int(&w, INT64_MIN, INT64_MAX);
    if (about_a_turn) t.protocol = read_text(g, &w);
    if (verb == PUBLISH) owner = read_owner(&w);
    if (verb == PUBLISH || verb == MOVED) {
        generation = words_int(&w, 0, COUNT_LIMIT);
        frontier = words_int(&w, 0, COUNT_LIMIT);
    }
    const bool timed = about_a_turn || verb == PIN || verb == RANKS;
    if (timed) now = words_int(&w, 0, TIME_LIMIT);
    if (verb == VICTIM) read_owners(g, &w, &owners);
    if (about_a_turn) read_ids(g, &w, &t);
    if (!words_done(&w)) return ORACLE_BAD_TAPE;

    if (timed) grow_old(g, now);
    record *r = verb == DEMOTE || verb == PIN || verb == UNPIN ? find(g, number) : NULL;
    switch (verb) {
    case PUBLISH: publish(g, &t, owner, generation, frontier, now, out); break;
    case MOVED:
        learn(g, owner, generation, frontier);
        say(out, "ok");
        break;
    case DEMOTE:
    case PIN:
    case UNPIN:
        if (r == NULL) {
            say_two(out, "error", "record");
        } else if (verb == DEMOTE) {
            r->live = false;
            say(out, "ok");
        } else {
            pin_or_unpin(r, verb, now + g->pin, out);
        }
        break;
    case RESOLVE: resolve(g, &t, out); break;
    case HOLD: hold(g, &t, owner, now, out); break;
    case VICTIM: victim(g, &t, owners, now, out); break;
    case RANKS: return ranks(g, now, out) ? ORACLE_OK : ORACLE_NO_MEMORY;
    default: write_records(g, out); break;
    }
    return ORACLE_OK;
}

static bool read_registry(registry *g, reader *tape_in) {
    static const char *const opening[] = {"continuation", NULL};
    words w = words_of(tape_in);
    (void)words_choice(&w, opening);
    g->capacity = words_int(&w, 0, 65536);
    g->grace = words_int(&w, 0, SPAN_LIMIT);
    g->ttl = words_int(&w, 0, SPAN_LIMIT);
    g->pin = words_int(&w, 0, SPAN_LIMIT);
    g->shed = words_int(&w, 0, SPAN_LIMIT);
    g->second = words_int(&w, 1, SPAN_LIMIT);
    return words_done(&w);
}

static size_t count_bytes(const uint8_t *data, size_t length, uint8_t byte) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) n += data[i] == byte;
    return n;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    reader tape_in = reader_over(input, length);
    registry g = {0};
    if (!read_registry(&g, &tape_in)) return ORACLE_BAD_TAPE;
    const size_t lines = count_bytes(input, length, '\n'), spaces = count_bytes(input, length, ' ');
    g.records = calloc(lines, sizeof *g.records); /* a line publishes one record at most */
    g.facts = calloc(OWNERS, sizeof *g.facts);
    g.listed = calloc(OWNERS, sizeof *g.listed);
    g.text = malloc(length);
    g.ids = calloc(spaces + 1, sizeof *g.ids); /* an id has a space in front of it */
    int rc = ORACLE_NO_MEMORY;
    if (g.records != NULL && g.facts != NULL && g.listed != NULL && g.text != NULL && g.ids != NULL) rc = ORACLE_OK;
    while (rc == ORACLE_OK && tape_in.at != tape_in.end && !out->failed)
        rc = step(&g, &tape_in, out); /* of a tape that turns out to be bad nothing is kept */
    free(g.records);
    free(g.facts);
    free(g.listed);
    free(g.text);
    free(g.ids);
    return rc;
}

const oracle_kind oracle_continuation = {"continuation", NULL, run, NULL};
