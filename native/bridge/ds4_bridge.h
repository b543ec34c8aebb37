/* ds4_bridge.h - the only engine header that the host sees.
 *
 * Rules that hold for every function here:
 *   - Handles are opaque. Every create/open has exactly one free; freeing NULL is allowed.
 *   - A function that can fail returns 0 (DS4_OK) or a ds4_status and, when `err` is not NULL, leaves there a
 *     NUL-terminated message that names what was expected and what was found. Nothing aborts, nothing throws.
 *   - Pointers passed in are borrowed for the call only, unless the comment says otherwise.
 *   - Handles are confined to one thread at a time (the host's engine thread). The exceptions, callable from any
 *     thread at any time while the handle is alive, are marked [any thread].
 *   - Descriptors are plain data: fixed-width integers, floats and borrowed pointers, no bit fields. Their sizes and
 *     offsets are published by ds4_abi_layout() and checked by the host at load.
 *
 * The host reads this file to generate its cffi declarations: keep to declarations, enums with literal values and
 * one-line macros with integer values.
 */
#ifndef DS4_BRIDGE_H
#define DS4_BRIDGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DS4_ABI_VERSION 1
#define DS4_MAX_DIMS 4
#define DS4_MAX_TOP 64        /* most top log-probabilities a row can ask for */
#define DS4_STEPS_IN_FLIGHT 2 /* tickets that may be submitted and not yet waited for */

#if defined(__GNUC__)
#define DS4_API __attribute__((visibility("default")))
#else
#define DS4_API
#endif

typedef enum ds4_status {
    DS4_OK = 0,
    DS4_ERR_ARG = 1,         /* a caller's mistake: out of range, wrong order, wrong state */
    DS4_ERR_IO = 2,          /* a file could not be opened, mapped or read */
    DS4_ERR_FORMAT = 3,      /* a file or snapshot is not what it claims to be */
    DS4_ERR_MISMATCH = 4,    /* the host's bind plan and the file disagree */
    DS4_ERR_UNSUPPORTED = 5, /* well formed, but this build cannot do it */
    DS4_ERR_MEMORY = 6,      /* an allocation was refused */
    DS4_ERR_CANCELLED = 7,   /* ds4_session_cancel was called; the banks are as they were before the step */
    DS4_ERR_CONTEXT = 8,     /* a row lies past the context of its bank */
    DS4_ERR_BUSY = 9,        /* DS4_STEPS_IN_FLIGHT tickets are open already, or a bank is used by an open ticket */
    DS4_ERR_INTERNAL = 10,
    DS4_ERR_REWIND = 11      /* a bank cannot go back that far exactly: see ds4_bank_rewind_floor */
} ds4_status;

typedef struct ds4_error {
    int32_t status;    /* ds4_status */
    char message[508]; /* UTF-8, NUL-terminated */
} ds4_error;

typedef enum ds4_family {
    DS4_FAMILY_LLAMA = 1,
    DS4_FAMILY_DEEPSEEK4 = 2,
    DS4_FAMILY_SMOLLM3 = 3, /* from here on: kin of LLAMA, which share its forward; see ds4_decoder */
    DS4_FAMILY_QWEN2 = 4,
    DS4_FAMILY_QWEN3 = 5,
    DS4_FAMILY_QWEN3MOE = 6,
    DS4_FAMILY_GEMMA3 = 7
} ds4_family;

/* Values are GGUF's own type numbers. */
typedef enum ds4_type {
    DS4_TYPE_F32 = 0,
    DS4_TYPE_F16 = 1,
    DS4_TYPE_Q4_0 = 2,
    DS4_TYPE_Q4_1 = 3,
    DS4_TYPE_Q5_0 = 6,
    DS4_TYPE_Q5_1 = 7,
    DS4_TYPE_Q8_0 = 8,
    DS4_TYPE_Q2_K = 10,
    DS4_TYPE_Q3_K = 11,
    DS4_TYPE_Q4_K = 12,
    DS4_TYPE_Q5_K = 13,
    DS4_TYPE_Q6_K = 14,
    DS4_TYPE_IQ2_XXS = 16,
    DS4_TYPE_I32 = 26, /* tables of integers only */
    DS4_TYPE_BF16 = 30,
    DS4_TYPE_MXFP4 = 39
} ds4_type;

typedef enum ds4_backend_kind {
    DS4_BACKEND_CPU = 0,
    DS4_BACKEND_GUARD = 1, /* CPU kernels over memory that is unreadable between operations; tests only */
    DS4_BACKEND_NULL = 2   /* computes nothing and draws a fixed cycle of tokens; measures the host */
} ds4_backend_kind;

