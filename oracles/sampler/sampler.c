/* sampler.c - one row of logits to a token; the contract is README.md beside this file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"

enum { MOST_LOGITS = 1 << 20, MOST_TOP = 64 };

/* Part of what is compared by which another rounding may decide otherwise: sums of weights, which are doubles, and the
 * least logit that min_p keeps, which is compared with the logits in fp32. */
static const double margin = 0x1p-22;

typedef struct bias {
    int64_t id;
    float value;
} bias;

typedef struct request {
    float temperature, top_p, min_p, repetition, frequency, presence;
    int32_t top_k;
    double uniform;
    size_t n;
    float *raw;       /* [n] as they came */
    float *l;         /* [n] */
    uint8_t *allowed; /* [n], or NULL: all */
    bias *biases;
    size_t n_bias;
    int32_t *history;
    size_t n_history, n_prompt, top;
} request;

/* ---- the tape ---- */

static bool hex(bytes word, size_t digits, uint64_t *bits) {
    *bits = 0;
    if (word.length != digits) return false;
    for (size_t i = 0; i < digits; i++) {
        const uint8_t c = word.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
        *bits = *bits << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

static bool word_f32(reader *line, float *value) {
    bytes word;
    uint64_t bits;
    if (!reader_word(line, &word) || !hex(word, 8, &bits)) return false;
    const uint32_t half = (uint32_t)bits;
    memcpy(value, &half, sizeof half);
    return true;
}

static bool word_f64(reader *line, double *value) {
    bytes word;
    uint64_t bits;
    if (!reader_word(line, &word) || !hex(word, 16, &bits)) return false;
    memcpy(value, &bits, sizeof bits);
    return true;
}

static bool word_i32(reader *line, int32_t *value) {
    bytes word;
    int64_t wide;
    if (!reader_word(line, &word) || !word_int(word, &wide) || wide < INT32_MIN || wide > INT32_MAX) return false;
    *value = (int32_t)wide;
    return true;
}

static bool begins(reader *all, reader *line, const char *verb) {
    bytes word;
    return reader_line(all, line) && reader_word(line, &word) && word_is(word, verb);
}

static bool ended(const reader *line) { return line->at == line->end; }

/* Words that the rest of a line can hold at most. */
static size_t words_left(const reader *line) { return (size_t)(line->end - line->at + 1) / 2; }

static int read_logits(reader *line, request *r) {
    const size_t most = words_left(line);
    r->raw = malloc((most + 1) * sizeof *r->raw);
    r->l = malloc((most + 1) * sizeof *r->l);
    if (r->raw == NULL || r->l == NULL) return ORACLE_NO_MEMORY;
    for (; !ended(line); r->n++)
        if (r->n == MOST_LOGITS || !word_f32(line, &r->raw[r->n])) return ORACLE_BAD_TAPE;
    return ORACLE_OK;
}

static int read_bias(reader *line, request *r) {
    r->biases = malloc((words_left(line) + 1) * sizeof *r->biases);
    if (r->biases == NULL) return ORACLE_NO_MEMORY;
    for (int64_t before = INT64_MIN; !ended(line); r->n_bias++) {
        int32_t id;
        if (!word_i32(line, &id) || id <= before || !word_f32(line, &r->biases[r->n_bias].value)) return ORACLE_BAD_TAPE;
        before = r->biases[r->n_bias].id = id;
    }
    return ORACLE_OK;
}

static int read_mask(reader *line, request *r) {
    bytes word;
    if (!reader_word(line, &word) || !ended(line)) return ORACLE_BAD_TAPE;
    if (word_is(word, "all")) return ORACLE_OK;
    if (r->n == 0) return word_is(word, "%-") ? ORACLE_OK : ORACLE_BAD_TAPE;
    if (word.length != r->n) return ORACLE_BAD_TAPE;
    r->allowed = malloc(r->n);
    if (r->allowed == NULL) return ORACLE_NO_MEMORY;
    for (size_t i = 0; i < r->n; i++) {
        if (word.data[i] != '0' && word.data[i] != '1') return ORACLE_BAD_TAPE;
        r->allowed[i] = word.data[i] == '1';
    }
    return ORACLE_OK;
}

static int read_history(reader *line, request *r) {
    int32_t n_prompt;
    r->history = malloc((words_left(line) + 1) * sizeof *r->history);
    if (r->history == NULL) return ORACLE_NO_MEMORY;
    if (!word_i32(line, &n_prompt) || n_prompt < 0) return ORACLE_BAD_TAPE;
    for (; !ended(line); r->n_history++)
        if (!word_i32(line, &r->history[r->n_history])) return ORACLE_BAD_TAPE;
    r->n_prompt = (size_t)n_prompt;
    return r->n_prompt <= r->n_history ? ORACLE_OK : ORACLE_BAD_TAPE;
}

/* log-probabilities need a sum that is a number. */
static bool has_logprobs(const request *r) {
    bool some = false;
    for (size_t i = 0; i < r->n; i++) {
        if (r->raw[i] == INFINITY) return false;
        some = some || isfinite(r->raw[i]);
    }
    return some;
}

static int read_request(reader all, request *r) {
    reader line;
    int32_t top;
    int status;
    if (!begins(&all, &line, "sampler") || !word_f32(&line, &r->temperature) || !word_i32(&line, &r->top_k) ||
        !word_f32(&line, &r->top_p) || !word_f32(&line, &r->min_p) || !word_f32(&line, &r->repetition) ||
        !word_f32(&line, &r->frequency) || !word_f32(&line, &r->presence) || !ended(&line))
        return ORACLE_BAD_TAPE;
    if (!begins(&all, &line, "uniform") || !word_f64(&line, &r->uniform) || !ended(&line)) return ORACLE_BAD_TAPE;
    if (!begins(&all, &line, "logits")) return ORACLE_BAD_TAPE;
    if ((status = read_logits(&line, r)) != ORACLE_OK) return status;
    if (!begins(&all, &line, "bias")) return ORACLE_BAD_TAPE;
    if ((status = read_bias(&line, r)) != ORACLE_OK) return status;
    if (!begins(&all, &line, "mask")) return ORACLE_BAD_TAPE;
    if ((status = read_mask(&line, r)) != ORACLE_OK) return status;
    if (!begins(&all, &line, "history")) return ORACLE_BAD_TAPE;
    if ((status = read_history(&line, r)) != ORACLE_OK) return status;
    if (!begins(&all, &line, "top") || !word_i32(&line, &top) || !ended(&line) || top < 0 || top > MOST_TOP ||
        all.at != all.end)
        return ORACLE_BAD_TAPE;
    r->top = (size_t)top;
    return r->n > 0 && top > 0 && !has_logprobs(r) ? ORACLE_BAD_TAPE : ORACLE_OK;
}

static bool valid(const request *r) {
    for (size_t i = 0; i < r->n_bias; i++)
        if (r->biases[i].id < 0 || (uint64_t)r->biases[i].id >= r->n || isnan(r->biases[i].value)) return false;
    return r->n > 0 && isfinite(r->temperature) && r->temperature >= 0.0f && r->top_k >= 0 && r->top_p > 0.0f &&
           r->top_p <= 1.0f && r->min_p >= 0.0f && r->min_p < 1.0f && isfinite(r->repetition) && r->repetition > 0.0f &&
           fabsf(r->frequency) <= 2.0f && fabsf(r->presence) <= 2.0f && r->uniform >= 0.0 && r->uniform < 1.0;
}

/* ---- up to the penalties ---- */

static float number(float x) { return isnan(x) ? -INFINITY : x; }

static int compare_ids(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool next_run(const int32_t *ids, size_t n, size_t *at, int32_t *id, size_t *times) {
    if (*at == n) return false;
    *id = ids[*at];
    for (*times = 0; *at < n && ids[*at] == *id; ++*at) ++*times;
    return true;
}

static void penalise(const request *r, int32_t *sorted, float *l) {
    int32_t id;
    size_t times;
    memcpy(sorted, r->history, r->n_history * sizeof *sorted);
    qsort(sorted, r->n_history, sizeof *sorted, compare_ids);
    for (size_t at = 0; next_run(sorted, r->n_history, &at, &id, &times);)
        if (id >= 0 && (size_t)id < r->n) l[id] = number(l[id] > 0.0f ? l[id] / r->repetition : l[id] * r->repetition);
    const size_t n_output = r->n_history - r->n_prompt;
    memcpy(sorted, r->history + r->n_prompt, n_output * sizeof *sorted);
    qsort(sorted, n_output, sizeof *sorted, compare_ids);
    for (size_t at = 0; next_run(sorted, n_output, &at, &id, &times);)
        if (id >= 0 && (size_t)id < r->n) {
            const float often = (float)times * r->frequency;
            const float all = often + r->presence;
            l[id] = number(l[id] - all);
        }
}

static int adjust(const request *r) {
    for (size_t i = 0; i < r->n; i++) r->l[i] = number(r->raw[i]);
    for (size_t i = 0; i < r->n_bias; i++)
        r->l[r->biases[i].id] = number(r->l[r->biases[i].id] + r->biases[i].value);
    for (size_t i = 0; r->allowed != NULL && i < r->n; i++)
        if (!r->allowed[i]) r->l[i] = -INFINITY;
    int32_t *sorted = malloc((r->n_history + 1) * sizeof *sorted);
    if (sorted == NULL) return ORACLE_NO_MEMORY;
    penalise(r, sorted, r->l);
    free(sorted);
    return ORACLE_OK;
}

/* ---- the ranking and its first parts ---- */

/* off: what the engine's own weight may differ by. */
typedef struct ranked {
    float l;
    uint32_t id;
    double weight, off;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->l != y->l) return x->l < y->l ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static size_t rank(const float *l, size_t n, float temperature, ranked *list) {
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (l[i] > -INFINITY) list[m++] = (ranked){l[i], (uint32_t)i, 0.0, 0.0};
    qsort(list, m, sizeof *list, compare_ranked);
    for (size_t i = 0; i < m; i++) {
        const double under = list[0].l == INFINITY ? (list[i].l == INFINITY ? 0.0 : -INFINITY) : (double)list[i].l - list[0].l;
        const double power = under / (double)temperature;
        list[i].weight = exp(power);
        list[i].off = list[i].weight > 0.0 ? list[i].weight * (1.0 - power) * margin : 0.0;
    }
    return m;
}

/* Whether sums of these weights, and their comparison with a part of them, are exact in any arithmetic that has fp32. */
static bool exact(const ranked *list, size_t n, double part) {
    const double product = part * (double)n;
    return list[n - 1].weight == 1.0 && n < 1 << 20 && (double)(float)part == part && (double)(float)product == product;
}

/* What all their weights together may be off. */
static double off_together(const ranked *list, size_t n) {
    double off = 0.0;
    for (size_t i = 0; i < n; i++) off += list[i].off;
    return off;
}

/* The first parts that top_p may keep: `least` or more of them, at most `most`. */
static void top_p_range(const ranked *list, size_t n, float top_p, size_t *least, size_t *most) {
    double total = 0.0, sum = 0.0;
    *least = *most = n;
    if (top_p >= 1.0f) return;
    for (size_t i = 0; i < n; i++) total += list[i].weight;
    const double wanted = (double)top_p * total;
    const double slack = exact(list, n, top_p) ? 0.0 : off_together(list, n);
    for (size_t i = 0; i < n; i++) {
        sum += list[i].weight;
        if (sum >= wanted - slack && *least == n) *least = i + 1;
        if (sum >= wanted + slack) {
            *most = i + 1;
            return;
        }
    }
}

/* How many of the first n weigh at least min_p: surely, or with all that they may be off. */
static size_t at_least(const ranked *list, size_t n, double min_p, bool surely) {
    size_t kept = 1;
    while (kept < n && list[kept].weight + (surely ? -list[kept].off : list[kept].off) >= min_p) kept++;
    return kept;
}

/* ---- the draw ---- */

static int compare_by_id(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Marks the ids that may be drawn from the first n, whose sums may be `times` as much off as their weights. */
static int draw(const ranked *list, size_t n, double uniform, double times, uint8_t *may) {
    ranked *kept = malloc(n * sizeof *kept);
    if (kept == NULL) return ORACLE_NO_MEMORY;
    memcpy(kept, list, n * sizeof *kept);
    const double slack = exact(kept, n, uniform) ? 0.0 : times * off_together(kept, n);
    qsort(kept, n, sizeof *kept, compare_by_id);
    double total = 0.0, before = 0.0;
    for (size_t i = 0; i < n; i++) total += kept[i].weight;
    const double low = uniform * total - slack, high = uniform * total + slack;
    size_t last = n;
    bool some = false;
    for (size_t i = 0; i < n; i++) {
        const double after = before + kept[i].weight;
        if (kept[i].weight > 0.0) {
            last = i;
            if (after > low && before <= high) {
                may[kept[i].id] = 1;
                some = true;
            }
        }
        before = after;
    }
    /* A running sum that rounding keeps below its total: the last one. */
    if (!some && last < n) may[kept[last].id] = 1;
    free(kept);
    return ORACLE_OK;
}

static size_t first_allowed(const request *r) {
    for (size_t i = 0; r->allowed != NULL && i < r->n; i++)
        if (r->allowed[i]) return i;
    return 0;
}

static int sample(const request *r, uint8_t *may) {
    ranked *list = malloc(r->n * sizeof *list);
    if (list == NULL) return ORACLE_NO_MEMORY;
    size_t n = rank(r->l, r->n, r->temperature > 0.0f ? r->temperature : 1.0f, list), least, most;
    int status = ORACLE_OK;
    if (n == 0 || r->temperature == 0.0f) {
        may[n == 0 ? first_allowed(r) : list[0].id] = 1;
        free(list);
        return ORACLE_OK;
    }
    if (r->top_k > 0 && (size_t)r->top_k < n) n = (size_t)r->top_k;
    top_p_range(list, n, r->top_p, &least, &most);
    /* min_p may fall between weights of nearly its size: each place where the weight changes is one to cut at. */
    const size_t surely = r->min_p > 0.0f ? at_least(list, n, r->min_p, true) : n;
    const size_t maybe = r->min_p > 0.0f ? at_least(list, n, r->min_p, false) : n;
    for (size_t cut = surely; cut <= maybe && status == ORACLE_OK; cut++) {
        if (cut == 0 || (cut != surely && cut != maybe && list[cut - 1].l == list[cut].l)) continue;
        const size_t one = most < cut ? most : cut, other = most - 1 < cut ? most - 1 : cut;
        status = draw(list, one, r->uniform, 1.0, may);
        /* From `least` to `most` - 1 sums differ by twice what they may be off at most. */
        if (status == ORACLE_OK && least < most && other > 0 && other != one)
            status = draw(list, other, r->uniform, 4.0, may);
    }
    free(list);
    return status;
}

/* ---- log-probabilities ---- */

static double log_sum(const request *r) {
    float highest = -INFINITY;
    double sum = 0.0;
    for (size_t i = 0; i < r->n; i++) highest = fmaxf(highest, number(r->raw[i]));
    for (size_t i = 0; i < r->n; i++) sum += exp((double)number(r->raw[i]) - highest);
    return highest + log(sum);
}

static size_t put_f32(char *text, double value) {
    const float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    for (int i = 0; i < 8; i++) text[i] = "0123456789abcdef"[bits >> 4 * (7 - i) & 15];
    return 8;
}

static size_t put_id(char *text, size_t id) {
    char digits[20];
    size_t n = 0;
    do digits[n++] = (char)('0' + id % 10);
    while ((id /= 10) != 0);
    for (size_t i = 0; i < n; i++) text[i] = digits[n - 1 - i];
    return n;
}

/* The ids that may be drawn, or their log-probabilities, as one word with ~ between. */
static int put_candidates(const request *r, const uint8_t *may, const double *sum, tape *out) {
    size_t count = 0, at = 0;
    for (size_t i = 0; i < r->n; i++) count += may[i];
    char *text = malloc(count * 21 + 1);
    if (text == NULL) return ORACLE_NO_MEMORY;
    for (size_t i = 0; i < r->n; i++) {
        if (!may[i]) continue;
        if (at > 0) text[at++] = '~';
        at += sum == NULL ? put_id(text + at, i) : put_f32(text + at, (double)number(r->raw[i]) - *sum);
    }
    text[at] = 0;
    tape_word(out, sum == NULL ? "token" : "logprob");
    tape_word(out, text);
    tape_end(out);
    free(text);
    return ORACLE_OK;
}

static int put_top(const request *r, double sum, tape *out) {
    ranked *list = malloc(r->n * sizeof *list);
    if (list == NULL) return ORACLE_NO_MEMORY;
    for (size_t i = 0; i < r->n; i++) list[i] = (ranked){number(r->raw[i]), (uint32_t)i, 0.0, 0.0};
    qsort(list, r->n, sizeof *list, compare_ranked);
    tape_word(out, "top");
    for (size_t i = 0; i < r->top && i < r->n; i++) {
        char text[32];
        size_t at = put_id(text, list[i].id);
        text[at++] = ':';
        at += put_f32(text + at, (double)list[i].l - sum);
        text[at] = 0;
        tape_word(out, text);
    }
    tape_end(out);
    free(list);
    return ORACLE_OK;
}

static int answer(const request *r, tape *out) {
    if (!valid(r)) {
        tape_word(out, "error");
        tape_word(out, "engine_argument");
        tape_end(out);
        return ORACLE_OK;
    }
    uint8_t *may = calloc(r->n, 1);
    if (may == NULL) return ORACLE_NO_MEMORY;
    int status = adjust(r);
    if (status == ORACLE_OK) status = sample(r, may);
    if (status == ORACLE_OK) status = put_candidates(r, may, NULL, out);
    if (status == ORACLE_OK && r->top > 0) {
        const double sum = log_sum(r);
        status = put_candidates(r, may, &sum, out);
        if (status == ORACLE_OK) status = put_top(r, sum, out);
    }
    free(may);
    return status;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    request r = {0};
    (void)state;
    int status = read_request(reader_over(input, length), &r);
    if (status == ORACLE_OK) status = answer(&r, out);
    free(r.raw);
    free(r.l);
    free(r.allowed);
    free(r.biases);
    free(r.history);
    return status;
}

const oracle_kind oracle_sampler = {"sampler", NULL, run, NULL};
