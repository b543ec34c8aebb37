/* forward.c - a model's weights on a backend, and the choice of its family's forward. */
#include "native/engine/forward.h"

#include "native/bridge/status.h"

#include <stdlib.h>
#include <string.h>

static ds4_weight *weight(forward *f, const model_tensor *t, int *failed)
{
    ds4_weight *w = f->ops->weight_create(f->be, t->type, t->rows, t->cols, t->data);

    if (!w)
        *failed = 1;
    return w;
}

int32_t forward_create(forward *f, const ds4_model *model, ds4_error *err)
{
    int failed = 0;

    f->h = &model->hparams;
    f->rope = (ds4_rope){f->h->rope_kind, f->h->rope_dim, model->inv_freq, f->h->rope_attn_factor};
    f->layers = calloc((size_t)f->h->n_layer, sizeof *f->layers);
    if (!f->layers)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for %d layers", f->h->n_layer);
    f->token_embd = weight(f, &model->token_embd, &failed);
    f->output_norm = weight(f, &model->output_norm, &failed);
    f->output = model_tied(model) ? f->token_embd : weight(f, &model->output, &failed);
    for (int32_t i = 0; i < f->h->n_layer; i++) {
        const model_layer *from = &model->layers[i];
        forward_layer *to = &f->layers[i];
        to->attn_norm = weight(f, &from->attn_norm, &failed);
        to->q = weight(f, &from->q, &failed);
        to->k = weight(f, &from->k, &failed);
        to->v = weight(f, &from->v, &failed);
        to->attn_out = weight(f, &from->attn_out, &failed);
        to->ffn_norm = weight(f, &from->ffn_norm, &failed);
        to->gate = weight(f, &from->gate, &failed);
        to->up = weight(f, &from->up, &failed);
        to->down = weight(f, &from->down, &failed);
    }
    if (failed)
        return ds4_fail(err, DS4_ERR_MEMORY, "the %s backend did not take the model's weights", f->ops->name);
    switch (f->h->family) {
    case DS4_FAMILY_LLAMA: return llama_create(f, err);
    default: return ds4_fail(err, DS4_ERR_UNSUPPORTED, "no forward for family %d", f->h->family);
    }
}

void forward_record(const forward *f, ds4_program *p)
{
    switch (f->h->family) {
    case DS4_FAMILY_LLAMA: llama_record(f, p); break;
    default: break; /* forward_create let no other through */
    }
}

static void drop(forward *f, ds4_weight *w)
{
    if (w)
        f->ops->weight_free(f->be, w);
}

void forward_free(forward *f)
{
    for (int32_t i = 0; i < f->n_activations; i++)
        if (f->activations[i])
            f->ops->buffer_free(f->be, f->activations[i]);
    free(f->activations);
    for (int32_t i = 0; f->layers && i < f->h->n_layer; i++) {
        forward_layer *l = &f->layers[i];
        drop(f, l->attn_norm), drop(f, l->q), drop(f, l->k), drop(f, l->v), drop(f, l->attn_out);
        drop(f, l->ffn_norm), drop(f, l->gate), drop(f, l->up), drop(f, l->down);
    }
    free(f->layers);
    if (f->output != f->token_embd)
        drop(f, f->output);
    drop(f, f->output_norm);
    drop(f, f->token_embd);
}
