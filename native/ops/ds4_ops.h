/* ds4_ops.h - the backend table: the operations that a forward is written in.
 *
 * A forward does not run operations, it records them into a program, once for each bucket of row counts. The engine then
 * fills the step's input buffers and runs the program. Nothing in engine/ reads a buffer or branches on a position
 * between two operations: row counts, tokens, positions, banks and sampling parameters are read from buffers by the
 * operations themselves, so a program recorded at one position is right at every other (the guard backend proves it).
 *
 * Matrices are row-major fp32 with one row for each row of the step (DS4_ROWS_ALL) or for each row that asked for
 * output (DS4_ROWS_OUT). The counts of both are inputs of the step, never of the recording.
 *
 * Summation order: an output element's order of summation depends on the shapes and on its own position only, never on
 * how many rows share the step, nor on the number of threads. In DS4_NUMERIC_FLOAT that makes prefill in any chunking,
 * single decode and batched decode bit-identical.
 *
 * Threading: a backend is used by one thread at a time (the session's owner) except for run_cancel.
 */
#ifndef DS4_OPS_H
#define DS4_OPS_H

#include "native/bridge/ds4_bridge.h"

typedef struct ds4_backend ds4_backend; /* a device with its workers and memory */
typedef struct ds4_buffer ds4_buffer;   /* memory of a backend */
typedef struct ds4_weight ds4_weight;   /* a matrix or vector of the model, on the backend */
typedef struct ds4_program ds4_program; /* recorded operations */

typedef enum ds4_rows { DS4_ROWS_ALL = 0, DS4_ROWS_OUT = 1 } ds4_rows;

/* A matrix of activations: rows x cols fp32, row r at base + r * stride elements. */
typedef struct ds4_mat {
    ds4_buffer *buffer;
    size_t offset; /* bytes */
    int32_t cols;
    int32_t stride; /* elements */
    ds4_rows rows;
} ds4_mat;

/* What the step reads; all buffers live as long as the programs. Written by the engine before run. */
typedef struct ds4_step_inputs {
    ds4_buffer *counts;   /* int32 [4]: n_rows, n_out, 0, 0 */
    ds4_buffer *tokens;   /* int32 [max_rows]: token, or -1 */
    ds4_buffer *from;     /* int32 [max_rows]: row of the step before whose drawn token this is, if token is -1 */
    ds4_buffer *banks;    /* int32 [max_rows] */
    ds4_buffer *positions; /* int32 [max_rows] */
    ds4_buffer *out_rows; /* int32 [max_out]: the row that output o belongs to, rising */
    ds4_buffer *samplers; /* ds4_row_sampler [max_out] */
    ds4_buffer *histories; /* int32_t * [max_rows]: the token array of the row's bank (host memory that lives until the
                              run is waited for), or NULL; `embed` writes the row's token at [position] */
} ds4_step_inputs;

/* Sampling of one output row. The engine writes it; `sample` reads it. */
typedef struct ds4_row_sampler {
    ds4_sampler params;       /* bias pointers stay valid for the step */
    const uint32_t *mask;     /* NULL: all allowed */
    const int32_t *history;   /* host memory, int32 [position + 1]: tokens of the bank, the same array as the row's in
                                 ds4_step_inputs.histories, so that entry `position` is resolved when `sample` reads it */
    int32_t n_history;        /* position + 1 */
    int32_t n_top;
} ds4_row_sampler;

/* What the step leaves for the host; host-readable after wait. The engine keeps DS4_STEPS_IN_FLIGHT sets. */
typedef struct ds4_step_outputs {
    int32_t *tokens;       /* [max_out] */
    float *logprobs;       /* [max_out] */
    int32_t *top_ids;      /* [max_out][DS4_MAX_TOP] */
    float *top_logprobs;   /* [max_out][DS4_MAX_TOP] */
    float *logits;         /* NULL, or [n_out][n_vocab]: raw logits of all outputs are copied here */
    int32_t *row_out;      /* [max_rows] output index of each row, or -1; written by `run` before it returns, from
                              out_rows; the next step's `from` goes through it */
} ds4_step_outputs;

