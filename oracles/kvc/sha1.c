#include "oracles/kvc/sha1.h"

typedef struct sha1 {
    uint32_t h[5];
    uint8_t block[64];
    uint64_t length; /* bytes so far */
} sha1;

static uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

static void compress(uint32_t h[5], const uint8_t block[64]) {
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 | (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (int t = 16; t < 80; t++) w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (int t = 0; t < 80; t++) {
        uint32_t f, k;
        if (t < 20) {
            f = (b & c) | (~b & d);
            k = 0x5a827999;
        } else if (t < 40) {
            f = b ^ c ^ d;
            k = 0x6ed9eba1;
        } else if (t < 60) {
            f = (b & c) | (b & d) | (c & d);
            k = 0x8f1bbcdc;
        } else {
            f = b ^ c ^ d;
            k = 0xca62c1d6;
        }
        const uint32_t next = rotate(a, 5) + f + e + k + w[t];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

static void add(sha1 *s, uint8_t byte) {
    s->block[s->length++ % 64] = byte;
    if (s->length % 64 == 0) compress(s->h, s->block);
}

void sha1_hex(bytes first, bytes second, char hex[41]) {
    static const char digits[] = "0123456789abcdef";
    sha1 s = {{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, {0}, 0};
    for (size_t i = 0; i < first.length; i++) add(&s, first.data[i]);
    for (size_t i = 0; i < second.length; i++) add(&s, second.data[i]);
    const uint64_t bits = s.length * 8;
    add(&s, 0x80);
    while (s.length % 64 != 56) add(&s, 0);
    for (int shift = 56; shift >= 0; shift -= 8) add(&s, (uint8_t)(bits >> shift));
    for (int i = 0; i < 40; i++) hex[i] = digits[s.h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[40] = 0;
}
