/* rope.c - the rotary position embedding. */
#include <math.h>
#include <stdlib.h>

#include "oracles/ops/ops.h"

static const double pi = 3.14159265358979323846;

typedef struct scaling {
    bool linear, yarn;
    float factor, mix, fast, slow;
    int64_t original;
} scaling;

typedef struct shape {
    bool neox;
    int64_t n_head, head_dim, rope_dim, n_divisors;
    float base, magnitude;
    scaling s;
} shape;

/* The rotation of a pair: what is rounded to fp32, and whether another computation in double may round it otherwise. */
typedef struct rotation {
    float value;
    bool uncertain;
} rotation;

static bool whole(bytes word, int64_t from, int64_t to, int64_t *value) {
    return word_int(word, value) && *value >= from && *value <= to;
}

static bool read_scaling(bytes word, scaling *s) {
    bytes part;
    if (word_is(word, "none")) return true;
    if (!part_of(&word, ':', &part)) return false;
    s->linear = word_is(part, "linear");
    s->yarn = word_is(part, "yarn");
    if (s->linear) return hex_float(word, 1.0, 1024.0, &s->factor);
    if (!s->yarn || !part_of(&word, ':', &part) || !hex_float(part, 1.0, 1024.0, &s->factor)) return false;
    if (!part_of(&word, ':', &part) || !hex_float(part, 0.0, 1.0, &s->mix)) return false;
    if (!part_of(&word, ':', &part) || !hex_float(part, 0x1p-6, 0x1p10, &s->fast)) return false;
    if (!part_of(&word, ':', &part) || !hex_float(part, 0x1p-6, 0x1p10, &s->slow)) return false;
    return whole(word, 1, 1 << 24, &s->original);
}

static bool read_shape(reader *line, shape *s) {
    bytes word;
    if (!take_word(line, &word)) return false;
    s->neox = word_is(word, "neox");
    if (!s->neox && !word_is(word, "norm")) return false;
    return take_int(line, 1, 65536, &s->n_head) && take_int(line, 1, 65536, &s->head_dim) &&
           s->n_head * s->head_dim <= 65536 && take_int(line, 2, s->head_dim, &s->rope_dim) && s->rope_dim % 2 == 0 &&
           take_float(line, 1.0, 1e9, &s->base) && take_float(line, 0x1p-10, 0x1p10, &s->magnitude) &&
           take_word(line, &word) && read_scaling(word, &s->s) && take_int(line, 0, s->rope_dim / 2, &s->n_divisors) &&
           (s->n_divisors == 0 || s->n_divisors == s->rope_dim / 2);
}

/* The pair, as a real number, that turns `beta` times within the original context. */
static double turning(const shape *s, double beta) {
    return (double)s->rope_dim * log((double)s->s.original / (2.0 * pi * beta)) / (2.0 * log((double)s->base));
}

static rotation rotation_of(const shape *s, int64_t i, double divisor) {
    double f = pow((double)s->base, -2.0 * (double)i / (double)s->rope_dim) / divisor;
    if (s->s.linear) f /= (double)s->s.factor;
    if (s->s.yarn) {
        const double low = fmax(0.0, floor(turning(s, (double)s->s.fast)));
        const double high = fmin((double)s->rope_dim - 1.0, ceil(turning(s, (double)s->s.slow)));
        const double along = fmin(1.0, fmax(0.0, ((double)i - low) / fmax(0.001, high - low)));
        const double m = (double)s->s.mix * (1.0 - along);
        f = f / (double)s->s.factor * (1.0 - m) + f * m;
    }
    const float down = (float)(f * (1.0 - 0x1p-44)), up = (float)(f * (1.0 + 0x1p-44));
    return (rotation){(float)f, down != up};
}

static void turn(const shape *s, const rotation *rotations, int64_t position, const float *x, bounded *y) {
    for (int64_t h = 0; h < s->n_head; h++) {
        const float *from = x + h * s->head_dim;
        bounded *to = y + h * s->head_dim;
        for (int64_t i = 0; i < s->head_dim; i++) to[i] = (bounded){(double)from[i], 0.0};
        for (int64_t i = 0; i < s->rope_dim / 2; i++) {
            const int64_t a = s->neox ? i : 2 * i, b = s->neox ? i + s->rope_dim / 2 : 2 * i + 1;
            const float angle = (float)position * rotations[i].value;
            const double c = cos((double)angle), n = sin((double)angle), m = (double)s->magnitude;
            const double size = m * (fabs((double)from[a]) + fabs((double)from[b]));
            const double within = (8.0 + (rotations[i].uncertain ? 4.0 * (double)angle : 0.0)) * OPS_U * size;
            to[a] = (bounded){m * ((double)from[a] * c - (double)from[b] * n), within};
            to[b] = (bounded){m * ((double)from[a] * n + (double)from[b] * c), within};
        }
    }
}

int ops_rope(reader line, bytes raw, tape *out) {
    shape s = {0};
    int status;
    if (!read_shape(&line, &s) || line.at == line.end) return ORACLE_BAD_TAPE;
    const size_t width = (size_t)(s.n_head * s.head_dim);
    float *divisors = take_numbers(&raw, (uint64_t)s.n_divisors, &status);
    rotation *rotations = malloc((size_t)(s.rope_dim / 2) * sizeof *rotations);
    bounded *y = malloc(width * sizeof *y);
    if (rotations == NULL || y == NULL) status = ORACLE_NO_MEMORY;
    for (int64_t i = 0; i < s.n_divisors && status == ORACLE_OK; i++)
        if (!(divisors[i] >= 0x1p-10f && divisors[i] <= 0x1p10f)) status = ORACLE_BAD_TAPE;
    for (int64_t i = 0; i < s.rope_dim / 2 && status == ORACLE_OK; i++)
        rotations[i] = rotation_of(&s, i, s.n_divisors > 0 ? (double)divisors[i] : 1.0);
    while (status == ORACLE_OK && line.at != line.end) {
        int64_t position;
        float *x = NULL;
        if (!take_int(&line, 0, 1 << 24, &position)) status = ORACLE_BAD_TAPE;
        else x = take_numbers(&raw, width, &status);
        if (status == ORACLE_OK) {
            turn(&s, rotations, position, x, y);
            put_row(out, y, width, false);
        }
        free(x);
    }
    if (status == ORACLE_OK && raw.length > 0) status = ORACLE_BAD_TAPE;
    free(divisors);
    free(rotations);
    free(y);
    return status;
}
