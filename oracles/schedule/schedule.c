/* schedule.c - what each line of the tape does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/schedule/schedule.h"

/* ---- lines ---- */

static void say(tape *out, const char *what) {
    tape_word(out, what);
    tape_end(out);
}

static void say_two(tape *out, const char *what, const char *which) {
    tape_word(out, what);
    say(out, which);
}

static void say_state(const schedule *s, tape *out) {
    tape_word(out, "state");
    tape_uint(out, s->n_active);
    tape_uint(out, s->n_queue);
    tape_int(out, s->waiting_bytes);
    tape_uint(out, s->n_flying);
    tape_end(out);
}

/* ---- sequences ---- */

static bool is_prefilled(const schedule *s, const sequence *q) {
    return q->bank != NOBODY && s->banks[q->bank].holds.count >= q->prompt.count;
}

static void leave(size_t *list, size_t *count, size_t who) {
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (list[i] != who) list[kept++] = list[i];
    *count = kept;
}

static void finish(schedule *s, size_t who) {
    sequence *q = &s->sequences[who];
    if (q->is == WAITING) {
        leave(s->queue, &s->n_queue, who);
        s->waiting_bytes -= q->nbytes;
    } else {
        leave(s->active, &s->n_active, who);
        s->banks[q->bank].owner = NOBODY;
        s->banks[q->bank].used_at = ++s->uses;
    }
    q->is = FINISHED;
}

static void arrive(schedule *s, const event *e, tape *out) {
    const int64_t joining = (int64_t)(e->end - e->first);
    int64_t joining_bytes = 0;
    for (size_t i = e->first; i < e->end; i++) joining_bytes += s->sequences[i].nbytes;
    if (s->n_queue > 0 && (int64_t)s->n_queue + joining > s->max_queue) {
        say_two(out, "shed", "queue_depth");
    } else if (s->n_queue > 0 && s->waiting_bytes + joining_bytes > s->max_bytes) {
        say_two(out, "shed", "queue_bytes");
    } else {
        for (size_t i = e->first; i < e->end; i++) {
            s->sequences[i].is = WAITING;
            s->sequences[i].arrived = e->a;
            s->queue[s->n_queue++] = i;
        }
        s->waiting_bytes += joining_bytes;
        say(out, "queued");
    }
}

/* ---- plan ---- */

static void expire(schedule *s, int64_t now, tape *out) {
    size_t gone = 0;
    while (gone < s->n_queue && now - s->sequences[s->queue[gone]].arrived > s->max_age) {
        sequence *q = &s->sequences[s->queue[gone]];
        tape_word(out, "expired");
        tape_uint(out, s->queue[gone] + 1);
        tape_end(out);
        q->is = FINISHED;
        s->waiting_bytes -= q->nbytes;
        gone++;
    }
    s->n_queue -= gone;
    if (gone > 0) memmove(s->queue, s->queue + gone, s->n_queue * sizeof *s->queue);
}

/* The bank's tokens become the first `keep` of the source's, or of its own. */
static bool take_over(bank *target, const bank *source, size_t keep) {
    if (source != NULL) {
        target->holds.count = 0;
        for (size_t i = 0; i < keep; i++)
            if (!tokens_push(&target->holds, source->holds.data[i])) return false;
    }
    target->holds.count = keep;
    return true;
}

