/* library.c - the doors of liboracles. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"

struct ds4_oracle {
    const oracle_kind *kind;
    void *state;
};

const char *ds4_oracle_names(void) {
    static char names[1024];
    if (names[0] == 0) { /* the same bytes whoever writes them, so a race is harmless */
        size_t n = 0;
        for (size_t i = 0; oracle_kinds[i] != NULL; i++) {
            const size_t length = strlen(oracle_kinds[i]->name);
            if (n + length + 2 > sizeof names) break;
            if (n > 0) names[n++] = '\n';
            memcpy(names + n, oracle_kinds[i]->name, length);
            n += length;
        }
    }
    return names;
}

int ds4_oracle_open(const char *name, const uint8_t *setup, size_t length, ds4_oracle **oracle) {
    const oracle_kind *kind = NULL;
    *oracle = NULL;
    for (size_t i = 0; oracle_kinds[i] != NULL && kind == NULL; i++)
        if (strcmp(oracle_kinds[i]->name, name) == 0) kind = oracle_kinds[i];
    if (kind == NULL) return ORACLE_UNKNOWN;
    ds4_oracle *o = malloc(sizeof *o);
    if (o == NULL) return ORACLE_NO_MEMORY;
    *o = (ds4_oracle){kind, NULL};
    const int rc = kind->open != NULL ? kind->open(setup, length, &o->state) : length == 0 ? ORACLE_OK : ORACLE_BAD_TAPE;
    if (rc != ORACLE_OK) {
        free(o);
        return rc;
    }
    *oracle = o;
    return ORACLE_OK;
}

int ds4_oracle_run(const ds4_oracle *oracle, const uint8_t *input, size_t length, char **out, size_t *out_length) {
    tape t = {0};
    int rc = oracle->kind->run(oracle->state, input, length, &t);
    if (rc == ORACLE_OK && t.failed) rc = ORACLE_NO_MEMORY;
    if (rc != ORACLE_OK) tape_free(&t);
    *out = t.data;
    *out_length = t.length;
    return rc;
}

void ds4_oracle_free(char *out) { free(out); }

void ds4_oracle_close(ds4_oracle *oracle) {
    if (oracle == NULL) return;
    if (oracle->kind->close != NULL) oracle->kind->close(oracle->state);
    free(oracle);
}
