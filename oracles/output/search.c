#include "oracles/output/search.h"

#include <string.h>

bool is_prefix(bytes text, const char *of) { return text.length <= strlen(of) && memcmp(text.data, of, text.length) == 0; }

static bool is_proper_prefix_of_any(bytes text, const char *const *markers) {
    for (; *markers != NULL; markers++)
        if (text.length < strlen(*markers) && is_prefix(text, *markers)) return true;
    return false;
}

size_t longest_prefix(bytes text, const char *const *markers) {
    while (text.length > 0 && !is_proper_prefix_of_any(text, markers)) text = (bytes){text.data + 1, text.length - 1};
    return text.length;
}

static bool ends_with(bytes text, const char *marker, size_t length) {
    return text.length >= length && memcmp(text.data + text.length - length, marker, length) == 0;
}

/* What was held and the new byte are enough to look at: no marker, and no beginning of one, reaches further back. */
int search_take(search *s, const uint8_t *end, bytes *shown) {
    const bytes text = {end - s->held - 1, s->held + 1};
    int met = -1;
    size_t longest = 0;
    *shown = text;
    if (s->markers == NULL) return -1;
    for (int i = 0; s->markers[i] != NULL; i++) {
        const size_t length = strlen(s->markers[i]);
        if (length <= longest || !ends_with(text, s->markers[i], length)) continue;
        met = i;
        longest = length;
    }
    s->held = met < 0 ? longest_prefix(text, s->markers) : 0;
    shown->length -= met < 0 ? s->held : longest;
    return met;
}
