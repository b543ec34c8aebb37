/* plan_dsv4.c - DeepSeek V4's roles: which layers have them, and their dims. */
#include "native/engine/plan.h"

#include "native/bridge/status.h"

static const plan_role roles[] = {
    [DS4_ROLE_TOKEN_EMBD] = {"token_embd", 0, PLAN_MATRIX},
    [DS4_ROLE_OUTPUT_NORM] = {"output_norm", 0, PLAN_VECTOR},
    [DS4_ROLE_OUTPUT] = {"output", 0, PLAN_MATRIX},
    [DS4_ROLE_ATTN_NORM] = {"attn_norm", 1, PLAN_VECTOR},
    [DS4_ROLE_FFN_NORM] = {"ffn_norm", 1, PLAN_VECTOR},
    [DS4_ROLE_OUTPUT_HC_FN] = {"output_hc_fn", 0, PLAN_MATRIX},
    [DS4_ROLE_OUTPUT_HC_BASE] = {"output_hc_base", 0, PLAN_VECTOR},
    [DS4_ROLE_OUTPUT_HC_SCALE] = {"output_hc_scale", 0, PLAN_VECTOR},
    [DS4_ROLE_HC_ATTN_FN] = {"hc_attn_fn", 1, PLAN_MATRIX},
    [DS4_ROLE_HC_ATTN_BASE] = {"hc_attn_base", 1, PLAN_VECTOR},
    [DS4_ROLE_HC_ATTN_SCALE] = {"hc_attn_scale", 1, PLAN_VECTOR},
    [DS4_ROLE_HC_FFN_FN] = {"hc_ffn_fn", 1, PLAN_MATRIX},
    [DS4_ROLE_HC_FFN_BASE] = {"hc_ffn_base", 1, PLAN_VECTOR},
    [DS4_ROLE_HC_FFN_SCALE] = {"hc_ffn_scale", 1, PLAN_VECTOR},
    [DS4_ROLE_ATTN_Q_A] = {"attn_q_a", 1, PLAN_MATRIX},
    [DS4_ROLE_ATTN_Q_A_NORM] = {"attn_q_a_norm", 1, PLAN_VECTOR},
    [DS4_ROLE_ATTN_Q_B] = {"attn_q_b", 1, PLAN_MATRIX},
    [DS4_ROLE_ATTN_KV] = {"attn_kv", 1, PLAN_MATRIX},
    [DS4_ROLE_ATTN_KV_NORM] = {"attn_kv_norm", 1, PLAN_VECTOR},
    [DS4_ROLE_ATTN_SINKS] = {"attn_sinks", 1, PLAN_VECTOR},
    [DS4_ROLE_ATTN_OUT_A] = {"attn_out_a", 1, PLAN_MATRIX},
    [DS4_ROLE_ATTN_OUT_B] = {"attn_out_b", 1, PLAN_MATRIX},
    [DS4_ROLE_COMPRESS_KV] = {"compress_kv", 1, PLAN_MATRIX},
    [DS4_ROLE_COMPRESS_GATE] = {"compress_gate", 1, PLAN_MATRIX},
    [DS4_ROLE_COMPRESS_APE] = {"compress_ape", 1, PLAN_MATRIX},
    [DS4_ROLE_COMPRESS_NORM] = {"compress_norm", 1, PLAN_VECTOR},
    [DS4_ROLE_INDEX_Q_B] = {"index_q_b", 1, PLAN_MATRIX},
    [DS4_ROLE_INDEX_PROJ] = {"index_proj", 1, PLAN_MATRIX},
    [DS4_ROLE_INDEX_KV] = {"index_kv", 1, PLAN_MATRIX},
    [DS4_ROLE_INDEX_GATE] = {"index_gate", 1, PLAN_MATRIX},
    [DS4_ROLE_INDEX_APE] = {"index_ape", 1, PLAN_MATRIX},
    [DS4_ROLE_INDEX_NORM] = {"index_norm", 1, PLAN_VECTOR},
    [DS4_ROLE_ROUTER] = {"router", 1, PLAN_MATRIX},
    [DS4_ROLE_ROUTER_BIAS] = {"router_bias", 1, PLAN_VECTOR},
    [DS4_ROLE_ROUTER_HASH] = {"router_hash", 1, PLAN_TABLE},
    [DS4_ROLE_EXPERTS_GATE] = {"experts_gate", 1, PLAN_MATRIX},
    [DS4_ROLE_EXPERTS_UP] = {"experts_up", 1, PLAN_MATRIX},
    [DS4_ROLE_EXPERTS_DOWN] = {"experts_down", 1, PLAN_MATRIX},
    [DS4_ROLE_SHARED_GATE] = {"shared_gate", 1, PLAN_MATRIX},
    [DS4_ROLE_SHARED_UP] = {"shared_up", 1, PLAN_MATRIX},
    [DS4_ROLE_SHARED_DOWN] = {"shared_down", 1, PLAN_MATRIX},
    [DS4_ROLE_MTP_E_PROJ] = {"mtp_e_proj", 1, PLAN_MATRIX},
    [DS4_ROLE_MTP_H_PROJ] = {"mtp_h_proj", 1, PLAN_MATRIX},
    [DS4_ROLE_MTP_EH_PROJ] = {"mtp_eh_proj", 1, PLAN_MATRIX},
    [DS4_ROLE_MTP_E_NORM] = {"mtp_e_norm", 1, PLAN_VECTOR},
    [DS4_ROLE_MTP_H_NORM] = {"mtp_h_norm", 1, PLAN_VECTOR},
    [DS4_ROLE_MTP_NORM] = {"mtp_norm", 1, PLAN_VECTOR},
    [DS4_ROLE_MTP_HC_FN] = {"mtp_hc_fn", 1, PLAN_MATRIX},
    [DS4_ROLE_MTP_HC_BASE] = {"mtp_hc_base", 1, PLAN_VECTOR},
    [DS4_ROLE_MTP_HC_SCALE] = {"mtp_hc_scale", 1, PLAN_VECTOR},
    [DS4_ROLE_MTP_TOKEN_EMBD] = {"mtp_token_embd", 1, PLAN_MATRIX},
    [DS4_ROLE_MTP_OUTPUT] = {"mtp_output", 1, PLAN_MATRIX},
};

