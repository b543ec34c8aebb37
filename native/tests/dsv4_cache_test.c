/* dsv4_cache_test.c - DeepSeek V4's latent cache: raw rows in a window, compressed rows from rolling state, the indexer's
 * choice, sinks. Attention is compared with a transcription in double precision of what ds4_ops.h says; and what a bank holds
 * must be the same to the bit whatever steps it came in. */
#include "native/tests/ops_step.h"

#include <stdbool.h>
#include <stdlib.h>

enum { DIM = 32, INDEX = 16, TURNS = 8, HEADS = 3, WINDOW = 8, CTX = 320, POSITIONS = 300, LAYERS = 3 };

static const int32_t ratios[LAYERS] = {0, 4, 128};
static const float inv_freq[TURNS / 2] = {1, 0.3f, 0.05f, 0.002f}, eps = 1e-6f, scale = 0.2f;

/* What every position brings, of all layers alike. */
static float kv[POSITIONS * DIM], ckv[POSITIONS * 2 * DIM], gate[POSITIONS * 2 * DIM], q[POSITIONS * HEADS * DIM];
static float ape[128 * 2 * DIM], norm[DIM], sinks[HEADS] = {0.5f, -1, 3}, embedding[DIM];

static void draw(void)
{
    ops_fill(kv, POSITIONS * DIM, 1), ops_fill(ckv, POSITIONS * 2 * DIM, 1), ops_fill(gate, POSITIONS * 2 * DIM, 2);
    ops_fill(q, POSITIONS * HEADS * DIM, 3), ops_fill(ape, 128 * 2 * DIM, 1), ops_fill(norm, DIM, 1);
}

static int wide(int32_t layer) { return ratios[layer] == 4 ? 2 : 1; }

/* ---- the same in double precision ---- */

/* Row w of a layer's compressed rows. */
static void compressed(int32_t layer, int w, double row[DIM])
{
    const int ratio = ratios[layer], c = wide(layer), cols = c * DIM;
    double squares = 0;
    for (int i = 0; i < DIM; i++) {
        double sum = 0, all = 0;
        for (int p = (c == 2 && w > 0 ? w - 1 : w) * ratio; p < (w + 1) * ratio; p++) {
            const int at = c == 2 && p >= w * ratio ? DIM + i : i;
            const double share = exp((double)gate[p * cols + at] + (double)ape[p % ratio * cols + at]);
            sum += share;
            all += share * (double)ckv[p * cols + at];
        }
        row[i] = all / sum;
        squares += row[i] * row[i];
    }
    for (int i = 0; i < DIM; i++)
        row[i] = row[i] / sqrt(squares / DIM + (double)eps) * (double)norm[i];
    for (int i = 0; i < TURNS / 2; i++) {
        const double angle = (double)((float)(w * ratio) * inv_freq[i]), a = row[DIM - TURNS + 2 * i], b = row[DIM - TURNS + 2 * i + 1];
        row[DIM - TURNS + 2 * i] = a * cos(angle) - b * sin(angle);
        row[DIM - TURNS + 2 * i + 1] = b * cos(angle) + a * sin(angle);
    }
}

static void attended(int32_t layer, int position, const float *sink, double out[HEADS * DIM])
{
    static double rows[WINDOW + CTX][DIM];
    int n = 0;
    for (int p = position - WINDOW + 1 > 0 ? position - WINDOW + 1 : 0; p <= position; p++, n++)
        for (int i = 0; i < DIM; i++)
            rows[n][i] = (double)kv[p * DIM + i];
    for (int w = 0; ratios[layer] && w < (position + 1) / ratios[layer]; w++, n++)
        compressed(layer, w, rows[n]);
    for (int h = 0; h < HEADS; h++) {
        double sum = exp((double)sink[h]), *to = out + h * DIM;
        memset(to, 0, DIM * sizeof *to);
        for (int r = 0; r < n; r++) {
            double dot = 0;
            for (int i = 0; i < DIM; i++)
                dot += (double)q[(position * HEADS + h) * DIM + i] * rows[r][i];
            const double share = exp(dot * (double)scale);
            sum += share;
            for (int i = 0; i < DIM; i++)
                to[i] += share * rows[r][i];
        }
        for (int i = 0; i < DIM; i++)
            to[i] /= sum;
    }
}

