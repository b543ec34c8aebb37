/* bind.c - the llama family: from metadata to the forward's parameters, and which tensor fills which slot. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/bind/getters.h"
#include "oracles/common/subject.h"

#define WIDEST INT64_C(16777216)

typedef struct shape {
    int64_t n_layer, d_model, n_head, n_head_kv, head_dim, d_ff, n_vocab, n_ctx_train, rope_dim, rope_scaling, rope_ctx_original, sliding_window;
    double rms_eps, attn_scale, rope_base, rope_factor, rope_attn_factor, rope_ext_factor, rope_beta_fast, rope_beta_slow;
} shape;

/* ---- keys that ask for what this forward does not do ---- */

typedef enum { NOTHING, INTEGER_0, FLOAT_0, FLOAT_0_OR_1, TRUE_ONLY, FALSE_ONLY } neutral;

static const struct {
    const char *name;
    neutral value;
} foreign[] = {
    {"llama.expert_count", INTEGER_0},
    {"llama.expert_used_count", INTEGER_0},
    {"llama.attention.causal", TRUE_ONLY},
    {"llama.attention.clamp_kqv", FLOAT_0},
    {"llama.attention.max_alibi_bias", FLOAT_0},
    {"llama.attention.sliding_window_pattern", NOTHING},
    {"llama.attention.shared_kv_layers", INTEGER_0},
    {"llama.attention.key_length_mla", INTEGER_0},
    {"llama.attention.value_length_mla", INTEGER_0},
    {"llama.attn_logit_softcapping", FLOAT_0},
    {"llama.final_logit_softcapping", FLOAT_0},
    {"llama.embedding_scale", FLOAT_0_OR_1},
    {"llama.residual_scale", FLOAT_0_OR_1},
    {"llama.logit_scale", FLOAT_0_OR_1},
    {"llama.rope.dimension_sections", NOTHING},
    {"llama.rope.scaling.alpha", FLOAT_0},
    {"llama.use_parallel_residual", FALSE_ONLY},
    {"llama.nextn_predict_layers", INTEGER_0},
};

static bool is_neutral(const key *k, neutral value) {
    const bool is_float = k->type == F32 || k->type == F64;
    switch (value) {
    case INTEGER_0: return is_integer(k->type) && k->bits == 0;
    case FLOAT_0: return is_float && k->number == 0;
    case FLOAT_0_OR_1: return is_float && (k->number == 0 || k->number == 1);
    case TRUE_ONLY: return k->type == BOOL && k->bits == 1;
    case FALSE_ONLY: return k->type == BOOL && k->bits == 0;
    default: return false;
    }
}

/* The other keys that are understood. */
static const char *const understood[] = {
    "llama.block_count",
    "llama.embedding_length",
    "llama.feed_forward_length",
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.context_length",
    "llama.rope.dimension_count",
    "llama.rope.scale_linear",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.attn_factor",
    "llama.rope.scaling.type",
    "llama.rope.scaling.yarn_ext_factor",
    "llama.rope.scaling.yarn_log_multiplier",
    "llama.rope.scaling.yarn_attn_factor",
    "llama.rope.scaling.yarn_beta_slow",
    "llama.rope.scaling.yarn_beta_fast",
    "llama.rope.scaling.original_context_length",
    "llama.rope.freq_base",
    "llama.attention.sliding_window",
    "llama.vocab_size",
    "llama.attention.layer_norm_rms_epsilon",
    "llama.attention.scale",
    "llama.tensor_data_layout",      /* carry no */
    "llama.rope.scaling.finetuned",  /* arithmetic */
};

static bool is_unknown(bytes name) {
    if (name.length < 6 || memcmp(name.data, "llama.", 6) != 0) return false;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (name.length == strlen(foreign[i].name) && memcmp(name.data, foreign[i].name, name.length) == 0) return false;
    for (size_t i = 0; i < sizeof understood / sizeof understood[0]; i++)
        if (name.length == strlen(understood[i]) && memcmp(name.data, understood[i], name.length) == 0) return false;
    return true;
}

