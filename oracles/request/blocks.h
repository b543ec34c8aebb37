/* blocks.h - what stands in the content of a message of `messages`. */
#ifndef DS4_ORACLE_REQUEST_BLOCKS_H
#define DS4_ORACLE_REQUEST_BLOCKS_H

#include "oracles/request/request.h"

bool required_text(request *r, const field *object, const char *name, bytes *value); /* absent: invalid_type */
bool put_readable(request *r, const field *block, buffer *out);    /* its pieces, as paragraphs */
bool put_system_text(request *r, const field *f, buffer *out);     /* without attribution, as paragraphs */
bool copy_result(request *r, const field *block, lines *messages); /* a tool's message */
bool copy_call(request *r, const field *block, buffer *out);
bool put_thought(request *r, const field *block, buffer *out);

#endif
