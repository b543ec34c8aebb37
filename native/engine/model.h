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

/* One more than the greatest ds4_role. */
#define PLAN_ROLES (DS4_ROLE_MTP_OUTPUT + 1)

struct ds4_model {
    ds4_hparams hparams; /* attn_scale filled in */
    ds4_dsv4 dsv4;       /* what hparams.dsv4 leads to, if it leads anywhere; its arrays are in `arrays` */
    ds4_decoder decoder; /* what hparams.decoder leads to, likewise */
    void *arrays;
    gguf_file *shards;
    int32_t n_shards;
    int32_t n_slots;
    ds4_slot *slots; /* as found; names are in `names` */
    char *names;
    model_tensor *tensors;    /* [plan_layers + 1][PLAN_ROLES]: see model_role */
    float *inv_freq;          /* [rope_dim / 2] angle per position of each rotating pair */
    float *inv_freq_compress; /* DEEPSEEK4: the same in layers with a ratio */
    float *inv_freq_local;    /* decoder.rope_base_local: the same in local layers */
    uint64_t fingerprint;     /* of hparams and slots: whose snapshots are these? */
};

/* plan.c: the checks that need no file, and the layers that a plan has (those that draft included). */
int32_t plan_check(const ds4_model_desc *desc, ds4_error *err);
int32_t plan_layers(const ds4_hparams *h);

/* The tensor of a role, in a layer or (-1) of the model: dims that follow the first are counted together as rows. */
static inline model_tensor *model_role(const ds4_model *m, int32_t role, int32_t layer)
{
    const int32_t row = layer >= 0 ? layer : plan_layers(&m->hparams);
    return &m->tensors[row * PLAN_ROLES + role];
}

/* The head is the embedding, be it that the plan has no head or that its head lies on the embedding's bytes. */
static inline int model_tied(const ds4_model *m)
{
    const model_tensor *output = model_role(m, DS4_ROLE_OUTPUT, -1), *embd = model_role(m, DS4_ROLE_TOKEN_EMBD, -1);
    return !output->data || (output->data == embd->data && output->type == embd->type);
}

/* rope.c: fills inv_freq [dim / 2] for a base and the scaling of h; divisors is NULL or as long. */
void rope_table(const ds4_hparams *h, const float *divisors, float *inv_freq);

#endif
