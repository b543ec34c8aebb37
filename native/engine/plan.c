/* plan.c - what can be said about a bind plan before any file is opened. */
#include "native/bridge/status.h"
#include "native/engine/checked.h"
#include "native/engine/model.h"
#include "native/quant/quant.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 1024
#define MAX_SHARDS 1024
#define MAX_HEAD_DIM 1024
#define MAX_WIDTH (1 << 24) /* of any matrix; keeps every product of two within an int64 */

static const struct role {
    const char *name;
    int8_t has_layer, required, is_vector;
} roles[] = {
    [DS4_ROLE_TOKEN_EMBD] = {"token_embd", 0, 1, 0}, [DS4_ROLE_OUTPUT_NORM] = {"output_norm", 0, 1, 1},
    [DS4_ROLE_OUTPUT] = {"output", 0, 0, 0},         [DS4_ROLE_ROPE_FREQS] = {"rope_freqs", 0, 0, 1},
    [DS4_ROLE_ATTN_NORM] = {"attn_norm", 1, 1, 1},   [DS4_ROLE_ATTN_Q] = {"attn_q", 1, 1, 0},
    [DS4_ROLE_ATTN_K] = {"attn_k", 1, 1, 0},         [DS4_ROLE_ATTN_V] = {"attn_v", 1, 1, 0},
    [DS4_ROLE_ATTN_OUT] = {"attn_out", 1, 1, 0},     [DS4_ROLE_FFN_NORM] = {"ffn_norm", 1, 1, 1},
    [DS4_ROLE_FFN_GATE] = {"ffn_gate", 1, 1, 0},     [DS4_ROLE_FFN_UP] = {"ffn_up", 1, 1, 0},
    [DS4_ROLE_FFN_DOWN] = {"ffn_down", 1, 1, 0},
};
#define N_ROLES ((int32_t)(sizeof roles / sizeof roles[0]))

const char *plan_role_name(int32_t role) { return role > 0 && role < N_ROLES ? roles[role].name : NULL; }

int plan_role_has_layer(int32_t role) { return roles[role].has_layer; }

void plan_role_shape(const ds4_hparams *h, int32_t role, int64_t *cols, int64_t *rows)
{
    const int64_t q = (int64_t)h->n_head * h->head_dim, kv = (int64_t)h->n_head_kv * h->head_dim;

    *cols = h->d_model;
    *rows = 1;
    switch (role) {
    case DS4_ROLE_TOKEN_EMBD:
    case DS4_ROLE_OUTPUT: *rows = h->n_vocab; break;
    case DS4_ROLE_ROPE_FREQS: *cols = h->rope_dim / 2; break;
    case DS4_ROLE_ATTN_Q: *rows = q; break;
    case DS4_ROLE_ATTN_K:
    case DS4_ROLE_ATTN_V: *rows = kv; break;
    case DS4_ROLE_ATTN_OUT: *cols = q, *rows = h->d_model; break;
    case DS4_ROLE_FFN_GATE:
    case DS4_ROLE_FFN_UP: *rows = h->d_ff; break;
    case DS4_ROLE_FFN_DOWN: *cols = h->d_ff, *rows = h->d_model; break;
    default: break;
    }
}

static int32_t check_int(const char *name, int64_t value, int64_t low, int64_t high, ds4_error *err)
{
    if (value >= low && value <= high)
        return DS4_OK;
    return ds4_fail(err, DS4_ERR_ARG, "hparams.%s is %" PRId64 ", expected %" PRId64 "..%" PRId64, name, value, low, high);
}

static int32_t check_float(const char *name, float value, float low, float high, ds4_error *err)
{
    if (value >= low && value <= high) /* false for NaN */
        return DS4_OK;
    return ds4_fail(err, DS4_ERR_ARG, "hparams.%s is %g, expected %g..%g", name, (double)value, (double)low, (double)high);
}

static int32_t check_hparams(const ds4_hparams *h, ds4_error *err)
{
    int32_t bad = 0;

    if (h->family != DS4_FAMILY_LLAMA)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "hparams.family is %d, expected %d (llama)", h->family, DS4_FAMILY_LLAMA);
    /* The first complaint is the one reported: once bad, the rest is not evaluated. */
#define INT(field, low, high) (bad = bad ? bad : check_int(#field, h->field, low, high, err))
#define FLOAT(field, low, high) (bad = bad ? bad : check_float(#field, h->field, low, high, err))
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
    if (h->rope_scaling == DS4_ROPE_SCALING_YARN && h->rope_base <= 1.0f)
        return ds4_fail(err, DS4_ERR_ARG, "hparams.rope_base is %g, YaRN needs more than 1", (double)h->rope_base);
    if (h->n_head % h->n_head_kv)
        return ds4_fail(err, DS4_ERR_ARG, "hparams.n_head is %d, expected a multiple of n_head_kv %d", h->n_head,
                        h->n_head_kv);
    return check_int("n_head * head_dim", (int64_t)h->n_head * h->head_dim, 1, MAX_WIDTH, err);
}

