/* sampling.c - the sampler. The steps are numbered as in sampling.h. */
#include "native/sampling/sampling.h"
#include "native/bridge/status.h"
#include "native/sampling/scan.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- the uniform ---- */

static uint64_t mix(uint64_t z)
{
    z ^= z >> 30;
    z *= 0xbf58476d1ce4e5b9u;
    z ^= z >> 27;
    z *= 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double ds4_sampling_uniform(uint64_t seed, int32_t position)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t counter = ((uint64_t)(int64_t)position + 1) * odd;
    return (double)(mix(mix(seed + odd) ^ counter) >> 11) * 0x1p-53;
}

/* ---- checks ---- */

int32_t ds4_sampler_check(const ds4_sampler *s, int32_t n_vocab, ds4_error *err)
{
    const struct {
        const char *name, *expected;
        double value;
        bool good;
    } fields[] = {
        {"temperature", "a number >= 0", s->temperature, s->temperature >= 0.0f && s->temperature <= FLT_MAX},
        {"top_p", "a number in (0, 1]", s->top_p, s->top_p > 0.0f && s->top_p <= 1.0f},
        {"min_p", "a number in [0, 1)", s->min_p, s->min_p >= 0.0f && s->min_p < 1.0f},
        {"repetition_penalty", "a number > 0", s->repetition_penalty,
         s->repetition_penalty > 0.0f && s->repetition_penalty <= FLT_MAX},
        {"frequency_penalty", "a number in [-2, 2]", s->frequency_penalty,
         s->frequency_penalty >= -2.0f && s->frequency_penalty <= 2.0f},
        {"presence_penalty", "a number in [-2, 2]", s->presence_penalty,
         s->presence_penalty >= -2.0f && s->presence_penalty <= 2.0f},
        {"top_k", "an integer >= 0", s->top_k, s->top_k >= 0},
        {"n_bias", "a count >= 0 with its arrays", s->n_bias,
         s->n_bias == 0 || (s->n_bias > 0 && s->bias_ids && s->bias_values)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!fields[i].good)
            return ds4_fail(err, DS4_ERR_ARG, "%s: expected %s, found %g", fields[i].name, fields[i].expected,
                            fields[i].value);
    for (int32_t i = 0; i < s->n_bias; i++) {
        if (s->bias_ids[i] < 0 || s->bias_ids[i] >= n_vocab)
            return ds4_fail(err, DS4_ERR_ARG, "bias_ids[%d]: expected an id below %d, found %d", (int)i, (int)n_vocab,
                            (int)s->bias_ids[i]);
        if (isnan(s->bias_values[i]))
            return ds4_fail(err, DS4_ERR_ARG, "bias_values[%d]: expected a number, found NaN", (int)i);
    }
    return ds4_ok(err);
}

/* ---- scratch ---- */

typedef struct scratch {
    float *weights;   /* [n_vocab] of all ids, or of the candidates */
    double *sums;     /* [chunks] */
    int32_t *ids;     /* [n_vocab] candidates, rising */
    float *logits;    /* [n_vocab] of the candidates */
    int32_t *edge;    /* [n_vocab] places of candidates that stand at the edge of a truncation */
    uint32_t *marks;  /* [n_vocab] zero between uses: 1 if seen, plus 2 for every occurrence in the output */
} scratch;

static size_t up64(size_t n) { return (n + 63) / 64 * 64; }

static size_t carve(int32_t n_vocab, uint8_t *base, scratch *s)
{
    size_t n = (size_t)n_vocab, chunks = (n + SCAN_CHUNK - 1) / SCAN_CHUNK, at = 0;
    s->weights = (float *)(void *)(base + at);
    at += up64(n * sizeof(float));
    s->sums = (double *)(void *)(base + at);
    at += up64(chunks * sizeof(double));
    s->ids = (int32_t *)(void *)(base + at);
    at += up64(n * sizeof(int32_t));
    s->logits = (float *)(void *)(base + at);
    at += up64(n * sizeof(float));
    s->edge = (int32_t *)(void *)(base + at);
    at += up64(n * sizeof(int32_t));
    s->marks = (uint32_t *)(void *)(base + at);
    return at + up64(n * sizeof(uint32_t));
}

size_t ds4_sampling_scratch_bytes(int32_t n_vocab)
{
    static uint8_t nowhere[64];
    scratch s;
    return carve(n_vocab, nowhere, &s);
}

/* ---- 1 to 4: edits of the logits ---- */

static void edit(const ds4_sampler *p, float *logits, int32_t n_vocab, const int32_t *history, int32_t n_history,
                 int32_t n_prompt, const uint32_t *mask, uint32_t *marks)
{
    for (int32_t i = 0; i < p->n_bias; i++)
        logits[p->bias_ids[i]] += p->bias_values[i];
    if (mask)
        for (int32_t i = 0; i < n_vocab; i += 32) {
            uint32_t word = mask[i / 32];
            if (word == UINT32_MAX)
                continue;
            for (int32_t j = 0; j < 32 && i + j < n_vocab; j++)
                if (!(word >> j & 1))
                    logits[i + j] = -INFINITY;
        }
    bool repeats = p->repetition_penalty != 1.0f, counts = p->frequency_penalty != 0.0f || p->presence_penalty != 0.0f;
    int32_t from = repeats ? 0 : n_prompt;
    if (!repeats && !counts)
        return;
#define EACH(i, t, first)                                     \
    for (int32_t i = (first), t; i < n_history; i++)          \
        if ((t = history[i]) >= 0 && t < n_vocab)
    EACH(i, t, from)
    {
        if (repeats && !marks[t])
            logits[t] = logits[t] > 0.0f ? logits[t] / p->repetition_penalty : logits[t] * p->repetition_penalty;
        marks[t] = (marks[t] | 1) + (i >= n_prompt ? 2 : 0);
    }
    if (counts)
        EACH(i, t, n_prompt)
        {
            uint32_t count = marks[t] >> 1;
            if (count)
                logits[t] -= p->frequency_penalty * (float)count + p->presence_penalty;
            marks[t] &= 1;
        }
    EACH(i, t, from) marks[t] = 0;
#undef EACH
}

static int32_t lowest_allowed(int32_t n_vocab, const uint32_t *mask)
{
    for (int32_t i = 0; mask && i < n_vocab; i++)
        if (mask[i / 32] >> (i % 32) & 1)
            return i;
    return 0;
}

/* ---- 6 to 8: the heaviest of the candidates ---- */

/* Rises with the float; -0 and 0 are one, since they are one logit. */
static uint32_t order_of(float f)
{
    uint32_t u;
    f += 0.0f;
    memcpy(&u, &f, sizeof u);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

typedef struct histogram {
    double measure[256];
    uint32_t count[256];
} histogram;

/* The first bucket with which the running measure reaches target, added up in *above without it; -1: none. */
static int crossing(const histogram *h, double target, double *above)
{
    for (int b = 0; b < 256; b++) {
        if (!h->count[b])
            continue;
        if (*above + h->measure[b] >= target)
            return b;
        *above += h->measure[b];
    }
    return -1;
}

/* How far below the highest, in 256 steps of the reach; a heavier candidate never has a later bucket. */
static int distance(float high, float logit, float steps)
{
    float d = (high - logit) * steps;
    return d < 255.0f ? (int)d : 255;
}

static int32_t keep(scratch *s, int32_t i, int32_t kept)
{
    s->ids[kept] = s->ids[i];
    s->logits[kept] = s->logits[i];
    s->weights[kept] = s->weights[i];
    return kept + 1;
}

/* Keeps the smallest number of the heaviest of n candidates (ties: lowest ids first) whose measure reaches target. The
 * measure is the weight, or 1 for each when counting. By distance first, then by radix within the bucket at the edge: a
 * few passes, no sort. */
static int32_t keep_heaviest(scratch *s, int32_t n, float high, float reach, bool counting, double target)
{
    const float steps = 256.0f / reach;
    histogram h = {{0}, {0}};
    double above = 0.0;
    for (int32_t i = 0; i < n; i++) {
        int b = distance(high, s->logits[i], steps);
        h.measure[b] += counting ? 1.0 : (double)s->weights[i];
        h.count[b]++;
    }
    int bucket = crossing(&h, target, &above);
    if (bucket < 0)
        return n; /* all of them do not reach it but for rounding */
    int32_t edge = 0;
    for (int32_t i = 0; i < n; i++) {
        s->edge[edge] = i;
        edge += distance(high, s->logits[i], steps) == bucket;
    }
    uint32_t low = 0; /* keys of the edge above it are kept */
    for (int shift = 24; shift >= 0; shift -= 8) {
        memset(&h, 0, sizeof h);
        for (int32_t e = 0; e < edge; e++) {
            int b = 255 - (int)(order_of(s->logits[s->edge[e]]) >> shift & 255);
            h.measure[b] += counting ? 1.0 : (double)s->weights[s->edge[e]];
            h.count[b]++;
        }
        int digit = crossing(&h, target, &above);
        if (digit < 0) { /* rounding again: the edge is kept whole */
            low = 0;
            break;
        }
        low |= (uint32_t)(255 - digit) << shift;
        int32_t left = 0;
        for (int32_t e = 0; e < edge; e++) {
            int b = 255 - (int)(order_of(s->logits[s->edge[e]]) >> shift & 255);
            s->edge[left] = s->edge[e];
            left += b == digit;
        }
        edge = left;
    }
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++) {
        int b = distance(high, s->logits[i], steps);
        if (b > bucket)
            continue;
        if (b == bucket) {
            uint32_t key = order_of(s->logits[i]);
            if (key < low || (key == low && above >= target))
                continue;
            if (key == low)
                above += counting ? 1.0 : (double)s->weights[i];
        }
        kept = keep(s, i, kept);
    }
    return kept;
}

static double weigh(const float *weights, int32_t n)
{
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++)
        sum += (double)weights[i];
    return sum;
}

