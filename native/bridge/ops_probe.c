/* ops_probe.c - the bridge's door to one operation of the CPU backend, for tools and tests.
 *
 * The operation is recorded and run through the backend's table, as a forward would: what the door shows is what a session
 * computes. It is made for small inputs and makes a backend at each call. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "native/bridge/status.h"
#include "native/engine/model.h"
#include "native/ops/ds4_ops.h"
#include "native/quant/quant.h"

enum { MOST_ROWS = 1 << 16, MOST_COLS = 1 << 20, MOST_THREADS = 256 };

typedef struct step {
    ds4_backend *be;
    const ds4_ops *ops;
    ds4_step_inputs in;
    ds4_step_outputs out;
    float *rotations; /* inverse frequencies, which the backend borrows */
    ds4_weight *weight;
    int32_t width;    /* most rows of a step */
    ds4_mat a, b, c, y;
    ds4_program *program;
} step;

static const ds4_mat no_mat;

/* ---- what the caller may ask for ---- */

static int32_t bad_shape(ds4_error *err, const char *what, int64_t expected, int64_t found)
{
    return ds4_fail(err, DS4_ERR_ARG, "%s: expected %lld, found %lld", what, (long long)expected, (long long)found);
}

static int32_t need(ds4_error *err, const void *memory, const char *what)
{
    return memory ? DS4_OK : ds4_fail(err, DS4_ERR_ARG, "%s: expected memory, found NULL", what);
}

static int32_t check_weight(const ds4_op_desc *d, int32_t cols, ds4_error *err)
{
    if (!ds4_block_elements(d->weight_type) || d->weight_type == DS4_TYPE_I32)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "weight_type: expected one of ds4_type, found %d", (int)d->weight_type);
    if (!ds4_row_bytes(d->weight_type, cols))
        return ds4_fail(err, DS4_ERR_ARG, "weight: expected rows in blocks of %d elements, found %d",
                        (int)ds4_block_elements(d->weight_type), (int)cols);
    return need(err, d->weight, "weight");
}

static int32_t check_embed(const ds4_op_desc *d, ds4_error *err)
{
    if (d->weight_rows < 1)
        return bad_shape(err, "weight_rows", 1, d->weight_rows);
    if (need(err, d->tokens, "tokens"))
        return DS4_ERR_ARG;
    for (int32_t r = 0; r < d->n_rows; r++)
        if (d->tokens[r] < 0 || d->tokens[r] >= d->weight_rows)
            return ds4_fail(err, DS4_ERR_ARG, "tokens[%d]: expected an id below %d, found %d", (int)r, (int)d->weight_rows,
                            (int)d->tokens[r]);
    return check_weight(d, d->n_out, err);
}

static int32_t check_rope(const ds4_op_desc *d, ds4_error *err)
{
    const ds4_hparams *h = d->hparams;
    if (need(err, h, "hparams") || need(err, d->positions, "positions"))
        return DS4_ERR_ARG;
    if (h->n_head < 1 || h->head_dim < 1 || (int64_t)h->n_head * h->head_dim != d->n_in)
        return bad_shape(err, "n_head * head_dim", d->n_in, (int64_t)h->n_head * h->head_dim);
    if (h->rope_dim < 2 || h->rope_dim % 2 || h->rope_dim > h->head_dim)
        return ds4_fail(err, DS4_ERR_ARG, "rope_dim: expected an even number in 2..%d, found %d", (int)h->head_dim,
                        (int)h->rope_dim);
    if (h->rope_kind != DS4_ROPE_NORM && h->rope_kind != DS4_ROPE_NEOX)
        return ds4_fail(err, DS4_ERR_ARG, "rope_kind: expected 0 or 1, found %d", (int)h->rope_kind);
    for (int32_t r = 0; r < d->n_rows; r++)
        if (d->positions[r] < 0)
            return ds4_fail(err, DS4_ERR_ARG, "positions[%d]: expected 0 or more, found %d", (int)r, (int)d->positions[r]);
    return DS4_OK;
}

