/* attention.c - softmax(q k) v by tiles of the cache, with an order of summation that nothing but the position decides.
 *
 * A row's result is the fold, in rising order, of one partial result (maximum, sum, weighted values) for each tile of
 * KV_TILE absolute positions that it sees. A tile's partial depends on the row and the tile alone; so whether a thread
 * folds a row's tiles as it goes, or threads compute them apart and the last one folds, whether rows are handled singly or
 * in blocks, the bits are the same.
 *
 * The rows of a block times the query heads that share a KV head form one matrix against a tile, which is loaded, and if
 * it pays converted, once for all of them. */
#include "native/backends/cpu/backend.h"
#include "native/quant/quant.h"

#include <math.h>
#include <string.h>

#define BLOCK_HEADS 48 /* query heads x rows of a block: the scores and a tile then stay in the second-level cache */

static size_t up16(size_t n) { return (n + 15) / 16 * 16; }

/* The thread's scratch, in floats; `heads` is rows x heads of a block. */
typedef struct scratch {
    float *q, *scores, *part, *acc, *max, *sum, *keys, *values;
} scratch;

static int32_t most_heads(const ds4_attention *a)
{
    int32_t ratio = a->n_head / a->n_head_kv;
    return ratio > BLOCK_HEADS ? ratio : BLOCK_HEADS;
}

static size_t carve(const cpu_node *n, float *base, scratch *s)
{
    size_t heads = (size_t)most_heads(&n->attention), dim = (size_t)n->attention.head_dim, v_dim = up16(dim);
    size_t sizes[] = {heads * dim, heads * KV_TILE, heads * v_dim, heads * v_dim, up16(heads), up16(heads),
                      dim * KV_TILE, KV_TILE * v_dim};
    float **parts[] = {&s->q, &s->scores, &s->part, &s->acc, &s->max, &s->sum, &s->keys, &s->values};
    size_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *parts[i] = base + at;
        at += up16(sizes[i]);
    }
    return at;
}

size_t cpu_attention_scratch(const cpu_node *node)
{
    static float nowhere[1];
    scratch s;
    return carve(node, nowhere, &s);
}

/* A block: n_rows rows of a span, one KV head. */
typedef struct block {
    const cpu_node *n;
    int32_t row, n_rows, bank, position, head; /* position of the first row */
    int32_t ratio, heads;                      /* heads = n_rows * ratio */
} block;

static int32_t first_position(const ds4_attention *a, int32_t position)
{
    return a->window > 0 && position >= a->window ? position - a->window + 1 : 0;
}

static void load_queries(const cpu_worker *w, const block *b, const scratch *s)
{
    int32_t dim = b->n->attention.head_dim;
    for (int32_t r = 0; r < b->n_rows; r++) {
        const float *q = cpu_row(b->n->x, b->row + r) + (size_t)b->head * (size_t)b->ratio * (size_t)dim;
        w->be->k->scale(s->q + (size_t)r * (size_t)(b->ratio * dim), q, b->n->attention.scale, (int64_t)b->ratio * dim);
    }
}

/* The keys of a tile as fp32 [dim][KV_TILE] of which n columns are wanted, or as they are (*f16). */
static const void *tile_keys(const cpu_worker *w, const block *b, const uint8_t *head, int32_t n, float *to, bool *f16)
{
    const cpu_kernels *k = w->be->k;
    const ds4_cache *c = b->n->cache;
    int32_t dim = c->d.head_dim;
    *f16 = false;
    if (c->d.type == DS4_TYPE_F32)
        return head;
    if (c->d.type == DS4_TYPE_F16) {
        if (b->heads <= 2 * k->tile_rows) {
            *f16 = true;
            return head;
        }
        for (int32_t i = 0; i < dim; i++)
            k->from_f16(to + i * KV_TILE, (const uint16_t *)head + i * KV_TILE, n);
        return to;
    }
    const uint16_t *scales = (const uint16_t *)(head + (size_t)dim * KV_TILE);
    for (int32_t i = 0; i < dim; i++)
        k->from_q8_lanes(to + i * KV_TILE, (const int8_t *)head + i * KV_TILE, scales + i / 32 * KV_TILE, n);
    return to;
}

/* The first n values of a tile as fp32 [n][v_dim], or as they are. */
static const void *tile_values(const cpu_worker *w, const block *b, const uint8_t *head, int32_t n, float *to, bool *f16)
{
    const cpu_kernels *k = w->be->k;
    const ds4_cache *c = b->n->cache;
    const uint8_t *values = head + c->key_bytes;
    *f16 = false;
    if (c->d.type == DS4_TYPE_F32)
        return values;
    if (c->d.type == DS4_TYPE_F16) {
        if (b->heads <= 2 * k->tile_rows) {
            *f16 = true;
            return values;
        }
        k->from_f16(to, (const uint16_t *)values, (int64_t)n * c->v_dim);
        return to;
    }
    int32_t blocks = c->d.head_dim / 32;
    const uint16_t *scales = (const uint16_t *)(values + (size_t)c->d.head_dim * KV_TILE);
    for (int32_t i = 0; i < n * blocks; i++)
        k->from_q8_block(to + i * 32, (const int8_t *)values + i * 32, ds4_f16_to_f32(scales[i]), 32);
    return to;
}

