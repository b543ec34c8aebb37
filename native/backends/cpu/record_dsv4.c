/* record_dsv4.c - recording of DeepSeek V4's operations, as record.c does the others. */
#include "native/backends/cpu/record.h"

#define MOST_STREAMS 16
#define MOST_SINKHORN 1000

static void record_repeat(ds4_program *p, ds4_mat dst, ds4_mat x)
{
    record_expect_mat(p, "repeat", "x", x, x.cols);
    record_expect_mat(p, "repeat", "dst", dst, dst.cols);
    RECORD_EXPECT(p, x.cols > 0 && dst.cols % x.cols == 0, "repeat: %d columns do not hold copies of %d", (int)dst.cols,
                  (int)x.cols);
    record_expect_same_rows(p, "repeat", dst, x);
    cpu_node *n = record_push(p, OP_REPEAT);
    n->dst = dst;
    n->x = x;
}

static void record_rms_heads(ds4_program *p, ds4_mat dst, ds4_mat x, int32_t n_head, float eps)
{
    record_expect_mat(p, "rms_heads", "x", x, x.cols);
    record_expect_mat(p, "rms_heads", "dst", dst, x.cols);
    RECORD_EXPECT(p, n_head > 0 && x.cols % n_head == 0, "rms_heads: %d columns are not %d heads", (int)x.cols, (int)n_head);
    record_expect_same_rows(p, "rms_heads", dst, x);
    cpu_node *n = record_push(p, OP_RMS_HEADS);
    n->dst = dst;
    n->x = x;
    n->attention.n_head = n_head;
    n->eps = eps;
}

static void record_swiglu_clamp(ds4_program *p, ds4_mat dst, ds4_mat gate, ds4_mat up, float clamp)
{
    RECORD_EXPECT(p, clamp > 0, "swiglu_clamp: the limit is %g, expected one above 0", (double)clamp);
    record_activation(p, "swiglu_clamp", OP_SWIGLU_CLAMP, dst, gate, up)->clamp = clamp;
}

static void expect_hc(ds4_program *p, const char *op, const ds4_hc *hc)
{
    RECORD_EXPECT(p, hc->n >= 1 && hc->n <= MOST_STREAMS && hc->iterations >= 0 && hc->iterations <= MOST_SINKHORN,
                  "%s: %d streams, %d iterations, expected 1 to %d and 0 to %d", op, (int)hc->n, (int)hc->iterations,
                  MOST_STREAMS, MOST_SINKHORN);
}

static void record_hc_pre(ds4_program *p, ds4_mat dst, ds4_mat mix, ds4_mat x, const ds4_weight *scale,
                          const ds4_weight *base, const ds4_hc *hc)
{
    const int32_t cols = hc->iterations ? (2 + hc->n) * hc->n : hc->n;
    expect_hc(p, "hc_pre", hc);
    record_expect_mat(p, "hc_pre", "x", x, (int64_t)hc->n * dst.cols);
    record_expect_mat(p, "hc_pre", "mix", mix, cols);
    record_expect_mat(p, "hc_pre", "dst", dst, dst.cols);
    record_expect_vector(p, "hc_pre", scale, hc->iterations ? 3 : 1);
    record_expect_vector(p, "hc_pre", base, cols);
    record_expect_same_rows(p, "hc_pre", dst, x);
    record_expect_same_rows(p, "hc_pre", dst, mix);
    cpu_node *n = record_push(p, OP_HC_PRE);
    n->dst = dst;
    n->x = x;
    n->y = mix;
    n->w[0] = scale;
    n->w[1] = base;
    n->hc = *hc;
}

