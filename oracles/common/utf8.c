#include "oracles/common/utf8.h"

size_t utf8_next(const uint8_t *data, size_t left, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (left == 0) return 0;
    const uint8_t lead = data[0];
    const size_t n = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    uint32_t c = n == 1 ? lead : (uint32_t)(lead & (0x7f >> n));
    for (size_t i = 1; i < n; i++) {
        if ((data[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (data[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *code = c;
    return n;
}

size_t utf8_put(uint8_t *out, uint32_t code) {
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i > 1; i--, code >>= 6) out[i - 1] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(lead[n] | code);
    return n;
}

bool utf8_valid(bytes text) {
    uint32_t code;
    for (size_t at = 0, n; at < text.length; at += n) {
        n = utf8_next(text.data + at, text.length - at, &code);
        if (n == 0) return false;
    }
    return true;
}