typedef enum ds4_numeric {
    DS4_NUMERIC_SHIP = 0, /* quantised activations where that is faster */
    DS4_NUMERIC_FLOAT = 1 /* fp32 activations, fixed summation order; for proving */
} ds4_numeric;

typedef enum ds4_rope_kind {
    DS4_ROPE_NORM = 0, /* pairs (2i, 2i+1), GGUF's llama layout */
    DS4_ROPE_NEOX = 1  /* pairs (i, i + dim/2) */
} ds4_rope_kind;

typedef enum ds4_rope_scaling {
    DS4_ROPE_SCALING_NONE = 0,
    DS4_ROPE_SCALING_LINEAR = 1,
    DS4_ROPE_SCALING_YARN = 2
} ds4_rope_scaling;

/* What a tensor is for. A slot of the bind plan carries one of these and its layer (-1: none). */
typedef enum ds4_role {
    DS4_ROLE_TOKEN_EMBD = 1,  /* [vocab, d_model] */
    DS4_ROLE_OUTPUT_NORM = 2, /* [d_model] */
    DS4_ROLE_OUTPUT = 3,      /* [vocab, d_model]; absent when tied to the embedding */
    DS4_ROLE_ROPE_FREQS = 4,  /* [rope_dim / 2], divisors of the rope frequencies; optional */
    DS4_ROLE_ATTN_NORM = 10,  /* [d_model] */
    DS4_ROLE_ATTN_Q = 11,     /* [n_head * head_dim, d_model] */
    DS4_ROLE_ATTN_K = 12,     /* [n_head_kv * head_dim, d_model] */
    DS4_ROLE_ATTN_V = 13,     /* [n_head_kv * head_dim, d_model] */
    DS4_ROLE_ATTN_OUT = 14,   /* [d_model, n_head * head_dim] */
    DS4_ROLE_FFN_NORM = 15,   /* [d_model] */
    DS4_ROLE_FFN_GATE = 16,   /* [d_ff, d_model] */
    DS4_ROLE_FFN_UP = 17,     /* [d_ff, d_model] */
    DS4_ROLE_FFN_DOWN = 18,   /* [d_model, d_ff] */
    DS4_ROLE_ATTN_Q_BIAS = 20,    /* [n_head * head_dim] */
    DS4_ROLE_ATTN_K_BIAS = 21,    /* [n_head_kv * head_dim] */
    DS4_ROLE_ATTN_V_BIAS = 22,    /* [n_head_kv * head_dim] */
    DS4_ROLE_ATTN_Q_NORM = 23,    /* [head_dim], of each head's query before it rotates */
    DS4_ROLE_ATTN_K_NORM = 24,    /* [head_dim] */
    DS4_ROLE_ATTN_POST_NORM = 25, /* [d_model], of attention's result before it is added */
    DS4_ROLE_FFN_POST_NORM = 26,  /* [d_model], of the feed-forward's */

    /* DEEPSEEK4. Written [rows, cols] like those above. D d_model, H n_head, d head_dim, n hc_count, mix = (2 + n) n, Rq
     * lora_q, Ro lora_o, G groups_o, E n_expert, K n_expert_used, F d_expert, S d_ff, i index_heads, j index_dim,
     * r a layer's ratio, c = 2 where r is 4, else 1. The block that drafts (MTP) is layer n_layer. Besides these the family uses
     * TOKEN_EMBD, OUTPUT_NORM, OUTPUT (required), ATTN_NORM and FFN_NORM. */
    DS4_ROLE_OUTPUT_HC_FN = 100,    /* [n, n D] */
    DS4_ROLE_OUTPUT_HC_BASE = 101,  /* [n] */
    DS4_ROLE_OUTPUT_HC_SCALE = 102, /* [1] */
    DS4_ROLE_HC_ATTN_FN = 110,      /* [mix, n D] */
    DS4_ROLE_HC_ATTN_BASE = 111,    /* [mix] */
    DS4_ROLE_HC_ATTN_SCALE = 112,   /* [3] */
    DS4_ROLE_HC_FFN_FN = 113,       /* [mix, n D] */
    DS4_ROLE_HC_FFN_BASE = 114,     /* [mix] */
    DS4_ROLE_HC_FFN_SCALE = 115,    /* [3] */
    DS4_ROLE_ATTN_Q_A = 120,        /* [Rq, D] */
    DS4_ROLE_ATTN_Q_A_NORM = 121,   /* [Rq] */
    DS4_ROLE_ATTN_Q_B = 122,        /* [H d, Rq] */
    DS4_ROLE_ATTN_KV = 123,         /* [d, D] */
    DS4_ROLE_ATTN_KV_NORM = 124,    /* [d] */
    DS4_ROLE_ATTN_SINKS = 125,      /* [H] */
    DS4_ROLE_ATTN_OUT_A = 126,      /* [G Ro, H d / G]: G blocks of Ro rows */
    DS4_ROLE_ATTN_OUT_B = 127,      /* [D, G Ro] */
    DS4_ROLE_COMPRESS_KV = 130,     /* [c d, D]; layers with r > 0 */
    DS4_ROLE_COMPRESS_GATE = 131,   /* [c d, D] */
    DS4_ROLE_COMPRESS_APE = 132,    /* [r, c d] */
    DS4_ROLE_COMPRESS_NORM = 133,   /* [d] */
    DS4_ROLE_INDEX_Q_B = 140,       /* [i j, Rq]; layers with r = 4 */
    DS4_ROLE_INDEX_PROJ = 141,      /* [i, D] */
    DS4_ROLE_INDEX_KV = 142,        /* [2 j, D] */
    DS4_ROLE_INDEX_GATE = 143,      /* [2 j, D] */
    DS4_ROLE_INDEX_APE = 144,       /* [4, 2 j] */
    DS4_ROLE_INDEX_NORM = 145,      /* [j] */
    DS4_ROLE_ROUTER = 150,          /* [E, D]; this one and the experts' three also where ds4_decoder has experts */
    DS4_ROLE_ROUTER_BIAS = 151,     /* [E]; layers from n_hash_layer on; optional, 0 where it is absent */
    DS4_ROLE_ROUTER_HASH = 152,     /* I32 [n_vocab, K]: experts of each token; layers below n_hash_layer */
    DS4_ROLE_EXPERTS_GATE = 153,    /* [E, F, D]: three dims */
    DS4_ROLE_EXPERTS_UP = 154,      /* [E, F, D] */
    DS4_ROLE_EXPERTS_DOWN = 155,    /* [E, D, F] */
    DS4_ROLE_SHARED_GATE = 156,     /* [S, D] */
    DS4_ROLE_SHARED_UP = 157,       /* [S, D] */
    DS4_ROLE_SHARED_DOWN = 158,     /* [D, S] */
    DS4_ROLE_MTP_E_PROJ = 160,      /* [D, D]; this one and H_PROJ, or EH_PROJ; layer n_layer like all of MTP's */
    DS4_ROLE_MTP_H_PROJ = 161,      /* [D, D] */
    DS4_ROLE_MTP_EH_PROJ = 162,     /* [D, 2 D]: E_PROJ's columns, then H_PROJ's */
    DS4_ROLE_MTP_E_NORM = 163,      /* [D] */
    DS4_ROLE_MTP_H_NORM = 164,      /* [D] */
    DS4_ROLE_MTP_NORM = 165,        /* [D]; optional, OUTPUT_NORM where it is absent */
    DS4_ROLE_MTP_HC_FN = 166,       /* [n, n D]; with BASE and SCALE optional, the output's own where absent */
    DS4_ROLE_MTP_HC_BASE = 167,     /* [n] */
    DS4_ROLE_MTP_HC_SCALE = 168,    /* [1] */
    DS4_ROLE_MTP_TOKEN_EMBD = 169,  /* [n_vocab, D]; optional */
    DS4_ROLE_MTP_OUTPUT = 170       /* [n_vocab, D]; optional */
} ds4_role;