static void record_hc_post(ds4_program *p, ds4_mat x, ds4_mat y, ds4_mat mix, const ds4_hc *hc)
{
    expect_hc(p, "hc_post", hc);
    record_expect_mat(p, "hc_post", "x", x, (int64_t)hc->n * y.cols);
    record_expect_mat(p, "hc_post", "y", y, y.cols);
    record_expect_mat(p, "hc_post", "mix", mix, (2 + hc->n) * hc->n);
    record_expect_same_rows(p, "hc_post", x, y);
    record_expect_same_rows(p, "hc_post", x, mix);
    cpu_node *n = record_push(p, OP_HC_POST);
    n->dst = x;
    n->y = y;
    n->z = mix;
    n->hc = *hc;
}

/* The layer of a latent cache, with a ratio that `ratios` allows: 0 any, 1 one, 4 that one. */
static void expect_layer(ds4_program *p, const char *op, const ds4_cache *c, int32_t layer, int32_t ratio)
{
    RECORD_EXPECT(p, c && c->latent && layer >= 0 && layer < c->d.n_layer, "%s: layer %d of no latent cache", op, (int)layer);
    if (p->error.status)
        return;
    const int32_t found = c->latent->layers[layer].ratio;
    RECORD_EXPECT(p, ratio == 0 || (ratio == 1 && found > 0) || ratio == found, "%s: layer %d has ratio %d", op, (int)layer,
                  (int)found);
    RECORD_EXPECT(p, (int64_t)p->max_rows * DS4_STEPS_IN_FLIGHT <= c->d.rewind,
                  "%s: steps of %d rows, but the cache goes back %d positions", op, (int)p->max_rows, (int)c->d.rewind);
    record_limit(p, c);
}

static void record_latent_store(ds4_program *p, ds4_cache *cache, int32_t layer, ds4_mat kv)
{
    expect_layer(p, "latent_store", cache, layer, 0);
    record_expect_mat(p, "latent_store", "kv", kv, cache->d.head_dim);
    RECORD_EXPECT(p, kv.rows == DS4_ROWS_ALL, "latent_store: kv must have all rows");
    cpu_node *n = record_push(p, OP_LATENT_STORE);
    n->y = kv;
    n->cache = cache;
    n->attention.layer = layer;
}

static void record_compress(ds4_program *p, ds4_cache *cache, int32_t layer, ds4_stream stream, ds4_mat kv, ds4_mat gate,
                            const ds4_weight *ape, const ds4_weight *norm, float eps, const ds4_rope *rope)
{
    expect_layer(p, "compress", cache, layer, stream == DS4_STREAM_INDEX ? 4 : 1);
    if (p->error.status)
        return;
    const latent_layer *l = &cache->latent->layers[layer];
    const latent_stream *s = &l->stream[stream];
    record_expect_mat(p, "compress", "kv", kv, s->cols);
    record_expect_mat(p, "compress", "gate", gate, s->cols);
    record_expect_vector(p, "compress", norm, s->width);
    RECORD_EXPECT(p, ape && ape->m.n_out == l->ratio && ape->m.n_in == s->cols, "compress: ape is %lld x %lld, expected %d x %d",
                  ape ? (long long)ape->m.n_out : 0, ape ? (long long)ape->m.n_in : 0, (int)l->ratio, (int)s->cols);
    RECORD_EXPECT(p, kv.rows == DS4_ROWS_ALL && gate.rows == DS4_ROWS_ALL, "compress: kv and gate must have all rows");
    const int32_t table = record_rope_table(p, rope, s->width);
    cpu_node *n = record_push(p, OP_COMPRESS);
    n->y = kv;
    n->z = gate;
    n->cache = cache;
    n->attention.layer = layer;
    n->stream = stream;
    n->w[0] = ape;
    n->w[1] = norm;
    n->eps = eps;
    n->rope = table;
}

