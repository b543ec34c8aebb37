/* attention_test.c - attention and the KV cache against a reference in double, and its bits across everything that must
 * not change them: chunks, batches, threads. */
#include "native/quant/quant.h"
#include "native/tests/ops_step.h"

#include <stdbool.h>

#define LENGTH 333 /* positions of a bank: two whole tiles and a part */
#define MOST_DIM 96

typedef struct shape {
    int32_t n_head, n_head_kv, head_dim, window;
} shape;

typedef struct data {
    shape s;
    float *q, *k, *v; /* [2 banks][LENGTH][heads * dim] */
} data;

static int32_t q_cols(const shape *s) { return s->n_head * s->head_dim; }
static int32_t kv_cols(const shape *s) { return s->n_head_kv * s->head_dim; }

static data make_data(shape s)
{
    data d = {.s = s};
    d.q = malloc(2 * LENGTH * (size_t)q_cols(&s) * sizeof(float));
    d.k = malloc(2 * LENGTH * (size_t)kv_cols(&s) * sizeof(float));
    d.v = malloc(2 * LENGTH * (size_t)kv_cols(&s) * sizeof(float));
    ops_fill(d.q, 2 * (int64_t)LENGTH * q_cols(&s), 3.0f);
    ops_fill(d.k, 2 * (int64_t)LENGTH * kv_cols(&s), 2.0f);
    ops_fill(d.v, 2 * (int64_t)LENGTH * kv_cols(&s), 1.0f);
    return d;
}

static void free_data(data *d)
{
    free(d->q);
    free(d->k);
    free(d->v);
}

/* What the cache makes of a head's row. */
static void rounded(int32_t type, const float *x, int32_t n, float *out)
{
    uint8_t stored[MOST_DIM * 4];
    if (type == DS4_TYPE_F32) {
        memcpy(out, x, (size_t)n * sizeof(float));
        return;
    }
    REQUIRE(!ds4_quantize_row(type, x, n, stored) && !ds4_dequant_row(type, stored, n, out));
}

static void reference(const data *d, int32_t type, int32_t bank, int32_t position, float *out)
{
    const shape *s = &d->s;
    int32_t from = s->window > 0 && position >= s->window ? position - s->window + 1 : 0;
    static double weight[LENGTH];
    float row[MOST_DIM];
    for (int32_t h = 0; h < s->n_head; h++) {
        int32_t kv = h / (s->n_head / s->n_head_kv), dim = s->head_dim;
        const float *q = d->q + ((size_t)bank * LENGTH + (size_t)position) * (size_t)q_cols(s) + (size_t)(h * dim);
        double high = -INFINITY, total = 0.0, acc[MOST_DIM] = {0};
        for (int32_t p = from; p <= position; p++) {
            rounded(type, d->k + ((size_t)bank * LENGTH + (size_t)p) * (size_t)kv_cols(s) + (size_t)(kv * dim), dim, row);
            double sum = 0.0;
            for (int32_t i = 0; i < dim; i++)
                sum += (double)q[i] * (double)row[i];
            weight[p] = sum * 0.125;
            high = fmax(high, weight[p]);
        }
        for (int32_t p = from; p <= position; p++) {
            double w = exp(weight[p] - high);
            total += w;
            rounded(type, d->v + ((size_t)bank * LENGTH + (size_t)p) * (size_t)kv_cols(s) + (size_t)(kv * dim), dim, row);
            for (int32_t i = 0; i < dim; i++)
                acc[i] += w * (double)row[i];
        }
        for (int32_t i = 0; i < dim; i++)
            out[h * dim + i] = (float)(acc[i] / total);
    }
}

/* ---- a backend that stores and attends in layer 1 of 2 ---- */

typedef struct rig {
    ops_step s;
    const data *d;
    ds4_cache *cache;
    ds4_mat q, k, v, dst;
    ds4_program *program;
} rig;