/* ---- a bank fed by steps ---- */

typedef struct bench {
    ops_step s;
    ds4_cache *cache;
    ds4_mat e, kv, ckv[LAYERS], gate[LAYERS], q, dst[LAYERS];
    ds4_program *p;
    int shift; /* what positions bring is that of so many later */
} bench;

static const ds4_rope rope = {DS4_ROPE_NORM, TURNS, inv_freq, 1, DIM - TURNS, 0};

static ds4_weight *weight(ops_step *s, int64_t rows, int64_t cols, const float *data)
{
    return ops_weight(s, DS4_TYPE_F32, rows, cols, data);
}

static ds4_cache *cache_of(ops_step *s, int32_t layers, const int32_t *layer_ratios)
{
    const ds4_cache_desc desc = {.type = DS4_TYPE_F32, .n_banks = 2, .n_ctx = CTX, .n_layer = layers, .n_head_kv = 1, .head_dim = DIM,
                                 .window = WINDOW, .rewind = 2 * OPS_ROWS, .index_dim = INDEX, .carry = 5, .rope_dim = TURNS,
                                 .ratios = layer_ratios};
    ds4_cache *c = s->ops->cache_create(s->be, &desc);
    REQUIRE(c);
    return c;
}

static void bench_open(bench *b, bool guard, int32_t threads)
{
    const ds4_backend_desc desc = {threads, DS4_NUMERIC_FLOAT, NULL};
    ops_step *s = &b->s;
    b->shift = 0;
    ops_open(s, guard ? ds4_guard_backend_create(&desc, &ops_err) : ds4_cpu_backend_create(&desc, &ops_err));
    b->cache = cache_of(s, LAYERS, ratios);
    b->e = ops_mat(s, DIM, DS4_ROWS_ALL), b->kv = ops_mat(s, DIM, DS4_ROWS_ALL), b->q = ops_mat(s, HEADS * DIM, DS4_ROWS_ALL);
    b->p = ops_begin(s);
    s->ops->embed(b->p, b->e, weight(s, 1, DIM, embedding));
    for (int32_t l = 0; l < LAYERS; l++) {
        b->dst[l] = ops_mat(s, HEADS * DIM, DS4_ROWS_ALL);
        s->ops->latent_store(b->p, b->cache, l, b->kv);
        if (ratios[l]) {
            b->ckv[l] = ops_mat(s, wide(l) * DIM, DS4_ROWS_ALL), b->gate[l] = ops_mat(s, wide(l) * DIM, DS4_ROWS_ALL);
            s->ops->compress(b->p, b->cache, l, DS4_STREAM_LATENT, b->ckv[l], b->gate[l], weight(s, ratios[l], wide(l) * DIM, ape),
                             weight(s, 1, DIM, norm), eps, &rope);
        }
        s->ops->latent_attention(b->p, b->dst[l], b->q, b->cache, l, HEADS, 0, scale, weight(s, 1, HEADS, sinks), (ds4_mat){0});
    }
    ops_end(s, b->p);
}

static void bench_close(bench *b)
{
    b->s.ops->program_free(b->s.be, b->p);
    b->s.ops->cache_free(b->s.be, b->cache);
    ops_close(&b->s);
}

