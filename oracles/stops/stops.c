/* stops.c - the stream of answer text: bytes to characters to what may be shown, until a stop string is complete.
 *
 * Two small machines, one behind the other. The first collects a character's bytes against the ranges of the Unicode
 * standard's table of well-formed UTF-8. The second runs one Knuth-Morris-Pratt automaton for each stop string: its state
 * is the length of the longest end of the text that begins the stop, which is just what has to be held back.
 */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"

#define REPLACEMENT 0xFFFDu

/* ---- layer 1: UTF-8 ---- */

/* 00..7F | C2..DF t | E0 A0..BF t | E1..EC t t | ED 80..9F t | EE..EF t t | F0 90..BF t t | F1..F3 t t t | F4 80..8F t t
 * where t is 80..BF. */
static size_t sequence_length(uint8_t first) {
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return 2;
    if (first >= 0xE0 && first <= 0xEF) return 3;
    if (first >= 0xF0 && first <= 0xF4) return 4;
    return 0; /* begins no character */
}

static bool may_follow(const uint8_t *begun, size_t n, uint8_t next) {
    uint8_t low = 0x80, high = 0xBF;
    if (n == 1 && begun[0] == 0xE0) low = 0xA0;
    if (n == 1 && begun[0] == 0xED) high = 0x9F;
    if (n == 1 && begun[0] == 0xF0) low = 0x90;
    if (n == 1 && begun[0] == 0xF4) high = 0x8F;
    return next >= low && next <= high;
}

static uint32_t code_point(const uint8_t *s, size_t n) {
    static const uint8_t mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t c = s[0] & mask[n];
    for (size_t i = 1; i < n; i++) c = c << 6 | (s[i] & 0x3Fu);
    return c;
}

static size_t write_utf8(uint32_t c, uint8_t *to) {
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6) to[i] = (uint8_t)(0x80 | (c & 0x3F));
    to[0] = (uint8_t)((n == 2 ? 0xC0u : n == 3 ? 0xE0u : 0xF0u) | c);
    return n;
}

typedef struct decoder {
    uint8_t begun[4]; /* the bytes of a character that is not whole yet */
    size_t n;         /* how many: 0..3 between calls */
} decoder;

/* One byte in, up to two characters out: a broken beginning, and a character that the byte completes. */
static size_t decode(decoder *d, uint8_t byte, uint32_t out[2]) {
    size_t count = 0;
    if (d->n > 0 && !may_follow(d->begun, d->n, byte)) {
        out[count++] = REPLACEMENT; /* the maximal subpart ends before this byte */
        d->n = 0;
    }
    if (d->n == 0 && sequence_length(byte) == 0) {
        out[count++] = REPLACEMENT;
        return count;
    }
    d->begun[d->n++] = byte;
    if (d->n == sequence_length(d->begun[0])) {
        out[count++] = code_point(d->begun, d->n);
        d->n = 0;
    }
    return count;
}

/* ---- layer 2: stop strings ---- */

typedef struct stop {
    const uint32_t *text; /* its characters */
    size_t *fallback;     /* [i]: the length of the longest proper prefix of text[0..i] that also ends it */
    size_t length;
    size_t matched; /* the longest beginning of it that the text ends with */
} stop;

static size_t advance(const stop *s, size_t matched, uint32_t c) {
    while (matched > 0 && s->text[matched] != c) matched = s->fallback[matched - 1];
    return s->text[matched] == c ? matched + 1 : 0;
}

static void prepare(stop *s) {
    s->fallback[0] = 0;
    for (size_t i = 1; i < s->length; i++) s->fallback[i] = advance(s, s->fallback[i - 1], s->text[i]);
    s->matched = 0;
}

typedef struct machine {
    decoder utf8;
    stop *stops;
    size_t stop_count;
    const stop *met;      /* complete; nothing is looked at any more */
    uint32_t *text;       /* the characters that came in since the last flush, */
    size_t length, shown; /* how many, and how many of them were shown */
    uint8_t *scratch;     /* for a word's bytes */
    uint8_t *utf8_out;    /* for what a line shows */
} machine;

static void take(machine *m, uint32_t c) {
    if (m->met != NULL) return;
    m->text[m->length++] = c;
    for (size_t i = 0; i < m->stop_count; i++) {
        stop *s = &m->stops[i];
        s->matched = advance(s, s->matched, c);
        if (s->matched == s->length && (m->met == NULL || s->length > m->met->length)) m->met = s;
    }
}

static void show(machine *m, size_t until, tape *out) {
    size_t n = 0;
    for (; m->shown < until; m->shown++) n += write_utf8(m->text[m->shown], m->utf8_out + n);
    tape_bytes(out, m->utf8_out, n);
}

/* The line that answers a push or a flush; `holding` is false when the answer ends here. */
static void answer(machine *m, bool holding, tape *out) {
    if (m->met != NULL) {
        tape_word(out, "stop");
        show(m, m->length - m->met->length, out);
        size_t n = 0;
        for (size_t i = 0; i < m->met->length; i++) n += write_utf8(m->met->text[i], m->utf8_out + n);
        tape_bytes(out, m->utf8_out, n);
    } else {
        size_t held = 0;
        for (size_t i = 0; holding && i < m->stop_count; i++)
            if (m->stops[i].matched > held) held = m->stops[i].matched;
        tape_word(out, "shown");
        show(m, m->length - held, out);
        tape_uint(out, m->utf8.n);
        tape_uint(out, held);
    }
    tape_end(out);
}

