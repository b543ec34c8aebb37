/* deepseek4.c - the DeepSeek V4 forward: n residual streams, latent attention over a window and compressed rows, routed
 * experts.
 *
 * Shapes: R rows of the step, O rows that asked for output, D d_model, n streams, mix = (2 + n) n, Rq lora_q, H n_head, d
 * head_dim, i x j the indexer's heads and their width, c = 2 in layers with ratio 4 (else 1), G x Ro the groups of the output
 * projection, E experts of which K are used, F and S the widths of a routed and of the shared expert, V n_vocab. Every
 * activation is fp32 and row-major. */
#include "native/bridge/status.h"
#include "native/engine/forward.h"
#include "native/ops/compose.h"

#include <stdlib.h>

enum {
    X,       /* [R, n D] the streams, side by side */
    HC,      /* [R, n D] their root mean square norm */
    MIX,     /* [R, mix] what they are mixed with: pre, post, C */
    U,       /* [R, D] the input of a block, normed */
    QR,      /* [R, Rq] low-rank queries */
    Q,       /* [R, H d] queries */
    KV,      /* [R, d] keys and values at once, on their way to the cache */
    CKV,     /* [R, c d or 2 j] what is compressed, likewise */
    CGATE,   /* [R, c d or 2 j] and its gates */
    IQ,      /* [R, i j] the indexer's queries */
    IW,      /* [R, i] the weights of its heads */
    SELECTED, /* int32 [R, 1 + top_k] the compressed rows that attention takes */
    ATT,     /* [R, H d] attention's result, heads side by side */
    LOW,     /* [R, G Ro] between the halves of the output projection */
    Y,       /* [R, D] the output of a block */
    ROUTER,  /* [R, E] router products */
    ROUTED,  /* int32 [R, K], then [R, K]: experts and their weights */
    EXPERTS, /* [R, K F] the routed experts' gated products */
    GATE,    /* [R, S] the shared expert's */
    UP,      /* [R, S] */
    PREV,    /* [R, n D] drafting: the streams of the position before */
    PAIR,    /* [R, 2 D] drafting: a normed embedding and a normed stream side by side */
    PROJ,    /* [R, D] a product before it is added; written only where a backend has no fused form */
    OUT_X,   /* [O, n D] the streams of the output rows */
    OUT_MIX, /* [O, mix] */
    OUT_ATT, /* [O, H d] attention's result of the output rows in the last layer */
    LOGITS,  /* [O, V] */
    N_ACTIVATIONS
};

static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Rows that can be selected at all: there is one for each 4 positions. */
static int32_t top_k(const forward *f)
{
    const int32_t rows = most(f->n_ctx / 4, 1);
    return rows < f->h->dsv4->index_top_k ? rows : f->h->dsv4->index_top_k;
}

static int32_t width(const forward *f, int32_t which)
{
    const ds4_hparams *h = f->h;
    const ds4_dsv4 *v = h->dsv4;

    switch (which) {
    case X:
    case HC:
    case PREV:
    case OUT_X: return v->hc_count * h->d_model;
    case MIX:
    case OUT_MIX: return (2 + v->hc_count) * v->hc_count;
    case PAIR: return 2 * h->d_model;
    case QR: return v->lora_q;
    case Q:
    case ATT:
    case OUT_ATT: return h->n_head * h->head_dim;
    case KV: return h->head_dim;
    case CKV:
    case CGATE: return 2 * most(h->head_dim, v->index_dim);
    case IQ: return v->index_heads * v->index_dim;
    case IW: return v->index_heads;
    case SELECTED: return 1 + top_k(f);
    case LOW: return v->groups_o * v->lora_o;
    case ROUTER: return v->n_expert;
    case ROUTED: return 2 * v->n_expert_used;
    case EXPERTS: return v->n_expert_used * v->d_expert;
    case GATE:
    case UP: return h->d_ff;
    case LOGITS: return h->n_vocab;
    default: return h->d_model;
    }
}

static int of_outputs(int32_t which) { return which >= OUT_X; }

/* The first rows of an activation: all rows of the step, or its output rows where scratch is used by the last layer. */
static ds4_mat mat(const forward *f, int32_t which, ds4_rows rows)
{
    const int32_t cols = width(f, which);
    return (ds4_mat){f->activations[which], 0, cols, cols, rows};
}

/* An activation of which fewer columns are used. */
static ds4_mat narrow(const forward *f, int32_t which, int32_t cols, ds4_rows rows)
{
    return (ds4_mat){f->activations[which], 0, cols, cols, rows};
}

