/* forward.h - what a family's forward is recorded from: weights on the backend, the cache, the activations.
 *
 * A family is one file in families/ with the functions below, reached by a switch on ds4_family. */
#ifndef DS4_ENGINE_FORWARD_H
#define DS4_ENGINE_FORWARD_H

#include "native/engine/model.h"
#include "native/ops/ds4_ops.h"

/* What a step computes: tokens; also the final norm of every row; or guesses, from what earlier steps kept. */
typedef enum forward_kind { FORWARD_TOKENS, FORWARD_EMBED, FORWARD_DRAFT, FORWARD_KINDS } forward_kind;

typedef struct forward {
    ds4_backend *be;
    const ds4_ops *ops;
    const ds4_hparams *h;
    int32_t max_rows, max_out, n_ctx;
    int32_t hidden; /* keep the residual at every point, of output rows */
    int32_t draft;  /* keep what drafting needs */
    ds4_cache *cache;
    ds4_rope rope;          /* DEEPSEEK4: of layers without a ratio */
    ds4_rope rope_compress; /* DEEPSEEK4: of those with one */
    ds4_rope rope_local;    /* LLAMA's kin: of local layers, where they have their own */
    ds4_weight **weights;   /* [plan_layers + 1][PLAN_ROLES], as model_role numbers them; NULL where there is none */
    ds4_weight **groups;    /* DEEPSEEK4: [plan_layers][groups_o] blocks of ATTN_OUT_A, which has no weight itself */
    ds4_weight *output;     /* the head; the embedding where they are tied */
    ds4_buffer **activations; /* the family's own list, made once for the widest step */
    int32_t n_activations;
    ds4_buffer **points; /* hidden: [n_layer + 1] residuals [max_out, forward_width] */
    ds4_buffer *finals;  /* [max_rows, d_model] the final norm of all rows; made when a step first wants it */
} forward;

/* The weight of a role, in a layer or (-1) of the model; NULL where the model has none. */
static inline ds4_weight *forward_weight(const forward *f, int32_t role, int32_t layer)
{
    const int32_t row = layer >= 0 ? layer : plan_layers(f->h);
    return f->weights[row * PLAN_ROLES + role];
}

/* Makes the model's weights known to the backend and creates the activations. The cache is the caller's. */
int32_t forward_create(forward *f, const ds4_model *model, ds4_error *err);
void forward_free(forward *f);

/* Records a step: tokens in, drawn tokens out. */
void forward_record(const forward *f, ds4_program *p, forward_kind kind);

/* Makes what a kind of step needs beyond the activations. */
int32_t forward_prepare(forward *f, forward_kind kind, ds4_error *err);

/* Keeps the final norm of x [R, d_model], all rows. */
void forward_final(const forward *f, ds4_program *p, ds4_mat x);

/* Elements of the residual of one row. */
int32_t forward_width(const ds4_hparams *h);

/* Keeps the residual x (all rows) of the output rows as point i, if that is wanted. */
void forward_keep(const forward *f, ds4_program *p, int32_t i, ds4_mat x);

/* A buffer of rows x cols fp32. */
int32_t forward_buffer(const forward *f, int64_t rows, int64_t cols, ds4_buffer **out, ds4_error *err);

/* families/llama.c */
int32_t llama_create(forward *f, ds4_error *err);
void llama_record(const forward *f, ds4_program *p, int embed);

/* families/deepseek4.c */
int32_t deepseek4_create(forward *f, ds4_error *err);
void deepseek4_record(const forward *f, ds4_program *p, int embed);
void deepseek4_record_draft(const forward *f, ds4_program *p);

#endif