/* Positions [from, to) of a bank in steps of `rows`; results of layer l at out[l]. */
static void feed(bench *b, int32_t bank, int from, int to, int rows, float out[LAYERS][POSITIONS * HEADS * DIM])
{
    for (int at = from; at < to; at += rows) {
        const int n = to - at < rows ? to - at : rows;
        const int in = at + b->shift;
        ops_rows_from(&b->s, n, bank, at);
        ops_put(&b->s, b->kv, kv + in * DIM, n), ops_put(&b->s, b->q, q + in * HEADS * DIM, n);
        for (int32_t l = 0; l < LAYERS; l++)
            if (ratios[l]) {
                ops_put(&b->s, b->ckv[l], ckv + in * wide(l) * DIM, n);
                ops_put(&b->s, b->gate[l], gate + in * wide(l) * DIM, n);
            }
        ops_run(&b->s, b->p);
        for (int32_t l = 0; l < LAYERS; l++)
            ops_get(&b->s, b->dst[l], out[l] + at * HEADS * DIM, n);
    }
}

static float whole[LAYERS][POSITIONS * HEADS * DIM], parts[LAYERS][POSITIONS * HEADS * DIM], other[LAYERS][POSITIONS * HEADS * DIM];

static void attention_sees_its_window_every_closed_compressed_row_and_the_sink(void)
{
    bench b;
    bench_open(&b, false, 2);
    feed(&b, 1, 0, POSITIONS, 50, whole);
    for (int32_t l = 0; l < LAYERS; l++)
        for (int p = 0; p < POSITIONS; p += p < 20 ? 1 : 7) {
            double want[HEADS * DIM];
            attended(l, p, sinks, want);
            for (int i = 0; i < HEADS * DIM; i++)
                CHECK(fabs((double)whole[l][p * HEADS * DIM + i] - want[i]) < 2e-5, "layer %d, position %d, element %d: %g, not %g", l, p,
                      i, (double)whole[l][p * HEADS * DIM + i], want[i]);
        }
    bench_close(&b);
}

static void *saved(bench *b, int32_t bank, size_t *bytes)
{
    *bytes = b->s.ops->cache_state_bytes(b->s.be, b->cache, POSITIONS);
    void *out = calloc(1, *bytes);
    REQUIRE(out);
    b->s.ops->cache_save(b->s.be, b->cache, bank, POSITIONS, out);
    return out;
}

static void rolling_state_is_the_same_to_the_bit_in_any_steps_threads_and_on_the_guard_backend(void)
{
    static const int steps[] = {1, 3, 7, 64, 96};
    bench one;
    size_t bytes, again;
    bench_open(&one, false, 1);
    feed(&one, 0, 0, POSITIONS, 50, whole);
    void *want = saved(&one, 0, &bytes);
    for (int i = 0; i < 5; i++) {
        bench b;
        bench_open(&b, i % 2, 1 + i % 3);
        b.shift = 100; /* another bank's rows, which must not mix in */
        feed(&b, 0, 0, 40, 11, other);
        b.shift = 0;
        feed(&b, 1, 0, 130, steps[i], parts);
        b.shift = 100;
        feed(&b, 0, 40, 200, steps[i], other);
        b.shift = 0;
        feed(&b, 1, 130, POSITIONS, steps[i], parts);
        void *found = saved(&b, 1, &again);
        CHECK(bytes == again && !memcmp(want, found, bytes), "state in steps of %d", steps[i]);
        CHECK(!memcmp(whole, parts, sizeof whole), "attention in steps of %d", steps[i]);
        free(found);
        bench_close(&b);
    }
    free(want);
    bench_close(&one);
}

static void a_bank_goes_back_exactly_and_a_copy_goes_on_like_it(void)
{
    bench b;
    bench_open(&b, false, 2);
    feed(&b, 0, 0, POSITIONS, 50, whole);
    b.s.ops->cache_release(b.s.be, b.cache, 0, 201); /* inside windows of either ratio, within `rewind` */
    b.s.ops->cache_copy(b.s.be, b.cache, 0, 1, 201);
    memcpy(parts, whole, sizeof parts);
    for (int32_t l = 0; l < LAYERS; l++)
        memset(parts[l] + 201 * HEADS * DIM, 0, 99 * HEADS * DIM * sizeof(float));
    feed(&b, 1, 201, POSITIONS, 9, parts);
    CHECK(!memcmp(whole, parts, sizeof whole), "the copy");
    feed(&b, 0, 201, POSITIONS, 96, parts);
    CHECK(!memcmp(whole, parts, sizeof whole), "the bank itself");
    bench_close(&b);
}

