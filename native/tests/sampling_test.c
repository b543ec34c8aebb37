/* sampling_test.c - the sampler against one that sorts everything and sums in order, and the edges of its inputs. */
#include "native/sampling/sampling.h"
#include "native/sampling/scan.h"
#include "native/tests/check.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST 3000

static uint64_t state = 1;

static double random_unit(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static float random_logit(float spread)
{
    return spread * (float)(random_unit() + random_unit() + random_unit() - 1.5);
}

static ds4_sampler plain(void)
{
    return (ds4_sampler){.temperature = 0.0f, .top_p = 1.0f, .min_p = 0.0f, .repetition_penalty = 1.0f};
}

static void *scratch_of(int32_t n)
{
    size_t bytes = ds4_sampling_scratch_bytes(n);
    void *memory = aligned_alloc(64, bytes);
    REQUIRE(memory);
    return memset(memory, 0, bytes);
}

static int32_t pick(const ds4_sampler *s, const float *logits, int32_t n, double uniform)
{
    void *scratch = scratch_of(n);
    float *copy = malloc((size_t)n * sizeof(float));
    memcpy(copy, logits, (size_t)n * sizeof(float));
    int32_t token = ds4_sampling_pick(s, copy, n, NULL, 0, 0, NULL, uniform, scratch);
    free(copy);
    free(scratch);
    return token;
}

/* ---- greedy and edges ---- */

static void greedy_takes_the_highest_and_of_equals_the_lowest_id(void)
{
    float x[100] = {0};
    ds4_sampler s = plain();
    CHECK(pick(&s, x, 100, 0.0) == 0);
    x[70] = x[33] = x[99] = 2.0f;
    CHECK(pick(&s, x, 100, 0.9) == 33);
    x[99] = 3.0f;
    CHECK(pick(&s, x, 100, 0.0) == 99);
}

static void nan_never_wins_and_never_crashes(void)
{
    float x[70];
    const float temperatures[] = {0.0f, 1.0f};
    for (int t = 0; t < 2; t++)
        for (int truncation = 0; truncation < 4; truncation++) {
            ds4_sampler s = plain();
            s.temperature = temperatures[t];
            s.top_k = truncation == 1 ? 5 : 0;
            s.top_p = truncation == 2 ? 0.5f : 1.0f;
            s.min_p = truncation == 3 ? 0.1f : 0.0f;
            for (int i = 0; i < 70; i++)
                x[i] = NAN;
            CHECK(pick(&s, x, 70, 0.5) == 0, "all NaN");
            x[41] = -3.0f;
            CHECK(pick(&s, x, 70, 0.999) == 41 && pick(&s, x, 70, 0.0) == 41, "one number among NaN");
            x[12] = INFINITY;
            CHECK(pick(&s, x, 70, 0.7) == 12, "infinity");
            for (int i = 0; i < 70; i++)
                x[i] = -INFINITY;
            CHECK(pick(&s, x, 70, 0.5) == 0, "all -infinity");
        }
}

static void a_mask_leaves_only_what_it_allows(void)
{
    float x[100];
    uint32_t mask[4] = {0, 0, 1u << 5, 1u << 3}; /* 69 and 99 */
    void *scratch = scratch_of(100);
    ds4_sampler s = plain();
    for (int i = 0; i < 100; i++)
        x[i] = 100.0f - (float)i;
    CHECK(ds4_sampling_pick(&s, x, 100, NULL, 0, 0, mask, 0.0, scratch) == 69);
    for (int i = 0; i < 100; i++)
        x[i] = NAN; /* nothing to choose by: still only the allowed */
    CHECK(ds4_sampling_pick(&s, x, 100, NULL, 0, 0, mask, 0.0, scratch) == 69);
    s.temperature = 2.0f;
    bool seen[2] = {false, false};
    for (int u = 0; u < 100; u++) {
        for (int i = 0; i < 100; i++)
            x[i] = 1.0f;
        int32_t token = ds4_sampling_pick(&s, x, 100, NULL, 0, 0, mask, u / 100.0, scratch);
        CHECK(token == 69 || token == 99, "token %d", (int)token);
        seen[token == 99] = true;
    }
    CHECK(seen[0] && seen[1]);
    free(scratch);
}

/* ---- edits ---- */

static void penalties_and_bias_apply_in_their_order_once_for_each_token(void)
{
    float x[8] = {1.0f, -1.0f, 2.0f, 4.0f, 0.5f, 0.0f, -2.0f, 3.0f}, copy[8];
    const int32_t history[] = {0, 1, 1, 3, 7, 7, 7, 2, -1, 800}; /* the last five are output; two are not tokens */
    const int32_t bias_ids[] = {4, 1};
    const float bias[] = {10.0f, 3.0f};
    ds4_sampler s = plain();
    s.repetition_penalty = 2.0f;
    s.frequency_penalty = 0.5f;
    s.presence_penalty = 0.25f;
    s.n_bias = 2;
    s.bias_ids = bias_ids;
    s.bias_values = bias;
    void *scratch = scratch_of(8);
    for (int again = 0; again < 2; again++) { /* the scratch must come back clean */
        memcpy(copy, x, sizeof copy);
        int32_t token = ds4_sampling_pick(&s, copy, 8, history, 10, 5, NULL, 0.0, scratch);
        const float expected[8] = {0.5f, 1.0f, 2.0f / 2 - 0.75f, 2.0f, 10.5f, 0.0f, -2.0f, 1.5f - 2 * 0.5f - 0.25f};
        CHECK(token == 4);
        for (int i = 0; i < 8; i++)
            CHECK(copy[i] == expected[i], "logit %d is %g, expected %g", i, (double)copy[i], (double)expected[i]);
    }
    s.repetition_penalty = 1.0f; /* output penalties alone */
    s.n_bias = 0;
    memcpy(copy, x, sizeof copy);
    ds4_sampling_pick(&s, copy, 8, history, 10, 5, NULL, 0.0, scratch);
    CHECK(copy[0] == 1.0f && copy[3] == 4.0f && copy[2] == 2.0f - 0.75f && copy[7] == 3.0f - 1.25f);
    free(scratch);
}

/* ---- the draw ---- */

typedef struct entry {
    int32_t id;
    float logit;
    double weight;
    bool kept;
} entry;

static int by_weight(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->id - y->id;
}

static int by_id(const void *a, const void *b) { return ((const entry *)a)->id - ((const entry *)b)->id; }

/* Steps 5 to 9 of sampling.h, by sorting, in double. *margin: how near the draw came to another answer. */
static int32_t reference(const ds4_sampler *s, const float *logits, int32_t n, double uniform, double *margin)
{
    static entry e[MOST];
    float high = -INFINITY;
    double total = 0.0, running = 0.0;
    for (int32_t i = 0; i < n; i++)
        high = logits[i] > high ? logits[i] : high;
    for (int32_t i = 0; i < n; i++)
        e[i] = (entry){i, logits[i], exp(((double)logits[i] - (double)high) / (double)s->temperature), true};
    qsort(e, (size_t)n, sizeof *e, by_weight);
    *margin = 1.0;
    for (int32_t i = 0; i < n; i++) {
        e[i].kept = s->top_k == 0 || i < s->top_k;
        total += e[i].kept ? e[i].weight : 0.0;
    }
    if (s->top_p < 1.0f)
        for (int32_t i = 0; i < n && e[i].kept; i++) {
            e[i].kept = running < (double)s->top_p * total;
            running += e[i].kept ? e[i].weight : 0.0;
            *margin = fmin(*margin, fabs(running / total - (double)s->top_p));
        }
    double kept = 0.0;
    for (int32_t i = 0; i < n; i++) {
        *margin = s->min_p > 0.0f ? fmin(*margin, fabs(e[i].weight - (double)s->min_p)) : *margin;
        e[i].kept = e[i].kept && e[i].weight >= (double)s->min_p;
        kept += e[i].kept ? e[i].weight : 0.0;
    }
    qsort(e, (size_t)n, sizeof *e, by_id);
    int32_t token = -1;
    running = 0.0;
    for (int32_t i = 0; i < n; i++) {
        if (!e[i].kept)
            continue;
        running += e[i].weight;
        *margin = fmin(*margin, fabs(running / kept - uniform));
        if (token < 0 && running > uniform * kept)
            token = i;
    }
    return token;
}

static void every_truncation_draws_what_a_full_sort_draws(void)
{
    static float x[MOST];
    const float top_ps[] = {1.0f, 0.95f, 0.5f, 0.05f, 0.999f}, min_ps[] = {0.0f, 0.0f, 0.05f, 0.7f};
    const int32_t top_ks[] = {0, 0, 1, 5, 40, 2000};
    const float temperatures[] = {0.3f, 1.0f, 2.0f, 50.0f};
    int compared = 0;
    for (int trial = 0; trial < 1500; trial++) {
        int32_t n = 1 + (int32_t)(random_unit() * (trial % 3 ? MOST - 1 : 40));
        float spread = trial % 5 == 0 ? 0.01f : 8.0f;
        for (int32_t i = 0; i < n; i++) {
            x[i] = random_logit(spread);
            if (trial % 7 == 0)
                x[i] = roundf(x[i]); /* many ties */
        }
        ds4_sampler s = plain();
        s.temperature = temperatures[(int)(random_unit() * 4)];
        s.top_p = top_ps[(int)(random_unit() * 5)];
        s.min_p = min_ps[(int)(random_unit() * 4)];
        s.top_k = top_ks[(int)(random_unit() * 6)];
        double uniform = random_unit(), margin;
        int32_t expected = reference(&s, x, n, uniform, &margin);
        if (margin < 1e-5) /* float weights may fall on the other side */
            continue;
        compared++;
        int32_t found = pick(&s, x, n, uniform);
        CHECK(found == expected, "trial %d: n %d t %g k %d p %g m %g: %d, expected %d", trial, (int)n, (double)s.temperature,
              (int)s.top_k, (double)s.top_p, (double)s.min_p, (int)found, (int)expected);
    }
    CHECK(compared > 700, "only %d trials were clear enough to compare", compared);
}

static void ties_at_the_edge_keep_the_lowest_ids(void)
{
    float x[10] = {0, 1, 1, 1, 1, 0, 0, 0, 0, 0};
    ds4_sampler s = plain();
    s.temperature = 1.0f;
    s.top_k = 2;
    CHECK(pick(&s, x, 10, 0.0) == 1 && pick(&s, x, 10, 0.499) == 1 && pick(&s, x, 10, 0.5) == 2 && pick(&s, x, 10, 0.9999) == 2);
    float even[4] = {0, 0, 0, 0};
    s.top_k = 0;
    s.top_p = 0.5f; /* exactly two of four equal weights */
    CHECK(pick(&s, even, 4, 0.49) == 0 && pick(&s, even, 4, 0.99) == 1);
}

static void a_tiny_temperature_is_nearly_greedy_and_a_huge_one_nearly_even(void)
{
    float x[64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)(i % 9);
    ds4_sampler s = plain();
    s.temperature = 1e-40f;
    CHECK(pick(&s, x, 64, 0.0) == 8 && pick(&s, x, 64, 0.999999) == 62, "of equals all are drawn");
    s.temperature = 1e30f;
    for (int i = 0; i < 64; i++)
        CHECK(pick(&s, x, 64, (i + 0.5) / 64) == i, "even draw of %d", i);
}

static void an_overwhelming_vocabulary_needs_no_sort(void)
{
    /* Flat over 150,000 ids: every candidate is close to the highest. */
    int32_t n = 150000;
    float *x = malloc((size_t)n * sizeof(float));
    for (int32_t i = 0; i < n; i++)
        x[i] = random_logit(1e-3f);
    ds4_sampler s = plain();
    s.temperature = 1.0f;
    s.top_p = 0.9f;
    s.top_k = 100000;
    int32_t token = pick(&s, x, n, 0.5);
    CHECK(token > n / 3 && token < n, "token %d", (int)token);
    free(x);
}

static void the_uniform_is_what_the_header_says_and_looks_uniform(void)
{
    /* Values computed apart, with Python's integers, from the formula in sampling.h. */
    CHECK(ds4_sampling_uniform(0, 0) == 0x1.cbd594ba03400p-7, "%.17g", ds4_sampling_uniform(0, 0));
    CHECK(ds4_sampling_uniform(42, 1000) == 0x1.c81229196fa40p-2, "%.17g", ds4_sampling_uniform(42, 1000));
    CHECK(ds4_sampling_uniform(UINT64_MAX, 131071) == 0x1.f4924ade1fb70p-4, "%.17g", ds4_sampling_uniform(UINT64_MAX, 131071));
    for (uint64_t seed = 0; seed < 4; seed++) {
        int buckets[16] = {0};
        double mean = 0.0, product = 0.0, before = 0.5;
        for (int32_t p = 0; p < 16000; p++) {
            double u = ds4_sampling_uniform(seed, p);
            CHECK(u >= 0.0 && u < 1.0);
            buckets[(int)(u * 16)]++;
            mean += u / 16000;
            product += (u - 0.5) * (before - 0.5) / 16000;
            before = u;
        }
        CHECK(fabs(mean - 0.5) < 0.01 && fabs(product) < 0.003, "mean %g, correlation %g", mean, product);
        for (int b = 0; b < 16; b++)
            CHECK(buckets[b] > 850 && buckets[b] < 1150, "bucket %d holds %d of 1000", b, buckets[b]);
    }
}

/* ---- log-probabilities ---- */

static void log_probabilities_are_those_of_a_double_softmax(void)
{
    static float x[MOST];
    int32_t ids[DS4_MAX_TOP];
    float logprobs[DS4_MAX_TOP];
    static entry e[MOST];
    for (int trial = 0; trial < 60; trial++) {
        int32_t n = 1 + (int32_t)(random_unit() * (MOST - 1)), top = n < DS4_MAX_TOP ? n : DS4_MAX_TOP;
        long double sum = 0.0L;
        for (int32_t i = 0; i < n; i++) {
            x[i] = trial % 2 ? random_logit(20.0f) : roundf(random_logit(5.0f));
            e[i] = (entry){.id = i, .logit = x[i]};
            sum += expl((long double)x[i]);
        }
        double lse = ds4_sampling_logsumexp(x, n);
        CHECK(fabs(lse - (double)logl(sum)) < 1e-12 * (1 + fabs(lse)), "logsumexp %.17g, expected %.17g", lse, (double)logl(sum));
        qsort(e, (size_t)n, sizeof *e, by_weight);
        ds4_sampling_top(x, n, lse, top, ids, logprobs);
        for (int32_t i = 0; i < top; i++)
            CHECK(ids[i] == e[i].id && logprobs[i] == (float)((double)e[i].logit - lse), "top %d is %d, expected %d", (int)i,
                  (int)ids[i], (int)e[i].id);
    }
}

static void log_probabilities_stand_nan_and_infinity(void)
{
    float x[5] = {NAN, 1.0f, -INFINITY, 1.0f, NAN}, logprobs[5];
    int32_t ids[5];
    double lse = ds4_sampling_logsumexp(x, 5);
    CHECK(fabs(lse - (1.0 + log(2.0))) < 1e-12, "%g", lse);
    ds4_sampling_top(x, 5, lse, 5, ids, logprobs);
    CHECK(ids[0] == 1 && ids[1] == 3 && ids[2] == 0 && ids[3] == 2 && ids[4] == 4);
    CHECK(logprobs[2] == -INFINITY && fabsf(logprobs[0] - logf(0.5f)) < 1e-6f);
}

/* ---- instruction sets, checks ---- */

static void all_instruction_sets_scan_to_the_same_bits(void)
{
    static float x[MOST], w[2][MOST];
    double sums[2][MOST / SCAN_CHUNK + 1];
    const char *const names[] = {"avx2", "avx512", "neon"};
    const ds4_scan *base = ds4_scan_find("portable");
    for (int k = 0; k < 3; k++) {
        const ds4_scan *scan = ds4_scan_find(names[k]);
        if (!scan)
            continue;
        for (int trial = 0; trial < 100; trial++) {
            int32_t n = 1 + (int32_t)(random_unit() * (MOST - 1));
            for (int32_t i = 0; i < n; i++)
                x[i] = i % 97 == 5 ? NAN : random_logit(60.0f);
            float high = base->highest(x, n);
            CHECK(scan->highest(x, n) == high);
            CHECK(scan->next_at_least(x, 0, n, high) == base->next_at_least(x, 0, n, high));
            base->weights(w[0], x, n, high, 0.7f, sums[0]);
            scan->weights(w[1], x, n, high, 0.7f, sums[1]);
            CHECK(!memcmp(w[0], w[1], (size_t)n * sizeof(float)), "weights differ on %s", names[k]);
            CHECK(!memcmp(sums[0], sums[1], (size_t)((n + SCAN_CHUNK - 1) / SCAN_CHUNK) * sizeof(double)));
            double a = base->sum_exp(x, n, high), b = scan->sum_exp(x, n, high);
            CHECK(!memcmp(&a, &b, sizeof a), "sums differ on %s", names[k]);
        }
    }
}

static void weights_are_exp_to_two_ulp(void)
{
    static float x[MOST], w[MOST];
    double sums[MOST / SCAN_CHUNK + 1];
    for (int32_t i = 0; i < MOST; i++)
        x[i] = -87.0f * (float)i / MOST;
    ds4_scan_best()->weights(w, x, MOST, 0.0f, 1.0f, sums);
    for (int32_t i = 0; i < MOST; i++) {
        double e = exp((double)x[i]);
        CHECK(fabs((double)w[i] - e) <= 2.0 * e * FLT_EPSILON, "exp(%g) is %g", (double)x[i], (double)w[i]);
    }
}

static void a_sampler_out_of_range_is_refused_by_name(void)
{
    ds4_error err;
    ds4_sampler s = plain();
    CHECK(ds4_sampler_check(&s, 10, &err) == DS4_OK);
#define REFUSED(field, value)                                                                                   \
    do {                                                                                                        \
        ds4_sampler bad = plain();                                                                              \
        bad.field = value;                                                                                      \
        CHECK(ds4_sampler_check(&bad, 10, &err) == DS4_ERR_ARG && strstr(err.message, #field), "%s", #field);   \
    } while (0)
    REFUSED(temperature, -0.1f);
    REFUSED(temperature, NAN);
    REFUSED(temperature, INFINITY);
    REFUSED(top_p, 0.0f);
    REFUSED(top_p, 1.01f);
    REFUSED(min_p, 1.0f);
    REFUSED(min_p, NAN);
    REFUSED(repetition_penalty, 0.0f);
    REFUSED(frequency_penalty, 2.5f);
    REFUSED(presence_penalty, -2.5f);
    REFUSED(top_k, -1);
    REFUSED(n_bias, -1);
    REFUSED(n_bias, 1);
    const int32_t id = 10;
    const float one = 1.0f;
    s.n_bias = 1;
    s.bias_ids = &id;
    s.bias_values = &one;
    CHECK(ds4_sampler_check(&s, 10, &err) == DS4_ERR_ARG && strstr(err.message, "bias_ids[0]"));
    CHECK(ds4_sampler_check(&s, 11, &err) == DS4_OK);
}

int main(void)
{
    RUN(greedy_takes_the_highest_and_of_equals_the_lowest_id);
    RUN(nan_never_wins_and_never_crashes);
    RUN(a_mask_leaves_only_what_it_allows);
    RUN(penalties_and_bias_apply_in_their_order_once_for_each_token);
    RUN(every_truncation_draws_what_a_full_sort_draws);
    RUN(ties_at_the_edge_keep_the_lowest_ids);
    RUN(a_tiny_temperature_is_nearly_greedy_and_a_huge_one_nearly_even);
    RUN(an_overwhelming_vocabulary_needs_no_sort);
    RUN(the_uniform_is_what_the_header_says_and_looks_uniform);
    RUN(log_probabilities_are_those_of_a_double_softmax);
    RUN(log_probabilities_stand_nan_and_infinity);
    RUN(all_instruction_sets_scan_to_the_same_bits);
    RUN(weights_are_exp_to_two_ulp);
    RUN(a_sampler_out_of_range_is_refused_by_name);
    CHECK_DONE();
}