/* KV cache of all banks. Two kinds:
 *
 * window == 0: per bank and layer, K rows then V rows of every position. The backend chooses the layout inside a layer.
 *
 * window > 0, a latent cache (DeepSeek V4; n_head_kv is 1): a row of head_dim is key and value at once. Per bank and layer it
 * holds
 *   raw rows         of the last window + rewind positions: a ring
 *   compressed rows  ratio > 0: one for each `ratio` positions, all of them
 *   rolling state    ratio > 0: what `compress` saw of the last positions, fp32: a ring. It reaches back 2 ratio (ratio 4,
 *                    whose rows overlap) or ratio positions, and rewind more
 *   index rows       ratio 4: a row of index_dim beside each compressed row, with rolling state of its own
 *   carried rows     carry > 0: fp32 rows of `carry` elements of the last rewind + 1 positions: a ring
 * A bank that has once held `high` positions can go back exactly to any length >= high - rewind, and to 0. So a step may have
 * rewind / DS4_STEPS_IN_FLIGHT rows: what failed steps have overwritten is then never missed. */
typedef struct ds4_cache_desc {
    int32_t type; /* DS4_TYPE_F32, F16, Q8_0 */
    int32_t n_banks, n_ctx, n_layer;
    int32_t n_head_kv, head_dim;
    int32_t window;        /* positions that attention sees raw, its own included */
    int32_t rewind;        /* positions */
    int32_t index_dim;
    int32_t carry;         /* elements of a carried row, or 0 */
    int32_t rope_dim;      /* trailing dims of a row that rounding leaves alone */
    int32_t rounding;      /* ds4_rounding: the points imitated where rows are stored and compared */
    const int32_t *ratios; /* [n_layer] 0, 4 or 128; copied */
} ds4_cache_desc;
typedef struct ds4_cache ds4_cache;

/* Bytes of a bank of a latent cache of that type and shape, by the layout of the CPU backend; 0 if it overflows. */
uint64_t ds4_latent_bank_bytes(const ds4_cache_desc *desc);

typedef struct ds4_rope {
    int32_t kind; /* ds4_rope_kind */
    int32_t dim;  /* leading dims of each head that rotate */
    /* The angle is the fp32 product (float)position * inv_freq[i], as where the models are trained and in transformers;
       its cos and sin are then accurate. At position 2,000 that rounding is worth 1e-3 in a logit. */
    /* fp32 [dim / 2] angle per position of each pair, scaling already folded in, and the factor on cos and sin */
    const float *inv_freq; /* borrowed for the backend's life */
    float magnitude;
    int32_t from;    /* the first dim of each head that rotates: 0, or head_dim - dim for those that rotate their tail */
    int32_t inverse; /* turns backwards */
} ds4_rope;

typedef struct ds4_attention {
    int32_t layer, n_head, n_head_kv, head_dim;
    float scale;
    int32_t window; /* 0: none */
} ds4_attention;

/* Hyper-connections: n residual streams of D elements instead of one. iterations 0: the head, which only collapses them. */
typedef struct ds4_hc {
    int32_t n;
    int32_t iterations; /* of Sinkhorn's normalisation, the first one included */
    float eps;
} ds4_hc;

/* The two streams of a layer that are compressed: what attention sees, and what the indexer compares. */
typedef enum ds4_stream { DS4_STREAM_LATENT = 0, DS4_STREAM_INDEX = 1 } ds4_stream;

typedef enum ds4_scoring { DS4_SCORING_SQRT_SOFTPLUS = 0, DS4_SCORING_SOFTMAX = 1 } ds4_scoring;

typedef struct ds4_router {
    int32_t n_expert, n_used;
    float scale; /* multiplies the weights, which are normalised to a sum of 1 */
    int32_t scoring; /* ds4_scoring */
} ds4_router;

typedef struct ds4_experts {
    int32_t n_expert, n_used;
    int32_t width; /* of one expert */
    float clamp;   /* of SwiGLU */
} ds4_experts;

