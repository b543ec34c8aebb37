/* llama.c - the forward of llama and its kin: RMSNorm, rotary attention with grouped heads, a gated feed-forward.
 *
 * Kin differ by what their plan has (biases, norms of heads and of results, experts) and by ds4_decoder (activation, scales,
 * layers that are local or do not rotate). A step is recorded once, so what is absent costs nothing.
 *
 * Shapes: R rows of the step, O rows that asked for output, D d_model, H = n_head * head_dim, G = n_head_kv * head_dim,
 * F d_ff, V n_vocab, E n_expert, K n_expert_used. Every activation is fp32 and row-major. */
#include "native/bridge/status.h"
#include "native/engine/forward.h"
#include "native/ops/compose.h"

#include <math.h>
#include <stdlib.h>

enum {
    X,       /* [R, D] residual stream */
    NORMED,  /* [R, D] RMSNorm of it; written only where a backend has no fused form, or for experts */
    Q,       /* [R, H] queries */
    K,       /* [R, G] keys of the rows, on their way to the cache */
    V,       /* [R, G] values of the rows, likewise */
    ATT,     /* [R, H] attention's result, heads side by side */
    GATE,    /* [R, F] act(gate) * up; of experts [R, K * d_expert] */
    UP,      /* [R, F] up; written only where a backend has no fused form */
    PROJ,    /* [R, D] a product before it is added to the stream; written where a backend has no fused form, or it is normed */
    OUT_X,   /* [O, D] residual stream of the output rows */
    OUT_ATT, /* [O, H] attention's result of the output rows in the last layer */
    LOGITS,  /* [O, V] */
    SCORES,  /* [R, E] the router's */
    ROUTED,  /* [R, 2 K] experts of the rows, then their weights */
    N_ACTIVATIONS
};

static int has_experts(const ds4_hparams *h) { return h->decoder && h->decoder->n_expert > 0; }

static int32_t width(const ds4_hparams *h, int32_t which)
{
    switch (which) {
    case Q:
    case ATT:
    case OUT_ATT: return h->n_head * h->head_dim;
    case K:
    case V: return h->n_head_kv * h->head_dim;
    case GATE: return has_experts(h) ? h->decoder->n_expert_used * h->decoder->d_expert : h->d_ff;
    case UP: return h->d_ff;
    case LOGITS: return h->n_vocab;
    case SCORES: return h->decoder->n_expert;
    case ROUTED: return 2 * h->decoder->n_expert_used;
    default: return h->d_model;
    }
}

static int of_outputs(int32_t which) { return which == OUT_X || which == OUT_ATT || which == LOGITS; }

/* The first rows of an activation: all rows of the step, or its output rows where scratch is used by the last layer. */
static ds4_mat mat(const forward *f, int32_t which, ds4_rows rows)
{
    const int32_t cols = width(f->h, which);
    return (ds4_mat){f->activations[which], 0, cols, cols, rows};
}

int32_t llama_create(forward *f, ds4_error *err)
{
    const int32_t n = has_experts(f->h) ? N_ACTIVATIONS : SCORES;
    int32_t status = DS4_OK;

    f->activations = calloc(N_ACTIVATIONS, sizeof *f->activations);
    if (!f->activations)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for the forward");
    f->n_activations = n;
    for (int32_t i = 0; i < n && !status; i++)
        if (i != UP || !has_experts(f->h))
            status = forward_buffer(f, of_outputs(i) ? f->max_out : f->max_rows, width(f->h, i), &f->activations[i], err);
    return status;
}

static int32_t flags_of(const ds4_hparams *h, int32_t layer)
{
    return h->decoder ? h->decoder->flags[layer] : h->sliding_window ? DS4_LAYER_LOCAL : 0;
}

