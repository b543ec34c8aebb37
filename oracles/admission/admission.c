/* admission.c - who waits, who is turned away, and who goes next.
 *
 * Requests lie in one array, by key; two chains run through those that wait: one over all of them in order of arrival,
 * and one for each client. Clients lie in the order in which they came.
 */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/common/words.h"

#define MAX31 INT64_C(0x7FFFFFFF)
#define NOBODY SIZE_MAX

typedef enum { CONTINUOUS, STATIC, SERIAL } lane_kind;
static const char *const lanes[] = {"continuous", "static", "serial", NULL};

enum { ARRIVE, RELEASE, LEAVE, CANCEL, CONNECT, CLIENTS, STOP };
static const char *const verbs[] = {"arrive", "release", "leave", "cancel", "connect", "clients", "stop", NULL};

typedef struct client {
    bytes name;
    int64_t served, last;
    int64_t waiting, running; /* sequences */
    size_t requests;          /* waiting or running ones */
    size_t first, final;      /* of its chain of waiting requests, NOBODY of an empty one */
} client;

typedef enum { GONE, WAITING, RUNNING } condition;

typedef struct request {
    condition now;
    client *of;
    lane_kind lane;
    int64_t sequences, credit, charge, nbytes, patience, arrived;
    int64_t left, used; /* of a running one: sequences that have not ended, positions that the others took */
    size_t let_go_by;   /* the line */
    size_t before, after, next_of_client;
} request;

typedef struct door {
    int64_t slots, capacity, budget, max_queue, max_bytes, client_queue, max_age, max_clients;
    bool stopped;
    request *requests; /* [key]; [0] is nobody's */
    size_t arrivals;
    size_t first, final; /* of the chain of all that wait */
    size_t waiting_count;
    int64_t waiting, waiting_bytes;
    int64_t running, held, releases;
    size_t running_count;
    client **clients; /* in order of coming */
    size_t client_count;
    uint8_t *names;
    size_t names_used;
    size_t line;
} door;

/* ---- clients ---- */

static client *client_of(const door *d, bytes name) {
    for (size_t i = 0; i < d->client_count; i++) {
        client *c = d->clients[i];
        if (c->name.length == name.length && (name.length == 0 || memcmp(c->name.data, name.data, name.length) == 0)) return c;
    }
    return NULL;
}

/* NULL: no memory. */
static client *new_client(door *d, bytes name) {
    client *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->name = name;
    c->first = c->final = NOBODY;
    for (size_t i = 0; i < d->client_count; i++)
        if (i == 0 || d->clients[i]->served < c->served) c->served = d->clients[i]->served;
    d->clients[d->client_count++] = c;
    return c;
}

static void forget_if_done(door *d, client *c) {
    if (c->requests > 0) return;
    size_t i = 0;
    while (d->clients[i] != c) i++;
    memmove(d->clients + i, d->clients + i + 1, (--d->client_count - i) * sizeof *d->clients);
    free(c);
}

/* ---- the waiting ---- */

static void join(door *d, size_t key) {
    request *r = &d->requests[key];
    r->now = WAITING;
    r->before = d->final;
    r->after = r->next_of_client = NOBODY;
    if (d->final == NOBODY) {
        d->first = key;
    } else {
        d->requests[d->final].after = key;
    }
    d->final = key;
    if (r->of->final == NOBODY) {
        r->of->first = key;
    } else {
        d->requests[r->of->final].next_of_client = key;
    }
    r->of->final = key;
    r->of->requests++;
    r->of->waiting += r->sequences;
    d->waiting_count++;
    d->waiting += r->sequences;
    d->waiting_bytes += r->nbytes;
}

static void unchain(door *d, size_t key) {
    request *r = &d->requests[key];
    if (r->before == NOBODY) {
        d->first = r->after;
    } else {
        d->requests[r->before].after = r->after;
    }
    if (r->after == NOBODY) {
        d->final = r->before;
    } else {
        d->requests[r->after].before = r->before;
    }
    size_t before = NOBODY;
    for (size_t at = r->of->first; at != key; at = d->requests[at].next_of_client) before = at;
    if (before == NOBODY) {
        r->of->first = r->next_of_client;
    } else {
        d->requests[before].next_of_client = r->next_of_client;
    }
    if (r->of->final == key) r->of->final = before;
    r->of->waiting -= r->sequences;
    d->waiting_count--;
    d->waiting -= r->sequences;
    d->waiting_bytes -= r->nbytes;
}

static void drop(door *d, size_t key) {
    request *r = &d->requests[key];
    unchain(d, key);
    r->now = GONE;
    r->of->requests--;
    forget_if_done(d, r->of);
}

/* ---- output ---- */

static void shed(tape *out, const char *reason, int status, int retry) {
    tape_word(out, "shed");
    tape_word(out, reason);
    tape_int(out, status);
    tape_int(out, retry);
    tape_end(out);
}

static void numbered(tape *out, const char *word, int64_t number) {
    tape_word(out, word);
    tape_int(out, number);
    tape_end(out);
}

