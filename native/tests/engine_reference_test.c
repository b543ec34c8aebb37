/* engine_reference_test.c - logits of tiny models against a naive forward in double precision.
 *
 * The forward below is written from the formulas, with loops over whole sequences and no cache, and shares nothing with
 * the engine but the weights. It stands for what the engine should compute in every shape of model: both rope layouts, each
 * context extension, a sliding window, tied and untied heads, every weight type that the tiny writer has, every cache. */
#include "native/tests/tiny_engine.h"

#define N_TOKENS 40

static void product(const float *w, int64_t rows, int64_t cols, const double *x, double *y)
{
    for (int64_t r = 0; r < rows; r++) {
        y[r] = 0;
        for (int64_t c = 0; c < cols; c++)
            y[r] += (double)w[r * cols + c] * x[c];
    }
}

static void norm(const float *w, int64_t n, double eps, const double *x, double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / (double)n + eps) * w[i];
}

/* Frequency of pair i, from the definitions: theta_i = base^(-2i/d); linear: theta/s; YaRN: the number of turns over the
 * original context decides, with the ramp's ends at whole pairs. */
static double frequency(const ds4_hparams *h, const float *divisors, int i)
{
    double theta = pow(h->rope_base, -2.0 * i / h->rope_dim);
    double low, high, ramp;

    if (divisors)
        theta /= divisors[i];
    if (h->rope_scaling == DS4_ROPE_SCALING_NONE)
        return theta;
    if (h->rope_scaling == DS4_ROPE_SCALING_LINEAR)
        return theta / h->rope_factor;
    low = floor(h->rope_dim * log(h->rope_ctx_original / (h->rope_beta_fast * 2 * M_PI)) / (2 * log(h->rope_base)));
    high = ceil(h->rope_dim * log(h->rope_ctx_original / (h->rope_beta_slow * 2 * M_PI)) / (2 * log(h->rope_base)));
    low = low < 0 ? 0 : low;
    high = high > h->rope_dim - 1 ? h->rope_dim - 1 : high;
    ramp = i <= low ? 0 : i >= high ? 1 : (i - low) / (high - low);
    ramp = 1 - (1 - ramp) * h->rope_ext_factor;
    return theta / h->rope_factor * ramp + theta * (1 - ramp);
}

static void rotate(const ds4_hparams *h, const float *divisors, int position, double *head)
{
    for (int i = 0; i < h->rope_dim / 2; i++) {
        const int a = h->rope_kind == DS4_ROPE_NORM ? 2 * i : i;
        const int b = h->rope_kind == DS4_ROPE_NORM ? 2 * i + 1 : i + h->rope_dim / 2;
        const double angle = position * frequency(h, divisors, i);
        const double c = cos(angle) * h->rope_attn_factor, s = sin(angle) * h->rope_attn_factor;
        const double x = head[a], y = head[b];
        head[a] = x * c - y * s;
        head[b] = x * s + y * c;
    }
}

/* What a cache of this type gives back of a head's row. */
static void through_cache(int32_t kv_type, double *head, int32_t n)
{
    float f[64];
    uint8_t blocks[256];

    for (int32_t i = 0; i < n; i++)
        f[i] = (float)head[i];
    if (kv_type != DS4_TYPE_F32) {
        REQUIRE(!ds4_quantize_row(kv_type, f, n, blocks) && !ds4_dequant_row(kv_type, blocks, n, f), "type %d", kv_type);
        for (int32_t i = 0; i < n; i++)
            head[i] = f[i];
    }
}

static double *zeros(size_t n)
{
    double *p = calloc(n, sizeof *p);
    REQUIRE(p, "memory");
    return p;
}

