/* backend.h - what the parts of the CPU backend know of each other. The guard backend is made of the same parts.
 *
 *   memory.c    buffers, weights, growing scratch         exec.c       the operations, cut into items
 *   cache.c     the KV cache's layout and upkeep          attention.c  attention, likewise
 *   latent.c    the latent cache, likewise                latent_ops.c what reads and writes it
 *   hyper.c     streams, clamped SwiGLU, routing          experts.c    routed experts
 *   record.c    recording with its checks                 program.c    sizing, steps in flight, the walk over the nodes
 *   backend.c   creation and the table                    kernels*     what depends on the instruction set */
#ifndef DS4_CPU_BACKEND_H
#define DS4_CPU_BACKEND_H

#include "native/backends/cpu/kernels.h"
#include "native/backends/cpu/latent.h"
#include "native/backends/cpu/matmul.h"
#include "native/backends/cpu/pool.h"
#include "native/ops/ds4_ops.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Up to so many rows every thread prepares the input of a product by itself, which costs less than a stage. */
#define CPU_FEW_ROWS 4
/* Operations over at most so many elements run on one thread, while a stage ends. */
#define CPU_SMALL 8192
#define CPU_MAX_ROPES 6 /* DeepSeek V4 alone has two bases, both ways, for two widths of heads */
#define CPU_MAX_PRODUCTS 4
/* Rows of one expert that are gathered at once. */
#define CPU_EXPERT_ROWS 64

/* ---- memory ---- */

struct ds4_buffer {
    uint8_t *base;
    size_t bytes, mapped;
    ds4_buffer *next; /* all of a backend's */
};

struct ds4_weight {
    cpu_weight m;
    float *owned;        /* a vector converted to fp32, or NULL */
    const float *vector; /* fp32 elements of a one-row weight, else NULL */
};

/* Lazily committed memory that only grows; what it held is lost when it does. */
typedef struct cpu_arena {
    uint8_t *base;
    size_t bytes;
} cpu_arena;

void *cpu_map(size_t bytes, size_t *mapped); /* zero pages, reserved only; NULL when refused */
void cpu_unmap(void *base, size_t mapped);
bool cpu_arena_reserve(cpu_arena *arena, size_t bytes);
void cpu_arena_free(cpu_arena *arena);

/* ---- cache ---- */

/* Per bank, layer by layer; in a layer, tiles of KV_TILE positions; in a tile, one after the other the KV heads, each
 * first its keys, element-major [head_dim][KV_TILE], then its values, position-major [KV_TILE][v_dim]. A query's products
 * with a tile's keys are thus sums of whole vectors, as those of its weights with the values.
 *   F32, F16   the elements
 *   Q8_0       int8 elements, then fp16 scales of 32 elements of one position: keys [head_dim / 32][KV_TILE], values
 *              [KV_TILE][head_dim / 32]. */
struct ds4_cache {
    ds4_cache_desc d;
    int32_t v_dim;             /* head_dim, up to a multiple of 16 */
    int32_t n_tiles;
    size_t key_bytes, head_bytes, tile_bytes, layer_bytes, bank_bytes;
    uint8_t *base;
    size_t mapped;
    cpu_latent *latent;        /* not NULL: the cache is a latent one, and of the above only d holds */
    int32_t *ratios;           /* latent: the copy that d.ratios leads to */
    ds4_cache *next;
};

static inline uint8_t *cpu_cache_head(const ds4_cache *c, int32_t bank, int32_t layer, int32_t tile, int32_t head)
{
    return c->base + (size_t)bank * c->bank_bytes + (size_t)layer * c->layer_bytes + (size_t)tile * c->tile_bytes +
           (size_t)head * c->head_bytes;
}

/* Writes one position's key and value of one head (fp32, head_dim each). tmp: v_dim fp16. */
void cpu_cache_put(const cpu_kernels *k, const ds4_cache *c, uint8_t *head, int32_t at, const float *key, const float *value,
                   uint16_t *tmp);

float *cpu_latent_carried(const ds4_cache *cache, int32_t bank, int32_t position); /* carried row */
void cpu_latent_release(ds4_cache *cache, int32_t bank, int32_t from_position);
void cpu_latent_copy(ds4_cache *cache, int32_t from_bank, int32_t to_bank, int32_t length);
size_t cpu_latent_state_bytes(const ds4_cache *cache, int32_t length);
void cpu_latent_move(const ds4_cache *cache, int32_t bank, int32_t length, uint8_t *state, bool load);

