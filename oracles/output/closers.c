/* closers.c - what would complete a block that was never finished. */
#include <string.h>

#include "oracles/common/json.h"
#include "oracles/output/answer.h"

static void add(buffer *out, const char *part) {
    if (out->length > 0) buffer_text(out, "\n");
    buffer_text(out, part);
}

/* The rest of the first of these tags, `preferred` before all, that begins with what there is; false: of none. */
static bool add_rest(buffer *out, bytes begun, const char *const *tags, size_t count, size_t preferred) {
    size_t found = preferred;
    for (size_t i = 0; i < count && !is_prefix(begun, tags[found]); i++) found = i;
    if (!is_prefix(begun, tags[found])) return false;
    add(out, tags[found] + begun.length);
    return true;
}

/* A close tag may end the value now: it would be JSON, or it is no JSON text. */
static bool may_end(answer *a) {
    const block *b = &a->block;
    json value;
    if (b->place != JSON || !b->json_begun) return true;
    const json_outcome outcome = json_read((bytes){a->text + b->json_first, b->json_end - b->json_first}, JSON_STRICT, &value);
    json_free(&value);
    a->failed = a->failed || outcome == JSON_NO_MEMORY;
    return outcome == JSON_READ;
}

/* The end of the value, for which only the beginning of a close tag counts of what is held. */
static bool close_value(answer *a, buffer *out) {
    const block *b = &a->block;
    const char *const *tags = value_markers(b->spelling, false);
    const size_t preferred = b->spelling == HALF ? 1 : 0;
    size_t held = b->search.held;
    if (b->place == UNDECIDED) held = longest_prefix((bytes){a->text + b->start, a->at - b->start}, tags);
    if (!may_end(a)) return false;
    if (held > 0 && add_rest(out, (bytes){a->text + a->at - held, held}, tags, value_closers(b->spelling), preferred)) return true;
    add(out, tags[preferred]);
    return true;
}

bool block_closers(answer *a, buffer *out) {
    const block *b = &a->block;
    size_t objects = b->objects;
    bool call_open = b->call_open, block_open = true;
    if (b->place == HEAD || b->calls == 0) return false;
    if (b->place == TAG) {
        const level level = block_level(b);
        if (!add_rest(out, (bytes){a->text + b->start, a->at - b->start}, close_tags[level], SPELLINGS, b->opener)) return false;
        if (level == OBJECT) objects--;
        else if (level == CALL) call_open = false;
        else block_open = false;
    } else if (b->place != BETWEEN && !close_value(a, out)) {
        return false;
    }
    while (objects-- > 0) add(out, close_tags[OBJECT][b->opener]);
    if (call_open) add(out, close_tags[CALL][b->opener]);
    if (block_open) add(out, close_tags[CALLS][b->opener]);
    return true;
}
