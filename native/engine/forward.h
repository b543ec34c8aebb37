/* forward.h - what a family's forward is recorded from: weights on the backend, the cache, the activations.
 *
 * A family is one file in families/ with the four functions below, reached by a switch on ds4_family. */
#ifndef DS4_ENGINE_FORWARD_H
#define DS4_ENGINE_FORWARD_H

#include "native/engine/model.h"
#include "native/ops/ds4_ops.h"

typedef struct forward_layer {
    ds4_weight *attn_norm, *q, *k, *v, *attn_out, *ffn_norm, *gate, *up, *down;
} forward_layer;

typedef struct forward {
    ds4_backend *be;
    const ds4_ops *ops;
    const ds4_hparams *h;
    int32_t max_rows, max_out;
    ds4_cache *cache;
    ds4_rope rope;
    ds4_weight *token_embd, *output_norm, *output; /* output == token_embd when tied */
    forward_layer *layers;                         /* [n_layer] */
    ds4_buffer **activations;                      /* the family's own list, made once for the widest step */
    int32_t n_activations;
} forward;

/* Makes the model's weights known to the backend and creates the activations. The cache is the caller's. */
int32_t forward_create(forward *f, const ds4_model *model, ds4_error *err);
void forward_free(forward *f);

/* Records a step: tokens in, drawn tokens out. */
void forward_record(const forward *f, ds4_program *p);

/* families/llama.c */
int32_t llama_create(forward *f, ds4_error *err);
void llama_record(const forward *f, ds4_program *p);

#endif
