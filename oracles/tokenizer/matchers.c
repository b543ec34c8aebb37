/* matchers.c - the expressions, written out by hand.
 *
 * Each function tries the alternatives of its expression in order and takes the first that matches, as the expression
 * does; what backtracking would come to is worked out where it matters: a line end inside white space, white space before
 * something else, an optional first character that the rest turns out to need. All of them are linear over a piece.
 */
#include "oracles/tokenizer/matchers.h"

#include "oracles/tokenizer/classes.h"

/* ---- members of classes ---- */

typedef bool (*member)(const characters *c, size_t i);

static bool within(const uint32_t (*ranges)[2], size_t count, uint32_t code) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ranges[middle][1] < code) low = middle + 1;
        else high = middle;
    }
    return low < count && ranges[low][0] <= code;
}
#define WITHIN(ranges, code) within(ranges, sizeof(ranges) / sizeof(ranges)[0], code)

uint8_t class_of(uint32_t code) {
    size_t low = 0, high = sizeof class_ranges / sizeof class_ranges[0];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (class_ranges[middle].last < code) low = middle + 1;
        else high = middle;
    }
    return low < sizeof class_ranges / sizeof class_ranges[0] && class_ranges[low].first <= code ? class_ranges[low].class : NONE;
}

/* \p{L}, \p{N}, \s, \p{P} */
static bool is_letter(const characters *c, size_t i) { return c->class[i] >= UPPER && c->class[i] <= OTHER_LETTER; }
static bool is_number(const characters *c, size_t i) { return c->class[i] == NUMBER; }
static bool is_space(const characters *c, size_t i) { return c->class[i] == SPACE; }
static bool is_punctuation(const characters *c, size_t i) { return c->class[i] == PUNCTUATION; }

static bool is_mark(const characters *c, size_t i) { return c->class[i] == MARK; }

/* [\r\n], [\r\n/] */
static bool is_line_end(const characters *c, size_t i) { return c->code[i] == '\r' || c->code[i] == '\n'; }
static bool is_line_end_or_slash(const characters *c, size_t i) { return is_line_end(c, i) || c->code[i] == '/'; }

/* [^\s\p{L}\p{N}], [^\s\p{L}\p{M}\p{N}] */
static bool is_other(const characters *c, size_t i) { return !is_space(c, i) && !is_letter(c, i) && !is_number(c, i); }
static bool is_other_but_mark(const characters *c, size_t i) { return is_other(c, i) && !is_mark(c, i); }

/* [\p{P}\p{S}], [\p{L}\p{M}] */
static bool is_sign(const characters *c, size_t i) { return is_punctuation(c, i) || c->class[i] == SYMBOL; }
static bool is_letter_or_mark(const characters *c, size_t i) { return is_letter(c, i) || is_mark(c, i); }

/* What may stand before a word: [^\r\n\p{L}\p{N}], [^\r\n\p{L}\p{P}\p{S}] */
static bool is_lead(const characters *c, size_t i) { return !is_line_end(c, i) && !is_letter(c, i) && !is_number(c, i); }
static bool is_unsigned_lead(const characters *c, size_t i) { return !is_line_end(c, i) && !is_letter(c, i) && !is_sign(c, i); }

/* [\p{Lm}\p{Lo}\p{M}], and with it: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
static bool is_caseless(const characters *c, size_t i) {
    return c->class[i] == MODIFIER || c->class[i] == OTHER_LETTER || c->class[i] == MARK;
}
static bool is_upper(const characters *c, size_t i) { return c->class[i] == UPPER || c->class[i] == TITLE || is_caseless(c, i); }
static bool is_lower(const characters *c, size_t i) { return c->class[i] == LOWER || is_caseless(c, i); }

/* [\p{Han}], and the two above without it */
static bool is_han(const characters *c, size_t i) { return WITHIN(han_ranges, c->code[i]); }
static bool is_upper_but_han(const characters *c, size_t i) { return is_upper(c, i) && !is_han(c, i); }
static bool is_lower_but_han(const characters *c, size_t i) { return is_lower(c, i) && !is_han(c, i); }

static bool is_numeric(const characters *c, size_t i) { return WITHIN(numeric_ranges, c->code[i]); }
static bool is_set_apart(const characters *c, size_t i) { return WITHIN(punctuation_ranges, c->code[i]); }

/* [A-Za-z], [0-9] */
static bool is_ascii_letter(const characters *c, size_t i) {
    return (c->code[i] >= 'A' && c->code[i] <= 'Z') || (c->code[i] >= 'a' && c->code[i] <= 'z');
}
static bool is_ascii_digit(const characters *c, size_t i) { return c->code[i] >= '0' && c->code[i] <= '9'; }

