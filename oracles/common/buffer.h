/* buffer.h - bytes that grow. Once memory is refused it stays `failed`, and further writes do nothing. */
#ifndef DS4_ORACLE_BUFFER_H
#define DS4_ORACLE_BUFFER_H

#include "oracles/common/tape.h"

typedef struct buffer {
    uint8_t *data;
    size_t length, capacity;
    bool failed;
} buffer; /* {0} is empty */

void buffer_put(buffer *b, bytes more);
void buffer_text(buffer *b, const char *text); /* NUL-terminated */
void buffer_free(buffer *b);

#endif