/* x += W y, or x += RMSNorm(W y) where the plan has that norm. */
static void add_result(const forward *f, ds4_program *p, ds4_mat x, ds4_mat y, int32_t matrix, int32_t norm, int32_t layer)
{
    const ds4_weight *w = forward_weight(f, matrix, layer), *post = forward_weight(f, norm, layer);
    const ds4_mat proj = mat(f, PROJ, x.rows);

    if (!post) {
        ds4_matmul_add(f->ops, p, x, y, w, proj);
        return;
    }
    f->ops->matmul(p, proj, y, w);
    f->ops->rmsnorm(p, proj, proj, post, f->h->rms_eps);
    f->ops->add(p, x, proj);
}

/* x += sum over the row's experts, by weight, of W_down (silu(W_gate n) * W_up n), n = RMSNorm(x) */
static void experts(const forward *f, ds4_program *p, int32_t layer, ds4_mat x)
{
    const ds4_ops *ops = f->ops;
    const ds4_decoder *d = f->h->decoder;
    const ds4_router router = {d->n_expert, d->n_expert_used, d->expert_scale, DS4_SCORING_SOFTMAX};
    const ds4_experts sizes = {d->n_expert, d->n_expert_used, d->d_expert, INFINITY};
    const ds4_mat normed = mat(f, NORMED, x.rows), scores = mat(f, SCORES, x.rows), routed = mat(f, ROUTED, x.rows),
                  hidden = mat(f, GATE, x.rows);

    ops->rmsnorm(p, normed, x, forward_weight(f, DS4_ROLE_FFN_NORM, layer), f->h->rms_eps);
    ops->matmul(p, scores, normed, forward_weight(f, DS4_ROLE_ROUTER, layer));
    ops->route(p, routed, scores, NULL, NULL, &router);
    ops->experts_up(p, hidden, normed, routed, forward_weight(f, DS4_ROLE_EXPERTS_GATE, layer),
                    forward_weight(f, DS4_ROLE_EXPERTS_UP, layer), &sizes);
    ops->experts_down(p, x, hidden, routed, forward_weight(f, DS4_ROLE_EXPERTS_DOWN, layer), &sizes);
}

/* x += W_down (act(W_gate n) * W_up n), n = RMSNorm(x) */
static void feed_forward(const forward *f, ds4_program *p, int32_t layer, ds4_mat x)
{
    const ds4_mat gate = mat(f, GATE, x.rows);
    const int gelu = f->h->decoder && f->h->decoder->activation == DS4_ACTIVATION_GELU;

    if (has_experts(f->h)) {
        experts(f, p, layer, x);
        return;
    }
    (gelu ? ds4_norm_geglu : ds4_norm_swiglu)(f->ops, p, gate, x, forward_weight(f, DS4_ROLE_FFN_NORM, layer), f->h->rms_eps,
                                              forward_weight(f, DS4_ROLE_FFN_GATE, layer),
                                              forward_weight(f, DS4_ROLE_FFN_UP, layer), mat(f, NORMED, x.rows),
                                              mat(f, UP, x.rows));
    add_result(f, p, x, gate, DS4_ROLE_FFN_DOWN, DS4_ROLE_FFN_POST_NORM, layer);
}

