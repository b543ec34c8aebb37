/* decode.c - maximal subparts (Unicode, table 3-7).
 *
 *   lead      bytes behind it, the first of which is in
 *   00..7F    none
 *   C2..DF    1   80..BF
 *   E0        2   A0..BF      ED   2   80..9F      other E1..EF   2   80..BF
 *   F0        3   90..BF      F4   3   80..8F      F1..F3         3   80..BF
 */
#include "oracles/tokenizer/decode.h"

#include <string.h>

static size_t replace(uint8_t *out) {
    memcpy(out, "\xef\xbf\xbd", 3);
    return 3;
}

size_t decoder_end(decoder *d, uint8_t *out) {
    const size_t n = d->missing > 0 ? replace(out) : 0;
    *d = (decoder){0};
    return n;
}

size_t decoder_push(decoder *d, uint8_t byte, uint8_t *out) {
    if (d->missing > 0 && byte >= d->low && byte <= d->high) {
        if (--d->missing > 0) {
            d->held[d->length++] = byte;
            d->low = 0x80;
            d->high = 0xbf;
            return 0;
        }
        memcpy(out, d->held, d->length);
        out[d->length] = byte;
        const size_t n = d->length + 1u;
        *d = (decoder){0};
        return n;
    }
    const size_t n = decoder_end(d, out); /* what was held is cut short */
    if (byte < 0x80) {
        out[n] = byte;
        return n + 1;
    }
    if (byte < 0xc2 || byte > 0xf4) return n + replace(out + n);
    d->held[0] = byte;
    d->length = 1;
    d->missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    d->low = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    d->high = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return n;
}