/* logits: [n][n_vocab] */
static void reference(const tiny_model *m, int32_t kv_type, const int32_t *tokens, int n, double *logits)
{
    const ds4_hparams *h = &m->spec.h;
    const int d = h->d_model, hd = h->head_dim, q_dim = h->n_head * hd, kv_dim = h->n_head_kv * hd;
    const int group = h->n_head / h->n_head_kv;
    const float *embd = tiny_weights(m, DS4_ROLE_TOKEN_EMBD, -1), *head = tiny_weights(m, DS4_ROLE_OUTPUT, -1);
    const float *divisors = tiny_weights(m, DS4_ROLE_ROPE_FREQS, -1);
    const double scale = h->attn_scale ? h->attn_scale : 1 / sqrt(hd);
    double *x = zeros((size_t)(n * d)), *q = zeros((size_t)(n * q_dim)), *k = zeros((size_t)(n * kv_dim));
    double *v = zeros((size_t)(n * kv_dim)), *att = zeros((size_t)q_dim), *y = zeros((size_t)(d + q_dim));
    double *gate = zeros((size_t)h->d_ff), *up = zeros((size_t)h->d_ff), *score = zeros((size_t)n);

    for (int t = 0; t < n; t++)
        for (int i = 0; i < d; i++)
            x[t * d + i] = embd[tokens[t] * d + i];
    for (int l = 0; l < h->n_layer; l++) {
        for (int t = 0; t < n; t++) {
            norm(tiny_weights(m, DS4_ROLE_ATTN_NORM, l), d, h->rms_eps, x + t * d, y);
            product(tiny_weights(m, DS4_ROLE_ATTN_Q, l), q_dim, d, y, q + t * q_dim);
            product(tiny_weights(m, DS4_ROLE_ATTN_K, l), kv_dim, d, y, k + t * kv_dim);
            product(tiny_weights(m, DS4_ROLE_ATTN_V, l), kv_dim, d, y, v + t * kv_dim);
            for (int i = 0; i < h->n_head; i++)
                rotate(h, divisors, t, q + t * q_dim + i * hd);
            for (int i = 0; i < h->n_head_kv; i++) {
                rotate(h, divisors, t, k + t * kv_dim + i * hd);
                through_cache(kv_type, k + t * kv_dim + i * hd, hd);
                through_cache(kv_type, v + t * kv_dim + i * hd, hd);
            }
        }
        for (int t = 0; t < n; t++) {
            const int first = h->sliding_window && t - h->sliding_window + 1 > 0 ? t - h->sliding_window + 1 : 0;
            for (int i = 0; i < h->n_head; i++) {
                double highest = -1e300, total = 0;
                for (int s = first; s <= t; s++) {
                    score[s] = 0;
                    for (int j = 0; j < hd; j++)
                        score[s] += scale * q[t * q_dim + i * hd + j] * k[s * kv_dim + i / group * hd + j];
                    highest = score[s] > highest ? score[s] : highest;
                }
                for (int s = first; s <= t; s++)
                    total += score[s] = exp(score[s] - highest);
                for (int j = 0; j < hd; j++) {
                    att[i * hd + j] = 0;
                    for (int s = first; s <= t; s++)
                        att[i * hd + j] += score[s] / total * v[s * kv_dim + i / group * hd + j];
                }
            }
            product(tiny_weights(m, DS4_ROLE_ATTN_OUT, l), d, q_dim, att, y);
            for (int i = 0; i < d; i++)
                x[t * d + i] += y[i];
            norm(tiny_weights(m, DS4_ROLE_FFN_NORM, l), d, h->rms_eps, x + t * d, y);
            product(tiny_weights(m, DS4_ROLE_FFN_GATE, l), h->d_ff, d, y, gate);
            product(tiny_weights(m, DS4_ROLE_FFN_UP, l), h->d_ff, d, y, up);
            for (int i = 0; i < h->d_ff; i++)
                gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
            product(tiny_weights(m, DS4_ROLE_FFN_DOWN, l), d, h->d_ff, gate, y);
            for (int i = 0; i < d; i++)
                x[t * d + i] += y[i];
        }
    }
    for (int t = 0; t < n; t++) {
        norm(tiny_weights(m, DS4_ROLE_OUTPUT_NORM, -1), d, h->rms_eps, x + t * d, y);
        product(head ? head : embd, h->n_vocab, d, y, logits + t * h->n_vocab);
    }
    free(x), free(q), free(k), free(v), free(att), free(y), free(gate), free(up), free(score);
}

/* The largest difference between the engine's logits and the reference's, and the reference's spread. */
static double compare(tiny_spec spec, int32_t kv_type, int32_t numeric, double *spread)
{
    static float logits[N_TOKENS * 97];
    static double expected[N_TOKENS * 97];
    int32_t tokens[N_TOKENS];
    ds4_session_desc desc = rig_desc();
    double worst = 0, low = 1e9, high = -1e9;
    rig r;

    desc.kv_type = kv_type;
    desc.numeric = numeric;
    r = rig_open(spec, desc);
    rig_tokens(tokens, N_TOKENS, spec.h.n_vocab, spec.seed + 9);
    rig_feed(&r, 1, tokens, N_TOKENS, 17, logits);
    reference(r.tiny, kv_type, tokens, N_TOKENS, expected);
    for (int i = 0; i < N_TOKENS * spec.h.n_vocab; i++) {
        const double off = fabs(logits[i] - expected[i]);
        worst = off > worst || isnan(off) ? off : worst;
        low = fmin(low, expected[i]), high = fmax(high, expected[i]);
    }
    *spread = high - low;
    rig_close(&r);
    return worst;
}

/* Logits lie in about +-10: fp32 sums of 64 to 128 terms in two layers leave a few 1e-6 of that. A cache that rounds may
 * round a value that lies near a tie the other way than the reference, which is worth one unit of the format. */
static void expect(const char *what, tiny_spec spec, int32_t kv_type, double limit)
{
    double spread, worst = compare(spec, kv_type, DS4_NUMERIC_FLOAT, &spread);

    CHECK(worst <= limit, "%s: off by %.3g, allowed %.3g", what, worst, limit);
    CHECK(spread > 5, "%s: logits spread over %.3g only, the test sees little", what, spread);
}

