/* hyper.c - operations on single rows: DeepSeek V4's residual streams and clamped SwiGLU, and routing. */
#include "native/backends/cpu/backend.h"

#include <math.h>
#include <string.h>

static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/* ---- streams ---- */

/* Rows, then columns: c[j][k] over its row's sum, then over its column's; `rows` false leaves the first out. */
static void normalise(float *c, int32_t n, float eps, bool rows)
{
    for (int32_t j = 0; rows && j < n; j++) {
        float sum = 0;
        for (int32_t k = 0; k < n; k++)
            sum += c[j * n + k];
        for (int32_t k = 0; k < n; k++)
            c[j * n + k] /= sum + eps;
    }
    for (int32_t k = 0; k < n; k++) {
        float sum = 0;
        for (int32_t j = 0; j < n; j++)
            sum += c[j * n + k];
        for (int32_t j = 0; j < n; j++)
            c[j * n + k] /= sum + eps;
    }
}

static void softmax_row(float *c, int32_t n, float eps)
{
    float most = c[0], sum = 0;
    for (int32_t k = 1; k < n; k++)
        most = c[k] > most ? c[k] : most;
    for (int32_t k = 0; k < n; k++)
        sum += c[k] = expf(c[k] - most);
    for (int32_t k = 0; k < n; k++)
        c[k] = c[k] / sum + eps;
}

static void hc_weights(float *m, const float *scale, const float *base, const ds4_hc *hc)
{
    const int32_t n = hc->n;
    float *post = m + n, *c = m + 2 * n;
    for (int32_t h = 0; h < n; h++)
        m[h] = sigmoid(m[h] * scale[0] + base[h]) + hc->eps;
    if (hc->iterations == 0)
        return;
    for (int32_t h = 0; h < n; h++)
        post[h] = 2.0f * sigmoid(post[h] * scale[1] + base[n + h]);
    for (int32_t i = 0; i < n * n; i++)
        c[i] = c[i] * scale[2] + base[2 * n + i];
    for (int32_t j = 0; j < n; j++)
        softmax_row(c + j * n, n, hc->eps);
    for (int32_t i = 0; i < hc->iterations; i++)
        normalise(c, n, hc->eps, i > 0);
}

static void hc_pre(const cpu_node *n, int32_t r)
{
    const int32_t d = n->dst.cols;
    float *dst = cpu_row(n->dst, r), *mix = cpu_row(n->y, r);
    const float *x = cpu_row(n->x, r);
    hc_weights(mix, n->w[0]->vector, n->w[1]->vector, &n->hc);
    for (int32_t i = 0; i < d; i++)
        dst[i] = mix[0] * x[i];
    for (int32_t h = 1; h < n->hc.n; h++)
        for (int32_t i = 0; i < d; i++)
            dst[i] += mix[h] * x[(size_t)h * (size_t)d + (size_t)i];
}

/* Streams are mixed in place, so a stretch of all of them is set aside first. */
static void hc_post(const cpu_node *n, int32_t r)
{
    enum { STRETCH = 64, MOST = 16 };
    const int32_t d = n->y.cols, streams = n->hc.n;
    float *x = cpu_row(n->dst, r), old[MOST][STRETCH];
    const float *y = cpu_row(n->y, r), *mix = cpu_row(n->z, r), *post = mix + streams, *c = mix + 2 * streams;
    for (int32_t from = 0; from < d; from += STRETCH) {
        const int32_t count = d - from < STRETCH ? d - from : STRETCH;
        for (int32_t j = 0; j < streams; j++)
            memcpy(old[j], x + (size_t)j * (size_t)d + from, (size_t)count * sizeof(float));
        for (int32_t k = 0; k < streams; k++) {
            float *to = x + (size_t)k * (size_t)d + from;
            for (int32_t i = 0; i < count; i++)
                to[i] = post[k] * y[from + i];
            for (int32_t j = 0; j < streams; j++)
                for (int32_t i = 0; i < count; i++)
                    to[i] += c[j * streams + k] * old[j][i];
        }
    }
}

static void repeat(const cpu_node *n, int32_t r)
{
    const int32_t d = n->x.cols;
    for (int32_t at = 0; at < n->dst.cols; at += d)
        memcpy(cpu_row(n->dst, r) + at, cpu_row(n->x, r), (size_t)d * sizeof(float));
}