static int32_t check_slot(const ds4_model_desc *desc, int32_t index, ds4_error *err)
{
    const ds4_hparams *h = &desc->hparams;
    const ds4_slot *s = &desc->slots[index];
    const char *role = plan_role_name(s->role), *name = s->name ? s->name : "";
    int64_t cols, rows;
    uint64_t bytes;

    if (!role)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): role is %d, which is none", index, name, s->role);
    if (!*name)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): no tensor name", index, role);
    if (roles[s->role].has_layer ? s->layer < 0 || s->layer >= h->n_layer : s->layer != -1)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): layer is %d, expected %d..%d for %s", index, name, s->layer,
                        roles[s->role].has_layer ? 0 : -1, roles[s->role].has_layer ? h->n_layer - 1 : -1, role);
    if (s->shard < 0 || s->shard >= desc->n_shards)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): shard is %d, expected 0..%d", index, name, s->shard,
                        desc->n_shards - 1);
    if (!ds4_block_elements(s->type))
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "slot %d (%s): tensor type %d is not one that this build reads", index,
                        name, s->type);
    if (roles[s->role].is_vector && s->type != DS4_TYPE_F32)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "slot %d (%s): tensor type is %d, expected %d (F32) for %s", index, name,
                        s->type, DS4_TYPE_F32, role);
    if (s->n_dims < 1 || s->n_dims > DS4_MAX_DIMS)
        return ds4_fail(err, DS4_ERR_ARG, "slot %d (%s): n_dims is %d, expected 1..%d", index, name, s->n_dims,
                        DS4_MAX_DIMS);
    plan_role_shape(h, s->role, &cols, &rows);
    if (s->dims[0] != cols || s->dims[1] != rows || s->dims[2] != 1 || s->dims[3] != 1)
        return ds4_fail(err, DS4_ERR_MISMATCH,
                        "slot %d (%s): dims are [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "], expected [%" PRId64
                        ", %" PRId64 ", 1, 1] for %s",
                        index, name, s->dims[0], s->dims[1], s->dims[2], s->dims[3], cols, rows, role);
    bytes = ds4_row_bytes(s->type, cols);
    if (bytes == 0)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "slot %d (%s): rows have %" PRId64
                        " elements, expected a multiple of %d for tensor type %d", index, name, cols,
                        ds4_block_elements(s->type), s->type);
    if (!checked_mul(bytes, (uint64_t)rows, &bytes) || s->bytes != bytes)
        return ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): bytes is %" PRIu64 ", expected %" PRIu64, index, name,
                        s->bytes, bytes);
    return DS4_OK;
}

int32_t plan_check(const ds4_model_desc *desc, ds4_error *err)
{
    const ds4_hparams *h;
    uint8_t *seen; /* [n_layer + 1][N_ROLES], row n_layer for roles without a layer */
    int32_t status;

    if (!desc)
        return ds4_fail(err, DS4_ERR_ARG, "no model descriptor");
    h = &desc->hparams;
    status = check_hparams(h, err);
    if (status)
        return status;
    if (desc->n_shards < 1 || desc->n_shards > MAX_SHARDS || !desc->shards)
        return ds4_fail(err, DS4_ERR_ARG, "n_shards is %d, expected 1..%d paths", desc->n_shards, MAX_SHARDS);
    for (int32_t i = 0; i < desc->n_shards; i++)
        if (!desc->shards[i] || !desc->shards[i][0])
            return ds4_fail(err, DS4_ERR_ARG, "shard %d has no path", i);
    if (desc->n_slots < 1 || desc->n_slots > (h->n_layer + 1) * N_ROLES || !desc->slots)
        return ds4_fail(err, DS4_ERR_ARG, "n_slots is %d, expected 1..%d", desc->n_slots, (h->n_layer + 1) * N_ROLES);

    seen = calloc((size_t)(h->n_layer + 1) * N_ROLES, 1);
    if (!seen)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory to check %d slots", desc->n_slots);
    for (int32_t i = 0; i < desc->n_slots && !status; i++) {
        const ds4_slot *s = &desc->slots[i];
        status = check_slot(desc, i, err);
        if (status)
            break;
        uint8_t *mark = &seen[(roles[s->role].has_layer ? s->layer : h->n_layer) * N_ROLES + s->role];
        if (*mark)
            status = ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): role %s of layer %d is bound twice", i, s->name,
                              roles[s->role].name, s->layer);
        *mark = 1;
    }
    for (int32_t layer = 0; layer <= h->n_layer && !status; layer++)
        for (int32_t role = 0; role < N_ROLES && !status; role++)
            if (roles[role].required && roles[role].has_layer == (layer < h->n_layer) && !seen[layer * N_ROLES + role])
                status = ds4_fail(err, DS4_ERR_MISMATCH, "no slot has role %s of layer %d", roles[role].name,
                                  layer < h->n_layer ? layer : -1);
    free(seen);
    return status ? status : ds4_ok(err);
}