/* Fills the scratch with the ids that truncation leaves. Candidates are the logits close to the highest, wider until they
 * hold what is asked for; those of no weight are never needed. total: the weight of all ids, used for top-p alone. */
static int32_t truncate(const ds4_sampler *p, const ds4_scan *scan, const float *logits, int32_t n_vocab, float high,
                        float scale, double total, scratch *s)
{
    static const float reaches[] = {4.0f, 8.0f, 12.0f, 16.0f, 24.0f, 90.0f};
    float reach = 0.0f;
    int32_t n = 0;
    bool enough = false;
    for (int r = 0; r < 6 && !enough; r++) {
        reach = reaches[r] * p->temperature;
        n = scan->collect(logits, n_vocab, high - reach, s->ids);
        if (p->top_k > 0 && n < p->top_k)
            continue;
        for (int32_t i = 0; i < n; i++)
            s->logits[i] = logits[s->ids[i]];
        scan->weights(s->weights, s->logits, n, high, scale, s->sums);
        enough = p->top_k > 0      ? true
                 : p->top_p < 1.0f ? weigh(s->weights, n) >= (double)p->top_p * total
                                   : expf(-reaches[r]) < p->min_p * 0.5f;
    }
    if (!enough) { /* then these are all that weigh anything */
        for (int32_t i = 0; i < n; i++)
            s->logits[i] = logits[s->ids[i]];
        scan->weights(s->weights, s->logits, n, high, scale, s->sums);
    }
    if (!(reach > 0.0f))
        reach = FLT_MIN; /* a temperature that is next to nothing */
    if (p->top_k > 0 && n > p->top_k)
        n = keep_heaviest(s, n, high, reach, true, (double)p->top_k);
    if (p->top_p < 1.0f)
        n = keep_heaviest(s, n, high, reach, false, (double)p->top_p * (p->top_k > 0 ? weigh(s->weights, n) : total));
    if (p->min_p > 0.0f) {
        int32_t kept = 0;
        for (int32_t i = 0; i < n; i++)
            if (s->weights[i] >= p->min_p) /* the heaviest weighs 1 */
                kept = keep(s, i, kept);
        n = kept;
    }
    return n;
}

