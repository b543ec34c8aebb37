/* latent_ops.c - what reads and writes the latent cache: raw rows, compressed rows, their selection, attention over both.
 *
 * A row's attention folds, in this order, the sink, its raw rows by position and its compressed rows by index, in tiles of
 * KV_TILE that begin at the first of either kind. So the order of summation follows from the row's position and what was
 * selected for it, and from nothing else. */
#include "native/backends/cpu/backend.h"
#include "native/quant/quant.h"

#include <math.h>
#include <string.h>

#define SCORE_ROWS 512  /* compressed rows of one item of the indexer's scoring */
#define HEADS_LEAST 8   /* heads of one item of attention, if there are as many */

static size_t up16(size_t n) { return (n + 15) / 16 * 16; }

static uint8_t *layer_at(const cpu_worker *w, const cpu_node *n, int32_t row)
{
    const ds4_cache *c = n->cache;
    return c->base + (size_t)w->step->banks[row] * c->latent->bank_bytes + c->latent->layers[n->attention.layer].offset;
}

static const latent_layer *layout_of(const cpu_node *n) { return &n->cache->latent->layers[n->attention.layer]; }

/* Closed windows that a position sees; its own, if it closes one, among them. */
static int32_t visible(int32_t ratio, int32_t position) { return (position + 1) / ratio; }

/* ---- storing ---- */

static void latent_store(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    const ds4_cache *c = n->cache;
    const latent_layer *l = layout_of(n);
    const float *kv = cpu_row(n->y, r);
    uint8_t *to = layer_at(w, n, r) + (size_t)(w->step->positions[r] % l->n_raw) * c->latent->raw_bytes;
    if (c->d.rounding & DS4_ROUNDING_KV_FP8) {
        float *rounded = cpu_own(w, NEED_OWN_ATTENTION);
        memcpy(rounded, kv, (size_t)c->d.head_dim * sizeof(float));
        cpu_round_fp8(rounded, c->d.head_dim - c->d.rope_dim);
        kv = rounded;
    }
    cpu_latent_put(w->be->k, c->d.type, kv, c->d.head_dim, to);
}

static void carry(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    const int32_t position = w->step->positions[r], bank = w->step->banks[r];
    const size_t bytes = (size_t)n->cache->d.carry * sizeof(float);
    if (n->op == OP_CARRY_STORE)
        memcpy(cpu_latent_carried(n->cache, bank, position), cpu_row(n->y, r), bytes);
    else
        memcpy(cpu_row(n->dst, r), cpu_latent_carried(n->cache, bank, position > 0 ? position - 1 : 0), bytes);
}

/* ---- compression ---- */

static float *state_of(const latent_stream *s, uint8_t *layer, int32_t position)
{
    return (float *)(void *)(layer + s->state) + (size_t)(position % s->n_state) * 2 * (size_t)s->cols;
}

static void remember(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    const latent_layer *l = layout_of(n);
    const latent_stream *s = &l->stream[n->stream];
    const int32_t position = w->step->positions[r];
    const cpu_weight *ape = &n->w[0]->m;
    float *to = state_of(s, layer_at(w, n, r), position);
    memcpy(to, cpu_row(n->y, r), (size_t)s->cols * sizeof(float));
    ds4_dequant_row(ape->type, ape->data + (size_t)(position % l->ratio) * ape->row_bytes, s->cols, to + s->cols);
    w->be->k->add(to + s->cols, cpu_row(n->z, r), s->cols);
}

/* The softmax-weighted mean of the entries of a window, per column. Entry e is at position from + e; overlapping windows
 * take the first half of the columns of the window before, the second half of their own. */
