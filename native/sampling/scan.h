/* scan.h - the loops over a whole vocabulary, for each instruction set. All sets give the same bits: 16 partial results in
 * a fixed order, products rounded before they are added. */
#ifndef DS4_SAMPLING_SCAN_H
#define DS4_SAMPLING_SCAN_H

#include <stdint.h>

#define SCAN_CHUNK 512

typedef struct ds4_scan {
    const char *name;
    /* The highest number; -infinity when there is none. */
    float (*highest)(const float *x, int32_t n);
    /* The first index from `from` on with x >= low, or n. */
    int32_t (*next_at_least)(const float *x, int32_t from, int32_t n, float low);
    /* w[i] = exp((x[i] - high) * scale), 0 for NaN, with at most 2 ulp. sums[c]: of the weights of chunk c, in double. */
    void (*weights)(float *w, const float *x, int32_t n, float high, float scale, double *sums);
    /* sum of exp(x[i] - high) in double, NaN counting 0. */
    double (*sum_exp)(const float *x, int32_t n, float high);
    /* The indices with x >= low, rising, and their number. ids: room for n. */
    int32_t (*collect)(const float *x, int32_t n, float low, int32_t *ids);
} ds4_scan;

/* The best that this processor has. [any thread] */
const ds4_scan *ds4_scan_best(void);
const ds4_scan *ds4_scan_find(const char *name);

#endif