plan_role plan_dsv4_role(int32_t role)
{
    return role > 0 && role < (int32_t)(sizeof roles / sizeof roles[0]) ? roles[role] : (plan_role){0};
}

static void set(int64_t dims[DS4_MAX_DIMS], int64_t cols, int64_t rows)
{
    dims[0] = cols;
    dims[1] = rows;
}

/* Whether a layer has the role, from its ratio, how it routes, and whether it drafts. */
static plan_presence presence(const ds4_hparams *h, int32_t role, int32_t layer)
{
    const ds4_dsv4 *v = h->dsv4;
    const int drafts = layer >= h->n_layer, ratio = layer < 0 || drafts ? 0 : v->ratios[layer];

    if (role >= DS4_ROLE_MTP_E_PROJ && !drafts)
        return PLAN_ABSENT;
    switch (role) {
    case DS4_ROLE_COMPRESS_KV:
    case DS4_ROLE_COMPRESS_GATE:
    case DS4_ROLE_COMPRESS_APE:
    case DS4_ROLE_COMPRESS_NORM: return ratio ? PLAN_REQUIRED : PLAN_ABSENT;
    case DS4_ROLE_INDEX_Q_B:
    case DS4_ROLE_INDEX_PROJ:
    case DS4_ROLE_INDEX_KV:
    case DS4_ROLE_INDEX_GATE:
    case DS4_ROLE_INDEX_APE:
    case DS4_ROLE_INDEX_NORM: return ratio == 4 ? PLAN_REQUIRED : PLAN_ABSENT;
    case DS4_ROLE_ROUTER_HASH: return layer < v->n_hash_layer ? PLAN_REQUIRED : PLAN_ABSENT;
    case DS4_ROLE_ROUTER_BIAS: return layer < v->n_hash_layer ? PLAN_ABSENT : PLAN_OPTIONAL;
    case DS4_ROLE_MTP_E_PROJ:
    case DS4_ROLE_MTP_H_PROJ:
    case DS4_ROLE_MTP_EH_PROJ: /* plan_dsv4_together */
    case DS4_ROLE_MTP_NORM:
    case DS4_ROLE_MTP_HC_FN:
    case DS4_ROLE_MTP_HC_BASE:
    case DS4_ROLE_MTP_HC_SCALE:
    case DS4_ROLE_MTP_TOKEN_EMBD:
    case DS4_ROLE_MTP_OUTPUT: return PLAN_OPTIONAL;
    default: return PLAN_REQUIRED;
    }
}

