/* json.h - JSON as oracles/encoder/README.md describes its reading and writing.
 *
 * Texts are UTF-8 in which surrogates may stand, each as three bytes; whoever reads has checked that.
 */
#ifndef DS4_ORACLE_JSON_H
#define DS4_ORACLE_JSON_H

#include "oracles/common/buffer.h"

typedef enum { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_INTEGER, JSON_DOUBLE, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;

typedef struct json_node {
    json_kind kind;
    bytes key;      /* of a member of an object */
    bytes text;     /* of a string: what it holds; of an integer: as it was written */
    double number;  /* of a double */
    size_t first;   /* of an array or object: its first element or member, 0 of an empty one */
    size_t next;    /* the element or member behind this one, 0 of the last */
} json_node;

typedef struct json {
    json_node *nodes; /* [0] is the value */
    size_t count, capacity;
    uint8_t *strings; /* what the strings hold that have escapes; the others lie in the text that was read */
    size_t used;
} json;

typedef enum {
    JSON_STRICT = 0,
    JSON_CONSTANTS = 1,     /* NaN, Infinity and -Infinity are values */
    JSON_INTEGER_LIMIT = 2, /* no integer of more than 4300 digits */
    JSON_SHALLOW = 4,       /* no more than 64 containers are open at once, instead of 200 */
} json_rules;

typedef enum { JSON_READ, JSON_NOT, JSON_NO_MEMORY } json_outcome;

/* The text must outlive the value, which is to be freed whatever the outcome. */
json_outcome json_read(bytes text, int rules, json *value);
void json_free(json *value);

/* Not one of: null, false, a number equal to zero, "", [], {}. */
bool json_truth(const json_node *node);

void json_write(const json *value, size_t node, buffer *out);
void json_write_characters(bytes text, buffer *out); /* as they stand between the quotes of a string */
void json_write_string(bytes text, buffer *out);
void json_write_double(double value, buffer *out);

#endif