static void write_state(const door *d, tape *out) {
    tape_word(out, "state");
    tape_uint(out, d->waiting_count);
    tape_int(out, d->waiting);
    tape_int(out, d->waiting_bytes);
    tape_int(out, d->running);
    tape_int(out, d->held);
    tape_uint(out, d->client_count);
    tape_end(out);
}

/* ---- what the lines do ---- */

/* The request at `key` has been read. False: no memory. */
static bool arrive(door *d, size_t key, bytes name, tape *out) {
    request *r = &d->requests[key];
    client *c = client_of(d, name);
    const int64_t others = (int64_t)d->waiting - (c == NULL ? 0 : c->waiting);
    if (d->stopped) {
        shed(out, "stopping", 503, 10);
    } else if (r->credit > d->budget) {
        shed(out, "kv_budget", 400, 0);
    } else if (d->waiting_count > 0 && d->waiting + r->sequences > d->max_queue) {
        shed(out, "queue_depth", 429, 5);
    } else if (d->waiting_count > 0 && d->waiting_bytes + r->nbytes > d->max_bytes) {
        shed(out, "queue_bytes", 429, 5);
    } else if (d->waiting_count > 0 && (c == NULL ? 0 : c->waiting) + r->sequences > d->client_queue && others > 0) {
        shed(out, "client_share", 429, 5);
    } else {
        if (c == NULL && (c = new_client(d, name)) == NULL) return false;
        r->of = c;
        join(d, key);
        numbered(out, "queued", (int64_t)key);
    }
    return true;
}

static void expire(door *d, int64_t now, tape *out) {
    for (size_t key = d->first, next; key != NOBODY; key = next) {
        const request *r = &d->requests[key];
        const int64_t age = now - r->arrived;
        next = r->after;
        if (age <= d->max_age && (r->patience == 0 || age <= r->patience)) continue;
        drop(d, key);
        tape_word(out, "expired");
        tape_uint(out, key);
        tape_int(out, 503);
        tape_int(out, 30);
        tape_end(out);
    }
}

static bool goes_before(const client *a, const client *b) {
    if (a->served != b->served) return a->served < b->served;
    if (a->last != b->last) return a->last < b->last;
    return a->first < b->first;
}

/* Whether every running request was let go by the present line, and the lane of those that run. */
static bool all_from_this_line(const door *d, lane_kind *mode) {
    bool all = true;
    for (size_t key = 1; key <= d->arrivals; key++) {
        if (d->requests[key].now != RUNNING) continue;
        *mode = d->requests[key].lane;
        all = all && d->requests[key].let_go_by == d->line;
    }
    return all;
}

static void let_go(door *d, tape *out) {
    lane_kind mode = CONTINUOUS;
    const bool fresh = all_from_this_line(d, &mode); /* whom this line lets go is of this line: it stays as it is */
    while (d->waiting_count > 0 && d->running < d->slots) {
        client *c = NULL;
        for (size_t i = 0; i < d->client_count; i++)
            if (d->clients[i]->first != NOBODY && (c == NULL || goes_before(d->clients[i], c))) c = d->clients[i];
        if (c == NULL) return;
        const size_t key = c->first;
        request *r = &d->requests[key];
        if (d->running_count > 0) {
            if (r->lane != mode || mode == SERIAL || (mode == STATIC && !fresh)) return;
        }
        if (d->held + r->credit > d->budget) return;
        unchain(d, key);
        r->now = RUNNING;
        r->left = r->sequences;
        r->let_go_by = d->line;
        mode = r->lane;
        d->running_count++;
        d->running += r->sequences;
        d->held += r->credit;
        c->running += r->sequences;
        c->served += r->charge;
        c->last = ++d->releases;
        numbered(out, "release", (int64_t)key);
    }
}

static request *known(const door *d, int64_t key, condition as) {
    if (key < 1 || (uint64_t)key > d->arrivals || d->requests[key].now != as) return NULL;
    return &d->requests[key];
}

static void error_key(tape *out) {
    tape_word(out, "error");
    tape_word(out, "key");
    tape_end(out);
}

static void leave(door *d, int64_t key, int64_t used, tape *out) {
    request *r = known(d, key, RUNNING);
    if (r == NULL) {
        error_key(out);
        return;
    }
    client *c = r->of;
    r->used += used;
    r->left--;
    d->running--;
    c->running--;
    numbered(out, "left", r->left);
    if (r->left > 0) return;
    r->now = GONE;
    d->running_count--;
    d->held -= r->credit;
    if (r->charge > r->used) c->served -= r->charge - r->used;
    if (c->served < 0) c->served = 0;
    c->requests--;
    forget_if_done(d, c);
}

static void cancel(door *d, int64_t key, tape *out) {
    if (known(d, key, WAITING) == NULL) {
        error_key(out);
        return;
    }
    drop(d, (size_t)key);
    tape_word(out, "cancelled");
    tape_end(out);
}

