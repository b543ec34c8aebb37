/* vocabulary.c - reading the setup tape.
 *
 *   pre <name> / bos <id> <add> / token <text> <type> ... / merge <left> <right> ...
 */
#include "oracles/tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/common/utf8.h"
#include "oracles/tokenizer/standin.h"

/* ---- texts to look for ---- */

static int compare(bytes a, bytes b) {
    const size_t common = a.length < b.length ? a.length : b.length;
    const int order = common > 0 ? memcmp(a.data, b.data, common) : 0;
    return order != 0 ? order : a.length < b.length ? -1 : a.length > b.length;
}

/* By text, and of one text the highest id first. */
static int by_text(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    const int order = compare(a->text, b->text);
    return order != 0 ? order : a->id > b->id ? -1 : a->id < b->id;
}

static void lexicon_sort(lexicon *l) {
    if (l->count < 2) return;
    qsort(l->entries, l->count, sizeof *l->entries, by_text);
    size_t kept = 1;
    for (size_t i = 1; i < l->count; i++)
        if (compare(l->entries[i].text, l->entries[kept - 1].text) != 0) l->entries[kept++] = l->entries[i];
    l->count = kept;
}

/* The first entry of low..high whose byte at `depth` is at least (or, if `above`, more than) `byte`. */
static size_t bound(const lexicon *l, size_t low, size_t high, size_t depth, uint8_t byte, bool above) {
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const uint8_t its = l->entries[middle].text.data[depth];
        if (its < byte || (above && its == byte)) low = middle + 1;
        else high = middle;
    }
    return low;
}

size_t lexicon_match(const lexicon *l, const uint8_t *data, size_t left, uint32_t *id) {
    size_t low = 0, high = l->count, longest = 0; /* entries low..high begin with data[0..depth] */
    for (size_t depth = 0; low < high; depth++) {
        if (l->entries[low].text.length == depth) {
            longest = depth;
            *id = l->entries[low++].id;
        }
        if (depth == left) break;
        const uint8_t byte = data[depth];
        low = bound(l, low, high, depth, byte, false);
        high = bound(l, low, high, depth, byte, true);
    }
    return longest;
}

/* ---- tokens ---- */

/* The vocabulary's own idea of white space, and U+2581. */
static bool is_blank(uint32_t code) {
    return (code >= 0x9 && code <= 0xd) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
           code == 0x3000 || code == 0x2581;
}

static bool is_plain(const token *t) {
    if (t->type != TYPE_USER) return false;
    for (size_t at = 0; at < t->text.length;) {
        uint32_t code = 0;
        at += utf8_next(t->text.data + at, t->text.length - at, &code);
        if (!is_blank(code)) return false;
    }
    return true;
}

static bool is_special(const token *t) {
    return t->type == TYPE_UNKNOWN || t->type == TYPE_CONTROL || (t->type == TYPE_USER && !is_plain(t));
}

/* Writes the bytes that the token's characters stand for to out, which has room for its text; false: not all stand for one. */
static bool spell(const token *t, uint8_t *out, size_t *length) {
    *length = 0;
    if (t->type != TYPE_NORMAL && t->type != TYPE_UNUSED && t->type != TYPE_BYTE) return false;
    for (size_t at = 0; at < t->text.length;) {
        uint32_t code = 0;
        at += utf8_next(t->text.data + at, t->text.length - at, &code);
        if (!stood_for(code, &out[*length])) return false;
        ++*length;
    }
    return true;
}

/* ---- the tape ---- */

static bool is_last(const reader *line) { return line->at == line->end; }

/* A text without surrogates at *end of the texts, which it moves on. */
static bool read_text(bytes word, uint8_t **end, bytes *text) {
    size_t length = 0;
    if (!word_unescape(word, *end, &length)) return false;
    *text = (bytes){*end, length};
    *end += length;
    return utf8_valid(*text);
}

static bool read_head(reader *r, uint8_t *scratch, vocabulary *v) {
    reader line;
    bytes verb, word, name;
    uint8_t *end = scratch;
    if (!reader_line(r, &line) || !reader_word(&line, &verb) || !word_is(verb, "pre") || !reader_word(&line, &word) ||
        !is_last(&line) || !read_text(word, &end, &name))
        return false;
    v->pre = pretokenizer_named(name);
    bytes id, add;
    if (!reader_line(r, &line) || !reader_word(&line, &verb) || !word_is(verb, "bos") || !reader_word(&line, &id) ||
        !reader_word(&line, &add) || !is_last(&line) || !word_int(id, &v->bos) || !(word_is(add, "0") || word_is(add, "1")))
        return false;
    v->add_bos = word_is(add, "1");
    return v->pre != NULL;
}

/* Whether the next line has this verb; the line itself stays. */
static bool next_is(const reader *r, const char *verb) {
    reader ahead = *r, line;
    bytes word;
    return reader_line(&ahead, &line) && reader_word(&line, &word) && word_is(word, verb);
}

static size_t count_lines(reader r) {
    size_t n = 0;
    reader line;
    while (reader_line(&r, &line)) n++;
    return n;
}

