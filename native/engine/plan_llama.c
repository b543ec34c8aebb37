/* plan_llama.c - the roles of llama and its kin: which a family has, which layers, and their dims.
 *
 * A family that shares llama's forward is one row of `families`. */
#include "native/engine/plan.h"

#include "native/bridge/status.h"

#include <stddef.h>

/* What sets a role apart from those that every family of this kind has. */
typedef enum part { PART_ALWAYS, PART_OPTIONAL, PART_BIASES, PART_HEAD_NORMS, PART_POST_NORMS, PART_DENSE, PART_EXPERTS } part;

static const struct {
    plan_role role;
    int8_t part;
} roles[] = {
    [DS4_ROLE_TOKEN_EMBD] = {{"token_embd", 0, PLAN_MATRIX}, PART_ALWAYS},
    [DS4_ROLE_OUTPUT_NORM] = {{"output_norm", 0, PLAN_VECTOR}, PART_ALWAYS},
    [DS4_ROLE_OUTPUT] = {{"output", 0, PLAN_MATRIX}, PART_OPTIONAL},
    [DS4_ROLE_ROPE_FREQS] = {{"rope_freqs", 0, PLAN_VECTOR}, PART_OPTIONAL},
    [DS4_ROLE_ATTN_NORM] = {{"attn_norm", 1, PLAN_VECTOR}, PART_ALWAYS},
    [DS4_ROLE_ATTN_Q] = {{"attn_q", 1, PLAN_MATRIX}, PART_ALWAYS},
    [DS4_ROLE_ATTN_K] = {{"attn_k", 1, PLAN_MATRIX}, PART_ALWAYS},
    [DS4_ROLE_ATTN_V] = {{"attn_v", 1, PLAN_MATRIX}, PART_ALWAYS},
    [DS4_ROLE_ATTN_OUT] = {{"attn_out", 1, PLAN_MATRIX}, PART_ALWAYS},
    [DS4_ROLE_FFN_NORM] = {{"ffn_norm", 1, PLAN_VECTOR}, PART_ALWAYS},
    [DS4_ROLE_FFN_GATE] = {{"ffn_gate", 1, PLAN_MATRIX}, PART_DENSE},
    [DS4_ROLE_FFN_UP] = {{"ffn_up", 1, PLAN_MATRIX}, PART_DENSE},
    [DS4_ROLE_FFN_DOWN] = {{"ffn_down", 1, PLAN_MATRIX}, PART_DENSE},
    [DS4_ROLE_ATTN_Q_BIAS] = {{"attn_q_bias", 1, PLAN_VECTOR}, PART_BIASES},
    [DS4_ROLE_ATTN_K_BIAS] = {{"attn_k_bias", 1, PLAN_VECTOR}, PART_BIASES},
    [DS4_ROLE_ATTN_V_BIAS] = {{"attn_v_bias", 1, PLAN_VECTOR}, PART_BIASES},
    [DS4_ROLE_ATTN_Q_NORM] = {{"attn_q_norm", 1, PLAN_VECTOR}, PART_HEAD_NORMS},
    [DS4_ROLE_ATTN_K_NORM] = {{"attn_k_norm", 1, PLAN_VECTOR}, PART_HEAD_NORMS},
    [DS4_ROLE_ATTN_POST_NORM] = {{"attn_post_norm", 1, PLAN_VECTOR}, PART_POST_NORMS},
    [DS4_ROLE_FFN_POST_NORM] = {{"ffn_post_norm", 1, PLAN_VECTOR}, PART_POST_NORMS},
    [DS4_ROLE_ROUTER] = {{"router", 1, PLAN_MATRIX}, PART_EXPERTS},
    [DS4_ROLE_EXPERTS_GATE] = {{"experts_gate", 1, PLAN_MATRIX}, PART_EXPERTS},
    [DS4_ROLE_EXPERTS_UP] = {{"experts_up", 1, PLAN_MATRIX}, PART_EXPERTS},
    [DS4_ROLE_EXPERTS_DOWN] = {{"experts_down", 1, PLAN_MATRIX}, PART_EXPERTS},
};

/* What a family has beyond llama; decoder: whether hparams.decoder must be there. */
static const struct family {
    const char *name;
    int8_t decoder, experts, biases, head_norms, post_norms;
} families[] = {
    [DS4_FAMILY_LLAMA] = {"llama", 0, 0, 0, 0, 0},       [DS4_FAMILY_SMOLLM3] = {"smollm3", 1, 0, 0, 0, 0},
    [DS4_FAMILY_QWEN2] = {"qwen2", 0, 0, 1, 0, 0},       [DS4_FAMILY_QWEN3] = {"qwen3", 0, 0, 0, 1, 0},
    [DS4_FAMILY_QWEN3MOE] = {"qwen3moe", 1, 1, 0, 1, 0}, [DS4_FAMILY_GEMMA3] = {"gemma3", 1, 0, 0, 1, 1},
};

static const struct family *family_of(const ds4_hparams *h)
{
    const int32_t n = (int32_t)(sizeof families / sizeof families[0]);
    return h->family > 0 && h->family < n && families[h->family].name ? &families[h->family] : NULL;
}

int plan_is_llama_kin(const ds4_hparams *h) { return family_of(h) != NULL; }

plan_role plan_llama_role(int32_t role)
{
    return role > 0 && role < (int32_t)(sizeof roles / sizeof roles[0]) ? roles[role].role : (plan_role){0};
}

