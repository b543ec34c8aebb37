/* plan.c - what can be said about a bind plan before any file is opened. */
#include "native/bridge/status.h"
#include "native/engine/checked.h"
#include "native/engine/model.h"
#include "native/engine/plan.h"
#include "native/quant/quant.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 1024
#define MAX_SHARDS 1024
#define MAX_HEAD_DIM 1024
#define MAX_WIDTH PLAN_MAX_WIDTH

int32_t plan_layers(const ds4_hparams *h)
{
    return h->family == DS4_FAMILY_DEEPSEEK4 ? h->n_layer + h->dsv4->n_mtp : h->n_layer;
}

static plan_role role_of(const ds4_hparams *h, int32_t role)
{
    if (h->family == DS4_FAMILY_DEEPSEEK4)
        return plan_dsv4_role(role);
    return plan_llama_role(role);
}

static plan_presence dims_of(const ds4_hparams *h, int32_t role, int32_t layer, int64_t dims[DS4_MAX_DIMS])
{
    return h->family == DS4_FAMILY_DEEPSEEK4 ? plan_dsv4_dims(h, role, layer, dims) : plan_llama_dims(h, role, dims);
}

int32_t plan_check_int(const char *name, int64_t value, int64_t low, int64_t high, ds4_error *err)
{
    if (value >= low && value <= high)
        return DS4_OK;
    return ds4_fail(err, DS4_ERR_ARG, "hparams.%s is %" PRId64 ", expected %" PRId64 "..%" PRId64, name, value, low, high);
}

int32_t plan_check_float(const char *name, float value, float low, float high, ds4_error *err)
{
    if (value >= low && value <= high) /* false for NaN */
        return DS4_OK;
    return ds4_fail(err, DS4_ERR_ARG, "hparams.%s is %g, expected %g..%g", name, (double)value, (double)low, (double)high);
}

static int32_t check_hparams(const ds4_hparams *h, ds4_error *err)
{
    int32_t bad = 0;

    if (!plan_is_llama_kin(h) && h->family != DS4_FAMILY_DEEPSEEK4)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "hparams.family is %d, expected %d (deepseek4), or %d (llama) or one of its kin",
                        h->family, DS4_FAMILY_DEEPSEEK4, DS4_FAMILY_LLAMA);
    /* The first complaint is the one reported: once bad, the rest is not evaluated. */
#define INT(field, low, high) (bad = bad ? bad : plan_check_int(#field, h->field, low, high, err))
#define FLOAT(field, low, high) (bad = bad ? bad : plan_check_float(#field, h->field, low, high, err))
    INT(n_layer, 1, MAX_LAYERS);
    INT(d_model, 1, MAX_WIDTH);
    INT(n_head, 1, 65536);
    INT(n_head_kv, 1, h->n_head);
    INT(head_dim, 1, MAX_HEAD_DIM);
    INT(d_ff, 1, MAX_WIDTH);
    INT(n_vocab, 1, MAX_WIDTH);
    INT(n_ctx_train, 0, INT32_MAX);
    INT(rope_kind, DS4_ROPE_NORM, DS4_ROPE_NEOX);
    INT(rope_dim, 2, h->head_dim);
    INT(rope_scaling, DS4_ROPE_SCALING_NONE, DS4_ROPE_SCALING_YARN);
    INT(sliding_window, 0, INT32_MAX);
    FLOAT(rms_eps, 0.0f, 1.0f);
    FLOAT(attn_scale, 0.0f, 1e6f);
    FLOAT(rope_base, 1.0f, 1e12f);
    FLOAT(rope_attn_factor, 1e-3f, 1e3f);
    if (h->rope_scaling != DS4_ROPE_SCALING_NONE)
        FLOAT(rope_factor, 1.0f, 1e6f);
    if (h->rope_scaling == DS4_ROPE_SCALING_YARN) {
        FLOAT(rope_ext_factor, 0.0f, 1.0f);
        FLOAT(rope_beta_slow, 1e-3f, 1e6f);
        FLOAT(rope_beta_fast, h->rope_beta_slow, 1e6f);
        INT(rope_ctx_original, 1, INT32_MAX);
    }
#undef INT
#undef FLOAT
    if (bad)
        return bad;
    if (h->rope_dim % 2)
        return ds4_fail(err, DS4_ERR_ARG, "hparams.rope_dim is %d, expected an even number", h->rope_dim);
    if (h->rope_scaling == DS4_ROPE_SCALING_YARN && h->family != DS4_FAMILY_DEEPSEEK4 && h->rope_base <= 1.0f)
        return ds4_fail(err, DS4_ERR_ARG, "hparams.rope_base is %g, YaRN needs more than 1", (double)h->rope_base);
    if (h->n_head % h->n_head_kv)
        return ds4_fail(err, DS4_ERR_ARG, "hparams.n_head is %d, expected a multiple of n_head_kv %d", h->n_head,
                        h->n_head_kv);
    bad = plan_check_int("n_head * head_dim", (int64_t)h->n_head * h->head_dim, 1, MAX_WIDTH, err);
    if (bad)
        return bad;
    return h->family == DS4_FAMILY_DEEPSEEK4 ? plan_dsv4_hparams(h, err) : plan_llama_hparams(h, err);
}

static int32_t check_type(int32_t index, const ds4_slot *s, const plan_role *role, ds4_error *err)
{
    const char *name = s->name;

    if (!ds4_block_elements(s->type) || (s->type == DS4_TYPE_I32 && role->kind == PLAN_MATRIX))
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "slot %d (%s): tensor type %d is not one that this build reads", index,
                        name, s->type);
    if (role->kind == PLAN_VECTOR && s->type != DS4_TYPE_F32)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "slot %d (%s): tensor type is %d, expected %d (F32) for %s", index, name,
                        s->type, DS4_TYPE_F32, role->name);
    if (role->kind == PLAN_TABLE && s->type != DS4_TYPE_I32)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "slot %d (%s): tensor type is %d, expected %d (I32) for %s", index, name,
                        s->type, DS4_TYPE_I32, role->name);
    return DS4_OK;
}