/* ---- the forward's parameters ---- */

static bool text_is(bytes text, const char *word) { return text.length == strlen(word) && memcmp(text.data, word, text.length) == 0; }

static void read_head_length(work *w, shape *s) {
    const char *const key_name = "llama.attention.key_length", *const value_name = "llama.attention.value_length";
    const char *const heads = "llama.attention.head_count";
    const int64_t absent = 0;
    int64_t k = get_integer(w, key_name, 1, INT_LIMIT, &absent), v = get_integer(w, value_name, 1, INT_LIMIT, &absent);
    demand(w, (k != absent && v != absent) || s->d_model % s->n_head == 0, "metadata_range", heads);
    if (k == absent) k = s->d_model / s->n_head;
    if (v == absent) v = s->d_model / s->n_head;
    demand(w, k == v, "unsupported_shape", value_name);
    demand(w, k >= 1 && k <= 1024, "metadata_range", key_name);
    demand(w, k * s->n_head <= WIDEST, "metadata_range", heads);
    s->head_dim = k;
}

/* Arithmetic in doubles, one rounding an operation: built without contraction (-ffp-contract=off). */
static void read_rope_scaling(work *w, shape *s) {
    static const double zero = 0, one = 1;
    const char *const factor_name = "llama.rope.scaling.factor", *const type_name = "llama.rope.scaling.type";
    const double old = get_number(w, "llama.rope.scale_linear", 0, 1e6, &zero);
    double factor = get_number(w, factor_name, 0, 1e6, &old);
    if (factor == 0) factor = 1;
    const double attn = get_number(w, "llama.rope.scaling.attn_factor", 1e-3, 1e3, &one);
    const bytes type = get_string(w, type_name, "linear");
    const bool none = text_is(type, "none"), linear = text_is(type, "linear"), yarn = text_is(type, "yarn");
    demand(w, none || linear || yarn, "unsupported_key", type_name);
    const double ext = get_number(w, "llama.rope.scaling.yarn_ext_factor", 0, 1, &one);
    const double k = get_number(w, "llama.rope.scaling.yarn_log_multiplier", 0, 1e4, &zero);
    const double given = get_number(w, "llama.rope.scaling.yarn_attn_factor", 1e-3, 1e3, &one);
    const double slow = get_number(w, "llama.rope.scaling.yarn_beta_slow", 1e-3, 1e6, &one);
    const double fast_default = slow > 32 ? slow : 32;
    const double fast = get_number(w, "llama.rope.scaling.yarn_beta_fast", slow, 1e6, &fast_default);
    const int64_t original = get_integer(w, "llama.rope.scaling.original_context_length", 1, INT_LIMIT, &s->n_ctx_train);
    demand(w, none || factor >= 1, "metadata_range", factor_name);
    static const double base_default = 10000;
    s->rope_base = get_number(w, "llama.rope.freq_base", 1, 1e12, &base_default);
    demand(w, !(yarn && s->rope_base == 1), "metadata_range", "llama.rope.freq_base");

    s->rope_factor = none ? 1 : factor;
    s->rope_scaling = linear && factor > 1 ? 1 : 0;
    s->rope_attn_factor = attn;
    s->rope_beta_fast = 32;
    s->rope_beta_slow = 1;
    if (!yarn) return;
    double m = given;
    if (ext != 0) {
        const double logarithm = 0.1 * log(factor);
        const double product = logarithm * k;
        m = (logarithm + 1) / (product + 1);
    }
    s->rope_scaling = 2;
    s->rope_attn_factor = m * attn;
    s->rope_ext_factor = ext;
    s->rope_beta_fast = fast;
    s->rope_beta_slow = slow;
    s->rope_ctx_original = original;
}

static tensor *find_tensor(const model *m, const char *name) {
    uint64_t index = 0;
    return names_get(&m->tensor_index, (bytes){(const uint8_t *)name, strlen(name)}, &index) ? &m->tensors[index] : NULL;
}

