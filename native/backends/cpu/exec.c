/* exec.c - the operations: how each is cut into items, and what a thread does for one. */
#include "native/backends/cpu/backend.h"
#include "native/quant/quant.h"
#include "native/sampling/sampling.h"

#include <math.h>
#include <string.h>

/* ---- rows ---- */

int32_t cpu_cut_rows(cpu_worker *w, int32_t rows)
{
    int32_t size = w->nth == 1 ? rows : (rows + 4 * w->nth - 1) / (4 * w->nth);
    w->step->piece = size < 1 ? 1 : size;
    return (rows + w->step->piece - 1) / w->step->piece;
}

void cpu_rows_of(const cpu_worker *w, int32_t rows, int32_t item, int32_t *r0, int32_t *r1)
{
    *r0 = item * w->step->piece;
    *r1 = rows - *r0 < w->step->piece ? rows : *r0 + w->step->piece;
}

void cpu_resolve_token(cpu_step *s, int32_t row)
{
    if (s->tokens[row] < 0) /* `run` has checked that the row it comes from exists and had an output */
        s->tokens[row] = s->previous.tokens[s->previous.row_out[s->from[row]]];
    if (s->histories[row])
        s->histories[row][s->positions[row]] = s->tokens[row];
}

void cpu_rope_angles(const ds4_rope *rope, int32_t position, float *c, float *s)
{
    int32_t half = rope->dim / 2;
    for (int32_t i = 0; i < half; i++) {
        float angle = (float)position * rope->inv_freq[i];
        float co = (float)cos((double)angle) * rope->magnitude, si = (float)sin((double)angle) * rope->magnitude;
        int32_t a = rope->kind == DS4_ROPE_NORM ? 2 * i : i;
        int32_t b = rope->kind == DS4_ROPE_NORM ? 2 * i + 1 : i + half;
        c[a] = c[b] = co;
        s[a] = rope->inverse ? si : -si;
        s[b] = rope->inverse ? -si : si;
    }
}

void cpu_rope_tables(cpu_step *s, int32_t r0, int32_t r1)
{
    const ds4_program *p = s->program;
    for (int32_t t = 0; t < p->n_ropes; t++) {
        const ds4_rope *rope = &p->ropes[t];
        for (int32_t r = r0; r < r1; r++) {
            float *c = s->ropes[t] + (size_t)r * 2 * (size_t)rope->dim;
            cpu_rope_angles(rope, s->positions[r], c, c + rope->dim);
        }
    }
}

static void embed(cpu_worker *w, const cpu_node *n, int32_t r0, int32_t r1)
{
    cpu_step *s = w->step;
    const cpu_weight *e = &n->norm->m;
    cpu_rope_tables(s, r0, r1);
    for (int32_t r = r0; r < r1; r++) {
        cpu_resolve_token(s, r);
        ds4_dequant_row(e->type, e->data + (size_t)s->tokens[r] * e->row_bytes, e->n_in, cpu_row(n->dst, r));
    }
}

void cpu_rope_heads(const cpu_worker *w, float *x, int32_t n_head, int32_t head_dim, int32_t table, int32_t row)
{
    const ds4_rope *rope = &w->step->program->ropes[table];
    const float *c = w->step->ropes[table] + (size_t)row * 2 * (size_t)rope->dim;
    for (int32_t h = 0; h < n_head; h++)
        w->be->k->rope(x + (size_t)h * (size_t)head_dim + rope->from, c, c + rope->dim, rope->dim, rope->kind);
}

static void store_row(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    const cpu_step *s = w->step;
    const ds4_cache *c = n->cache;
    int32_t position = s->positions[r], dim = c->d.head_dim;
    uint16_t *tmp = cpu_own(w, NEED_OWN_ATTENTION);
    const float *k = cpu_row(n->y, r), *v = cpu_row(n->z, r);
    for (int32_t h = 0; h < c->d.n_head_kv; h++)
        cpu_cache_put(w->be->k, c, cpu_cache_head(c, s->banks[r], n->attention.layer, position / KV_TILE, h),
                      position % KV_TILE, k + h * dim, v + h * dim, tmp);
}

static ds4_rows rows_of_node(const cpu_node *n)
{
    return n->op == OP_EMBED || n->op == OP_ROPE || n->op == OP_KV_STORE || n->op == OP_ROPE_STORE ? DS4_ROWS_ALL
                                                                                                 : n->dst.rows;
}