/* ---- the indexer ---- */

/* Each window of four has index rows of ones but for their first element, which is 2 in windows 3 and 7. A query that looks
 * at the first element alone sees these two first and all others alike. sign: of the query. */
static void select_rows(float sign, int position, int32_t top, int32_t found[1 + 16])
{
    static const int32_t four[1] = {4};
    static float rows[40 * 2 * INDEX], gates[40 * 2 * INDEX], zeros[4 * 2 * INDEX], ones[INDEX], queries[40 * 2 * INDEX], weights[40 * 2];
    ops_step s;
    ops_open_cpu(&s, 2, DS4_NUMERIC_FLOAT, NULL);
    ds4_cache *c = cache_of(&s, 1, four);
    ds4_mat e = ops_mat(&s, DIM, DS4_ROWS_ALL), k = ops_mat(&s, 2 * INDEX, DS4_ROWS_ALL), g = ops_mat(&s, 2 * INDEX, DS4_ROWS_ALL);
    ds4_mat iq = ops_mat(&s, 2 * INDEX, DS4_ROWS_ALL), iw = ops_mat(&s, 2, DS4_ROWS_ALL), dst = ops_mat(&s, 1 + top, DS4_ROWS_ALL);
    const ds4_rope tail = {DS4_ROPE_NORM, TURNS, inv_freq, 1, INDEX - TURNS, 0};
    for (int i = 0; i < INDEX; i++)
        ones[i] = 1;
    for (int i = 0; i < 40 * 2 * INDEX; i++) {
        const int window = i / (2 * INDEX) / 4, column = i % (2 * INDEX);
        rows[i] = column % INDEX == 0 && (window == 3 || window == 7) ? 2 : 1;
        gates[i] = column < INDEX ? -200 : 0; /* the window before has no say */
        queries[i] = column % INDEX == 0 ? sign : 0;
    }
    for (int i = 0; i < 80; i++)
        weights[i] = i % 2 ? 0.5f : 1;
    ds4_program *p = ops_begin(&s);
    s.ops->embed(p, e, weight(&s, 1, DIM, embedding));
    s.ops->compress(p, c, 0, DS4_STREAM_INDEX, k, g, weight(&s, 4, 2 * INDEX, zeros), weight(&s, 1, INDEX, ones), eps, &tail);
    s.ops->index_select(p, dst, iq, iw, c, 0, top);
    ops_end(&s, p);
    ops_rows_from(&s, 40, 0, 0);
    ops_put(&s, k, rows, 40), ops_put(&s, g, gates, 40), ops_put(&s, iq, queries, 40), ops_put(&s, iw, weights, 40);
    ops_run(&s, p);
    float out[40 * (1 + 16)];
    ops_get(&s, dst, out, 40);
    memcpy(found, out + position * (1 + top), (size_t)(1 + top) * sizeof *found);
    s.ops->program_free(s.be, p);
    s.ops->cache_free(s.be, c);
    ops_close(&s);
}

static void selects(float sign, int position, int32_t top, int32_t count, const int32_t *rows)
{
    int32_t found[1 + 16];
    select_rows(sign, position, top, found);
    CHECK(found[0] == count, "position %d takes %d rows, not %d", position, found[0], count);
    for (int i = 0; i < count && found[0] == count; i++)
        CHECK(found[1 + i] == rows[i], "position %d, place %d: row %d, not %d", position, i, found[1 + i], rows[i]);
}