static void mean_of_window(const latent_stream *s, uint8_t *layer, int32_t ratio, int32_t from, int32_t count, float *row,
                           float *most, float *sum)
{
    for (int32_t i = 0; i < s->width; i++) {
        most[i] = -INFINITY;
        row[i] = sum[i] = 0;
    }
    for (int pass = 0; pass < 2; pass++)
        for (int32_t e = 0; e < count; e++) {
            const int32_t shift = s->cols > s->width && e >= count - ratio ? s->width : 0;
            const float *kv = state_of(s, layer, from + e) + shift, *gate = kv + s->cols;
            if (pass == 0)
                for (int32_t i = 0; i < s->width; i++)
                    most[i] = gate[i] > most[i] ? gate[i] : most[i];
            else
                for (int32_t i = 0; i < s->width; i++) {
                    const float p = expf(gate[i] - most[i]);
                    sum[i] += p;
                    row[i] += p * kv[i];
                }
        }
    for (int32_t i = 0; i < s->width; i++)
        row[i] /= sum[i];
}

static void close_window(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    const ds4_cache *c = n->cache;
    const latent_layer *l = layout_of(n);
    const latent_stream *s = &l->stream[n->stream];
    const ds4_rope *rope = &w->step->program->ropes[n->rope];
    const int32_t position = w->step->positions[r], first = position - l->ratio + 1;
    uint8_t *layer = layer_at(w, n, r);
    float *row = cpu_own(w, NEED_OWN_ATTENTION), *most = row + up16((size_t)s->width), *sum = most + up16((size_t)s->width);
    int32_t from = first;
    if ((position + 1) % l->ratio)
        return;
    if (s->cols > s->width && first >= l->ratio)
        from -= l->ratio;
    mean_of_window(s, layer, l->ratio, from, position - from + 1, row, most, sum);
    w->be->k->rmsnorm(row, row, n->w[1]->vector, s->width, n->eps);
    cpu_rope_angles(rope, first, most, most + rope->dim);
    w->be->k->rope(row + rope->from, most, most + rope->dim, rope->dim, rope->kind);
    if (n->stream == DS4_STREAM_LATENT && c->d.rounding & DS4_ROUNDING_KV_FP8)
        cpu_round_fp8(row, s->width - c->d.rope_dim);
    if (n->stream == DS4_STREAM_INDEX && c->d.rounding & DS4_ROUNDING_INDEX_FP4)
        cpu_round_hadamard_fp4(row, s->width);
    cpu_latent_put(w->be->k, c->d.type, row, s->width, layer + s->rows + (size_t)(first / l->ratio) * s->row_bytes);
}

/* ---- selection ---- */

static size_t score_stride(const cpu_node *n) { return up16((size_t)(n->cache->d.n_ctx / layout_of(n)->ratio)); }

static float *scores_of(const cpu_worker *w, const cpu_node *n, int32_t row)
{
    return (float *)cpu_shared(w, NEED_SCORES) + (size_t)row * score_stride(n);
}

/* Scores of SCORE_ROWS index rows for one row of the step, if it sees more than it may take. */
static void score(const cpu_worker *w, const cpu_node *n, int32_t r, int32_t from)
{
    const ds4_cache *c = n->cache;
    const latent_stream *s = &layout_of(n)->stream[DS4_STREAM_INDEX];
    const int32_t seen = visible(layout_of(n)->ratio, w->step->positions[r]), heads = n->attention.n_head, dim = s->width;
    const int32_t count = seen - from < SCORE_ROWS ? seen - from : SCORE_ROWS;
    if (seen <= n->top_k || count <= 0)
        return;
    float *dots = cpu_own(w, NEED_OWN_ATTENTION), *rounded = dots + (size_t)heads * SCORE_ROWS, *to = scores_of(w, n, r) + from;
    const float *q = cpu_row(n->x, r), *weights = cpu_row(n->y, r), scale = 1.0f / sqrtf((float)heads * (float)dim);
    if (c->d.rounding & DS4_ROUNDING_INDEX_FP4) {
        memcpy(rounded, q, (size_t)heads * (size_t)dim * sizeof(float));
        for (int32_t h = 0; h < heads; h++)
            cpu_round_hadamard_fp4(rounded + h * dim, dim);
        q = rounded;
    }
    const cpu_weight rows = {.type = c->d.type, .n_out = count, .n_in = dim, .row_bytes = s->row_bytes,
                             .data = layer_at(w, n, r) + s->rows + (size_t)from * s->row_bytes};
    mm_run(w->be->mm, &rows, MM_FORM_F32, q, dim, NULL, heads, 0, count, dots, SCORE_ROWS, MM_STORE_SET,
           cpu_own(w, NEED_OWN_PRODUCT));
    for (int32_t i = 0; i < count; i++)
        to[i] = 0;
    for (int32_t h = 0; h < heads; h++, dots += SCORE_ROWS) {
        const float weight = weights[h] * scale;
        for (int32_t i = 0; i < count; i++)
            to[i] += weight * (dots[i] > 0 ? dots[i] : 0);
    }
}

