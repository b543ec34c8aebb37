/* experts.c - routed experts: the rows of a step by expert, and the products of those rows with an expert's matrices.
 *
 * A product's element has the same bits however many rows share it (matmul.h), and down's sum over a row's experts goes
 * by rising expert; so neither the rows of the step nor the threads show in the result. */
#include "native/backends/cpu/backend.h"

#include <string.h>

#define BLOCK CPU_EXPERT_ROWS

/* The pairs (row, k) of a step by expert: shared scratch. first[e] .. first[e + 1] are the pairs of expert e. */
typedef struct routes {
    int32_t *first;  /* [n_expert + 1] */
    int32_t *active; /* [n_expert] experts that have pairs, rising */
    int32_t *pairs;  /* [rows * n_used] row * n_used + k */
} routes;

static routes routes_of(const cpu_worker *w, const cpu_node *n)
{
    int32_t *base = cpu_shared(w, NEED_ROUTES);
    return (routes){base + 1, base + n->experts.n_expert + 2, base + 2 * n->experts.n_expert + 2};
}

size_t cpu_experts_route_bytes(const cpu_node *n, int32_t max_rows)
{
    return (2 * (size_t)n->experts.n_expert + 2 + (size_t)max_rows * (size_t)n->experts.n_used) * sizeof(int32_t);
}

static const int32_t *ids_of(const cpu_node *n, int32_t r) { return (const int32_t *)(const void *)cpu_row(n->z, r); }

/* A counting sort, stable in the pairs. Returns the number of active experts, which stands before first. */
static int32_t sort_pairs(const cpu_worker *w, const cpu_node *n, int32_t rows)
{
    const routes t = routes_of(w, n);
    const int32_t n_expert = n->experts.n_expert, used = n->experts.n_used;
    int32_t active = 0, at = 0;
    memset(t.first, 0, ((size_t)n_expert + 1) * sizeof *t.first);
    for (int32_t r = 0; r < rows; r++)
        for (int32_t k = 0; k < used; k++)
            t.first[ids_of(n, r)[k]]++;
    for (int32_t e = 0; e < n_expert; e++) {
        const int32_t count = t.first[e];
        if (count)
            t.active[active++] = e;
        t.first[e] = at;
        at += count;
    }
    for (int32_t r = 0; r < rows; r++)
        for (int32_t k = 0; k < used; k++)
            t.pairs[t.first[ids_of(n, r)[k]]++] = r * used + k;
    /* Each first has become its expert's end, the next one's beginning. */
    memmove(t.first + 1, t.first, (size_t)n_expert * sizeof *t.first);
    t.first[0] = 0;
    t.first[-1] = active;
    return active;
}

/* ---- one expert's matrix ---- */

static cpu_weight matrix_of(const ds4_weight *w, int32_t n_expert, int32_t e)
{
    cpu_weight m = w->m;
    m.n_out /= n_expert;
    m.data += (size_t)e * (size_t)m.n_out * m.row_bytes;
    return m;
}

/* A thread's own scratch: gathered inputs [BLOCK][n_in], and the products of a grain, which begin at output 0. */
typedef struct scratch {
    float *x, *a, *b;
} scratch;

static scratch scratch_of(const cpu_worker *w, const cpu_node *n)
{
    const size_t in = (size_t)n->w[0]->m.n_in, out = (size_t)(n->w[0]->m.n_out / n->experts.n_expert);
    float *base = cpu_own(w, NEED_OWN_EXPERTS);
    return (scratch){base, base + BLOCK * in, base + BLOCK * in + (BLOCK + 1) * out};
}

size_t cpu_experts_own_bytes(const ds4_backend *be, const cpu_node *n)
{
    const size_t in = (size_t)n->w[0]->m.n_in, out = (size_t)(n->w[0]->m.n_out / n->experts.n_expert);
    (void)be;
    return (BLOCK * in + 2 * (BLOCK + 1) * out) * sizeof(float);
}

