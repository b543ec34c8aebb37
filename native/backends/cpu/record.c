/* record.c - recording: each operation checks its operands and becomes a node. Nothing is computed here and no buffer is
 * read: counts, positions and tokens are known only when the program runs. */
#include "native/backends/cpu/record.h"

#include <stdlib.h>
#include <string.h>

ds4_program *cpu_program_begin(ds4_backend *be, const ds4_step_inputs *in, int32_t max_rows, int32_t max_out)
{
    if (max_rows < 1 || max_out < 0)
        return NULL;
    ds4_program *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->be = be;
    p->in = *in;
    p->max_rows = max_rows;
    p->max_out = max_out;
    p->min_banks = p->min_ctx = INT32_MAX;
    const struct {
        const char *name;
        const ds4_buffer *buffer;
        size_t bytes;
    } inputs[] = {
        {"counts", in->counts, 4 * sizeof(int32_t)},
        {"tokens", in->tokens, (size_t)max_rows * sizeof(int32_t)},
        {"from", in->from, (size_t)max_rows * sizeof(int32_t)},
        {"banks", in->banks, (size_t)max_rows * sizeof(int32_t)},
        {"positions", in->positions, (size_t)max_rows * sizeof(int32_t)},
        {"out_rows", in->out_rows, (size_t)max_out * sizeof(int32_t)},
        {"samplers", in->samplers, (size_t)max_out * sizeof(ds4_row_sampler)},
        {"histories", in->histories, (size_t)max_rows * sizeof(int32_t *)},
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (!inputs[i].buffer || inputs[i].buffer->bytes < inputs[i].bytes) {
            ds4_fail(&p->error, DS4_ERR_ARG, "step input %s: expected a buffer of at least %zu bytes, found %zu",
                     inputs[i].name, inputs[i].bytes, inputs[i].buffer ? inputs[i].buffer->bytes : (size_t)0);
            break;
        }
    return p;
}

void cpu_program_free(ds4_backend *be, ds4_program *p)
{
    if (!p)
        return;
    cpu_drain(be);
    free(p->nodes);
    free(p);
}

cpu_node *record_push(ds4_program *p, cpu_op op)
{
    static cpu_node nowhere; /* what a failed recording writes to is never read */
    if (p->n_nodes == p->cap_nodes) {
        int32_t cap = p->cap_nodes ? 2 * p->cap_nodes : 64;
        cpu_node *nodes = realloc(p->nodes, (size_t)cap * sizeof *nodes);
        if (!nodes) {
            if (!p->error.status)
                ds4_fail(&p->error, DS4_ERR_MEMORY, "no memory for %d recorded operations", (int)cap);
            return &nowhere;
        }
        p->nodes = nodes;
        p->cap_nodes = cap;
    }
    cpu_node *n = &p->nodes[p->n_nodes++];
    memset(n, 0, sizeof *n);
    n->op = op;
    return n;
}

#define EXPECT RECORD_EXPECT

void record_expect_mat(ds4_program *p, const char *op, const char *name, ds4_mat m, int64_t cols)
{
    EXPECT(p, m.cols == cols, "%s: %s has %d columns, expected %lld", op, name, (int)m.cols, (long long)cols);
    EXPECT(p, m.buffer && m.cols > 0 && m.stride >= m.cols, "%s: %s has no buffer or a stride below its columns", op, name);
    if (p->error.status)
        return;
    uint64_t rows = (uint64_t)(m.rows == DS4_ROWS_ALL ? p->max_rows : p->max_out);
    uint64_t need = rows == 0 ? 0 : ((rows - 1) * (uint64_t)m.stride + (uint64_t)m.cols) * sizeof(float);
    EXPECT(p, m.offset % sizeof(float) == 0 && m.offset <= m.buffer->bytes && need <= m.buffer->bytes - m.offset,
           "%s: %s needs %llu bytes at offset %zu, its buffer has %zu", op, name, (unsigned long long)need, m.offset,
           m.buffer->bytes);
}

void record_expect_same_rows(ds4_program *p, const char *op, ds4_mat a, ds4_mat b)
{
    EXPECT(p, a.rows == b.rows, "%s: operands are not of the same rows of the step", op);
}

void record_expect_vector(ds4_program *p, const char *op, const ds4_weight *w, int64_t n)
{
    EXPECT(p, w && w->vector && w->m.n_in == n, "%s: expected a vector of %lld elements, found %lld x %lld", op, (long long)n,
           w ? (long long)w->m.n_out : 0, w ? (long long)w->m.n_in : 0);
}

static void record_layer_end(ds4_program *p) { record_push(p, OP_LAYER_END); }

static void record_embed(ds4_program *p, ds4_mat dst, const ds4_weight *w)
{
    record_expect_mat(p, "embed", "dst", dst, w->m.n_in);
    EXPECT(p, dst.rows == DS4_ROWS_ALL && w->m.type != DS4_TYPE_I32, "embed: dst must have all rows, and the table numbers");
    cpu_node *n = record_push(p, OP_EMBED);
    n->dst = dst;
    n->norm = w;
    p->n_vocab_in = w->m.n_out;
}

static void record_rmsnorm(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w, float eps)
{
    record_expect_mat(p, "rmsnorm", "x", x, x.cols);
    record_expect_mat(p, "rmsnorm", "dst", dst, x.cols);
    record_expect_same_rows(p, "rmsnorm", dst, x);
    record_expect_vector(p, "rmsnorm", w, x.cols);
    cpu_node *n = record_push(p, OP_RMSNORM);
    n->dst = dst;
    n->x = x;
    n->norm = w;
    n->eps = eps;
}

static void record_add(ds4_program *p, ds4_mat dst, ds4_mat x)
{
    record_expect_mat(p, "add", "x", x, x.cols);
    record_expect_mat(p, "add", "dst", dst, x.cols);
    record_expect_same_rows(p, "add", dst, x);
    cpu_node *n = record_push(p, OP_ADD);
    n->dst = dst;
    n->x = x;
}

cpu_node *record_activation(ds4_program *p, const char *name, cpu_op op, ds4_mat dst, ds4_mat gate, ds4_mat up)
{
    record_expect_mat(p, name, "gate", gate, gate.cols);
    record_expect_mat(p, name, "up", up, gate.cols);
    record_expect_mat(p, name, "dst", dst, gate.cols);
    record_expect_same_rows(p, name, dst, gate);
    record_expect_same_rows(p, name, dst, up);
    cpu_node *n = record_push(p, op);
    n->dst = dst;
    n->x = gate;
    n->y = up;
    return n;
}

static void record_swiglu(ds4_program *p, ds4_mat dst, ds4_mat gate, ds4_mat up)
{
    record_activation(p, "swiglu", OP_SWIGLU, dst, gate, up);
}

int32_t record_rope_table(ds4_program *p, const ds4_rope *rope, int32_t head_dim)
{
    EXPECT(p, rope->dim > 0 && rope->dim % 2 == 0 && rope->from >= 0 && rope->dim <= head_dim - rope->from && rope->inv_freq,
           "rope: expected an even dim of 2 to %d with its frequencies, found %d from %d on", (int)head_dim, (int)rope->dim,
           (int)rope->from);
    for (int32_t i = 0; i < p->n_ropes; i++) {
        const ds4_rope *r = &p->ropes[i];
        if (r->kind == rope->kind && r->dim == rope->dim && r->inv_freq == rope->inv_freq && r->magnitude == rope->magnitude &&
            r->from == rope->from && r->inverse == rope->inverse)
            return i;
    }
    EXPECT(p, p->n_ropes < CPU_MAX_ROPES, "rope: a program has more than %d different rotations", CPU_MAX_ROPES);
    if (p->error.status)
        return 0;
    p->ropes[p->n_ropes] = *rope;
    return p->n_ropes++;
}

static void record_rope(ds4_program *p, ds4_mat x, int32_t n_head, int32_t head_dim, const ds4_rope *rope)
{
    record_expect_mat(p, "rope", "x", x, (int64_t)n_head * head_dim);
    EXPECT(p, x.rows == DS4_ROWS_ALL, "rope: x must have all rows");
    int32_t table = record_rope_table(p, rope, head_dim);
    cpu_node *n = record_push(p, OP_ROPE);
    n->dst = x;
    n->attention.n_head = n_head;
    n->attention.head_dim = head_dim;
    n->rope = table;
}

void record_limit(ds4_program *p, const ds4_cache *c)
{
    if (c->d.n_banks < p->min_banks)
        p->min_banks = c->d.n_banks;
    if (c->d.n_ctx < p->min_ctx)
        p->min_ctx = c->d.n_ctx;
}

static void expect_cache(ds4_program *p, const char *op, const ds4_cache *c, int32_t layer, int32_t n_head_kv,
                         int32_t head_dim)
{
    EXPECT(p, c && !c->latent && layer >= 0 && layer < c->d.n_layer && n_head_kv == c->d.n_head_kv && head_dim == c->d.head_dim,
           "%s: layer %d with %d heads of %d does not fit the cache", op, (int)layer, (int)n_head_kv, (int)head_dim);
    if (!p->error.status)
        record_limit(p, c);
}

static void record_kv_store(ds4_program *p, ds4_cache *cache, int32_t layer, ds4_mat k, ds4_mat v)
{
    int64_t cols = (int64_t)cache->d.n_head_kv * cache->d.head_dim;
    expect_cache(p, "kv_store", cache, layer, cache->d.n_head_kv, cache->d.head_dim);
    record_expect_mat(p, "kv_store", "k", k, cols);
    record_expect_mat(p, "kv_store", "v", v, cols);
    EXPECT(p, k.rows == DS4_ROWS_ALL && v.rows == DS4_ROWS_ALL, "kv_store: k and v must have all rows");
    cpu_node *n = record_push(p, OP_KV_STORE);
    n->y = k;
    n->z = v;
    n->cache = cache;
    n->attention = (ds4_attention){.layer = layer, .n_head_kv = cache->d.n_head_kv, .head_dim = cache->d.head_dim};
}

static void record_attention(ds4_program *p, ds4_mat dst, ds4_mat q, ds4_cache *cache, const ds4_attention *a)
{
    expect_cache(p, "attention", cache, a->layer, a->n_head_kv, a->head_dim);
    EXPECT(p, a->n_head > 0 && a->n_head_kv > 0 && a->n_head % a->n_head_kv == 0 && a->window >= 0,
           "attention: %d query heads cannot share %d KV heads, or the window %d is negative", (int)a->n_head,
           (int)a->n_head_kv, (int)a->window);
    record_expect_mat(p, "attention", "q", q, (int64_t)a->n_head * a->head_dim);
    record_expect_mat(p, "attention", "dst", dst, (int64_t)a->n_head * a->head_dim);
    EXPECT(p, q.rows == DS4_ROWS_ALL && dst.rows == DS4_ROWS_ALL, "attention: q and dst must have all rows");
    cpu_node *n = record_push(p, OP_ATTENTION);
    n->dst = dst;
    n->x = q;
    n->cache = cache;
    n->attention = *a;
}

static void record_gather(ds4_program *p, ds4_mat dst, ds4_mat x)
{
    record_expect_mat(p, "gather", "x", x, x.cols);
    record_expect_mat(p, "gather", "dst", dst, x.cols);
    EXPECT(p, x.rows == DS4_ROWS_ALL && dst.rows == DS4_ROWS_OUT, "gather: goes from all rows to output rows");
    cpu_node *n = record_push(p, OP_GATHER);
    n->dst = dst;
    n->x = x;
}

static void record_sample(ds4_program *p, ds4_mat logits)
{
    record_expect_mat(p, "sample", "logits", logits, logits.cols);
    EXPECT(p, logits.rows == DS4_ROWS_OUT, "sample: logits must have output rows");
    record_push(p, OP_SAMPLE)->x = logits;
}

/* Products [0, n) of one input, normed when norm is given. */
static cpu_node *record_products(ds4_program *p, const char *op, ds4_mat x, const ds4_weight *norm, float eps, int32_t n,
                                 const ds4_mat *dst, const ds4_weight *const *w)
{
    EXPECT(p, n >= 1 && n <= CPU_MAX_PRODUCTS, "%s: expected 1 to %d products, found %d", op, CPU_MAX_PRODUCTS, (int)n);
    record_expect_mat(p, op, "x", x, x.cols);
    if (norm)
        record_expect_vector(p, op, norm, x.cols);
    if (n > CPU_MAX_PRODUCTS)
        n = CPU_MAX_PRODUCTS;
    cpu_node *node = record_push(p, OP_PRODUCT);
    node->x = x;
    node->norm = norm;
    node->eps = eps;
    node->n = n;
    for (int32_t i = 0; i < n; i++) {
        EXPECT(p, w[i] && w[i]->m.n_in == x.cols && w[i]->m.type != DS4_TYPE_I32, "%s: a weight has %lld columns, its input %d", op,
               w[i] ? (long long)w[i]->m.n_in : 0, (int)x.cols);
        if (!p->error.status)
            record_expect_mat(p, op, "dst", dst[i], w[i]->m.n_out);
        record_expect_same_rows(p, op, dst[i], x);
        node->out[i] = dst[i];
        node->w[i] = w[i];
    }
    return node;
}

static void record_matmul(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w)
{
    record_products(p, "matmul", x, NULL, 0.0f, 1, &dst, &w);
}

static void record_norm_matmul(ds4_program *p, ds4_mat x, const ds4_weight *norm, float eps, int32_t n, const ds4_mat *dst,
                               const ds4_weight *const *w, ds4_mat scratch)
{
    (void)scratch;
    record_products(p, "norm_matmul", x, norm, eps, n, dst, w);
}

static void record_matmul_add(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w, ds4_mat scratch)
{
    (void)scratch;
    record_products(p, "matmul_add", x, NULL, 0.0f, 1, &dst, &w)->store = MM_STORE_ADD;
}

static void record_gated(ds4_program *p, const char *op, cpu_gate kind, ds4_mat dst, ds4_mat x, const ds4_weight *norm,
                         float eps, const ds4_weight *gate, const ds4_weight *up)
{
    EXPECT(p, gate->m.n_out == up->m.n_out, "%s: gate has %lld rows, up %lld", op, (long long)gate->m.n_out,
           (long long)up->m.n_out);
    const ds4_mat out[2] = {dst, dst};
    const ds4_weight *const w[2] = {gate, up};
    record_products(p, op, x, norm, eps, 2, out, w)->gated = kind;
}

static void record_norm_swiglu(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *norm, float eps,
                               const ds4_weight *gate, const ds4_weight *up, ds4_mat scratch, ds4_mat scratch_up)
{
    (void)scratch;
    (void)scratch_up;
    record_gated(p, "norm_swiglu", GATE_SWIGLU, dst, x, norm, eps, gate, up);
}

static void record_norm_geglu(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *norm, float eps,
                              const ds4_weight *gate, const ds4_weight *up, ds4_mat scratch, ds4_mat scratch_up)
{
    (void)scratch;
    (void)scratch_up;
    record_gated(p, "norm_geglu", GATE_GEGLU, dst, x, norm, eps, gate, up);
}

static void record_rope_store(ds4_program *p, ds4_mat q, ds4_mat k, ds4_mat v, ds4_cache *cache, const ds4_attention *a,
                              const ds4_rope *rope)
{
    int64_t kv_cols = (int64_t)a->n_head_kv * a->head_dim;
    expect_cache(p, "rope_store", cache, a->layer, a->n_head_kv, a->head_dim);
    record_expect_mat(p, "rope_store", "q", q, (int64_t)a->n_head * a->head_dim);
    record_expect_mat(p, "rope_store", "k", k, kv_cols);
    record_expect_mat(p, "rope_store", "v", v, kv_cols);
    EXPECT(p, q.rows == DS4_ROWS_ALL && k.rows == DS4_ROWS_ALL && v.rows == DS4_ROWS_ALL,
           "rope_store: q, k and v must have all rows");
    int32_t table = record_rope_table(p, rope, a->head_dim);
    cpu_node *n = record_push(p, OP_ROPE_STORE);
    n->x = q;
    n->y = k;
    n->z = v;
    n->cache = cache;
    n->attention = *a;
    n->rope = table;
}

void cpu_record_plain(ds4_ops *ops)
{
    ops->layer_end = record_layer_end;
    ops->embed = record_embed;
    ops->rmsnorm = record_rmsnorm;
    ops->matmul = record_matmul;
    ops->add = record_add;
    ops->swiglu = record_swiglu;
    ops->rope = record_rope;
    ops->kv_store = record_kv_store;
    ops->attention = record_attention;
    ops->gather = record_gather;
    ops->sample = record_sample;
    cpu_record_dsv4(ops);
    cpu_record_kin(ops);
}

void cpu_record_fused(ds4_ops *ops)
{
    ops->norm_matmul = record_norm_matmul;
    ops->matmul_add = record_matmul_add;
    ops->rope_store = record_rope_store;
    ops->norm_swiglu = record_norm_swiglu;
    ops->norm_geglu = record_norm_geglu;
}
