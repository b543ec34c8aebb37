/* arguments.c - a call's arguments: what is certain of them when they are no object, and a custom call's input out of
 * them as they come. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/json.h"
#include "oracles/common/utf8.h"
#include "oracles/wire/wire.h"

enum { DEEPEST = 200 };

typedef const uint8_t *spot;

/* ---- a walk over JSON text: each is the end of what stands here, or NULL ---- */

static spot skip_space(spot at, spot end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static bool is_hex(uint8_t c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

static spot string_end(spot at, spot end) {
    if (at == end || *at != '"') return NULL;
    for (at++; at < end; at++) {
        if (*at == '"') return at + 1;
        if (*at < 0x20) return NULL;
        if (*at != '\\') continue;
        if (++at == end) return NULL;
        if (*at == 'u') {
            for (int i = 0; i < 4; i++)
                if (++at >= end || !is_hex(*at)) return NULL;
        } else if (*at == 0 || strchr("\"\\/bfnrt", *at) == NULL) {
            return NULL;
        }
    }
    return NULL;
}

static spot digits_end(spot at, spot end) {
    while (at < end && is_digit(*at)) at++;
    return at;
}

static spot number_end(spot at, spot end) {
    if (at < end && *at == '-') at++;
    if (at == end || !is_digit(*at)) return NULL;
    at = *at == '0' ? at + 1 : digits_end(at, end);
    if (at + 1 < end && *at == '.' && is_digit(at[1])) at = digits_end(at + 1, end);
    if (at < end && (*at == 'e' || *at == 'E')) {
        spot exponent = at + 1;
        if (exponent < end && (*exponent == '+' || *exponent == '-')) exponent++;
        if (exponent < end && is_digit(*exponent)) at = digits_end(exponent, end);
    }
    return at;
}

static spot word_end(spot at, spot end, const char *word) {
    const size_t n = strlen(word);
    return (size_t)(end - at) >= n && memcmp(at, word, n) == 0 ? at + n : NULL;
}

/* depth: containers that are open. */
static spot value_end(spot at, spot end, int depth) {
    if (at == end) return NULL;
    switch (*at) {
    case '"': return string_end(at, end);
    case 't': return word_end(at, end, "true");
    case 'f': return word_end(at, end, "false");
    case 'n': return word_end(at, end, "null");
    case '[':
    case '{': break;
    default: return number_end(at, end);
    }
    const bool object = *at == '{';
    const uint8_t closing = object ? '}' : ']';
    if (depth == DEEPEST) return NULL;
    at = skip_space(at + 1, end);
    if (at < end && *at == closing) return at + 1;
    for (;;) {
        if (object) {
            if ((at = string_end(at, end)) == NULL) return NULL;
            at = skip_space(at, end);
            if (at == end || *at != ':') return NULL;
            at = skip_space(at + 1, end);
        }
        if ((at = value_end(at, end, depth + 1)) == NULL) return NULL;
        at = skip_space(at, end);
        if (at == end) return NULL;
        if (*at == closing) return at + 1;
        if (*at != ',') return NULL;
        at = skip_space(at + 1, end);
    }
}

bool put_certain(buffer *out, bytes arguments) {
    json value = {0};
    const json_outcome outcome = json_read(arguments, JSON_STRICT, &value);
    const bool object = outcome == JSON_READ && value.nodes[0].kind == JSON_OBJECT;
    json_free(&value);
    if (outcome == JSON_NO_MEMORY) return false;
    if (object) {
        put_one_line(out, arguments);
        return true;
    }
    static const uint8_t nothing[1];
    spot at = arguments.length == 0 ? nothing : arguments.data, end = at + arguments.length;
    bool any = false;
    buffer_text(out, "{");
    at = skip_space(at, end);
    while (at < end && (*at == '{' || *at == ',')) {
        const spot name = skip_space(at + 1, end);
        spot last = string_end(name, end);
        if (last == NULL) break;
        last = skip_space(last, end);
        if (last == end || *last != ':') break;
        last = value_end(skip_space(last + 1, end), end, 0);
        if (last == NULL) break;
        at = skip_space(last, end);
        if (at == end || (*at != ',' && *at != '}')) break;
        if (any) buffer_text(out, ", ");
        put_one_line(out, (bytes){name, (size_t)(last - name)});
        any = true;
    }
    buffer_text(out, "}");
    return true;
}

/* ---- a custom call's input ---- */

static spot expect(spot at, spot end, const char *text) {
    at = skip_space(at, end);
    return word_end(at, end, text);
}

/* How far the characters from here reach that are wanted; NULL: there are fewer. */
static spot after_characters(spot at, spot end, int wanted) {
    for (; wanted > 0; wanted--) {
        if (at == end) return NULL;
        at++;
        while (at < end && (*at & 0xC0) == 0x80) at++;
    }
    return at;
}

static bool unit_at(spot at, spot end, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++, at++) {
        if (at >= end || !is_hex(*at)) return false;
        *unit = *unit * 16 + (uint32_t)(is_digit(*at) ? *at - '0' : (*at | 0x20) - 'a' + 10);
    }
    return true;
}

static void put_code(buffer *out, uint32_t code) {
    uint8_t four[4];
    const size_t n = utf8_put(four, code);
    buffer_put(out, (bytes){four, n});
}

/* One `\u` escape that begins at `at`; its end, or NULL: it waits for more. */
static spot unicode_escape(spot at, spot end, buffer *out) {
    uint32_t unit, low;
    if (after_characters(at + 2, end, 4) == NULL) return NULL;
    if (!unit_at(at + 2, end, &unit)) {
        put_code(out, 0xFFFD);
        return at + 2;
    }
    if (unit < 0xD800 || unit > 0xDFFF) {
        put_code(out, unit);
        return at + 6;
    }
    if (unit < 0xDC00) {
        const spot behind = at + 6;
        const bool six = after_characters(behind, end, 6) != NULL;
        const bool beginning = (behind == end || *behind == '\\') && (end - behind < 2 || behind[1] == 'u');
        if (!six && beginning) return NULL;
        if (six && behind[0] == '\\' && behind[1] == 'u' && unit_at(behind + 2, end, &low) && low >= 0xDC00 && low <= 0xDFFF) {
            put_code(out, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
            return at + 12;
        }
    }
    put_code(out, 0xFFFD);
    return at + 6;
}

static spot escape(spot at, spot end, buffer *out) {
    static const char names[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    if (at + 1 == end) return NULL;
    if (at[1] == 'u') return unicode_escape(at, end, out);
    const char *name = at[1] != 0 ? strchr(names, at[1]) : NULL;
    const spot next = after_characters(at + 1, end, 1);
    if (name != NULL) {
        buffer_put(out, (bytes){(const uint8_t *)meanings + (name - names), 1});
    } else {
        buffer_put(out, (bytes){at + 1, (size_t)(next - at - 1)});
    }
    return next;
}

void custom_push(custom_input *c, bytes arguments, buffer *more) {
    buffer_put(&c->seen, arguments);
    if (c->seen.failed) {
        more->failed = true;
        return;
    }
    if (c->over || c->seen.length == 0) return;
    const spot start = c->seen.data, end = start + c->seen.length;
    spot at = start + c->at;
    if (!c->within) {
        if ((at = expect(start, end, "{")) == NULL || (at = expect(at, end, "\"input\"")) == NULL ||
            (at = expect(at, end, ":")) == NULL || (at = expect(at, end, "\"")) == NULL)
            return;
        c->within = true;
    }
    while (at < end && !c->over) {
        if (*at == '"') {
            c->over = true;
        } else if (*at == '\\') {
            const spot next = escape(at, end, more);
            if (next == NULL) break;
            at = next;
        } else {
            buffer_put(more, (bytes){at++, 1});
        }
    }
    c->at = (size_t)(at - start);
}

/* Surrogates stand in the reader's strings as three bytes each. */
static void put_without_surrogates(buffer *out, bytes text) {
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] == 0xED && i + 2 < text.length && text.data[i + 1] >= 0xA0) {
            put_code(out, 0xFFFD);
            i += 2;
        } else {
            buffer_put(out, (bytes){text.data + i, 1});
        }
    }
}

bool custom_finish(const custom_input *c, buffer *more) {
    if (c->within) return true;
    json value = {0};
    bytes input = {0};
    bool found = false;
    const json_outcome outcome = json_read(bytes_of(&c->seen), JSON_CONSTANTS | JSON_INTEGER_LIMIT, &value);
    if (outcome == JSON_READ && value.nodes[0].kind == JSON_OBJECT) {
        for (size_t i = value.nodes[0].first; i != 0; i = value.nodes[i].next) {
            if (!word_is(value.nodes[i].key, "input") || value.nodes[i].kind != JSON_STRING) continue;
            input = value.nodes[i].text;
            found = true;
        }
    }
    if (found) {
        put_without_surrogates(more, input);
    } else {
        buffer_put(more, bytes_of(&c->seen));
    }
    json_free(&value);
    return outcome != JSON_NO_MEMORY;
}