/* ---- 9: the draw ---- */

static int32_t draw_of(const scratch *s, int32_t n, double uniform)
{
    double goal = uniform * weigh(s->weights, n), sum = 0.0;
    int32_t last = s->ids[0];
    for (int32_t i = 0; i < n; i++) {
        if (s->weights[i] == 0.0f)
            continue;
        last = s->ids[i];
        sum += (double)s->weights[i];
        if (sum > goal)
            break;
    }
    return last;
}

static int32_t draw_of_all(const float *weights, const double *sums, int32_t n_vocab, double total, double uniform)
{
    int32_t chunks = (n_vocab + SCAN_CHUNK - 1) / SCAN_CHUNK, last = 0;
    double goal = uniform * total, sum = 0.0;
    for (int32_t c = 0; c < chunks; c++) {
        if (sums[c] == 0.0)
            continue;
        bool here = sum + sums[c] > goal;
        int32_t to = (c + 1) * SCAN_CHUNK < n_vocab ? (c + 1) * SCAN_CHUNK : n_vocab;
        double running = sum;
        for (int32_t i = c * SCAN_CHUNK; i < to; i++) {
            if (weights[i] == 0.0f)
                continue;
            last = i;
            running += (double)weights[i];
            if (here && running > goal)
                return i;
        }
        if (here) /* sums in another order differ in the last bit: the last of the chunk it is */
            return last;
        sum += sums[c];
    }
    return last;
}