/* Rows of a bank must come in order from position 0, as a session's do: each then attends to rows of this call alone. */
static int32_t check_attention(const ds4_op_desc *d, int32_t *n_banks, int32_t *n_ctx, ds4_error *err)
{
    const ds4_hparams *h = d->hparams;
    int32_t *next;
    if (need(err, h, "hparams") || need(err, d->banks, "banks") || need(err, d->positions, "positions") ||
        need(err, d->b, "b") || need(err, d->c, "c"))
        return DS4_ERR_ARG;
    if (h->n_head < 1 || h->n_head_kv < 1 || h->head_dim < 1 || h->n_head % h->n_head_kv || h->sliding_window < 0 ||
        (int64_t)h->n_head * h->head_dim != d->n_in)
        return ds4_fail(err, DS4_ERR_ARG, "hparams: expected heads of %d columns, found %d (%d of them for K and V) of %d",
                        (int)d->n_in, (int)h->n_head, (int)h->n_head_kv, (int)h->head_dim);
    ds4_hparams one = *h;
    one.n_layer = 1;
    if (!ds4_kv_bytes_per_position(&one, d->kv_type))
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "kv_type: expected F32, F16 or Q8_0 in heads of whole blocks, found %d",
                        (int)d->kv_type);
    next = calloc((size_t)d->n_rows, sizeof *next);
    if (!next)
        return ds4_fail(err, DS4_ERR_MEMORY, "%d rows were refused", (int)d->n_rows);
    for (int32_t r = 0; r < d->n_rows; r++) {
        const int32_t bank = d->banks[r];
        if (bank < 0 || bank >= d->n_rows || bank >= 1024 || d->positions[r] != next[bank]) {
            free(next);
            return ds4_fail(err, DS4_ERR_ARG, "row %d: expected the next position of a bank, found %d of bank %d", (int)r,
                            (int)d->positions[r], (int)bank);
        }
        next[bank]++;
        if (bank >= *n_banks)
            *n_banks = bank + 1;
        if (next[bank] > *n_ctx)
            *n_ctx = next[bank];
    }
    free(next);
    return DS4_OK;
}

static int32_t check_sample(const ds4_op_desc *d, const int32_t *ids, ds4_error *err)
{
    if (need(err, d->sampler, "sampler") || need(err, d->positions, "positions") || need(err, d->tokens, "tokens") ||
        need(err, ids, "ids"))
        return DS4_ERR_ARG;
    if (d->n_rows != 1)
        return bad_shape(err, "n_rows", 1, d->n_rows);
    if (d->n_out < 1 || d->n_out > 1 + DS4_MAX_TOP)
        return ds4_fail(err, DS4_ERR_ARG, "n_out: expected 1..%d, found %d", 1 + DS4_MAX_TOP, (int)d->n_out);
    if (d->positions[0] < 0 || d->positions[0] >= INT32_MAX)
        return ds4_fail(err, DS4_ERR_ARG, "positions[0]: expected 0 or more, found %d", (int)d->positions[0]);
    /* A session checks a sampler when it is set, so the operation does not; the sampler's own door does. */
    float *copy = malloc((size_t)d->n_in * sizeof *copy);
    int32_t token;
    if (!copy)
        return ds4_fail(err, DS4_ERR_MEMORY, "%d logits were refused", (int)d->n_in);
    memcpy(copy, d->a, (size_t)d->n_in * sizeof *copy);
    const int32_t status =
        ds4_sample_logits(d->sampler, copy, d->n_in, d->tokens, d->positions[0] + 1, 0, d->mask, 0.0, &token, err);
    free(copy);
    return status;
}

