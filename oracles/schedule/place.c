/* place.c - which bank a sequence gets, and which tokens it need not compute again. */
#include "oracles/schedule/schedule.h"

bool is_free(const bank *b) { return b->owner == NOBODY && b->open == 0; }

/* How many of the prompt's tokens the bank has and can go back to; never all, as the last one must be computed to draw. */
static size_t keep_of(const bank *b, const tokens *prompt) {
    const size_t most = b->holds.count < prompt->count - 1 ? b->holds.count : prompt->count - 1;
    size_t n = 0;
    while (n < most && b->holds.data[n] == prompt->data[n]) n++; /* UNKNOWN is no prompt's token */
    return n >= b->floor ? n : 0;
}

/* Whether the bank is guarded for q. One that has gone to another scope since is not. */
static bool is_home(const schedule *s, const sequence *q, size_t b) { return b == q->home && s->banks[b].scope == q->scope; }

/* How dear the bank is to somebody else than q. */
static int64_t guard_of(const schedule *s, const sequence *q, size_t b) {
    return s->banks[b].holds.count > 0 && !is_home(s, q, b) ? s->banks[b].guard : 0;
}

/* Whether free bank x is taken before free bank y when nothing is worth keeping. */
static bool before(const schedule *s, const sequence *q, size_t x, size_t y, size_t kept_source) {
    const bank *a = &s->banks[x], *b = &s->banks[y];
    if (guard_of(s, q, x) != guard_of(s, q, y)) return guard_of(s, q, x) < guard_of(s, q, y);
    if ((x == kept_source) != (y == kept_source)) return y == kept_source;
    if ((a->holds.count > 0) != (b->holds.count > 0)) return b->holds.count > 0;
    if (a->used_at != b->used_at) return a->used_at < b->used_at;
    return x < y;
}

/* Whether some other free bank could take a copy at less cost than bank b's being cut short. */
static bool has_colder(const schedule *s, const sequence *q, size_t b) {
    for (size_t x = 0; x < (size_t)s->n_banks; x++) {
        const bank *other = &s->banks[x];
        if (x == b || !is_free(other)) continue;
        if (other->holds.count == 0) return true;
        if (guard_of(s, q, x) == 0 && other->used_at < s->banks[b].used_at) return true;
    }
    return false;
}

bool place(const schedule *s, const sequence *q, size_t leaders_bank, placement *p) {
    size_t source = NOBODY, source_keep = 0, worthwhile = NOBODY, worthwhile_keep = 0, target = NOBODY, target_keep = 0;
    for (size_t b = 0; b < (size_t)s->n_banks; b++) {
        const size_t keep = s->banks[b].scope == q->scope && (q->reuse || b == leaders_bank) ? keep_of(&s->banks[b], &q->prompt) : 0;
        const bool free = is_free(&s->banks[b]);
        if (source == NOBODY || keep > source_keep || (keep == source_keep && free && !is_free(&s->banks[source]))) {
            source = b;
            source_keep = keep;
        }
        const size_t held = s->banks[b].holds.count;
        if (free && keep > worthwhile_keep && keep >= (guard_of(s, q, b) > 0 ? held : held - keep) &&
            (is_home(s, q, b) || held - keep < FORK_WORTH || !has_colder(s, q, b))) {
            worthwhile = b;
            worthwhile_keep = keep;
        }
    }
    for (size_t b = 0; worthwhile == NOBODY && b < (size_t)s->n_banks; b++)
        if (is_free(&s->banks[b]) && (target == NOBODY || before(s, q, b, target, source_keep > 0 ? source : NOBODY))) target = b;
    if (worthwhile != NOBODY) target = worthwhile;
    if (target == NOBODY) return false;
    if (s->banks[target].scope == q->scope && (q->reuse || target == leaders_bank)) target_keep = keep_of(&s->banks[target], &q->prompt);

    const size_t gain = source_keep - target_keep;
    if (gain >= FORK_WORTH || (gain > 0 && source == leaders_bank)) {
        *p = (placement){target, source, source_keep, "fork"};
    } else {
        const bool all = target_keep == s->banks[target].holds.count;
        *p = (placement){target, NOBODY, target_keep, target_keep == 0 ? "cold" : all ? "exact" : "partial"};
    }
    return true;
}
