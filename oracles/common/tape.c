#include "oracles/common/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool room(tape *t, size_t more) {
    if (t->failed) return false;
    if (more <= t->capacity - t->length) return true;
    if (more > SIZE_MAX / 4 || t->length > SIZE_MAX / 4) {
        t->failed = true;
        return false;
    }
    size_t capacity = t->capacity < 256 ? 256 : t->capacity;
    while (capacity < t->length + more) capacity *= 2;
    char *data = realloc(t->data, capacity);
    if (data == NULL) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->capacity = capacity;
    return true;
}

static void separate(tape *t) {
    if (t->started && room(t, 1)) t->data[t->length++] = ' ';
    t->started = true;
}

static void append(tape *t, const char *text, size_t n) {
    if (!room(t, n)) return;
    memcpy(t->data + t->length, text, n);
    t->length += n;
}

void tape_word(tape *t, const char *word) {
    separate(t);
    append(t, word, strlen(word));
}

static bool stands_for_itself(uint8_t c) { return c > 0x20 && c < 0x7f && c != '%'; }

void tape_bytes(tape *t, const void *data, size_t n) {
    static const char hex[] = "0123456789ABCDEF";
    const uint8_t *from = data;
    separate(t);
    if (n == 0) append(t, "%-", 2);
    if (n > SIZE_MAX / 4 || !room(t, 3 * n)) {
        t->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (stands_for_itself(from[i])) {
            t->data[t->length++] = (char)from[i];
        } else {
            t->data[t->length++] = '%';
            t->data[t->length++] = hex[from[i] >> 4];
            t->data[t->length++] = hex[from[i] & 15];
        }
    }
}

void tape_text(tape *t, const char *text) { tape_bytes(t, text, strlen(text)); }

void tape_int(tape *t, int64_t value) {
    char text[24];
    const int n = snprintf(text, sizeof text, "%lld", (long long)value);
    separate(t);
    append(t, text, (size_t)n);
}

void tape_uint(tape *t, uint64_t value) {
    char text[24];
    const int n = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    separate(t);
    append(t, text, (size_t)n);
}

void tape_end(tape *t) {
    append(t, "\n", 1);
    t->started = false;
}

void tape_free(tape *t) {
    free(t->data);
    *t = (tape){0};
}

reader reader_over(const uint8_t *data, size_t length) {
    static const uint8_t nothing[1];
    if (length == 0) data = nothing;
    return (reader){data, data + length};
}

bool reader_line(reader *r, reader *line) {
    const uint8_t *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (newline == NULL) return false;
    *line = (reader){r->at, newline};
    r->at = newline + 1;
    return true;
}

bool reader_word(reader *line, bytes *word) {
    const uint8_t *start = line->at;
    if (start == line->end || *start == ' ') return false;
    const uint8_t *space = memchr(start, ' ', (size_t)(line->end - start));
    const uint8_t *end = space != NULL ? space : line->end;
    *word = (bytes){start, (size_t)(end - start)};
    line->at = space != NULL && space + 1 < line->end ? space + 1 : end;
    return true;
}

bytes reader_rest(reader *r) {
    const bytes rest = {r->at, (size_t)(r->end - r->at)};
    r->at = r->end;
    return rest;
}

bool word_is(bytes word, const char *text) {
    return word.length == strlen(text) && memcmp(word.data, text, word.length) == 0;
}

bool word_uint(bytes word, uint64_t *value) {
    uint64_t v = 0;
    if (word.length == 0 || word.length > 20) return false;
    for (size_t i = 0; i < word.length; i++) {
        const uint8_t c = word.data[i];
        if (c < '0' || c > '9') return false;
        const uint64_t digit = (uint64_t)(c - '0');
        if (v > (UINT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    *value = v;
    return true;
}

bool word_int(bytes word, int64_t *value) {
    uint64_t v;
    const bool negative = word.length > 0 && word.data[0] == '-';
    if (negative) word = (bytes){word.data + 1, word.length - 1};
    if (!word_uint(word, &v)) return false;
    if (negative) {
        if (v > (uint64_t)INT64_MAX + 1) return false;
        *value = v == 0 ? 0 : -(int64_t)(v - 1) - 1;
    } else {
        if (v > INT64_MAX) return false;
        *value = (int64_t)v;
    }
    return true;
}

static int digit(uint8_t c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool word_unescape(bytes word, uint8_t *out, size_t *length) {
    size_t n = 0;
    *length = 0;
    if (word_is(word, "%-")) return true;
    if (word.length == 0) return false;
    for (size_t i = 0; i < word.length; i++) {
        const uint8_t c = word.data[i];
        if (c == '%') {
            if (word.length - i < 3) return false;
            const int high = digit(word.data[i + 1]), low = digit(word.data[i + 2]);
            if (high < 0 || low < 0 || stands_for_itself((uint8_t)(high * 16 + low))) return false;
            out[n++] = (uint8_t)(high * 16 + low);
            i += 2;
        } else if (!stands_for_itself(c)) {
            return false;
        } else {
            out[n++] = c;
        }
    }
    *length = n;
    return true;
}

uint8_t *word_copy(bytes word, size_t *length) {
    uint8_t *out = malloc(word.length + 1);
    if (out == NULL) return NULL;
    if (!word_unescape(word, out, length)) {
        free(out);
        return NULL;
    }
    out[*length] = 0;
    return out;
}
