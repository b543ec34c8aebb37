/* schedule.h - the tape as read, the scheduler's state, and its parts. */
#ifndef DS4_ORACLE_SCHEDULE_H
#define DS4_ORACLE_SCHEDULE_H

#include "oracles/common/oracle.h"

enum { IN_FLIGHT = 2, LONG_STEP = 64, FORK_WORTH = 64, FIRST_CHUNK = 32, SMALLEST_CHUNK = 8, UNKNOWN = -1 };

/* Tokens, UNKNOWN among them where it may be. */
typedef struct tokens {
    int32_t *data;
    size_t count, room;
} tokens;

bool tokens_push(tokens *t, int32_t token); /* false: no memory */

/* ---- pace (pace.c) ---- */

typedef struct pace {
    double decode, per_token; /* 0: unknown; known ones are positive */
} pace;

void pace_learn(pace *p, int64_t decoding, int64_t prompt_rows, int64_t elapsed);
int64_t pace_chunk(const pace *p, int64_t decoding, int64_t width);
double pace_of_bits(uint64_t bits);
uint64_t pace_bits(double value);

/* ---- sequences, banks, steps ---- */

#define NOBODY SIZE_MAX /* no sequence, no bank */

typedef enum { ABSENT, WAITING, ACTIVE, FINISHED } standing; /* ABSENT: not arrived, or shed */

typedef struct sequence {
    /* what its line says; sequences are numbered from 0, their keys from 1 */
    int64_t max_tokens, top, nbytes, scope;
    bool reuse, chain;
    size_t leader; /* or NOBODY */
    size_t home;   /* the bank that is guarded for it, or NOBODY */
    tokens stops;  /* ascending */
    tokens prompt;
    /* what became of it */
    standing is;
    int64_t arrived, asked, last_row;
    size_t bank; /* or NOBODY; it stays after the finish */
    tokens drawn;
} sequence;

typedef struct bank {
    tokens holds;
    size_t owner; /* a sequence, or NOBODY */
    int64_t open, used_at;
    size_t floor; /* the least length above 0 that it can go back to */
    int64_t guard;
    int64_t scope;
} bank;

typedef struct draw {
    size_t sequence;
    int64_t row;
} draw;

typedef struct touch {
    size_t bank, held; /* as many tokens as it had before the step's first row on it */
} touch;

typedef struct step {
    int64_t decoding, prompt_rows, rows;
    draw *draws;
    size_t n_draws;
    touch *touched;
    size_t n_touched;
} step;

/* ---- the tape (read.c) ---- */

typedef enum { ARRIVE, PLAN, COMPLETE, FINISH, ABANDON, FORGET, FLOOR, GUARD, BELONGS, BANKS, PACE } verb;

typedef struct event {
    verb verb;
    /* arrive, plan: now; complete: elapsed; finish: key; forget, floor: bank, length; guard: bank, rank; belongs: bank, scope */
    int64_t a, b;
    size_t first, end;     /* arrive: the sequences that do */
    tokens drawn;          /* complete */
} event;

typedef struct schedule {
    int64_t n_banks, rows, max_queue, max_bytes, max_age;
    bank *banks;
    pace pace;
    int64_t scope; /* of the sequences that are read next */
    sequence *sequences;
    size_t n_sequences, sequence_room;
    event *events;
    size_t n_events, event_room;
    /* running */
    int64_t uses, waiting_bytes;
    size_t *queue, n_queue; /* sequences in order of arrival */
    size_t *active, n_active;
    step flying[IN_FLIGHT]; /* oldest first */
    size_t n_flying;
} schedule;

int schedule_read(schedule *s, const uint8_t *input, size_t length); /* s is to be freed whatever comes */
void schedule_free(schedule *s);

/* ---- where a sequence goes (place.c) ---- */

typedef struct placement {
    size_t target, source; /* source: NOBODY when the target's own tokens are kept */
    size_t keep;
    const char *reuse;
} placement;

bool is_free(const bank *b);

/* False: no bank is free. */
bool place(const schedule *s, const sequence *q, size_t leaders_bank, placement *p);

#endif
