/* block.c - a block of tool calls, byte by byte: tags, their heads, and the values of parameters. */
#include <string.h>

#include "oracles/common/json.h"
#include "oracles/output/answer.h"

static const char *const open_tags[][SPELLINGS] = {
    [CALLS] = {"<｜DSML｜invoke", "<DSML｜invoke", "<invoke"},
    [CALL] = {"<｜DSML｜parameter", "<DSML｜parameter", "<parameter"},
    [OBJECT] = {"<｜DSML｜parameter", "<DSML｜parameter", "<parameter"},
};

const char *const close_tags[][SPELLINGS] = {
    [CALLS] = {"</｜DSML｜tool_calls>", "</DSML｜tool_calls>", "</tool_calls>"},
    [CALL] = {"</｜DSML｜invoke>", "</DSML｜invoke>", "</invoke>"},
    [OBJECT] = {"</｜DSML｜parameter>", "</DSML｜parameter>", "</parameter>"},
};

/* What an entity stands for has the entity's place in the list of markers. */
static const char *const marked[] = {"</｜DSML｜parameter>", "</DSML｜parameter>", "&lt;/｜DSML｜parameter>", NULL};
static const char *const marked_means[] = {NULL, NULL, "</｜DSML｜parameter>"};
static const char *const bare[] = {"</parameter>", "&lt;", "&gt;", "&amp;", "&quot;", "&apos;", NULL};
static const char *const bare_means[] = {NULL, "<", ">", "&", "\"", "'"};
static const char *const marked_close[] = {"</｜DSML｜parameter>", "</DSML｜parameter>", NULL};
static const char *const bare_close[] = {"</parameter>", NULL};

const char *const *value_markers(spelling of, bool string) {
    if (of == BARE) return string ? bare : bare_close;
    return string ? marked : marked_close;
}

size_t value_closers(spelling of) { return of == BARE ? 1 : 2; }

