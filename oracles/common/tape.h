/* tape.h - the text that oracles read and write.
 *
 * A tape is lines, each ended by a newline; a line is words separated by one space. A word is an integer in decimal, or
 * bytes: 0x21..0x7e but '%' stand for themselves, every other byte is %XX (upper-case hex), and no bytes at all are "%-".
 * Tapes are compared byte for byte, so there is exactly one way to write a thing.
 *
 * Components over binary formats take a command line followed by the raw bytes (tape_rest).
 */
#ifndef DS4_ORACLE_TAPE_H
#define DS4_ORACLE_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stretch of bytes that somebody else owns. */
typedef struct bytes {
    const uint8_t *data;
    size_t length;
} bytes;

/* ---- writing: a growing text. Once memory is refused it stays `failed` and further writes do nothing. ---- */
typedef struct tape {
    char *data;
    size_t length, capacity;
    bool failed;
    bool started; /* the current line has a word */
} tape;

void tape_word(tape *t, const char *word);            /* a verb: plain characters only */
void tape_bytes(tape *t, const void *data, size_t n); /* escaped */
void tape_text(tape *t, const char *text);            /* escaped, NUL-terminated */
void tape_int(tape *t, int64_t value);
void tape_uint(tape *t, uint64_t value);
void tape_end(tape *t); /* ends the line */
void tape_free(tape *t);

/* ---- reading ---- */
typedef struct reader {
    const uint8_t *at, *end;
} reader;

reader reader_over(const uint8_t *data, size_t length);
bool reader_line(reader *r, reader *line); /* the next line without its newline; false: no (whole) line is left */
bool reader_word(reader *line, bytes *word); /* the next word, still escaped; false: none is left, or two spaces met */
bytes reader_rest(reader *r);                /* everything that is left */

bool word_is(bytes word, const char *text);
bool word_int(bytes word, int64_t *value);   /* false: no integer, or one outside int64 */
bool word_uint(bytes word, uint64_t *value);
/* Unescaped into out, which has room for word.length bytes; false: not a word as written by tape_bytes. */
bool word_unescape(bytes word, uint8_t *out, size_t *length);
/* The same in memory of its own (never NULL, one byte longer and NUL-terminated); NULL: bad word or no memory. */
uint8_t *word_copy(bytes word, size_t *length);

#endif
