/* frames.c - the commands over frames: decode, encode, the token chain, and the widths of activations. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/frames/activations.h"
#include "oracles/frames/wire.h"

static int write_verdict(const char *code, const char *subject, tape *out) {
    tape_word(out, "error");
    tape_word(out, code);
    tape_word(out, subject);
    tape_end(out);
    return ORACLE_OK;
}

/* FNV-1a over the little-endian bytes of the ids, from a start that the tape gives. */
static int hash(reader line, tape *out) {
    uint64_t h, id;
    bool in_range = true;
    if (!wire_uint(&line, &h)) return ORACLE_BAD_TAPE;
    while (line.at != line.end) {
        if (!wire_uint(&line, &id)) return ORACLE_BAD_TAPE;
        if (id > UINT32_MAX) in_range = false;
        for (int i = 0; i < 4; i++) h = (h ^ (id >> 8 * i & 0xFF)) * UINT64_C(1099511628211);
    }
    if (!in_range) return write_verdict("frame_range", "ids", out);
    tape_word(out, "hash");
    tape_uint(out, h);
    tape_end(out);
    return ORACLE_OK;
}

static uint32_t get_low_first(const uint8_t *at, size_t width) {
    uint32_t value = 0;
    for (size_t i = width; i-- > 0;) value = value << 8 | at[i];
    return value;
}

static void put_low_first(uint8_t *at, size_t width, uint32_t value) {
    for (size_t i = 0; i < width; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t convert(uint32_t value, size_t from, size_t to) {
    if (from == 4 && to == 2) return half_of(value);
    if (from == 4 && to == 1) return e4m3_of(value);
    if (from == 2) return single_of_half((uint16_t)value);
    if (from == 1) return single_of_e4m3((uint8_t)value);
    return value;
}

static int activations(reader line, bytes raw, bool pack, tape *out) {
    uint64_t bits;
    if (!wire_uint(&line, &bits) || line.at != line.end) return ORACLE_BAD_TAPE;
    const size_t width = wire_width(bits), from = pack ? 4 : width, to = pack ? width : 4;
    if (width == 0) return write_verdict("frame_bits", "bits", out);
    if (raw.length % from != 0) return write_verdict("frame_activations", "values", out);
    const size_t count = raw.length / from;
    if (count > SIZE_MAX / 8) return ORACLE_NO_MEMORY;
    uint8_t *values = malloc(count * to + 1);
    if (values == NULL) return ORACLE_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        put_low_first(values + i * to, to, convert(get_low_first(raw.data + i * from, from), from, to));
    tape_word(out, "bytes");
    tape_bytes(out, values, count * to);
    tape_end(out);
    free(values);
    return ORACLE_OK;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    reader r = reader_over(input, length), line;
    bytes verb;
    verdict v = {NULL, NULL};
    int rc = ORACLE_OK;
    if (!wire_line(&r, &line) || !reader_word(&line, &verb)) return ORACLE_BAD_TAPE;
    if (word_is(verb, "hash")) return r.at == r.end ? hash(line, out) : ORACLE_BAD_TAPE;
    if (word_is(verb, "pack") || word_is(verb, "unpack")) return activations(line, reader_rest(&r), word_is(verb, "pack"), out);
    if (line.at != line.end) return ORACLE_BAD_TAPE;
    if (word_is(verb, "decode")) {
        v = wire_decode(reader_rest(&r), out);
    } else if (word_is(verb, "encode")) {
        rc = wire_encode(r, length, out, &v);
    } else {
        return ORACLE_BAD_TAPE;
    }
    return v.code != NULL ? write_verdict(v.code, v.subject, out) : rc;
}

const oracle_kind oracle_frames = {"frames", NULL, run, NULL};
