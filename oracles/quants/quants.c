/* quants.c - blocks to numbers and back; the contract is README.md beside this file. */
#include <math.h>
#include <stdlib.h>

#include "oracles/common/oracle.h"
#include "oracles/quants/blocks.h"

enum { IN_A_LINE = 32, NAME_MOST = 16 };

static bool is_name(bytes word) {
    if (word.length == 0 || word.length > NAME_MOST) return false;
    for (size_t i = 0; i < word.length; i++) {
        const uint8_t c = word.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_')) return false;
    }
    return true;
}

static int verdict(tape *out, const char *code) {
    tape_word(out, "error");
    tape_word(out, code);
    tape_end(out);
    return ORACLE_OK;
}

/* Begins a line with `word` before number i and ends the one before it. */
static void begin_line(tape *out, size_t i, const char *word) {
    if (i % IN_A_LINE != 0) return;
    if (i > 0) tape_end(out);
    tape_word(out, word);
}

static void read_blocks(const block_kind *kind, bytes raw, tape *out) {
    const size_t n = raw.length / kind->bytes * kind->elements;
    for (size_t i = 0; i < n; i++) {
        begin_line(out, i, "values");
        const uint8_t *block = raw.data + i / kind->elements * kind->bytes;
        tape_hex(out, f32_bits(kind->element(block, (uint32_t)(i % kind->elements), NULL)), 8);
    }
    if (n > 0) tape_end(out);
}

static void write_halves(bool brain, bytes raw, tape *out) {
    const size_t n = raw.length / 4;
    for (size_t i = 0; i < n; i++) {
        const float x = f32_of(raw.data + 4 * i);
        begin_line(out, i, "halves");
        tape_hex(out, brain ? bf16_nearest(x) : f16_nearest(x), 4);
    }
    if (n > 0) tape_end(out);
}

static int write_q8_0(bytes raw, tape *out) {
    for (size_t at = 0; at < raw.length; at += 4)
        if (!isfinite(f32_of(raw.data + at))) return ORACLE_BAD_TAPE;
    for (size_t at = 0; at < raw.length; at += 4 * 32) {
        float x[32];
        int8_t q[32];
        for (size_t i = 0; i < 32; i++) x[i] = f32_of(raw.data + at + 4 * i);
        const uint16_t scale = q8_0_write(x, q);
        tape_word(out, "block");
        tape_hex(out, scale, 4);
        for (size_t i = 0; i < 32; i++) tape_int(out, q[i]);
        tape_end(out);
    }
    return ORACLE_OK;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    reader all = reader_over(input, length), line;
    bytes verb, name, none;
    (void)state;
    if (!reader_line(&all, &line) || !reader_word(&line, &verb) || !reader_word(&line, &name) || reader_word(&line, &none) ||
        line.at != line.end || !is_name(name))
        return ORACLE_BAD_TAPE;
    const bool reading = word_is(verb, "dequantize");
    if (!reading && !word_is(verb, "quantize")) return ORACLE_BAD_TAPE;
    const bytes raw = reader_rest(&all);
    const block_kind *kind = block_named(name);
    if (kind == NULL) return verdict(out, "engine_argument");
    if (raw.length % (reading ? kind->bytes : 4 * (size_t)kind->elements) != 0) return verdict(out, "engine_argument");
    if (reading) {
        read_blocks(kind, raw, out);
        return ORACLE_OK;
    }
    if (word_is(name, "F16") || word_is(name, "BF16")) {
        write_halves(word_is(name, "BF16"), raw, out);
        return ORACLE_OK;
    }
    return word_is(name, "Q8_0") ? write_q8_0(raw, out) : verdict(out, "engine_unsupported");
}

const oracle_kind oracle_quants = {"quants", NULL, run, NULL};