/* Admits whom it can; *wait: nobody, as a copy is needed from a bank that a step in flight has rows on. */
static int admit(schedule *s, bool *wait, tape *out) {
    size_t kept = 0, i = 0, admitted = 0;
    *wait = false;
    for (; i < s->n_queue; i++) {
        const size_t who = s->queue[i];
        sequence *q = &s->sequences[who];
        const sequence *leader = q->leader != NOBODY ? &s->sequences[q->leader] : NULL;
        placement p;
        if (leader != NULL && leader->is != FINISHED && !is_prefilled(s, leader)) {
            s->queue[kept++] = who;
            continue;
        }
        if (!place(s, q, leader != NULL ? leader->bank : NOBODY, &p)) break;
        if (p.source != NOBODY && s->banks[p.source].open > 0) {
            *wait = admitted == 0;
            break;
        }
        if (!take_over(&s->banks[p.target], p.source != NOBODY ? &s->banks[p.source] : NULL, p.keep)) return ORACLE_NO_MEMORY;
        if (p.source != NOBODY) s->banks[p.target].floor = s->banks[p.source].floor;
        s->banks[p.target].owner = who;
        s->banks[p.target].scope = q->scope;
        s->active[s->n_active++] = who;
        s->waiting_bytes -= q->nbytes;
        q->is = ACTIVE;
        q->bank = p.target;
        admitted++;
        tape_word(out, "admit");
        tape_uint(out, who + 1);
        tape_uint(out, p.target);
        tape_uint(out, p.keep);
        tape_word(out, p.reuse);
        tape_int(out, p.source != NOBODY ? (int64_t)p.source : -1);
        tape_end(out);
    }
    if (i > kept) memmove(s->queue + kept, s->queue + i, (s->n_queue - i) * sizeof *s->queue);
    s->n_queue -= i - kept;
    return ORACLE_OK;
}

/* Puts a token at the end of the sequence's bank, as the step's next row. */
static bool feed(schedule *s, step *t, const sequence *q, int32_t token) {
    bank *b = &s->banks[q->bank];
    /* rows of one bank follow each other, but for a decode row, which is the bank's only one */
    if (t->n_touched == 0 || t->touched[t->n_touched - 1].bank != q->bank) {
        t->touched[t->n_touched++] = (touch){q->bank, b->holds.count};
        b->open++;
    }
    t->rows++;
    return tokens_push(&b->holds, token);
}

static bool feed_and_draw(schedule *s, step *t, size_t who, int32_t token, int64_t from, tape *out) {
    sequence *q = &s->sequences[who];
    tape_word(out, "draw");
    tape_uint(out, who + 1);
    tape_uint(out, q->bank);
    tape_uint(out, s->banks[q->bank].holds.count);
    tape_int(out, token);
    tape_int(out, from);
    tape_int(out, q->top);
    tape_end(out);
    t->draws[t->n_draws++] = (draw){who, t->rows};
    q->last_row = t->rows;
    q->asked++;
    return feed(s, t, q, token);
}

static bool decode_rows(schedule *s, step *t, tape *out) {
    for (size_t i = 0; i < s->n_active; i++) {
        const size_t who = s->active[i];
        const sequence *q = &s->sequences[who];
        if (!is_prefilled(s, q) || q->asked == q->max_tokens) continue;
        const int64_t fed = q->asked - 1; /* not below 0: the row of the prompt's last token drew */
        bool fine = true;
        if (fed < (int64_t)q->drawn.count) fine = feed_and_draw(s, t, who, q->drawn.data[fed], -1, out);
        else if (q->chain) fine = feed_and_draw(s, t, who, UNKNOWN, q->last_row, out);
        if (!fine) return false;
    }
    t->decoding = t->rows;
    return true;
}

static size_t lacking_of(const schedule *s, size_t who) {
    const sequence *q = &s->sequences[who];
    return q->prompt.count - s->banks[q->bank].holds.count;
}

/* The sequences that still read their prompts, the one that lacks least first. Insertion keeps equals in order. */
static size_t readers_of(const schedule *s, size_t *readers) {
    size_t n = 0;
    for (size_t i = 0; i < s->n_active; i++) {
        const size_t who = s->active[i];
        if (is_prefilled(s, &s->sequences[who])) continue;
        size_t at = n++;
        for (; at > 0 && lacking_of(s, readers[at - 1]) > lacking_of(s, who); at--) readers[at] = readers[at - 1];
        readers[at] = who;
    }
    return n;
}

