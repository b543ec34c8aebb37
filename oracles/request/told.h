/* told.h - the parts of a body of `responses`. */
#ifndef DS4_ORACLE_REQUEST_TOLD_H
#define DS4_ORACLE_REQUEST_TOLD_H

#include "oracles/request/request.h"

/* What the head says that is in no other place. */
typedef struct said {
    text summary, truncation, instructions, cache_key, effort, safety, verbosity, user;
    number calls_most, tokens_most, alternatives;
    field metadata, tools;
} said;

/* tools.c */
bool read_known(request *r, said *s);
uint8_t *told_name(const text *space, bytes name, size_t *length); /* NULL: no memory */

/* items.c */
bool read_items(request *r, bool *refers); /* refers: to an item of another response */
bool put_conversation(request *r, const text *instructions);

/* head.c */
bool read_head_fields(request *r, said *s);
void put_head(request *r, const said *s);

#endif