ds4_cache *cpu_cache_create(ds4_backend *be, const ds4_cache_desc *desc);
void cpu_cache_free(ds4_backend *be, ds4_cache *cache);
void cpu_cache_release(ds4_backend *be, ds4_cache *cache, int32_t bank, int32_t from_position);
void cpu_cache_copy(ds4_backend *be, ds4_cache *cache, int32_t from_bank, int32_t to_bank, int32_t length);
size_t cpu_cache_state_bytes(ds4_backend *be, const ds4_cache *cache, int32_t length);
void cpu_cache_save(ds4_backend *be, const ds4_cache *cache, int32_t bank, int32_t length, void *out);
void cpu_cache_load(ds4_backend *be, ds4_cache *cache, int32_t bank, int32_t length, const void *in);

ds4_buffer *cpu_buffer_create(ds4_backend *be, size_t bytes);
void cpu_buffer_free(ds4_backend *be, ds4_buffer *buffer);
void cpu_buffer_write(ds4_backend *be, ds4_buffer *buffer, size_t offset, const void *data, size_t bytes);
void cpu_buffer_read(ds4_backend *be, ds4_buffer *buffer, size_t offset, void *data, size_t bytes);
ds4_weight *cpu_weight_create(ds4_backend *be, int32_t type, int64_t rows, int64_t cols, const void *data);
void cpu_weight_free(ds4_backend *be, ds4_weight *weight);

/* ---- programs ---- */

typedef enum cpu_op {
    OP_LAYER_END,
    OP_EMBED,
    OP_RMSNORM,
    OP_ADD,
    OP_SWIGLU,
    OP_GEGLU,
    OP_SCALE,
    OP_BIAS,
    OP_RMSNORM_HEADS,
    OP_ROPE,
    OP_KV_STORE,
    OP_ROPE_STORE,
    OP_ATTENTION,
    OP_GATHER,
    OP_SAMPLE,
    OP_REPEAT,
    OP_RMS_HEADS,
    OP_SWIGLU_CLAMP,
    OP_HC_PRE,
    OP_HC_POST,
    OP_LATENT_STORE,
    OP_COMPRESS,
    OP_INDEX_SELECT,
    OP_LATENT_ATTENTION,
    OP_CARRY_STORE,
    OP_CARRY_LOAD,
    OP_ROUTE,
    OP_EXPERTS_UP,
    OP_EXPERTS_DOWN,
    OP_PRODUCT /* every kind of matrix product, plain or fused */
} cpu_op;

typedef enum cpu_gate { GATE_NONE = 0, GATE_SWIGLU, GATE_GEGLU } cpu_gate;

typedef struct cpu_node {
    cpu_op op;
    ds4_mat dst, x, y, z;    /* y: second input, or k; z: v */
    const ds4_weight *norm;  /* of the input; or the weight of rmsnorm; or the embedding */
    float eps;
    int32_t n;               /* products */
    ds4_mat out[CPU_MAX_PRODUCTS];
    const ds4_weight *w[CPU_MAX_PRODUCTS];
    mm_store store;
    cpu_gate gated;          /* out[0] = of (product 0, product 1) */
    ds4_cache *cache;
    ds4_attention attention; /* rope and kv_store use layer, n_head, n_head_kv, head_dim */
    int32_t rope;            /* index into the program's tables */
    /* DeepSeek V4; w[0], w[1] are then the operation's own weights, in the order of ds4_ops.h, and n is 0 */
    ds4_hc hc;
    ds4_router router;
    ds4_experts experts;
    ds4_stream stream;
    float clamp;             /* or what `scale` multiplies with */
    int32_t top_k;
    int32_t first;           /* position */
} cpu_node;

struct ds4_program {
    ds4_backend *be;
    ds4_step_inputs in;
    int32_t max_rows, max_out;
    cpu_node *nodes;
    int32_t n_nodes, cap_nodes;
    ds4_rope ropes[CPU_MAX_ROPES];
    int32_t n_ropes;
    int64_t n_vocab_in;      /* rows of the embedding, 0: none */
    int32_t min_banks, min_ctx; /* what every cache in it has */
    bool ended;
    ds4_error error;         /* of the first operation that could not be recorded */
};

/* Rows next to each other in a step that continue one bank: attention's unit of sharing keys and values. */
typedef struct cpu_span {
    int32_t row, n_rows, bank, position;
    int32_t first_block; /* of this attention's blocks */
} cpu_span;