/* ---- library -------------------------------------------------------------------------------------------------- */

/* DS4_ABI_VERSION of the library, its release ("0.1.0") and the CPU kernels it chose ("avx2"). [any thread] */
DS4_API int32_t ds4_abi_version(void);
DS4_API const char *ds4_version(void);
DS4_API const char *ds4_cpu_kernels(void);

/* One line per struct, "name size field:offset field:offset ...", lines separated by '\n'. Static storage. [any thread] */
DS4_API const char *ds4_abi_layout(void);

/* ---- model ---------------------------------------------------------------------------------------------------- */

typedef struct ds4_model ds4_model;

/* One tensor of the bind plan, as the host read it from the file. */
typedef struct ds4_slot {
    int32_t role;               /* ds4_role */
    int32_t layer;              /* 0..n_layer-1, or -1 */
    int32_t type;               /* ds4_type */
    int32_t n_dims;             /* 1..DS4_MAX_DIMS */
    int64_t dims[DS4_MAX_DIMS]; /* GGUF order: dims[0] is the contiguous one; unused are 1 */
    int32_t shard;              /* index into ds4_model_desc.shards */
    int32_t reserved;           /* 0 */
    uint64_t offset;            /* bytes from the start of that shard's file */
    uint64_t bytes;             /* size of the tensor's data */
    const char *name;           /* the tensor's name in the file */
} ds4_slot;