/* Partial results of every head of the block for one tile: maxima, sums, and values [heads][v_dim] in s->part. */
static void one_tile(const cpu_worker *w, const block *b, int32_t tile, const scratch *s, float *max, float *sum)
{
    const cpu_kernels *k = w->be->k;
    const ds4_attention *a = &b->n->attention;
    const ds4_cache *c = b->n->cache;
    int32_t start = tile * KV_TILE, last = b->position + b->n_rows - 1;
    int32_t n = last - start + 1 < KV_TILE ? last - start + 1 : KV_TILE;
    int32_t n16 = (int32_t)up16((size_t)n);
    const uint8_t *head = cpu_cache_head(c, b->bank, a->layer, tile, b->head);
    bool f16;
    const void *keys = tile_keys(w, b, head, n16, s->keys, &f16);
    k->tile_product(b->heads, n16, a->head_dim, s->q, a->head_dim, keys, KV_TILE, f16, s->scores, KV_TILE);
    for (int32_t h = 0; h < b->heads; h++) {
        int32_t position = b->position + h / b->ratio;
        max[h] = k->tile_softmax(s->scores + (size_t)h * KV_TILE, n16, first_position(a, position) - start,
                                 position - start + 1, &sum[h]);
    }
    const void *values = tile_values(w, b, head, n, s->values, &f16);
    k->tile_product(b->heads, c->v_dim, n, s->scores, KV_TILE, values, c->v_dim, f16, s->part, c->v_dim);
}

static void write_head(const cpu_worker *w, const block *b, int32_t h, const float *acc, float sum)
{
    int32_t dim = b->n->attention.head_dim;
    float *dst = cpu_row(b->n->dst, b->row + h / b->ratio) + (size_t)(b->head * b->ratio + h % b->ratio) * (size_t)dim;
    w->be->k->scale(dst, acc, 1.0f / sum, dim);
}

/* Whole rows on this thread. */
static void whole_block(const cpu_worker *w, const block *b, const scratch *s)
{
    const cpu_kernels *k = w->be->k;
    const ds4_attention *a = &b->n->attention;
    int32_t v_dim = b->n->cache->v_dim;
    float max[b->heads], sum[b->heads];
    for (int32_t h = 0; h < b->heads; h++) {
        s->max[h] = -INFINITY;
        s->sum[h] = 0.0f;
    }
    memset(s->acc, 0, (size_t)b->heads * (size_t)v_dim * sizeof(float));
    load_queries(w, b, s);
    int32_t last = (b->position + b->n_rows - 1) / KV_TILE;
    for (int32_t t = first_position(a, b->position) / KV_TILE; t <= last; t++) {
        one_tile(w, b, t, s, max, sum);
        for (int32_t h = 0; h < b->heads; h++)
            if (max[h] != -INFINITY)
                k->tile_fold(s->acc + (size_t)h * (size_t)v_dim, &s->max[h], &s->sum[h], s->part + (size_t)h * (size_t)v_dim,
                             max[h], sum[h], v_dim);
    }
    for (int32_t h = 0; h < b->heads; h++)
        write_head(w, b, h, s->acc + (size_t)h * (size_t)v_dim, s->sum[h]);
}

/* ---- few rows, many threads: tiles apart ----
 * A partial lies at [row][tile][KV head][ratio] as v_dim values, the maximum, the sum. */

static float *partial_at(const cpu_worker *w, const block *b, int32_t tile)
{
    size_t heads = (size_t)b->n->attention.n_head, tiles = (size_t)b->n->cache->n_tiles;
    size_t index = ((size_t)b->row * tiles + (size_t)tile) * heads + (size_t)b->head * (size_t)b->ratio;
    return (float *)cpu_shared(w, NEED_PARTIALS) + index * cpu_partial_stride(b->n->cache);
}

static void some_tiles(const cpu_worker *w, const block *b, int32_t from, int32_t to, const scratch *s)
{
    size_t stride = cpu_partial_stride(b->n->cache);
    int32_t v_dim = b->n->cache->v_dim;
    float max[b->heads], sum[b->heads];
    load_queries(w, b, s);
    for (int32_t t = from; t < to; t++) {
        one_tile(w, b, t, s, max, sum);
        float *p = partial_at(w, b, t);
        for (int32_t h = 0; h < b->heads; h++, p += stride) {
            memcpy(p, s->part + (size_t)h * (size_t)v_dim, (size_t)v_dim * sizeof(float));
            p[v_dim] = max[h];
            p[v_dim + 1] = sum[h];
        }
    }
}

