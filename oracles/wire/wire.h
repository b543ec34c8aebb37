/* wire.h - an answer's events, and what the renderers of the four surfaces share. */
#ifndef DS4_ORACLE_WIRE_H
#define DS4_ORACLE_WIRE_H

#include "oracles/common/buffer.h"
#include "oracles/common/tape.h"

typedef enum { CHAT, COMPLETIONS, MESSAGES, RESPONSES } surface_kind;
typedef enum { OPEN, DELTA, REASONING, CALL, VOID, FINISH, FAIL, ALIVE, CANCEL, UNSTORED, CLOSE, WHOLE } verb_kind;
typedef enum { STOP, LENGTH, TOOL_CALLS } reason_kind;

typedef struct optional {
    bool there;
    bytes text;
} optional;

/* A token or an alternative to it. A token is followed by its alternatives. */
typedef struct entry {
    bytes data;
    double logprob;
    size_t alternatives;
} entry;

typedef struct event {
    verb_kind verb;
    size_t choice;
    bytes text;                 /* of delta and reasoning; message of fail; arguments of call */
    int64_t index;              /* of call; first of void */
    bytes id, name;             /* of call; id: type of fail */
    reason_kind reason;         /* and the rest of finish */
    int64_t prompt, cached, completion, thought;
    double arrived, first, last;
    optional stop;
    int status;                 /* of fail */
    optional code, param;
    bool has_tokens;
    const entry *tokens;        /* the first of the lines' */
    size_t token_count;         /* without the alternatives */
} event;

typedef struct member {
    bytes name, json;
} member;

typedef struct tool {
    bytes told, name;
    optional space;
    bool custom;
} tool;

typedef struct wire {
    surface_kind surface;
    bool streamed;
    /* facts */
    bytes id, model, fingerprint, request;
    int64_t created, finished, prompt;
    size_t n, choices;
    bool usage, logprobs, reads, writes, hides, warms, queued, summary, sealed, parallel;
    member *members;
    size_t member_count;
    tool *tools;
    size_t tool_count;
    bytes *suffixes;
    size_t suffix_count, suffix_used;
    event *events;
    size_t event_count;
    entry *entries;
    uint8_t *store; /* what the words say */
} wire;

/* read.c. ORACLE_OK, ORACLE_BAD_TAPE or ORACLE_NO_MEMORY; to be freed whatever the outcome. */
int wire_read(const uint8_t *input, size_t length, wire *w);
void wire_free(wire *w);

/* ---- text.c ---- */

void put_format(buffer *out, const char *format, ...); /* as printf; less than 200 bytes */
void put_one_line(buffer *out, bytes text);            /* JSON, with what ends a line for Unicode escaped */
void put_string(buffer *out, bytes text);              /* as a JSON string, on one line */
void put_named(buffer *out, const char *name, bytes text); /* ,"name":"text" */
void put_double(buffer *out, double value);
void put_lossy(buffer *out, bytes data); /* UTF-8, each maximal ill-formed subpart one U+FFFD */
void put_base64(buffer *out, bytes data, bool for_urls);
void put_chat_entries(buffer *out, const entry *tokens, size_t count); /* [ENTRY,...] */
const entry *entry_after(const entry *token);                          /* the token behind this one */
size_t characters(bytes text);
bytes bytes_of(const buffer *b);
bytes literal(const char *text);

void put_openai_error(buffer *out, const event *fail);
void put_anthropic_error(buffer *out, const event *fail, bytes request);

/* ,"timings":{...} over the finishes, one for each choice in order; n choices have a prompt. */
void put_timings(buffer *out, const event *const *finishes, size_t count, size_t n);

/* ---- the surfaces: each takes one event and says what is sent, or the body of `whole` ---- */

typedef struct openai_state openai_state;
openai_state *openai_new(const wire *w);
bool openai_take(openai_state *s, const event *e, buffer *out); /* false: no memory */
void openai_free(openai_state *s);

typedef struct messages_state messages_state;
messages_state *messages_new(const wire *w);
bool messages_take(messages_state *s, const event *e, buffer *out);
void messages_free(messages_state *s);

typedef struct responses_state responses_state;
responses_state *responses_new(wire *w);
int responses_take(responses_state *s, const event *e, buffer *out); /* ORACLE_BAD_TAPE: no suffix is left */
void responses_free(responses_state *s);

/* ---- arguments.c ---- */

/* The object that a call's arguments are, or what is certain of it. False: no memory. */
bool put_certain(buffer *out, bytes arguments);

/* A custom call's input as its arguments come. */
typedef struct custom_input {
    buffer seen;
    size_t at; /* used so far */
    bool within, over;
} custom_input;
void custom_push(custom_input *c, bytes arguments, buffer *more);
bool custom_finish(const custom_input *c, buffer *more);

#endif
