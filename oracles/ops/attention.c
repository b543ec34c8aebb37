/* attention.c - attention of grouped heads over a cache. */
#include <math.h>
#include <stdlib.h>

#include "oracles/ops/ops.h"
#include "oracles/quants/blocks.h"

enum { MOST_ROWS = 4096, MOST_BANKS = 1024 };

typedef struct place {
    int64_t bank, position;
} place;

typedef struct shape {
    bytes cache;
    int64_t n_head, n_head_kv, head_dim, window;
    float scale;
    place *places;
    size_t rows;
} shape;

static bool read_place(bytes word, const int64_t *next, size_t rows, place *p) {
    bytes bank;
    return part_of(&word, ':', &bank) && word_int(bank, &p->bank) && word_int(word, &p->position) && p->bank >= 0 &&
           p->bank < MOST_BANKS && p->bank < (int64_t)rows && p->position == next[p->bank];
}

static int read_places(reader line, shape *s) {
    int64_t next[MOST_BANKS] = {0};
    bytes word;
    for (reader count = line; reader_word(&count, &word);)
        if (++s->rows > MOST_ROWS) return ORACLE_BAD_TAPE;
    s->places = malloc((s->rows + 1) * sizeof *s->places);
    if (s->places == NULL) return ORACLE_NO_MEMORY;
    for (size_t r = 0; r < s->rows; r++) {
        if (!reader_word(&line, &word) || !read_place(word, next, s->rows, &s->places[r])) return ORACLE_BAD_TAPE;
        next[s->places[r].bank]++;
    }
    return s->rows > 0 && line.at == line.end ? ORACLE_OK : ORACLE_BAD_TAPE;
}

static int read_shape(reader line, shape *s) {
    if (!take_word(&line, &s->cache) || !take_int(&line, 1, 65536, &s->n_head) ||
        !take_int(&line, 1, s->n_head, &s->n_head_kv) || s->n_head % s->n_head_kv != 0 ||
        !take_int(&line, 1, 65536, &s->head_dim) || s->n_head * s->head_dim > 65536 ||
        !take_float(&line, 0x1p-10, 0x1p10, &s->scale) || !take_int(&line, 0, 1 << 24, &s->window))
        return ORACLE_BAD_TAPE;
    const bool halves = word_is(s->cache, "F16"), blocks = word_is(s->cache, "Q8_0");
    if (!halves && !blocks && !word_is(s->cache, "F32")) return ORACLE_BAD_TAPE;
    if (blocks && s->head_dim % 32 != 0) return ORACLE_BAD_TAPE;
    return read_places(line, s);
}

/* What the cache makes of numbers that are stored in it. False where fp16 holds them no more. */
static bool store(bytes cache, float *x, size_t n) {
    if (word_is(cache, "F16"))
        for (size_t i = 0; i < n; i++) x[i] = f16_value(f16_nearest(x[i]));
    if (word_is(cache, "Q8_0"))
        for (size_t at = 0; at < n; at += 32) {
            int8_t q[32];
            const float d = f16_value(q8_0_write(x + at, q));
            for (size_t i = 0; i < 32; i++) x[at + i] = d * (float)q[i];
        }
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* Head h of row r over the rows that its bank has stored up to it. `scores` has room for all rows. */
static void attend(const shape *s, size_t r, int64_t h, const float *q, const float *k, const float *v, bounded *scores,
                   bounded *y) {
    const int64_t dim = s->head_dim, cols = s->n_head_kv * dim, at = h / (s->n_head / s->n_head_kv) * dim;
    const place here = s->places[r];
    const int64_t from = s->window > 0 && here.position >= s->window ? here.position - s->window + 1 : 0;
    const float *query = q + ((int64_t)r * s->n_head + h) * dim;
    double highest = -INFINITY, error = 0.0, total = 0.0, below = 0.0;
    for (int64_t p = 0; p <= (int64_t)r; p++) {
        if (s->places[p].bank != here.bank || s->places[p].position < from) continue;
        double sum = 0.0, mass = 0.0;
        for (int64_t i = 0; i < dim; i++) {
            const double term = (double)query[i] * (double)k[p * cols + at + i];
            sum += term;
            mass += fabs(term);
        }
        scores[p].value = (double)s->scale * sum;
        highest = fmax(highest, scores[p].value);
        error = fmax(error, (16.0 + (double)dim / 4.0) * OPS_U * (double)s->scale * mass);
    }
    for (int64_t i = 0; i < dim; i++) y[i] = (bounded){0.0, 0.0};
    for (int64_t p = 0; p <= (int64_t)r; p++) {
        if (s->places[p].bank != here.bank || s->places[p].position < from) continue;
        const double w = exp(scores[p].value - highest);
        total += w;
        below += w * (highest - scores[p].value);
        for (int64_t i = 0; i < dim; i++) {
            const double value = (double)v[p * cols + at + i];
            y[i].value += w * value;
            y[i].within += w * fabs(value);
        }
    }
    const double part = 2.0 * error + (32.0 + (double)(here.position - from + 1) / 4.0 + 2.0 * below / total) * OPS_U;
    for (int64_t i = 0; i < dim; i++) y[i] = (bounded){y[i].value / total, part * y[i].within / total};
}

int ops_attention(reader line, bytes raw, tape *out) {
    shape s = {0};
    int status = read_shape(line, &s), other = ORACLE_OK, third = ORACLE_OK;
    if (status != ORACLE_OK) {
        free(s.places);
        return status;
    }
    const size_t width = (size_t)(s.n_head * s.head_dim), cols = (size_t)(s.n_head_kv * s.head_dim);
    float *q = take_numbers(&raw, s.rows * width, &status);
    float *k = take_numbers(&raw, s.rows * cols, &other);
    float *v = take_numbers(&raw, s.rows * cols, &third);
    bounded *scores = malloc(s.rows * sizeof *scores), *y = malloc(width * sizeof *y);
    if (status == ORACLE_OK) status = other != ORACLE_OK ? other : third;
    if (status == ORACLE_OK && raw.length > 0) status = ORACLE_BAD_TAPE;
    if (scores == NULL || y == NULL) status = ORACLE_NO_MEMORY;
    if (status == ORACLE_OK && !(store(s.cache, k, s.rows * cols) && store(s.cache, v, s.rows * cols)))
        status = ORACLE_BAD_TAPE;
    for (size_t r = 0; r < s.rows && status == ORACLE_OK; r++) {
        for (int64_t h = 0; h < s.n_head; h++) attend(&s, r, h, q, k, v, scores, y + h * s.head_dim);
        put_row(out, y, width, false);
    }
    free(q);
    free(k);
    free(v);
    free(scores);
    free(y);
    free(s.places);
    return status;
}