/* What DEEPSEEK4 has beyond ds4_hparams. There d_ff is the width of the shared experts together, n_head_kv is 1, rope_dim
 * counts the trailing dims of a head, rope_base holds for layers with ratio 0 (which know no scaling), and the rope_scaling
 * fields describe the layers with a ratio. */
typedef struct ds4_dsv4 {
    int32_t lora_q;         /* width of the low-rank queries */
    int32_t lora_o;         /* rows of one group of the output projection */
    int32_t groups_o;       /* divides n_head */
    int32_t n_expert;
    int32_t n_expert_used;
    int32_t d_expert;       /* width of a routed expert */
    int32_t n_hash_layer;   /* the first layers: experts by token id */
    int32_t index_heads;    /* the indexer of layers with ratio 4 */
    int32_t index_dim;
    int32_t index_top_k;
    int32_t hc_count;       /* residual streams */
    int32_t hc_iterations;  /* of Sinkhorn's normalisation */
    int32_t n_mtp;          /* 0 or 1: there is a block that drafts, as layer n_layer with ratio 0 */
    int32_t n_ratios;       /* n_layer */
    int32_t n_clamps;       /* n_layer + n_mtp, of either array */
    float expert_scale;     /* multiplies the normalised expert weights */
    float hc_eps;
    float compress_rope_base; /* theta of layers with a ratio */
    const int32_t *ratios;  /* [n_ratios] 0, 4 or 128: tokens of a compressed row; borrowed like the descriptor */
    const float *clamp_experts; /* [n_clamps] limits of SwiGLU in routed experts, > 0 */
    const float *clamp_shared;  /* [n_clamps] and in the shared one */
} ds4_dsv4;

typedef enum ds4_activation {
    DS4_ACTIVATION_SILU = 0, /* x / (1 + e^-x) */
    DS4_ACTIVATION_GELU = 1  /* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
} ds4_activation;

typedef enum ds4_layer_flags {
    DS4_LAYER_LOCAL = 1,  /* sees no further than sliding_window, and has the local rope if there is one */
    DS4_LAYER_NO_ROPE = 2 /* nothing rotates */
} ds4_layer_flags;

/* What LLAMA's kin have beyond ds4_hparams. Biases and the norms of heads and results are there where the plan has them. */
typedef struct ds4_decoder {
    int32_t activation;     /* ds4_activation, of the gate */
    int32_t n_expert;       /* 0: a plain feed-forward of d_ff; else routed experts, by the softmax of their scores */
    int32_t n_expert_used;
    int32_t d_expert;       /* width of one */
    int32_t n_flags;        /* n_layer */
    float expert_scale;     /* multiplies the expert weights, which are normalised to a sum of 1 */
    float embd_scale;       /* multiplies the embedding */
    float rope_base_local;  /* theta of LOCAL layers, which then know no scaling; 0: they have the others' rope */
    const int32_t *flags;   /* [n_flags] ds4_layer_flags; borrowed like the descriptor */
} ds4_decoder;

typedef struct ds4_hparams {
    int32_t family;    /* ds4_family */
    int32_t n_layer;
    int32_t d_model;
    int32_t n_head;
    int32_t n_head_kv;
    int32_t head_dim;
    int32_t d_ff;
    int32_t n_vocab;
    int32_t n_ctx_train;
    int32_t rope_kind;    /* ds4_rope_kind */
    int32_t rope_dim;     /* leading (DEEPSEEK4: trailing) dims of a head that rotate; even, <= head_dim */
    int32_t rope_scaling; /* ds4_rope_scaling */
    float rms_eps;
    float attn_scale;          /* multiplies q.k; 0: 1/sqrt(head_dim) */
    float rope_base;           /* theta */
    float rope_factor;         /* context extension factor s >= 1; positions are divided by it (linear, YaRN) */
    float rope_attn_factor;    /* multiplies cos and sin; the host has already folded YaRN's 0.1 ln s + 1 into it; 1 */
    float rope_ext_factor;     /* YaRN mix, 0..1 */
    float rope_beta_fast;      /* YaRN, 32 */
    float rope_beta_slow;      /* YaRN, 1 */
    int32_t rope_ctx_original; /* YaRN: context before extension */
    int32_t sliding_window;    /* 0: none; else a row sees its own and the sliding_window-1 positions before it */
    const ds4_dsv4 *dsv4;      /* DEEPSEEK4 only, else NULL */
    const ds4_decoder *decoder; /* LLAMA and its kin; NULL: SiLU, no experts, every layer alike and within the window */
} ds4_hparams;

