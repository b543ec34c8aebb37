/* standin.h - GPT-2's characters for bytes.
 *
 * Bytes 0x21..0x7e, 0xa1..0xac and 0xae..0xff stand as U+00XX themselves; the other 68, in rising order, as U+0100..U+0143.
 */
#ifndef DS4_ORACLE_TOKENIZER_STANDIN_H
#define DS4_ORACLE_TOKENIZER_STANDIN_H

#include <stdbool.h>
#include <stdint.h>

static inline bool stands_for_itself(uint32_t code) {
    return (code >= 0x21 && code <= 0x7e) || (code >= 0xa1 && code <= 0xac) || (code >= 0xae && code <= 0xff);
}

static inline uint32_t stand_in(uint8_t byte) {
    if (stands_for_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;         /* 33 of them */
    if (byte <= 0xa0) return 0x121u + (byte - 0x7f); /* 34 */
    return 0x143;                                   /* 0xad */
}

/* False: the character stands for no byte. */
static inline bool stood_for(uint32_t code, uint8_t *byte) {
    if (stands_for_itself(code)) *byte = (uint8_t)code;
    else if (code >= 0x100 && code <= 0x120) *byte = (uint8_t)(code - 0x100);
    else if (code >= 0x121 && code <= 0x142) *byte = (uint8_t)(code - 0x121 + 0x7f);
    else if (code == 0x143) *byte = 0xad;
    else return false;
    return true;
}

#endif
