/* conversation.h - a conversation as the tape has it, and as the layout orders it. */
#ifndef DS4_ORACLE_CONVERSATION_H
#define DS4_ORACLE_CONVERSATION_H

#include "oracles/common/tape.h"

typedef enum { ROLE_OTHER, ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE_REMINDER } role;

typedef struct call {
    bytes id, name, arguments;
} call;

/* A stretch of the conversation's calls or tools. */
typedef struct stretch {
    size_t first, count;
} stretch;

/* An absent text is an empty one, unless a flag tells them apart. */
typedef struct turn {
    role role;
    bytes content, id, reasoning, replay, format;
    bool has_content, has_replay, has_format, open;
    stretch calls, tools;
} turn;

typedef struct conversation {
    bool thinking, max, drop;
    turn *turns;
    call *calls;
    bytes *tools; /* JSON */
    size_t turn_count, call_count, tool_count;
    uint8_t *room; /* where the texts lie */
} conversation;

/* ORACLE_OK, ORACLE_BAD_TAPE or ORACLE_NO_MEMORY; to be freed in any case. */
int conversation_read(const uint8_t *input, size_t length, conversation *c);
void conversation_free(conversation *c);

/* Neighbouring user and tool turns are one item of ROLE_USER; any other turn is an item of its role. */
typedef struct item {
    role role;
    size_t first, count; /* of `turns` below */
} item;

typedef struct plan {
    const turn **turns; /* all of them, as the items have them */
    item *items;
    size_t count;
    bool dropping;    /* reasoning of items in front of `last` is left out */
    ptrdiff_t last;   /* place of the last user or developer item, or -1 */
} plan;

bool plan_make(const conversation *c, plan *p); /* false: no memory; to be freed in any case */
void plan_free(plan *p);

#endif
