/* search.h - markers in a text that comes in byte by byte.
 *
 * A text is UTF-8, cut only between characters, and so are the markers: where a marker or its beginning is found among the
 * bytes, it is one among the characters.
 */
#ifndef DS4_ORACLE_SEARCH_H
#define DS4_ORACLE_SEARCH_H

#include "oracles/common/tape.h"

typedef struct search {
    const char *const *markers; /* NULL-terminated; NULL: there are none */
    size_t held; /* the length of the longest end of what came in that is a proper prefix of a marker */
} search;

bool is_prefix(bytes text, const char *of);

/* How much of the text's end is held: its longest end that is a proper prefix of one of the markers. */
size_t longest_prefix(bytes text, const char *const *markers);

/* The byte in front of `end` comes in. Gives the number of the marker that it completes, and begins anew; -1 if there is
 * none. `shown` is what no longer needs to be held, or stood in front of the marker. */
int search_take(search *s, const uint8_t *end, bytes *shown);

#endif
