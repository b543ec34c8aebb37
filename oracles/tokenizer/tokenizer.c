/* tokenizer.c - the input line and its answer. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/common/utf8.h"
#include "oracles/tokenizer/decode.h"
#include "oracles/tokenizer/encode.h"

static void refuse(tape *out, const char *subject) {
    tape_word(out, "error");
    tape_word(out, "tokenizer");
    tape_word(out, subject);
    tape_end(out);
}

static bool read_flag(reader *line, bool *flag) {
    bytes word;
    if (!reader_word(line, &word) || !(word_is(word, "0") || word_is(word, "1"))) return false;
    *flag = word_is(word, "1");
    return true;
}

/* ---- encode <special> <text> ... ---- */

/* UTF-8, but for surrogates as three bytes, which are told of. False: no such text. */
static bool check_text(bytes text, bool *surrogates) {
    for (size_t at = 0; at < text.length;) {
        uint32_t code = 0;
        size_t n = utf8_next(text.data + at, text.length - at, &code);
        if (n == 0) {
            const uint8_t *s = text.data + at;
            if (text.length - at < 3 || s[0] != 0xed || s[1] < 0xa0 || s[1] > 0xbf || s[2] < 0x80 || s[2] > 0xbf) return false;
            *surrogates = true;
            n = 3;
        }
        at += n;
    }
    return true;
}

static int run_encode(const vocabulary *v, reader line, tape *out) {
    const size_t left = (size_t)(line.end - line.at);
    if (left >= SIZE_MAX / 64) return ORACLE_NO_MEMORY;
    uint8_t *texts = malloc(left + 1), *end = texts;
    segment *segments = malloc((left / 4 + 1) * sizeof *segments); /* a pair takes a flag, a space and a word, and a space between pairs */
    size_t count = 0;
    bool surrogates = false;
    ids found = {0};
    int rc = texts != NULL && segments != NULL ? ORACLE_OK : ORACLE_NO_MEMORY;
    while (rc == ORACLE_OK && line.at != line.end) {
        bytes word;
        segment s = {{end, 0}, false};
        if (!read_flag(&line, &s.special) || !reader_word(&line, &word) || !word_unescape(word, end, &s.text.length) ||
            !check_text(s.text, &surrogates))
            rc = ORACLE_BAD_TAPE;
        else {
            end += s.text.length;
            segments[count++] = s;
        }
    }
    if (rc == ORACLE_OK && surrogates) {
        refuse(out, "text");
    } else if (rc == ORACLE_OK && encode(v, segments, count, &found)) {
        tape_word(out, "ids");
        for (size_t i = 0; i < found.count; i++) tape_uint(out, found.data[i]);
        tape_end(out);
    } else if (rc == ORACLE_OK) {
        rc = ORACLE_NO_MEMORY;
    }
    free(found.data);
    free(segments);
    free(texts);
    return rc;
}

/* ---- ids ---- */

/* All that are left on the line; NULL: one is none, or (*memory false) no memory. */
static int64_t *read_ids(reader *line, size_t *count, bool *memory) {
    const size_t left = (size_t)(line->end - line->at);
    int64_t *list = left < SIZE_MAX / 16 ? malloc((left / 2 + 1) * sizeof *list) : NULL;
    bytes word;
    *count = 0;
    *memory = list != NULL;
    while (list != NULL && line->at != line->end) {
        if (!reader_word(line, &word) || !word_int(word, &list[*count])) {
            free(list);
            return NULL;
        }
        ++*count;
    }
    return list;
}

static void write_bos(const vocabulary *v, const int64_t *list, size_t count, tape *out) {
    tape_word(out, "ids");
    if (v->add_bos && v->bos != -1 && !(count > 0 && list[0] == v->bos)) tape_int(out, v->bos);
    for (size_t i = 0; i < count; i++) tape_int(out, list[i]);
    tape_end(out);
}

/* One text, or one for each id and one more. */
static int write_text(const vocabulary *v, const int64_t *list, size_t count, bool special, bool stream, tape *out) {
    size_t total = 1; /* for the end */
    for (size_t i = 0; i < count; i++) {
        if (list[i] < 0 || (uint64_t)list[i] >= v->count) {
            refuse(out, "id");
            return ORACLE_OK;
        }
        const size_t more = v->tokens[list[i]].meaning.length;
        if (more > SIZE_MAX / MOST_WRITTEN - total) return ORACLE_NO_MEMORY;
        total += more;
    }
    uint8_t *text = malloc(total * MOST_WRITTEN);
    if (text == NULL) return ORACLE_NO_MEMORY;
    decoder d = {0};
    size_t n = 0;
    tape_word(out, stream ? "texts" : "text");
    for (size_t i = 0; i < count; i++) {
        const token *t = &v->tokens[list[i]];
        const bool hidden = !special && t->type == TYPE_CONTROL;
        if (stream) n = 0;
        for (size_t k = 0; !hidden && k < t->meaning.length; k++) n += decoder_push(&d, t->meaning.data[k], text + n);
        if (stream) tape_bytes(out, text, n);
    }
    if (stream) n = 0;
    n += decoder_end(&d, text + n);
    tape_bytes(out, text, n);
    tape_end(out);
    free(text);
    return ORACLE_OK;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    const vocabulary *v = state;
    reader r = reader_over(input, length), line;
    bytes verb;
    if (!reader_line(&r, &line) || r.at != r.end || !reader_word(&line, &verb)) return ORACLE_BAD_TAPE;
    if (word_is(verb, "encode")) return run_encode(v, line, out);
    const bool bos = word_is(verb, "bos"), stream = word_is(verb, "stream");
    bool special = false, memory = true;
    if (!bos && !stream && !word_is(verb, "decode")) return ORACLE_BAD_TAPE;
    if (!bos && !read_flag(&line, &special)) return ORACLE_BAD_TAPE;
    size_t count = 0;
    int64_t *list = read_ids(&line, &count, &memory);
    if (list == NULL) return memory ? ORACLE_BAD_TAPE : ORACLE_NO_MEMORY;
    int rc = ORACLE_OK;
    if (bos) write_bos(v, list, count, out);
    else rc = write_text(v, list, count, special, stream, out);
    free(list);
    return rc;
}

const oracle_kind oracle_tokenizer = {"tokenizer", vocabulary_open, run, vocabulary_close};
