/* program.c - a program's scratch, the copies of step inputs for runs in flight, and the walk over the nodes. */
#include "native/backends/cpu/backend.h"
#include "native/bridge/status.h"
#include "native/sampling/sampling.h"

#include <string.h>
#include <time.h>

static size_t up64(size_t n) { return (n + 63) / 64 * 64; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void cpu_drain(ds4_backend *be)
{
    if (be->pool)
        ds4_pool_drain(be->pool);
}

/* ---- sizes ---- */

typedef size_t needs[CPU_NEEDS];

static void need(needs s, cpu_need what, size_t bytes) { s[what] = most(s[what], bytes); }

static void need_product(const ds4_backend *be, const cpu_node *n, int32_t max_rows, needs s)
{
    int64_t n_in = n->x.cols;
    int32_t few = max_rows < CPU_FEW_ROWS ? max_rows : CPU_FEW_ROWS;
    if (n->norm) {
        need(s, NEED_NORMED, (size_t)max_rows * (size_t)n_in * sizeof(float));
        need(s, NEED_OWN_NORMED, (size_t)few * (size_t)n_in * sizeof(float));
    }
    for (int32_t r = 1; r <= max_rows; r++)
        for (int32_t i = 0; i < n->n; i++) {
            const cpu_weight *m = &n->w[i]->m;
            mm_form form = mm_choose(be->mm, m->type, n_in, r, be->desc.numeric);
            size_t bytes = mm_prepared_bytes(form, n_in, r);
            if (form != MM_FORM_F32) {
                need(s, form == MM_FORM_Q8 ? NEED_Q8 : NEED_I16, bytes);
                if (r <= few)
                    need(s, form == MM_FORM_Q8 ? NEED_OWN_Q8 : NEED_OWN_I16, bytes);
            }
            need(s, NEED_OWN_PRODUCT, mm_scratch_bytes(be->mm, m, form, r));
            if (n->gated && i == 0) {
                int64_t grain = cpu_grain(m, r, be->desc.n_threads, true);
                grain = grain < m->n_out ? grain : m->n_out;
                need(s, NEED_OWN_GATE, (size_t)(m->n_out + grain * r) * sizeof(float));
            }
        }
}

static void need_attention(const ds4_backend *be, const cpu_node *n, int32_t max_rows, needs s)
{
    const ds4_attention *a = &n->attention;
    const ds4_cache *c = n->cache;
    int32_t split_rows = (4 * be->desc.n_threads + a->n_head_kv - 1) / a->n_head_kv;
    if (split_rows > max_rows)
        split_rows = max_rows;
    need(s, NEED_OWN_ATTENTION, cpu_attention_scratch(n) * sizeof(float));
    need(s, NEED_PARTIALS, (size_t)split_rows * (size_t)c->n_tiles * (size_t)a->n_head * cpu_partial_stride(c) * sizeof(float));
    need(s, NEED_PARTIAL_COUNTS, (size_t)split_rows * (size_t)a->n_head_kv * sizeof(atomic_int));
}

static void need_latent(const ds4_backend *be, const cpu_node *n, int32_t max_rows, needs s)
{
    need(s, NEED_OWN_ATTENTION, cpu_latent_own_bytes(be, n));
    need(s, NEED_OWN_PRODUCT, cpu_latent_product_bytes(be, n));
    need(s, NEED_SCORES, cpu_latent_score_bytes(n, max_rows));
}

static void need_experts(const ds4_backend *be, const cpu_node *n, int32_t max_rows, needs s)
{
    const int64_t n_in = n->w[0]->m.n_in;
    need(s, NEED_OWN_EXPERTS, cpu_experts_own_bytes(be, n));
    need(s, NEED_OWN_PRODUCT, cpu_experts_product_bytes(be, n));
    need(s, NEED_ROUTES, cpu_experts_route_bytes(n, max_rows));
    need(s, NEED_OWN_Q8, mm_prepared_bytes(MM_FORM_Q8, n_in, CPU_EXPERT_ROWS));
    need(s, NEED_OWN_I16, mm_prepared_bytes(MM_FORM_I16, n_in, CPU_EXPERT_ROWS));
}

static bool same_product(const cpu_node *a, const cpu_node *b)
{
    if (a->n != b->n || a->x.cols != b->x.cols || a->x.rows != b->x.rows || a->gated != b->gated || !a->norm != !b->norm)
        return false;
    for (int32_t i = 0; i < a->n; i++)
        if (a->w[i]->m.type != b->w[i]->m.type || a->w[i]->m.n_out != b->w[i]->m.n_out)
            return false;
    return true;
}

static void count_needs(const ds4_backend *be, const ds4_program *p, needs s)
{
    for (int32_t i = 0; i < p->n_nodes; i++) {
        const cpu_node *n = &p->nodes[i];
        if (n->op == OP_PRODUCT) {
            /* Layers repeat: what an earlier node needed need not be counted again. */
            bool seen = false;
            for (int32_t j = i - 1; j >= 0 && j >= i - 16 && !seen; j--)
                seen = p->nodes[j].op == OP_PRODUCT && same_product(&p->nodes[j], n);
            if (!seen)
                need_product(be, n, n->x.rows == DS4_ROWS_ALL ? p->max_rows : p->max_out, s);
        } else if (n->op == OP_ATTENTION) {
            need_attention(be, n, p->max_rows, s);
        } else if (n->op == OP_KV_STORE || n->op == OP_ROPE_STORE) {
            need(s, NEED_OWN_ATTENTION, (size_t)n->cache->v_dim * sizeof(float)); /* one head's conversion */
        } else if (cpu_is_latent(n->op)) {
            need_latent(be, n, p->max_rows, s);
        } else if (n->op == OP_EXPERTS_UP || n->op == OP_EXPERTS_DOWN) {
            need_experts(be, n, p->max_rows, s);
        } else if (n->op == OP_ROUTE) {
            need(s, NEED_OWN_ATTENTION, (size_t)n->router.n_expert * sizeof(float));
        } else if (n->op == OP_SAMPLE) {
            need(s, NEED_SAMPLING, up64((size_t)n->x.cols * sizeof(float)) + ds4_sampling_scratch_bytes(n->x.cols));
        }
    }
}

/* Lays the scratch out anew for be->needs and sees that the memory is there. Nothing may be running. */
static bool reserve_scratch(ds4_backend *be)
{
    cpu_layout *l = &be->layout;
    size_t shared = 0, own = 0;
    for (int i = 0; i < CPU_NEEDS; i++) {
        size_t *at = i < NEED_OWN_NORMED ? &shared : &own;
        if (i == NEED_SAMPLING)
            break;
        l->at[i] = *at;
        *at += up64(be->needs[i]);
    }
    l->shared_bytes = shared;
    l->own_bytes = (own + 4095) / 4096 * 4096; /* no page, so no cache line, of two threads */
    l->sampling_bytes = (be->needs[NEED_SAMPLING] + 4095) / 4096 * 4096;
    /* Parts have moved, and counts and sampling scratch must begin at zero: start from fresh pages. */
    cpu_arena_free(&be->shared);
    cpu_arena_free(&be->own);
    cpu_arena_free(&be->sampling);
    size_t n = (size_t)be->desc.n_threads;
    if (!cpu_arena_reserve(&be->shared, l->shared_bytes + 64) || !cpu_arena_reserve(&be->own, l->own_bytes * n + 64) ||
        !cpu_arena_reserve(&be->sampling, l->sampling_bytes * n + 64))
        return false;
    for (size_t i = 0; i < n; i++)
        be->workers[i] = (cpu_worker){.be = be, .ith = (int32_t)i, .nth = (int32_t)n, .own = be->own.base + i * l->own_bytes,
                                      .sampling = be->sampling.base + i * l->sampling_bytes};
    return true;
}

static bool reserve_steps(ds4_backend *be, const ds4_program *p)
{
    int32_t dim = be->max_rope_dim;
    for (int32_t i = 0; i < p->n_ropes; i++)
        dim = p->ropes[i].dim > dim ? p->ropes[i].dim : dim;
    if (p->max_rows <= be->max_rows && p->max_out <= be->max_out && p->n_ropes <= be->max_ropes && dim <= be->max_rope_dim)
        return true;
    int32_t rows = p->max_rows > be->max_rows ? p->max_rows : be->max_rows;
    int32_t out = p->max_out > be->max_out ? p->max_out : be->max_out;
    int32_t ropes = p->n_ropes > be->max_ropes ? p->n_ropes : be->max_ropes;
    size_t ints = up64((size_t)rows * sizeof(int32_t)), table = up64((size_t)rows * 2 * (size_t)dim * sizeof(float));
    size_t bytes = 4 * ints + up64((size_t)out * sizeof(int32_t)) + up64((size_t)out * sizeof(ds4_row_sampler)) +
                   up64((size_t)rows * sizeof(int32_t *)) + up64((size_t)rows * sizeof(cpu_span)) + (size_t)ropes * table;
    for (int i = 0; i < DS4_STEPS_IN_FLIGHT; i++) {
        cpu_step *s = &be->steps[i];
        if (!cpu_arena_reserve(&s->arena, bytes))
            return false;
        uint8_t *at = s->arena.base;
        int32_t **const arrays[] = {&s->tokens, &s->from, &s->banks, &s->positions};
        for (size_t a = 0; a < 4; a++, at += ints)
            *arrays[a] = (int32_t *)(void *)at;
        s->out_rows = (int32_t *)(void *)at;
        at += up64((size_t)out * sizeof(int32_t));
        s->samplers = (ds4_row_sampler *)(void *)at;
        at += up64((size_t)out * sizeof(ds4_row_sampler));
        s->histories = (int32_t **)(void *)at;
        at += up64((size_t)rows * sizeof(int32_t *));
        s->spans = (cpu_span *)(void *)at;
        at += up64((size_t)rows * sizeof(cpu_span));
        for (int32_t t = 0; t < ropes; t++, at += table)
            s->ropes[t] = (float *)(void *)at;
    }
    be->max_rows = rows;
    be->max_out = out;
    be->max_ropes = ropes;
    be->max_rope_dim = dim;
    return true;
}

int32_t cpu_program_end(ds4_backend *be, ds4_program *p, ds4_error *err)
{
    if (p->error.status) {
        if (err)
            *err = p->error;
        return p->error.status;
    }
    needs s = {0};
    count_needs(be, p, s);
    bool grows = !be->shared.base;
    for (int i = 0; i < CPU_NEEDS; i++)
        if (s[i] > be->needs[i]) {
            be->needs[i] = s[i];
            grows = true;
        }
    cpu_drain(be);
    if (grows && !reserve_scratch(be))
        return ds4_fail(err, DS4_ERR_MEMORY, "scratch of %zu bytes, and %zu for each of %d threads, was refused",
                        be->layout.shared_bytes, be->layout.own_bytes, (int)be->desc.n_threads);
    if (!reserve_steps(be, p))
        return ds4_fail(err, DS4_ERR_MEMORY, "step inputs of %d rows were refused", (int)p->max_rows);
    p->ended = true;
    return ds4_ok(err);
}

/* ---- the walk ---- */

static void look_at_cancel(cpu_step *s, ds4_backend *be)
{
    if (atomic_load_explicit(&be->cancels, memory_order_acquire) != s->cancel_at_submit)
        s->cancelled = true;
}

static void begin(cpu_step *s, ds4_backend *be)
{
    s->started_ns = now_ns();
    s->at = 0;
    s->phase = -1;
    s->cancelled = s->from_previous && be->last_cancelled; /* its tokens do not exist */
    look_at_cancel(s, be);
}

static void finish(cpu_step *s, ds4_backend *be)
{
    be->last_cancelled = s->cancelled;
    s->elapsed_ns = now_ns() - s->started_ns;
}

/* A whole node on this thread. */
static void alone(const cpu_worker *w, const cpu_node *n)
{
    cpu_worker one = *w;
    one.nth = 1;
    if (n->op == OP_LAYER_END) {
        look_at_cancel(w->step, w->be);
        return;
    }
    if (w->be->on_node)
        w->be->on_node(w->be, n, true);
    for (int32_t phase = 0; phase < CPU_PHASES; phase++) {
        int32_t count = cpu_cut(&one, n, phase);
        for (int32_t i = 0; i < count; i++)
            cpu_do(&one, n, phase, i);
    }
    if (w->be->on_node)
        w->be->on_node(w->be, n, false);
}

/* The next stage for all threads. Small nodes on the way are done here, while the others have nothing to do. */
static int32_t next_stage(void *arg, int32_t ith)
{
    cpu_step *s = arg;
    ds4_backend *be = s->program->be;
    const ds4_program *p = s->program;
    cpu_worker *w = &be->workers[ith];
    w->step = s;
    if (s->at < 0)
        begin(s, be);
    while (!s->cancelled && s->at < p->n_nodes) {
        const cpu_node *n = &p->nodes[s->at];
        if (s->phase < 0 && (w->nth == 1 || cpu_is_small(s, n))) {
            alone(w, n);
            s->at++;
            continue;
        }
        while (++s->phase < CPU_PHASES) {
            int32_t count = cpu_cut(w, n, s->phase);
            if (count > 0) {
                s->stage = ++be->stages;
                return count;
            }
        }
        s->phase = -1;
        s->at++;
    }
    finish(s, be);
    return 0;
}

static void do_item(void *arg, int32_t ith, int32_t item)
{
    cpu_step *s = arg;
    cpu_worker *w = &s->program->be->workers[ith];
    w->step = s;
    cpu_do(w, &s->program->nodes[s->at], s->phase, item);
}

/* ---- submitting ---- */

static const void *input(const ds4_buffer *b) { return b->base; }

static int32_t check_rows(const ds4_program *p, const cpu_step *s, const ds4_step_outputs *previous, int32_t previous_rows,
                          ds4_error *err)
{
    for (int32_t r = 0; r < s->n_rows; r++) {
        int32_t token = s->tokens[r];
        if (token < 0) {
            int32_t from = s->from[r];
            if (!previous || from < 0 || from >= previous_rows || previous->row_out[from] < 0)
                return ds4_fail(err, DS4_ERR_ARG, "row %d: its token comes from row %d, which had no output in the step before",
                                (int)r, (int)from);
        } else if (p->n_vocab_in && token >= p->n_vocab_in) {
            return ds4_fail(err, DS4_ERR_ARG, "row %d: token %d, expected one below %lld", (int)r, (int)token,
                            (long long)p->n_vocab_in);
        }
        if (s->banks[r] < 0 || s->banks[r] >= p->min_banks)
            return ds4_fail(err, DS4_ERR_ARG, "row %d: bank %d, expected one below %d", (int)r, (int)s->banks[r],
                            (int)p->min_banks);
        if (s->positions[r] < 0 || s->positions[r] >= p->min_ctx)
            return ds4_fail(err, DS4_ERR_CONTEXT, "row %d: position %d, expected one below %d", (int)r, (int)s->positions[r],
                            (int)p->min_ctx);
    }
    for (int32_t o = 0; o < s->n_out; o++)
        if (s->out_rows[o] < 0 || s->out_rows[o] >= s->n_rows || (o > 0 && s->out_rows[o] <= s->out_rows[o - 1]))
            return ds4_fail(err, DS4_ERR_ARG, "output %d: row %d is not a later row of the step", (int)o, (int)s->out_rows[o]);
    return DS4_OK;
}

static void find_spans(cpu_step *s)
{
    s->n_spans = 0;
    for (int32_t r = 0; r < s->n_rows; r++) {
        cpu_span *last = s->n_spans ? &s->spans[s->n_spans - 1] : NULL;
        if (last && last->bank == s->banks[r] && last->position + last->n_rows == s->positions[r])
            last->n_rows++;
        else
            s->spans[s->n_spans++] = (cpu_span){.row = r, .n_rows = 1, .bank = s->banks[r], .position = s->positions[r]};
    }
}

/* Copies the inputs, so that the engine may fill them again. */
static int32_t take_inputs(ds4_program *p, cpu_step *s, ds4_error *err)
{
    const int32_t *counts = input(p->in.counts);
    int32_t n = counts[0], out = counts[1];
    if (n < 1 || n > p->max_rows || out < 0 || out > p->max_out || out > n)
        return ds4_fail(err, DS4_ERR_ARG, "%d rows with %d outputs, expected 1 to %d with at most %d", (int)n, (int)out,
                        (int)p->max_rows, (int)p->max_out);
    s->n_rows = n;
    s->n_out = out;
    memcpy(s->tokens, input(p->in.tokens), (size_t)n * sizeof(int32_t));
    memcpy(s->from, input(p->in.from), (size_t)n * sizeof(int32_t));
    memcpy(s->banks, input(p->in.banks), (size_t)n * sizeof(int32_t));
    memcpy(s->positions, input(p->in.positions), (size_t)n * sizeof(int32_t));
    memcpy(s->histories, input(p->in.histories), (size_t)n * sizeof(int32_t *));
    if (out) {
        memcpy(s->out_rows, input(p->in.out_rows), (size_t)out * sizeof(int32_t));
        memcpy(s->samplers, input(p->in.samplers), (size_t)out * sizeof(ds4_row_sampler));
    }
    return DS4_OK;
}

int32_t cpu_run(ds4_backend *be, ds4_program *p, const ds4_step_outputs *out, const ds4_step_outputs *previous,
                ds4_error *err)
{
    if (!p->ended)
        return ds4_fail(err, DS4_ERR_ARG, "the program has not been ended");
    if (be->submitted - be->waited >= DS4_STEPS_IN_FLIGHT)
        return ds4_fail(err, DS4_ERR_BUSY, "%d runs are in flight already", DS4_STEPS_IN_FLIGHT);
    cpu_step *s = &be->steps[be->submitted % DS4_STEPS_IN_FLIGHT];
    if (be->on_host)
        be->on_host(be, true);
    int32_t status = take_inputs(p, s, err);
    if (be->on_host)
        be->on_host(be, false);
    if (status == DS4_OK)
        status = check_rows(p, s, previous, be->last_rows, err);
    if (status != DS4_OK)
        return status;
    s->program = p;
    s->out = *out;
    s->from_previous = false;
    for (int32_t r = 0; r < s->n_rows; r++)
        s->from_previous |= s->tokens[r] < 0;
    if (previous)
        s->previous = *previous;
    for (int32_t r = 0; r < s->n_rows; r++)
        out->row_out[r] = -1;
    for (int32_t o = 0; o < s->n_out; o++)
        out->row_out[s->out_rows[o]] = o;
    find_spans(s);
    s->cancel_at_submit = atomic_load_explicit(&be->cancels, memory_order_acquire);
    be->last_rows = s->n_rows;
    be->submitted++;
    s->at = -1;
    if (be->pool)
        ds4_pool_submit(be->pool, &(ds4_pool_job){next_stage, do_item, s});
    else
        next_stage(s, 0); /* all of it, as one thread shares nothing */
    return ds4_ok(err);
}

int32_t cpu_wait(ds4_backend *be, int64_t *elapsed_ns, ds4_error *err)
{
    if (be->submitted == be->waited)
        return ds4_fail(err, DS4_ERR_ARG, "no run is in flight");
    if (be->pool)
        ds4_pool_wait(be->pool);
    const cpu_step *s = &be->steps[be->waited++ % DS4_STEPS_IN_FLIGHT];
    if (elapsed_ns)
        *elapsed_ns = s->elapsed_ns;
    if (s->cancelled)
        return ds4_fail(err, DS4_ERR_CANCELLED, "the run was cancelled");
    return ds4_ok(err);
}

void cpu_run_cancel(ds4_backend *be) { atomic_fetch_add_explicit(&be->cancels, 1, memory_order_acq_rel); }
