/* dsv4_rows_test.c - DeepSeek V4's operations on single rows against their formulas in double precision: streams mixed by
 * Sinkhorn's matrix, clamped SwiGLU, rope of a head's tail and back, routing, routed experts. Each on the CPU backend with one
 * thread and three, and on the guard backend. */
#include "native/tests/ops_step.h"

enum { N = 7, D = 48, STREAMS = 4, MIX = (2 + STREAMS) * STREAMS, EXPERTS = 8, USED = 3, WIDTH = 32 };

static void on_every_backend(void (*check)(ops_step *))
{
    static const ds4_backend_desc descs[] = {{1, DS4_NUMERIC_FLOAT, NULL}, {3, DS4_NUMERIC_FLOAT, NULL}, {2, DS4_NUMERIC_FLOAT, NULL}};
    for (int i = 0; i < 3; i++) {
        ops_step s;
        ops_open(&s, i == 2 ? ds4_guard_backend_create(&descs[i], &ops_err) : ds4_cpu_backend_create(&descs[i], &ops_err));
        ops_rows_from(&s, N, 0, 0);
        check(&s);
        ops_close(&s);
    }
}

static ds4_weight *weight(ops_step *s, int64_t rows, int64_t cols, const void *data)
{
    return ops_weight(s, DS4_TYPE_F32, rows, cols, data);
}