static void read_vocabulary(work *w, shape *s) {
    const char *const embedding_name = "token_embd.weight", *const size_name = "llama.vocab_size", *const tokens_name = "tokenizer.ggml.tokens";
    const tensor *embedding = find_tensor(w->m, embedding_name);
    demand(w, embedding != NULL, "tensor_missing", embedding_name);
    demand(w, embedding == NULL || embedding->dims == 2, "tensor_dims", embedding_name);
    if (w->refused) return;
    s->n_vocab = (int64_t)embedding->dim[1];
    demand(w, get_integer(w, size_name, 1, INT_LIMIT, &s->n_vocab) == s->n_vocab, "metadata_range", size_name);
    const key *tokens = find(w, tokens_name);
    demand(w, tokens == NULL || tokens->type == ARRAY, "metadata_type", tokens_name);
    demand(w, tokens == NULL || tokens->count == (uint64_t)s->n_vocab, "metadata_range", tokens_name);
    demand(w, s->n_vocab <= WIDEST, "metadata_range", size_name);
}

static void read_shape(work *w, shape *s) {
    const bytes architecture = get_string(w, "general.architecture", NULL);
    demand(w, text_is(get_string(w, "general.type", "model"), "model"), "unsupported_kind", "general.type");
    demand(w, text_is(architecture, "llama"), "unsupported_architecture", "general.architecture");
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        const key *k = find(w, foreign[i].name);
        demand(w, k == NULL || is_neutral(k, foreign[i].value), "unsupported_key", foreign[i].name);
    }
    static const double zero = 0;
    static const int64_t no_window = 0;
    s->n_layer = get_integer(w, "llama.block_count", 1, 1024, NULL);
    s->d_model = get_integer(w, "llama.embedding_length", 1, WIDEST, NULL);
    s->d_ff = get_uniform(w, "llama.feed_forward_length", WIDEST, s->n_layer, NULL);
    s->n_head = get_uniform(w, "llama.attention.head_count", 65536, s->n_layer, NULL);
    s->n_head_kv = get_uniform(w, "llama.attention.head_count_kv", s->n_head, s->n_layer, &s->n_head);
    demand(w, s->n_head % s->n_head_kv == 0, "metadata_range", "llama.attention.head_count_kv");
    read_head_length(w, s);
    s->n_ctx_train = get_integer(w, "llama.context_length", 1, INT_LIMIT, NULL);
    s->rope_dim = get_integer(w, "llama.rope.dimension_count", 2, s->head_dim, &s->head_dim);
    demand(w, s->rope_dim % 2 == 0, "metadata_range", "llama.rope.dimension_count");
    read_rope_scaling(w, s);
    s->sliding_window = get_integer(w, "llama.attention.sliding_window", 0, INT_LIMIT, &no_window);
    read_vocabulary(w, s);
    s->rms_eps = get_number(w, "llama.attention.layer_norm_rms_epsilon", 0, 1, NULL);
    s->attn_scale = get_number(w, "llama.attention.scale", 0, 1e4, &zero);
}

/* ---- slots ---- */

typedef struct slot {
    int role, layer;
    char name[48];
    size_t dims;
    int64_t dim[2];
    bool optional;
    tensor *filler; /* NULL: left out */
} slot;

/* Elements and bytes of a block, by tensor type; vectors take type 0 alone. */
static const struct {
    uint64_t type, elements, size;
} matrix_types[] = {
    {0, 1, 4},     {1, 1, 2},     {2, 32, 18},    {3, 32, 20},    {6, 32, 22},    {7, 32, 24},   {8, 32, 34},
    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210}, {30, 1, 2},
};
#define MATRIX_TYPES (sizeof matrix_types / sizeof matrix_types[0])

static size_t type_row(uint64_t type) {
    size_t row = 0;
    while (row < MATRIX_TYPES && matrix_types[row].type != type) row++;
    return row;
}