/* q, k, v = W n, plus their biases, n = RMSNorm(x); then RMSNorm of each head of q and k: each where the plan has it. */
static void queries(const forward *f, ds4_program *p, int32_t layer, const ds4_mat qkv[3])
{
    const ds4_ops *ops = f->ops;
    const ds4_hparams *h = f->h;
    const ds4_weight *const w[] = {forward_weight(f, DS4_ROLE_ATTN_Q, layer), forward_weight(f, DS4_ROLE_ATTN_K, layer),
                                   forward_weight(f, DS4_ROLE_ATTN_V, layer)};
    const ds4_weight *const biases[] = {forward_weight(f, DS4_ROLE_ATTN_Q_BIAS, layer),
                                        forward_weight(f, DS4_ROLE_ATTN_K_BIAS, layer),
                                        forward_weight(f, DS4_ROLE_ATTN_V_BIAS, layer)};
    const ds4_weight *const norms[] = {forward_weight(f, DS4_ROLE_ATTN_Q_NORM, layer),
                                       forward_weight(f, DS4_ROLE_ATTN_K_NORM, layer)};

    ds4_norm_matmul(ops, p, mat(f, X, DS4_ROWS_ALL), forward_weight(f, DS4_ROLE_ATTN_NORM, layer), h->rms_eps, 3, qkv, w,
                    mat(f, NORMED, DS4_ROWS_ALL));
    for (int i = 0; i < 3; i++)
        if (biases[i])
            ops->bias(p, qkv[i], biases[i]);
    for (int i = 0; i < 2; i++)
        if (norms[i])
            ops->rmsnorm_heads(p, qkv[i], i == 0 ? h->n_head : h->n_head_kv, norms[i], h->rms_eps);
}

static void attention(const forward *f, ds4_program *p, int32_t layer, ds4_mat att)
{
    const ds4_hparams *h = f->h;
    const int32_t flags = flags_of(h, layer), local = flags & DS4_LAYER_LOCAL;
    const ds4_attention a = {layer, h->n_head, h->n_head_kv, h->head_dim, h->attn_scale, local ? h->sliding_window : 0};
    const ds4_mat qkv[] = {mat(f, Q, DS4_ROWS_ALL), mat(f, K, DS4_ROWS_ALL), mat(f, V, DS4_ROWS_ALL)};

    queries(f, p, layer, qkv);
    if (flags & DS4_LAYER_NO_ROPE)
        f->ops->kv_store(p, f->cache, layer, qkv[1], qkv[2]);
    else
        ds4_rope_store(f->ops, p, qkv[0], qkv[1], qkv[2], f->cache, &a, local ? &f->rope_local : &f->rope);
    f->ops->attention(p, att, qkv[0], f->cache, &a);
}

void llama_record(const forward *f, ds4_program *p, int embed)
{
    const ds4_ops *ops = f->ops;
    const ds4_hparams *h = f->h;
    const int all = f->hidden || embed; /* the last layer is wanted of all rows */
    const ds4_mat x = mat(f, X, DS4_ROWS_ALL), att = mat(f, ATT, DS4_ROWS_ALL), out_x = mat(f, OUT_X, DS4_ROWS_OUT),
                  out_att = mat(f, OUT_ATT, DS4_ROWS_OUT), logits = mat(f, LOGITS, DS4_ROWS_OUT);

    ops->embed(p, x, forward_weight(f, DS4_ROLE_TOKEN_EMBD, -1));
    if (h->decoder && h->decoder->embd_scale != 1.0f)
        ops->scale(p, x, h->decoder->embd_scale);
    forward_keep(f, p, 0, x);
    for (int32_t i = 0; i < h->n_layer; i++) {
        const int last = i == h->n_layer - 1 && !all;

        attention(f, p, i, att);
        if (last) {
            /* Later positions see this layer through its keys and values alone: the rest is for output rows only. */
            ops->gather(p, out_x, x);
            ops->gather(p, out_att, att);
        }
        add_result(f, p, last ? out_x : x, last ? out_att : att, DS4_ROLE_ATTN_OUT, DS4_ROLE_ATTN_POST_NORM, i);
        feed_forward(f, p, i, last ? out_x : x);
        forward_keep(f, p, i + 1, x);
        ops->layer_end(p);
    }
    if (embed)
        forward_final(f, p, x);
    if (all)
        ops->gather(p, out_x, x);
    ds4_norm_matmul(ops, p, out_x, forward_weight(f, DS4_ROLE_OUTPUT_NORM, -1), h->rms_eps, 1, &logits,
                    (const ds4_weight *const[]){f->output}, mat(f, NORMED, DS4_ROWS_OUT));
    ops->sample(p, logits);
}
