/* text.c - what is asked of texts, and the pieces of JSON that surfaces share. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/utf8.h"
#include "oracles/request/request.h"

/* A body is well-formed, so a surrogate came from an escape that found no second half; 0xED begins characters only. */
bool lone_surrogate(bytes data) {
    for (size_t i = 0; i + 1 < data.length; i++)
        if (data.data[i] == 0xED && data.data[i + 1] >= 0xA0) return true;
    return false;
}

size_t character_count(bytes data) {
    size_t n = 0;
    for (size_t i = 0; i < data.length; i++) n += (data.data[i] & 0xC0) != 0x80;
    return n;
}

bool begins_with(bytes data, const char *start) {
    const size_t n = strlen(start);
    return data.length >= n && memcmp(data.data, start, n) == 0;
}

bool filled(const text *t) { return t->there && t->data.length > 0; }

bytes after(bytes data, size_t n) { return (bytes){data.data + n, data.length - n}; }

bytes bytes_in(const buffer *b) { return b->length > 0 ? (bytes){b->data, b->length} : bytes_from(""); }

bytes bytes_from(const char *text) { return (bytes){(const uint8_t *)text, strlen(text)}; }

/* Joining what is not empty is the same in one step or in several, so pieces within pieces may go to one buffer. */
void put_paragraph(buffer *out, bytes data) {
    if (data.length == 0) return;
    if (out->length > 0) buffer_text(out, "\n\n");
    buffer_put(out, data);
}

void put_key(buffer *out, const char *before, const char *key) {
    buffer_text(out, before);
    buffer_text(out, "\"");
    buffer_text(out, key);
    buffer_text(out, "\": ");
}

void put_pair(buffer *out, const char *key, bytes value) {
    put_key(out, ", ", key);
    json_write_string(value, out);
}

void put_call(buffer *out, bytes id, bytes name, bytes arguments) {
    put_key(out, "{", "id");
    json_write_string(id, out);
    put_pair(out, "type", bytes_from("function"));
    put_key(out, ", ", "function");
    put_key(out, "{", "name");
    json_write_string(name, out);
    put_pair(out, "arguments", arguments);
    buffer_text(out, "}}");
}

void put_text_part(buffer *out, bytes data) {
    put_key(out, "{", "type");
    json_write_string(bytes_from("text"), out);
    put_pair(out, "text", data);
    buffer_text(out, "}");
}

void put_message(buffer *out, const char *role, bytes content) {
    put_key(out, "{", "role");
    json_write_string(bytes_from(role), out);
    put_pair(out, "content", content);
}

void line_end(lines *l) {
    if (l->count == l->capacity) {
        const size_t capacity = l->capacity == 0 ? 16 : 2 * l->capacity;
        size_t *ends = capacity <= SIZE_MAX / sizeof *ends / 2 ? realloc(l->ends, capacity * sizeof *ends) : NULL;
        if (ends == NULL) {
            l->data.failed = true;
            return;
        }
        l->ends = ends;
        l->capacity = capacity;
    }
    l->ends[l->count++] = l->data.length;
}

void lines_free(lines *l) {
    buffer_free(&l->data);
    free(l->ends);
    *l = (lines){0};
}

/* ---- base64 ---- */

static int six_bits(uint8_t c, bool for_urls) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == (for_urls ? '-' : '+')) return 62;
    if (c == (for_urls ? '_' : '/')) return 63;
    return -1;
}

bool put_unsealed(buffer *out, bytes sealed, bool for_urls) {
    const size_t start = out->length;
    if (sealed.length % 4 != 0) return false;
    for (size_t at = 0; at < sealed.length; at += 4) {
        const uint8_t *four = sealed.data + at;
        const bool last = at + 4 == sealed.length;
        const size_t padding = last && four[3] == '=' ? (four[2] == '=' ? 2 : 1) : 0;
        uint32_t group = 0;
        for (size_t i = 0; i < 4; i++) {
            const int six = i < 4 - padding ? six_bits(four[i], for_urls) : 0;
            if (six < 0) return false;
            group = group << 6 | (uint32_t)six;
        }
        if ((group & ((UINT32_C(1) << 8 * padding) - 1)) != 0) return false; /* bits that stand for nothing */
        const uint8_t three[] = {(uint8_t)(group >> 16), (uint8_t)(group >> 8), (uint8_t)group};
        buffer_put(out, (bytes){three, 3 - padding});
    }
    return out->failed || utf8_valid(after(bytes_in(out), start));
}