int32_t ds4_sampling_pick(const ds4_sampler *p, float *logits, int32_t n_vocab, const int32_t *history, int32_t n_history,
                          int32_t n_prompt, const uint32_t *mask, double uniform, void *memory)
{
    const ds4_scan *scan = ds4_scan_best();
    scratch s;
    carve(n_vocab, memory, &s);
    if (n_prompt > n_history)
        n_prompt = n_history;
    edit(p, logits, n_vocab, history, n_history, n_prompt < 0 ? 0 : n_prompt, mask, s.marks);
    float high = scan->highest(logits, n_vocab);
    if (high == -INFINITY)
        return lowest_allowed(n_vocab, mask);
    if (p->temperature == 0.0f)
        return scan->next_at_least(logits, 0, n_vocab, high);

    if (high == INFINITY) { /* beside infinity nothing weighs anything */
        int32_t n = scan->collect(logits, n_vocab, high, s.ids);
        if (p->top_k > 0 && n > p->top_k)
            n = p->top_k;
        if (p->top_p < 1.0f)
            n = (int32_t)ceil((double)p->top_p * n);
        for (int32_t i = 0; i < n; i++)
            s.weights[i] = 1.0f;
        return draw_of(&s, n, uniform);
    }
    float scale = 1.0f / p->temperature;
    scale = scale <= FLT_MAX ? scale : FLT_MAX;
    bool whole = p->top_k == 0 && p->top_p >= 1.0f && p->min_p == 0.0f;
    double total = 0.0;
    if (whole || (p->top_k == 0 && p->top_p < 1.0f)) {
        scan->weights(s.weights, logits, n_vocab, high, scale, s.sums);
        for (int32_t c = 0; c < (n_vocab + SCAN_CHUNK - 1) / SCAN_CHUNK; c++)
            total += s.sums[c];
    }
    if (whole)
        return draw_of_all(s.weights, s.sums, n_vocab, total, uniform);
    return draw_of(&s, truncate(p, scan, logits, n_vocab, high, scale, total, &s), uniform);
}

/* ---- log-probabilities ---- */

double ds4_sampling_logsumexp(const float *logits, int32_t n_vocab)
{
    const ds4_scan *scan = ds4_scan_best();
    float high = scan->highest(logits, n_vocab);
    if (isinf(high))
        return high;
    return (double)high + log(scan->sum_exp(logits, n_vocab, high));
}

float ds4_sampling_logprob(float logit, double lse)
{
    if (isnan(logit) || (isinf(logit) && logit < 0))
        return -INFINITY;
    return isinf(logit) ? 0.0f : (float)((double)logit - lse);
}

void ds4_sampling_top(const float *logits, int32_t n_vocab, double lse, int32_t n, int32_t *ids, float *logprobs)
{
    const ds4_scan *scan = ds4_scan_best();
    float best[DS4_MAX_TOP];
    int32_t count = 0;
    for (int32_t i = 0; i < n_vocab; i++) {
        if (count == n) {
            i = scan->next_at_least(logits, i, n_vocab, best[n - 1]);
            if (i == n_vocab)
                break;
        }
        float x = isnan(logits[i]) ? -INFINITY : logits[i];
        if (count == n && !(x > best[n - 1]))
            continue;
        int32_t at = count < n ? count++ : n - 1;
        for (; at > 0 && x > best[at - 1]; at--) {
            best[at] = best[at - 1];
            ids[at] = ids[at - 1];
        }
        best[at] = x;
        ids[at] = i;
    }
    for (int32_t i = 0; i < count; i++)
        logprobs[i] = ds4_sampling_logprob(best[i], lse);
}
