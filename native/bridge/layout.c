/* layout.c - the sizes and offsets of the bridge's structs as this library was compiled, for the host to compare. */
#include "native/bridge/ds4_bridge.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

typedef struct field {
    const char *name;
    size_t offset;
} field;

typedef struct layout {
    const char *name;
    size_t size;
    const field *fields;
    size_t n_fields;
} layout;

#define F(type, name) {#name, offsetof(type, name)}

static const field error_fields[] = {F(ds4_error, status), F(ds4_error, message)};

static const field slot_fields[] = {
    F(ds4_slot, role),  F(ds4_slot, layer),    F(ds4_slot, type),   F(ds4_slot, n_dims), F(ds4_slot, dims),
    F(ds4_slot, shard), F(ds4_slot, reserved), F(ds4_slot, offset), F(ds4_slot, bytes),  F(ds4_slot, name),
};

static const field hparams_fields[] = {
    F(ds4_hparams, family),          F(ds4_hparams, n_layer),          F(ds4_hparams, d_model),
    F(ds4_hparams, n_head),          F(ds4_hparams, n_head_kv),        F(ds4_hparams, head_dim),
    F(ds4_hparams, d_ff),            F(ds4_hparams, n_vocab),          F(ds4_hparams, n_ctx_train),
    F(ds4_hparams, rope_kind),       F(ds4_hparams, rope_dim),         F(ds4_hparams, rope_scaling),
    F(ds4_hparams, rms_eps),         F(ds4_hparams, attn_scale),       F(ds4_hparams, rope_base),
    F(ds4_hparams, rope_factor),     F(ds4_hparams, rope_attn_factor), F(ds4_hparams, rope_ext_factor),
    F(ds4_hparams, rope_beta_fast),  F(ds4_hparams, rope_beta_slow),   F(ds4_hparams, rope_ctx_original),
    F(ds4_hparams, sliding_window),  F(ds4_hparams, dsv4),             F(ds4_hparams, decoder),
};

static const field dsv4_fields[] = {
    F(ds4_dsv4, lora_q),       F(ds4_dsv4, lora_o),        F(ds4_dsv4, groups_o),      F(ds4_dsv4, n_expert),
    F(ds4_dsv4, n_expert_used), F(ds4_dsv4, d_expert),     F(ds4_dsv4, n_hash_layer),  F(ds4_dsv4, index_heads),
    F(ds4_dsv4, index_dim),    F(ds4_dsv4, index_top_k),   F(ds4_dsv4, hc_count),      F(ds4_dsv4, hc_iterations),
    F(ds4_dsv4, n_mtp),        F(ds4_dsv4, n_ratios),      F(ds4_dsv4, n_clamps),      F(ds4_dsv4, expert_scale),
    F(ds4_dsv4, hc_eps),       F(ds4_dsv4, compress_rope_base), F(ds4_dsv4, ratios),   F(ds4_dsv4, clamp_experts),
    F(ds4_dsv4, clamp_shared),
};

static const field decoder_fields[] = {
    F(ds4_decoder, activation), F(ds4_decoder, n_expert),     F(ds4_decoder, n_expert_used),
    F(ds4_decoder, d_expert),   F(ds4_decoder, n_flags),      F(ds4_decoder, expert_scale),
    F(ds4_decoder, embd_scale), F(ds4_decoder, rope_base_local), F(ds4_decoder, flags),
};

static const field model_desc_fields[] = {
    F(ds4_model_desc, hparams), F(ds4_model_desc, shards), F(ds4_model_desc, n_shards),
    F(ds4_model_desc, n_slots), F(ds4_model_desc, slots),
};

static const field session_desc_fields[] = {
    F(ds4_session_desc, backend), F(ds4_session_desc, numeric),  F(ds4_session_desc, kv_type),
    F(ds4_session_desc, n_banks), F(ds4_session_desc, n_ctx),    F(ds4_session_desc, max_rows),
    F(ds4_session_desc, max_out), F(ds4_session_desc, n_threads), F(ds4_session_desc, flags),
    F(ds4_session_desc, rounding),
};

static const field sampler_fields[] = {
    F(ds4_sampler, temperature),        F(ds4_sampler, top_p),             F(ds4_sampler, min_p),
    F(ds4_sampler, repetition_penalty), F(ds4_sampler, frequency_penalty), F(ds4_sampler, presence_penalty),
    F(ds4_sampler, top_k),              F(ds4_sampler, output_from),       F(ds4_sampler, seed),
    F(ds4_sampler, bias_ids),           F(ds4_sampler, bias_values),       F(ds4_sampler, n_bias),
    F(ds4_sampler, reserved),
};

static const field row_fields[] = {
    F(ds4_row, bank), F(ds4_row, position), F(ds4_row, token), F(ds4_row, token_from), F(ds4_row, flags), F(ds4_row, n_top),
};

static const field result_fields[] = {
    F(ds4_result, n_rows),   F(ds4_result, n_out),   F(ds4_result, row_out),      F(ds4_result, tokens),
    F(ds4_result, logprobs), F(ds4_result, top_ids), F(ds4_result, top_logprobs), F(ds4_result, elapsed_ns),
};

static const field op_fields[] = {
    F(ds4_op_desc, op),        F(ds4_op_desc, numeric),     F(ds4_op_desc, n_threads),   F(ds4_op_desc, n_rows),
    F(ds4_op_desc, step_rows), F(ds4_op_desc, n_in),        F(ds4_op_desc, n_out),       F(ds4_op_desc, weight_type),
    F(ds4_op_desc, weight_rows), F(ds4_op_desc, kv_type),   F(ds4_op_desc, hparams),     F(ds4_op_desc, divisors),
    F(ds4_op_desc, weight),    F(ds4_op_desc, a),           F(ds4_op_desc, b),           F(ds4_op_desc, c),
    F(ds4_op_desc, tokens),    F(ds4_op_desc, banks),       F(ds4_op_desc, positions),   F(ds4_op_desc, sampler),
    F(ds4_op_desc, mask),      F(ds4_op_desc, kernels),
};

#define L(type, fields) {#type, sizeof(type), fields, sizeof(fields) / sizeof(fields[0])}

static const layout layouts[] = {
    L(ds4_error, error_fields),
    L(ds4_slot, slot_fields),
    L(ds4_hparams, hparams_fields),
    L(ds4_dsv4, dsv4_fields),
    L(ds4_decoder, decoder_fields),
    L(ds4_model_desc, model_desc_fields),
    L(ds4_session_desc, session_desc_fields),
    L(ds4_sampler, sampler_fields),
    L(ds4_row, row_fields),
    L(ds4_result, result_fields),
    L(ds4_op_desc, op_fields),
};

static char text[4096];

static void build(void)
{
    size_t at = 0;

    /* snprintf returns what it would have written: `at` past the end shows in the host as a line cut short. */
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0] && at < sizeof text; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %zu", i ? "\n" : "", layouts[i].name, layouts[i].size);
        for (size_t j = 0; j < layouts[i].n_fields && at < sizeof text; j++)
            at += (size_t)snprintf(text + at, sizeof text - at, " %s:%zu", layouts[i].fields[j].name,
                                   layouts[i].fields[j].offset);
    }
}

const char *ds4_abi_layout(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, build);
    return text;
}
