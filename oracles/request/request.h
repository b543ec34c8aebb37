/* request.h - a body as it is read, and the request that comes of it. */
#ifndef DS4_ORACLE_REQUEST_H
#define DS4_ORACLE_REQUEST_H

#include "oracles/common/buffer.h"
#include "oracles/common/json.h"
#include "oracles/common/oracle.h"

typedef enum { CHAT, COMPLETIONS, MESSAGES, RESPONSES } surface_kind;

#define ABSENT SIZE_MAX
#define MOST (INT64_C(1) << 31) /* where counts are clamped */

enum { STOPS_MOST = 16, BIASES_MOST = 1024, PROMPTS_MOST = 64 };

/* A place in the body, which knows its path. It lies on the stack of whoever reads it. */
typedef struct field {
    const struct field *up; /* NULL: the body itself */
    const char *name;       /* NULL: an element of an array */
    size_t index;           /* of an element */
    size_t node;            /* ABSENT also where a member is null */
} field;

typedef struct text {
    bool there;
    bytes data;
} text;

typedef struct number {
    bool there;
    int64_t value;
} number;

/* Texts one behind the other; each is a line of the output. */
typedef struct lines {
    buffer data;
    size_t *ends;
    size_t count, capacity;
} lines;

typedef struct sampling {
    double temperature, top_p, min_p, repetition, frequency, presence;
    int64_t top_k;
} sampling;

typedef struct bias {
    int64_t token;
    double value;
} bias;

/* A tool by the name that the model has for it. */
typedef struct known {
    uint8_t *told;
    size_t told_length;
    bytes name;
    text space;
    bool custom;
} known;

typedef struct request {
    /* the tape */
    surface_kind surface;
    bool dialect, thinks, keeps;
    int64_t vocabulary;
    bytes name;
    uint8_t *name_room;
    sampling sampling;
    json body;
    field root;

    /* the fault, if `code` is set */
    const char *code;
    bool has_param, no_memory;
    buffer param;

    /* the request */
    int thinking; /* 0, 1, or -1 for none */
    text effort;
    lines messages, tools, items;
    size_t prompts[PROMPTS_MOST]; /* nodes: a string, or an array of token ids */
    size_t prompt_count;
    bool has_seed;
    uint64_t seed;
    bias biases[BIASES_MOST];
    size_t bias_count;
    bytes stops[STOPS_MOST];
    size_t stop_count;
    int64_t n;
    number budget, logprobs;
    bool stream, usage, ignore_eos, cache_prompt;
    bool caches, hides, warms; /* messages */
    number thought;
    text previous; /* responses */
    bool store, background, summary, sealed, parallel;
    known *known;
    size_t known_count;
    buffer head;
} request;

/* ---- fields.c: what stands in the body. A read that returns false has met a fault (or no memory). ---- */

size_t find_member(const json *body, size_t object, const char *name); /* ABSENT of what is no object, too */
bool node_is(const json *body, size_t node, const char *string);       /* this string and no other value */
bool node_is_kind(const json *body, size_t node, json_kind kind);

field member_of(const request *r, const field *object, const char *name);
field first_of(const request *r, const field *array); /* its elements; node is ABSENT behind the last */
void step(const request *r, field *element);
size_t count_of(const request *r, size_t container); /* of elements or members */

bool deny(request *r, const field *f, const char *code);          /* false */
bool deny_plainly(request *r, const char *code);                  /* without a field; false */
bool deny_unless(request *r, const field *f, bool harmless);      /* unsupported, unless absent or harmless */
bool read_text(request *r, const field *f, text *value);            /* .there is false where it is absent */
bool read_boolean(request *r, const field *f, bool *value);         /* kept where it is absent; so below */
bool read_seed(request *r, const field *f);
bool read_integer(request *r, const field *f, int64_t low, int64_t high, bool clamped, number *value);
bool read_number(request *r, const field *f, double *value);
bool read_object(request *r, const field *f);
bool read_objects(request *r, const field *f);  /* absent is empty */
bool some_objects(request *r, const field *f);  /* absent is no array */

/* The same of a member; the field is given back where it is asked for. */
bool text_of(request *r, const field *object, const char *name, text *value);
bool name_of(request *r, const field *object, const char *name, bytes *value); /* absent or empty: missing_field */
bool boolean_of(request *r, const field *object, const char *name, bool *value);
bool integer_of(request *r, const field *object, const char *name, int64_t low, int64_t high, bool clamped, number *value);
bool number_of(request *r, const field *object, const char *name, double *value);
bool object_of(request *r, const field *object, const char *name, field *member);
bool objects_of(request *r, const field *object, const char *name, field *member);

/* ---- text.c ---- */

bool lone_surrogate(bytes data);
size_t character_count(bytes data);
bool begins_with(bytes data, const char *start);
bool filled(const text *t); /* neither absent nor empty */
bytes after(bytes data, size_t n);
bytes bytes_in(const buffer *b);
bytes bytes_from(const char *text);

void put_paragraph(buffer *out, bytes data); /* joined by two line feeds to what is there, unless empty */
void put_key(buffer *out, const char *before, const char *key); /* before"key":_ */
void put_pair(buffer *out, const char *key, bytes value);       /* , "key": "value" */
void put_call(buffer *out, bytes id, bytes name, bytes arguments);
void put_text_part(buffer *out, bytes data);
void put_message(buffer *out, const char *role, bytes content); /* {"role": ..., "content": ..., open */
void line_end(lines *l);
void lines_free(lines *l);

/* What base64 stands for, put behind what is there; false: it is no such base64 of well-formed UTF-8. */
bool put_unsealed(buffer *out, bytes sealed, bool for_urls);

/* ---- shared.c ---- */

bool within_ranges(const sampling *s, const char **culprit);
bool read_sampling(request *r);
bool read_stops(request *r, const char *name);
bool read_options(request *r);
bool is_effort(bytes data);
int alias_of(const text *model); /* the thinking that it asks for, or -1 */

/* ---- the surfaces ---- */

const char *outside_of(const request *r); /* the field that makes it so, or NULL */
bool read_chat(request *r);
bool read_completions(request *r);
bool read_messages(request *r);
bool read_responses(request *r);

#endif