static void of_rows_that_tie_the_indexer_takes_the_first(void)
{
    selects(1, 39, 5, 5, (const int32_t[]){0, 1, 2, 3, 7});
    selects(1, 39, 2, 2, (const int32_t[]){3, 7});
    selects(1, 39, 1, 1, (const int32_t[]){3});
    selects(1, 27, 4, 4, (const int32_t[]){0, 1, 2, 3});        /* window 7 is not there yet */
    selects(-1, 39, 4, 4, (const int32_t[]){0, 1, 2, 3});       /* below zero all are alike */
}

static void an_indexer_that_may_take_all_takes_all_closed_windows(void)
{
    selects(1, 2, 5, 0, NULL);
    selects(1, 15, 5, 4, (const int32_t[]){0, 1, 2, 3});
    selects(1, 19, 5, 5, (const int32_t[]){0, 1, 2, 3, 4});
    selects(1, 38, 16, 9, (const int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8});
}

/* ---- sinks and carried rows ---- */

static void a_sink_takes_its_share_and_gives_nothing(void)
{
    double with[HEADS * DIM], without[HEADS * DIM];
    const float none[HEADS] = {-INFINITY, -INFINITY, -INFINITY};
    bench b;
    bench_open(&b, false, 1);
    feed(&b, 0, 0, 1, 1, whole);
    attended(0, 0, sinks, with), attended(0, 0, none, without);
    for (int h = 0; h < HEADS; h++) /* a first position without a sink is its own row */
        for (int i = 0; i < DIM; i++) {
            double dot = 0;
            for (int k = 0; k < DIM; k++)
                dot += (double)q[h * DIM + k] * (double)kv[k];
            const double share = 1 / (1 + exp((double)sinks[h] - dot * (double)scale));
            CHECK(fabs(without[h * DIM + i] - (double)kv[i]) < 1e-9 && fabs(with[h * DIM + i] - share * (double)kv[i]) < 1e-9, "the transcription");
            CHECK(fabs((double)whole[0][h * DIM + i] - share * (double)kv[i]) < 1e-5, "head %d, element %d", h, i);
        }
    bench_close(&b);
}

static void a_carried_row_comes_back_at_the_next_position_of_its_bank(void)
{
    enum { CARRY = 5 };
    static const int32_t banks[6] = {0, 1, 0, 1, 1, 0}, positions[6] = {0, 0, 1, 1, 2, 2}, before[6] = {-1, -1, 0, 1, 3, 2};
    float x[6 * CARRY], found[6 * CARRY];
    bench b;
    bench_open(&b, false, 2);
    ds4_mat in = ops_mat(&b.s, CARRY, DS4_ROWS_ALL), out = ops_mat(&b.s, CARRY, DS4_ROWS_ALL);
    ds4_program *p = ops_begin(&b.s);
    b.s.ops->carry_store(p, b.cache, in);
    b.s.ops->carry_load(p, out, b.cache);
    ops_end(&b.s, p);
    ops_fill(x, 6 * CARRY, 1);
    ops_rows(&b.s, 6, banks, positions);
    ops_put(&b.s, in, x, 6);
    ops_run(&b.s, p);
    ops_get(&b.s, out, found, 6);
    for (int r = 0; r < 6; r++)
        CHECK(before[r] < 0 || !memcmp(found + r * CARRY, x + before[r] * CARRY, sizeof x / 6), "row %d", r);
    b.s.ops->program_free(b.s.be, p);
    bench_close(&b);
}

int main(void)
{
    draw();
    RUN(attention_sees_its_window_every_closed_compressed_row_and_the_sink);
    RUN(rolling_state_is_the_same_to_the_bit_in_any_steps_threads_and_on_the_guard_backend);
    RUN(a_bank_goes_back_exactly_and_a_copy_goes_on_like_it);
    RUN(of_rows_that_tie_the_indexer_takes_the_first);
    RUN(an_indexer_that_may_take_all_takes_all_closed_windows);
    RUN(a_sink_takes_its_share_and_gives_nothing);
    RUN(a_carried_row_comes_back_at_the_next_position_of_its_bank);
    CHECK_DONE();
}