static int32_t check(const ds4_op_desc *d, const float *y, int32_t *ids, int32_t *n_banks, int32_t *n_ctx, ds4_error *err)
{
    const int32_t same = d->op == DS4_OP_RMSNORM || d->op == DS4_OP_ADD || d->op == DS4_OP_SWIGLU || d->op == DS4_OP_ROPE ||
                         d->op == DS4_OP_ATTENTION;
    if (d->n_rows < 1 || d->n_rows > MOST_ROWS || d->step_rows < 0 || d->n_out < 1 || d->n_out > MOST_COLS)
        return ds4_fail(err, DS4_ERR_ARG, "shape: expected n_rows in 1..%d and n_out in 1..%d, found %d and %d", MOST_ROWS,
                        MOST_COLS, (int)d->n_rows, (int)d->n_out);
    if (d->numeric != DS4_NUMERIC_SHIP && d->numeric != DS4_NUMERIC_FLOAT)
        return ds4_fail(err, DS4_ERR_ARG, "numeric: expected 0 or 1, found %d", (int)d->numeric);
    if (d->n_threads < 1 || d->n_threads > MOST_THREADS)
        return ds4_fail(err, DS4_ERR_ARG, "n_threads: expected 1..%d, found %d", MOST_THREADS, (int)d->n_threads);
    if (need(err, y, "y"))
        return DS4_ERR_ARG;
    if (d->op == DS4_OP_EMBED)
        return check_embed(d, err);
    if (d->n_in < 1 || d->n_in > MOST_COLS)
        return ds4_fail(err, DS4_ERR_ARG, "n_in: expected 1..%d, found %d", MOST_COLS, (int)d->n_in);
    if (same && d->n_in != d->n_out)
        return bad_shape(err, "n_out", d->n_in, d->n_out);
    if (need(err, d->a, "a"))
        return DS4_ERR_ARG;
    switch (d->op) {
    case DS4_OP_RMSNORM:
        return need(err, d->hparams, "hparams") ? DS4_ERR_ARG : check_weight(d, d->n_in, err);
    case DS4_OP_MATMUL:
        return check_weight(d, d->n_in, err);
    case DS4_OP_ADD:
    case DS4_OP_SWIGLU:
        return need(err, d->b, "b");
    case DS4_OP_ROPE:
        return check_rope(d, err);
    case DS4_OP_ATTENTION:
        return check_attention(d, n_banks, n_ctx, err);
    case DS4_OP_SAMPLE:
        return check_sample(d, ids, err);
    default:
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "op: expected one of ds4_op, found %d", (int)d->op);
    }
}

/* ---- a backend, its buffers and the recording ---- */

static ds4_mat matrix(step *s, int32_t cols, ds4_rows rows)
{
    const ds4_mat m = {s->ops->buffer_create(s->be, (size_t)s->width * (size_t)cols * sizeof(float)), 0, cols, cols, rows};
    return m;
}

static int32_t open_step(step *s, const ds4_op_desc *d, ds4_error *err)
{
    const ds4_backend_desc desc = {d->n_threads, d->numeric, d->kernels};
    const size_t rows = (size_t)s->width * sizeof(int32_t);
    s->be = ds4_cpu_backend_create(&desc, err);
    if (!s->be)
        return err && err->status ? err->status : DS4_ERR_MEMORY;
    s->ops = ds4_backend_ops(s->be);
    s->in.counts = s->ops->buffer_create(s->be, 4 * sizeof(int32_t));
    s->in.tokens = s->ops->buffer_create(s->be, rows);
    s->in.from = s->ops->buffer_create(s->be, rows);
    s->in.banks = s->ops->buffer_create(s->be, rows);
    s->in.positions = s->ops->buffer_create(s->be, rows);
    s->in.out_rows = s->ops->buffer_create(s->be, rows);
    s->in.samplers = s->ops->buffer_create(s->be, sizeof(ds4_row_sampler));
    s->in.histories = s->ops->buffer_create(s->be, (size_t)s->width * sizeof(int32_t *));
    if (d->op != DS4_OP_EMBED)
        s->a = matrix(s, d->n_in, d->op == DS4_OP_SAMPLE ? DS4_ROWS_OUT : DS4_ROWS_ALL);
    if (d->op != DS4_OP_SAMPLE)
        s->y = matrix(s, d->n_out, DS4_ROWS_ALL);
    if (d->op == DS4_OP_ADD || d->op == DS4_OP_SWIGLU)
        s->b = matrix(s, d->n_in, DS4_ROWS_ALL);
    if (d->op == DS4_OP_ROPE)
        s->b = matrix(s, 1, DS4_ROWS_ALL);
    if (d->op == DS4_OP_ATTENTION) {
        const int32_t cols = d->hparams->n_head_kv * d->hparams->head_dim;
        s->b = matrix(s, cols, DS4_ROWS_ALL);
        s->c = matrix(s, cols, DS4_ROWS_ALL);
    }
    if (!s->in.counts || !s->in.tokens || !s->in.from || !s->in.banks || !s->in.positions || !s->in.out_rows ||
        !s->in.samplers || !s->in.histories || (d->op != DS4_OP_EMBED && !s->a.buffer) ||
        (d->op != DS4_OP_SAMPLE && !s->y.buffer) || (s->b.cols && !s->b.buffer) || (s->c.cols && !s->c.buffer))
        return ds4_fail(err, DS4_ERR_MEMORY, "buffers for steps of %d rows were refused", (int)s->width);
    return DS4_OK;
}