int32_t deepseek4_create(forward *f, ds4_error *err)
{
    int32_t status = DS4_OK;

    f->activations = calloc(N_ACTIVATIONS, sizeof *f->activations);
    if (!f->activations)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for the forward");
    f->n_activations = N_ACTIVATIONS;
    for (int32_t i = 0; i < N_ACTIVATIONS && !status; i++)
        if (f->draft || (i != PREV && i != PAIR))
            status = forward_buffer(f, of_outputs(i) ? f->max_out : f->max_rows, width(f, i), &f->activations[i], err);
    return status;
}

/* The block that drafts is a layer without a ratio. */
static int32_t ratio_of(const forward *f, int32_t layer) { return layer < f->h->n_layer ? f->h->dsv4->ratios[layer] : 0; }

/* ---- blocks ------------------------------------------------------------------------------------------------------- */

static ds4_hc hc_of(const forward *f) { return (ds4_hc){f->h->dsv4->hc_count, f->h->dsv4->hc_iterations, f->h->dsv4->hc_eps}; }

/* Where a block's streams are, and what they are mixed with. */
typedef struct streams {
    ds4_mat x, mix;
    ds4_rows rows;
} streams;

/* u = RMSNorm(sum of pre_h x_h). first: the role of the block's fn, which its base and scale follow. */
static ds4_mat block_in(const forward *f, ds4_program *p, const streams *s, int32_t layer, int32_t first, int32_t norm)
{
    const ds4_mat normed = mat(f, HC, s->rows), u = mat(f, U, s->rows);
    const ds4_hc hc = hc_of(f);

    f->ops->rms_heads(p, normed, s->x, 1, f->h->rms_eps);
    f->ops->matmul(p, s->mix, normed, forward_weight(f, first, layer));
    f->ops->hc_pre(p, u, s->mix, s->x, forward_weight(f, first + 2, layer), forward_weight(f, first + 1, layer), &hc);
    f->ops->rmsnorm(p, u, u, forward_weight(f, norm, layer), f->h->rms_eps);
    return u;
}

static void block_out(const forward *f, ds4_program *p, const streams *s, ds4_mat y)
{
    const ds4_hc hc = hc_of(f);
    f->ops->hc_post(p, s->x, y, s->mix, &hc);
}

/* Heads of this width turn their last dims. */
static ds4_rope tail(ds4_rope rope, int32_t head_dim, int32_t inverse)
{
    rope.from = head_dim - rope.dim;
    rope.inverse = inverse;
    return rope;
}

/* One stream of a layer: its rows' share of the rolling state, and the compressed rows that they complete. kv: the role of its
 * product, which gate, ape and norm follow. */
static void compress(const forward *f, ds4_program *p, int32_t layer, ds4_stream stream, int32_t kv, ds4_mat u)
{
    const int32_t dim = stream == DS4_STREAM_INDEX ? f->h->dsv4->index_dim : f->h->head_dim;
    const int32_t cols = ratio_of(f, layer) == 4 ? 2 * dim : dim;
    const ds4_mat values = narrow(f, CKV, cols, DS4_ROWS_ALL), gates = narrow(f, CGATE, cols, DS4_ROWS_ALL);
    const ds4_rope rope = tail(f->rope_compress, dim, 0);

    f->ops->matmul(p, values, u, forward_weight(f, kv, layer));
    f->ops->matmul(p, gates, u, forward_weight(f, kv + 1, layer));
    f->ops->compress(p, f->cache, layer, stream, values, gates, forward_weight(f, kv + 2, layer),
                     forward_weight(f, kv + 3, layer), f->h->rms_eps, &rope);
}

/* The compressed rows that each row attends to. */
static ds4_mat select_rows(const forward *f, ds4_program *p, int32_t layer, ds4_mat u, ds4_mat qr)
{
    const ds4_dsv4 *v = f->h->dsv4;
    const ds4_mat q = mat(f, IQ, DS4_ROWS_ALL), weights = mat(f, IW, DS4_ROWS_ALL), selected = mat(f, SELECTED, DS4_ROWS_ALL);
    const ds4_rope rope = tail(f->rope_compress, v->index_dim, 0);

    compress(f, p, layer, DS4_STREAM_INDEX, DS4_ROLE_INDEX_KV, u);
    f->ops->matmul(p, q, qr, forward_weight(f, DS4_ROLE_INDEX_Q_B, layer));
    f->ops->rope(p, q, v->index_heads, v->index_dim, &rope);
    f->ops->matmul(p, weights, u, forward_weight(f, DS4_ROLE_INDEX_PROJ, layer));
    f->ops->index_select(p, selected, q, weights, f->cache, layer, top_k(f));
    return selected;
}