bool is_space(uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static bytes stretch(const answer *a, size_t from, size_t to) { return (bytes){a->text + from, to - from}; }

level block_level(const block *b) { return b->objects > 0 ? OBJECT : b->call_open ? CALL : CALLS; }

static uint64_t call_index(const answer *a) { return a->block.calls - 1; }

static void show(answer *a, const char *arguments) { event_arguments(&a->events, call_index(a), arguments); }

void block_free(answer *a) {
    for (size_t i = 0; i <= OBJECTS_MOST; i++) names_free(&a->block.frames[i].members);
}

void block_begin(answer *a, size_t begin, spelling opener) {
    a->mode = IN_BLOCK;
    a->block = (block){.begin = begin, .opener = opener, .place = BETWEEN};
}

/* The block's text ends at `end`, and content begins there. */
static void fault(answer *a, size_t end) {
    block_free(a);
    event_text(&a->events, "void", stretch(a, a->block.begin, end));
    a->at = end;
    enter_content(a);
}

/* ---- tags ---- */

static void close_level(answer *a) {
    block *b = &a->block;
    b->place = BETWEEN;
    switch (block_level(b)) {
    case CALLS:
        if (b->calls == 0) {
            fault(a, a->at);
            return;
        }
        event_text(&a->events, "block", stretch(a, b->begin, a->at));
        a->mode = IN_DONE;
        return;
    case CALL:
        show(a, b->frames[0].begun ? "}" : "{}");
        event_end(&a->events, call_index(a));
        names_free(&b->frames[0].members);
        b->call_open = false;
        return;
    case OBJECT:
        show(a, "}");
        names_free(&b->frames[b->objects].members);
        b->objects--;
        return;
    }
}

static void begin_head(answer *a, bool invoke, spelling spelling) {
    a->block.place = HEAD;
    a->block.head = BEHIND_NAME;
    a->block.start = a->at;
    a->block.invoke = invoke;
    a->block.spelling = spelling;
}

static void step_between(answer *a) {
    const uint8_t c = a->text[a->at];
    if (c == '<') {
        a->block.place = TAG;
        a->block.start = a->at++;
    } else if (is_space(c)) {
        a->at++;
    } else {
        fault(a, a->at); /* F1 */
    }
}

static void step_tag(answer *a) {
    const level level = block_level(&a->block);
    const bytes tag = stretch(a, a->block.start, ++a->at);
    bool possible = false;
    for (spelling s = FULL; s < SPELLINGS; s++) {
        const bool opens = is_prefix(tag, open_tags[level][s]), closes = is_prefix(tag, close_tags[level][s]);
        possible = possible || opens || closes;
        if (opens && open_tags[level][s][tag.length] == 0) {
            begin_head(a, level == CALLS, s);
            return;
        }
        if (closes && close_tags[level][s][tag.length] == 0) {
            close_level(a);
            return;
        }
    }
    if (!possible) fault(a, a->block.start); /* F2 */
}

/* ---- heads ---- */

/* False: F3. `complete`: this was the head's '>'. */
static bool head_take(head_state *state, uint8_t c, bool *complete) {
    const bool reserved = c == '=' || c == '"' || c == '<' || c == '/';
    *complete = false;
    switch (*state) {
    case BEHIND_NAME:
    case BEFORE_ATTRIBUTE:
        *complete = c == '>';
        if (*complete) return true;
        if (!is_space(c) && (reserved || *state == BEHIND_NAME)) return false;
        *state = is_space(c) ? BEFORE_ATTRIBUTE : ATTRIBUTE_NAME;
        return true;
    case ATTRIBUTE_NAME:
        if (c == '=') *state = BEHIND_EQUALS;
        else if (reserved || c == '>' || is_space(c)) return false;
        return true;
    case BEHIND_EQUALS:
        *state = ATTRIBUTE_VALUE;
        return c == '"';
    case ATTRIBUTE_VALUE:
        if (c == '"') *state = BEHIND_NAME;
        return true;
    }
    return false;
}

/* Entities become what they stand for, in the answer's room: no byte is in two heads, so it is large enough. */
static bytes decode(answer *a, bytes value) {
    uint8_t *const begin = a->room + a->room_used, *out = begin;
    for (size_t at = 0; at < value.length;) {
        const char *met = NULL, *means = NULL;
        for (size_t i = 1; bare[i] != NULL && met == NULL; i++) {
            const size_t n = strlen(bare[i]);
            if (value.length - at < n || memcmp(value.data + at, bare[i], n) != 0) continue;
            met = bare[i];
            means = bare_means[i];
        }
        *out++ = met != NULL ? (uint8_t)*means : value.data[at];
        at += met != NULL ? strlen(met) : 1;
    }
    const bytes decoded = {begin, (size_t)(out - begin)};
    a->room_used += decoded.length;
    return decoded;
}

typedef struct attributes {
    bytes name, string;
    bool has_name, has_string;
} attributes;

/* Of a head that the machine above let through. False: an attribute is given twice, or no memory. */
static bool read_attributes(answer *a, bytes head, attributes *found) {
    names seen = {0};
    bool good = true;
    *found = (attributes){0};
    for (const uint8_t *at = head.data, *end = at + head.length; good;) {
        while (at < end && is_space(*at)) at++;
        if (at == end) break;
        const uint8_t *equals = memchr(at, '=', (size_t)(end - at));
        const uint8_t *begin = equals + 2, *quote = memchr(begin, '"', (size_t)(end - begin));
        const bytes name = {at, (size_t)(equals - at)}, value = {begin, (size_t)(quote - begin)};
        at = quote + 1;
        const name_outcome outcome = names_add(&seen, name, 0);
        a->failed = a->failed || outcome == NAME_NO_MEMORY;
        good = outcome == NAME_NEW;
        if (word_is(name, "name")) {
            found->has_name = true;
            found->name = decode(a, value);
        } else if (word_is(name, "string")) {
            found->has_string = true;
            found->string = decode(a, value);
        }
    }
    names_free(&seen);
    return good;
}

static void begin_call(answer *a, bytes name) {
    block *b = &a->block;
    b->call_open = true;
    b->frames[0] = (frame){0};
    b->place = BETWEEN;
    event_call(&a->events, b->calls++, name);
}

static void begin_string(answer *a) {
    a->block.place = STRING;
    a->block.search = (search){value_markers(a->block.spelling, true), 0};
    show(a, "\"");
}

/* False: the name is there already, or no memory. */
static bool begin_member(answer *a, bytes name) {
    block *b = &a->block;
    frame *f = &b->frames[b->objects];
    const name_outcome outcome = names_add(&f->members, name, 0);
    a->failed = a->failed || outcome == NAME_NO_MEMORY;
    if (outcome != NAME_NEW) return false;
    if (f->begun) show(a, ", ");
    else if (b->objects == 0) show(a, "{");
    f->begun = true;
    show(a, "\"");
    event_quoted(&a->events, call_index(a), name);
    show(a, "\": ");
    return true;
}

/* False: F4. */
static bool begin_parameter(answer *a, const attributes *given) {
    block *b = &a->block;
    const bool string = given->has_string && word_is(given->string, "true");
    const bool json = given->has_string && word_is(given->string, "false");
    if ((given->has_string && !string && !json) || !begin_member(a, given->name)) return false;
    if (string) {
        begin_string(a);
    } else if (json) {
        b->place = JSON;
        b->json_begun = false;
        b->search = (search){value_markers(b->spelling, false), 0};
    } else {
        b->place = UNDECIDED;
        b->start = a->at;
    }
    return true;
}

static void step_head(answer *a) {
    block *b = &a->block;
    attributes given;
    bool complete;
    if (!head_take(&b->head, a->text[a->at], &complete)) {
        fault(a, a->at); /* F3 */
        return;
    }
    a->at++;
    if (!complete) return;
    bool good = read_attributes(a, stretch(a, b->start, a->at - 1), &given) && given.has_name;
    if (good && b->invoke) {
        good = given.name.length > 0;
        if (good) begin_call(a, given.name);
    } else if (good) {
        good = begin_parameter(a, &given);
    }
    if (!good && !a->failed) fault(a, a->at); /* F4 */
}

/* ---- values ---- */

static void begin_object(answer *a, spelling spelling) {
    block *b = &a->block;
    if (b->objects == OBJECTS_MOST) {
        fault(a, a->at); /* F4 */
        return;
    }
    show(a, "{");
    b->frames[++b->objects] = (frame){0};
    begin_head(a, false, spelling);
}

/* What came since `start` is white space, and behind that perhaps the beginning of a parameter's tag, which has none. */
static void step_undecided(answer *a) {
    block *b = &a->block;
    size_t tag = a->at;
    while (tag > b->start && !is_space(a->text[tag - 1])) tag--;
    if (tag == a->at && is_space(a->text[a->at])) {
        a->at++;
        return;
    }
    const bytes begun = stretch(a, tag, a->at + 1);
    for (spelling s = FULL; s < SPELLINGS; s++) {
        if ((s == BARE) != (b->spelling == BARE) || !is_prefix(begun, open_tags[OBJECT][s])) continue;
        a->at++;
        if (open_tags[OBJECT][s][begun.length] == 0) begin_object(a, s);
        return;
    }
    a->at = b->start; /* from there on it is a string */
    begin_string(a);
}

static void step_string(answer *a) {
    block *b = &a->block;
    bytes shown;
    const int met = search_take(&b->search, a->text + ++a->at, &shown);
    event_quoted(&a->events, call_index(a), shown);
    if (met < 0) return;
    if ((size_t)met < value_closers(b->spelling)) {
        show(a, "\"");
        b->place = BETWEEN;
        return;
    }
    const char *means = (b->spelling == BARE ? bare_means : marked_means)[met];
    event_quoted(&a->events, call_index(a), (bytes){(const uint8_t *)means, strlen(means)});
}

/* White space waits until something else follows. */
static void show_json(answer *a, bytes text) {
    block *b = &a->block;
    for (size_t i = 0; i < text.length; i++) {
        if (is_space(text.data[i])) continue;
        const size_t at = (size_t)(text.data + i - a->text);
        if (!b->json_begun) b->json_first = b->json_end = at;
        b->json_begun = true;
        event_raw(&a->events, call_index(a), stretch(a, b->json_end, at + 1));
        b->json_end = at + 1;
    }
}

static void step_json(answer *a) {
    block *b = &a->block;
    bytes shown;
    const int met = search_take(&b->search, a->text + ++a->at, &shown);
    show_json(a, shown);
    if (met < 0) return;
    b->place = BETWEEN;
    if (!b->json_begun) {
        show(a, "null");
        return;
    }
    json value;
    const json_outcome outcome = json_read(stretch(a, b->json_first, b->json_end), JSON_STRICT, &value);
    json_free(&value);
    if (outcome == JSON_NO_MEMORY) a->failed = true;
    if (outcome == JSON_NOT) fault(a, a->at); /* F5 */
}

void block_step(answer *a) {
    switch (a->block.place) {
    case BETWEEN: step_between(a); break;
    case TAG: step_tag(a); break;
    case HEAD: step_head(a); break;
    case UNDECIDED: step_undecided(a); break;
    case STRING: step_string(a); break;
    case JSON: step_json(a); break;
    }
}