/* The k-th highest of n values, 1 <= k <= n, which are put out of order. */
static float kth_highest(float *v, int32_t n, int32_t k)
{
    int32_t low = 0, high = n - 1, want = k - 1;
    while (low < high) {
        const float pivot = v[low + (high - low) / 2];
        int32_t i = low, j = high;
        while (i <= j) {
            while (v[i] > pivot)
                i++;
            while (pivot > v[j])
                j--;
            if (i <= j) {
                const float t = v[i];
                v[i++] = v[j];
                v[j--] = t;
            }
        }
        if (want <= j)
            high = j;
        else if (want >= i)
            low = i;
        else
            break;
    }
    return v[want];
}

static void choose_rows(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    const int32_t seen = visible(layout_of(n)->ratio, w->step->positions[r]), k = n->top_k;
    int32_t *dst = (int32_t *)(void *)cpu_row(n->dst, r), *rows = dst + 1, count = 0, higher = 0;
    if (seen <= k) {
        for (int32_t i = 0; i < seen; i++)
            rows[i] = i;
        *dst = seen;
        return;
    }
    const float *scores = scores_of(w, n, r);
    float *copy = cpu_own(w, NEED_OWN_ATTENTION);
    memcpy(copy, scores, (size_t)seen * sizeof(float));
    const float least = kth_highest(copy, seen, k);
    for (int32_t i = 0; i < seen; i++)
        higher += scores[i] > least;
    /* All that are higher, and of those that equal the last place the first. */
    for (int32_t i = 0, equal = k - higher; i < seen && count < k; i++)
        if (scores[i] > least || (scores[i] == least && equal-- > 0))
            rows[count++] = i;
    *dst = count;
}

/* ---- attention ---- */

typedef struct scratch {
    float *q, *tile, *scores, *part, *acc, *max, *sum;
} scratch;

static int32_t heads_of_item(const cpu_node *n, int32_t rows, int32_t nth)
{
    int32_t heads = n->attention.n_head;
    while (nth > 1 && heads > HEADS_LEAST && rows * ((n->attention.n_head + heads - 1) / heads) < 4 * nth)
        heads = (heads + 1) / 2;
    return heads;
}

static size_t carve(const cpu_node *n, float *base, scratch *s)
{
    const size_t heads = (size_t)n->attention.n_head, dim = (size_t)n->cache->d.head_dim;
    const size_t sizes[] = {heads * dim, KV_TILE * dim, heads * KV_TILE, heads * dim, heads * dim, heads, heads};
    float **parts[] = {&s->q, &s->tile, &s->scores, &s->part, &s->acc, &s->max, &s->sum};
    size_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *parts[i] = base + at;
        at += up16(sizes[i]);
    }
    return at;
}