typedef struct ds4_model_desc {
    ds4_hparams hparams;
    const char *const *shards; /* paths of the GGUF files, in shard order */
    int32_t n_shards;
    int32_t n_slots;
    const ds4_slot *slots;
} ds4_model_desc;

/* Checks the plan by itself (ranges, roles, dims against hparams, each required role present once); opens nothing. */
DS4_API int32_t ds4_bind_plan_check(const ds4_model_desc *desc, ds4_error *err);

/* Checks the plan, maps the files read-only, walks their tensor directories itself and refuses the plan on any
 * difference in name, type, dims, offset or size. No tensor data is copied. Free with ds4_model_free. */
DS4_API int32_t ds4_model_open(const ds4_model_desc *desc, ds4_model **out, ds4_error *err);

/* Frees the model. Every session of it must have been freed. */
DS4_API void ds4_model_free(ds4_model *model);

/* The slots as native found them by its own walk, in the plan's order; valid for the model's life. */
DS4_API int32_t ds4_model_slots(const ds4_model *model, const ds4_slot **slots);

/* Bytes of weights that one decoded token reads (embedding row lookups left out). */
DS4_API uint64_t ds4_model_active_bytes(const ds4_model *model);

/* Reads every mapped weight page once, in order, calling progress(done, total, user) between pieces of about 8 MiB on
 * the calling thread; a non-zero return stops early with DS4_ERR_CANCELLED. progress may be NULL. */
typedef int32_t (*ds4_progress_fn)(uint64_t done, uint64_t total, void *user);
DS4_API int32_t ds4_model_warm(ds4_model *model, ds4_progress_fn progress, void *user, ds4_error *err);

/* ---- session: N banks and the step executor -------------------------------------------------------------------- */

typedef struct ds4_session ds4_session;

typedef enum ds4_session_flags {
    DS4_SESSION_HIDDEN = 1, /* keep the residual streams of output rows for ds4_result_hidden; one ticket in flight */
    DS4_SESSION_DRAFT = 2   /* keep what ds4_submit_draft needs; the model must have a block that drafts */
} ds4_session_flags;

/* Rounding that a model was trained with and that shipping arithmetic therefore imitates. */
typedef enum ds4_rounding {
    DS4_ROUNDING_CHOSEN = 1,  /* exactly the points below whose bits are set; without it, as the numeric mode says */
    DS4_ROUNDING_KV_FP8 = 2,  /* DEEPSEEK4: the unrotated part of raw and compressed rows, to E4M3 in groups of 64 */
    DS4_ROUNDING_INDEX_FP4 = 4 /* DEEPSEEK4: the indexer's queries and rows, by Hadamard to E2M1 in groups of 32 */
} ds4_rounding;

typedef struct ds4_session_desc {
    int32_t backend;   /* ds4_backend_kind */
    int32_t numeric;   /* ds4_numeric */
    int32_t kv_type;   /* DS4_TYPE_F32, F16 or Q8_0 */
    int32_t n_banks;   /* 1..1024 independent timelines */
    int32_t n_ctx;     /* positions of one bank */
    int32_t max_rows;  /* most rows in one step: the prefill width */
    int32_t max_out;   /* most rows of one step that may ask for output; >= n_banks */
    int32_t n_threads; /* 1..256; the calling thread is not one of them */
    int32_t flags;     /* ds4_session_flags */
    int32_t rounding;  /* ds4_rounding */
} ds4_session_desc;

/* A session borrows its model. Bank memory is reserved here and committed as positions are written. */
DS4_API int32_t ds4_session_create(ds4_model *model, const ds4_session_desc *desc, ds4_session **out, ds4_error *err);
DS4_API void ds4_session_free(ds4_session *session);

/* Bytes of KV cache that one further position of one bank takes in a session so described; 0 if desc is not valid.
 * DEEPSEEK4: compressed rows alone, rounded up; what a bank has besides does not grow with its context. */
DS4_API uint64_t ds4_kv_bytes_per_position(const ds4_hparams *hparams, int32_t kv_type);

/* Bytes of state that one bank takes when full, in a session of that context and prefill width; 0 if not valid. */
DS4_API uint64_t ds4_bank_bytes(const ds4_hparams *hparams, int32_t kv_type, int32_t n_ctx, int32_t max_rows);