static void plain_models_of_every_weight_type_match(void)
{
    tiny_spec spec = tiny_default();
    const int32_t types[] = {DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_BF16, DS4_TYPE_Q8_0, DS4_TYPE_Q4_0};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char what[32];
        snprintf(what, sizeof what, "weight type %d", types[i]);
        spec.type = types[i];
        expect(what, spec, DS4_TYPE_F32, 1e-4);
    }
}

static void a_tied_head_reads_the_embedding(void)
{
    tiny_spec spec = tiny_default();
    spec.tied = 1;
    expect("tied", spec, DS4_TYPE_F32, 2e-4);
}

static void every_cache_type_matches_a_reference_that_rounds_alike(void)
{
    expect("F16 cache", tiny_default(), DS4_TYPE_F16, 5e-3);
    expect("Q8_0 cache", tiny_default(), DS4_TYPE_Q8_0, 5e-2);
}

static void both_rope_layouts_and_partial_rotation_match(void)
{
    tiny_spec spec = tiny_default();

    spec.h.rope_kind = DS4_ROPE_NEOX;
    expect("NeoX layout", spec, DS4_TYPE_F32, 1e-4);
    spec.h.rope_dim = 16;
    expect("NeoX layout, half the head", spec, DS4_TYPE_F32, 1e-4);
    spec.h.rope_kind = DS4_ROPE_NORM;
    expect("pairwise layout, half the head", spec, DS4_TYPE_F32, 1e-4);
}

static tiny_spec yarn(void)
{
    tiny_spec spec = tiny_default();
    spec.h.rope_scaling = DS4_ROPE_SCALING_YARN;
    spec.h.rope_factor = 4;
    spec.h.rope_ext_factor = 1;
    spec.h.rope_beta_fast = 4;
    spec.h.rope_beta_slow = 1;
    spec.h.rope_ctx_original = 128;
    spec.h.rope_attn_factor = 1.1386f; /* 0.1 ln 4 + 1, as the host folds it in */
    return spec;
}

static void every_context_extension_matches(void)
{
    tiny_spec spec = tiny_default();

    spec.h.rope_scaling = DS4_ROPE_SCALING_LINEAR;
    spec.h.rope_factor = 3;
    expect("linear", spec, DS4_TYPE_F32, 1e-4);
    expect("YaRN", yarn(), DS4_TYPE_F32, 1e-4);
    spec = yarn();
    spec.h.rope_ext_factor = 0.5f;
    spec.h.rope_kind = DS4_ROPE_NEOX;
    expect("half of YaRN's mix, NeoX", spec, DS4_TYPE_F32, 1e-4);
    spec = tiny_default();
    spec.rope_freqs = 1;
    expect("divisors", spec, DS4_TYPE_F32, 1e-4);
    spec = yarn();
    spec.rope_freqs = 1;
    expect("divisors under YaRN", spec, DS4_TYPE_F32, 1e-4);
}

static void a_sliding_window_hides_what_is_older(void)
{
    tiny_spec spec = tiny_default();

    spec.h.sliding_window = 7;
    expect("window of 7", spec, DS4_TYPE_F32, 1e-4);
    spec.h.sliding_window = 1;
    expect("window of 1", spec, DS4_TYPE_F32, 1e-4);
}

static void heads_may_be_grouped_in_any_way(void)
{
    tiny_spec spec = tiny_default();

    spec.h.n_head_kv = 4;
    expect("a KV head for each head", spec, DS4_TYPE_F32, 1e-4);
    spec.h.n_head_kv = 1;
    expect("one KV head for all", spec, DS4_TYPE_F32, 1e-4);
    spec.h.n_head = 3;
    spec.h.n_head_kv = 1;
    spec.h.head_dim = 16, spec.h.rope_dim = 16;
    expect("three heads of 16", spec, DS4_TYPE_F32, 1e-4);
    spec.h.attn_scale = 0.3f;
    expect("another scale", spec, DS4_TYPE_F32, 1e-4);
}

static void shipping_mode_stays_near(void)
{
    const int32_t types[] = {DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_Q8_0, DS4_TYPE_Q4_0};
    tiny_spec spec = tiny_default();

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        double spread, worst;
        spec.type = types[i];
        worst = compare(spec, DS4_TYPE_F16, DS4_NUMERIC_SHIP, &spread);
        CHECK(worst < 0.05 * spread, "weight type %d: off by %.3g of %.3g", types[i], worst, spread);
    }
}

int main(void)
{
    RUN(plain_models_of_every_weight_type_match);
    RUN(a_tied_head_reads_the_embedding);
    RUN(every_cache_type_matches_a_reference_that_rounds_alike);
    RUN(both_rope_layouts_and_partial_rotation_match);
    RUN(every_context_extension_matches);
    RUN(a_sliding_window_hides_what_is_older);
    RUN(heads_may_be_grouped_in_any_way);
    RUN(shipping_mode_stays_near);
    CHECK_DONE();
}
