/* llama.c - the llama forward: RMSNorm, rotary attention with grouped heads, SwiGLU.
 *
 * Shapes: R rows of the step, O rows that asked for output, D d_model, H = n_head * head_dim, G = n_head_kv * head_dim,
 * F d_ff, V n_vocab. Every activation is fp32 and row-major. */
#include "native/bridge/status.h"
#include "native/engine/forward.h"
#include "native/ops/compose.h"

#include <stdlib.h>

enum {
    X,       /* [R, D] residual stream */
    NORMED,  /* [R, D] RMSNorm of it; written only where a backend has no fused form */
    Q,       /* [R, H] queries */
    K,       /* [R, G] keys of the rows, on their way to the cache */
    V,       /* [R, G] values of the rows, likewise */
    ATT,     /* [R, H] attention's result, heads side by side */
    GATE,    /* [R, F] silu(gate) * up */
    UP,      /* [R, F] up; written only where a backend has no fused form */
    PROJ,    /* [R, D] a product before it is added to the stream; written only where a backend has no fused form */
    OUT_X,   /* [O, D] residual stream of the output rows */
    OUT_ATT, /* [O, H] attention's result of the output rows in the last layer */
    LOGITS,  /* [O, V] */
    N_ACTIVATIONS
};

static int32_t width(const ds4_hparams *h, int32_t which)
{
    switch (which) {
    case Q:
    case ATT:
    case OUT_ATT: return h->n_head * h->head_dim;
    case K:
    case V: return h->n_head_kv * h->head_dim;
    case GATE:
    case UP: return h->d_ff;
    case LOGITS: return h->n_vocab;
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
    int32_t status = DS4_OK;

    f->activations = calloc(N_ACTIVATIONS, sizeof *f->activations);
    if (!f->activations)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for the forward");
    f->n_activations = N_ACTIVATIONS;
    for (int32_t i = 0; i < N_ACTIVATIONS && !status; i++)
        status = forward_buffer(f, of_outputs(i) ? f->max_out : f->max_rows, width(f->h, i), &f->activations[i], err);
    return status;
}

/* x += W_down (silu(W_gate n) * W_up n), n = RMSNorm(x) */
static void feed_forward(const forward *f, ds4_program *p, int32_t layer, ds4_mat x, ds4_rows rows)
{
    const ds4_mat gate = mat(f, GATE, rows);

    ds4_norm_swiglu(f->ops, p, gate, x, forward_weight(f, DS4_ROLE_FFN_NORM, layer), f->h->rms_eps,
                    forward_weight(f, DS4_ROLE_FFN_GATE, layer), forward_weight(f, DS4_ROLE_FFN_UP, layer),
                    mat(f, NORMED, rows), mat(f, UP, rows));
    ds4_matmul_add(f->ops, p, x, gate, forward_weight(f, DS4_ROLE_FFN_DOWN, layer), mat(f, PROJ, rows));
}

void llama_record(const forward *f, ds4_program *p)
{
    const ds4_ops *ops = f->ops;
    const ds4_hparams *h = f->h;
    const ds4_mat x = mat(f, X, DS4_ROWS_ALL), normed = mat(f, NORMED, DS4_ROWS_ALL), q = mat(f, Q, DS4_ROWS_ALL),
                  k = mat(f, K, DS4_ROWS_ALL), v = mat(f, V, DS4_ROWS_ALL), att = mat(f, ATT, DS4_ROWS_ALL),
                  out_x = mat(f, OUT_X, DS4_ROWS_OUT), out_att = mat(f, OUT_ATT, DS4_ROWS_OUT),
                  logits = mat(f, LOGITS, DS4_ROWS_OUT);

    ops->embed(p, x, forward_weight(f, DS4_ROLE_TOKEN_EMBD, -1));
    forward_keep(f, p, 0, x);
    for (int32_t i = 0; i < h->n_layer; i++) {
        const ds4_attention a = {i, h->n_head, h->n_head_kv, h->head_dim, h->attn_scale, h->sliding_window};
        const ds4_weight *const qkv[] = {forward_weight(f, DS4_ROLE_ATTN_Q, i), forward_weight(f, DS4_ROLE_ATTN_K, i),
                                         forward_weight(f, DS4_ROLE_ATTN_V, i)};
        const int last = i == h->n_layer - 1 && !f->hidden;

        ds4_norm_matmul(ops, p, x, forward_weight(f, DS4_ROLE_ATTN_NORM, i), h->rms_eps, 3, (const ds4_mat[]){q, k, v}, qkv,
                        normed);
        ds4_rope_store(ops, p, q, k, v, f->cache, &a, &f->rope);
        ops->attention(p, att, q, f->cache, &a);
        if (last) {
            /* Later positions see this layer through its keys and values alone: the rest is for output rows only. */
            ops->gather(p, out_x, x);
            ops->gather(p, out_att, att);
        }
        ds4_matmul_add(ops, p, last ? out_x : x, last ? out_att : att, forward_weight(f, DS4_ROLE_ATTN_OUT, i),
                       mat(f, PROJ, last ? DS4_ROWS_OUT : DS4_ROWS_ALL));
        feed_forward(f, p, i, last ? out_x : x, last ? DS4_ROWS_OUT : DS4_ROWS_ALL);
        forward_keep(f, p, i + 1, x);
        ops->layer_end(p);
    }
    if (f->hidden)
        ops->gather(p, out_x, x);
    ds4_norm_matmul(ops, p, out_x, forward_weight(f, DS4_ROLE_OUTPUT_NORM, -1), h->rms_eps, 1, &logits,
                    (const ds4_weight *const[]){f->output}, mat(f, NORMED, DS4_ROWS_OUT));
    ops->sample(p, logits);
}