/* A run in flight: a copy of its inputs. Sized for the largest program. */
typedef struct cpu_step {
    ds4_program *program;
    ds4_step_outputs out, previous;
    bool from_previous; /* a token comes from the step before */
    int32_t n_rows, n_out;
    int32_t *tokens, *from, *banks, *positions, *out_rows;
    ds4_row_sampler *samplers;
    int32_t **histories;
    cpu_span *spans;
    int32_t n_spans;
    float *ropes[CPU_MAX_ROPES]; /* per row: cos[dim], sin[dim] */
    unsigned cancel_at_submit;
    int32_t at, phase;                 /* the stage: a node and its phase */
    uint64_t stage;                    /* its number, over all runs of the backend */
    int32_t piece;                     /* rows of an item, where items are rows */
    int32_t block_rows, n_blocks, per_row; /* attention's blocks; or parts of a row */
    mm_form form[CPU_MAX_PRODUCTS];    /* of a product's inputs */
    bool few;                          /* each thread prepares them for itself */
    bool cancelled;
    int64_t started_ns, elapsed_ns;
    cpu_arena arena;
} cpu_step;

/* The parts of scratch: those before NEED_OWN_NORMED shared by all threads, the others each thread's own. */
typedef enum cpu_need {
    NEED_NORMED,         /* normed inputs of a product */
    NEED_Q8,             /* prepared inputs */
    NEED_I16,
    NEED_PARTIALS,       /* attention by tiles */
    NEED_PARTIAL_COUNTS, /* zero between operations */
    NEED_SCORES,         /* the indexer's */
    NEED_ROUTES,         /* rows by expert */
    NEED_OWN_NORMED,
    NEED_OWN_Q8,
    NEED_OWN_I16,
    NEED_OWN_PRODUCT,    /* mm_run's scratch */
    NEED_OWN_GATE,       /* the second product of a gated pair */
    NEED_OWN_ATTENTION,
    NEED_OWN_EXPERTS,    /* rows of one expert, and their products */
    NEED_SAMPLING,       /* in an arena of its own: zero between uses */
    CPU_NEEDS
} cpu_need;

typedef struct cpu_layout {
    size_t at[CPU_NEEDS]; /* offsets */
    size_t shared_bytes, own_bytes, sampling_bytes;
} cpu_layout;

/* One thread inside a run, or the one that runs a small operation by itself (nth 1). No two share a cache line. */
typedef struct cpu_worker {
    _Alignas(64) ds4_backend *be;
    cpu_step *step;
    int32_t ith, nth;
    uint8_t *own;      /* this thread's scratch */
    void *sampling;
    uint64_t prepared; /* the stage whose inputs this thread has prepared for itself */
} cpu_worker;

struct ds4_backend {
    const ds4_ops *ops; /* first, as ds4_ops.h says */
    ds4_backend_desc desc;
    const cpu_kernels *k;
    const mm_kernels *mm;
    ds4_pool *pool; /* NULL: runs happen inside `run`, on the caller's thread */
    ds4_buffer *buffers;
    ds4_cache *caches;

    cpu_step steps[DS4_STEPS_IN_FLIGHT];
    int32_t max_rows, max_out, max_ropes, max_rope_dim; /* that the steps are sized for */
    size_t needs[CPU_NEEDS]; /* bytes of scratch, maxima over all programs */
    cpu_layout layout;
    cpu_worker *workers;     /* [n_threads] */
    uint64_t stages;
    cpu_arena shared, own, sampling;
    unsigned submitted, waited;
    bool last_cancelled;    /* of the run that ended last; the workers' own */
    int32_t last_rows;      /* of the run submitted last */
    atomic_uint cancels;

    /* Guard: called before and after every node, with before = true and false. */
    void (*on_node)(ds4_backend *be, const cpu_node *node, bool before);
    /* Guard: called around the host's own accesses. */
    void (*on_host)(ds4_backend *be, bool before);
};

static inline int32_t cpu_count(const cpu_step *s, ds4_rows rows) { return rows == DS4_ROWS_ALL ? s->n_rows : s->n_out; }
static inline float *cpu_row(ds4_mat m, int64_t r)
{
    return (float *)(m.buffer->base + m.offset) + r * m.stride;
}

/* An operation has up to CPU_PHASES stages; each is cut into items, 0 of them where there is nothing to do. Every item of a
 * stage can be done on any thread in any order. cpu_cut leaves what cpu_do wants to know in the step. */
#define CPU_PHASES 2
int32_t cpu_cut(cpu_worker *w, const cpu_node *node, int32_t phase);
void cpu_do(cpu_worker *w, const cpu_node *node, int32_t phase, int32_t item);
int32_t cpu_cut_attention(cpu_worker *w, const cpu_node *node);
void cpu_do_attention(cpu_worker *w, const cpu_node *node, int32_t item);
/* Whether the node is so small that it is best done by one thread, between two stages. */
bool cpu_is_small(const cpu_step *step, const cpu_node *node);
/* Resolves tokens and computes the rotation tables of rows [r0, r1). */
void cpu_resolve_token(cpu_step *s, int32_t row);
void cpu_rope_tables(cpu_step *s, int32_t r0, int32_t r1);