static int read_tokens(reader *r, vocabulary *v, uint8_t **end) {
    uint8_t *meaning = v->meanings;
    while (next_is(r, "token")) {
        reader line;
        bytes word, text, type;
        int64_t number = 0;
        token *t = &v->tokens[v->count];
        reader_line(r, &line);
        reader_word(&line, &word);
        if (!reader_word(&line, &text) || !reader_word(&line, &type) || !is_last(&line) || !read_text(text, end, &t->text) ||
            !word_int(type, &number) || number < INT32_MIN || number > INT32_MAX)
            return ORACLE_BAD_TAPE;
        t->type = (int32_t)number;
        size_t length = 0;
        t->meaning = t->text;
        if (spell(t, meaning, &length)) {
            t->meaning = (bytes){meaning, length};
            meaning += length;
        }
        if (++v->count >= NO_TOKEN) return ORACLE_NO_MEMORY;
    }
    if (v->count == 0 || v->bos < -1 || (v->bos >= 0 && (uint64_t)v->bos >= v->count)) return ORACLE_BAD_TAPE;
    for (size_t id = v->count; id > 0; id--) /* from the end, so that the highest id stays */
        if (names_add(&v->by_text, v->tokens[id - 1].text, id - 1) == NAME_NO_MEMORY) return ORACLE_NO_MEMORY;
    return ORACLE_OK;
}

static int read_merges(reader *r, vocabulary *v, uint8_t *scratch) {
    if (!merges_make(&v->merges, count_lines(*r))) return ORACLE_NO_MEMORY;
    reader line;
    for (uint32_t rank = 0; reader_line(r, &line); rank++) {
        bytes word, left, right, joined;
        uint64_t left_id, right_id, id;
        uint8_t *end = scratch;
        if (rank == UINT32_MAX) return ORACLE_NO_MEMORY;
        if (!reader_word(&line, &word) || !word_is(word, "merge") || !reader_word(&line, &word) || !read_text(word, &end, &left) ||
            !reader_word(&line, &word) || !read_text(word, &end, &right) || !is_last(&line) || left.length == 0 || right.length == 0)
            return ORACLE_BAD_TAPE;
        joined = (bytes){scratch, left.length + right.length}; /* they lie side by side */
        if (!names_get(&v->by_text, left, &left_id) || !names_get(&v->by_text, right, &right_id) || !names_get(&v->by_text, joined, &id))
            return ORACLE_BAD_TAPE;
        merges_put(&v->merges, (merge){(uint32_t)left_id, (uint32_t)right_id, rank, (uint32_t)id, true});
    }
    return r->at == r->end ? ORACLE_OK : ORACLE_BAD_TAPE;
}

static bool fill_lexicons(vocabulary *v) {
    v->special.entries = malloc(v->count * sizeof *v->special.entries);
    v->plain.entries = malloc(v->count * sizeof *v->plain.entries);
    if (v->special.entries == NULL || v->plain.entries == NULL) return false;
    for (size_t id = 0; id < v->count; id++) {
        const token *t = &v->tokens[id];
        uint64_t own = 0;
        if (t->text.length == 0) continue;
        names_get(&v->by_text, t->text, &own);
        if (is_special(t)) v->special.entries[v->special.count++] = (struct entry){t->text, (uint32_t)id};
        if (is_plain(t)) v->plain.entries[v->plain.count++] = (struct entry){t->text, (uint32_t)own};
    }
    lexicon_sort(&v->special);
    lexicon_sort(&v->plain);
    return true;
}

static int read_setup(const uint8_t *setup, size_t length, vocabulary *v) {
    reader r = reader_over(setup, length);
    if (length >= SIZE_MAX / 16) return ORACLE_NO_MEMORY;
    const size_t lines = count_lines(r);
    v->texts = malloc(length + 1); /* escapes only shrink */
    v->meanings = malloc(length + 1);
    v->tokens = malloc((lines + 1) * sizeof *v->tokens);
    uint8_t *scratch = malloc(length + 1), *end = v->texts;
    int rc = v->texts != NULL && v->meanings != NULL && v->tokens != NULL && scratch != NULL ? ORACLE_OK : ORACLE_NO_MEMORY;
    if (rc == ORACLE_OK && !read_head(&r, scratch, v)) rc = ORACLE_BAD_TAPE;
    if (rc == ORACLE_OK) rc = read_tokens(&r, v, &end);
    if (rc == ORACLE_OK) rc = read_merges(&r, v, scratch);
    if (rc == ORACLE_OK && !fill_lexicons(v)) rc = ORACLE_NO_MEMORY;
    free(scratch);
    for (size_t b = 0; rc == ORACLE_OK && b < 256; b++) {
        uint8_t text[4];
        uint64_t id = NO_TOKEN;
        names_get(&v->by_text, (bytes){text, utf8_put(text, stand_in((uint8_t)b))}, &id);
        v->byte_symbol[b] = (uint32_t)id;
    }
    return rc;
}

int vocabulary_open(const uint8_t *setup, size_t length, void **state) {
    vocabulary *v = calloc(1, sizeof *v);
    *state = NULL;
    if (v == NULL) return ORACLE_NO_MEMORY;
    const int rc = read_setup(setup, length, v);
    if (rc == ORACLE_OK) *state = v;
    else vocabulary_close(v);
    return rc;
}

void vocabulary_close(void *state) {
    vocabulary *v = state;
    if (v == NULL) return;
    free(v->tokens);
    free(v->texts);
    free(v->meanings);
    names_free(&v->by_text);
    free(v->special.entries);
    free(v->plain.entries);
    merges_free(&v->merges);
    free(v);
}