static int32_t record(step *s, const ds4_op_desc *d, int32_t n_banks, int32_t n_ctx, ds4_error *err)
{
    const ds4_ops *ops = s->ops;
    const ds4_hparams *h = d->hparams;
    ds4_rope rope = {0};
    if (d->op == DS4_OP_EMBED)
        s->weight = ops->weight_create(s->be, d->weight_type, d->weight_rows, d->n_out, d->weight);
    else if (d->op == DS4_OP_MATMUL)
        s->weight = ops->weight_create(s->be, d->weight_type, d->n_out, d->n_in, d->weight);
    else if (d->op == DS4_OP_RMSNORM)
        s->weight = ops->weight_create(s->be, d->weight_type, 1, d->n_in, d->weight);
    if (!s->weight && (d->op == DS4_OP_EMBED || d->op == DS4_OP_MATMUL || d->op == DS4_OP_RMSNORM))
        return ds4_fail(err, DS4_ERR_MEMORY, "the weight was refused");
    if (d->op == DS4_OP_ROPE) {
        /* Every program of a session begins with `embed`, and a backend may prepare there what hangs on positions. */
        static const float nothing[1];
        s->weight = ops->weight_create(s->be, DS4_TYPE_F32, 1, 1, nothing);
        s->rotations = malloc((size_t)(h->rope_dim / 2) * sizeof(float));
        if (!s->rotations || !s->weight)
            return ds4_fail(err, DS4_ERR_MEMORY, "%d angles were refused", (int)h->rope_dim / 2);
        rope_table(h, d->divisors, s->rotations);
        rope = (ds4_rope){.kind = h->rope_kind, .dim = h->rope_dim, .inv_freq = s->rotations, .magnitude = h->rope_attn_factor};
    }

    ds4_program *p = s->program = ops->program_begin(s->be, &s->in, s->width, 1);
    if (!p)
        return ds4_fail(err, DS4_ERR_MEMORY, "a program of %d rows was refused", (int)s->width);
    switch (d->op) {
    case DS4_OP_EMBED:
        ops->embed(p, s->y, s->weight);
        break;
    case DS4_OP_RMSNORM:
        ops->rmsnorm(p, s->y, s->a, s->weight, h->rms_eps);
        break;
    case DS4_OP_MATMUL:
        ops->matmul(p, s->y, s->a, s->weight);
        break;
    case DS4_OP_ADD:
        ops->add(p, s->a, s->b);
        break;
    case DS4_OP_SWIGLU:
        ops->swiglu(p, s->y, s->a, s->b);
        break;
    case DS4_OP_ROPE:
        ops->embed(p, s->b, s->weight);
        ops->rope(p, s->a, h->n_head, h->head_dim, &rope);
        break;
    case DS4_OP_ATTENTION: {
        const ds4_cache_desc desc = {.type = d->kv_type, .n_banks = n_banks, .n_ctx = n_ctx, .n_layer = 1,
                                     .n_head_kv = h->n_head_kv, .head_dim = h->head_dim};
        ds4_cache *cache = ops->cache_create(s->be, &desc);
        if (!cache)
            return ds4_fail(err, DS4_ERR_MEMORY, "a cache of %d banks of %d positions was refused", (int)n_banks, (int)n_ctx);
        const float scale = h->attn_scale != 0.0f ? h->attn_scale : (float)(1.0 / sqrt((double)h->head_dim));
        const ds4_attention a = {0, h->n_head, h->n_head_kv, h->head_dim, scale, h->sliding_window};
        ops->kv_store(p, cache, 0, s->b, s->c);
        ops->attention(p, s->y, s->a, cache, &a);
        break;
    }
    default:
        ops->sample(p, s->a);
        break;
    }
    return ops->program_end(s->be, p, err);
}

/* ---- running it, `width` rows at a time ---- */