/* Folds the first `count` rows of the tile into every head's running result. */
static void fold_tile(const cpu_worker *w, const cpu_node *n, const scratch *s, int32_t heads, int32_t count)
{
    const cpu_kernels *k = w->be->k;
    const int32_t dim = n->cache->d.head_dim, padded = (int32_t)up16((size_t)count);
    const cpu_weight rows = {.type = DS4_TYPE_F32, .n_out = count, .n_in = dim, .row_bytes = (size_t)dim * sizeof(float),
                             .data = (const uint8_t *)s->tile};
    mm_run(w->be->mm, &rows, MM_FORM_F32, s->q, dim, NULL, heads, 0, count, s->scores, KV_TILE, MM_STORE_SET,
           cpu_own(w, NEED_OWN_PRODUCT));
    float max[heads], sum[heads];
    for (int32_t h = 0; h < heads; h++)
        max[h] = k->tile_softmax(s->scores + (size_t)h * KV_TILE, padded, 0, count, &sum[h]);
    k->tile_product(heads, dim, count, s->scores, KV_TILE, s->tile, dim, false, s->part, dim);
    for (int32_t h = 0; h < heads; h++)
        k->tile_fold(s->acc + (size_t)h * (size_t)dim, &s->max[h], &s->sum[h], s->part + (size_t)h * (size_t)dim, max[h],
                     sum[h], dim);
}

static void attend(const cpu_worker *w, const cpu_node *n, int32_t r, int32_t head, int32_t heads, const scratch *s)
{
    const cpu_kernels *k = w->be->k;
    const ds4_cache *c = n->cache;
    const latent_layer *l = layout_of(n);
    const latent_stream *st = &l->stream[DS4_STREAM_LATENT];
    const int32_t dim = c->d.head_dim, position = w->step->positions[r];
    const uint8_t *layer = layer_at(w, n, r);
    const int32_t *selected = n->z.buffer ? (const int32_t *)(const void *)cpu_row(n->z, r) : NULL;
    const int32_t n_rows = l->ratio == 0 ? 0 : selected ? selected[0] : visible(l->ratio, position);

    k->scale(s->q, cpu_row(n->x, r) + (size_t)head * (size_t)dim, n->attention.scale, (int64_t)heads * dim);
    memset(s->acc, 0, (size_t)heads * (size_t)dim * sizeof(float));
    for (int32_t h = 0; h < heads; h++) {
        s->max[h] = n->w[0]->vector[head + h];
        s->sum[h] = 1;
    }
    int32_t count = 0;
    const int32_t from = cpu_latent_raw_from(&c->d, position);
    for (int32_t p = from > n->first ? from : n->first; p <= position; p++) {
        cpu_latent_get(k, c->d.type, layer + (size_t)(p % l->n_raw) * c->latent->raw_bytes, dim,
                       s->tile + (size_t)count++ * (size_t)dim);
        if (count == KV_TILE || p == position) {
            fold_tile(w, n, s, heads, count);
            count = 0;
        }
    }
    for (int32_t i = 0; i < n_rows; i++) {
        const int32_t row = selected ? selected[1 + i] : i;
        cpu_latent_get(k, c->d.type, layer + st->rows + (size_t)row * st->row_bytes, dim,
                       s->tile + (size_t)count++ * (size_t)dim);
        if (count == KV_TILE || i == n_rows - 1) {
            fold_tile(w, n, s, heads, count);
            count = 0;
        }
    }
    for (int32_t h = 0; h < heads; h++)
        k->scale(cpu_row(n->dst, r) + (size_t)(head + h) * (size_t)dim, s->acc + (size_t)h * (size_t)dim, 1.0f / s->sum[h], dim);
}

static void attention_item(const cpu_worker *w, const cpu_node *n, int32_t item)
{
    const int32_t all = n->attention.n_head, heads = w->step->block_rows, parts = (all + heads - 1) / heads;
    const int32_t head = item % parts * heads;
    scratch s;
    carve(n, cpu_own(w, NEED_OWN_ATTENTION), &s);
    attend(w, n, item / parts, head, all - head < heads ? all - head : heads, &s);
}

/* ---- items ---- */