plan_presence plan_dsv4_dims(const ds4_hparams *h, int32_t role, int32_t layer, int64_t dims[DS4_MAX_DIMS])
{
    const ds4_dsv4 *v = h->dsv4;
    const int64_t d = h->d_model, n = v->hc_count, mix = (2 + n) * n, heads = (int64_t)h->n_head * h->head_dim;
    const int64_t ratio = layer >= 0 && layer < h->n_layer ? v->ratios[layer] : 0, c = ratio == 4 ? 2 : 1;
    const int64_t index = v->index_dim;

    for (int i = 0; i < DS4_MAX_DIMS; i++)
        dims[i] = 1;
    set(dims, d, 1);
    switch (role) {
    case DS4_ROLE_TOKEN_EMBD:
    case DS4_ROLE_OUTPUT:
    case DS4_ROLE_MTP_TOKEN_EMBD:
    case DS4_ROLE_MTP_OUTPUT: set(dims, d, h->n_vocab); break;
    case DS4_ROLE_OUTPUT_HC_FN:
    case DS4_ROLE_MTP_HC_FN: set(dims, n * d, n); break;
    case DS4_ROLE_OUTPUT_HC_BASE:
    case DS4_ROLE_MTP_HC_BASE: dims[0] = n; break;
    case DS4_ROLE_OUTPUT_HC_SCALE:
    case DS4_ROLE_MTP_HC_SCALE: dims[0] = 1; break;
    case DS4_ROLE_HC_ATTN_FN:
    case DS4_ROLE_HC_FFN_FN: set(dims, n * d, mix); break;
    case DS4_ROLE_HC_ATTN_BASE:
    case DS4_ROLE_HC_FFN_BASE: dims[0] = mix; break;
    case DS4_ROLE_HC_ATTN_SCALE:
    case DS4_ROLE_HC_FFN_SCALE: dims[0] = 3; break;
    case DS4_ROLE_ATTN_Q_A: dims[1] = v->lora_q; break;
    case DS4_ROLE_ATTN_Q_A_NORM: dims[0] = v->lora_q; break;
    case DS4_ROLE_ATTN_Q_B: set(dims, v->lora_q, heads); break;
    case DS4_ROLE_ATTN_KV: dims[1] = h->head_dim; break;
    case DS4_ROLE_ATTN_KV_NORM:
    case DS4_ROLE_COMPRESS_NORM: dims[0] = h->head_dim; break;
    case DS4_ROLE_ATTN_SINKS: dims[0] = h->n_head; break;
    case DS4_ROLE_ATTN_OUT_A: set(dims, heads / v->groups_o, (int64_t)v->groups_o * v->lora_o); break;
    case DS4_ROLE_ATTN_OUT_B: set(dims, (int64_t)v->groups_o * v->lora_o, d); break;
    case DS4_ROLE_COMPRESS_KV:
    case DS4_ROLE_COMPRESS_GATE: dims[1] = c * h->head_dim; break;
    case DS4_ROLE_COMPRESS_APE: set(dims, c * h->head_dim, ratio); break;
    case DS4_ROLE_INDEX_Q_B: set(dims, v->lora_q, v->index_heads * index); break;
    case DS4_ROLE_INDEX_PROJ: dims[1] = v->index_heads; break;
    case DS4_ROLE_INDEX_KV:
    case DS4_ROLE_INDEX_GATE: dims[1] = 2 * index; break;
    case DS4_ROLE_INDEX_APE: set(dims, 2 * index, 4); break;
    case DS4_ROLE_INDEX_NORM: dims[0] = index; break;
    case DS4_ROLE_ROUTER: dims[1] = v->n_expert; break;
    case DS4_ROLE_ROUTER_BIAS: dims[0] = v->n_expert; break;
    case DS4_ROLE_ROUTER_HASH: set(dims, v->n_expert_used, h->n_vocab); break;
    case DS4_ROLE_EXPERTS_GATE:
    case DS4_ROLE_EXPERTS_UP: set(dims, d, v->d_expert), dims[2] = v->n_expert; break;
    case DS4_ROLE_EXPERTS_DOWN: set(dims, v->d_expert, d), dims[2] = v->n_expert; break;
    case DS4_ROLE_SHARED_GATE:
    case DS4_ROLE_SHARED_UP: dims[1] = h->d_ff; break;
    case DS4_ROLE_SHARED_DOWN: set(dims, h->d_ff, d); break;
    case DS4_ROLE_MTP_E_PROJ:
    case DS4_ROLE_MTP_H_PROJ: dims[1] = d; break;
    case DS4_ROLE_MTP_EH_PROJ: set(dims, 2 * d, d); break;
    default: break; /* norms of d_model */
    }
    return presence(h, role, layer);
}

