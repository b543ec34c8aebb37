/* split.c - matchers, one a regular expression, written out by hand.
 *
 * Each tries its alternatives in order and takes the first that matches, as the expression does; what backtracking would
 * find is worked out where it matters (white space before something else, a line end inside white space). All are linear.
 */
#include "oracles/tokenizer/split.h"

#include <stdlib.h>
#include <string.h>

#include "oracles/tokenizer/tables.h"

/* ---- characters ---- */

static uint8_t class_of(uint32_t code) {
    size_t low = 0, high = sizeof class_ranges / sizeof class_ranges[0];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (class_ranges[middle].last < code) low = middle + 1;
        else high = middle;
    }
    return low < sizeof class_ranges / sizeof class_ranges[0] && class_ranges[low].first <= code ? class_ranges[low].class : NONE;
}

size_t utf8_next(const uint8_t *data, size_t left, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (left == 0) return 0;
    const uint8_t lead = data[0];
    const size_t n = lead < 0x80 ? 1 : lead >= 0xc0 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf8 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    uint32_t c = n == 1 ? lead : (uint32_t)(lead & (0x7f >> n));
    for (size_t i = 1; i < n; i++) {
        if ((data[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (data[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *code = c;
    return n;
}

bool characters_read(characters *c, bytes text, bool *memory) {
    *c = (characters){0};
    *memory = text.length < SIZE_MAX / 16;
    if (!*memory) return false;
    c->code = malloc((text.length + 1) * sizeof *c->code);
    c->class = malloc(text.length + 1);
    c->at = malloc((text.length + 1) * sizeof *c->at);
    c->first = calloc(text.length + 1, sizeof *c->first);
    *memory = c->code != NULL && c->class != NULL && c->at != NULL && c->first != NULL;
    size_t at = 0;
    while (*memory && at < text.length) {
        const size_t n = utf8_next(text.data + at, text.length - at, &c->code[c->count]);
        if (n == 0) break;
        c->class[c->count] = class_of(c->code[c->count]);
        c->at[c->count++] = at;
        at += n;
    }
    if (!*memory || at < text.length) {
        characters_free(c);
        return false;
    }
    c->at[c->count] = text.length;
    c->first[0] = c->first[c->count] = true;
    return true;
}

void characters_free(characters *c) {
    free(c->code);
    free(c->class);
    free(c->at);
    free(c->first);
    *c = (characters){0};
}

/* ---- classes ---- */

static bool is_letter(const characters *c, size_t i) { return c->class[i] >= UPPER && c->class[i] <= OTHER_LETTER; }
static bool is_number(const characters *c, size_t i) { return c->class[i] == DIGIT || c->class[i] == OTHER_NUMBER; }
static bool is_space(const characters *c, size_t i) { return c->class[i] == SPACE; }
static bool is_line_end(const characters *c, size_t i) { return c->code[i] == '\r' || c->code[i] == '\n'; }

/* [^\s\p{L}\p{N}] */
static bool is_other(const characters *c, size_t i) { return !is_space(c, i) && !is_letter(c, i) && !is_number(c, i); }

/* [\p{P}\p{S}] */
static bool is_mark_or_sign(const characters *c, size_t i) { return c->class[i] == PUNCTUATION || c->class[i] == SYMBOL; }

static bool is_letter_or_mark(const characters *c, size_t i) { return is_letter(c, i) || c->class[i] == MARK; }

typedef bool (*member)(const characters *c, size_t i);

/* The end of the stretch of members from i on. */
static size_t run(const characters *c, size_t i, size_t end, member is) {
    while (i < end && is(c, i)) i++;
    return i;
}

/* ---- alternatives that several expressions share: the end of the match, or i ---- */

/* 's|'t|'re|'ve|'m|'ll|'d, in small letters or in any. (?i:s) is also U+017F, the long s. */
static size_t contraction(const characters *c, size_t i, size_t end, bool any_case) {
    if (end - i < 2 || c->code[i] != '\'') return i;
    uint32_t two[2];
    for (size_t k = 0; k < 2; k++) {
        uint32_t code = i + 1 + k < end ? c->code[i + 1 + k] : 0;
        if (any_case && code >= 'A' && code <= 'Z') code += 'a' - 'A';
        if (any_case && code == 0x17f) code = 's';
        two[k] = code;
    }
    if (two[0] == 's' || two[0] == 't' || two[0] == 'm' || two[0] == 'd') return i + 2;
    if ((two[0] == 'r' && two[1] == 'e') || (two[0] == 'v' && two[1] == 'e') || (two[0] == 'l' && two[1] == 'l')) return i + 3;
    return i;
}

/* " ?X+" */
static size_t after_space(const characters *c, size_t i, size_t end, member is) {
    const size_t start = c->code[i] == ' ' ? i + 1 : i;
    const size_t stop = run(c, start, end, is);
    return stop > start ? stop : i;
}

/* \s*[\r\n]+: white space as far as its last line end. */
static size_t through_line_end(const characters *c, size_t i, size_t end) {
    size_t stop = i;
    for (size_t k = i; k < end && is_space(c, k); k++)
        if (is_line_end(c, k)) stop = k + 1;
    return stop;
}

/* \s+(?!\S)|\s+: white space, but for its last character if something else follows and it is not the only one. */
static size_t white_space(const characters *c, size_t i, size_t end) {
    const size_t stop = run(c, i, end, is_space);
    return stop < end && stop - i > 1 ? stop - 1 : stop;
}

/* [^\r\n\p{L}\p{N}]?\p{L}+ */
static size_t word_after_anything(const characters *c, size_t i, size_t end) {
    const bool lead = !is_line_end(c, i) && !is_letter(c, i) && !is_number(c, i);
    const size_t start = lead ? i + 1 : i;
    const size_t stop = run(c, start, end, is_letter);
    return stop > start ? stop : i;
}

/* " ?[^\s\p{L}\p{N}]+[\r\n]*" */
static size_t others_and_line_ends(const characters *c, size_t i, size_t end) {
    const size_t stop = after_space(c, i, end, is_other);
    return stop > i ? run(c, stop, end, is_line_end) : i;
}

/* \p{N}{1,most} */
static size_t numbers(const characters *c, size_t i, size_t end, size_t most) {
    return run(c, i, end - i > most ? i + most : end, is_number);
}

/* ---- the expressions ---- */

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t gpt2(const characters *c, size_t i, size_t end) {
    size_t stop = contraction(c, i, end, false);
    if (stop == i) stop = after_space(c, i, end, is_letter);
    if (stop == i) stop = after_space(c, i, end, is_number);
    if (stop == i) stop = after_space(c, i, end, is_other);
    if (stop == i) stop = white_space(c, i, end);
    return stop;
}

/* \p{N} */
static size_t one_number(const characters *c, size_t i, size_t end) { return numbers(c, i, end, 1); }

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,most}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t words(const characters *c, size_t i, size_t end, size_t most) {
    size_t stop = contraction(c, i, end, true);
    if (stop == i) stop = word_after_anything(c, i, end);
    if (stop == i) stop = numbers(c, i, end, most);
    if (stop == i) stop = others_and_line_ends(c, i, end);
    if (stop == i) stop = through_line_end(c, i, end);
    if (stop == i) stop = white_space(c, i, end);
    return stop;
}

static size_t llama3(const characters *c, size_t i, size_t end) { return words(c, i, end, 3); }
static size_t qwen2(const characters *c, size_t i, size_t end) { return words(c, i, end, 1); }

/* \p{N}{1,3} */
static size_t three_numbers(const characters *c, size_t i, size_t end) { return numbers(c, i, end, 3); }

/* [一-龥぀-ゟ゠-ヿ]+ */
static bool is_han_or_kana(const characters *c, size_t i) {
    return (c->code[i] >= 0x4e00 && c->code[i] <= 0x9fa5) || (c->code[i] >= 0x3040 && c->code[i] <= 0x30ff);
}

static size_t han_or_kana(const characters *c, size_t i, size_t end) { return run(c, i, end, is_han_or_kana); }

static bool is_ascii_letter(const characters *c, size_t i) {
    return (c->code[i] >= 'A' && c->code[i] <= 'Z') || (c->code[i] >= 'a' && c->code[i] <= 'z');
}

/* [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t deepseek3(const characters *c, size_t i, size_t end) {
    size_t stop = i;
    if (c->code[i] < 0x80 && is_mark_or_sign(c, i)) { /* those are the 32 of ASCII */
        stop = run(c, i + 1, end, is_ascii_letter);
        if (stop == i + 1) stop = i;
    }
    if (stop == i) {
        const bool lead = !is_line_end(c, i) && !is_letter(c, i) && !is_mark_or_sign(c, i);
        size_t start = lead ? i + 1 : i;
        stop = run(c, start, end, is_letter_or_mark);
        if (stop == start && lead) { /* a mark that was taken for the lead may be the word itself */
            start = i;
            stop = run(c, start, end, is_letter_or_mark);
        }
        if (stop == start) stop = i;
    }
    if (stop == i) {
        stop = after_space(c, i, end, is_mark_or_sign);
        if (stop > i) stop = run(c, stop, end, is_line_end);
    }
    if (stop == i) stop = through_line_end(c, i, end);
    if (stop == i) stop = white_space(c, i, end);
    return stop;
}

static const pretokenizer known[] = {
    {"gpt-2", {gpt2}},
    {"smollm", {one_number, gpt2}},
    {"llama-bpe", {llama3}},
    {"qwen2", {qwen2}},
    {"deepseek-v3", {three_numbers, han_or_kana, deepseek3}},
};

const pretokenizer *pretokenizer_named(bytes name) {
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        if (name.length == strlen(known[k].name) && memcmp(name.data, known[k].name, name.length) == 0) return &known[k];
    return NULL;
}

void split(const pretokenizer *p, characters *c) {
    for (size_t stage = 0; p->stages[stage] != NULL; stage++) {
        for (size_t begin = 0, end; begin < c->count; begin = end) {
            end = begin + 1;
            while (!c->first[end]) end++;
            for (size_t i = begin, stop; i < end; i = stop) {
                stop = p->stages[stage](c, i, end);
                if (stop == i) {
                    stop = i + 1;
                } else {
                    c->first[i] = true;
                    c->first[stop] = true;
                }
            }
        }
    }
}