static void put_rows(step *s, ds4_mat m, const float *from, int32_t first, int32_t n)
{
    if (m.buffer && from)
        s->ops->buffer_write(s->be, m.buffer, 0, from + (size_t)first * (size_t)m.cols,
                             (size_t)n * (size_t)m.cols * sizeof(float));
}

static void put_ids(step *s, ds4_buffer *buffer, const int32_t *from, int32_t first, int32_t n)
{
    if (from)
        s->ops->buffer_write(s->be, buffer, 0, from + first, (size_t)n * sizeof(int32_t));
}

static int32_t run_rows(step *s, const ds4_op_desc *d, float *y, ds4_error *err)
{
    const ds4_mat result = d->op == DS4_OP_ADD || d->op == DS4_OP_ROPE ? s->a : s->y; /* those two work in place */
    for (int32_t first = 0; first < d->n_rows; first += s->width) {
        const int32_t n = d->n_rows - first < s->width ? d->n_rows - first : s->width;
        const int32_t counts[4] = {n, d->op == DS4_OP_SAMPLE ? n : 0, 0, 0};
        s->ops->buffer_write(s->be, s->in.counts, 0, counts, sizeof counts);
        if (d->op == DS4_OP_EMBED)
            put_ids(s, s->in.tokens, d->tokens, first, n);
        put_ids(s, s->in.banks, d->op == DS4_OP_ATTENTION ? d->banks : NULL, first, n);
        put_ids(s, s->in.positions, d->positions, first, n);
        put_rows(s, s->a, d->a, first, n);
        if (d->op != DS4_OP_ROPE)
            put_rows(s, s->b, d->b, first, n);
        put_rows(s, s->c, d->c, first, n);
        int32_t status = s->ops->run(s->be, s->program, &s->out, NULL, err);
        if (!status)
            status = s->ops->wait(s->be, NULL, err);
        if (status)
            return status;
        if (result.buffer)
            s->ops->buffer_read(s->be, result.buffer, 0, y + (size_t)first * (size_t)d->n_out,
                                (size_t)n * (size_t)d->n_out * sizeof(float));
    }
    return DS4_OK;
}

static int32_t run_sample(step *s, const ds4_op_desc *d, float *y, int32_t *ids, ds4_error *err)
{
    const ds4_row_sampler sampler = {*d->sampler, d->mask, d->tokens, d->positions[0] + 1, d->n_out - 1};
    int32_t tops[DS4_MAX_TOP], row_out = -1;
    float logprobs[DS4_MAX_TOP];
    s->out = (ds4_step_outputs){ids, y, tops, logprobs, NULL, &row_out};
    s->ops->buffer_write(s->be, s->in.samplers, 0, &sampler, sizeof sampler);
    const int32_t status = run_rows(s, d, y, err);
    if (status)
        return status;
    for (int32_t i = 1; i < d->n_out; i++) {
        ids[i] = tops[i - 1];
        y[i] = logprobs[i - 1];
    }
    return DS4_OK;
}

int32_t ds4_ops_probe(const ds4_op_desc *desc, float *y, int32_t *ids, ds4_error *err)
{
    int32_t n_banks = 1, n_ctx = 1;
    if (need(err, desc, "desc"))
        return DS4_ERR_ARG;
    int32_t status = check(desc, y, ids, &n_banks, &n_ctx, err);
    if (status)
        return status;
    const int32_t width = desc->step_rows && desc->step_rows < desc->n_rows ? desc->step_rows : desc->n_rows;
    int32_t *row_out = malloc((size_t)width * sizeof *row_out);
    step s = {.width = width, .a = no_mat, .b = no_mat, .c = no_mat, .y = no_mat};
    s.out.row_out = row_out;
    status = row_out ? open_step(&s, desc, err) : ds4_fail(err, DS4_ERR_MEMORY, "%d rows were refused", (int)width);
    if (!status)
        status = record(&s, desc, n_banks, n_ctx, err);
    if (!status)
        status = desc->op == DS4_OP_SAMPLE ? run_sample(&s, desc, y, ids, err) : run_rows(&s, desc, y, err);
    if (s.program)
        s.ops->program_free(s.be, s.program);
    if (s.weight)
        s.ops->weight_free(s.be, s.weight);
    if (s.be)
        s.ops->backend_free(s.be);
    free(s.rotations);
    free(row_out);
    return status;
}