static int32_t check_slot(const ds4_model_desc *desc, int32_t index, ds4_error *err)
{
    const ds4_hparams *h = &desc->hparams;
    const ds4_slot *s = &desc->slots[index];
    const plan_role role = role_of(h, s->role);
    const char *name = s->name ? s->name : "";
    const int32_t low = role.has_layer ? 0 : -1, high = role.has_layer ? plan_layers(h) - 1 : -1;
    int64_t dims[DS4_MAX_DIMS];
    uint64_t bytes;
    int32_t status;

    if (!role.name)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): role is %d, which is none", index, name, s->role);
    if (!*name)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): no tensor name", index, role.name);
    if (s->layer < low || s->layer > high)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): layer is %d, expected %d..%d for %s", index, name, s->layer, low, high,
                        role.name);
    if (s->shard < 0 || s->shard >= desc->n_shards)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): shard is %d, expected 0..%d", index, name, s->shard,
                        desc->n_shards - 1);
    status = check_type(index, s, &role, err);
    if (status)
        return status;
    if (s->n_dims < 1 || s->n_dims > DS4_MAX_DIMS)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): n_dims is %d, expected 1..%d", index, name, s->n_dims,
                        DS4_MAX_DIMS);
    if (dims_of(h, s->role, s->layer, dims) == PLAN_ABSENT)
        return ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): layer %d has no %s", index, name, s->layer, role.name);
    if (memcmp(s->dims, dims, sizeof dims))
        return ds4_fail(err, DS4_ERR_MISMATCH,
                        "slot %d (%s): dims are [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "], expected [%" PRId64
                        ", %" PRId64 ", %" PRId64 ", %" PRId64 "] for %s",
                        index, name, s->dims[0], s->dims[1], s->dims[2], s->dims[3], dims[0], dims[1], dims[2], dims[3],
                        role.name);
    bytes = ds4_row_bytes(s->type, dims[0]);
    if (bytes == 0)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "slot %d (%s): rows have %" PRId64
                        " elements, expected a multiple of %d for tensor type %d", index, name, dims[0],
                        ds4_block_elements(s->type), s->type);
    if (!checked_mul(bytes, (uint64_t)dims[1], &bytes) || !checked_mul(bytes, (uint64_t)dims[2], &bytes) || s->bytes != bytes)
        return ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): bytes is %" PRIu64 ", expected %" PRIu64, index, name,
                        s->bytes, bytes);
    return DS4_OK;
}

/* Every role that a layer, or (layer -1) the model, must have is there. */
static int32_t check_presence(const ds4_hparams *h, int32_t layer, const uint8_t *seen, ds4_error *err)
{
    int64_t dims[DS4_MAX_DIMS];

    for (int32_t i = 1; i < PLAN_ROLES; i++) {
        const plan_role role = role_of(h, i);
        if (role.name && role.has_layer == (layer >= 0) && !seen[i] && dims_of(h, i, layer, dims) == PLAN_REQUIRED)
            return ds4_fail(err, DS4_ERR_MISMATCH, "no slot has role %s of layer %d", role.name, layer);
    }
    return layer >= h->n_layer ? plan_dsv4_together(seen, err) : DS4_OK;
}

int32_t plan_check(const ds4_model_desc *desc, ds4_error *err)
{
    const ds4_hparams *h;
    uint8_t *seen; /* [n_layers + 1][PLAN_ROLES], the last row for roles without a layer */
    int32_t status, n_layers;

    if (!desc)
        return ds4_fail(err, DS4_ERR_ARG, "no model descriptor");
    h = &desc->hparams;
    status = check_hparams(h, err);
    if (status)
        return status;
    n_layers = plan_layers(h);
    if (desc->n_shards < 1 || desc->n_shards > MAX_SHARDS || !desc->shards)
        return ds4_fail(err, DS4_ERR_ARG, "n_shards is %d, expected 1..%d paths", desc->n_shards, MAX_SHARDS);
    for (int32_t i = 0; i < desc->n_shards; i++)
        if (!desc->shards[i] || !desc->shards[i][0])
            return ds4_fail(err, DS4_ERR_ARG, "shard %d has no path", i);
    if (desc->n_slots < 1 || desc->n_slots > (n_layers + 1) * PLAN_ROLES || !desc->slots)
        return ds4_fail(err, DS4_ERR_ARG, "n_slots is %d, expected 1..%d", desc->n_slots, (n_layers + 1) * PLAN_ROLES);

    seen = calloc((size_t)(n_layers + 1) * PLAN_ROLES, 1);
    if (!seen)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory to check %d slots", desc->n_slots);
    for (int32_t i = 0; i < desc->n_slots && !status; i++) {
        const ds4_slot *s = &desc->slots[i];
        status = check_slot(desc, i, err);
        if (status)
            break;
        uint8_t *mark = &seen[(s->layer >= 0 ? s->layer : n_layers) * PLAN_ROLES + s->role];
        if (*mark)
            status = ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): role %s of layer %d is bound twice", i, s->name,
                              role_of(h, s->role).name, s->layer);
        *mark = 1;
    }
    for (int32_t layer = 0; layer <= n_layers && !status; layer++)
        status = check_presence(h, layer < n_layers ? layer : -1, seen + layer * PLAN_ROLES, err);
    free(seen);
    return status ? status : ds4_ok(err);
}