/* The rotation of a layer's heads. */
static ds4_rope turn(const forward *f, int32_t layer, int32_t inverse)
{
    return tail(ratio_of(f, layer) ? f->rope_compress : f->rope, f->h->head_dim, inverse);
}

/* The layer's raw rows. */
static void store(const forward *f, ds4_program *p, int32_t layer, ds4_mat u)
{
    const ds4_rope rope = turn(f, layer, 0);
    const ds4_mat kv = mat(f, KV, DS4_ROWS_ALL);

    f->ops->matmul(p, kv, u, forward_weight(f, DS4_ROLE_ATTN_KV, layer));
    f->ops->rmsnorm(p, kv, kv, forward_weight(f, DS4_ROLE_ATTN_KV_NORM, layer), f->h->rms_eps);
    f->ops->rope(p, kv, 1, f->h->head_dim, &rope);
    f->ops->latent_store(p, f->cache, layer, kv);
}

/* Attention's result for all rows, turned back; before the output projection. first: the first position with a row. */
static ds4_mat attention(const forward *f, ds4_program *p, int32_t layer, int32_t first, ds4_mat u)
{
    const ds4_hparams *h = f->h;
    const int32_t ratio = ratio_of(f, layer);
    const ds4_rope rope = turn(f, layer, 0), back = turn(f, layer, 1);
    const ds4_mat qr = mat(f, QR, DS4_ROWS_ALL), q = mat(f, Q, DS4_ROWS_ALL), att = mat(f, ATT, DS4_ROWS_ALL);
    ds4_mat selected = {0};

    f->ops->matmul(p, qr, u, forward_weight(f, DS4_ROLE_ATTN_Q_A, layer));
    f->ops->rmsnorm(p, qr, qr, forward_weight(f, DS4_ROLE_ATTN_Q_A_NORM, layer), h->rms_eps);
    f->ops->matmul(p, q, qr, forward_weight(f, DS4_ROLE_ATTN_Q_B, layer));
    f->ops->rms_heads(p, q, q, h->n_head, h->rms_eps);
    f->ops->rope(p, q, h->n_head, h->head_dim, &rope);
    store(f, p, layer, u);
    if (ratio)
        compress(f, p, layer, DS4_STREAM_LATENT, DS4_ROLE_COMPRESS_KV, u);
    if (ratio == 4)
        selected = select_rows(f, p, layer, u, qr);
    f->ops->latent_attention(p, att, q, f->cache, layer, h->n_head, first, h->attn_scale,
                             forward_weight(f, DS4_ROLE_ATTN_SINKS, layer), selected);
    f->ops->rope(p, att, h->n_head, h->head_dim, &back);
    return att;
}

static ds4_mat project(const forward *f, ds4_program *p, int32_t layer, ds4_mat att)
{
    const int32_t n_groups = f->h->dsv4->groups_o;
    const ds4_mat low = mat(f, LOW, att.rows), y = mat(f, Y, att.rows);

    ds4_grouped_matmul(f->ops, p, low, att, n_groups, f->groups + layer * n_groups);
    f->ops->matmul(p, y, low, forward_weight(f, DS4_ROLE_ATTN_OUT_B, layer));
    return y;
}