static void write_clients(const door *d, tape *out) {
    for (size_t i = 0; i < d->client_count; i++) {
        const client *c = d->clients[i];
        tape_word(out, "client");
        tape_bytes(out, c->name.data, c->name.length);
        tape_int(out, c->served);
        tape_int(out, c->waiting);
        tape_int(out, c->running);
        tape_end(out);
    }
}

/* ---- the tape ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Reads the rest of an `arrive` line into the request at `key`. */
static bool read_request(door *d, words *w, size_t key, bytes *name) {
    request *r = &d->requests[key];
    const bytes word = words_next(w);
    r->lane = (lane_kind)words_choice(w, lanes);
    r->sequences = words_int(w, 1, 65536);
    const int64_t prompt = words_int(w, 0, MAX31), tokens = words_int(w, 0, MAX31);
    r->nbytes = words_int(w, 0, INT64_C(1) << 40);
    r->patience = words_int(w, 0, INT64_C(1) << 62);
    r->arrived = words_int(w, 0, INT64_C(1) << 62);
    if (!words_done(w)) return false;
    const int64_t size = least(prompt + tokens, d->capacity);
    r->credit = least(r->sequences, d->slots) * size;
    r->charge = r->sequences * size;
    name->data = d->names + d->names_used;
    if (!word_unescape(word, d->names + d->names_used, &name->length)) return false;
    d->names_used += name->length;
    return true;
}

static int step(door *d, reader *tape_in, tape *out) {
    words w = words_of(tape_in);
    const int verb = words_choice(&w, verbs);
    int64_t a = 0, b = 0;
    bytes name = {0};
    if (w.bad) return ORACLE_BAD_TAPE;
    d->line++;
    switch (verb) {
    case ARRIVE:
        if (!read_request(d, &w, d->arrivals + 1, &name)) return ORACLE_BAD_TAPE;
        break;
    case RELEASE: a = words_int(&w, 0, INT64_C(1) << 62); break;
    case LEAVE:
        a = words_int(&w, INT64_MIN, INT64_MAX);
        b = words_int(&w, 0, MAX31);
        break;
    case CANCEL: a = words_int(&w, INT64_MIN, INT64_MAX); break;
    case CONNECT: a = words_int(&w, 0, MAX31); break;
    default: break;
    }
    if (!words_done(&w)) return ORACLE_BAD_TAPE;
    switch (verb) {
    case ARRIVE:
        if (!arrive(d, ++d->arrivals, name, out)) return ORACLE_NO_MEMORY;
        break;
    case RELEASE:
        expire(d, a, out);
        let_go(d, out);
        break;
    case LEAVE: leave(d, a, b, out); break;
    case CANCEL: cancel(d, a, out); break;
    case CONNECT:
        if (a >= d->max_clients) {
            shed(out, "clients", 503, 10);
        } else {
            tape_word(out, "open");
            tape_end(out);
        }
        return ORACLE_OK;
    case CLIENTS: write_clients(d, out); break;
    default: d->stopped = true; break;
    }
    write_state(d, out);
    return ORACLE_OK;
}

static bool read_door(door *d, reader *tape_in) {
    static const char *const opening[] = {"admission", NULL};
    words w = words_of(tape_in);
    (void)words_choice(&w, opening);
    d->slots = words_int(&w, 1, 1024);
    d->capacity = words_int(&w, 1, MAX31);
    d->budget = words_int(&w, 1, INT64_C(1) << 53);
    d->max_queue = words_int(&w, 0, MAX31);
    d->max_bytes = words_int(&w, 0, INT64_C(1) << 60);
    d->client_queue = words_int(&w, 0, MAX31);
    d->max_age = words_int(&w, 0, INT64_C(1) << 62);
    d->max_clients = words_int(&w, 0, MAX31);
    return words_done(&w);
}

static size_t lines_in(reader tape) {
    size_t n = 0;
    reader line;
    while (reader_line(&tape, &line)) n++;
    return n;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    reader tape_in = reader_over(input, length);
    const size_t lines = lines_in(tape_in);
    door d = {0};
    d.first = d.final = NOBODY;
    if (!read_door(&d, &tape_in)) return ORACLE_BAD_TAPE;
    d.requests = calloc(lines + 1, sizeof *d.requests); /* no more of them than lines, nor clients than requests */
    d.clients = calloc(lines + 1, sizeof *d.clients);
    d.names = malloc(length);
    int rc = d.requests != NULL && d.clients != NULL && d.names != NULL ? ORACLE_OK : ORACLE_NO_MEMORY;
    while (rc == ORACLE_OK && tape_in.at != tape_in.end && !out->failed)
        rc = step(&d, &tape_in, out); /* of a tape that turns out to be bad nothing is kept */
    for (size_t i = 0; i < d.client_count; i++) free(d.clients[i]);
    free(d.requests);
    free(d.clients);
    free(d.names);
    return rc;
}

const oracle_kind oracle_admission = {"admission", NULL, run, NULL};
