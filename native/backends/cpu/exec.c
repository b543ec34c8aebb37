/* exec.c - the operations, as one of the step's threads does its share of them. */
#include "native/backends/cpu/backend.h"
#include "native/quant/quant.h"
#include "native/sampling/sampling.h"

#include <math.h>
#include <string.h>

/* ---- rows ---- */

/* Rows in pieces: several for each thread, so that one that is late does not hold the others up. */
typedef struct pieces {
    int32_t rows, size, count;
} pieces;

static pieces cut(const cpu_worker *w, int32_t rows)
{
    int32_t size = w->nth == 1 ? rows : (rows + 4 * w->nth - 1) / (4 * w->nth);
    if (size < 1)
        size = 1;
    return (pieces){rows, size, (rows + size - 1) / size};
}

static bool take_rows(cpu_worker *w, const pieces *p, int32_t *r0, int32_t *r1)
{
    int32_t i = cpu_take(w);
    if (i >= p->count)
        return false;
    *r0 = i * p->size;
    *r1 = *r0 + p->size < p->rows ? *r0 + p->size : p->rows;
    return true;
}

void cpu_resolve_token(cpu_step *s, int32_t row)
{
    if (s->tokens[row] < 0) /* `run` has checked that the row it comes from exists and had an output */
        s->tokens[row] = s->previous.tokens[s->previous.row_out[s->from[row]]];
    if (s->histories[row])
        s->histories[row][s->positions[row]] = s->tokens[row];
}

void cpu_rope_tables(cpu_step *s, int32_t r0, int32_t r1)
{
    const ds4_program *p = s->program;
    for (int32_t t = 0; t < p->n_ropes; t++) {
        const ds4_rope *rope = &p->ropes[t];
        for (int32_t r = r0; r < r1; r++) {
            float *c = s->ropes[t] + (size_t)r * 2 * (size_t)rope->dim, *sn = c + rope->dim;
            int32_t half = rope->dim / 2;
            for (int32_t i = 0; i < half; i++) {
                float angle = (float)s->positions[r] * rope->inv_freq[i];
                float co = (float)cos((double)angle) * rope->magnitude, si = (float)sin((double)angle) * rope->magnitude;
                int32_t a = rope->kind == DS4_ROPE_NORM ? 2 * i : i;
                int32_t b = rope->kind == DS4_ROPE_NORM ? 2 * i + 1 : i + half;
                c[a] = c[b] = co;
                sn[a] = -si;
                sn[b] = si;
            }
        }
    }
}

static void embed(cpu_worker *w, const cpu_node *n)
{
    cpu_step *s = w->step;
    pieces p = cut(w, s->n_rows);
    for (int32_t r0, r1; take_rows(w, &p, &r0, &r1);) {
        cpu_rope_tables(s, r0, r1);
        for (int32_t r = r0; r < r1; r++) {
            cpu_resolve_token(s, r);
            const cpu_weight *e = &n->norm->m;
            ds4_dequant_row(e->type, e->data + (size_t)s->tokens[r] * e->row_bytes, e->n_in, cpu_row(n->dst, r));
        }
    }
}

