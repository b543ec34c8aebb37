/* json.c - one descent over the text makes a tree of nodes in an array; one over the tree writes it. */
#include "oracles/common/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/common/names.h"
#include "oracles/common/utf8.h"

enum { DEEPEST = 200, SHALLOW = 64, DIGITS_MOST = 4300, PRECISION_MOST = 17 };

typedef struct parser {
    const uint8_t *at, *end;
    int rules;
    json *value;
    buffer number; /* a number as strtod is given it */
    bool no_memory;
} parser;

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* ---- reading: each of these is false (or 0) where the text is no JSON, or memory is refused ---- */

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) p->at++;
}

static bool take(parser *p, const char *text) {
    const size_t n = strlen(text);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, text, n) != 0) return false;
    p->at += n;
    return true;
}

static bool new_node(parser *p, size_t *index) {
    json *v = p->value;
    if (v->count == v->capacity) {
        const size_t capacity = v->capacity == 0 ? 8 : 2 * v->capacity;
        json_node *nodes = capacity <= SIZE_MAX / 4 / sizeof *nodes ? realloc(v->nodes, capacity * sizeof *nodes) : NULL;
        if (nodes == NULL) {
            p->no_memory = true;
            return false;
        }
        v->nodes = nodes;
        v->capacity = capacity;
    }
    *index = v->count++;
    v->nodes[*index] = (json_node){.kind = JSON_NULL};
    return true;
}

/* Four hex digits. */
static bool read_unit(const uint8_t *at, const uint8_t *end, uint32_t *unit) {
    if (end - at < 4) return false;
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        const uint8_t c = at[i], low = c | 0x20;
        if (is_digit(c)) *unit = *unit * 16 + (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f') *unit = *unit * 16 + (uint32_t)(low - 'a' + 10);
        else return false;
    }
    return true;
}

/* Behind a backslash; the character goes to `out`. */
static bool read_escape(parser *p, uint8_t **out) {
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (p->at == p->end) return false;
    const uint8_t c = *p->at++;
    if (c != 'u') {
        const char *name = c != 0 ? strchr(names, c) : NULL;
        if (name == NULL) return false;
        *(*out)++ = (uint8_t)meant[name - names];
        return true;
    }
    uint32_t unit, low;
    if (!read_unit(p->at, p->end, &unit)) return false;
    p->at += 4;
    if (unit >= 0xd800 && unit <= 0xdbff && p->end - p->at >= 6 && p->at[0] == '\\' && p->at[1] == 'u' &&
        read_unit(p->at + 2, p->end, &low) && low >= 0xdc00 && low <= 0xdfff) {
        unit = 0x10000 + ((unit - 0xd800) << 10 | (low - 0xdc00));
        p->at += 6;
    }
    *out += utf8_put(*out, unit); /* never longer than the escape */
    return true;
}

/* At the opening quote. */
static bool read_string(parser *p, bytes *text) {
    if (!take(p, "\"")) return false;
    const uint8_t *start = p->at;
    while (p->at < p->end && *p->at != '"' && *p->at != '\\' && *p->at >= 0x20) p->at++;
    *text = (bytes){start, (size_t)(p->at - start)};
    if (take(p, "\"")) return true;

    uint8_t *const room = p->value->strings + p->value->used, *out = room + text->length;
    memcpy(room, start, text->length);
    while (!take(p, "\"")) {
        if (p->at == p->end || *p->at < 0x20) return false;
        if (*p->at != '\\') *out++ = *p->at++;
        else if (p->at++, !read_escape(p, &out)) return false;
    }
    *text = (bytes){room, (size_t)(out - room)};
    p->value->used += text->length;
    return true;
}

/* How often a digit stands here. */
static size_t take_digits(parser *p) {
    const uint8_t *start = p->at;
    while (p->at < p->end && is_digit(*p->at)) p->at++;
    return (size_t)(p->at - start);
}

/* strtod is given all digits as an integer and one exponent: with no decimal point the locale does not matter. */
static double to_double(parser *p, bytes whole, bytes fraction, bytes exponent, bool negative) {
    int64_t power = 0; /* where it stops growing, no fraction that fits in memory makes up for it */
    char tail[32];
    const bool down = exponent.length > 0 && exponent.data[0] == '-';
    for (size_t i = exponent.length > 0 && !is_digit(exponent.data[0]); i < exponent.length; i++)
        if (power < INT64_MAX / 100) power = power * 10 + (exponent.data[i] - '0');
    if (down) power = -power;
    power -= (int64_t)fraction.length;
    p->number.length = 0;
    buffer_put(&p->number, whole);
    buffer_put(&p->number, fraction);
    snprintf(tail, sizeof tail, "e%lld", (long long)power);
    buffer_put(&p->number, (bytes){(const uint8_t *)tail, strlen(tail) + 1});
    if (p->number.failed) {
        p->no_memory = true;
        return 0;
    }
    const double number = strtod((const char *)p->number.data, NULL);
    return negative ? -number : number;
}