static void push(machine *m, const uint8_t *piece, size_t n, tape *out) {
    for (size_t i = 0; i < n && m->met == NULL; i++) {
        uint32_t c[2];
        const size_t count = decode(&m->utf8, piece[i], c);
        for (size_t k = 0; k < count; k++) take(m, c[k]);
    }
    answer(m, true, out);
}

static void flush(machine *m, tape *out) {
    if (m->utf8.n > 0) take(m, REPLACEMENT);
    m->utf8.n = 0;
    answer(m, false, out);
    if (m->met != NULL) return;
    m->length = m->shown = 0;
    for (size_t i = 0; i < m->stop_count; i++) m->stops[i].matched = 0;
}

/* ---- the tape ---- */

/* A whole line; false also when it ends in a space, behind which a word is missing. */
static bool next_line(reader *r, reader *line) {
    return reader_line(r, line) && line->at != line->end && line->end[-1] != ' ';
}

static bool first_line(reader *r, reader *line) {
    bytes verb;
    return next_line(r, line) && reader_word(line, &verb) && word_is(verb, "stops");
}

/* The word of a push; .data NULL for a flush. */
static bool later_line(reader *r, bytes *piece) {
    reader line;
    bytes verb;
    *piece = (bytes){NULL, 0};
    if (!next_line(r, &line) || !reader_word(&line, &verb)) return false;
    if (word_is(verb, "push")) {
        if (!reader_word(&line, piece)) return false;
    } else if (!word_is(verb, "flush")) {
        return false;
    }
    return line.at == line.end;
}

/* The stop strings of the first line, their characters one after the other in `points`. False: the tape is bad. */
static bool read_stops(machine *m, reader line, uint32_t *points, size_t *fallbacks, bool *empty) {
    bytes word;
    while (line.at != line.end) {
        if (!reader_word(&line, &word)) return false;
        size_t n, count = 0;
        if (!word_unescape(word, m->scratch, &n)) return false;
        decoder d = {0};
        for (size_t i = 0; i < n; i++) {
            uint32_t c[2];
            /* A stop that holds U+FFFD is well-formed, so a replacement is known by the decoder's having begun nothing. */
            if (d.n == 0 ? sequence_length(m->scratch[i]) == 0 : !may_follow(d.begun, d.n, m->scratch[i])) return false;
            if (decode(&d, m->scratch[i], c) == 1) points[count++] = c[0];
        }
        if (d.n > 0) return false;
        if (count == 0) *empty = true;
        stop *s = &m->stops[m->stop_count++];
        *s = (stop){points, fallbacks, count, 0};
        if (count > 0) prepare(s);
        points += count;
        fallbacks += count;
    }
    return true;
}

static size_t words_in(reader line) {
    size_t n = 0;
    bytes word;
    while (reader_word(&line, &word)) n++;
    return n;
}

static int run_over(machine *m, reader r, reader line, uint32_t *points, size_t *fallbacks, tape *out) {
    bool empty = false;
    bytes piece;
    if (!read_stops(m, line, points, fallbacks, &empty)) return ORACLE_BAD_TAPE;
    while (r.at != r.end && !out->failed) { /* of a tape that turns out to be bad nothing is kept */
        size_t n = 0;
        if (!later_line(&r, &piece)) return ORACLE_BAD_TAPE;
        if (piece.data != NULL && !word_unescape(piece, m->scratch, &n)) return ORACLE_BAD_TAPE;
        if (empty) continue;
        if (piece.data != NULL) {
            push(m, m->scratch, n, out);
        } else {
            flush(m, out);
        }
    }
    if (empty) {
        tape_word(out, "error");
        tape_word(out, "stop_empty");
        tape_word(out, "stops");
        tape_end(out);
    }
    return ORACLE_OK;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    reader r = reader_over(input, length), line;
    if (!first_line(&r, &line)) return ORACLE_BAD_TAPE;
    if (length > SIZE_MAX / 16) return ORACLE_NO_MEMORY;

    /* No character, of a stop or of the text, comes from less than a byte of the tape, and U+FFFD takes three bytes. */
    uint32_t *points = malloc(length * sizeof *points);
    size_t *fallbacks = malloc(length * sizeof *fallbacks);
    machine m = {0};
    m.stops = malloc((words_in(line) + 1) * sizeof *m.stops);
    m.text = malloc(length * sizeof *m.text);
    m.scratch = malloc(length);
    m.utf8_out = malloc(4 * length);
    int rc = ORACLE_NO_MEMORY;
    if (points != NULL && fallbacks != NULL && m.stops != NULL && m.text != NULL && m.scratch != NULL && m.utf8_out != NULL)
        rc = run_over(&m, r, line, points, fallbacks, out);
    free(points);
    free(fallbacks);
    free(m.stops);
    free(m.text);
    free(m.scratch);
    free(m.utf8_out);
    return rc;
}

const oracle_kind oracle_stops = {"stops", NULL, run, NULL};
