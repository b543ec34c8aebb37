#include "oracles/common/buffer.h"

#include <stdlib.h>
#include <string.h>

void buffer_put(buffer *b, bytes more) {
    if (b->failed || more.length == 0) return;
    if (more.length > b->capacity - b->length) {
        if (more.length > SIZE_MAX / 4 || b->length > SIZE_MAX / 4) {
            b->failed = true;
            return;
        }
        size_t capacity = b->capacity < 64 ? 64 : b->capacity;
        while (capacity < b->length + more.length) capacity *= 2;
        uint8_t *data = realloc(b->data, capacity);
        if (data == NULL) {
            b->failed = true;
            return;
        }
        b->data = data;
        b->capacity = capacity;
    }
    memcpy(b->data + b->length, more.data, more.length);
    b->length += more.length;
}

void buffer_text(buffer *b, const char *text) { buffer_put(b, (bytes){(const uint8_t *)text, strlen(text)}); }

void buffer_free(buffer *b) {
    free(b->data);
    *b = (buffer){0};
}
