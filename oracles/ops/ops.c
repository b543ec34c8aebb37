/* ops.c - the tape, and the operations that take a row at a time. */
#include "oracles/ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/quants/blocks.h"

static const double largest = 0x1p20;
static const double underflow = 0x1p-120;
enum { MOST = 65536 };
static const int64_t most_numbers = 1 << 22; /* of a result: it may be far larger than its tape */

/* ---- reading ---- */

bool take_word(reader *line, bytes *word) { return reader_word(line, word); }

bool take_int(reader *line, int64_t from, int64_t to, int64_t *value) {
    bytes word;
    return reader_word(line, &word) && word_int(word, value) && *value >= from && *value <= to;
}

bool hex_float(bytes word, double from, double to, float *value) {
    uint32_t bits = 0;
    if (word.length != 8) return false;
    for (size_t i = 0; i < 8; i++) {
        const uint8_t c = word.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
        bits = bits << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    memcpy(value, &bits, sizeof bits);
    return (double)*value >= from && (double)*value <= to;
}

bool take_float(reader *line, double from, double to, float *value) {
    bytes word;
    return reader_word(line, &word) && hex_float(word, from, to, value);
}

bool part_of(bytes *word, char separator, bytes *part) {
    const uint8_t *cut = word->length > 0 ? memchr(word->data, separator, word->length) : NULL;
    *part = *word;
    if (cut != NULL) part->length = (size_t)(cut - word->data);
    const size_t gone = part->length + (cut != NULL ? 1 : 0);
    *word = (bytes){word->data + gone, word->length - gone};
    return part->length > 0;
}

static bool ended(const reader *line) { return line->at == line->end; }

static bool sound(double x) { return fabs(x) <= largest; /* and so no NaN */ }

float *take_numbers(bytes *raw, uint64_t n, int *status) {
    *status = ORACLE_BAD_TAPE;
    if (n > raw->length / 4) return NULL;
    float *numbers = malloc((size_t)n * sizeof *numbers + 1);
    if (numbers == NULL) {
        *status = ORACLE_NO_MEMORY;
        return NULL;
    }
    for (uint64_t i = 0; i < n; i++) {
        numbers[i] = f32_of(raw->data + 4 * i);
        if (!sound((double)numbers[i])) {
            free(numbers);
            return NULL;
        }
    }
    *raw = (bytes){raw->data + 4 * n, raw->length - 4 * (size_t)n};
    *status = ORACLE_OK;
    return numbers;
}

/* A weight's rows as numbers, with the magnitudes of the terms that make each. */
typedef struct weight {
    float *value;
    double *mass;
} weight;

static int take_weight(bytes raw, const block_kind *kind, uint64_t rows, uint64_t cols, weight *w) {
    const uint64_t blocks = rows * (cols / kind->elements);
    if (cols % kind->elements != 0 || raw.length / kind->bytes != blocks || raw.length % kind->bytes != 0)
        return ORACLE_BAD_TAPE;
    w->value = malloc((size_t)(rows * cols) * sizeof *w->value);
    w->mass = malloc((size_t)(rows * cols) * sizeof *w->mass);
    if (w->value == NULL || w->mass == NULL) return ORACLE_NO_MEMORY;
    for (uint64_t i = 0; i < rows * cols; i++) {
        const uint8_t *block = raw.data + i / kind->elements * kind->bytes;
        w->value[i] = kind->element(block, (uint32_t)(i % kind->elements), &w->mass[i]);
        if (!sound((double)w->value[i]) || !sound(w->mass[i])) return ORACLE_BAD_TAPE;
    }
    return ORACLE_OK;
}

/* ---- writing ---- */

void put_row(tape *out, const bounded *row, size_t n, bool exact) {
    tape_word(out, "row");
    for (size_t i = 0; i < n; i++) tape_hex(out, f32_bits((float)row[i].value), 8);
    tape_end(out);
    if (exact) return;
    tape_word(out, "within");
    for (size_t i = 0; i < n; i++) {
        /* The value written is itself rounded, by half a unit at most. */
        const double within = row[i].within + OPS_U * fabs(row[i].value) + underflow;
        tape_hex(out, f32_bits((float)within), 8);
    }
    tape_end(out);
}

/* ---- operations ---- */

static int embed(reader line, bytes raw, tape *out) {
    bytes name;
    int64_t vocab, d, id;
    weight w = {NULL, NULL};
    if (!take_word(&line, &name) || !take_int(&line, 1, MOST, &vocab) || !take_int(&line, 1, MOST, &d) || ended(&line))
        return ORACLE_BAD_TAPE;
    const block_kind *kind = block_named(name);
    int status = kind != NULL ? take_weight(raw, kind, (uint64_t)vocab, (uint64_t)d, &w) : ORACLE_BAD_TAPE;
    bounded *row = malloc((size_t)d * sizeof *row);
    if (row == NULL) status = ORACLE_NO_MEMORY;
    for (int64_t written = d; status == ORACLE_OK && !ended(&line); written += d) {
        if (written > most_numbers || !take_int(&line, 0, vocab - 1, &id)) {
            status = ORACLE_BAD_TAPE;
            break;
        }
        for (int64_t i = 0; i < d; i++) row[i] = (bounded){(double)w.value[id * d + i], 0.0};
        put_row(out, row, (size_t)d, true);
    }
    free(row);
    free(w.value);
    free(w.mass);
    return status;
}

static bounded add(float a, float b) { return (bounded){(double)(a + b), 0.0}; }

static bounded swiglu(float gate, float up) {
    const double value = (double)gate / (1.0 + exp(-(double)gate)) * (double)up;
    /* Where exp(-gate) leaves fp32, so does the sigmoid: it may end at 0 or stay at its smallest. */
    return (bounded){value, 16.0 * OPS_U * fabs(value) + 0x1p-124 * fabs((double)gate * (double)up)};
}

/* Two arrays of the same shape, number by number. */
static int pairwise(reader line, bytes raw, bounded (*of)(float, float), tape *out) {
    int64_t rows, d;
    int status, other;
    if (!take_int(&line, 1, MOST, &rows) || !take_int(&line, 1, MOST, &d) || !ended(&line)) return ORACLE_BAD_TAPE;
    float *a = take_numbers(&raw, (uint64_t)(rows * d), &status);
    float *b = take_numbers(&raw, (uint64_t)(rows * d), &other);
    bounded *row = malloc((size_t)d * sizeof *row);
    if (status == ORACLE_OK) status = other;
    if (status == ORACLE_OK && raw.length > 0) status = ORACLE_BAD_TAPE;
    if (row == NULL) status = ORACLE_NO_MEMORY;
    for (int64_t r = 0; r < rows && status == ORACLE_OK; r++) {
        for (int64_t i = 0; i < d; i++) row[i] = of(a[r * d + i], b[r * d + i]);
        put_row(out, row, (size_t)d, of == add);
    }
    free(a);
    free(b);
    free(row);
    return status;
}

static int rmsnorm(reader line, bytes raw, tape *out) {
    int64_t rows, d;
    float eps;
    int status, other;
    if (!take_int(&line, 1, MOST, &rows) || !take_int(&line, 1, MOST, &d) || !take_float(&line, 0.0, 1.0, &eps) ||
        !ended(&line))
        return ORACLE_BAD_TAPE;
    float *w = take_numbers(&raw, (uint64_t)d, &status);
    float *x = take_numbers(&raw, (uint64_t)(rows * d), &other);
    bounded *row = malloc((size_t)d * sizeof *row);
    if (status == ORACLE_OK) status = other;
    if (status == ORACLE_OK && raw.length > 0) status = ORACLE_BAD_TAPE;
    if (row == NULL) status = ORACLE_NO_MEMORY;
    for (int64_t r = 0; r < rows && status == ORACLE_OK; r++) {
        double squares = 0.0;
        for (int64_t i = 0; i < d; i++) squares += (double)x[r * d + i] * (double)x[r * d + i];
        const double size = sqrt(squares / (double)d + (double)eps);
        for (int64_t i = 0; i < d; i++) {
            const double value = size > 0.0 ? (double)x[r * d + i] / size * (double)w[i] : NAN;
            row[i] = (bounded){value, (16.0 + (double)d / 16.0) * OPS_U * fabs(value)};
        }
        if (size > 0.0) put_row(out, row, (size_t)d, false);
        else status = ORACLE_BAD_TAPE; /* 0 / 0: eps is there to prevent it */
    }
    free(w);
    free(x);
    free(row);
    return status;
}

static int matmul(reader line, bytes raw, tape *out) {
    bytes name;
    int64_t n_out, n_in, rows;
    weight w = {NULL, NULL};
    int status;
    if (!take_word(&line, &name) || !take_int(&line, 1, MOST, &n_out) || !take_int(&line, 1, MOST, &n_in) ||
        !take_int(&line, 1, MOST, &rows) || !ended(&line) || rows * n_out > most_numbers)
        return ORACLE_BAD_TAPE;
    const block_kind *kind = block_named(name);
    if (kind == NULL) return ORACLE_BAD_TAPE;
    float *x = take_numbers(&raw, (uint64_t)(rows * n_in), &status);
    if (status == ORACLE_OK) status = take_weight(raw, kind, (uint64_t)n_out, (uint64_t)n_in, &w);
    bounded *row = malloc((size_t)n_out * sizeof *row);
    if (row == NULL) status = ORACLE_NO_MEMORY;
    for (int64_t r = 0; r < rows && status == ORACLE_OK; r++) {
        for (int64_t o = 0; o < n_out; o++) {
            double sum = 0.0, mass = 0.0;
            for (int64_t k = 0; k < n_in; k++) {
                sum += (double)w.value[o * n_in + k] * (double)x[r * n_in + k];
                mass += w.mass[o * n_in + k] * fabs((double)x[r * n_in + k]);
            }
            row[o] = (bounded){sum, (16.0 + (double)n_in / 4.0) * OPS_U * mass};
        }
        put_row(out, row, (size_t)n_out, false);
    }
    free(x);
    free(w.value);
    free(w.mass);
    free(row);
    return status;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    reader all = reader_over(input, length), line;
    bytes verb;
    (void)state;
    if (!reader_line(&all, &line) || !reader_word(&line, &verb)) return ORACLE_BAD_TAPE;
    const bytes raw = reader_rest(&all);
    if (word_is(verb, "embed")) return embed(line, raw, out);
    if (word_is(verb, "add")) return pairwise(line, raw, add, out);
    if (word_is(verb, "swiglu")) return pairwise(line, raw, swiglu, out);
    if (word_is(verb, "rmsnorm")) return rmsnorm(line, raw, out);
    if (word_is(verb, "matmul")) return matmul(line, raw, out);
    if (word_is(verb, "rope")) return ops_rope(line, raw, out);
    if (word_is(verb, "attention")) return ops_attention(line, raw, out);
    return ORACLE_BAD_TAPE;
}

const oracle_kind oracle_ops = {"ops", NULL, run, NULL};
