/* forward.c - a model's weights on a backend, and the choice of its family's forward. */
#include "native/engine/forward.h"

#include "native/bridge/status.h"
#include "native/engine/checked.h"

#include <stdlib.h>
#include <string.h>

static ds4_weight *weight(const forward *f, const model_tensor *t, int *failed)
{
    ds4_weight *w = f->ops->weight_create(f->be, t->type, t->rows, t->cols, t->data);

    if (!w)
        *failed = 1;
    return w;
}

/* The output projection is block-diagonal: each block is a matrix by itself. */
static void group_weights(forward *f, const model_tensor *t, ds4_weight **groups, int *failed)
{
    const int32_t n = f->h->dsv4->groups_o;
    model_tensor part = *t;

    part.rows /= n;
    part.bytes /= (uint64_t)n;
    for (int32_t g = 0; g < n && !*failed; g++) {
        part.data = (const uint8_t *)t->data + (uint64_t)g * part.bytes;
        groups[g] = weight(f, &part, failed);
    }
}

static int32_t create_weights(forward *f, const ds4_model *model, ds4_error *err)
{
    const int32_t n_layers = plan_layers(f->h), n_groups = f->h->dsv4 ? f->h->dsv4->groups_o : 0;
    int failed = 0;

    f->weights = calloc((size_t)(n_layers + 1) * PLAN_ROLES, sizeof *f->weights);
    f->groups = n_groups ? calloc((size_t)n_layers * (size_t)n_groups, sizeof *f->groups) : NULL;
    if (!f->weights || (n_groups && !f->groups))
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for the weights of %d layers", n_layers);
    for (int32_t i = 0; i < (n_layers + 1) * PLAN_ROLES && !failed; i++) {
        const model_tensor *t = &model->tensors[i];
        if (!t->data || (i % PLAN_ROLES == DS4_ROLE_OUTPUT && model_tied(model)))
            continue;
        if (i % PLAN_ROLES == DS4_ROLE_ATTN_OUT_A)
            group_weights(f, t, f->groups + i / PLAN_ROLES * n_groups, &failed);
        else
            f->weights[i] = weight(f, t, &failed);
    }
    if (failed)
        return ds4_fail(err, DS4_ERR_MEMORY, "the %s backend did not take the model's weights", f->ops->name);
    f->output = forward_weight(f, model_tied(model) ? DS4_ROLE_TOKEN_EMBD : DS4_ROLE_OUTPUT, -1);
    return DS4_OK;
}

int32_t forward_buffer(const forward *f, int64_t rows, int64_t cols, ds4_buffer **out, ds4_error *err)
{
    uint64_t bytes;

    if (checked_mul((uint64_t)rows, (uint64_t)cols * sizeof(float), &bytes) && bytes <= PTRDIFF_MAX)
        *out = f->ops->buffer_create(f->be, (size_t)bytes);
    return *out ? DS4_OK : ds4_fail(err, DS4_ERR_MEMORY, "no memory for an activation of %lld rows of %lld", (long long)rows,
                                    (long long)cols);
}

static int32_t create_points(forward *f, ds4_error *err)
{
    int32_t status = DS4_OK;

    f->points = calloc((size_t)f->h->n_layer + 1, sizeof *f->points);
    if (!f->points)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for the residuals of %d layers", f->h->n_layer);
    for (int32_t i = 0; i <= f->h->n_layer && !status; i++)
        status = forward_buffer(f, f->max_out, forward_width(f->h), &f->points[i], err);
    return status;
}

int32_t forward_create(forward *f, const ds4_model *model, ds4_error *err)
{
    int32_t status;

    f->h = &model->hparams;
    f->rope = (ds4_rope){f->h->rope_kind, f->h->rope_dim, model->inv_freq, f->h->dsv4 ? 1.0f : f->h->rope_attn_factor, 0, 0};
    f->rope_local = model->inv_freq_local ? (ds4_rope){f->h->rope_kind, f->h->rope_dim, model->inv_freq_local, 1.0f, 0, 0} : f->rope;
    f->rope_compress = (ds4_rope){f->h->rope_kind, f->h->rope_dim, model->inv_freq_compress, f->h->rope_attn_factor, 0, 0};
    status = create_weights(f, model, err);
    if (!status && f->hidden)
        status = create_points(f, err);
    if (status)
        return status;
    switch (f->h->family) {
    case DS4_FAMILY_DEEPSEEK4: return deepseek4_create(f, err);
    default: return llama_create(f, err); /* and its kin; plan_check let no other through */
    }
}

void forward_record(const forward *f, ds4_program *p, forward_kind kind)
{
    switch (f->h->family) {
    case DS4_FAMILY_DEEPSEEK4:
        kind == FORWARD_DRAFT ? deepseek4_record_draft(f, p) : deepseek4_record(f, p, kind == FORWARD_EMBED);
        break;
    default: llama_record(f, p, kind == FORWARD_EMBED); break; /* these do not draft: a session refuses to */
    }
}

int32_t forward_prepare(forward *f, forward_kind kind, ds4_error *err)
{
    if (kind != FORWARD_EMBED || f->finals)
        return DS4_OK;
    return forward_buffer(f, f->max_rows, f->h->d_model, &f->finals, err);
}

void forward_final(const forward *f, ds4_program *p, ds4_mat x)
{
    const ds4_mat finals = {f->finals, 0, x.cols, x.cols, DS4_ROWS_ALL};

    f->ops->rmsnorm(p, finals, x, forward_weight(f, DS4_ROLE_OUTPUT_NORM, -1), f->h->rms_eps);
}

int32_t forward_width(const ds4_hparams *h) { return h->dsv4 ? h->dsv4->hc_count * h->d_model : h->d_model; }

void forward_keep(const forward *f, ds4_program *p, int32_t i, ds4_mat x)
{
    if (f->hidden)
        f->ops->gather(p, (ds4_mat){f->points[i], 0, x.cols, x.cols, DS4_ROWS_OUT}, x);
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
    for (int32_t i = 0; f->points && i <= f->h->n_layer; i++)
        if (f->points[i])
            f->ops->buffer_free(f->be, f->points[i]);
    free(f->points);
    if (f->finals)
        f->ops->buffer_free(f->be, f->finals);
    for (int32_t i = 0; f->weights && i < (plan_layers(f->h) + 1) * PLAN_ROLES; i++)
        drop(f, f->weights[i]);
    free(f->weights);
    for (int32_t i = 0; f->groups && i < plan_layers(f->h) * f->h->dsv4->groups_o; i++)
        drop(f, f->groups[i]);
    free(f->groups);
}
