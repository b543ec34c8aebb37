/* bpe.c - merges by rank, n log n.
 *
 * The symbols of a piece are a doubly linked list; a heap holds every neighbouring pair that some merge joins, by
 * (rank, place). Taking the least, joining the two and offering the two new pairs is done at most n - 1 times. What the
 * heap holds may be stale by the time it comes up, as one of the two was joined to something else: then the pair of ids
 * standing there is no longer the one that was put in.
 */
#include "oracles/tokenizer/bpe.h"

#include <stdlib.h>

static size_t power_above(size_t count) {
    size_t capacity = 16;
    while (capacity / 2 < count) {
        if (capacity > SIZE_MAX / 4) return 0;
        capacity *= 2;
    }
    return capacity;
}

/* ---- merges ---- */

static merge *merge_place(const merges *map, uint32_t left, uint32_t right) {
    uint64_t h = (((uint64_t)left << 32) | right) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h ^ (h >> 32)) & (map->capacity - 1);
    while (map->cells[i].used && !(map->cells[i].left == left && map->cells[i].right == right))
        i = (i + 1) & (map->capacity - 1);
    return &map->cells[i];
}

bool merges_make(merges *map, size_t count) {
    const size_t capacity = power_above(count);
    *map = (merges){capacity > 0 ? calloc(capacity, sizeof *map->cells) : NULL, capacity};
    return map->cells != NULL;
}

void merges_put(merges *map, merge m) {
    m.used = true;
    *merge_place(map, m.left, m.right) = m;
}

const merge *merges_get(const merges *map, uint32_t left, uint32_t right) {
    const merge *cell = merge_place(map, left, right);
    return cell->used ? cell : NULL;
}

void merges_free(merges *map) { free(map->cells); }

/* ---- the heap ---- */

typedef struct offer {
    uint32_t rank;
    size_t place; /* of the left symbol */
    uint32_t left, right, result;
} offer;

static bool before(const offer *a, const offer *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->place < b->place;
}

static void heap_push(offer *heap, size_t *n, offer o) {
    size_t i = (*n)++;
    while (i > 0 && before(&o, &heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = o;
}

static offer heap_pop(offer *heap, size_t *n) {
    const offer least = heap[0], last = heap[--*n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= *n) break;
        if (child + 1 < *n && before(&heap[child + 1], &heap[child])) child++;
        if (!before(&heap[child], &last)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return least;
}

/* ---- applying ---- */

#define NOTHING SIZE_MAX

typedef struct symbol {
    uint32_t id;
    bool joined; /* into its left neighbour */
    size_t previous, next;
} symbol;

static void propose(const merges *map, const symbol *s, size_t left, offer *heap, size_t *n) {
    if (left == NOTHING || s[left].next == NOTHING) return;
    const merge *m = merges_get(map, s[left].id, s[s[left].next].id);
    if (m != NULL) heap_push(heap, n, (offer){m->rank, left, m->left, m->right, m->result});
}

bool bpe_apply(const merges *map, uint32_t *ids, size_t *count) {
    const size_t n = *count;
    if (n < 2) return true;
    if (n > SIZE_MAX / 3 / sizeof(offer)) return false;
    symbol *s = malloc(n * sizeof *s);
    offer *heap = malloc(3 * n * sizeof *heap); /* n - 1 pairs at first, two more for each of at most n - 1 merges */
    if (s == NULL || heap == NULL) {
        free(s);
        free(heap);
        return false;
    }
    size_t waiting = 0;
    for (size_t i = 0; i < n; i++) s[i] = (symbol){ids[i], false, i == 0 ? NOTHING : i - 1, i + 1 == n ? NOTHING : i + 1};
    for (size_t i = 0; i + 1 < n; i++) propose(map, s, i, heap, &waiting);
    while (waiting > 0) {
        const offer o = heap_pop(heap, &waiting);
        const size_t right = s[o.place].next;
        if (s[o.place].joined || right == NOTHING || s[o.place].id != o.left || s[right].id != o.right) continue;
        s[o.place].id = o.result;
        s[o.place].next = s[right].next;
        s[right].joined = true;
        if (s[right].next != NOTHING) s[s[right].next].previous = o.place;
        propose(map, s, s[o.place].previous, heap, &waiting);
        propose(map, s, o.place, heap, &waiting);
    }
    size_t left = 0;
    for (size_t i = 0; i != NOTHING; i = s[i].next) ids[left++] = s[i].id;
    *count = left;
    free(s);
    free(heap);
    return true;
}