static void open_rig(rig *r, const data *d, int32_t type, int32_t n_threads, const char *kernels)
{
    const shape *s = &d->s;
    ops_open_cpu(&r->s, n_threads, DS4_NUMERIC_FLOAT, kernels);
    r->d = d;
    const ds4_cache_desc desc = {.type = type, .n_banks = 3, .n_ctx = LENGTH + 10, .n_layer = 2,
                                 .n_head_kv = s->n_head_kv, .head_dim = s->head_dim};
    r->cache = r->s.ops->cache_create(r->s.be, &desc);
    REQUIRE(r->cache);
    r->q = ops_mat(&r->s, q_cols(s), DS4_ROWS_ALL);
    r->k = ops_mat(&r->s, kv_cols(s), DS4_ROWS_ALL);
    r->v = ops_mat(&r->s, kv_cols(s), DS4_ROWS_ALL);
    r->dst = ops_mat(&r->s, q_cols(s), DS4_ROWS_ALL);
    const ds4_attention a = {1, s->n_head, s->n_head_kv, s->head_dim, 0.125f, s->window};
    r->program = ops_begin(&r->s);
    r->s.ops->kv_store(r->program, r->cache, 1, r->k, r->v);
    r->s.ops->attention(r->program, r->dst, r->q, r->cache, &a);
    ops_end(&r->s, r->program);
}

static void close_rig(rig *r)
{
    r->s.ops->program_free(r->s.be, r->program);
    ops_close(&r->s);
}

/* Runs n rows; out gets each row's result at [bank][position]. */
static void attend(rig *r, int32_t n, const int32_t *banks, const int32_t *positions, float *out)
{
    const shape *s = &r->d->s;
    for (int32_t i = 0; i < n; i++) {
        size_t at = (size_t)(banks[i] % 2) * LENGTH + (size_t)positions[i]; /* bank 2 holds what bank 0 does */
        ds4_mat q = r->q, k = r->k, v = r->v;
        q.offset += (size_t)i * (size_t)q.stride * sizeof(float);
        k.offset += (size_t)i * (size_t)k.stride * sizeof(float);
        v.offset += (size_t)i * (size_t)v.stride * sizeof(float);
        ops_put(&r->s, q, r->d->q + at * (size_t)q_cols(s), 1);
        ops_put(&r->s, k, r->d->k + at * (size_t)kv_cols(s), 1);
        ops_put(&r->s, v, r->d->v + at * (size_t)kv_cols(s), 1);
    }
    ops_rows(&r->s, n, banks, positions);
    ops_run(&r->s, r->program);
    for (int32_t i = 0; i < n; i++) {
        ds4_mat dst = r->dst;
        dst.offset += (size_t)i * (size_t)dst.stride * sizeof(float);
        ops_get(&r->s, dst, out + ((size_t)(banks[i] % 2) * LENGTH + (size_t)positions[i]) * (size_t)q_cols(s), 1);
    }
}

/* A bank's positions [from, to) in chunks. */
static void attend_chunks(rig *r, int32_t bank, int32_t from, int32_t to, int32_t chunk, float *out)
{
    int32_t banks[OPS_ROWS], positions[OPS_ROWS];
    for (int32_t p = from; p < to; p += chunk) {
        int32_t n = to - p < chunk ? to - p : chunk;
        for (int32_t i = 0; i < n; i++) {
            banks[i] = bank;
            positions[i] = p + i;
        }
        attend(r, n, banks, positions, out);
    }
}

static float *results(const shape *s) { return calloc(2 * LENGTH * (size_t)q_cols(s), sizeof(float)); }