typedef struct ds4_ops {
    const char *name;

    /* ---- memory ---- */
    void (*backend_free)(ds4_backend *be);
    /* Zeroed lazily: pages are committed when first written. NULL on failure. */
    ds4_buffer *(*buffer_create)(ds4_backend *be, size_t bytes);
    void (*buffer_free)(ds4_backend *be, ds4_buffer *buffer);
    void (*buffer_write)(ds4_backend *be, ds4_buffer *buffer, size_t offset, const void *data, size_t bytes);
    void (*buffer_read)(ds4_backend *be, ds4_buffer *buffer, size_t offset, void *data, size_t bytes);

    /* data stays mapped for the backend's life; a CPU backend refers to it, a device uploads it. rows x cols, GGUF type. */
    ds4_weight *(*weight_create)(ds4_backend *be, int32_t type, int64_t rows, int64_t cols, const void *data);
    void (*weight_free)(ds4_backend *be, ds4_weight *weight);

    ds4_cache *(*cache_create)(ds4_backend *be, const ds4_cache_desc *desc);
    void (*cache_free)(ds4_backend *be, ds4_cache *cache);
    /* Host-side operations between steps. Positions [from, to). */
    void (*cache_release)(ds4_backend *be, ds4_cache *cache, int32_t bank, int32_t from_position);
    void (*cache_copy)(ds4_backend *be, ds4_cache *cache, int32_t from_bank, int32_t to_bank, int32_t length);
    /* All layers' K and V of positions [0, length) in a layout fixed per (type, shape), independent of n_ctx. */
    size_t (*cache_state_bytes)(ds4_backend *be, const ds4_cache *cache, int32_t length);
    void (*cache_save)(ds4_backend *be, const ds4_cache *cache, int32_t bank, int32_t length, void *out);
    void (*cache_load)(ds4_backend *be, ds4_cache *cache, int32_t bank, int32_t length, const void *in);

    /* ---- recording ---- */
    /* Programs for at most max_rows rows. NULL on failure; an operation that fails to record makes program_end fail. */
    ds4_program *(*program_begin)(ds4_backend *be, const ds4_step_inputs *in, int32_t max_rows, int32_t max_out);
    int32_t (*program_end)(ds4_backend *be, ds4_program *program, ds4_error *err);
    void (*program_free)(ds4_backend *be, ds4_program *program);
    /* A cancellation is looked at here: the recorder puts one after every layer. */
    void (*layer_end)(ds4_program *p);

    /* Plain operations. Every backend has all of them. */
    /* dst[r] = W[token of row r]; resolves tokens that come from the step before (also into histories). ALL rows. It
       comes before every operation that looks at positions: a backend may prepare a rope's angles with it. */
    void (*embed)(ds4_program *p, ds4_mat dst, const ds4_weight *w);
    /* dst[r] = x[r] / sqrt(mean(x[r]^2) + eps) * w */
    void (*rmsnorm)(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w, float eps);
    /* dst[r, o] = sum_k W[o, k] x[r, k] */
    void (*matmul)(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w);
    /* dst += x */
    void (*add)(ds4_program *p, ds4_mat dst, ds4_mat x);
    /* dst = silu(gate) * up */
    void (*swiglu)(ds4_program *p, ds4_mat dst, ds4_mat gate, ds4_mat up);
    /* dst = gelu(gate) * up, GELU in its tanh form */
    void (*geglu)(ds4_program *p, ds4_mat dst, ds4_mat gate, ds4_mat up);
    /* dst *= factor */
    void (*scale)(ds4_program *p, ds4_mat dst, float factor);
    /* dst[r] += w */
    void (*bias)(ds4_program *p, ds4_mat dst, const ds4_weight *w);
    /* Each of x[r]'s n_head equal parts in place: part / sqrt(mean(part^2) + eps) * w */
    void (*rmsnorm_heads)(ds4_program *p, ds4_mat x, int32_t n_head, const ds4_weight *w, float eps);
    /* Rotates each head of x in place by the row's position. x: [rows, n_head * head_dim] */
    void (*rope)(ds4_program *p, ds4_mat x, int32_t n_head, int32_t head_dim, const ds4_rope *rope);
    /* Writes the row's k and v at (bank, position) of a layer. */
    void (*kv_store)(ds4_program *p, ds4_cache *cache, int32_t layer, ds4_mat k, ds4_mat v);
    /* dst[r] = attention of q[r] over positions max(0, pos - window + 1) .. pos of its bank */
    void (*attention)(ds4_program *p, ds4_mat dst, ds4_mat q, ds4_cache *cache, const ds4_attention *a);
    /* dst (OUT rows) = x (ALL rows) at out_rows */
    void (*gather)(ds4_program *p, ds4_mat dst, ds4_mat x);
    /* Draws a token for every OUT row, with log-probabilities where asked. logits may be overwritten. */
    void (*sample)(ds4_program *p, ds4_mat logits);

    /* DeepSeek V4. Every backend has all of them. Where a matrix is said to hold int32, its elements are their bits. */
    /* dst[r] = n copies of x[r], side by side. dst: [rows, n * x.cols] */
    void (*repeat)(ds4_program *p, ds4_mat dst, ds4_mat x);
    /* dst[r] = each of x[r]'s n_head equal parts over its root mean square, sqrt(mean(part^2) + eps); no weight. dst may
       be x. */
    void (*rms_heads)(ds4_program *p, ds4_mat dst, ds4_mat x, int32_t n_head, float eps);
    /* dst = silu(min(gate, clamp)) * max(-clamp, min(up, clamp)) */
    void (*swiglu_clamp)(ds4_program *p, ds4_mat dst, ds4_mat gate, ds4_mat up, float clamp);
    /* From the n streams x [rows, n D] to the input of a block, dst [rows, D] = sum of pre_h stream_h. mix [rows, (2 + n) n]
       holds the raw products m of the streams' fn; they are replaced by what hc_post reads:
         pre_h  = sigmoid(m[h] scale[0] + base[h]) + eps                         at h
         post_h = 2 sigmoid(m[n + h] scale[1] + base[n + h])                     at n + h
         C[j,k] = Sinkhorn(m[2n + nj + k] scale[2] + base[2n + nj + k])          at 2n + nj + k
       Sinkhorn: softmax over k, plus eps; columns over (their sum + eps); then iterations - 1 times rows, then columns, likewise.
       iterations 0: mix [rows, n] has pre alone, and scale one element. */
    void (*hc_pre)(ds4_program *p, ds4_mat dst, ds4_mat mix, ds4_mat x, const ds4_weight *scale, const ds4_weight *base,
                   const ds4_hc *hc);
    /* x'_k = post_k y + sum over j, rising, of C[j,k] x_j, in place; mix as hc_pre left it. */
    void (*hc_post)(ds4_program *p, ds4_mat x, ds4_mat y, ds4_mat mix, const ds4_hc *hc);
    /* Stores the row kv [rows, head_dim] raw at (bank, position); rounds as the cache says. ALL rows. */
    void (*latent_store)(ds4_program *p, ds4_cache *cache, int32_t layer, ds4_mat kv);
    /* Takes kv and gate [rows, c width] (c = 2 where the ratio is 4, else 1; width: head_dim, or index_dim for INDEX) of
       every row into the rolling state, the gate plus row (position mod ratio) of ape [ratio, c width]; and for a position
       that ends a window of `ratio` writes the window's compressed row:
         ratio 4:   over the 4 positions before the window (first half of the columns; none before window 0) and its own
                    4 (second half)
         else       over the window's own positions
         row = rope(rmsnorm(sum of softmax(gate) kv, per column; norm, eps)) at the window's first position, then
                    rounded as the cache says. ALL rows, each bank's in order. */
    void (*compress)(ds4_program *p, ds4_cache *cache, int32_t layer, ds4_stream stream, ds4_mat kv, ds4_mat gate,
                     const ds4_weight *ape, const ds4_weight *norm, float eps, const ds4_rope *rope);
    /* Which compressed rows the row attends to: those w < (position + 1) / 4, or the top_k of them with the highest
       score_w = sum over h, rising, of weight_h max(0, q_h . index row_w), ties to the lower w. q: [rows, n_head * index_dim];
       weights: [rows, n_head], scaled here by 1 / sqrt(n_head index_dim); dst: int32 [rows, 1 + top_k], the count,
       then the rows, rising. ALL rows. */
    void (*index_select)(ds4_program *p, ds4_mat dst, ds4_mat q, ds4_mat weights, ds4_cache *cache, int32_t layer,
                         int32_t top_k);
    /* dst[r] = per head h, softmax of (scale q_h . row) over raw rows max(first, position - window + 1) .. position, then the
       compressed rows: those of `selected` (as index_select left them), or where its buffer is NULL every w < (position + 1)
       / ratio; and the sink, a score without a row, sinks[h]. The rows are values too. ALL rows. */
    void (*latent_attention)(ds4_program *p, ds4_mat dst, ds4_mat q, ds4_cache *cache, int32_t layer, int32_t n_head,
                             int32_t first, float scale, const ds4_weight *sinks, ds4_mat selected);
    /* Keeps x [rows, carry] at (bank, position). dst [rows, carry] = what was kept at (bank, position - 1), anything at
       position 0. ALL rows; storing sees all of the step's rows before loading sees any. */
    void (*carry_store)(ds4_program *p, ds4_cache *cache, ds4_mat x);
    void (*carry_load)(ds4_program *p, ds4_mat dst, ds4_cache *cache);
    /* dst [rows, 2 n_used]: int32 experts, then their weights. s_e = sqrt(softplus(x_e)). hash NULL: the n_used experts with
       the highest s_e + bias_e (bias NULL: 0), ties to the lower e. Else row `token` of the I32 table hash. weight_e =
       s_e / max(sum of s over the chosen, 2^-14) scale. SOFTMAX: s_e = e^x_e / sum of e^x over all experts, chosen by it alone
       (bias and hash are NULL), weight_e = s_e / sum of s over the chosen scale. */
    void (*route)(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *bias, const ds4_weight *hash,
                  const ds4_router *router);
    /* dst[r, k] = silu(min(gate_e x, clamp)) max(-clamp, min(up_e x, clamp)) weight_k for the row's k-th expert e; gate and
       up: the experts' [width, D] one below the other; dst: [rows, n_used * width]. Each product is `matmul`'s. */
    void (*experts_up)(ds4_program *p, ds4_mat dst, ds4_mat x, ds4_mat routed, const ds4_weight *gate, const ds4_weight *up,
                       const ds4_experts *experts);
    /* dst[r] += sum over the row's experts, by rising (expert, k), of down_e h[r, k]; down: the experts' [D, width] one
       below the other. */
    void (*experts_down)(ds4_program *p, ds4_mat dst, ds4_mat h, ds4_mat routed, const ds4_weight *down,
                         const ds4_experts *experts);

    /* Fused operations: NULL where a backend has none; compose.h then records the plain ones, with the same result to
     * the bit. `norm`-ed input is a scratch matrix that only the plain composition writes. */
    /* dst[i] = matmul(w[i], rmsnorm(x)), i < n, n <= 4 */
    void (*norm_matmul)(ds4_program *p, ds4_mat x, const ds4_weight *norm, float eps, int32_t n, const ds4_mat *dst,
                        const ds4_weight *const *w, ds4_mat scratch);
    /* dst += matmul(w, x) */
    void (*matmul_add)(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w, ds4_mat scratch);
    /* rope(q), rope(k), kv_store(k, v) */
    void (*rope_store)(ds4_program *p, ds4_mat q, ds4_mat k, ds4_mat v, ds4_cache *cache, const ds4_attention *a,
                       const ds4_rope *rope);
    /* dst = swiglu(matmul(gate, rmsnorm(x)), matmul(up, rmsnorm(x))) */
    void (*norm_swiglu)(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *norm, float eps,
                        const ds4_weight *gate, const ds4_weight *up, ds4_mat scratch, ds4_mat scratch_up);
    /* The same with geglu. */
    void (*norm_geglu)(ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *norm, float eps,
                       const ds4_weight *gate, const ds4_weight *up, ds4_mat scratch, ds4_mat scratch_up);

    /* ---- running ---- */
    /* Starts the program over the current contents of the input buffers and returns; programs run in the order of
     * submission. `out` is where this run leaves its results; `previous` is the run before's, for tokens that come from
     * it, or NULL. The input buffers are copied or consumed before run returns, so that the engine may fill them
     * for the next run at once. */
    int32_t (*run)(ds4_backend *be, ds4_program *program, const ds4_step_outputs *out, const ds4_step_outputs *previous,
                   ds4_error *err);
    /* Waits for the oldest run not yet waited for. DS4_OK or DS4_ERR_CANCELLED; elapsed_ns may be NULL. */
    int32_t (*wait)(ds4_backend *be, int64_t *elapsed_ns, ds4_error *err);
    /* Runs submitted so far end at their next layer_end. [any thread] */
    void (*run_cancel)(ds4_backend *be);
} ds4_ops;

/* A backend and its table. The first member of every ds4_backend is `const ds4_ops *ops`. */
typedef struct ds4_backend_desc {
    int32_t n_threads;
    int32_t numeric;     /* ds4_numeric */
    const char *kernels; /* NULL: the best that the processor has; tests name another */
} ds4_backend_desc;

ds4_backend *ds4_cpu_backend_create(const ds4_backend_desc *desc, ds4_error *err);
ds4_backend *ds4_guard_backend_create(const ds4_backend_desc *desc, ds4_error *err);
ds4_backend *ds4_null_backend_create(const ds4_backend_desc *desc, ds4_error *err);
const ds4_ops *ds4_backend_ops(const ds4_backend *be);

#endif