static void rms_heads(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    const int32_t part = n->x.cols / n->attention.n_head;
    for (int32_t at = 0; at < n->x.cols; at += part)
        w->be->k->rms(cpu_row(n->dst, r) + at, cpu_row(n->x, r) + at, part, n->eps);
}

static void swiglu_clamp(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    enum { STRETCH = 256 };
    const float *gate = cpu_row(n->x, r), *up = cpu_row(n->y, r), c = n->clamp;
    float *dst = cpu_row(n->dst, r), g[STRETCH], u[STRETCH];
    for (int32_t from = 0; from < n->x.cols; from += STRETCH) {
        const int32_t count = n->x.cols - from < STRETCH ? n->x.cols - from : STRETCH;
        for (int32_t i = 0; i < count; i++) {
            g[i] = gate[from + i] > c ? c : gate[from + i];
            u[i] = up[from + i] > c ? c : up[from + i] < -c ? -c : up[from + i];
        }
        w->be->k->swiglu(dst + from, g, u, count);
    }
}

/* ---- routing ---- */

/* sqrt(log(1 + e^x)) */
static float router_score(float x) { return sqrtf(x > 20.0f ? x : log1pf(expf(x))); }

static bool chosen(const int32_t *ids, int32_t n, int32_t e)
{
    for (int32_t i = 0; i < n; i++)
        if (ids[i] == e)
            return true;
    return false;
}

/* The n_used greatest of s, ties to the lower index. */
static void choose(const float *s, int32_t n_expert, int32_t n_used, int32_t *ids)
{
    for (int32_t i = 0; i < n_used; i++) {
        int32_t best = -1;
        for (int32_t e = 0; e < n_expert; e++)
            if ((best < 0 || s[e] > s[best]) && !chosen(ids, i, e))
                best = e;
        ids[i] = best;
    }
}

/* The softmax rises with its score, and over the chosen, normalised, it is theirs alone: the others' terms cancel. */
static void route_softmax(const float *x, const ds4_router *router, int32_t *ids, float *weights)
{
    float sum = 0;
    choose(x, router->n_expert, router->n_used, ids);
    for (int32_t i = 0; i < router->n_used; i++)
        sum += weights[i] = expf(x[ids[i]] - x[ids[0]]);
    for (int32_t i = 0; i < router->n_used; i++)
        weights[i] = weights[i] / sum * router->scale;
}

/* scores: n_expert floats of scratch. */
static void choose_biased(const float *x, const float *bias, const ds4_router *router, float *scores, int32_t *ids)
{
    for (int32_t e = 0; e < router->n_expert; e++)
        scores[e] = router_score(x[e]) + (bias ? bias[e] : 0.0f);
    choose(scores, router->n_expert, router->n_used, ids);
}

static void route(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    const cpu_step *s = w->step;
    const int32_t used = n->router.n_used, row = n->dst.rows == DS4_ROWS_OUT ? s->out_rows[r] : r;
    const float *x = cpu_row(n->x, r);
    float *weights = cpu_row(n->dst, r) + used, sum = 0;
    int32_t *ids = (int32_t *)(void *)cpu_row(n->dst, r);
    const ds4_weight *hash = n->w[1];
    if (n->router.scoring == DS4_SCORING_SOFTMAX) {
        route_softmax(x, &n->router, ids, weights);
        return;
    }
    if (hash)
        memcpy(ids, hash->m.data + (size_t)s->tokens[row] * hash->m.row_bytes, (size_t)used * sizeof *ids);
    else
        choose_biased(x, n->w[0] ? n->w[0]->vector : NULL, &n->router, cpu_own(w, NEED_OWN_ATTENTION), ids);
    for (int32_t i = 0; i < used; i++)
        sum += weights[i] = router_score(x[ids[i]]);
    for (int32_t i = 0; i < used; i++)
        weights[i] = weights[i] / (sum > 0x1p-14f ? sum : 0x1p-14f) * n->router.scale;
}

void cpu_do_hyper(const cpu_worker *w, const cpu_node *n, int32_t r)
{
    switch (n->op) {
    case OP_REPEAT: repeat(n, r); break;
    case OP_RMS_HEADS: rms_heads(w, n, r); break;
    case OP_SWIGLU_CLAMP: swiglu_clamp(w, n, r); break;
    case OP_HC_PRE: hc_pre(n, r); break;
    case OP_HC_POST: hc_post(n, r); break;
    case OP_ROUTE: route(w, n, r); break;
    default: break;
    }
}
