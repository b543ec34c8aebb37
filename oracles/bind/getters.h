/* getters.h - reading keys, each held to its type and range.
 *
 * The first fault is the verdict: it is written at once, and from then on nothing is looked at any more, so that the
 * order of work can be written down line by line. A getter that finds a fault, or is called after one, returns its lower bound.
 */
#ifndef DS4_ORACLE_BIND_GETTERS_H
#define DS4_ORACLE_BIND_GETTERS_H

#include "oracles/bind/model.h"

typedef struct work {
    const model *m;
    tape *out;
    bool refused;
} work;

#define INT_LIMIT INT64_C(0x7fffffff)

void refuse(work *w, const char *code, const char *subject);
void demand(work *w, bool holds, const char *code, const char *subject); /* refuses unless it holds */

const key *find(const work *w, const char *name); /* NULL: absent */

/* Where the key is absent: `otherwise`, or metadata_missing where that is NULL. */
int64_t get_integer(work *w, const char *name, int64_t low, int64_t high, const int64_t *otherwise);
double get_number(work *w, const char *name, double low, double high, const double *otherwise);
bytes get_string(work *w, const char *name, const char *otherwise);
/* One number for all layers, or an array that has the same for each. */
int64_t get_uniform(work *w, const char *name, int64_t high, int64_t layers, const int64_t *otherwise);

#endif