static void record_index_select(ds4_program *p, ds4_mat dst, ds4_mat q, ds4_mat weights, ds4_cache *cache, int32_t layer,
                                int32_t top_k)
{
    expect_layer(p, "index_select", cache, layer, 4);
    RECORD_EXPECT(p, top_k > 0 && weights.cols > 0, "index_select: %d rows of %d heads", (int)top_k, (int)weights.cols);
    record_expect_mat(p, "index_select", "weights", weights, weights.cols);
    record_expect_mat(p, "index_select", "q", q, (int64_t)weights.cols * cache->d.index_dim);
    record_expect_mat(p, "index_select", "dst", dst, (int64_t)top_k + 1);
    RECORD_EXPECT(p, q.rows == DS4_ROWS_ALL && weights.rows == DS4_ROWS_ALL && dst.rows == DS4_ROWS_ALL,
                  "index_select: operands must have all rows");
    cpu_node *n = record_push(p, OP_INDEX_SELECT);
    n->dst = dst;
    n->x = q;
    n->y = weights;
    n->cache = cache;
    n->attention.layer = layer;
    n->attention.n_head = weights.cols;
    n->top_k = top_k;
}

static void record_latent_attention(ds4_program *p, ds4_mat dst, ds4_mat q, ds4_cache *cache, int32_t layer, int32_t n_head,
                                    int32_t first, float scale, const ds4_weight *sinks, ds4_mat selected)
{
    RECORD_EXPECT(p, first >= 0, "latent_attention: the first position is %d", (int)first);
    expect_layer(p, "latent_attention", cache, layer, 0);
    record_expect_mat(p, "latent_attention", "q", q, (int64_t)n_head * cache->d.head_dim);
    record_expect_mat(p, "latent_attention", "dst", dst, (int64_t)n_head * cache->d.head_dim);
    record_expect_vector(p, "latent_attention", sinks, n_head);
    if (selected.buffer) {
        record_expect_mat(p, "latent_attention", "selected", selected, selected.cols);
        expect_layer(p, "latent_attention", cache, layer, 4);
    }
    RECORD_EXPECT(p, q.rows == DS4_ROWS_ALL && dst.rows == DS4_ROWS_ALL && selected.rows == DS4_ROWS_ALL,
                  "latent_attention: operands must have all rows");
    cpu_node *n = record_push(p, OP_LATENT_ATTENTION);
    n->dst = dst;
    n->x = q;
    n->z = selected;
    n->cache = cache;
    n->attention = (ds4_attention){.layer = layer, .n_head = n_head, .n_head_kv = 1, .head_dim = cache->d.head_dim, .scale = scale};
    n->w[0] = sinks;
    n->first = first;
}

static void expect_carry(ds4_program *p, const char *op, const ds4_cache *c, ds4_mat m)
{
    expect_layer(p, op, c, 0, 0);
    RECORD_EXPECT(p, c && c->d.carry > 0, "%s: the cache carries no rows", op);
    if (!p->error.status)
        record_expect_mat(p, op, "rows", m, c->d.carry);
    RECORD_EXPECT(p, m.rows == DS4_ROWS_ALL, "%s: the matrix must have all rows", op);
}

static void record_carry_store(ds4_program *p, ds4_cache *cache, ds4_mat x)
{
    expect_carry(p, "carry_store", cache, x);
    cpu_node *n = record_push(p, OP_CARRY_STORE);
    n->y = x;
    n->cache = cache;
}

static void record_carry_load(ds4_program *p, ds4_mat dst, ds4_cache *cache)
{
    expect_carry(p, "carry_load", cache, dst);
    cpu_node *n = record_push(p, OP_CARRY_LOAD);
    n->dst = dst;
    n->cache = cache;
}

