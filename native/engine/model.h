/* model.h - a model as native sees it: the mapped files, the weights by role, and the rope table. */
#ifndef DS4_ENGINE_MODEL_H
#define DS4_ENGINE_MODEL_H

#include "native/bridge/ds4_bridge.h"
#include "native/engine/gguf.h"

/* A matrix or a vector (rows = 1) where it lies in the mapping. data NULL: the model has none. */
typedef struct model_tensor {
    const void *data;
    int64_t rows, cols;
    uint64_t bytes;
    int32_t type;
} model_tensor;

typedef struct model_layer {
    model_tensor attn_norm; /* [d_model] */
    model_tensor q;         /* [n_head * head_dim, d_model] */
    model_tensor k;         /* [n_head_kv * head_dim, d_model] */
    model_tensor v;         /* [n_head_kv * head_dim, d_model] */
    model_tensor attn_out;  /* [d_model, n_head * head_dim] */
    model_tensor ffn_norm;  /* [d_model] */
    model_tensor gate;      /* [d_ff, d_model] */
    model_tensor up;        /* [d_ff, d_model] */
    model_tensor down;      /* [d_model, d_ff] */
} model_layer;

struct ds4_model {
    ds4_hparams hparams; /* attn_scale filled in */
    gguf_file *shards;
    int32_t n_shards;
    int32_t n_slots;
    ds4_slot *slots; /* as found; names are in `names` */
    char *names;
    model_tensor token_embd;  /* [n_vocab, d_model] */
    model_tensor output_norm; /* [d_model] */
    model_tensor output;      /* [n_vocab, d_model]; token_embd's data when tied */
    model_tensor rope_freqs;  /* [rope_dim / 2] */
    model_layer *layers;      /* [n_layer] */
    float *inv_freq;          /* [rope_dim / 2] angle per position of each rotating pair */
    uint64_t fingerprint;     /* of hparams and slots: whose snapshots are these? */
};

/* The head is the embedding, be it that the plan has no head or that its head lies on the embedding's bytes. */
static inline int model_tied(const ds4_model *m)
{
    return m->output.data == m->token_embd.data && m->output.type == m->token_embd.type;
}

/* plan.c: the checks that need no file, and the dims that a role must have ("[cols, rows]", rows 1 for a vector). */
int32_t plan_check(const ds4_model_desc *desc, ds4_error *err);
void plan_role_shape(const ds4_hparams *h, int32_t role, int64_t *cols, int64_t *rows);
int plan_role_has_layer(int32_t role);
const char *plan_role_name(int32_t role); /* NULL: no such role */

/* rope.c: fills inv_freq [rope_dim / 2]; divisors is NULL or as long. */
void rope_table(const ds4_hparams *h, const float *divisors, float *inv_freq);

#endif