/* Makes the open tickets end with DS4_ERR_CANCELLED as soon as a layer ends. Seen by tickets submitted before the call;
 * later ones run. [any thread] */
DS4_API void ds4_session_cancel(ds4_session *session);

/* ---- banks ---------------------------------------------------------------------------------------------------- */
/* None of these may be called for a bank that an open ticket uses (DS4_ERR_BUSY). */

/* Committed positions. -1: no such bank. */
DS4_API int32_t ds4_bank_length(const ds4_session *session, int32_t bank);

/* The least length above 0 that the bank can go back to; 0 is always possible. Families that keep every position answer 0;
 * DEEPSEEK4 keeps what going back 2 * max_rows positions takes, and nothing before a restored snapshot. -1: no such bank. */
DS4_API int32_t ds4_bank_rewind_floor(const ds4_session *session, int32_t bank);

/* Forgets positions length.. and on; pages past it go back to the system. length <= the bank's length. DS4_ERR_REWIND, and
 * no change, if 0 < length < ds4_bank_rewind_floor. */
DS4_API int32_t ds4_bank_truncate(ds4_session *session, int32_t bank, int32_t length, ds4_error *err);

/* Makes the first `length` positions of bank `to` a copy of those of `from`; whatever `to` held is gone.
 * DS4_ERR_REWIND as for ds4_bank_truncate of `from`. */
DS4_API int32_t ds4_bank_copy(ds4_session *session, int32_t from, int32_t to, int32_t length, ds4_error *err);

typedef struct ds4_snapshot ds4_snapshot;

/* A snapshot is a self-describing byte string (magic, version, shape, tokens, rows, checksum). The session's shape
 * must agree on restore except for n_banks and n_ctx; the bytes are checked whole before the bank is touched. */
DS4_API int32_t ds4_snapshot_take(ds4_session *session, int32_t bank, ds4_snapshot **out, ds4_error *err);
DS4_API int32_t ds4_snapshot_load(const void *data, uint64_t bytes, ds4_snapshot **out, ds4_error *err);
DS4_API int32_t ds4_snapshot_restore(ds4_session *session, int32_t bank, const ds4_snapshot *snapshot, ds4_error *err);
DS4_API const void *ds4_snapshot_data(const ds4_snapshot *snapshot, uint64_t *bytes); /* valid until it is freed */
DS4_API int32_t ds4_snapshot_length(const ds4_snapshot *snapshot);                    /* positions */
DS4_API void ds4_snapshot_free(ds4_snapshot *snapshot);

/* ---- sampling ------------------------------------------------------------------------------------------------- */

/* Applied in this order: logit bias, allow-mask, repetition, frequency and presence penalties; then, if temperature
 * > 0, temperature, top-k, top-p, min-p and a draw. temperature == 0 is greedy; ties go to the lowest id. */
typedef struct ds4_sampler {
    float temperature;        /* >= 0 */
    float top_p;              /* (0, 1]; 1: off */
    float min_p;              /* [0, 1); 0: off */
    float repetition_penalty; /* > 0; 1: off; over prompt and output */
    float frequency_penalty;  /* -2..2; over output only */
    float presence_penalty;   /* -2..2; over output only */
    int32_t top_k;            /* 0: off */
    int32_t output_from;      /* first position whose token counts as output for the two penalties above */
    uint64_t seed;            /* the draw for position p depends on (seed, p) alone */
    const int32_t *bias_ids;  /* n_bias token ids, each once */
    const float *bias_values; /* added to their logits */
    int32_t n_bias;
    int32_t reserved; /* 0 */
} ds4_sampler;

/* Sets how outputs of a bank are drawn from the next submitted step on; the descriptor is copied. */
DS4_API int32_t ds4_bank_set_sampler(ds4_session *session, int32_t bank, const ds4_sampler *sampler, ds4_error *err);

/* Allows only the ids whose bit is set, from the next submitted step on; words[id / 32] >> (id % 32). n_words must
 * cover the vocabulary; NULL allows all. The words are copied. A mask that allows no token is DS4_ERR_ARG. */
DS4_API int32_t ds4_bank_set_mask(ds4_session *session, int32_t bank, const uint32_t *words, int32_t n_words, ds4_error *err);

/* The sampler by itself: filters `logits` [n_vocab] (changed in place) and picks with `uniform` in [0, 1). history holds
 * the tokens so far, of which the first n_prompt are the prompt. mask may be NULL. [any thread] */
