/* oracle.h - what every oracle is: a pure function from an input tape to an output tape.
 *
 * An oracle states how a component must behave, independently of the program that is held to it. It is written to be
 * read, not to be fast, and trusts nobody's input: every length is checked against the bytes that are left, and whatever
 * the input is, the outcome is an output tape or one of the two errors below.
 *
 * `setup` is what many inputs share (a vocabulary, say); most oracles have none. An oracle keeps no state between calls,
 * so one handle may be used by several threads at a time.
 */
#ifndef DS4_ORACLE_H
#define DS4_ORACLE_H

#include <stddef.h>
#include <stdint.h>

#include "oracles/common/tape.h"

enum {
    ORACLE_OK = 0,
    ORACLE_BAD_TAPE = 1,  /* the input is no tape of this component: the caller's bug, not a verdict */
    ORACLE_NO_MEMORY = 2,
    ORACLE_UNKNOWN = 3    /* no oracle of this name */
};

typedef struct oracle_kind {
    const char *name;
    /* NULL when there is nothing to prepare. On failure *state is left NULL. */
    int (*open)(const uint8_t *setup, size_t length, void **state);
    int (*run)(const void *state, const uint8_t *input, size_t length, tape *out);
    void (*close)(void *state);
} oracle_kind;

/* All of them, by name, ended by a NULL name (table.c). */
extern const oracle_kind *const oracle_kinds[];

/* The library's doors. `out` is the caller's, to be given back to ds4_oracle_free; it is not NUL-terminated. */
typedef struct ds4_oracle ds4_oracle;
#define ORACLE_API __attribute__((visibility("default")))
ORACLE_API const char *ds4_oracle_names(void); /* separated by newlines */
ORACLE_API int ds4_oracle_open(const char *name, const uint8_t *setup, size_t length, ds4_oracle **oracle);
ORACLE_API int ds4_oracle_run(const ds4_oracle *oracle, const uint8_t *input, size_t length, char **out, size_t *out_length);
ORACLE_API void ds4_oracle_free(char *out);
ORACLE_API void ds4_oracle_close(ds4_oracle *oracle);

#endif