static bool read_number(parser *p, size_t node) {
    const uint8_t *start = p->at;
    const bool negative = take(p, "-");
    const uint8_t *whole = p->at;
    const size_t digits = take_digits(p);
    if (digits == 0 || (digits > 1 && *whole == '0')) return false;
    bytes fraction = {p->at, 0}, exponent = {p->at, 0};
    if (take(p, ".")) {
        fraction.data = p->at;
        fraction.length = take_digits(p);
        if (fraction.length == 0) return false;
    }
    if (take(p, "e") || take(p, "E")) {
        exponent.data = p->at;
        if (!take(p, "-")) take(p, "+");
        if (take_digits(p) == 0) return false;
        exponent.length = (size_t)(p->at - exponent.data);
    }
    json_node *n = &p->value->nodes[node];
    if (fraction.length > 0 || exponent.length > 0) {
        n->kind = JSON_DOUBLE;
        n->number = to_double(p, (bytes){whole, digits}, fraction, exponent, negative);
        return !p->no_memory;
    }
    n->kind = JSON_INTEGER;
    n->text = (bytes){start, (size_t)(p->at - start)};
    return digits <= DIGITS_MOST || !(p->rules & JSON_INTEGER_LIMIT);
}

static bool read_word(parser *p, size_t node) {
    static const struct {
        const char *text;
        json_kind kind;
        double number;
        bool constant;
    } words[] = {
        {"null", JSON_NULL, 0, false},       {"false", JSON_FALSE, 0, false},           {"true", JSON_TRUE, 0, false},
        {"NaN", JSON_DOUBLE, NAN, true},     {"Infinity", JSON_DOUBLE, INFINITY, true}, {"-Infinity", JSON_DOUBLE, -INFINITY, true},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if ((words[i].constant && !(p->rules & JSON_CONSTANTS)) || !take(p, words[i].text)) continue;
        p->value->nodes[node].kind = words[i].kind;
        p->value->nodes[node].number = words[i].number;
        return true;
    }
    return false;
}

static bool read_value(parser *p, int depth, size_t *node);

/* A chain of elements or members, kept by its two ends. */
static void chain(json *v, size_t container, size_t *last, size_t node) {
    if (*last == 0) v->nodes[container].first = node;
    else v->nodes[*last].next = node;
    *last = node;
}

static bool read_elements(parser *p, int depth, size_t array) {
    size_t last = 0, node;
    p->value->nodes[array].kind = JSON_ARRAY;
    skip_space(p);
    if (take(p, "]")) return true;
    do {
        if (!read_value(p, depth, &node)) return false;
        chain(p->value, array, &last, node);
    } while (take(p, ","));
    return take(p, "]");
}

/* Of equal keys the last value stays, in the place of the first: the node of the first takes it over. */
static bool read_member(parser *p, int depth, size_t object, names *keys, size_t *last) {
    bytes key;
    size_t node;
    uint64_t there;
    skip_space(p);
    if (!read_string(p, &key)) return false;
    skip_space(p);
    if (!take(p, ":") || !read_value(p, depth, &node)) return false;
    json_node *nodes = p->value->nodes;
    if (names_get(keys, key, &there)) {
        nodes[node].key = key;
        nodes[node].next = nodes[there].next;
        nodes[there] = nodes[node];
        return true;
    }
    p->no_memory = names_add(keys, key, node) == NAME_NO_MEMORY;
    nodes[node].key = key;
    chain(p->value, object, last, node);
    return !p->no_memory;
}

static bool read_members(parser *p, int depth, size_t object) {
    size_t last = 0;
    names keys = {0};
    p->value->nodes[object].kind = JSON_OBJECT;
    skip_space(p);
    if (take(p, "}")) return true;
    bool good;
    do good = read_member(p, depth, object, &keys, &last);
    while (good && take(p, ","));
    names_free(&keys);
    return good && take(p, "}");
}

/* With the white space around it. `depth` containers are open. */
static bool read_value(parser *p, int depth, size_t *node) {
    bool good;
    skip_space(p);
    if (p->at == p->end || !new_node(p, node)) return false;
    const bool container = *p->at == '[' || *p->at == '{';
    if (container && depth == (p->rules & JSON_SHALLOW ? SHALLOW : DEEPEST)) return false;
    if (take(p, "[")) {
        good = read_elements(p, depth + 1, *node);
    } else if (take(p, "{")) {
        good = read_members(p, depth + 1, *node);
    } else if (*p->at == '"') {
        p->value->nodes[*node].kind = JSON_STRING;
        bytes text;
        good = read_string(p, &text);
        if (good) p->value->nodes[*node].text = text;
    } else {
        good = read_word(p, *node) || read_number(p, *node);
    }
    skip_space(p);
    return good;
}

json_outcome json_read(bytes text, int rules, json *value) {
    size_t root;
    *value = (json){.strings = malloc(text.length + 1)}; /* no string holds more bytes than it was written with */
    if (value->strings == NULL) return JSON_NO_MEMORY;
    parser p = {.at = text.data, .end = text.data + text.length, .rules = rules, .value = value};
    const bool good = read_value(&p, 0, &root) && p.at == p.end;
    buffer_free(&p.number);
    return p.no_memory ? JSON_NO_MEMORY : good ? JSON_READ : JSON_NOT;
}