static plan_presence presence(const ds4_hparams *h, int32_t role)
{
    const struct family *f = family_of(h);
    int has = 1;

    switch (roles[role].part) {
    case PART_OPTIONAL: return PLAN_OPTIONAL;
    case PART_BIASES: has = f->biases; break;
    case PART_HEAD_NORMS: has = f->head_norms; break;
    case PART_POST_NORMS: has = f->post_norms; break;
    case PART_DENSE: has = !f->experts; break;
    case PART_EXPERTS: has = f->experts; break;
    default: break;
    }
    return has ? PLAN_REQUIRED : PLAN_ABSENT;
}

plan_presence plan_llama_dims(const ds4_hparams *h, int32_t role, int64_t dims[DS4_MAX_DIMS])
{
    const int64_t q = (int64_t)h->n_head * h->head_dim, kv = (int64_t)h->n_head_kv * h->head_dim;
    const ds4_decoder *d = h->decoder;

    for (int i = 0; i < DS4_MAX_DIMS; i++)
        dims[i] = 1;
    dims[0] = h->d_model;
    switch (role) {
    case DS4_ROLE_TOKEN_EMBD:
    case DS4_ROLE_OUTPUT: dims[1] = h->n_vocab; break;
    case DS4_ROLE_ROPE_FREQS: dims[0] = h->rope_dim / 2; break;
    case DS4_ROLE_ATTN_Q: dims[1] = q; break;
    case DS4_ROLE_ATTN_K:
    case DS4_ROLE_ATTN_V: dims[1] = kv; break;
    case DS4_ROLE_ATTN_OUT: dims[0] = q, dims[1] = h->d_model; break;
    case DS4_ROLE_ATTN_Q_BIAS: dims[0] = q; break;
    case DS4_ROLE_ATTN_K_BIAS:
    case DS4_ROLE_ATTN_V_BIAS: dims[0] = kv; break;
    case DS4_ROLE_ATTN_Q_NORM:
    case DS4_ROLE_ATTN_K_NORM: dims[0] = h->head_dim; break;
    case DS4_ROLE_FFN_GATE:
    case DS4_ROLE_FFN_UP: dims[1] = h->d_ff; break;
    case DS4_ROLE_FFN_DOWN: dims[0] = h->d_ff, dims[1] = h->d_model; break;
    case DS4_ROLE_ROUTER: dims[1] = d ? d->n_expert : 0; break;
    case DS4_ROLE_EXPERTS_GATE:
    case DS4_ROLE_EXPERTS_UP:
        if (d)
            dims[1] = d->d_expert, dims[2] = d->n_expert;
        break;
    case DS4_ROLE_EXPERTS_DOWN:
        if (d)
            dims[0] = d->d_expert, dims[1] = h->d_model, dims[2] = d->n_expert;
        break;
    default: break; /* norms of d_model */
    }
    return presence(h, role);
}

static int32_t check_flags(const ds4_hparams *h, ds4_error *err)
{
    const ds4_decoder *d = h->decoder;

    if (!d->flags)
        return ds4_fail(err, DS4_ERR_ARG, "hparams.decoder lacks its flags");
    for (int32_t i = 0; i < d->n_flags; i++) {
        if (d->flags[i] & ~(DS4_LAYER_LOCAL | DS4_LAYER_NO_ROPE))
            return ds4_fail(err, DS4_ERR_ARG, "hparams.decoder.flags[%d] is %d, expected a sum of %d and %d", i, d->flags[i],
                            DS4_LAYER_LOCAL, DS4_LAYER_NO_ROPE);
        if (d->flags[i] & DS4_LAYER_LOCAL && h->sliding_window == 0)
            return ds4_fail(err, DS4_ERR_ARG, "hparams.decoder.flags[%d] is local, and sliding_window is 0", i);
    }
    return DS4_OK;
}

int32_t plan_llama_hparams(const ds4_hparams *h, ds4_error *err)
{
    const struct family *f = family_of(h);
    const ds4_decoder *d = h->decoder;
    int32_t bad = 0;

    if (!d)
        return f->decoder ? ds4_fail(err, DS4_ERR_ARG, "hparams.decoder is missing, which family %d (%s) needs", h->family, f->name)
                          : DS4_OK;
    /* The first complaint is the one reported: once bad, the rest is not evaluated. */
#define INT(field, low, high) (bad = bad ? bad : plan_check_int("decoder." #field, d->field, low, high, err))
#define FLOAT(field, low, high) (bad = bad ? bad : plan_check_float("decoder." #field, d->field, low, high, err))
    INT(activation, DS4_ACTIVATION_SILU, DS4_ACTIVATION_GELU);
    INT(n_flags, h->n_layer, h->n_layer);
    INT(n_expert, f->experts, f->experts ? 65536 : 0);
    if (f->experts) {
        INT(n_expert_used, 1, d->n_expert);
        INT(d_expert, 1, PLAN_MAX_WIDTH);
        FLOAT(expert_scale, 0.0f, 1e6f);
        bad = bad ? bad : plan_check_int("decoder.n_expert_used * d_expert", (int64_t)d->n_expert_used * d->d_expert, 1,
                                         PLAN_MAX_WIDTH, err);
    }
    FLOAT(embd_scale, 0.0f, 1e6f);
    if (d->rope_base_local != 0)
        FLOAT(rope_base_local, 1.0f, 1e12f);
#undef INT
#undef FLOAT
    return bad ? bad : check_flags(h, err);
}