size_t cpu_experts_product_bytes(const ds4_backend *be, const cpu_node *n)
{
    size_t most = 0;
    for (int i = 0; i < 2 && n->w[i]; i++) {
        const cpu_weight m = matrix_of(n->w[i], n->experts.n_expert, 0);
        for (int32_t r = 1; r <= BLOCK; r++) {
            const size_t bytes = mm_scratch_bytes(be->mm, &m, mm_choose(be->mm, m.type, m.n_in, r, be->desc.numeric), r);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

static void product(const cpu_worker *w, const cpu_weight *m, const float *x, int32_t rows, int64_t o0, int64_t o1, float *to)
{
    const mm_form form = mm_choose(w->be->mm, m->type, m->n_in, rows, w->be->desc.numeric);
    void *prepared = cpu_own(w, form == MM_FORM_I16 ? NEED_OWN_I16 : NEED_OWN_Q8);
    if (form != MM_FORM_F32)
        mm_prepare(w->be->mm, form, x, m->n_in, m->n_in, 0, rows, prepared);
    mm_run(w->be->mm, m, form, x, m->n_in, prepared, rows, o0, o1, to, o1 - o0, MM_STORE_SET, cpu_own(w, NEED_OWN_PRODUCT));
}

static float limit(float x, float most) { return x > most ? most : x < -most ? -most : x; }

/* Outputs [o0, o1) of gate and up for all rows of an expert. */
static void up_item(const cpu_worker *w, const cpu_node *n, int32_t e, int64_t o0, int64_t o1)
{
    const routes t = routes_of(w, n);
    const ds4_experts *x = &n->experts;
    const cpu_weight gate = matrix_of(n->w[0], x->n_expert, e), up = matrix_of(n->w[1], x->n_expert, e);
    const scratch s = scratch_of(w, n);
    const int64_t count = o1 - o0;
    for (int32_t from = t.first[e]; from < t.first[e + 1]; from += BLOCK) {
        const int32_t rows = t.first[e + 1] - from < BLOCK ? t.first[e + 1] - from : BLOCK;
        for (int32_t i = 0; i < rows; i++)
            memcpy(s.x + (size_t)i * (size_t)gate.n_in, cpu_row(n->x, t.pairs[from + i] / x->n_used),
                   (size_t)gate.n_in * sizeof(float));
        product(w, &gate, s.x, rows, o0, o1, s.a);
        product(w, &up, s.x, rows, o0, o1, s.b);
        for (int32_t i = 0; i < rows; i++) {
            const int32_t r = t.pairs[from + i] / x->n_used, k = t.pairs[from + i] % x->n_used;
            const float weight = cpu_row(n->z, r)[x->n_used + k];
            float *g = s.a + o0 + i * count, *u = s.b + o0 + i * count;
            for (int64_t o = 0; o < count; o++) {
                g[o] = g[o] > x->clamp ? x->clamp : g[o];
                u[o] = limit(u[o], x->clamp);
            }
            w->be->k->swiglu(g, g, u, count);
            w->be->k->scale(cpu_row(n->dst, r) + (int64_t)k * x->width + o0, g, weight, count);
        }
    }
}

/* Outputs [o0, o1) of all rows: expert after expert. */
static void down_item(const cpu_worker *w, const cpu_node *n, int64_t o0, int64_t o1)
{
    const routes t = routes_of(w, n);
    const ds4_experts *x = &n->experts;
    const scratch s = scratch_of(w, n);
    const int64_t count = o1 - o0;
    for (int32_t a = 0; a < t.first[-1]; a++) {
        const int32_t e = t.active[a];
        const cpu_weight down = matrix_of(n->w[0], x->n_expert, e);
        for (int32_t from = t.first[e]; from < t.first[e + 1]; from += BLOCK) {
            const int32_t rows = t.first[e + 1] - from < BLOCK ? t.first[e + 1] - from : BLOCK;
            for (int32_t i = 0; i < rows; i++) {
                const int32_t r = t.pairs[from + i] / x->n_used, k = t.pairs[from + i] % x->n_used;
                memcpy(s.x + (size_t)i * (size_t)x->width, cpu_row(n->x, r) + (int64_t)k * x->width,
                       (size_t)x->width * sizeof(float));
            }
            product(w, &down, s.x, rows, o0, o1, s.a);
            for (int32_t i = 0; i < rows; i++)
                w->be->k->add(cpu_row(n->dst, t.pairs[from + i] / x->n_used) + o0, s.a + o0 + i * count, count);
        }
    }
}

/* ---- items ---- */

static int64_t grains(const cpu_worker *w, const cpu_node *n, int32_t rows, int64_t *grain)
{
    const cpu_weight m = matrix_of(n->w[0], n->experts.n_expert, 0);
    *grain = cpu_grain(&m, rows < BLOCK ? rows : BLOCK, w->nth, n->op == OP_EXPERTS_UP);
    return (m.n_out + *grain - 1) / *grain;
}

int32_t cpu_cut_experts(cpu_worker *w, const cpu_node *n)
{
    const int32_t rows = cpu_count(w->step, n->x.rows), active = sort_pairs(w, n, rows);
    int64_t grain;
    if (rows == 0)
        return 0;
    w->step->piece = rows;
    return (int32_t)grains(w, n, rows, &grain) * (n->op == OP_EXPERTS_UP ? active : 1);
}

void cpu_do_experts(cpu_worker *w, const cpu_node *n, int32_t item)
{
    int64_t grain;
    const int64_t count = grains(w, n, w->step->piece, &grain), o0 = item % count * grain;
    const int64_t n_out = n->w[0]->m.n_out / n->experts.n_expert, o1 = o0 + grain < n_out ? o0 + grain : n_out;
    if (n->op == OP_EXPERTS_UP)
        up_item(w, n, routes_of(w, n).active[item / count], o0, o1);
    else
        down_item(w, n, o0, o1);
}