void json_free(json *value) {
    free(value->nodes);
    free(value->strings);
    *value = (json){0};
}

bool json_truth(const json_node *node) {
    switch (node->kind) {
    case JSON_NULL:
    case JSON_FALSE: return false;
    case JSON_TRUE: return true;
    case JSON_INTEGER: return !word_is(node->text, "0") && !word_is(node->text, "-0");
    case JSON_DOUBLE: return node->number != 0;
    case JSON_STRING: return node->text.length > 0;
    default: return node->first != 0;
    }
}

/* ---- writing ---- */

void json_write_characters(bytes text, buffer *out) {
    static const char special[] = "\"\\\b\t\n\f\r", names[] = "\"\\btnfr";
    size_t plain = 0; /* what begins here stands as it is */
    for (size_t i = 0; i < text.length; i++) {
        const uint8_t c = text.data[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        char escape[8];
        const char *name = c != 0 ? strchr(special, c) : NULL;
        if (name != NULL) snprintf(escape, sizeof escape, "\\%c", names[name - special]);
        else snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
        buffer_put(out, (bytes){text.data + plain, i - plain});
        buffer_text(out, escape);
        plain = i + 1;
    }
    if (plain < text.length) buffer_put(out, (bytes){text.data + plain, text.length - plain});
}

void json_write_string(bytes text, buffer *out) {
    buffer_text(out, "\"");
    json_write_characters(text, out);
    buffer_text(out, "\"");
}

/* The shortest `digits` with value == 0.d1d2d3... * 10^*point, for a finite positive value.
 *
 * Of the decimals of n digits printf gives the nearest one. At a power of two, where doubles lie half as dense above as
 * below, it may read back as the double below, and its neighbour above as the value itself. */
static void shortest(double value, char digits[24], int *point) {
    for (int n = 1; n <= PRECISION_MOST; n++) {
        char text[48], again[48];
        uint64_t whole = 0;
        int power = 0, seen = 0;
        snprintf(text, sizeof text, "%.*e", n - 1, value);
        for (const char *c = text; *c != 'e'; c++) /* skipping the decimal point, whatever it is here */
            if (is_digit((uint8_t)*c)) whole = whole * 10 + (uint64_t)(*c - '0'), seen++;
        power = atoi(strchr(text, 'e') + 1) - (seen - 1);
        for (int more = 0; more < 2; more++) {
            snprintf(again, sizeof again, "%llue%d", (unsigned long long)(whole + (uint64_t)more), power);
            if (strtod(again, NULL) != value) continue;
            snprintf(digits, 24, "%llu", (unsigned long long)(whole + (uint64_t)more));
            *point = (int)strlen(digits) + power;
            for (size_t last = strlen(digits) - 1; last > 0 && digits[last] == '0'; last--) digits[last] = 0;
            return;
        }
    }
}

void json_write_double(double value, buffer *out) {
    char digits[24] = "0", text[64];
    int point = 1;
    if (isnan(value)) {
        buffer_text(out, "NaN");
        return;
    }
    if (signbit(value)) buffer_text(out, "-");
    if (isinf(value)) {
        buffer_text(out, "Infinity");
        return;
    }
    if (value != 0) shortest(fabs(value), digits, &point);
    const int count = (int)strlen(digits), exponent = point - 1;
    if (exponent < -4 || exponent >= 16)
        snprintf(text, sizeof text, "%c%s%se%c%02d", digits[0], count > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    else if (point <= 0)
        snprintf(text, sizeof text, "0.%.*s%s", -point, "0000", digits);
    else if (point >= count)
        snprintf(text, sizeof text, "%s%.*s.0", digits, point - count, "0000000000000000");
    else
        snprintf(text, sizeof text, "%.*s.%s", point, digits, digits + point);
    buffer_text(out, text);
}

static void write_chain(const json *value, size_t container, buffer *out) {
    const bool object = value->nodes[container].kind == JSON_OBJECT;
    buffer_text(out, object ? "{" : "[");
    for (size_t i = value->nodes[container].first; i != 0; i = value->nodes[i].next) {
        if (object) {
            json_write_string(value->nodes[i].key, out);
            buffer_text(out, ": ");
        }
        json_write(value, i, out);
        if (value->nodes[i].next != 0) buffer_text(out, ", ");
    }
    buffer_text(out, object ? "}" : "]");
}

void json_write(const json *value, size_t node, buffer *out) {
    const json_node *n = &value->nodes[node];
    switch (n->kind) {
    case JSON_NULL: buffer_text(out, "null"); break;
    case JSON_FALSE: buffer_text(out, "false"); break;
    case JSON_TRUE: buffer_text(out, "true"); break;
    case JSON_INTEGER:
        if (word_is(n->text, "-0")) buffer_text(out, "0");
        else buffer_put(out, n->text);
        break;
    case JSON_DOUBLE: json_write_double(n->number, out); break;
    case JSON_STRING: json_write_string(n->text, out); break;
    case JSON_ARRAY:
    case JSON_OBJECT: write_chain(value, node, out); break;
    }
}