/* [一-龥぀-ゟ゠-ヿ], [一-龥ࠀ-一가-퟿] */
static bool is_han_or_kana(const characters *c, size_t i) {
    return (c->code[i] >= 0x4e00 && c->code[i] <= 0x9fa5) || (c->code[i] >= 0x3040 && c->code[i] <= 0x30ff);
}
static bool is_east_asian(const characters *c, size_t i) {
    return (c->code[i] >= 0x800 && c->code[i] <= 0x9fa5) || (c->code[i] >= 0xac00 && c->code[i] <= 0xd7ff);
}

/* The letters of deepseek-llm: Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee and a few more with case. */
static const uint32_t alphabet_ranges[][2] = {
    {0x41, 0x5a}, {0x61, 0x7a}, {0xb5, 0xb5}, {0xc0, 0xd6}, {0xd8, 0xf6}, {0xf8, 0x1ba}, {0x1bc, 0x1bf}, {0x1c4, 0x293},
    {0x295, 0x2af}, {0x370, 0x373}, {0x376, 0x376}, {0x377, 0x377}, {0x37b, 0x37d}, {0x37f, 0x37f}, {0x386, 0x386},
    {0x388, 0x38a}, {0x38c, 0x38c}, {0x38e, 0x3a1}, {0x3a3, 0x3f5}, {0x3f7, 0x481}, {0x48a, 0x52f}, {0x531, 0x556},
    {0x10a0, 0x10c5}, {0x13a0, 0x13f5}, {0x13f8, 0x13fd}, {0x1c90, 0x1cba}, {0x1cbd, 0x1cbf}, {0x1d00, 0x1d2b},
    {0x1d6b, 0x1d77}, {0x1d79, 0x1d9a}, {0x1e00, 0x1f15}, {0x1f18, 0x1f1d}, {0x1f20, 0x1f45}, {0x1f48, 0x1f4d},
    {0x1f50, 0x1f57}, {0x1f59, 0x1f59}, {0x1f5b, 0x1f5b}, {0x1f5d, 0x1f5d}, {0x1f5f, 0x1f7d}, {0x1f80, 0x1fb4},
    {0x1fb6, 0x1fbc}, {0x1fbe, 0x1fbe}, {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fcc}, {0x1fd0, 0x1fd3}, {0x1fd6, 0x1fdb},
    {0x1fe0, 0x1fec}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ffc}, {0x2102, 0x2102}, {0x2107, 0x2107}, {0x210a, 0x2113},
    {0x2115, 0x2115}, {0x2119, 0x211d}, {0x2124, 0x2124}, {0x2126, 0x2126}, {0x2128, 0x2128}, {0x212a, 0x212d},
    {0x212f, 0x2134}, {0x2139, 0x2139}, {0x213c, 0x213f}, {0x2145, 0x2149}, {0x214e, 0x214e}, {0x2183, 0x2183},
    {0x2184, 0x2184}, {0x2c00, 0x2c7b}, {0x2c7e, 0x2ce4}, {0x2ceb, 0x2cee}, {0x2cf2, 0x2cf2}, {0x2cf3, 0x2cf3},
    {0xa640, 0xa66d}, {0xa680, 0xa69b}, {0xa722, 0xa76f}, {0xa771, 0xa787}, {0xa78b, 0xa78e}, {0xab70, 0xabbf},
    {0xfb00, 0xfb06}, {0xfb13, 0xfb17}, {0xff21, 0xff3a}, {0xff41, 0xff5a}, {0x10400, 0x1044f}, {0x104b0, 0x104d3},
    {0x104d8, 0x104fb}, {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
};
static bool is_alphabet(const characters *c, size_t i) { return WITHIN(alphabet_ranges, c->code[i]); }

/* [!-/:-~！-／：-～‘-‟　-。] */
static bool is_ascii_or_wide(const characters *c, size_t i) {
    static const uint32_t ranges[][2] = {{0x21, 0x2f},     {0x3a, 0x7e},     {0x2018, 0x201f},
                                         {0x3000, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e}};
    return WITHIN(ranges, c->code[i]);
}

/* [^(\s|[.,!?…。，、।۔،])] */
static bool is_bloom(const characters *c, size_t i) {
    static const uint32_t ranges[][2] = {{'!', '!'},         {'(', ')'},       {',', ','},       {'.', '.'},
                                         {'?', '?'},         {'|', '|'},       {0x60c, 0x60c},   {0x6d4, 0x6d4},
                                         {0x964, 0x964},     {0x2026, 0x2026}, {0x3001, 0x3002}, {0xff0c, 0xff0c}};
    return !is_space(c, i) && !WITHIN(ranges, c->code[i]);
}

/* ---- parts that several expressions share: the end of the match, or i ---- */

/* X* */
static size_t run(const characters *c, size_t i, size_t end, member is) {
    while (i < end && is(c, i)) i++;
    return i;
}