static void add_slot(slot *slots, size_t *n, int role, int layer, const char *name, int64_t first, int64_t second, size_t dims, bool optional) {
    slot *s = &slots[(*n)++];
    *s = (slot){.role = role, .layer = layer, .dims = dims, .dim = {first, second}, .optional = optional};
    if (layer < 0) snprintf(s->name, sizeof s->name, "%s.weight", name);
    else snprintf(s->name, sizeof s->name, "blk.%d.%s.weight", layer, name);
}

#define FIXED_SLOTS 4u
#define LAYER_SLOTS 9u

static size_t list_slots(const shape *s, slot *slots) {
    const int64_t d = s->d_model, q = s->n_head * s->head_dim, kv = s->n_head_kv * s->head_dim;
    size_t n = 0;
    add_slot(slots, &n, 1, -1, "token_embd", d, s->n_vocab, 2, false);
    for (int i = 0; i < (int)s->n_layer; i++) {
        add_slot(slots, &n, 10, i, "attn_norm", d, 0, 1, false);
        add_slot(slots, &n, 11, i, "attn_q", d, q, 2, false);
        add_slot(slots, &n, 12, i, "attn_k", d, kv, 2, false);
        add_slot(slots, &n, 13, i, "attn_v", d, kv, 2, false);
        add_slot(slots, &n, 14, i, "attn_output", q, d, 2, false);
        add_slot(slots, &n, 15, i, "ffn_norm", d, 0, 1, false);
        add_slot(slots, &n, 16, i, "ffn_gate", d, s->d_ff, 2, false);
        add_slot(slots, &n, 17, i, "ffn_up", d, s->d_ff, 2, false);
        add_slot(slots, &n, 18, i, "ffn_down", s->d_ff, d, 2, false);
    }
    add_slot(slots, &n, 2, -1, "output_norm", d, 0, 1, false);
    add_slot(slots, &n, 3, -1, "output", d, s->n_vocab, 2, true);
    add_slot(slots, &n, 4, -1, "rope_freqs", s->rope_dim / 2, 0, 1, true);
    return n;
}

static void fill_slot(work *w, slot *s) {
    tensor *t = find_tensor(w->m, s->name);
    demand(w, t != NULL || s->optional, "tensor_missing", s->name);
    if (t == NULL) return;
    bool same = t->dims == s->dims;
    for (size_t d = 0; same && d < s->dims; d++) same = t->dim[d] == (uint64_t)s->dim[d];
    demand(w, same, "tensor_dims", s->name);
    demand(w, s->dims == 1 ? t->type == 0 : type_row(t->type) < MATRIX_TYPES, "tensor_type", s->name);
    t->filled = true;
    s->filler = t;
}

/* blk.<digits>.attn_rot_embd, with or without .weight */
static bool is_ignored(bytes name) {
    static const char tail[] = ".attn_rot_embd", weight[] = ".weight";
    size_t at = 4;
    if (name.length < 4 || memcmp(name.data, "blk.", 4) != 0) return false;
    while (at < name.length && name.data[at] >= '0' && name.data[at] <= '9') at++;
    if (at == 4) return false;
    const bytes rest = {name.data + at, name.length - at};
    if (rest.length < sizeof tail - 1 || memcmp(rest.data, tail, sizeof tail - 1) != 0) return false;
    const bytes end = {rest.data + sizeof tail - 1, rest.length - (sizeof tail - 1)};
    return end.length == 0 || text_is(end, weight);
}

static void check_others(work *w) {
    for (size_t i = 0; !w->refused && i < w->m->n_tensors; i++) {
        const tensor *t = &w->m->tensors[i];
        if (t->filled || is_ignored(t->name)) continue;
        write_verdict(w->out, "tensor_unused", t->name);
        w->refused = true;
    }
}

