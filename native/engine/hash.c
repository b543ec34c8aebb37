#include "native/engine/hash.h"

#include <string.h>

#define P1 0x9E3779B185EBCA87ULL
#define P2 0xC2B2AE3D27D4EB4FULL
#define P3 0x165667B19E3779F9ULL
#define P4 0x85EBCA77C2B2AE63ULL
#define P5 0x27D4EB2F165667C5ULL

static uint64_t rotl(uint64_t x, int r) { return (x << r) | (x >> (64 - r)); }

static uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t lane(uint64_t acc, uint64_t word) { return rotl(acc + word * P2, 31) * P1; }

static uint64_t merge(uint64_t h, uint64_t acc) { return (h ^ lane(0, acc)) * P1 + P4; }

uint64_t ds4_hash64(const void *data, size_t bytes)
{
    const uint8_t *p = data, *end = p + bytes;
    uint64_t h = P5;

    if (bytes >= 32) {
        uint64_t a = P1 + P2, b = P2, c = 0, d = 0ULL - P1;
        for (; (size_t)(end - p) >= 32; p += 32) {
            a = lane(a, load64(p));
            b = lane(b, load64(p + 8));
            c = lane(c, load64(p + 16));
            d = lane(d, load64(p + 24));
        }
        h = rotl(a, 1) + rotl(b, 7) + rotl(c, 12) + rotl(d, 18);
        h = merge(merge(merge(merge(h, a), b), c), d);
    }
    h += bytes;
    for (; (size_t)(end - p) >= 8; p += 8)
        h = rotl(h ^ lane(0, load64(p)), 27) * P1 + P4;
    for (; (size_t)(end - p) >= 4; p += 4)
        h = rotl(h ^ (load32(p) * P1), 23) * P2 + P3;
    for (; p < end; p++)
        h = rotl(h ^ (*p * P5), 11) * P1;
    h = (h ^ (h >> 33)) * P2;
    h = (h ^ (h >> 29)) * P3;
    return h ^ (h >> 32);
}
