/* llama_plan.h - a bind plan for a llama GGUF, made without the host: for measuring and for tests on a real file.
 *
 * It trusts the file: gguf_open has walked it, so every length in the metadata is known to be in bounds. */
#ifndef DS4_TESTS_LLAMA_PLAN_H
#define DS4_TESTS_LLAMA_PLAN_H

#include "native/engine/gguf.h"
#include "native/tests/check.h"

#include <string.h>

typedef struct llama_plan {
    gguf_file file;
    const char *path;
    ds4_slot *slots;
    char (*names)[64];
    ds4_model_desc desc;
} llama_plan;

static uint64_t plan_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t plan_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The byte after a value of a type. */
static const uint8_t *plan_skip(const uint8_t *p, uint32_t type)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

    if (type == 8)
        return p + 8 + plan_u64(p);
    if (type != 9)
        return p + sizes[type];
    const uint32_t element = plan_u32(p);
    const uint64_t n = plan_u64(p + 4);
    p += 12;
    for (uint64_t i = 0; i < n; i++)
        p = plan_skip(p, element);
    return p;
}

/* A number, or `otherwise` where the key is absent; without a default (NaN) its absence ends the program. */
static double plan_number(const gguf_file *f, const char *key, double otherwise)
{
    const uint8_t *p = f->data + 24;
    float f32;

    for (uint64_t n = plan_u64(f->data + 16); n > 0; n--) {
        const uint64_t key_bytes = plan_u64(p);
        const uint8_t *name = p + 8, *value = name + key_bytes + 4;
        const uint32_t type = plan_u32(value - 4);
        if (key_bytes == strlen(key) && !memcmp(name, key, key_bytes)) {
            if (type == 4 || type == 5)
                return plan_u32(value);
            REQUIRE(type == 6, "%s has type %u", key, type);
            memcpy(&f32, value, sizeof f32);
            return f32;
        }
        p = plan_skip(value, type);
    }
    REQUIRE(otherwise == otherwise, "the file has no %s", key);
    return otherwise;
}

static void plan_slot(llama_plan *plan, const char *name, int32_t role, int32_t layer)
{
    const int32_t i = plan->desc.n_slots;
    const gguf_tensor *t;

    if (layer < 0)
        snprintf(plan->names[i], sizeof plan->names[i], "%s.weight", name);
    else
        snprintf(plan->names[i], sizeof plan->names[i], "blk.%d.%s.weight", layer, name);
    t = gguf_find(&plan->file, plan->names[i]);
    if (!t && (role == DS4_ROLE_OUTPUT || role == DS4_ROLE_ROPE_FREQS))
        return;
    REQUIRE(t, "%s has no tensor %s", plan->path, plan->names[i]);
    plan->slots[i] = (ds4_slot){.role = role, .layer = layer, .type = t->type, .n_dims = t->n_dims, .offset = t->offset,
                                .bytes = t->bytes, .name = plan->names[i]};
    memcpy(plan->slots[i].dims, t->dims, sizeof t->dims);
    plan->desc.n_slots++;
}

/* Free with llama_plan_free; the plan must outlive no call but the open. */
static void llama_plan_read(llama_plan *plan, const char *path)
{
    ds4_error err;
    ds4_hparams *h = &plan->desc.hparams;
    const double absent = 0.0 / 0.0;

    memset(plan, 0, sizeof *plan);
    REQUIRE(!gguf_open(path, &plan->file, &err), "%s", err.message);
    plan->path = path;
    plan->slots = calloc(plan->file.n_tensors + 1, sizeof *plan->slots);
    plan->names = calloc(plan->file.n_tensors + 1, sizeof *plan->names);
    REQUIRE(plan->slots && plan->names, "memory");
    h->family = DS4_FAMILY_LLAMA;
    h->n_layer = (int32_t)plan_number(&plan->file, "llama.block_count", absent);
    h->d_model = (int32_t)plan_number(&plan->file, "llama.embedding_length", absent);
    h->n_head = (int32_t)plan_number(&plan->file, "llama.attention.head_count", absent);
    h->n_head_kv = (int32_t)plan_number(&plan->file, "llama.attention.head_count_kv", h->n_head);
    h->head_dim = (int32_t)plan_number(&plan->file, "llama.attention.key_length", h->d_model / h->n_head);
    h->d_ff = (int32_t)plan_number(&plan->file, "llama.feed_forward_length", absent);
    h->n_ctx_train = (int32_t)plan_number(&plan->file, "llama.context_length", absent);
    h->rope_dim = (int32_t)plan_number(&plan->file, "llama.rope.dimension_count", h->head_dim);
    h->rope_base = (float)plan_number(&plan->file, "llama.rope.freq_base", 10000);
    h->rms_eps = (float)plan_number(&plan->file, "llama.attention.layer_norm_rms_epsilon", absent);
    h->rope_kind = DS4_ROPE_NORM;
    h->rope_factor = h->rope_attn_factor = 1;

    plan_slot(plan, "token_embd", DS4_ROLE_TOKEN_EMBD, -1);
    h->n_vocab = (int32_t)plan->slots[0].dims[1];
    plan_slot(plan, "output_norm", DS4_ROLE_OUTPUT_NORM, -1);
    plan_slot(plan, "output", DS4_ROLE_OUTPUT, -1);
    plan_slot(plan, "rope_freqs", DS4_ROLE_ROPE_FREQS, -1);
    for (int32_t i = 0; i < h->n_layer; i++) {
        plan_slot(plan, "attn_norm", DS4_ROLE_ATTN_NORM, i);
        plan_slot(plan, "attn_q", DS4_ROLE_ATTN_Q, i);
        plan_slot(plan, "attn_k", DS4_ROLE_ATTN_K, i);
        plan_slot(plan, "attn_v", DS4_ROLE_ATTN_V, i);
        plan_slot(plan, "attn_output", DS4_ROLE_ATTN_OUT, i);
        plan_slot(plan, "ffn_norm", DS4_ROLE_FFN_NORM, i);
        plan_slot(plan, "ffn_gate", DS4_ROLE_FFN_GATE, i);
        plan_slot(plan, "ffn_up", DS4_ROLE_FFN_UP, i);
        plan_slot(plan, "ffn_down", DS4_ROLE_FFN_DOWN, i);
    }
    plan->desc.shards = &plan->path;
    plan->desc.n_shards = 1;
    plan->desc.slots = plan->slots;
}

static void llama_plan_free(llama_plan *plan)
{
    free(plan->slots);
    free(plan->names);
    gguf_close(&plan->file);
}

#endif