static void one_row(cpu_worker *w, const cpu_node *n, int32_t r)
{
    const cpu_kernels *k = w->be->k;
    const ds4_attention *a = &n->attention;
    switch (n->op) {
    case OP_RMSNORM: k->rmsnorm(cpu_row(n->dst, r), cpu_row(n->x, r), n->norm->vector, n->x.cols, n->eps); break;
    case OP_ADD: k->add(cpu_row(n->dst, r), cpu_row(n->x, r), n->x.cols); break;
    case OP_SWIGLU: k->swiglu(cpu_row(n->dst, r), cpu_row(n->x, r), cpu_row(n->y, r), n->x.cols); break;
    case OP_GEGLU: k->geglu(cpu_row(n->dst, r), cpu_row(n->x, r), cpu_row(n->y, r), n->x.cols); break;
    case OP_SCALE: k->scale(cpu_row(n->dst, r), cpu_row(n->dst, r), n->clamp, n->dst.cols); break;
    case OP_BIAS: k->add(cpu_row(n->dst, r), n->norm->vector, n->dst.cols); break;
    case OP_RMSNORM_HEADS:
        for (int32_t at = 0, dim = n->dst.cols / a->n_head; at < n->dst.cols; at += dim)
            k->rmsnorm(cpu_row(n->dst, r) + at, cpu_row(n->dst, r) + at, n->norm->vector, dim, n->eps);
        break;
    case OP_ROPE: cpu_rope_heads(w, cpu_row(n->dst, r), a->n_head, a->head_dim, n->rope, r); break;
    case OP_KV_STORE: store_row(w, n, r); break;
    case OP_ROPE_STORE:
        cpu_rope_heads(w, cpu_row(n->x, r), a->n_head, a->head_dim, n->rope, r);
        cpu_rope_heads(w, cpu_row(n->y, r), a->n_head_kv, a->head_dim, n->rope, r);
        store_row(w, n, r);
        break;
    case OP_GATHER:
        memcpy(cpu_row(n->dst, r), cpu_row(n->x, w->step->out_rows[r]), (size_t)n->x.cols * sizeof(float));
        break;
    default: cpu_do_hyper(w, n, r); break;
    }
}

static void do_rows(cpu_worker *w, const cpu_node *n, int32_t item)
{
    int32_t r0, r1;
    cpu_rows_of(w, cpu_count(w->step, rows_of_node(n)), item, &r0, &r1);
    if (n->op == OP_EMBED) {
        embed(w, n, r0, r1);
        return;
    }
    for (int32_t r = r0; r < r1; r++)
        one_row(w, n, r);
}

/* ---- products ---- */

/* Where prepared inputs lie: shared by all threads, or this thread's own. */
typedef struct prepared {
    float *normed;
    uint8_t *q8, *i16;
} prepared;

static void *prepared_of(const prepared *p, mm_form form) { return form == MM_FORM_Q8 ? p->q8 : p->i16; }

static void prepare(const cpu_worker *w, const cpu_node *n, const prepared *p, int32_t r0, int32_t r1)
{
    const mm_form *form = w->step->form;
    const float *x = cpu_row(n->x, 0);
    int64_t stride = n->x.stride, n_in = n->x.cols;
    if (n->norm) {
        for (int32_t r = r0; r < r1; r++)
            w->be->k->rmsnorm(p->normed + (size_t)r * (size_t)n_in, x + r * stride, n->norm->vector, n_in, n->eps);
        x = p->normed;
        stride = n_in;
    }
    bool done[3] = {[MM_FORM_F32] = true};
    for (int32_t i = 0; i < n->n; i++)
        if (!done[form[i]]) {
            done[form[i]] = true;
            mm_prepare(w->be->mm, form[i], x, stride, n_in, r0, r1, prepared_of(p, form[i]));
        }
}

int64_t cpu_grain(const cpu_weight *m, int32_t rows, int32_t nth, bool gated)
{
    if (nth == 1) {
        /* Nothing to share; but the two products of a gated pair should meet in the cache. */
        const int64_t near = ((1 << 16) / rows + 15) / 16 * 16;
        return gated && near < m->n_out ? near : m->n_out;
    }
    /* A quarter of a thread's share, so that one that was held up does not hold up the rest; not below about a
     * microsecond of work, nor above about twenty of reading weights. Sizes as even as 16s allow. */
    const int64_t least = (1 << 15) / (m->n_in * rows) + 1, most = (1 << 19) / m->n_in + 1;
    int64_t grain = m->n_out / (4 * nth) + 1;
    grain = grain > most ? most : grain;
    grain = grain < least ? least : grain;
    const int64_t count = (m->n_out + grain - 1) / grain;
    return ((m->n_out + count - 1) / count + 15) / 16 * 16;
}

static prepared where_prepared(const cpu_worker *w)
{
    if (w->step->few)
        return (prepared){cpu_own(w, NEED_OWN_NORMED), cpu_own(w, NEED_OWN_Q8), cpu_own(w, NEED_OWN_I16)};
    return (prepared){cpu_shared(w, NEED_NORMED), cpu_shared(w, NEED_Q8), cpu_shared(w, NEED_I16)};
}