static void fold_tiles(const cpu_worker *w, const block *b, int32_t from, int32_t to, const scratch *s)
{
    size_t stride = cpu_partial_stride(b->n->cache);
    int32_t v_dim = b->n->cache->v_dim;
    for (int32_t h = 0; h < b->heads; h++) {
        float max = -INFINITY, sum = 0.0f;
        memset(s->acc, 0, (size_t)v_dim * sizeof(float));
        for (int32_t t = from; t < to; t++) {
            const float *p = partial_at(w, b, t) + (size_t)h * stride;
            if (p[v_dim] != -INFINITY)
                w->be->k->tile_fold(s->acc, &max, &sum, p, p[v_dim], p[v_dim + 1], v_dim);
        }
        write_head(w, b, h, s->acc, sum);
    }
}

/* ---- sharing ---- */

static block block_of(const cpu_node *n, const cpu_span *span, int32_t row, int32_t n_rows, int32_t head)
{
    int32_t ratio = n->attention.n_head / n->attention.n_head_kv;
    return (block){.n = n, .row = span->row + row, .n_rows = n_rows, .bank = span->bank, .position = span->position + row,
                   .head = head, .ratio = ratio, .heads = n_rows * ratio};
}

/* Few rows for many threads: every (row, KV head) goes in parts of its tiles. */
static void one_part(const cpu_worker *w, const cpu_node *n, int32_t item, const scratch *s)
{
    const cpu_step *step = w->step;
    const ds4_attention *a = &n->attention;
    int32_t part = item % step->per_row, head = item / step->per_row % a->n_head_kv, row = item / step->per_row / a->n_head_kv;
    const cpu_span span = {.row = row, .n_rows = 1, .bank = step->banks[row], .position = step->positions[row]};
    block b = block_of(n, &span, 0, 1, head);
    int32_t from = first_position(a, b.position) / KV_TILE, to = b.position / KV_TILE + 1;
    int32_t size = (to - from + step->per_row - 1) / step->per_row, parts = (to - from + size - 1) / size;
    if (part >= parts)
        return;
    if (parts == 1) {
        whole_block(w, &b, s);
        return;
    }
    int32_t t0 = from + part * size, t1 = t0 + size < to ? t0 + size : to;
    some_tiles(w, &b, t0, t1, s);
    /* The last to finish a (row, head) folds its tiles, and leaves the count ready for the next layer. */
    atomic_int *count = (atomic_int *)cpu_shared(w, NEED_PARTIAL_COUNTS) + row * a->n_head_kv + head;
    if (atomic_fetch_add_explicit(count, 1, memory_order_acq_rel) + 1 == parts) {
        atomic_store_explicit(count, 0, memory_order_relaxed);
        fold_tiles(w, &b, from, to, s);
    }
}

/* Numbers the blocks of so many rows over all spans; returns how many there are. */
static int32_t number_blocks(cpu_step *step, int32_t rows)
{
    int32_t n = 0;
    for (int32_t i = 0; i < step->n_spans; i++) {
        step->spans[i].first_block = n;
        n += (step->spans[i].n_rows + rows - 1) / rows;
    }
    return n;
}

int32_t cpu_cut_attention(cpu_worker *w, const cpu_node *n)
{
    cpu_step *step = w->step;
    const ds4_attention *a = &n->attention;
    int32_t want = 4 * w->nth, pairs = step->n_rows * a->n_head_kv, ratio = a->n_head / a->n_head_kv;
    step->per_row = 0;
    if (w->nth > 1 && pairs < want) {
        step->per_row = (want + pairs - 1) / pairs;
        return pairs * step->per_row;
    }
    int32_t rows = BLOCK_HEADS / ratio > 0 ? BLOCK_HEADS / ratio : 1;
    step->n_blocks = number_blocks(step, rows);
    while (w->nth > 1 && rows > 1 && step->n_blocks * a->n_head_kv < want) {
        rows = (rows + 1) / 2;
        step->n_blocks = number_blocks(step, rows);
    }
    step->block_rows = rows;
    return step->n_blocks * a->n_head_kv;
}

void cpu_do_attention(cpu_worker *w, const cpu_node *n, int32_t item)
{
    const cpu_step *step = w->step;
    scratch s;
    carve(n, cpu_own(w, NEED_OWN_ATTENTION), &s);
    if (step->per_row) {
        one_part(w, n, item, &s);
        return;
    }
    /* From the last rows to the first: the long ones first, so that threads end together. */
    int32_t heads = n->attention.n_head_kv, number = step->n_blocks - 1 - item / heads, low = 0, high = step->n_spans - 1;
    while (low < high) { /* the span that holds the block */
        int32_t middle = (low + high + 1) / 2;
        if (step->spans[middle].first_block <= number)
            low = middle;
        else
            high = middle - 1;
    }
    const cpu_span *span = &step->spans[low];
    int32_t row = (number - span->first_block) * step->block_rows;
    int32_t n_rows = span->n_rows - row < step->block_rows ? span->n_rows - row : step->block_rows;
    block b = block_of(n, span, row, n_rows, item % heads);
    whole_block(w, &b, &s);
}
