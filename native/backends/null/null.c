/* null.c - a backend that computes nothing: `sample` yields a fixed cycle of tokens. What is left is the host's own time.
 *
 * The token of a row at position p is 100 + p % 1000 where the vocabulary has it, else p % n_vocab: never one of the low ids
 * that vocabularies keep for ends of texts and turns, unless there is nothing but low ids. */
#include "native/backends/null/null.h"
#include "native/bridge/status.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ds4_backend {
    const ds4_ops *ops;
    uint32_t submitted, waited;
    int32_t last_rows; /* of the run before */
};

struct ds4_buffer {
    uint8_t *data;
};

struct ds4_weight {
    int32_t type;
};

struct ds4_cache {
    ds4_cache_desc d;
};

struct ds4_program {
    ds4_step_inputs in;
    int32_t max_rows, max_out;
    int32_t n_vocab; /* of `sample`; 0: none recorded */
};

static void backend_free(ds4_backend *be) { free(be); }

static ds4_buffer *buffer_create(ds4_backend *be, size_t bytes)
{
    (void)be;
    ds4_buffer *b = calloc(1, sizeof *b);
    if (b && !(b->data = calloc(1, bytes ? bytes : 1))) {
        free(b);
        return NULL;
    }
    return b;
}

static void buffer_free(ds4_backend *be, ds4_buffer *buffer)
{
    (void)be;
    if (buffer)
        free(buffer->data);
    free(buffer);
}

static void buffer_write(ds4_backend *be, ds4_buffer *buffer, size_t offset, const void *data, size_t bytes)
{
    (void)be;
    if (bytes)
        memcpy(buffer->data + offset, data, bytes);
}

static void buffer_read(ds4_backend *be, ds4_buffer *buffer, size_t offset, void *data, size_t bytes)
{
    (void)be;
    if (bytes)
        memcpy(data, buffer->data + offset, bytes);
}

static ds4_weight *weight_create(ds4_backend *be, int32_t type, int64_t rows, int64_t cols, const void *data)
{
    (void)be;
    (void)rows;
    (void)cols;
    (void)data;
    ds4_weight *w = calloc(1, sizeof *w);
    if (w)
        w->type = type;
    return w;
}

static void weight_free(ds4_backend *be, ds4_weight *weight)
{
    (void)be;
    free(weight);
}

static ds4_cache *cache_create(ds4_backend *be, const ds4_cache_desc *desc)
{
    (void)be;
    ds4_cache *c = calloc(1, sizeof *c);
    if (c)
        c->d = *desc;
    return c;
}

static void cache_free(ds4_backend *be, ds4_cache *cache)
{
    (void)be;
    free(cache);
}

static void cache_release(ds4_backend *be, ds4_cache *cache, int32_t bank, int32_t from_position)
{
    (void)be;
    (void)cache;
    (void)bank;
    (void)from_position;
}

static void cache_copy(ds4_backend *be, ds4_cache *cache, int32_t from_bank, int32_t to_bank, int32_t length)
{
    (void)be;
    (void)cache;
    (void)from_bank;
    (void)to_bank;
    (void)length;
}

/* The state has no bytes: there is nothing to keep but the tokens, which are the engine's. */
static size_t cache_state_bytes(ds4_backend *be, const ds4_cache *cache, int32_t length)
{
    (void)be;
    (void)cache;
    (void)length;
    return 0;
}

static void cache_save(ds4_backend *be, const ds4_cache *cache, int32_t bank, int32_t length, void *out)
{
    (void)be;
    (void)cache;
    (void)bank;
    (void)length;
    (void)out;
}

static void cache_load(ds4_backend *be, ds4_cache *cache, int32_t bank, int32_t length, const void *in)
{
    (void)be;
    (void)cache;
    (void)bank;
    (void)length;
    (void)in;
}

static ds4_program *program_begin(ds4_backend *be, const ds4_step_inputs *in, int32_t max_rows, int32_t max_out)
{
    (void)be;
    ds4_program *p = calloc(1, sizeof *p);
    if (p)
        *p = (ds4_program){.in = *in, .max_rows = max_rows, .max_out = max_out};
    return p;
}

static int32_t program_end(ds4_backend *be, ds4_program *program, ds4_error *err)
{
    (void)be;
    (void)program;
    return ds4_ok(err);
}

static void program_free(ds4_backend *be, ds4_program *program)
{
    (void)be;
    free(program);
}

static void layer_end(ds4_program *p) { (void)p; }

static void embed(ds4_program *p, ds4_mat dst, const ds4_weight *w)
{
    (void)p;
    (void)dst;
    (void)w;
}

static void rmsnorm(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w, float eps)
{
    (void)p;
    (void)dst;
    (void)x;
    (void)w;
    (void)eps;
}

static void matmul(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w)
{
    (void)p;
    (void)dst;
    (void)x;
    (void)w;
}

static void add(ds4_program *p, ds4_mat dst, ds4_mat x)
{
    (void)p;
    (void)dst;
    (void)x;
}

static void swiglu(ds4_program *p, ds4_mat dst, ds4_mat gate, ds4_mat up)
{
    (void)p;
    (void)dst;
    (void)gate;
    (void)up;
}

static void rope(ds4_program *p, ds4_mat x, int32_t n_head, int32_t head_dim, const ds4_rope *r)
{
    (void)p;
    (void)x;
    (void)n_head;
    (void)head_dim;
    (void)r;
}

static void kv_store(ds4_program *p, ds4_cache *cache, int32_t layer, ds4_mat k, ds4_mat v)
{
    (void)p;
    (void)cache;
    (void)layer;
    (void)k;
    (void)v;
}