/* Phase 0 prepares inputs in the shared scratch, where that is needed and worth a stage. */
static int32_t cut_preparation(cpu_worker *w, const cpu_node *n, int32_t rows)
{
    cpu_step *s = w->step;
    bool needed = n->norm != NULL;
    for (int32_t i = 0; i < n->n; i++) {
        s->form[i] = mm_choose(w->be->mm, n->w[i]->m.type, n->x.cols, rows, w->be->desc.numeric);
        needed = needed || s->form[i] != MM_FORM_F32;
    }
    s->few = needed && w->nth > 1 && rows <= CPU_FEW_ROWS;
    return needed && !s->few ? cpu_cut_rows(w, rows) : 0;
}

/* Phase 1: the grains of all products in one line. Gated: a grain is the same outputs of both. */
static int32_t cut_product(const cpu_worker *w, const cpu_node *n, int32_t rows)
{
    int32_t count = 0;
    for (int32_t i = 0; i < (n->gated ? 1 : n->n); i++) {
        int64_t grain = cpu_grain(&n->w[i]->m, rows, w->nth, n->gated);
        count += (int32_t)((n->w[i]->m.n_out + grain - 1) / grain);
    }
    return count;
}

static void do_product(cpu_worker *w, const cpu_node *n, int32_t rows, int32_t item)
{
    const ds4_backend *be = w->be;
    const cpu_step *s = w->step;
    prepared p = where_prepared(w);
    if (s->few && w->prepared != s->stage) {
        prepare(w, n, &p, 0, rows);
        w->prepared = s->stage;
    }
    int32_t i = 0;
    int64_t grain = cpu_grain(&n->w[0]->m, rows, w->nth, n->gated);
    for (int32_t count; item >= (count = (int32_t)((n->w[i]->m.n_out + grain - 1) / grain)); item -= count)
        grain = cpu_grain(&n->w[++i]->m, rows, w->nth, n->gated);
    const cpu_weight *m = &n->w[i]->m;
    int64_t o0 = item * grain, o1 = o0 + grain < m->n_out ? o0 + grain : m->n_out;
    const float *x = n->norm ? p.normed : cpu_row(n->x, 0);
    int64_t x_stride = n->norm ? n->x.cols : n->x.stride;
    float *dst = cpu_row(n->out[i], 0); /* mm_run counts outputs from 0, wherever the grain begins */
    void *scratch = cpu_own(w, NEED_OWN_PRODUCT);
    mm_run(be->mm, m, s->form[i], x, x_stride, prepared_of(&p, s->form[i]), rows, o0, o1, dst, n->out[i].stride, n->store,
           scratch);
    if (!n->gated)
        return;
    float *up = cpu_own(w, NEED_OWN_GATE); /* here too the grain begins at o0 */
    mm_run(be->mm, &n->w[1]->m, s->form[1], x, x_stride, prepared_of(&p, s->form[1]), rows, o0, o1, up, o1 - o0, MM_STORE_SET,
           scratch);
    up += o0;
    dst += o0;
    for (int32_t r = 0; r < rows; r++, dst += n->out[i].stride, up += o1 - o0)
        (n->gated == GATE_GEGLU ? be->k->geglu : be->k->swiglu)(dst, dst, up, o1 - o0);
}

/* ---- sampling ---- */

static void sample_row(cpu_worker *w, const cpu_node *n, int32_t o)
{
    const cpu_step *s = w->step;
    const ds4_row_sampler *rs = &s->samplers[o];
    int32_t n_vocab = n->x.cols, n_top = rs->n_top < n_vocab ? rs->n_top : n_vocab;
    float *logits = cpu_row(n->x, o);
    if (s->out.logits)
        memcpy(s->out.logits + (size_t)o * (size_t)n_vocab, logits, (size_t)n_vocab * sizeof(float));
    double lse = 0.0;
    uint8_t *scratch = w->sampling;
    float *raw = (float *)(void *)scratch;
    scratch += ((size_t)n_vocab * sizeof(float) + 63) / 64 * 64;
    if (n_top > 0) {
        lse = ds4_sampling_logsumexp(logits, n_vocab);
        ds4_sampling_top(logits, n_vocab, lse, n_top, s->out.top_ids + (size_t)o * DS4_MAX_TOP,
                         s->out.top_logprobs + (size_t)o * DS4_MAX_TOP);
        memcpy(raw, logits, (size_t)n_vocab * sizeof(float)); /* the draw spoils them, its log-probability wants them */
    }
    double uniform = rs->params.temperature > 0.0f ? ds4_sampling_uniform(rs->params.seed, rs->n_history - 1) : 0.0;
    int32_t token = ds4_sampling_pick(&rs->params, logits, n_vocab, rs->history, rs->n_history, rs->params.output_from,
                                      rs->mask, uniform, scratch);
    s->out.tokens[o] = token;
    s->out.logprobs[o] = n_top > 0 ? ds4_sampling_logprob(raw[token], lse) : 0.0f;
}

