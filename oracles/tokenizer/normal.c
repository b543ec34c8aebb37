/* normal.c - Unicode Normalization Form C (UAX 15): take apart, order the marks, compose. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/utf8.h"
#include "oracles/tokenizer/normal.h"
#include "oracles/tokenizer/split.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* Hangul syllables: 19 leads, 21 vowels, 27 tails or none. */
enum { S_BASE = 0xac00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7, L_COUNT = 19, V_COUNT = 21, T_COUNT = 28 };
enum { S_COUNT = L_COUNT * V_COUNT * T_COUNT };

typedef struct item {
    uint32_t code, rank; /* of the combining class, 0 of a starter */
    size_t place;
} item;

static uint32_t rank_of(uint32_t code) {
    size_t low = 0, high = COUNT(mark_ranges);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (mark_ranges[middle].last < code) low = middle + 1;
        else high = middle;
    }
    return low < COUNT(mark_ranges) && mark_ranges[low].first <= code ? mark_ranges[low].rank : 0;
}

/* Writes what `code` comes apart into; returns how many. */
static size_t take_apart(uint32_t code, uint32_t parts[LONGEST_DECOMPOSITION]) {
    size_t n = 0;
    if (code >= S_BASE && code < S_BASE + S_COUNT) {
        const uint32_t s = code - S_BASE;
        parts[n++] = L_BASE + s / (V_COUNT * T_COUNT);
        parts[n++] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
        if (s % T_COUNT != 0) parts[n++] = T_BASE + s % T_COUNT;
        return n;
    }
    size_t low = 0, high = COUNT(decompositions);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (decompositions[middle].code < code) low = middle + 1;
        else high = middle;
    }
    if (low < COUNT(decompositions) && decompositions[low].code == code)
        while (n < LONGEST_DECOMPOSITION && decompositions[low].parts[n] != 0) {
            parts[n] = decompositions[low].parts[n];
            n++;
        }
    else parts[n++] = code;
    return n;
}

/* The character that two compose to; 0: none. */
static uint32_t composed(uint32_t first, uint32_t second) {
    if (first >= L_BASE && first < L_BASE + L_COUNT && second >= V_BASE && second < V_BASE + V_COUNT)
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
    if (first >= S_BASE && first < S_BASE + S_COUNT && (first - S_BASE) % T_COUNT == 0 && second > T_BASE && second < T_BASE + T_COUNT)
        return first + (second - T_BASE);
    size_t low = 0, high = COUNT(compositions);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compositions[middle].first < first || (compositions[middle].first == first && compositions[middle].second < second))
            low = middle + 1;
        else high = middle;
    }
    const bool there = low < COUNT(compositions) && compositions[low].first == first && compositions[low].second == second;
    return there ? compositions[low].code : 0;
}

static int by_rank(const void *left, const void *right) {
    const item *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static size_t compose(item *items, size_t n) {
    size_t kept = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        /* blocked by a character between the two that is a starter or of a class as high as its own */
        const bool next_to = starter != SIZE_MAX && starter + 1 == kept;
        const bool reaches = starter != SIZE_MAX && (next_to || items[kept - 1].rank < items[i].rank);
        const uint32_t code = reaches ? composed(items[starter].code, items[i].code) : 0;
        if (code != 0) {
            items[starter].code = code;
            continue;
        }
        if (items[i].rank == 0) starter = kept;
        items[kept++] = items[i];
    }
    return kept;
}

uint8_t *normalise(bytes text, size_t *length) {
    if (text.length > SIZE_MAX / LONGEST_DECOMPOSITION / sizeof(item) / 2) return NULL;
    item *items = malloc((text.length * LONGEST_DECOMPOSITION + 1) * sizeof *items);
    if (items == NULL) return NULL;
    size_t n = 0;
    for (size_t at = 0; at < text.length;) {
        uint32_t code = 0, parts[LONGEST_DECOMPOSITION];
        const size_t step = utf8_next(text.data + at, text.length - at, &code);
        if (step == 0) break; /* the caller's text is UTF-8 */
        at += step;
        const size_t count = take_apart(code, parts);
        for (size_t k = 0; k < count; k++, n++) items[n] = (item){parts[k], rank_of(parts[k]), n};
    }
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && items[end].rank != 0; end++) {}
        if (end - i > 1) qsort(items + i, end - i, sizeof *items, by_rank);
        if (end == i) end++;
    }
    n = compose(items, n);
    uint8_t *out = malloc(4 * n + 1);
    *length = 0;
    for (size_t i = 0; out != NULL && i < n; i++) *length += utf8_put(out + *length, items[i].code);
    free(items);
    return out;
}
