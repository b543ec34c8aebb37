/* names.c - open addressing, never more than half full. */
#include "oracles/common/names.h"

#include <stdlib.h>
#include <string.h>

static bool same(bytes a, bytes b) { return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0); }

static struct name_cell *place(struct name_cell *cells, size_t capacity, bytes name) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < name.length; i++) h = (h ^ name.data[i]) * 0x100000001b3u;
    size_t i = (size_t)(h ^ (h >> 29)) & (capacity - 1);
    while (cells[i].used && !same(cells[i].name, name)) i = (i + 1) & (capacity - 1);
    return &cells[i];
}

static bool grow(names *map) {
    const size_t capacity = map->capacity == 0 ? 16 : 2 * map->capacity;
    struct name_cell *cells = capacity > map->capacity ? calloc(capacity, sizeof *cells) : NULL;
    if (cells == NULL) return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->cells[i].used) *place(cells, capacity, map->cells[i].name) = map->cells[i];
    free(map->cells);
    map->cells = cells;
    map->capacity = capacity;
    return true;
}

name_outcome names_add(names *map, bytes name, uint64_t value) {
    if (map->used >= map->capacity / 2 && !grow(map)) return NAME_NO_MEMORY;
    struct name_cell *cell = place(map->cells, map->capacity, name);
    if (cell->used) return NAME_THERE;
    *cell = (struct name_cell){name, value, true};
    map->used++;
    return NAME_NEW;
}

bool names_get(const names *map, bytes name, uint64_t *value) {
    if (map->capacity == 0) return false;
    const struct name_cell *cell = place(map->cells, map->capacity, name);
    if (cell->used) *value = cell->value;
    return cell->used;
}

void names_free(names *map) {
    free(map->cells);
    *map = (names){0};
}