int32_t plan_dsv4_hparams(const ds4_hparams *h, ds4_error *err)
{
    const ds4_dsv4 *v = h->dsv4;
    int32_t bad = 0;

    if (!v)
        return ds4_fail(err, DS4_ERR_ARG, "hparams.dsv4 is missing, which family %d (deepseek4) needs", h->family);
    /* The first complaint is the one reported: once bad, the rest is not evaluated. */
#define INT(field, low, high) (bad = bad ? bad : plan_check_int("dsv4." #field, v->field, low, high, err))
#define PRODUCT(what, value) (bad = bad ? bad : plan_check_int(what, value, 1, PLAN_MAX_WIDTH, err))
#define FLOAT(field, low, high) (bad = bad ? bad : plan_check_float("dsv4." #field, v->field, low, high, err))
    INT(lora_q, 1, PLAN_MAX_WIDTH);
    INT(lora_o, 1, PLAN_MAX_WIDTH);
    INT(groups_o, 1, h->n_head);
    INT(n_expert, 1, 65536);
    INT(n_expert_used, 1, v->n_expert);
    INT(d_expert, 1, PLAN_MAX_WIDTH);
    INT(n_hash_layer, 0, h->n_layer);
    INT(index_heads, 1, 65536);
    INT(index_dim, h->rope_dim, 1024);
    INT(index_top_k, 1, 1 << 20);
    INT(hc_count, 1, 16);
    INT(hc_iterations, 1, 1000);
    INT(n_mtp, 0, 1);
    INT(n_ratios, h->n_layer, h->n_layer);
    INT(n_clamps, h->n_layer + v->n_mtp, h->n_layer + v->n_mtp);
    FLOAT(expert_scale, 0.0f, 1e6f);
    FLOAT(hc_eps, 0.0f, 1.0f);
    FLOAT(compress_rope_base, 1.0f, 1e12f);
    PRODUCT("dsv4.groups_o * lora_o", (int64_t)v->groups_o * v->lora_o);
    PRODUCT("dsv4.hc_count * d_model", (int64_t)v->hc_count * h->d_model);
    PRODUCT("dsv4.index_heads * index_dim", (int64_t)v->index_heads * v->index_dim);
    PRODUCT("dsv4.n_expert_used * d_expert", (int64_t)v->n_expert_used * v->d_expert);
    bad = bad ? bad : plan_check_int("n_head_kv", h->n_head_kv, 1, 1, err);
    bad = bad ? bad : plan_check_int("rope_kind", h->rope_kind, DS4_ROPE_NORM, DS4_ROPE_NORM, err);
    bad = bad ? bad : plan_check_int("sliding_window", h->sliding_window, 1, 65536, err);
#undef INT
#undef PRODUCT
#undef FLOAT
    if (bad)
        return bad;
    if (h->head_dim % 16)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "hparams.head_dim is %d, expected a multiple of 16", h->head_dim);
    if (h->rope_scaling == DS4_ROPE_SCALING_YARN && v->compress_rope_base <= 1.0f) /* the base that is scaled */
        return ds4_fail(err, DS4_ERR_ARG, "hparams.dsv4.compress_rope_base is %g, YaRN needs more than 1",
                        (double)v->compress_rope_base);
    if (h->n_head % v->groups_o)
        return ds4_fail(err, DS4_ERR_ARG, "hparams.n_head is %d, expected a multiple of dsv4.groups_o %d", h->n_head,
                        v->groups_o);
    if (!v->ratios || !v->clamp_experts || !v->clamp_shared)
        return ds4_fail(err, DS4_ERR_ARG, "hparams.dsv4 lacks its ratios or its clamps");
    for (int32_t i = 0; i < v->n_ratios; i++)
        if (v->ratios[i] != 0 && v->ratios[i] != 4 && v->ratios[i] != 128)
            return ds4_fail(err, DS4_ERR_UNSUPPORTED, "hparams.dsv4.ratios[%d] is %d, expected 0, 4 or 128", i, v->ratios[i]);
    for (int32_t i = 0; i < v->n_clamps; i++)
        if (!(v->clamp_experts[i] > 0) || !(v->clamp_shared[i] > 0)) /* true for NaN */
            return ds4_fail(err, DS4_ERR_ARG, "hparams.dsv4 clamps layer %d to %g and %g, expected limits above 0", i,
                            (double)v->clamp_experts[i], (double)v->clamp_shared[i]);
    return DS4_OK;
}

int32_t plan_dsv4_together(const uint8_t *seen, ds4_error *err)
{
    const int hc = seen[DS4_ROLE_MTP_HC_FN] + seen[DS4_ROLE_MTP_HC_BASE] + seen[DS4_ROLE_MTP_HC_SCALE];
    const int apart = seen[DS4_ROLE_MTP_E_PROJ] + seen[DS4_ROLE_MTP_H_PROJ], joined = seen[DS4_ROLE_MTP_EH_PROJ];

    if (hc != 0 && hc != 3)
        return ds4_fail(err, DS4_ERR_MISMATCH, "%d of the roles mtp_hc_fn, mtp_hc_base and mtp_hc_scale are bound, expected"
                        " all or none", hc);
    if (joined ? apart != 0 : apart != 2)
        return ds4_fail(err, DS4_ERR_MISMATCH, "expected the role mtp_eh_proj, or mtp_e_proj and mtp_h_proj, found %d and %d",
                        joined, apart);
    return DS4_OK;
}