DS4_API int32_t ds4_sample_logits(const ds4_sampler *sampler, float *logits, int32_t n_vocab, const int32_t *history,
                                  int32_t n_history, int32_t n_prompt, const uint32_t *mask, double uniform,
                                  int32_t *token, ds4_error *err);

/* The uniform that the step uses for (seed, position). [any thread] */
DS4_API double ds4_sample_uniform(uint64_t seed, int32_t position);

/* ---- step ----------------------------------------------------------------------------------------------------- */

typedef enum ds4_row_flags {
    DS4_ROW_OUTPUT = 1, /* compute logits and draw a token */
    DS4_ROW_LOGITS = 2  /* also keep the raw logits for ds4_result_logits; implies OUTPUT */
} ds4_row_flags;

typedef struct ds4_row {
    int32_t bank;
    int32_t position;   /* rows of one bank come in order and continue its committed length */
    int32_t token;      /* >= 0: the token; -1: the output token of row `token_from` of the step submitted before */
    int32_t token_from; /* used when token is -1 */
    int32_t flags;      /* ds4_row_flags */
    int32_t n_top;      /* top log-probabilities wanted, 0..DS4_MAX_TOP; needs OUTPUT */
} ds4_row;

typedef struct ds4_batch ds4_batch;

/* A reusable list of rows. */
DS4_API int32_t ds4_batch_create(int32_t max_rows, ds4_batch **out, ds4_error *err);
DS4_API ds4_row *ds4_batch_rows(ds4_batch *batch); /* max_rows of them, written by the host */
DS4_API void ds4_batch_free(ds4_batch *batch);

/* Starts a step over the first n_rows rows; returns at once. The batch may be changed or freed after the call.
 * Committed lengths advance now, and fall back if the step is cancelled or fails. *ticket is > 0. */
DS4_API int32_t ds4_submit(ds4_session *session, const ds4_batch *batch, int32_t n_rows, int64_t *ticket, ds4_error *err);

/* Starts a step that guesses, in a session with DS4_SESSION_DRAFT. A row names a bank, the bank's length as its position (not
 * 0) and the token that stands there, and asks for output; one row a bank. Its output is what the block that drafts expects
 * after that token. Banks stay as they are: to use a guess, submit the token and the guess as two rows with
 * output; if the first row's output is not the guess, ds4_bank_truncate takes the second back, exactly. */
DS4_API int32_t ds4_submit_draft(ds4_session *session, const ds4_batch *batch, int32_t n_rows, int64_t *ticket,
                                 ds4_error *err);

/* Starts a step that also keeps the final norm's output of every row, for ds4_result_embed. Its ticket must be waited for
 * before anything else is submitted: DS4_ERR_BUSY. Draws are those of ds4_submit to the bit. */
DS4_API int32_t ds4_submit_embed(ds4_session *session, const ds4_batch *batch, int32_t n_rows, int64_t *ticket,
                                 ds4_error *err);

typedef struct ds4_result {
    int32_t n_rows;
    int32_t n_out;            /* rows that asked for output */
    const int32_t *row_out;   /* [n_rows] index into the arrays below, or -1 */
    const int32_t *tokens;    /* [n_out] drawn tokens */
    const float *logprobs;    /* [n_out] natural log-probability of the drawn token under the raw logits; computed for
                                 rows with n_top > 0, else 0 */
    const int32_t *top_ids;   /* [n_out][DS4_MAX_TOP] by falling log-probability, ties by rising id */
    const float *top_logprobs;
    int64_t elapsed_ns; /* time that the step ran on the backend */
} ds4_result;

/* Waits for a ticket; tickets are waited for in order, each once. The result's pointers stay valid until two further
 * tickets have been submitted. */
DS4_API int32_t ds4_wait(ds4_session *session, int64_t ticket, ds4_result *result, ds4_error *err);

/* Raw logits [n_vocab] of a row of a waited-for ticket that asked for them, else NULL; valid as long as its result. */
DS4_API const float *ds4_result_logits(const ds4_session *session, int64_t ticket, int32_t row);

/* Adds the final norm's outputs of rows row..row + n_rows - 1 to sum [d_model], one row after the other, so that a sum over
 * several steps does not depend on where they were cut. Of the ticket waited for last, before the next submission, and it
 * must be one of ds4_submit_embed. */
DS4_API int32_t ds4_result_embed(ds4_session *session, int64_t ticket, int32_t row, int32_t n_rows, double *sum,
                                 ds4_error *err);

/* For debugging, in sessions with DS4_SESSION_HIDDEN: the residual of an output row of the ticket waited for last, before
 * the next submission. point 0 is the embedding, i the output of layer i - 1. out: [ds4_hidden_width], streams one after
 * the other. */