static void rope_heads(const cpu_worker *w, float *x, int32_t n_head, int32_t head_dim, int32_t table, int32_t row)
{
    const ds4_rope *rope = &w->step->program->ropes[table];
    const float *c = w->step->ropes[table] + (size_t)row * 2 * (size_t)rope->dim;
    for (int32_t h = 0; h < n_head; h++)
        w->be->k->rope(x + (size_t)h * (size_t)head_dim, c, c + rope->dim, rope->dim, rope->kind);
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

static void by_row(cpu_worker *w, const cpu_node *n)
{
    const cpu_kernels *k = w->be->k;
    const cpu_step *s = w->step;
    const ds4_attention *a = &n->attention;
    ds4_rows which = n->op == OP_ROPE || n->op == OP_KV_STORE || n->op == OP_ROPE_STORE ? DS4_ROWS_ALL : n->dst.rows;
    pieces p = cut(w, cpu_count(s, which));
    for (int32_t r0, r1; take_rows(w, &p, &r0, &r1);)
        for (int32_t r = r0; r < r1; r++)
            switch (n->op) {
            case OP_RMSNORM: k->rmsnorm(cpu_row(n->dst, r), cpu_row(n->x, r), n->norm->vector, n->x.cols, n->eps); break;
            case OP_ADD: k->add(cpu_row(n->dst, r), cpu_row(n->x, r), n->x.cols); break;
            case OP_SWIGLU: k->swiglu(cpu_row(n->dst, r), cpu_row(n->x, r), cpu_row(n->y, r), n->x.cols); break;
            case OP_ROPE: rope_heads(w, cpu_row(n->dst, r), a->n_head, a->head_dim, n->rope, r); break;
            case OP_KV_STORE: store_row(w, n, r); break;
            case OP_ROPE_STORE:
                rope_heads(w, cpu_row(n->x, r), a->n_head, a->head_dim, n->rope, r);
                rope_heads(w, cpu_row(n->y, r), a->n_head_kv, a->head_dim, n->rope, r);
                store_row(w, n, r);
                break;
            case OP_GATHER:
                memcpy(cpu_row(n->dst, r), cpu_row(n->x, s->out_rows[r]), (size_t)n->x.cols * sizeof(float));
                break;
            default: break;
            }
}

/* ---- products ---- */

/* Where prepared inputs lie: shared by all threads, or this thread's own. */
typedef struct prepared {
    float *normed;
    uint8_t *q8, *i16;
} prepared;

static void *prepared_of(const prepared *p, mm_form form) { return form == MM_FORM_Q8 ? p->q8 : p->i16; }

static void prepare(const cpu_worker *w, const cpu_node *n, const mm_form *form, const prepared *p, int32_t r0, int32_t r1)
{
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

static void product(cpu_worker *w, const cpu_node *n)
{
    const ds4_backend *be = w->be;
    int32_t rows = cpu_count(w->step, n->x.rows);
    if (rows == 0)
        return;
    mm_form form[CPU_MAX_PRODUCTS];
    bool plain = !n->norm;
    for (int32_t i = 0; i < n->n; i++) {
        form[i] = mm_choose(be->mm, n->w[i]->m.type, n->x.cols, rows, be->desc.numeric);
        plain = plain && form[i] == MM_FORM_F32;
    }
    prepared p = {cpu_shared(w, NEED_NORMED), cpu_shared(w, NEED_Q8), cpu_shared(w, NEED_I16)};
    if (plain) {
        /* nothing to prepare */
    } else if (w->nth > 1 && rows <= CPU_FEW_ROWS) {
        p = (prepared){cpu_own(w, NEED_OWN_NORMED), cpu_own(w, NEED_OWN_Q8), cpu_own(w, NEED_OWN_I16)};
        prepare(w, n, form, &p, 0, rows);
    } else {
        pieces cuts = cut(w, rows);
        for (int32_t r0, r1; take_rows(w, &cuts, &r0, &r1);)
            prepare(w, n, form, &p, r0, r1);
        cpu_sync(w);
    }
    const float *x = n->norm ? p.normed : cpu_row(n->x, 0);
    int64_t x_stride = n->norm ? n->x.cols : n->x.stride;
    void *scratch = cpu_own(w, NEED_OWN_PRODUCT);

    /* The grains of all products in one line. Gated: a grain is the same outputs of both. */
    int32_t first = 0, i = 0, n_lines = n->gated ? 1 : n->n, item = cpu_take(w);
    int64_t grain = cpu_grain(&n->w[0]->m, rows, w->nth, n->gated);
    while (i < n_lines) {
        const cpu_weight *m = &n->w[i]->m;
        int32_t count = (int32_t)((m->n_out + grain - 1) / grain);
        if (item >= first + count) {
            first += count;
            if (++i < n_lines)
                grain = cpu_grain(&n->w[i]->m, rows, w->nth, n->gated);
            continue;
        }
        int64_t o0 = (item - first) * grain, o1 = o0 + grain < m->n_out ? o0 + grain : m->n_out;
        float *dst = cpu_row(n->out[i], 0); /* mm_run counts outputs from 0, wherever the grain begins */
        mm_run(be->mm, m, form[i], x, x_stride, prepared_of(&p, form[i]), rows, o0, o1, dst, n->out[i].stride, n->store,
               scratch);
        if (n->gated) {
            float *up = cpu_own(w, NEED_OWN_GATE); /* mm_run counts outputs from 0 here too: the grain begins at o0 */
            mm_run(be->mm, &n->w[1]->m, form[1], x, x_stride, prepared_of(&p, form[1]), rows, o0, o1, up, o1 - o0,
                   MM_STORE_SET, scratch);
            up += o0;
            dst += o0;
            for (int32_t r = 0; r < rows; r++, dst += n->out[i].stride, up += o1 - o0)
                be->k->swiglu(dst, dst, up, o1 - o0);
        }
        item = cpu_take(w);
    }
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
    s->out.logprobs[o] = n_top > 0 ? (float)((double)raw[token] - lse) : 0.0f;
}

/* ---- dispatch ---- */

void cpu_exec(cpu_worker *w, const cpu_node *n)
{
    switch (n->op) {
    case OP_LAYER_END: break; /* the walk looks at it */
    case OP_EMBED: embed(w, n); break;
    case OP_ATTENTION: cpu_attention(w, n); break;
    case OP_PRODUCT: product(w, n); break;
    case OP_SAMPLE:
        for (int32_t o = cpu_take(w); o < w->step->n_out; o = cpu_take(w))
            sample_row(w, n, o);
        break;
    default: by_row(w, n); break;
    }
}

bool cpu_exec_small(const cpu_step *s, const cpu_node *n)
{
    const ds4_attention *a = &n->attention;
    switch (n->op) {
    case OP_LAYER_END: return true;
    case OP_EMBED: return (int64_t)s->n_rows * n->dst.cols <= CPU_SMALL / 2;
    case OP_RMSNORM:
    case OP_ADD:
    case OP_GATHER: return (int64_t)cpu_count(s, n->dst.rows) * n->dst.cols <= CPU_SMALL;
    case OP_SWIGLU: return (int64_t)cpu_count(s, n->dst.rows) * n->dst.cols <= CPU_SMALL / 4;
    case OP_ROPE:
    case OP_KV_STORE:
    case OP_ROPE_STORE:
        return (int64_t)s->n_rows * (a->n_head + 2 * a->n_head_kv) * a->head_dim <= CPU_SMALL / 2;
    default: return false;
    }
}