/* Rows in pieces: several for each thread, so that one that is late does not hold the others up. */
int32_t cpu_cut_rows(cpu_worker *w, int32_t rows);
void cpu_rows_of(const cpu_worker *w, int32_t rows, int32_t item, int32_t *r0, int32_t *r1);
/* Rotates x's heads by row `row`'s position. */
void cpu_rope_heads(const cpu_worker *w, float *x, int32_t n_head, int32_t head_dim, int32_t table, int32_t row);
/* cos and sin of one position, as the kernels want them: c, s [rope->dim]. */
void cpu_rope_angles(const ds4_rope *rope, int32_t position, float *c, float *s);

/* hyper.c */
void cpu_do_hyper(const cpu_worker *w, const cpu_node *node, int32_t row);

/* latent_ops.c: the operations on the latent cache, which the enumeration has next to each other */
static inline bool cpu_is_latent(cpu_op op) { return op >= OP_LATENT_STORE && op <= OP_CARRY_LOAD; }
int32_t cpu_cut_latent(cpu_worker *w, const cpu_node *node, int32_t phase);
void cpu_do_latent(cpu_worker *w, const cpu_node *node, int32_t phase, int32_t item);
/* Bytes of scratch that a node needs, for each thread, of products, and shared. */
size_t cpu_latent_own_bytes(const ds4_backend *be, const cpu_node *node);
size_t cpu_latent_product_bytes(const ds4_backend *be, const cpu_node *node);
size_t cpu_latent_score_bytes(const cpu_node *node, int32_t max_rows);

/* experts.c */
int32_t cpu_cut_experts(cpu_worker *w, const cpu_node *node);
void cpu_do_experts(cpu_worker *w, const cpu_node *node, int32_t item);
size_t cpu_experts_own_bytes(const ds4_backend *be, const cpu_node *node);
size_t cpu_experts_product_bytes(const ds4_backend *be, const cpu_node *node);
size_t cpu_experts_route_bytes(const cpu_node *node, int32_t max_rows);

/* Outputs of one piece of a product over so many rows, shared by nth threads. */
int64_t cpu_grain(const cpu_weight *m, int32_t rows, int32_t nth, bool gated);
/* Whether the node is so small that it is best done by one thread. */
bool cpu_exec_small(const cpu_step *step, const cpu_node *node);
/* Resolves tokens and computes the rotation tables of rows [r0, r1). */
void cpu_resolve_token(cpu_step *s, int32_t row);
void cpu_rope_tables(cpu_step *s, int32_t r0, int32_t r1);

static inline void *cpu_shared(const cpu_worker *w, cpu_need part) { return w->be->shared.base + w->be->layout.at[part]; }
static inline void *cpu_own(const cpu_worker *w, cpu_need part) { return w->own + w->be->layout.at[part]; }

/* Floats from one partial result to the next: values, maximum, sum. */
static inline size_t cpu_partial_stride(const ds4_cache *c) { return (size_t)c->v_dim + 16; }

/* Floats of scratch a thread needs for attention over this node. */
size_t cpu_attention_scratch(const cpu_node *node);

/* Recording (record.c) */
ds4_program *cpu_program_begin(ds4_backend *be, const ds4_step_inputs *in, int32_t max_rows, int32_t max_out);
void cpu_program_free(ds4_backend *be, ds4_program *p);
void cpu_record_plain(ds4_ops *ops);
void cpu_record_fused(ds4_ops *ops);
void cpu_record_dsv4(ds4_ops *ops); /* record_dsv4.c; cpu_record_plain calls it */
void cpu_record_kin(ds4_ops *ops);  /* record_kin.c; likewise */

/* Programs (program.c) */
int32_t cpu_program_end(ds4_backend *be, ds4_program *p, ds4_error *err);
int32_t cpu_run(ds4_backend *be, ds4_program *p, const ds4_step_outputs *out, const ds4_step_outputs *previous,
                ds4_error *err);
int32_t cpu_wait(ds4_backend *be, int64_t *elapsed_ns, ds4_error *err);
void cpu_run_cancel(ds4_backend *be);
void cpu_drain(ds4_backend *be);

/* Creation (backend.c) */
ds4_backend *cpu_backend_new(const ds4_backend_desc *desc, bool with_pool, ds4_error *err);
void cpu_backend_free(ds4_backend *be);

#endif