static bool prompt_rows(schedule *s, step *t, size_t *readers, tape *out) {
    const int64_t budget = pace_chunk(&s->pace, t->decoding, s->rows - t->decoding);
    const size_t n_readers = readers_of(s, readers);
    for (size_t i = 0; i < n_readers && t->prompt_rows < budget; i++) {
        const size_t who = readers[i];
        const sequence *q = &s->sequences[who];
        const size_t position = s->banks[q->bank].holds.count, lacking = lacking_of(s, who);
        const int64_t left = budget - t->prompt_rows, among = (int64_t)(n_readers - i), share = left / among + (left % among != 0);
        const size_t n = (int64_t)lacking < share ? lacking : (size_t)share;
        const size_t silent = n == lacking ? n - 1 : n;
        if (silent > 0) {
            tape_word(out, "fill");
            tape_uint(out, q->bank);
            tape_uint(out, position);
        }
        for (size_t k = 0; k < silent; k++) {
            tape_int(out, q->prompt.data[position + k]);
            if (!feed(s, t, q, q->prompt.data[position + k])) return false;
        }
        if (silent > 0) tape_end(out);
        if (n == lacking && !feed_and_draw(s, t, who, q->prompt.data[q->prompt.count - 1], -1, out)) return false;
        t->prompt_rows += (int64_t)n;
    }
    return true;
}

static int plan(schedule *s, int64_t now, tape *out) {
    bool wait = false;
    expire(s, now, out);
    if (s->n_flying == IN_FLIGHT || (s->n_flying == 1 && s->flying[0].prompt_rows > LONG_STEP)) {
        say(out, "none");
        return ORACLE_OK;
    }
    const int rc = admit(s, &wait, out);
    if (rc != ORACLE_OK) return rc;
    if (wait) {
        say(out, "none");
        return ORACLE_OK;
    }
    step t = {0};
    t.draws = malloc((s->n_active + 1) * sizeof *t.draws); /* an active sequence draws once, on one bank */
    t.touched = malloc((s->n_active + 1) * sizeof *t.touched);
    size_t *readers = malloc((s->n_active + 1) * sizeof *readers);
    const bool fine = t.draws != NULL && t.touched != NULL && readers != NULL && decode_rows(s, &t, out) && prompt_rows(s, &t, readers, out);
    free(readers);
    if (!fine || t.rows == 0) {
        free(t.draws);
        free(t.touched);
        if (fine) say(out, "none");
        return fine ? ORACLE_OK : ORACLE_NO_MEMORY;
    }
    s->flying[s->n_flying++] = t;
    tape_word(out, "step");
    tape_int(out, t.rows);
    tape_int(out, t.decoding);
    tape_end(out);
    return ORACLE_OK;
}

/* ---- complete, abandon ---- */

static void land(schedule *s, size_t index) {
    step *t = &s->flying[index];
    for (size_t i = 0; i < t->n_touched; i++) s->banks[t->touched[i].bank].open--;
    free(t->draws);
    free(t->touched);
    for (size_t i = index + 1; i < s->n_flying; i++) s->flying[i - 1] = s->flying[i];
    s->n_flying--;
}

static bool is_stop(const tokens *stops, int32_t token) {
    size_t low = 0, high = stops->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (stops->data[middle] < token) low = middle + 1;
        else high = middle;
    }
    return low < stops->count && stops->data[low] == token;
}

static bool hear(schedule *s, draw d, int32_t token, tape *out) {
    sequence *q = &s->sequences[d.sequence];
    if (q->is == FINISHED) return true;
    if (!tokens_push(&q->drawn, token)) return false;
    const size_t place = q->prompt.count + q->drawn.count - 1;
    tokens *holds = &s->banks[q->bank].holds;
    if (holds->count > place) holds->data[place] = token;
    const char *end = is_stop(&q->stops, token) ? "stop" : (int64_t)q->drawn.count == q->max_tokens ? "length" : NULL;
    if (end != NULL) finish(s, d.sequence);
    tape_word(out, "drew");
    tape_int(out, d.row);
    tape_uint(out, d.sequence + 1);
    tape_int(out, token);
    say(out, end != NULL ? end : "-");
    return true;
}

static int complete(schedule *s, const event *e, tape *out) {
    if (s->n_flying == 0) {
        say_two(out, "error", "no_step");
        return ORACLE_OK;
    }
    const step *t = &s->flying[0];
    if (t->n_draws != e->drawn.count) {
        say_two(out, "error", "token_count");
        return ORACLE_OK;
    }
    draw *draws = malloc((t->n_draws + 1) * sizeof *draws);
    if (draws == NULL) return ORACLE_NO_MEMORY;
    if (t->n_draws > 0) memcpy(draws, t->draws, t->n_draws * sizeof *draws);
    pace_learn(&s->pace, t->decoding, t->prompt_rows, e->a);
    land(s, 0);
    bool fine = true;
    for (size_t i = 0; fine && i < e->drawn.count; i++) fine = hear(s, draws[i], e->drawn.data[i], out);
    free(draws);
    return fine ? ORACLE_OK : ORACLE_NO_MEMORY;
}

