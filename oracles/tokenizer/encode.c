/* encode.c - special tokens, plain added tokens, normalisation, pieces, merges. */
#include "oracles/tokenizer/encode.h"

#include <stdlib.h>
#include <string.h>

#include "oracles/common/utf8.h"
#include "oracles/tokenizer/standin.h"

static bool push(ids *out, uint32_t id) {
    if (out->count == out->room) {
        const size_t room = out->room == 0 ? 64 : 2 * out->room;
        uint32_t *data = room > SIZE_MAX / 8 ? NULL : realloc(out->data, room * sizeof *data);
        if (data == NULL) return false;
        out->data = data;
        out->room = room;
    }
    out->data[out->count++] = id;
    return true;
}

/* The token whose text is the piece in stand-ins; spelling has room for two bytes each. */
static uint32_t whole_word(const vocabulary *v, bytes piece, uint8_t *spelling) {
    size_t n = 0;
    uint64_t id = NO_TOKEN;
    for (size_t i = 0; i < piece.length; i++) n += utf8_put(spelling + n, stand_in(piece.data[i]));
    names_get(&v->by_text, (bytes){spelling, n}, &id);
    return (uint32_t)id;
}

/* symbols has room for one each byte. */
static bool encode_piece(const vocabulary *v, bytes piece, uint32_t *symbols, uint8_t *spelling, ids *out) {
    if (v->pre->whole_words) {
        const uint32_t id = whole_word(v, piece, spelling);
        if (id != NO_TOKEN) return push(out, id);
    }
    size_t n = 0;
    for (size_t i = 0; i < piece.length; i++) {
        const uint32_t id = v->byte_symbol[piece.data[i]];
        if (id != NO_TOKEN) symbols[n++] = id; /* a byte that is no token is dropped */
    }
    if (!bpe_apply(&v->merges, symbols, &n)) return false;
    for (size_t i = 0; i < n; i++)
        if (!push(out, symbols[i])) return false;
    return true;
}

static bool encode_pieces(const vocabulary *v, bytes text, ids *out) {
    characters c = {0};
    uint32_t *symbols = malloc((text.length + 1) * sizeof *symbols);
    uint8_t *spelling = malloc(2 * text.length + 1);
    bool fine = symbols != NULL && spelling != NULL && characters_read(&c, text) && split(v->pre, &c, text);
    for (size_t begin = 0, end; fine && begin < c.count; begin = end) {
        end = begin + 1;
        while (!c.first[end]) end++;
        fine = encode_piece(v, (bytes){text.data + c.at[begin], c.at[end] - c.at[begin]}, symbols, spelling, out);
    }
    characters_free(&c);
    free(symbols);
    free(spelling);
    return fine;
}

/* What lies between plain added tokens. */
static bool encode_stretch(const vocabulary *v, bytes text, ids *out) {
    if (text.length == 0) return true;
    if (text.length > SIZE_MAX / 16) return false;
    if (!v->pre->compose) return encode_pieces(v, text, out);
    size_t length = 0;
    uint8_t *composed = normalise(text, &length);
    const bool fine = composed != NULL && encode_pieces(v, (bytes){composed, length}, out);
    free(composed);
    return fine;
}

/* What lies between special tokens. */
static bool encode_run(const vocabulary *v, bytes text, ids *out) {
    size_t start = 0;
    for (size_t at = 0; at < text.length;) {
        uint32_t id = NO_TOKEN;
        const size_t n = lexicon_match(&v->plain, text.data + at, text.length - at, &id);
        if (n > 0 && !(encode_stretch(v, (bytes){text.data + start, at - start}, out) && push(out, id))) return false;
        at += n > 0 ? n : 1;
        if (n > 0) start = at;
    }
    return encode_stretch(v, (bytes){text.data + start, text.length - start}, out);
}

bool encode(const vocabulary *v, const segment *segments, size_t count, ids *out) {
    size_t total = 0, length = 0;
    for (size_t i = 0; i < count; i++) total += segments[i].text.length;
    uint8_t *run = malloc(total + 1);
    bool fine = run != NULL;
    for (size_t i = 0; fine && i < count; i++) {
        const bytes text = segments[i].text;
        for (size_t at = 0; fine && at < text.length;) {
            uint32_t id = NO_TOKEN;
            const size_t n = segments[i].special ? lexicon_match(&v->special, text.data + at, text.length - at, &id) : 0;
            if (n == 0) {
                run[length++] = text.data[at++];
                continue;
            }
            fine = encode_run(v, (bytes){run, length}, out) && push(out, id);
            length = 0;
            at += n;
        }
    }
    fine = fine && encode_run(v, (bytes){run, length}, out);
    free(run);
    return fine;
}
