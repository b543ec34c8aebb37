/* subject.c - how a verdict names what it is about. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/common/utf8.h"
#include "oracles/gguf/file.h"

#define MOST 96u  /* characters of a subject */
#define BRACKET 23u /* room for [18446744073709551615] and a NUL */

/* The character at data[0] as it is shown, into text; returns the bytes it takes. A byte of no character is a lone surrogate. */
static size_t show(const uint8_t *data, size_t left, char text[12]) {
    uint32_t code = 0;
    size_t n = utf8_next(data, left, &code);
    if (n == 0) {
        code = 0xdc00 + data[0];
        n = 1;
    }
    if (code >= 0x20 && code <= 0x7e) snprintf(text, 12, "%c", (char)code);
    else if (code == '\t') strcpy(text, "\\t");
    else if (code == '\n') strcpy(text, "\\n");
    else if (code == '\r') strcpy(text, "\\r");
    else if (code < 0x100) snprintf(text, 12, "\\x%02x", (unsigned)code);
    else if (code < 0x10000) snprintf(text, 12, "\\u%04x", (unsigned)code);
    else snprintf(text, 12, "\\U%08x", (unsigned)code);
    return n;
}

outcome verdict(tape *out, const char *code, bytes name, const uint64_t *index, size_t indexes) {
    if (name.length > SIZE_MAX / 2) return NO_MEMORY;
    uint8_t *whole = malloc(name.length + indexes * BRACKET + 1);
    if (whole == NULL) return NO_MEMORY;
    size_t length = name.length;
    if (length > 0) memcpy(whole, name.data, length);
    for (size_t i = 0; i < indexes; i++)
        length += (size_t)snprintf((char *)whole + length, BRACKET, "[%llu]", (unsigned long long)index[i]);

    char shown[MOST * 11 + 1], one[12];
    size_t used = 0, at_93 = 0, count = 0;
    for (size_t at = 0; at < length && count <= MOST; count++) {
        at += show(whole + at, length - at, one);
        if (count == MOST - 3) at_93 = used;
        if (count < MOST) {
            memcpy(shown + used, one, strlen(one));
            used += strlen(one);
        }
    }
    if (count > MOST) {
        memcpy(shown + at_93, "...", 3);
        used = at_93 + 3;
    }
    free(whole);
    tape_word(out, "error");
    tape_word(out, code);
    tape_bytes(out, shown, used);
    tape_end(out);
    return ANSWERED;
}