DS4_API int32_t ds4_hidden_width(const ds4_session *session);
DS4_API int32_t ds4_result_hidden(ds4_session *session, int64_t ticket, int32_t row, int32_t point, float *out,
                                  ds4_error *err);

/* ---- quantised blocks, for tools and tests ---------------------------------------------------------------------- */

/* Elements and bytes of one block of a type; 0 if the type is unknown. [any thread] */
DS4_API int32_t ds4_type_block(int32_t type, int32_t *bytes);

/* n elements (a whole number of blocks) of `type` to fp32. [any thread] */
DS4_API int32_t ds4_dequantize(int32_t type, const void *blocks, int64_t n, float *out, ds4_error *err);

/* y[r, o] = sum_k W[o, k] x[r, k] through the kernels that a session would use. W: n_out rows of n_in elements of `type`;
 * x: [n_rows, n_in]; y: [n_rows, n_out]. kernels: NULL (best) or a name of ds4_cpu_kernels. */
DS4_API int32_t ds4_matmul_probe(int32_t type, const void *w, int32_t n_out, int32_t n_in, const float *x, int32_t n_rows,
                                 float *y, int32_t numeric, int32_t n_threads, const char *kernels, ds4_error *err);

/* n fp32 numbers to blocks of F16, BF16 or Q8_0, the three types that the engine itself writes. [any thread] */
DS4_API int32_t ds4_quantize(int32_t type, const float *x, int64_t n, void *blocks, ds4_error *err);

/* ---- one operation by itself, for tools and tests --------------------------------------------------------------- */

/* a, b, c and y are row-major, n_rows rows each; a has n_in columns, y has n_out. */
typedef enum ds4_op {
    DS4_OP_EMBED = 1,     /* y[r] = W[tokens[r]]; W: [weight_rows, n_out] */
    DS4_OP_RMSNORM = 2,   /* y[r] = a[r] / sqrt(mean(a[r]^2) + rms_eps) * W; W: [n_in] */
    DS4_OP_MATMUL = 3,    /* y[r] = W a[r]; W: [n_out, n_in] */
    DS4_OP_ADD = 4,       /* y = a + b */
    DS4_OP_SWIGLU = 5,    /* y = a / (1 + exp(-a)) * b */
    DS4_OP_ROPE = 6,      /* y[r] = a[r] turned by positions[r]; n_head, head_dim and the rope fields of hparams */
    DS4_OP_ATTENTION = 7, /* stores b (K) and c (V), [n_rows, n_head_kv * head_dim], at (banks, positions) in a cache of
                             kv_type; y[r] = attention of a[r] (q) over its bank up to its position; the head fields,
                             attn_scale and sliding_window of hparams. Rows of a bank come in order from position 0. */
    DS4_OP_SAMPLE = 8     /* a: one row of raw logits; draws for positions[0] after the positions[0] + 1 `tokens`.
                             ids[0], y[0]: the token and its log-probability (if n_out > 1); behind them those of the
                             n_out - 1 likeliest */
} ds4_op;

typedef struct ds4_op_desc {
    int32_t op;      /* ds4_op */
    int32_t numeric; /* ds4_numeric */
    int32_t n_threads;
    int32_t n_rows;
    int32_t step_rows; /* the rows run in order in steps of at most so many; 0: in one */
    int32_t n_in;
    int32_t n_out;
    int32_t weight_type;        /* ds4_type */
    int32_t weight_rows;        /* EMBED */
    int32_t kv_type;            /* ATTENTION: DS4_TYPE_F32, F16 or Q8_0 */
    const ds4_hparams *hparams; /* the fields that the operation names; the others are not looked at */
    const float *divisors;      /* ROPE: [rope_dim / 2] divisors of the frequencies, or NULL */
    const void *weight;
    const float *a;
    const float *b;
    const float *c;
    const int32_t *tokens;
    const int32_t *banks;
    const int32_t *positions;
    const ds4_sampler *sampler; /* SAMPLE */
    const uint32_t *mask;       /* SAMPLE: as for ds4_bank_set_mask, or NULL */
    const char *kernels;        /* NULL (best) or a name of ds4_cpu_kernels */
} ds4_op_desc;

/* Records the operation on the CPU backend and runs it over the caller's memory, as a session would. y: [n_rows, n_out];
 * ids: [n_out], SAMPLE alone. */
DS4_API int32_t ds4_ops_probe(const ds4_op_desc *desc, float *y, int32_t *ids, ds4_error *err);

#ifdef __cplusplus
}
#endif
#endif
