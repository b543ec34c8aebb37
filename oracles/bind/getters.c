#include "oracles/bind/getters.h"

#include <string.h>

#include "oracles/common/subject.h"

static bytes words(const char *text) { return (bytes){(const uint8_t *)text, strlen(text)}; }

void refuse(work *w, const char *code, const char *subject) {
    if (!w->refused) write_verdict(w->out, code, words(subject));
    w->refused = true;
}

void demand(work *w, bool holds, const char *code, const char *subject) {
    if (!holds) refuse(w, code, subject);
}

const key *find(const work *w, const char *name) {
    uint64_t index = 0;
    return names_get(&w->m->key_index, words(name), &index) ? &w->m->keys[index] : NULL;
}

static bool inside(value_type type, uint64_t bits, int64_t low, int64_t high) {
    if (is_signed(type) || bits <= INT64_MAX) return (int64_t)bits >= low && (int64_t)bits <= high;
    return false; /* a u64 above all bounds */
}

int64_t get_integer(work *w, const char *name, int64_t low, int64_t high, const int64_t *otherwise) {
    const key *k = find(w, name);
    if (w->refused) return low;
    if (k == NULL && otherwise != NULL) return *otherwise;
    if (k == NULL) refuse(w, "metadata_missing", name);
    else if (!is_integer(k->type)) refuse(w, "metadata_type", name);
    else if (!inside(k->type, k->bits, low, high)) refuse(w, "metadata_range", name);
    return w->refused ? low : (int64_t)k->bits;
}

double get_number(work *w, const char *name, double low, double high, const double *otherwise) {
    const key *k = find(w, name);
    if (w->refused) return low;
    if (k == NULL && otherwise != NULL) return *otherwise;
    if (k == NULL) refuse(w, "metadata_missing", name);
    else if (k->type != F32 && k->type != F64) refuse(w, "metadata_type", name);
    else if (!(k->number >= low && k->number <= high)) refuse(w, "metadata_range", name);
    return w->refused ? low : k->number;
}

bytes get_string(work *w, const char *name, const char *otherwise) {
    const key *k = find(w, name);
    if (w->refused) return words("");
    if (k == NULL && otherwise != NULL) return words(otherwise);
    if (k == NULL) refuse(w, "metadata_missing", name);
    else if (k->type != STRING) refuse(w, "metadata_type", name);
    return w->refused ? words("") : k->text;
}

int64_t get_uniform(work *w, const char *name, int64_t high, int64_t layers, const int64_t *otherwise) {
    const key *k = find(w, name);
    if (k == NULL || k->type != ARRAY) return get_integer(w, name, 1, high, otherwise);
    demand(w, k->count == (uint64_t)layers, "metadata_range", name);
    demand(w, is_integer(k->element), "metadata_type", name);
    demand(w, k->least == k->greatest, "unsupported_shape", name);
    demand(w, inside(k->element, k->least, 1, high), "metadata_range", name);
    return w->refused ? 1 : (int64_t)k->least;
}
