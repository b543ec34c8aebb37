/* utf8.h - characters of RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef DS4_ORACLE_UTF8_H
#define DS4_ORACLE_UTF8_H

#include "oracles/common/tape.h"

/* The bytes of the character at data[0] and its code point; 0: none begins there. */
size_t utf8_next(const uint8_t *data, size_t left, uint32_t *code);

size_t utf8_put(uint8_t *out, uint32_t code); /* 1..4 bytes; a surrogate is written like any other code point */

bool utf8_valid(bytes text);

#endif
