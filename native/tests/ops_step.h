/* ops_step.h - for tests of a backend's operations: a backend with step inputs, and steps written in one line. */
#ifndef DS4_TESTS_OPS_STEP_H
#define DS4_TESTS_OPS_STEP_H

#include "native/ops/ds4_ops.h"
#include "native/tests/check.h"

#include <math.h>
#include <string.h>

#define OPS_ROWS 96
#define OPS_OUT 16
#define OPS_VOCAB 512
#define OPS_CTX 1024

typedef struct ops_step {
    ds4_backend *be;
    const ds4_ops *ops;
    ds4_step_inputs in;
    ds4_step_outputs out[2];
    int32_t tokens[2][OPS_OUT], top_ids[2][OPS_OUT * DS4_MAX_TOP], row_out[2][OPS_ROWS];
    float logprobs[2][OPS_OUT], top_logprobs[2][OPS_OUT * DS4_MAX_TOP];
    ds4_weight *weights[32]; /* of ops_weight */
    int n_weights;
} ops_step;

static ds4_error ops_err;

static inline void ops_open(ops_step *s, ds4_backend *be)
{
    REQUIRE(be, "%s", ops_err.message);
    memset(s, 0, sizeof *s);
    s->be = be;
    s->ops = ds4_backend_ops(be);
    s->in.counts = s->ops->buffer_create(be, 4 * sizeof(int32_t));
    s->in.tokens = s->ops->buffer_create(be, OPS_ROWS * sizeof(int32_t));
    s->in.from = s->ops->buffer_create(be, OPS_ROWS * sizeof(int32_t));
    s->in.banks = s->ops->buffer_create(be, OPS_ROWS * sizeof(int32_t));
    s->in.positions = s->ops->buffer_create(be, OPS_ROWS * sizeof(int32_t));
    s->in.out_rows = s->ops->buffer_create(be, OPS_OUT * sizeof(int32_t));
    s->in.samplers = s->ops->buffer_create(be, OPS_OUT * sizeof(ds4_row_sampler));
    s->in.histories = s->ops->buffer_create(be, OPS_ROWS * sizeof(int32_t *));
    for (int i = 0; i < 2; i++)
        s->out[i] = (ds4_step_outputs){s->tokens[i], s->logprobs[i], s->top_ids[i], s->top_logprobs[i], NULL, s->row_out[i]};
}

static inline void ops_open_cpu(ops_step *s, int32_t n_threads, int32_t numeric, const char *kernels)
{
    const ds4_backend_desc desc = {n_threads, numeric, kernels};
    ops_open(s, ds4_cpu_backend_create(&desc, &ops_err));
}

static inline void ops_close(ops_step *s)
{
    for (int i = 0; i < s->n_weights; i++)
        s->ops->weight_free(s->be, s->weights[i]);
    s->ops->backend_free(s->be);
}

/* A weight that ops_close frees. */
static inline ds4_weight *ops_weight(ops_step *s, int32_t type, int64_t rows, int64_t cols, const void *data)
{
    REQUIRE(s->n_weights < (int)(sizeof s->weights / sizeof s->weights[0]));
    ds4_weight *w = s->ops->weight_create(s->be, type, rows, cols, data);
    REQUIRE(w);
    return s->weights[s->n_weights++] = w;
}

static inline ds4_mat ops_mat(ops_step *s, int32_t cols, ds4_rows rows)
{
    /* An odd stride: nothing may take it for the number of columns. */
    ds4_mat m = {NULL, 64, cols, cols + 5, rows};
    m.buffer = s->ops->buffer_create(s->be, 64 + (size_t)OPS_ROWS * (size_t)m.stride * sizeof(float));
    REQUIRE(m.buffer);
    return m;
}

static inline void ops_put(ops_step *s, ds4_mat m, const float *rows, int32_t n)
{
    for (int32_t r = 0; r < n; r++)
        s->ops->buffer_write(s->be, m.buffer, m.offset + (size_t)r * (size_t)m.stride * sizeof(float),
                             rows + (size_t)r * (size_t)m.cols, (size_t)m.cols * sizeof(float));
}

static inline void ops_get(ops_step *s, ds4_mat m, float *rows, int32_t n)
{
    for (int32_t r = 0; r < n; r++)
        s->ops->buffer_read(s->be, m.buffer, m.offset + (size_t)r * (size_t)m.stride * sizeof(float),
                            rows + (size_t)r * (size_t)m.cols, (size_t)m.cols * sizeof(float));
}

static inline ds4_program *ops_begin(ops_step *s) { return s->ops->program_begin(s->be, &s->in, OPS_ROWS, OPS_OUT); }

static inline void ops_end(ops_step *s, ds4_program *p) { REQUIRE(!s->ops->program_end(s->be, p, &ops_err), "%s", ops_err.message); }

/* n rows of (bank, position), no outputs, tokens 0. */
static inline void ops_rows(ops_step *s, int32_t n, const int32_t *banks, const int32_t *positions)
{
    const int32_t counts[4] = {n, 0, 0, 0};
    s->ops->buffer_write(s->be, s->in.counts, 0, counts, sizeof counts);
    s->ops->buffer_write(s->be, s->in.banks, 0, banks, (size_t)n * sizeof(int32_t));
    s->ops->buffer_write(s->be, s->in.positions, 0, positions, (size_t)n * sizeof(int32_t));
}

/* n rows of one bank from a position on. */
static inline void ops_rows_from(ops_step *s, int32_t n, int32_t bank, int32_t position)
{
    int32_t banks[OPS_ROWS] = {0}, positions[OPS_ROWS] = {0};
    for (int32_t r = 0; r < n; r++) {
        banks[r] = bank;
        positions[r] = position + r;
    }
    ops_rows(s, n, banks, positions);
}

static inline int32_t ops_try(ops_step *s, ds4_program *p) { return s->ops->run(s->be, p, &s->out[0], NULL, &ops_err); }

static inline void ops_run(ops_step *s, ds4_program *p)
{
    REQUIRE(!ops_try(s, p), "%s", ops_err.message);
    REQUIRE(!s->ops->wait(s->be, NULL, &ops_err), "%s", ops_err.message);
}

static uint64_t ops_state = 7;

static inline float ops_random(void)
{
    ops_state = ops_state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(ops_state >> 11) * 0x1p-52 - 1.0);
}

static inline void ops_fill(float *x, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * ops_random();
}

#endif
