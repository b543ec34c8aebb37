/* pace.c - what a decode step and a prompt token cost, learnt from steps; and how many prompt rows may join a step.
 *
 * Doubles, one rounding an operation, in the order written: built without contraction (-ffp-contract=off).
 */
#include <string.h>

#include "oracles/schedule/schedule.h"

static double blend(double old, double new) {
    if (old == 0) return new;
    const double difference = new - old;
    const double share = 0.3 * difference;
    return old + share;
}

static double greater(double a, double b) { return a > b ? a : b; }

void pace_learn(pace *p, int64_t decoding, int64_t prompt_rows, int64_t elapsed) {
    const double e = (double)elapsed, rows = (double)prompt_rows;
    if (elapsed <= 0) return;
    if (prompt_rows == 0) {
        p->decode = blend(p->decode, e);
    } else if (decoding == 0) {
        if (prompt_rows >= SMALLEST_CHUNK) p->per_token = blend(p->per_token, e / rows);
    } else if (p->decode != 0) {
        const double left = greater(e - p->decode, e / 8);
        p->per_token = blend(p->per_token, left / rows);
    } else if (p->per_token != 0) {
        const double prompt = p->per_token * rows;
        p->decode = greater(e - prompt, e / 4);
    }
}

int64_t pace_chunk(const pace *p, int64_t decoding, int64_t width) {
    if (decoding == 0) return width;
    if (p->decode == 0 || p->per_token == 0) return width < FIRST_CHUNK ? width : FIRST_CHUNK;
    const double quotient = p->decode / p->per_token;
    if (quotient >= (double)width) return width;
    const int64_t q = (int64_t)quotient < SMALLEST_CHUNK ? SMALLEST_CHUNK : (int64_t)quotient;
    return q < width ? q : width;
}

double pace_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint64_t pace_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