static void attention(ds4_program *p, ds4_mat dst, ds4_mat q, ds4_cache *cache, const ds4_attention *a)
{
    (void)p;
    (void)dst;
    (void)q;
    (void)cache;
    (void)a;
}

static void gather(ds4_program *p, ds4_mat dst, ds4_mat x)
{
    (void)p;
    (void)dst;
    (void)x;
}

static void sample(ds4_program *p, ds4_mat logits) { p->n_vocab = logits.cols; }

static int32_t token_at(const ds4_program *p, int32_t position)
{
    int32_t token = 100 + position % 1000;
    return token < p->n_vocab ? token : position % p->n_vocab;
}

static int32_t run(ds4_backend *be, ds4_program *p, const ds4_step_outputs *out, const ds4_step_outputs *previous,
                   ds4_error *err)
{
    const int32_t *counts = (const int32_t *)(const void *)p->in.counts->data;
    const int32_t *tokens = (const int32_t *)(const void *)p->in.tokens->data;
    const int32_t *from = (const int32_t *)(const void *)p->in.from->data;
    const int32_t *positions = (const int32_t *)(const void *)p->in.positions->data;
    const int32_t *out_rows = (const int32_t *)(const void *)p->in.out_rows->data;
    const ds4_row_sampler *samplers = (const ds4_row_sampler *)(const void *)p->in.samplers->data;
    int32_t *const *histories = (int32_t *const *)(const void *)p->in.histories->data;
    int32_t n = counts[0], n_out = counts[1];
    if (be->submitted - be->waited >= DS4_STEPS_IN_FLIGHT)
        return ds4_fail(err, DS4_ERR_BUSY, "%d runs are in flight already", DS4_STEPS_IN_FLIGHT);
    if (n < 1 || n > p->max_rows || n_out < 0 || n_out > p->max_out || n_out > n)
        return ds4_fail(err, DS4_ERR_ARG, "%d rows with %d outputs, expected 1 to %d with at most %d", (int)n, (int)n_out,
                        (int)p->max_rows, (int)p->max_out);
    for (int32_t r = 0; r < n; r++) {
        int32_t token = tokens[r];
        if (token < 0) {
            if (!previous || from[r] < 0 || from[r] >= be->last_rows || previous->row_out[from[r]] < 0)
                return ds4_fail(err, DS4_ERR_ARG,
                                "row %d: its token comes from row %d, which had no output in the step before", (int)r,
                                (int)from[r]);
            token = previous->tokens[previous->row_out[from[r]]];
        }
        if (histories[r])
            histories[r][positions[r]] = token;
    }
    for (int32_t r = 0; r < n; r++)
        out->row_out[r] = -1;
    for (int32_t o = 0; o < n_out && p->n_vocab > 0; o++) {
        int32_t row = out_rows[o];
        if (row < 0 || row >= n)
            return ds4_fail(err, DS4_ERR_ARG, "output %d: row %d is not a row of the step", (int)o, (int)row);
        out->row_out[row] = o;
        out->tokens[o] = token_at(p, positions[row]);
        out->logprobs[o] = 0.0f;
        for (int32_t i = 0; i < samplers[o].n_top; i++) {
            out->top_ids[(size_t)o * DS4_MAX_TOP + (size_t)i] = (out->tokens[o] + i) % p->n_vocab;
            out->top_logprobs[(size_t)o * DS4_MAX_TOP + (size_t)i] = 0.0f;
        }
        if (out->logits)
            memset(out->logits + (size_t)o * (size_t)p->n_vocab, 0, (size_t)p->n_vocab * sizeof(float));
    }
    be->last_rows = n;
    be->submitted++;
    return ds4_ok(err);
}

static int32_t wait_run(ds4_backend *be, int64_t *elapsed_ns, ds4_error *err)
{
    if (be->submitted == be->waited)
        return ds4_fail(err, DS4_ERR_ARG, "no run is in flight");
    be->waited++;
    if (elapsed_ns)
        *elapsed_ns = 0;
    return ds4_ok(err);
}

/* A run is over before `run` returns. */
static void run_cancel(ds4_backend *be) { (void)be; }

static ds4_ops null_ops = {
    .name = "null",
    .backend_free = backend_free,
    .buffer_create = buffer_create,
    .buffer_free = buffer_free,
    .buffer_write = buffer_write,
    .buffer_read = buffer_read,
    .weight_create = weight_create,
    .weight_free = weight_free,
    .cache_create = cache_create,
    .cache_free = cache_free,
    .cache_release = cache_release,
    .cache_copy = cache_copy,
    .cache_state_bytes = cache_state_bytes,
    .cache_save = cache_save,
    .cache_load = cache_load,
    .program_begin = program_begin,
    .program_end = program_end,
    .program_free = program_free,
    .layer_end = layer_end,
    .embed = embed,
    .rmsnorm = rmsnorm,
    .matmul = matmul,
    .add = add,
    .swiglu = swiglu,
    .rope = rope,
    .kv_store = kv_store,
    .attention = attention,
    .gather = gather,
    .sample = sample,
    .run = run,
    .wait = wait_run,
    .run_cancel = run_cancel,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void complete_ops(void)
{
    null_record_dsv4(&null_ops);
    null_record_kin(&null_ops);
}

ds4_backend *ds4_null_backend_create(const ds4_backend_desc *desc, ds4_error *err)
{
    (void)desc;
    pthread_once(&once, complete_ops);
    ds4_backend *be = calloc(1, sizeof *be);
    if (!be) {
        ds4_fail(err, DS4_ERR_MEMORY, "a backend was refused");
        return NULL;
    }
    be->ops = &null_ops;
    return be;
}
