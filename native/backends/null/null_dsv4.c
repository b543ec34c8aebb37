/* null_dsv4.c - DeepSeek V4's operations of the null backend: none does anything. */
#include "native/backends/null/null.h"

#define UNUSED __attribute__((unused))

static void repeat(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat x) {}

static void rms_heads(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat x, UNUSED int32_t n_head, UNUSED float eps) {}

static void swiglu_clamp(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat gate, UNUSED ds4_mat up,
                         UNUSED float clamp)
{
}

static void hc_pre(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat mix, UNUSED ds4_mat x,
                   UNUSED const ds4_weight *scale, UNUSED const ds4_weight *base, UNUSED const ds4_hc *hc)
{
}

static void hc_post(UNUSED ds4_program *p, UNUSED ds4_mat x, UNUSED ds4_mat y, UNUSED ds4_mat mix, UNUSED const ds4_hc *hc) {}

static void latent_store(UNUSED ds4_program *p, UNUSED ds4_cache *cache, UNUSED int32_t layer, UNUSED ds4_mat kv) {}

static void compress(UNUSED ds4_program *p, UNUSED ds4_cache *cache, UNUSED int32_t layer, UNUSED ds4_stream stream,
                     UNUSED ds4_mat kv, UNUSED ds4_mat gate, UNUSED const ds4_weight *ape, UNUSED const ds4_weight *norm,
                     UNUSED float eps, UNUSED const ds4_rope *rope)
{
}

static void index_select(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat q, UNUSED ds4_mat weights,
                         UNUSED ds4_cache *cache, UNUSED int32_t layer, UNUSED int32_t top_k)
{
}

static void latent_attention(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat q, UNUSED ds4_cache *cache,
                             UNUSED int32_t layer, UNUSED int32_t n_head, UNUSED int32_t first,
                             UNUSED float scale, UNUSED const ds4_weight *sinks, UNUSED ds4_mat selected)
{
}

static void carry_store(UNUSED ds4_program *p, UNUSED ds4_cache *cache, UNUSED ds4_mat x) {}

static void carry_load(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_cache *cache) {}

static void route(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat x, UNUSED const ds4_weight *bias,
                  UNUSED const ds4_weight *hash, UNUSED const ds4_router *router)
{
}

static void experts_up(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat x, UNUSED ds4_mat routed,
                       UNUSED const ds4_weight *gate, UNUSED const ds4_weight *up, UNUSED const ds4_experts *experts)
{
}

static void experts_down(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat h, UNUSED ds4_mat routed,
                         UNUSED const ds4_weight *down, UNUSED const ds4_experts *experts)
{
}

void null_record_dsv4(ds4_ops *ops)
{
    ops->repeat = repeat;
    ops->rms_heads = rms_heads;
    ops->swiglu_clamp = swiglu_clamp;
    ops->hc_pre = hc_pre;
    ops->hc_post = hc_post;
    ops->latent_store = latent_store;
    ops->compress = compress;
    ops->index_select = index_select;
    ops->latent_attention = latent_attention;
    ops->carry_store = carry_store;
    ops->carry_load = carry_load;
    ops->route = route;
    ops->experts_up = experts_up;
    ops->experts_down = experts_down;
}
