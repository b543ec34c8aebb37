/* subject.c - what a verdict is about: a name, or an element of an array. */
#include "oracles/common/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/gguf/file.h"

#define BRACKET 23u /* room for [18446744073709551615] and a NUL */

outcome verdict(tape *out, const char *code, bytes name, const uint64_t *index, size_t indexes) {
    if (name.length > SIZE_MAX / 2) return NO_MEMORY;
    uint8_t *whole = malloc(name.length + indexes * BRACKET + 1);
    if (whole == NULL) return NO_MEMORY;
    size_t length = name.length;
    if (length > 0) memcpy(whole, name.data, length);
    for (size_t i = 0; i < indexes; i++)
        length += (size_t)snprintf((char *)whole + length, BRACKET, "[%llu]", (unsigned long long)index[i]);
    write_verdict(out, code, (bytes){whole, length});
    free(whole);
    return ANSWERED;
}