/* y = shared expert + routed experts */
static ds4_mat feed_forward(const forward *f, ds4_program *p, int32_t layer, ds4_mat u)
{
    const ds4_dsv4 *v = f->h->dsv4;
    const ds4_router router = {v->n_expert, v->n_expert_used, v->expert_scale, DS4_SCORING_SQRT_SOFTPLUS};
    const ds4_experts experts = {v->n_expert, v->n_expert_used, v->d_expert, v->clamp_experts[layer]};
    const ds4_mat scores = mat(f, ROUTER, u.rows), routed = mat(f, ROUTED, u.rows), hidden = mat(f, EXPERTS, u.rows),
                  gate = mat(f, GATE, u.rows), up = mat(f, UP, u.rows), y = mat(f, Y, u.rows);

    f->ops->matmul(p, scores, u, forward_weight(f, DS4_ROLE_ROUTER, layer));
    f->ops->route(p, routed, scores, forward_weight(f, DS4_ROLE_ROUTER_BIAS, layer),
                  forward_weight(f, DS4_ROLE_ROUTER_HASH, layer), &router);
    f->ops->experts_up(p, hidden, u, routed, forward_weight(f, DS4_ROLE_EXPERTS_GATE, layer),
                       forward_weight(f, DS4_ROLE_EXPERTS_UP, layer), &experts);
    f->ops->matmul(p, gate, u, forward_weight(f, DS4_ROLE_SHARED_GATE, layer));
    f->ops->matmul(p, up, u, forward_weight(f, DS4_ROLE_SHARED_UP, layer));
    f->ops->swiglu_clamp(p, gate, gate, up, v->clamp_shared[layer]);
    f->ops->matmul(p, y, gate, forward_weight(f, DS4_ROLE_SHARED_DOWN, layer));
    f->ops->experts_down(p, y, hidden, routed, forward_weight(f, DS4_ROLE_EXPERTS_DOWN, layer), &experts);
    return y;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

/* The streams of a head's rows as one: the hyper-connection of these roles. Left in U. */
static ds4_mat merge(const forward *f, ds4_program *p, ds4_mat x, ds4_rows rows, const ds4_weight *fn, const ds4_weight *base,
                     const ds4_weight *scale)
{
    const ds4_hc hc = {f->h->dsv4->hc_count, 0, f->h->dsv4->hc_eps};
    const ds4_mat normed = mat(f, HC, rows), mix = narrow(f, rows == DS4_ROWS_OUT ? OUT_MIX : MIX, hc.n, rows),
                  u = mat(f, U, rows);

    f->ops->rms_heads(p, normed, x, 1, f->h->rms_eps);
    f->ops->matmul(p, mix, normed, fn);
    f->ops->hc_pre(p, u, mix, x, scale, base, &hc);
    return u;
}

/* A head: the hyper-connection of these roles, a norm, and a matrix. */
static void head(const forward *f, ds4_program *p, ds4_mat x, const ds4_weight *fn, const ds4_weight *base,
                 const ds4_weight *scale, const ds4_weight *norm, const ds4_weight *output)
{
    const ds4_mat u = merge(f, p, x, DS4_ROWS_OUT, fn, base, scale), logits = mat(f, LOGITS, DS4_ROWS_OUT);

    ds4_norm_matmul(f->ops, p, u, norm, f->h->rms_eps, 1, &logits, (const ds4_weight *const[]){output},
                    mat(f, PROJ, DS4_ROWS_OUT));
    f->ops->sample(p, logits);
}

/* Column block `index` of D columns of a matrix of several. */
static ds4_mat column(const forward *f, ds4_mat m, int32_t index)
{
    m.cols = f->h->d_model;
    m.offset += (size_t)index * (size_t)m.cols * sizeof(float);
    return m;
}

/* The input of the block that drafts: for the streams x' of the position before and the row's token,
 * x_h = E norm(embedding) + H norm(x'_h). Left in X. */
static void pair_up(const forward *f, ds4_program *p)
{
    const int32_t layer = f->h->n_layer;
    const ds4_weight *e = forward_weight(f, DS4_ROLE_MTP_E_PROJ, layer), *h = forward_weight(f, DS4_ROLE_MTP_H_PROJ, layer),
                     *both = forward_weight(f, DS4_ROLE_MTP_EH_PROJ, layer),
                     *embd = forward_weight(f, DS4_ROLE_MTP_TOKEN_EMBD, layer);
    const ds4_mat x = mat(f, X, DS4_ROWS_ALL), before = mat(f, PREV, DS4_ROWS_ALL), pair = mat(f, PAIR, DS4_ROWS_ALL),
                  token = mat(f, Y, DS4_ROWS_ALL), left = column(f, pair, 0), right = column(f, pair, 1);

    f->ops->carry_load(p, before, f->cache);
    f->ops->embed(p, token, embd ? embd : forward_weight(f, DS4_ROLE_TOKEN_EMBD, -1));
    f->ops->rmsnorm(p, left, token, forward_weight(f, DS4_ROLE_MTP_E_NORM, layer), f->h->rms_eps);
    if (!both)
        f->ops->matmul(p, token, left, e);
    for (int32_t i = 0; i < f->h->dsv4->hc_count; i++) {
        const ds4_mat stream = column(f, x, i);
        f->ops->rmsnorm(p, right, column(f, before, i), forward_weight(f, DS4_ROLE_MTP_H_NORM, layer), f->h->rms_eps);
        f->ops->matmul(p, stream, both ? pair : right, both ? both : h);
        if (!both)
            f->ops->add(p, stream, token);
    }
}

/* What drafting will need of these rows: their streams, and the block's raw row for each pair of a row's token with the
 * streams before it. Position 0 has no such pair; its row is never looked at. */
static void keep_for_drafts(const forward *f, ds4_program *p, ds4_mat x)
{
    const streams s = {x, mat(f, MIX, DS4_ROWS_ALL), DS4_ROWS_ALL};
    const int32_t layer = f->h->n_layer;

    f->ops->carry_store(p, f->cache, x);
    pair_up(f, p);
    store(f, p, layer, block_in(f, p, &s, layer, DS4_ROLE_HC_ATTN_FN, DS4_ROLE_ATTN_NORM));
    f->ops->layer_end(p);
}

void deepseek4_record_draft(const forward *f, ds4_program *p)
{
    const int32_t layer = f->h->n_layer;
    const ds4_mat out_x = mat(f, OUT_X, DS4_ROWS_OUT);
    const streams s = {mat(f, X, DS4_ROWS_ALL), mat(f, MIX, DS4_ROWS_ALL), DS4_ROWS_ALL};
    const ds4_weight *fn = forward_weight(f, DS4_ROLE_MTP_HC_FN, layer), *base = forward_weight(f, DS4_ROLE_MTP_HC_BASE, layer),
                     *scale = forward_weight(f, DS4_ROLE_MTP_HC_SCALE, layer),
                     *norm = forward_weight(f, DS4_ROLE_MTP_NORM, layer), *output = forward_weight(f, DS4_ROLE_MTP_OUTPUT, layer);

    pair_up(f, p);
    block_out(f, p, &s, project(f, p, layer, attention(f, p, layer, 1, block_in(f, p, &s, layer, DS4_ROLE_HC_ATTN_FN,
                                                                                DS4_ROLE_ATTN_NORM))));
    block_out(f, p, &s, feed_forward(f, p, layer, block_in(f, p, &s, layer, DS4_ROLE_HC_FFN_FN, DS4_ROLE_FFN_NORM)));
    f->ops->layer_end(p);
    f->ops->gather(p, out_x, s.x);
    head(f, p, out_x, fn ? fn : forward_weight(f, DS4_ROLE_OUTPUT_HC_FN, -1),
         base ? base : forward_weight(f, DS4_ROLE_OUTPUT_HC_BASE, -1),
         scale ? scale : forward_weight(f, DS4_ROLE_OUTPUT_HC_SCALE, -1),
         norm ? norm : forward_weight(f, DS4_ROLE_OUTPUT_NORM, -1), output ? output : f->output);
}

void deepseek4_record(const forward *f, ds4_program *p, int embed)
{
    const ds4_hparams *h = f->h;
    const ds4_mat y = mat(f, Y, DS4_ROWS_ALL), x = mat(f, X, DS4_ROWS_ALL), out_x = mat(f, OUT_X, DS4_ROWS_OUT);
    const int all = f->hidden || f->draft || embed; /* the last layer's streams are wanted of all rows */
    const ds4_weight *fn = forward_weight(f, DS4_ROLE_OUTPUT_HC_FN, -1), *base = forward_weight(f, DS4_ROLE_OUTPUT_HC_BASE, -1),
                     *scale = forward_weight(f, DS4_ROLE_OUTPUT_HC_SCALE, -1);
    streams s = {x, mat(f, MIX, DS4_ROWS_ALL), DS4_ROWS_ALL};

    f->ops->embed(p, y, forward_weight(f, DS4_ROLE_TOKEN_EMBD, -1));
    f->ops->repeat(p, x, y);
    forward_keep(f, p, 0, x);
    for (int32_t i = 0; i < h->n_layer; i++) {
        ds4_mat att = attention(f, p, i, 0, block_in(f, p, &s, i, DS4_ROLE_HC_ATTN_FN, DS4_ROLE_ATTN_NORM));
        if (i == h->n_layer - 1 && !all) {
            /* Later positions see this layer through its rows in the cache alone: the rest is for output rows only. */
            const streams out = {out_x, mat(f, OUT_MIX, DS4_ROWS_OUT), DS4_ROWS_OUT};
            const ds4_mat out_att = mat(f, OUT_ATT, DS4_ROWS_OUT);
            f->ops->gather(p, out.x, s.x);
            f->ops->gather(p, out.mix, s.mix);
            f->ops->gather(p, out_att, att);
            s = out;
            att = out_att;
        }
        block_out(f, p, &s, project(f, p, i, att));
        block_out(f, p, &s, feed_forward(f, p, i, block_in(f, p, &s, i, DS4_ROLE_HC_FFN_FN, DS4_ROLE_FFN_NORM)));
        forward_keep(f, p, i + 1, x);
        f->ops->layer_end(p);
    }
    if (all)
        f->ops->gather(p, out_x, x);
    if (f->draft)
        keep_for_drafts(f, p, x);
    if (embed)
        forward_final(f, p, merge(f, p, x, DS4_ROWS_ALL, fn, base, scale));
    head(f, p, out_x, fn, base, scale, forward_weight(f, DS4_ROLE_OUTPUT_NORM, -1), f->output);
}