/* X{0,most} */
static size_t run_of(const characters *c, size_t i, size_t end, member is, size_t most) {
    return run(c, i, end - i > most ? i + most : end, is);
}

/* 's|'t|'re|'ve|'m|'ll|'d, in small letters or in any. (?i:s) is also U+017F, the long s. */
static size_t contraction(const characters *c, size_t i, size_t end, bool any_case) {
    if (i >= end || end - i < 2 || c->code[i] != '\'') return i;
    uint32_t two[2];
    for (size_t k = 0; k < 2; k++) {
        uint32_t code = i + 1 + k < end ? c->code[i + 1 + k] : 0;
        if (any_case && code >= 'A' && code <= 'Z') code += 'a' - 'A';
        if (any_case && code == 0x17f) code = 's';
        two[k] = code;
    }
    if (two[0] == 's' || two[0] == 't' || two[0] == 'm' || two[0] == 'd') return i + 2;
    const bool long_one = (two[0] == 'r' && two[1] == 'e') || (two[0] == 'v' && two[1] == 'e') || (two[0] == 'l' && two[1] == 'l');
    return long_one ? i + 3 : i;
}

/* Y?X+: Y is given back if the rest needs it. */
static size_t after_lead(const characters *c, size_t i, size_t end, member lead, member is) {
    if (lead(c, i)) {
        const size_t stop = run(c, i + 1, end, is);
        if (stop > i + 1) return stop;
    }
    return run(c, i, end, is);
}

static bool is_blank(const characters *c, size_t i) { return c->code[i] == ' '; }

