/* answer.h - an answer on its way from text to events.
 *
 * The tape is read whole before anything else, so the text of all its pieces lies in one stretch of memory, and what is
 * held, the block and the values in it are stretches of that.
 */
#ifndef DS4_ORACLE_ANSWER_H
#define DS4_ORACLE_ANSWER_H

#include "oracles/common/buffer.h"
#include "oracles/common/names.h"
#include "oracles/output/search.h"

/* ---- events: neighbouring deltas of one kind become one line ---- */

typedef struct events {
    tape *out;
    const char *kind; /* of the delta that is being collected; NULL: none is */
    uint64_t index;   /* of its call, for "arguments" */
    buffer delta;
} events;

void event_delta(events *e, const char *kind, bytes text);
void event_end_delta(events *e);
void event_word(events *e, const char *event); /* begins another event's line; whoever calls ends it */
void event_text(events *e, const char *event, bytes text);
void event_call(events *e, uint64_t index, bytes name);
void event_end(events *e, uint64_t index);
/* Arguments of a call: as they are, or as characters of a JSON string. */
void event_arguments(events *e, uint64_t index, const char *text);
void event_raw(events *e, uint64_t index, bytes text);
void event_quoted(events *e, uint64_t index, bytes text);

/* ---- the machine ---- */

typedef enum { IN_REASONING, IN_CONTENT, IN_BLOCK, IN_DONE } mode;

/* How the model writes its tags; the list's order is that of the contract. */
typedef enum { FULL, HALF, BARE, SPELLINGS } spelling;

typedef enum { CALLS, CALL, OBJECT } level; /* what the next tag must belong to */

typedef enum {
    BETWEEN,   /* the parts of a level */
    TAG,       /* from `start` on */
    HEAD,      /* from `start` on, behind the tag's name */
    UNDECIDED, /* a value without `string`, from `start` on */
    STRING,
    JSON,
} place;

typedef enum { BEHIND_NAME, BEFORE_ATTRIBUTE, ATTRIBUTE_NAME, BEHIND_EQUALS, ATTRIBUTE_VALUE } head_state;

enum { OBJECTS_MOST = 16 };

/* A call or an object: the names of its parameters. */
typedef struct frame {
    names members;
    bool begun; /* it has a parameter */
} frame;

typedef struct block {
    size_t begin;    /* of its text */
    spelling opener; /* of its opener */
    uint64_t calls;  /* that have begun */
    bool call_open;
    size_t objects;  /* that are open */
    frame frames[OBJECTS_MOST + 1]; /* the call's, and one of each object */
    place place;
    size_t start;
    head_state head;
    bool invoke;       /* whose head it is */
    spelling spelling; /* of the parameter's tag whose head or value it is */
    search search;     /* in a value */
    bool json_begun;   /* something of the JSON value has been shown: */
    size_t json_first, json_end;
} block;

typedef struct answer {
    const uint8_t *text;
    size_t at; /* what has been looked at */
    bool tools;
    mode mode;
    search search; /* in reasoning and content */
    block block;
    events events;
    uint8_t *room; /* of decoded names, as long as the text */
    size_t room_used;
    bool failed; /* no memory */
} answer;

/* output.c */
void enter_content(answer *a);

/* block.c */
void block_begin(answer *a, size_t begin, spelling opener);
void block_step(answer *a);
void block_free(answer *a);
level block_level(const block *b);
extern const char *const close_tags[][SPELLINGS]; /* by level */
const char *const *value_markers(spelling of, bool string); /* close tags first */
size_t value_closers(spelling of);                          /* how many those are */
bool is_space(uint8_t c);

/* closers.c: false: there are none. */
bool block_closers(answer *a, buffer *out);

#endif