/* How many pieces of SCORE_ROWS the row that sees most takes; 0 if no row sees more than it may take. */
static int32_t score_pieces(const cpu_step *s, const cpu_node *n)
{
    int32_t most = 0;
    for (int32_t r = 0; r < s->n_rows; r++) {
        const int32_t seen = visible(layout_of(n)->ratio, s->positions[r]);
        most = seen > most ? seen : most;
    }
    return most > n->top_k ? (most + SCORE_ROWS - 1) / SCORE_ROWS : 0;
}

int32_t cpu_cut_latent(cpu_worker *w, const cpu_node *n, int32_t phase)
{
    cpu_step *s = w->step;
    switch (n->op) {
    case OP_COMPRESS: return cpu_cut_rows(w, s->n_rows);
    case OP_INDEX_SELECT:
        if (phase == 1)
            return cpu_cut_rows(w, s->n_rows);
        s->per_row = score_pieces(s, n);
        return s->n_rows * s->per_row;
    case OP_LATENT_ATTENTION:
        if (phase == 1)
            return 0;
        s->block_rows = heads_of_item(n, s->n_rows, w->nth);
        return s->n_rows * ((n->attention.n_head + s->block_rows - 1) / s->block_rows);
    default: return phase == 0 ? cpu_cut_rows(w, s->n_rows) : 0;
    }
}

void cpu_do_latent(cpu_worker *w, const cpu_node *n, int32_t phase, int32_t item)
{
    const cpu_step *s = w->step;
    int32_t r0, r1;
    if (n->op == OP_LATENT_ATTENTION) {
        attention_item(w, n, item);
        return;
    }
    if (n->op == OP_INDEX_SELECT && phase == 0) {
        score(w, n, item / s->per_row, item % s->per_row * SCORE_ROWS);
        return;
    }
    cpu_rows_of(w, s->n_rows, item, &r0, &r1);
    for (int32_t r = r0; r < r1; r++)
        switch (n->op) {
        case OP_LATENT_STORE: latent_store(w, n, r); break;
        case OP_CARRY_STORE:
        case OP_CARRY_LOAD: carry(w, n, r); break;
        case OP_COMPRESS: phase == 0 ? remember(w, n, r) : close_window(w, n, r); break;
        default: choose_rows(w, n, r); break;
        }
}

/* ---- scratch ---- */

size_t cpu_latent_own_bytes(const ds4_backend *be, const cpu_node *n)
{
    static float nowhere[1];
    const size_t dim = (size_t)n->cache->d.head_dim, heads = (size_t)n->attention.n_head;
    scratch s;
    (void)be;
    switch (n->op) {
    case OP_LATENT_STORE: return dim * sizeof(float);
    case OP_CARRY_STORE:
    case OP_CARRY_LOAD: return 0;
    case OP_COMPRESS: return (3 * up16((size_t)layout_of(n)->stream[n->stream].width) + 2 * dim) * sizeof(float);
    case OP_INDEX_SELECT: {
        const size_t scoring = heads * (SCORE_ROWS + (size_t)n->cache->d.index_dim), copy = score_stride(n);
        return (scoring > copy ? scoring : copy) * sizeof(float);
    }
    default: return carve(n, nowhere, &s) * sizeof(float);
    }
}

size_t cpu_latent_product_bytes(const ds4_backend *be, const cpu_node *n)
{
    const bool index = n->op == OP_INDEX_SELECT;
    const int32_t dim = index ? n->cache->d.index_dim : n->cache->d.head_dim;
    const cpu_weight rows = {.type = index ? n->cache->d.type : DS4_TYPE_F32, .n_out = index ? SCORE_ROWS : KV_TILE, .n_in = dim};
    size_t most = 0;
    if (!index && n->op != OP_LATENT_ATTENTION)
        return 0;
    for (int32_t heads = 1; heads <= n->attention.n_head; heads++) {
        const size_t bytes = mm_scratch_bytes(be->mm, &rows, MM_FORM_F32, heads);
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t cpu_latent_score_bytes(const cpu_node *n, int32_t max_rows)
{
    return n->op == OP_INDEX_SELECT ? (size_t)max_rows * score_stride(n) * sizeof(float) : 0;
}