static void near(const char *what, const float *found, const double *want, int n, double within)
{
    for (int i = 0; i < n; i++)
        CHECK(fabs((double)found[i] - want[i]) <= within * (1 + fabs(want[i])), "%s: element %d is %.9g, not %.9g", what, i,
              (double)found[i], want[i]);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* ---- streams ---- */

static float mix[N * MIX], scale[3] = {0.7f, 1.3f, 2.0f}, base[MIX], streams[N * STREAMS * D], block[N * D];

static void sinkhorn(const float *m, int iterations, double eps, double c[STREAMS][STREAMS])
{
    for (int j = 0; j < STREAMS; j++) {
        double sum = 0;
        for (int k = 0; k < STREAMS; k++) {
            const int at = (2 + j) * STREAMS + k;
            sum += c[j][k] = exp((double)m[at] * (double)scale[2] + (double)base[at]);
        }
        for (int k = 0; k < STREAMS; k++)
            c[j][k] = c[j][k] / sum + eps;
    }
    for (int half = 1; half < 2 * iterations; half++) /* columns first: the softmax was the first half */
        for (int a = 0; a < STREAMS; a++) {
            double sum = eps;
            for (int b = 0; b < STREAMS; b++)
                sum += half % 2 ? c[b][a] : c[a][b];
            for (int b = 0; b < STREAMS; b++)
                *(half % 2 ? &c[b][a] : &c[a][b]) /= sum;
        }
}

static void check_streams(ops_step *s)
{
    static float found[N * STREAMS * D], weights[N * MIX], collapsed[N * D];
    const ds4_hc hc = {STREAMS, 20, 1e-6f};
    ds4_mat x = ops_mat(s, STREAMS * D, DS4_ROWS_ALL), m = ops_mat(s, MIX, DS4_ROWS_ALL), u = ops_mat(s, D, DS4_ROWS_ALL);
    ds4_mat y = ops_mat(s, D, DS4_ROWS_ALL);
    ds4_program *p = ops_begin(s);
    ops_fill(mix, N * MIX, 2), ops_fill(base, MIX, 1), ops_fill(streams, N * STREAMS * D, 1), ops_fill(block, N * D, 1);
    s->ops->hc_pre(p, u, m, x, weight(s, 1, 3, scale), weight(s, 1, MIX, base), &hc);
    s->ops->hc_post(p, x, y, m, &hc);
    ops_end(s, p);
    ops_put(s, x, streams, N), ops_put(s, m, mix, N), ops_put(s, y, block, N);
    ops_run(s, p);
    ops_get(s, x, found, N), ops_get(s, m, weights, N), ops_get(s, u, collapsed, N);
    for (int r = 0; r < N; r++) {
        const float *raw = mix + r * MIX, *old = streams + r * STREAMS * D;
        double c[STREAMS][STREAMS], want[STREAMS * D], pre[D] = {0};
        sinkhorn(raw, 20, 1e-6, c);
        near("Sinkhorn", weights + r * MIX + 2 * STREAMS, &c[0][0], STREAMS * STREAMS, 1e-5);
        for (int k = 0; k < STREAMS; k++) {
            double column = 0;
            for (int j = 0; j < STREAMS; j++)
                column += (double)weights[r * MIX + (2 + j) * STREAMS + k];
            CHECK(fabs(column - 1) < 1e-5, "column %d sums to %g", k, column);
            const double h = sigmoid((double)raw[k] * (double)scale[0] + (double)base[k]) + 1e-6;
            const double post = 2 * sigmoid((double)raw[STREAMS + k] * (double)scale[1] + (double)base[STREAMS + k]);
            for (int i = 0; i < D; i++) {
                pre[i] += h * (double)old[k * D + i];
                want[k * D + i] = post * (double)block[r * D + i];
                for (int j = 0; j < STREAMS; j++)
                    want[k * D + i] += c[j][k] * (double)old[j * D + i];
            }
        }
        near("collapsed", collapsed + r * D, pre, D, 1e-5);
        near("mixed", found + r * STREAMS * D, want, STREAMS * D, 1e-5);
    }
    s->ops->program_free(s->be, p);
}

static void streams_are_collapsed_and_mixed_by_sinkhorns_matrix(void) { on_every_backend(check_streams); }

/* ---- SwiGLU ---- */

static void check_clamp(ops_step *s)
{
    static float gate[N * D], up[N * D], found[N * D];
    double want[N * D];
    ds4_mat dst = ops_mat(s, D, DS4_ROWS_ALL), g = ops_mat(s, D, DS4_ROWS_ALL), u = ops_mat(s, D, DS4_ROWS_ALL);
    ds4_program *p = ops_begin(s);
    s->ops->swiglu_clamp(p, dst, g, u, 10);
    ops_end(s, p);
    ops_fill(gate, N * D, 30), ops_fill(up, N * D, 30);
    gate[0] = 10, up[0] = -10, gate[1] = 11, up[1] = 11, gate[2] = -90, up[2] = 2;
    ops_put(s, g, gate, N), ops_put(s, u, up, N);
    ops_run(s, p);
    ops_get(s, dst, found, N);
    for (int i = 0; i < N * D; i++) {
        const double a = fmin((double)gate[i], 10), b = fmax(-10, fmin((double)up[i], 10));
        want[i] = a * sigmoid(a) * b;
    }
    near("clamped", found, want, N * D, 1e-5);
    CHECK(found[1] == -found[0], "11 counts as 10: %g and %g", (double)found[0], (double)found[1]);
    s->ops->program_free(s->be, p);
}

static void a_gate_is_clamped_above_and_its_partner_on_both_sides(void) { on_every_backend(check_clamp); }

/* ---- rope ---- */

static void check_rope(ops_step *s)
{
    enum { HEADS = 3, DIM = 16, TURNS = 8 };
    static const float inv_freq[TURNS / 2] = {1, 0.3f, 0.05f, 0.002f};
    static float x[N * HEADS * DIM], turned[N * HEADS * DIM], back[N * HEADS * DIM], embedding[D];
    const ds4_rope there = {DS4_ROPE_NORM, TURNS, inv_freq, 1, DIM - TURNS, 0}, home = {DS4_ROPE_NORM, TURNS, inv_freq, 1, DIM - TURNS, 1};
    ds4_mat m = ops_mat(s, HEADS * DIM, DS4_ROWS_ALL), e = ops_mat(s, D, DS4_ROWS_ALL);
    ds4_program *p[2];
    for (int i = 0; i < 2; i++) {
        p[i] = ops_begin(s);
        s->ops->embed(p[i], e, weight(s, 1, D, embedding));
        s->ops->rope(p[i], m, HEADS, DIM, i ? &home : &there);
        ops_end(s, p[i]);
    }
    ops_fill(x, N * HEADS * DIM, 1);
    ops_rows_from(s, N, 0, 100);
    ops_put(s, m, x, N);
    ops_run(s, p[0]);
    ops_get(s, m, turned, N);
    ops_run(s, p[1]);
    ops_get(s, m, back, N);
    for (int i = 0; i < N * HEADS * DIM; i++) {
        const int at = i % DIM - (DIM - TURNS), r = i / (HEADS * DIM);
        CHECK(fabsf(back[i] - x[i]) < 1e-6f, "element %d is not back: %g, %g", i, (double)back[i], (double)x[i]);
        if (at < 0) {
            CHECK(turned[i] == x[i], "the head's beginning stays: %d", i);
        } else if (at % 2 == 0) {
            const double angle = (double)((float)(100 + r) * inv_freq[at / 2]);
            const double want[2] = {(double)x[i] * cos(angle) - (double)x[i + 1] * sin(angle),
                                    (double)x[i + 1] * cos(angle) + (double)x[i] * sin(angle)};
            near("turned", turned + i, want, 2, 1e-6);
        }
    }
    for (int i = 0; i < 2; i++)
        s->ops->program_free(s->be, p[i]);
}

static void a_tail_turns_by_the_position_and_back_again(void) { on_every_backend(check_rope); }

/* ---- routing ---- */

static double score(float x) { return sqrt(log1p(exp((double)x))); }

/* logits, bias or NULL, hash or NULL to ids and weights. Tokens are r mod 2. */
static void route(ops_step *s, const float *logits, const float *bias, const int32_t *hash, int32_t ids[N][USED], float weights[N][USED])
{
    static float embedding[2 * D], found[N * 2 * USED];
    const ds4_router router = {EXPERTS, USED, 1.5f, DS4_SCORING_SQRT_SOFTPLUS};
    ds4_mat x = ops_mat(s, EXPERTS, DS4_ROWS_ALL), dst = ops_mat(s, 2 * USED, DS4_ROWS_ALL), e = ops_mat(s, D, DS4_ROWS_ALL);
    ds4_weight *table = hash ? ops_weight(s, DS4_TYPE_I32, 2, USED, hash) : NULL;
    ds4_program *p = ops_begin(s);
    int32_t tokens[N];
    for (int r = 0; r < N; r++)
        tokens[r] = r % 2;
    s->ops->buffer_write(s->be, s->in.tokens, 0, tokens, sizeof tokens);
    s->ops->embed(p, e, weight(s, 2, D, embedding));
    s->ops->route(p, dst, x, bias ? weight(s, 1, EXPERTS, bias) : NULL, table, &router);
    ops_end(s, p);
    ops_put(s, x, logits, N);
    ops_run(s, p);
    ops_get(s, dst, found, N);
    for (int r = 0; r < N; r++) {
        memcpy(ids[r], found + r * 2 * USED, sizeof ids[r]);
        memcpy(weights[r], found + (r * 2 + 1) * USED, sizeof weights[r]);
    }
    s->ops->program_free(s->be, p);
}

static void are(const char *what, const int32_t ids[USED], int32_t a, int32_t b, int32_t c)
{
    CHECK(ids[0] == a && ids[1] == b && ids[2] == c, "%s: %d %d %d, not %d %d %d", what, ids[0], ids[1], ids[2], a, b, c);
}

static void weighs(const float *logits, const int32_t ids[USED], const float weights[USED])
{
    double want[USED], sum = 0;
    for (int i = 0; i < USED; i++)
        sum += want[i] = score(logits[ids[i]]);
    for (int i = 0; i < USED; i++)
        want[i] = want[i] / fmax(sum, 0x1p-14) * 1.5;
    near("weights", weights, want, USED, 1e-5);
}

static void check_routing(ops_step *s)
{
    static const float bias[EXPERTS] = {0, 0, 9, 0, 0, 0, 0, 0};
    static const int32_t hash[2 * USED] = {5, 0, 7, 1, 2, 3};
    float logits[N * EXPERTS], weights[N][USED];
    int32_t ids[N][USED];
    ops_fill(logits, N * EXPERTS, 3);
    for (int e = 0; e < EXPERTS; e++) {
        logits[e] = e == 6 ? 2 : 1;              /* ties */
        logits[EXPERTS + e] = -100;              /* none wants it: the sum is below its floor */
        logits[2 * EXPERTS + e] = (float)(e * 9); /* beyond 20 softplus is the identity */
    }
    route(s, logits, NULL, NULL, ids, weights);
    are("the lower of those that tie", ids[0], 6, 0, 1);
    are("far apart", ids[2], 7, 6, 5);
    for (int r = 0; r < N; r++)
        weighs(logits + r * EXPERTS, ids[r], weights[r]);
    CHECK(weights[1][0] < 1e-15f, "the floor: %g", (double)weights[1][0]);
    route(s, logits, bias, NULL, ids, weights);
    are("a bias chooses", ids[0], 2, 6, 0);
    for (int r = 0; r < N; r++)
        weighs(logits + r * EXPERTS, ids[r], weights[r]); /* and does not weigh */
    route(s, logits, NULL, hash, ids, weights);
    for (int r = 0; r < N; r++) {
        are("the token chooses", ids[r], hash[r % 2 * USED], hash[r % 2 * USED + 1], hash[r % 2 * USED + 2]);
        weighs(logits + r * EXPERTS, ids[r], weights[r]);
    }
}

static void experts_are_chosen_by_score_and_bias_or_by_the_token(void) { on_every_backend(check_routing); }

static void check_experts(ops_step *s)
{
    static float gate[EXPERTS * WIDTH * D], up[EXPERTS * WIDTH * D], down[EXPERTS * D * WIDTH], in[N * D], out[N * D], found[N * D];
    const ds4_experts experts = {EXPERTS, USED, WIDTH, 0.5f};
    float routed[N * 2 * USED];
    ds4_mat x = ops_mat(s, D, DS4_ROWS_ALL), z = ops_mat(s, 2 * USED, DS4_ROWS_ALL), h = ops_mat(s, USED * WIDTH, DS4_ROWS_ALL);
    ds4_mat dst = ops_mat(s, D, DS4_ROWS_ALL);
    ds4_program *p = ops_begin(s);
    ops_fill(gate, EXPERTS * WIDTH * D, 0.3f), ops_fill(up, EXPERTS * WIDTH * D, 0.3f), ops_fill(down, EXPERTS * D * WIDTH, 0.3f);
    ops_fill(in, N * D, 1), ops_fill(out, N * D, 1);
    for (int r = 0; r < N; r++)
        for (int k = 0; k < USED; k++) {
            const int32_t e = (r * 3 + k * 5) % EXPERTS;
            memcpy(routed + r * 2 * USED + k, &e, sizeof e);
            routed[(r * 2 + 1) * USED + k] = 0.2f + 0.1f * (float)k;
        }
    s->ops->experts_up(p, h, x, z, weight(s, EXPERTS * WIDTH, D, gate), weight(s, EXPERTS * WIDTH, D, up), &experts);
    s->ops->experts_down(p, dst, h, z, weight(s, EXPERTS * D, WIDTH, down), &experts);
    ops_end(s, p);
    ops_put(s, x, in, N), ops_put(s, z, routed, N), ops_put(s, dst, out, N);
    ops_run(s, p);
    ops_get(s, dst, found, N);
    for (int r = 0; r < N; r++) {
        double want[D];
        for (int i = 0; i < D; i++)
            want[i] = (double)out[r * D + i];
        for (int k = 0; k < USED; k++) {
            const int e = (r * 3 + k * 5) % EXPERTS;
            for (int j = 0; j < WIDTH; j++) {
                double g = 0, u = 0;
                for (int i = 0; i < D; i++) {
                    g += (double)gate[(e * WIDTH + j) * D + i] * (double)in[r * D + i];
                    u += (double)up[(e * WIDTH + j) * D + i] * (double)in[r * D + i];
                }
                g = fmin(g, 0.5), u = fmax(-0.5, fmin(u, 0.5));
                const double value = g * sigmoid(g) * u * (double)routed[(r * 2 + 1) * USED + k];
                for (int i = 0; i < D; i++)
                    want[i] += (double)down[(e * D + i) * WIDTH + j] * value;
            }
        }
        near("experts", found + r * D, want, D, 1e-5);
    }
    s->ops->program_free(s->be, p);
}

static void routed_experts_add_their_weighted_results(void) { on_every_backend(check_experts); }

int main(void)
{
    RUN(streams_are_collapsed_and_mixed_by_sinkhorns_matrix);
    RUN(a_gate_is_clamped_above_and_its_partner_on_both_sides);
    RUN(a_tail_turns_by_the_position_and_back_again);
    RUN(experts_are_chosen_by_score_and_bias_or_by_the_token);
    RUN(routed_experts_add_their_weighted_results);
    CHECK_DONE();
}