/* " ?X+Z*" */
static size_t signs_and_tail(const characters *c, size_t i, size_t end, member is, member tail) {
    const size_t stop = after_lead(c, i, end, is_blank, is);
    return stop > i ? run(c, stop, end, tail) : i;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+: as far as the last line end in the white space; without one, all of it, but for the last
 * character if something else follows and it is not the only one. */
static size_t white_space(const characters *c, size_t i, size_t end, bool line_ends) {
    const size_t stop = run(c, i, end, is_space);
    for (size_t k = stop; line_ends && k > i; k--)
        if (is_line_end(c, k - 1)) return k;
    return stop < end && stop - i > 1 ? stop - 1 : stop;
}

/* ---- gpt-2 and its like ---- */

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t match_gpt2(const characters *c, size_t i, size_t end) {
    size_t stop = contraction(c, i, end, false);
    if (stop == i) stop = after_lead(c, i, end, is_blank, is_letter);
    if (stop == i) stop = after_lead(c, i, end, is_blank, is_number);
    if (stop == i) stop = after_lead(c, i, end, is_blank, is_other);
    if (stop == i) stop = white_space(c, i, end, false);
    return stop;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?L+|\p{N}{1,most}| ?O+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t words(const characters *c, size_t i, size_t end, member letter, size_t most, member other) {
    size_t stop = contraction(c, i, end, true);
    if (stop == i) stop = after_lead(c, i, end, is_lead, letter);
    if (stop == i) stop = run_of(c, i, end, is_number, most);
    if (stop == i) stop = signs_and_tail(c, i, end, other, is_line_end);
    if (stop == i) stop = white_space(c, i, end, true);
    return stop;
}

/* L = \p{L}, most = 3, O = [^\s\p{L}\p{N}] */
size_t match_llama3(const characters *c, size_t i, size_t end) { return words(c, i, end, is_letter, 3, is_other); }

/* most = 1 */
size_t match_qwen2(const characters *c, size_t i, size_t end) { return words(c, i, end, is_letter, 1, is_other); }

/* L = [\p{L}\p{M}], most = 1, O = [^\s\p{L}\p{M}\p{N}] */
size_t match_qwen35(const characters *c, size_t i, size_t end) { return words(c, i, end, is_letter_or_mark, 1, is_other_but_mark); }

/* [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * The first class is all of ASCII's punctuation and symbols. */
size_t match_deepseek3(const characters *c, size_t i, size_t end) {
    size_t stop = i;
    if (c->code[i] < 0x80 && is_sign(c, i)) {
        stop = run(c, i + 1, end, is_ascii_letter);
        if (stop == i + 1) stop = i;
    }
    if (stop == i) stop = after_lead(c, i, end, is_unsigned_lead, is_letter_or_mark);
    if (stop == i) stop = signs_and_tail(c, i, end, is_sign, is_line_end);
    if (stop == i) stop = white_space(c, i, end, true);
    return stop;
}

/* ---- gpt-4o and its like: words that begin with capitals ---- */

/* U*W+ from `start` on, where some characters are of both classes: U* takes all it can, and gives back as far as to the
 * last that is of W if none of W follows. */
static size_t capitals_then_small(const characters *c, size_t start, size_t end, member upper, member lower) {
    const size_t turn = run(c, start, end, upper);
    if (turn < end && lower(c, turn)) return run(c, turn, end, lower);
    for (size_t k = turn; k > start; k--)
        if (lower(c, k - 1)) return k; /* what comes behind it is of U alone */
    return start;
}

/* [^\r\n\p{L}\p{N}]?U*W+C?|[^\r\n\p{L}\p{N}]?U+W*C? where C is (?i:'s|'t|'re|'ve|'m|'ll|'d) or nothing */
static size_t cased_word(const characters *c, size_t i, size_t end, member upper, member lower, bool contracted) {
    size_t stop = i;
    if (is_lead(c, i)) {
        stop = capitals_then_small(c, i + 1, end, upper, lower);
        if (stop == i + 1) stop = i;
    }
    if (stop == i) stop = capitals_then_small(c, i, end, upper, lower);
    if (stop == i && is_lead(c, i)) { /* the second alternative: no W follows U+, or the first would have matched */
        stop = run(c, i + 1, end, upper);
        if (stop == i + 1) stop = i;
    }
    if (stop == i) stop = run(c, i, end, upper);
    return stop > i && contracted ? contraction(c, stop, end, true) : stop;
}

/* cased word|\p{N}{1,most}| ?[^\s\p{L}\p{N}]+T*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t cased_words(const characters *c, size_t i, size_t end, member upper, member lower, bool contracted, size_t most, member tail) {
    size_t stop = cased_word(c, i, end, upper, lower, contracted);
    if (stop == i) stop = run_of(c, i, end, is_number, most);
    if (stop == i) stop = signs_and_tail(c, i, end, is_other, tail);
    if (stop == i) stop = white_space(c, i, end, true);
    return stop;
}

/* U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], W = [\p{Ll}\p{Lm}\p{Lo}\p{M}], contractions, most = 3, T = [\r\n/] */
size_t match_gpt4o(const characters *c, size_t i, size_t end) {
    return cased_words(c, i, end, is_upper, is_lower, true, 3, is_line_end_or_slash);
}

/* without contractions, most = 1 */
size_t match_tekken(const characters *c, size_t i, size_t end) {
    return cased_words(c, i, end, is_upper, is_lower, false, 1, is_line_end_or_slash);
}

/* [\p{Han}]+, then as gpt-4o, but with U and W without Han, and T = [\r\n] */
size_t match_kimi(const characters *c, size_t i, size_t end) {
    const size_t stop = run(c, i, end, is_han);
    return stop > i ? stop : cased_words(c, i, end, is_upper_but_han, is_lower_but_han, true, 3, is_line_end);
}

/* ---- single classes ---- */

/* " ?X+" */
size_t match_bloom(const characters *c, size_t i, size_t end) { return after_lead(c, i, end, is_blank, is_bloom); }

size_t match_numeric(const characters *c, size_t i, size_t end) { return run_of(c, i, end, is_numeric, 1); }
size_t match_numeric_run(const characters *c, size_t i, size_t end) { return run(c, i, end, is_numeric); }
size_t match_punctuation_run(const characters *c, size_t i, size_t end) { return run(c, i, end, is_set_apart); }
size_t match_han_or_kana(const characters *c, size_t i, size_t end) { return run(c, i, end, is_han_or_kana); }
size_t match_east_asian(const characters *c, size_t i, size_t end) { return run(c, i, end, is_east_asian); }

/* \p{N}{1,3} */
size_t match_three_numbers(const characters *c, size_t i, size_t end) { return run_of(c, i, end, is_number, 3); }

/* [0-9][0-9][0-9] */
size_t match_three_digits(const characters *c, size_t i, size_t end) {
    const size_t stop = run_of(c, i, end, is_ascii_digit, 3);
    return stop - i == 3 ? stop : i;
}

/* [\r\n] */
size_t match_line_end(const characters *c, size_t i, size_t end) { return run_of(c, i, end, is_line_end, 1); }

/* \s+$: if it failed at the character before, it fails here, and is not tried again. */
size_t match_white_end(const characters *c, size_t i, size_t end) {
    if (!c->first[i] && is_space(c, i - 1)) return i;
    return run(c, i, end, is_space) == end ? end : i;
}

/* \s?X+ */
size_t match_spaced_letters(const characters *c, size_t i, size_t end) { return after_lead(c, i, end, is_space, is_letter); }
size_t match_spaced_punctuation(const characters *c, size_t i, size_t end) { return after_lead(c, i, end, is_space, is_punctuation); }
size_t match_spaced_alphabet(const characters *c, size_t i, size_t end) { return after_lead(c, i, end, is_space, is_alphabet); }
size_t match_spaced_ascii(const characters *c, size_t i, size_t end) { return after_lead(c, i, end, is_space, is_ascii_or_wide); }