static double worst(const float *a, const float *b, int64_t n)
{
    double most = 0.0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static const shape shapes[] = {
    {9, 3, 64, 0}, {4, 4, 64, 0}, {8, 1, 32, 0}, {4, 2, 96, 100}, {6, 3, 64, 1}, {2, 1, 64, 200},
};
#define SHAPES (int)(sizeof shapes / sizeof *shapes)
static const int32_t types[] = {DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_Q8_0};
static const char *const kernel_names[] = {"portable", "avx2", "avx512", "neon"};

static bool can_run(const char *kernels)
{
    const ds4_backend_desc desc = {1, DS4_NUMERIC_FLOAT, kernels};
    ds4_backend *be = ds4_cpu_backend_create(&desc, NULL);
    if (be)
        ds4_backend_ops(be)->backend_free(be);
    return be != NULL;
}

static void every_cache_type_shape_and_kernel_set_matches_a_reference_in_double(void)
{
    for (int i = 0; i < SHAPES; i++) {
        data d = make_data(shapes[i]);
        int64_t cols = q_cols(&d.s);
        float *found = results(&d.s), *expected = results(&d.s);
        for (int t = 0; t < 3; t++) {
            for (int32_t p = 0; p < LENGTH; p += 7)
                reference(&d, types[t], 0, p, expected + p * cols);
            for (int k = 0; k < 4; k++) {
                if (!can_run(kernel_names[k]))
                    continue;
                rig r;
                open_rig(&r, &d, types[t], 2, kernel_names[k]);
                attend_chunks(&r, 0, 0, LENGTH, 50, found);
                for (int32_t p = 0; p < LENGTH; p += 7) {
                    double off = worst(found + p * cols, expected + p * cols, cols);
                    CHECK(off < 3e-6, "shape %d type %d %s position %d: off by %g", i, (int)types[t], kernel_names[k], (int)p, off);
                }
                close_rig(&r);
            }
        }
        free(found);
        free(expected);
        free_data(&d);
    }
}

static void head_sizes_that_fill_no_vector_work(void)
{
    const shape odd[] = {{2, 1, 6, 0}, {3, 3, 40, 0}, {4, 2, 90, 33}};
    for (int i = 0; i < 3; i++) {
        data d = make_data(odd[i]);
        float *found = results(&d.s), *expected = results(&d.s);
        rig r;
        open_rig(&r, &d, DS4_TYPE_F16, 2, NULL);
        attend_chunks(&r, 0, 0, 200, 20, found);
        for (int32_t p = 0; p < 200; p += 3) {
            reference(&d, DS4_TYPE_F16, 0, p, expected + p * q_cols(&d.s));
            double off = worst(found + p * q_cols(&d.s), expected + p * q_cols(&d.s), q_cols(&d.s));
            CHECK(off < 3e-6, "head_dim %d position %d: off by %g", (int)odd[i].head_dim, (int)p, off);
        }
        close_rig(&r);
        free(found);
        free(expected);
        free_data(&d);
    }
}

static void chunks_batches_and_threads_change_no_bit(void)
{
    for (int i = 0; i < SHAPES; i++)
        for (int t = 0; t < 3; t++) {
            data d = make_data(shapes[i]);
            size_t bytes = 2 * LENGTH * (size_t)q_cols(&d.s) * sizeof(float);
            float *base = results(&d.s), *found = results(&d.s);
            rig r;
            open_rig(&r, &d, types[t], 1, NULL);
            attend_chunks(&r, 0, 0, LENGTH, OPS_ROWS, base);
            attend_chunks(&r, 1, 0, LENGTH, OPS_ROWS, base);
            close_rig(&r);
            for (int32_t threads = 1; threads <= 5; threads += 2) {
                open_rig(&r, &d, types[t], threads, NULL);
                memset(found, 0, bytes);
                attend_chunks(&r, 0, 0, 37, 37, found);
                attend_chunks(&r, 0, 37, 150, 13, found);
                attend_chunks(&r, 0, 150, LENGTH, 1, found); /* token by token */
                attend_chunks(&r, 1, 0, 140, 64, found);
                for (int32_t p = 140; p < LENGTH; p += 2) { /* banks at different depths in one step */
                    const int32_t banks[] = {2, 2, 1, 1}, positions[] = {p - 140, p - 139, p, p + 1};
                    attend(&r, p + 1 < LENGTH ? 4 : 3, banks, positions, found);
                }
                close_rig(&r);
                CHECK(!memcmp(found, base, bytes), "shape %d type %d, %d threads", i, (int)types[t], (int)threads);
            }
            free(base);
            free(found);
            free_data(&d);
        }
}

/* ---- upkeep ---- */

static void a_copy_a_saved_state_and_a_rewind_attend_alike(void)
{
    for (int t = 0; t < 3; t++) {
        data d = make_data(shapes[0]);
        int64_t cols = q_cols(&d.s);
        float *base = results(&d.s), *found = results(&d.s);
        rig r, other;
        open_rig(&r, &d, types[t], 2, NULL);
        attend_chunks(&r, 0, 0, LENGTH, 60, base);
        const ds4_ops *ops = r.s.ops;

        ops->cache_copy(r.s.be, r.cache, 0, 2, 250);
        attend_chunks(&r, 2, 250, LENGTH, 9, found); /* bank 2 reads bank 0's data */
        CHECK(!memcmp(found + 250 * cols, base + 250 * cols, (size_t)((LENGTH - 250) * cols) * sizeof(float)), "copy, type %d",
              (int)types[t]);

        size_t bytes = ops->cache_state_bytes(r.s.be, r.cache, 200);
        CHECK(bytes == 2 * 3 * 2 * 200 * ds4_row_bytes(types[t], 64), "%zu bytes", bytes);
        uint8_t *state = malloc(bytes), *again = malloc(bytes);
        ops->cache_save(r.s.be, r.cache, 0, 200, state);
        open_rig(&other, &d, types[t], 2, NULL);
        ops->cache_load(other.s.be, other.cache, 2, 200, state);
        memset(found, 0, 2 * LENGTH * (size_t)cols * sizeof(float));
        attend_chunks(&other, 2, 200, LENGTH, 9, found);
        CHECK(!memcmp(found + 200 * cols, base + 200 * cols, (size_t)((LENGTH - 200) * cols) * sizeof(float)), "state, type %d",
              (int)types[t]);
        ops->cache_save(other.s.be, other.cache, 2, 200, again);
        CHECK(!memcmp(state, again, bytes), "a state saved again");
        float row[64];
        rounded(types[t], d.k, 64, row);
        uint8_t first[64 * 4];
        if (types[t] == DS4_TYPE_F32)
            memcpy(first, row, sizeof row);
        else
            ds4_quantize_row(types[t], d.k, 64, first);
        CHECK(!memcmp(state + bytes / 2, first, (size_t)ds4_row_bytes(types[t], 64)), "layer 1, head 0, position 0 of the state");

        ops->cache_release(r.s.be, r.cache, 0, 100); /* whole tiles past 100 are gone, 0..99 must not be */
        memset(found, 0, 2 * LENGTH * (size_t)cols * sizeof(float));
        attend_chunks(&r, 0, 100, LENGTH, 31, found);
        CHECK(!memcmp(found + 100 * cols, base + 100 * cols, (size_t)((LENGTH - 100) * cols) * sizeof(float)), "rewind, type %d",
              (int)types[t]);
        close_rig(&other);
        close_rig(&r);
        free(state);
        free(again);
        free(base);
        free(found);
        free_data(&d);
    }
}

static void a_context_that_no_machine_holds_is_reserved_or_refused_cleanly(void)
{
    ops_step s;
    ops_open_cpu(&s, 1, DS4_NUMERIC_FLOAT, NULL);
    const ds4_cache_desc large = {.type = DS4_TYPE_F16, .n_banks = 8, .n_ctx = 131072, .n_layer = 30,
                                  .n_head_kv = 3, .head_dim = 64};
    s.ops->cache_free(s.be, s.ops->cache_create(s.be, &large)); /* NULL where the system does not overcommit */
    const ds4_cache_desc absurd = {.type = DS4_TYPE_F32, .n_banks = 1024, .n_ctx = INT32_MAX, .n_layer = INT32_MAX,
                                   .n_head_kv = 4096, .head_dim = 4096};
    CHECK(!s.ops->cache_create(s.be, &absurd));
    const ds4_cache_desc odd = {.type = DS4_TYPE_Q8_0, .n_banks = 1, .n_ctx = 10, .n_layer = 1,
                                .n_head_kv = 1, .head_dim = 40};
    CHECK(!s.ops->cache_create(s.be, &odd), "Q8_0 needs whole blocks of 32");
    ops_close(&s);
}

int main(void)
{
    RUN(every_cache_type_shape_and_kernel_set_matches_a_reference_in_double);
    RUN(head_sizes_that_fill_no_vector_work);
    RUN(chunks_batches_and_threads_change_no_bit);
    RUN(a_copy_a_saved_state_and_a_rewind_attend_alike);
    RUN(a_context_that_no_machine_holds_is_reserved_or_refused_cleanly);
    CHECK_DONE();
}
