#include "oracles/common/subject.h"

#include <stdio.h>
#include <string.h>

#include "oracles/common/utf8.h"

#define MOST 96u    /* characters */
#define LONGEST 10u /* bytes of one that is shown */

/* The character at data[0] as it is shown, into text; returns the bytes that it takes of the data. */
static size_t show(const uint8_t *data, size_t left, char text[LONGEST + 1]) {
    uint32_t code = 0;
    size_t n = utf8_next(data, left, &code);
    if (n == 0) {
        code = 0xdc00 + data[0];
        n = 1;
    }
    if (code >= 0x20 && code <= 0x7e) snprintf(text, LONGEST + 1, "%c", (char)code);
    else if (code == '\t') strcpy(text, "\\t");
    else if (code == '\n') strcpy(text, "\\n");
    else if (code == '\r') strcpy(text, "\\r");
    else if (code < 0x100) snprintf(text, LONGEST + 1, "\\x%02x", (unsigned)code);
    else if (code < 0x10000) snprintf(text, LONGEST + 1, "\\u%04x", (unsigned)code);
    else snprintf(text, LONGEST + 1, "\\U%08x", (unsigned)code);
    return n;
}

void write_verdict(tape *out, const char *code, bytes subject) {
    char shown[MOST * LONGEST], one[LONGEST + 1];
    size_t used = 0, at_93 = 0, count = 0;
    for (size_t at = 0; at < subject.length && count <= MOST; count++) {
        at += show(subject.data + at, subject.length - at, one);
        if (count == MOST - 3) at_93 = used;
        if (count == MOST) continue; /* one too many: it need not be kept */
        memcpy(shown + used, one, strlen(one));
        used += strlen(one);
    }
    if (count > MOST) {
        memcpy(shown + at_93, "...", 3);
        used = at_93 + 3;
    }
    tape_word(out, "error");
    tape_word(out, code);
    tape_bytes(out, shown, used);
    tape_end(out);
}
