/* names.h - a map from byte strings to numbers. The strings are somebody else's and must outlive the map. */
#ifndef DS4_ORACLE_NAMES_H
#define DS4_ORACLE_NAMES_H

#include "oracles/common/tape.h"

typedef struct names {
    struct name_cell {
        bytes name;
        uint64_t value;
        bool used;
    } *cells;
    size_t capacity, used; /* a power of two, or 0 of an empty map */
} names; /* {0} is empty */

typedef enum { NAME_NEW, NAME_THERE, NAME_NO_MEMORY } name_outcome;

name_outcome names_add(names *map, bytes name, uint64_t value); /* a name that is there keeps its value */
bool names_get(const names *map, bytes name, uint64_t *value);
void names_free(names *map);

#endif