static void abandon(schedule *s, tape *out) {
    tape_word(out, "abandoned");
    tape_uint(out, s->n_flying);
    tape_end(out);
    while (s->n_flying > 0) {
        const step *t = &s->flying[s->n_flying - 1];
        for (size_t i = 0; i < t->n_touched; i++) {
            tokens *holds = &s->banks[t->touched[i].bank].holds;
            if (holds->count > t->touched[i].held) holds->count = t->touched[i].held;
        }
        land(s, s->n_flying - 1);
    }
    for (size_t i = 0; i < s->n_active; i++) s->sequences[s->active[i]].asked = (int64_t)s->sequences[s->active[i]].drawn.count;
}

/* ---- the rest ---- */

static void finish_by_key(schedule *s, int64_t key, tape *out) {
    const bool known = key >= 1 && (uint64_t)key <= s->n_sequences;
    const size_t who = known ? (size_t)key - 1 : 0;
    const bool runs = known && (s->sequences[who].is == WAITING || s->sequences[who].is == ACTIVE);
    if (runs) finish(s, who);
    say_two(out, "ended", runs ? "1" : "0");
}

static void forget(schedule *s, int64_t number, int64_t length, tape *out) {
    if (number < 0 || number >= s->n_banks) {
        say_two(out, "error", "bank");
        return;
    }
    bank *b = &s->banks[number];
    if (!is_free(b)) {
        say_two(out, "error", "busy");
    } else if (length < 0) {
        say_two(out, "error", "length");
    } else {
        if ((uint64_t)length < b->holds.count) b->holds.count = (size_t)length;
        say(out, "ok");
    }
}

static void say_banks(const schedule *s, tape *out) {
    for (int64_t i = 0; i < s->n_banks; i++) {
        const bank *b = &s->banks[i];
        tape_word(out, "bank");
        tape_int(out, i);
        tape_uint(out, b->owner != NOBODY ? b->owner + 1 : 0);
        tape_int(out, b->open);
        tape_int(out, b->used_at);
        for (size_t k = 0; k < b->holds.count; k++) tape_int(out, b->holds.data[k]);
        tape_end(out);
    }
}

static void say_double(tape *out, double value) {
    char text[20] = "-";
    if (value != 0) snprintf(text, sizeof text, "%016llX", (unsigned long long)pace_bits(value));
    tape_word(out, text);
}

static int happen(schedule *s, const event *e, tape *out) {
    int rc = ORACLE_OK;
    switch (e->verb) {
    case ARRIVE: arrive(s, e, out); break;
    case PLAN: rc = plan(s, e->a, out); break;
    case COMPLETE: rc = complete(s, e, out); break;
    case FINISH: finish_by_key(s, e->a, out); break;
    case ABANDON: abandon(s, out); break;
    case FORGET: forget(s, e->a, e->b, out); break;
    case FLOOR: s->banks[e->a].floor = (size_t)e->b; return rc; /* silent: no `state` either */
    case GUARD: s->banks[e->a].guard = e->b; return rc; /* silent too */
    case BELONGS: s->banks[e->a].scope = e->b; return rc;
    case BANKS: say_banks(s, out); break;
    case PACE:
        tape_word(out, "pace");
        say_double(out, s->pace.decode);
        say_double(out, s->pace.per_token);
        tape_end(out);
        break;
    }
    say_state(s, out);
    return rc;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    schedule s;
    int rc = schedule_read(&s, input, length);
    if (rc == ORACLE_OK && s.rows < s.n_banks) say_two(out, "error", "rows");
    else
        for (size_t i = 0; rc == ORACLE_OK && i < s.n_events; i++) rc = happen(&s, &s.events[i], out);
    schedule_free(&s);
    return rc;
}

const oracle_kind oracle_schedule = {"schedule", NULL, run, NULL};