/* The dimensions are the slot's, at most 2^24 each, so nothing here is out of range. */
static void check_place(work *w, const slot *s) {
    const tensor *t = s->filler;
    if (t == NULL || w->refused) return;
    const size_t row = type_row(t->type);
    const uint64_t elements = t->dim[0] * (t->dims == 2 ? t->dim[1] : 1);
    demand(w, t->dim[0] % matrix_types[row].elements == 0, "bind_plan", s->name);
    demand(w, t->nbytes == elements / matrix_types[row].elements * matrix_types[row].size, "bind_plan", s->name);
    demand(w, t->shard < w->m->n_shards, "bind_plan", s->name);
    if (w->refused) return;
    const shard *home = &w->m->shards[t->shard];
    demand(w, t->offset % home->alignment == 0, "bind_plan", s->name);
    demand(w, t->offset >= home->data && t->offset + t->nbytes <= home->size, "bind_plan", s->name);
}

/* ---- the answer ---- */

static void write_float(tape *out, double value) {
    const float single = (float)value;
    uint32_t bits;
    char text[12];
    memcpy(&bits, &single, sizeof bits);
    snprintf(text, sizeof text, "%08X", (unsigned)bits);
    tape_word(out, text);
}

static void write_plan(tape *out, const model *m, const shape *s, const slot *slots, size_t n) {
    const int64_t integers[] = {1,          s->n_layer,     s->d_model, s->n_head,   s->n_head_kv,    s->head_dim,         s->d_ff,
                                s->n_vocab, s->n_ctx_train, 0,          s->rope_dim, s->rope_scaling, s->rope_ctx_original, s->sliding_window};
    const double floats[] = {s->rms_eps,          s->attn_scale,      s->rope_base,      s->rope_factor,
                             s->rope_attn_factor, s->rope_ext_factor, s->rope_beta_fast, s->rope_beta_slow};
    tape_word(out, "plan");
    tape_word(out, "llama");
    tape_end(out);
    tape_word(out, "hparams");
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) tape_int(out, integers[i]);
    tape_end(out);
    tape_word(out, "floats");
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) write_float(out, floats[i]);
    tape_end(out);
    for (size_t i = 0; i < n; i++) {
        const tensor *t = slots[i].filler;
        if (t == NULL) continue;
        tape_word(out, "slot");
        tape_int(out, slots[i].role);
        tape_int(out, slots[i].layer);
        tape_uint(out, t->type);
        tape_uint(out, t->shard);
        tape_uint(out, t->offset);
        tape_uint(out, t->nbytes);
        tape_text(out, slots[i].name);
        for (size_t d = 0; d < t->dims; d++) tape_uint(out, t->dim[d]);
        tape_end(out);
    }
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].filled) continue;
        tape_word(out, "ignored");
        tape_bytes(out, m->tensors[i].name.data, m->tensors[i].name.length);
        tape_end(out);
    }
    for (size_t i = 0; i < m->n_keys; i++) {
        if (!is_unknown(m->keys[i].name)) continue;
        tape_word(out, "unknown");
        tape_bytes(out, m->keys[i].name.data, m->keys[i].name.length);
        tape_end(out);
    }
}

static int bind(const model *m, tape *out) {
    work w = {m, out, false};
    shape s = {0};
    read_shape(&w, &s);
    if (w.refused) return ORACLE_OK;
    slot *slots = malloc((FIXED_SLOTS + LAYER_SLOTS * (size_t)s.n_layer) * sizeof *slots);
    if (slots == NULL) return ORACLE_NO_MEMORY;
    const size_t n = list_slots(&s, slots);
    for (size_t i = 0; !w.refused && i < n; i++) fill_slot(&w, &slots[i]);
    check_others(&w);
    for (size_t i = 0; !w.refused && i < n; i++) check_place(&w, &slots[i]);
    if (!w.refused) write_plan(out, m, &s, slots, n);
    free(slots);
    return ORACLE_OK;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    model m;
    int rc = model_read(&m, input, length);
    if (rc == ORACLE_OK) rc = bind(&m, out);
    model_free(&m);
    return rc;
}

const oracle_kind oracle_bind = {"bind", NULL, run, NULL};