static void record_route(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *bias, const ds4_weight *hash,
                         const ds4_router *router)
{
    RECORD_EXPECT(p, router->n_used >= 1 && router->n_used <= router->n_expert, "route: %d of %d experts",
                  (int)router->n_used, (int)router->n_expert);
    record_expect_mat(p, "route", "x", x, router->n_expert);
    record_expect_mat(p, "route", "dst", dst, 2 * (int64_t)router->n_used);
    record_expect_same_rows(p, "route", dst, x);
    RECORD_EXPECT(p, router->scoring == DS4_SCORING_SQRT_SOFTPLUS || (router->scoring == DS4_SCORING_SOFTMAX && !bias && !hash),
                  "route: scoring %d with a bias or a table, or there is none such", (int)router->scoring);
    if (bias)
        record_expect_vector(p, "route", bias, router->n_expert);
    RECORD_EXPECT(p, !hash || (hash->m.type == DS4_TYPE_I32 && hash->m.n_in == router->n_used && hash->m.n_out >= p->n_vocab_in),
                  "route: the table of experts is of type %d, %lld x %lld", hash ? (int)hash->m.type : 0,
                  hash ? (long long)hash->m.n_out : 0, hash ? (long long)hash->m.n_in : 0);
    cpu_node *n = record_push(p, OP_ROUTE);
    n->dst = dst;
    n->x = x;
    n->w[0] = bias;
    n->w[1] = hash;
    n->router = *router;
}

static void expect_experts(ds4_program *p, const char *op, const ds4_weight *w, const ds4_experts *e, int64_t rows, int64_t cols)
{
    RECORD_EXPECT(p, w && w->m.type != DS4_TYPE_I32 && w->m.n_out == rows * e->n_expert && w->m.n_in == cols,
                  "%s: experts are %lld x %lld, expected %d of %lld x %lld", op, w ? (long long)w->m.n_out : 0,
                  w ? (long long)w->m.n_in : 0, (int)e->n_expert, (long long)rows, (long long)cols);
}

static void record_experts_up(ds4_program *p, ds4_mat dst, ds4_mat x, ds4_mat routed, const ds4_weight *gate,
                              const ds4_weight *up, const ds4_experts *experts)
{
    record_expect_mat(p, "experts_up", "x", x, x.cols);
    record_expect_mat(p, "experts_up", "routed", routed, 2 * (int64_t)experts->n_used);
    record_expect_mat(p, "experts_up", "dst", dst, (int64_t)experts->n_used * experts->width);
    record_expect_same_rows(p, "experts_up", dst, x);
    record_expect_same_rows(p, "experts_up", dst, routed);
    expect_experts(p, "experts_up", gate, experts, experts->width, x.cols);
    expect_experts(p, "experts_up", up, experts, experts->width, x.cols);
    cpu_node *n = record_push(p, OP_EXPERTS_UP);
    n->dst = dst;
    n->x = x;
    n->z = routed;
    n->w[0] = gate;
    n->w[1] = up;
    n->experts = *experts;
}

static void record_experts_down(ds4_program *p, ds4_mat dst, ds4_mat h, ds4_mat routed, const ds4_weight *down,
                                const ds4_experts *experts)
{
    record_expect_mat(p, "experts_down", "h", h, (int64_t)experts->n_used * experts->width);
    record_expect_mat(p, "experts_down", "routed", routed, 2 * (int64_t)experts->n_used);
    record_expect_mat(p, "experts_down", "dst", dst, dst.cols);
    record_expect_same_rows(p, "experts_down", dst, h);
    record_expect_same_rows(p, "experts_down", dst, routed);
    expect_experts(p, "experts_down", down, experts, dst.cols, experts->width);
    cpu_node *n = record_push(p, OP_EXPERTS_DOWN);
    n->dst = dst;
    n->x = h;
    n->z = routed;
    n->w[0] = down;
    n->experts = *experts;
}

void cpu_record_dsv4(ds4_ops *ops)
{
    ops->repeat = record_repeat;
    ops->rms_heads = record_rms_heads;
    ops->swiglu_clamp = record_swiglu_clamp;
    ops->hc_pre = record_hc_pre;
    ops->hc_post = record_hc_post;
    ops->latent_store = record_latent_store;
    ops->compress = record_compress;
    ops->index_select = record_index_select;
    ops->latent_attention = record_latent_attention;
    ops->carry_store = record_carry_store;
    ops->carry_load = record_carry_load;
    ops->route = record_route;
    ops->experts_up = record_experts_up;
    ops->experts_down = record_experts_down;
}