/* ---- dispatch ---- */

int32_t cpu_cut(cpu_worker *w, const cpu_node *n, int32_t phase)
{
    const cpu_step *s = w->step;
    if (cpu_is_latent(n->op))
        return cpu_cut_latent(w, n, phase);
    int32_t rows = n->op == OP_PRODUCT ? cpu_count(s, n->x.rows) : cpu_count(s, rows_of_node(n));
    if (n->op == OP_PRODUCT)
        return rows == 0 ? 0 : phase == 0 ? cut_preparation(w, n, rows) : cut_product(w, n, rows);
    if (phase > 0)
        return 0;
    switch (n->op) {
    case OP_LAYER_END: return 0; /* the walk looks at it */
    case OP_ATTENTION: return cpu_cut_attention(w, n);
    case OP_SAMPLE: return s->n_out;
    case OP_EXPERTS_UP:
    case OP_EXPERTS_DOWN: return cpu_cut_experts(w, n);
    default: return cpu_cut_rows(w, rows);
    }
}

void cpu_do(cpu_worker *w, const cpu_node *n, int32_t phase, int32_t item)
{
    switch (n->op) {
    case OP_LAYER_END: break;
    case OP_ATTENTION: cpu_do_attention(w, n, item); break;
    case OP_SAMPLE: sample_row(w, n, item); break;
    case OP_LATENT_STORE:
    case OP_COMPRESS:
    case OP_INDEX_SELECT:
    case OP_LATENT_ATTENTION:
    case OP_CARRY_STORE:
    case OP_CARRY_LOAD: cpu_do_latent(w, n, phase, item); break;
    case OP_EXPERTS_UP:
    case OP_EXPERTS_DOWN: cpu_do_experts(w, n, item); break;
    case OP_PRODUCT: {
        int32_t rows = cpu_count(w->step, n->x.rows), r0, r1;
        if (phase == 1) {
            do_product(w, n, rows, item);
            break;
        }
        const prepared p = where_prepared(w);
        cpu_rows_of(w, rows, item, &r0, &r1);
        prepare(w, n, &p, r0, r1);
        break;
    }
    default: do_rows(w, n, item); break;
    }
}

bool cpu_is_small(const cpu_step *s, const cpu_node *n)
{
    const ds4_attention *a = &n->attention;
    switch (n->op) {
    case OP_LAYER_END: return true;
    case OP_EMBED: return (int64_t)s->n_rows * n->dst.cols <= CPU_SMALL / 2;
    case OP_RMSNORM:
    case OP_ADD:
    case OP_SCALE:
    case OP_BIAS:
    case OP_RMSNORM_HEADS:
    case OP_GATHER: return (int64_t)cpu_count(s, n->dst.rows) * n->dst.cols <= CPU_SMALL;
    case OP_SWIGLU:
    case OP_GEGLU:
    case OP_SWIGLU_CLAMP: return (int64_t)cpu_count(s, n->dst.rows) * n->dst.cols <= CPU_SMALL / 4;
    case OP_RMS_HEADS: return (int64_t)cpu_count(s, n->dst.rows) * n->dst.cols <= CPU_SMALL;
    case OP_REPEAT: return (int64_t)cpu_count(s, n->dst.rows) * n->dst.cols <= 2 * CPU_SMALL;
    case OP_HC_PRE: return (int64_t)cpu_count(s, n->dst.rows) * n->x.cols <= CPU_SMALL / 2;
    case OP_HC_POST: return (int64_t)cpu_count(s, n->dst.rows) * n->dst.cols <= CPU_SMALL / 2;
    case OP_ROUTE: return (int64_t)cpu_count(s, n->dst.rows) * n->x.cols <= CPU_SMALL / 16;
    case OP_LATENT_STORE: return (int64_t)s->n_rows * n->y.cols <= CPU_SMALL;
    case OP_COMPRESS: return (int64_t)s->n_rows * n->y.cols <= CPU_SMALL / 4;
    case OP_ROPE:
    case OP_KV_STORE:
    case OP_ROPE_STORE:
        return (int64_t)s->n_rows * (a->n_head + 2 * a->n_head_kv) * a->head_dim <= CPU_SMALL / 2;
    default: return false;
    }
}
