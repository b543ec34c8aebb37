/* fields.c - the kinds of fields, and the faults of a field with its path. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracles/request/request.h"

enum { DIGITS_MOST = 4300 };

/* ---- places ---- */

size_t find_member(const json *body, size_t object, const char *name) {
    if (!node_is_kind(body, object, JSON_OBJECT)) return ABSENT;
    for (size_t i = body->nodes[object].first; i != 0; i = body->nodes[i].next)
        if (word_is(body->nodes[i].key, name)) return body->nodes[i].kind == JSON_NULL ? ABSENT : i;
    return ABSENT;
}

bool node_is_kind(const json *body, size_t node, json_kind kind) { return node != ABSENT && body->nodes[node].kind == kind; }

bool node_is(const json *body, size_t node, const char *string) {
    return node_is_kind(body, node, JSON_STRING) && word_is(body->nodes[node].text, string);
}

field member_of(const request *r, const field *object, const char *name) {
    return (field){object, name, 0, find_member(&r->body, object->node, name)};
}

field first_of(const request *r, const field *array) {
    const size_t first = array->node == ABSENT ? 0 : r->body.nodes[array->node].first;
    return (field){array, NULL, 0, first == 0 ? ABSENT : first};
}

void step(const request *r, field *element) {
    const size_t next = r->body.nodes[element->node].next;
    element->node = next == 0 ? ABSENT : next;
    element->index++;
}

size_t count_of(const request *r, size_t container) {
    size_t n = 0;
    for (size_t i = container == ABSENT ? 0 : r->body.nodes[container].first; i != 0; i = r->body.nodes[i].next) n++;
    return n;
}

/* ---- faults ---- */

static void put_path(buffer *out, const field *f) {
    char index[32];
    if (f->up == NULL) return;
    put_path(out, f->up);
    if (f->name == NULL) {
        snprintf(index, sizeof index, "[%zu]", f->index);
        buffer_text(out, index);
        return;
    }
    if (out->length > 0) buffer_text(out, ".");
    buffer_text(out, f->name);
}

bool deny(request *r, const field *f, const char *code) {
    r->code = code;
    r->has_param = true;
    put_path(&r->param, f);
    return false;
}

bool deny_plainly(request *r, const char *code) {
    r->code = code;
    return false;
}

bool deny_unless(request *r, const field *f, bool harmless) {
    return f->node == ABSENT || harmless || deny(r, f, "unsupported_parameter");
}

/* ---- kinds ---- */

bool read_text(request *r, const field *f, text *value) {
    *value = (text){false, bytes_from("")};
    if (f->node == ABSENT) return true;
    const json_node *n = &r->body.nodes[f->node];
    if (n->kind != JSON_STRING) return deny(r, f, "invalid_type");
    if (lone_surrogate(n->text)) return deny(r, f, "invalid_value");
    *value = (text){true, n->text};
    return true;
}

bool read_boolean(request *r, const field *f, bool *value) {
    if (f->node == ABSENT) return true;
    const json_kind kind = r->body.nodes[f->node].kind;
    if (kind != JSON_TRUE && kind != JSON_FALSE) return deny(r, f, "invalid_type");
    *value = kind == JSON_TRUE;
    return true;
}

typedef struct whole {
    bool negative, huge; /* huge: more than 64 bits */
    uint64_t size;
} whole;

/* False: no whole number. */
static bool whole_of(const json_node *n, whole *w) {
    *w = (whole){0};
    if (n->kind == JSON_DOUBLE) {
        if (!isfinite(n->number) || floor(n->number) != n->number) return false;
        w->negative = n->number < 0;
        w->huge = fabs(n->number) >= 18446744073709551616.0;
        if (!w->huge) w->size = (uint64_t)fabs(n->number);
        return true;
    }
    if (n->kind != JSON_INTEGER) return false;
    for (size_t i = 0; i < n->text.length; i++) {
        if (n->text.data[i] == '-') {
            w->negative = true;
            continue;
        }
        const uint64_t digit = (uint64_t)(n->text.data[i] - '0');
        if (w->size > (UINT64_MAX - digit) / 10) w->huge = true;
        else w->size = w->size * 10 + digit;
        if (w->huge) break;
    }
    return true;
}

bool read_seed(request *r, const field *f) {
    whole w;
    if (f->node == ABSENT) return true;
    if (!whole_of(&r->body.nodes[f->node], &w)) return deny(r, f, "invalid_type");
    if (w.huge || (w.negative && w.size > UINT64_C(1) << 63)) return deny(r, f, "invalid_value");
    r->has_seed = true;
    r->seed = w.negative ? 0 - w.size : w.size;
    return true;
}

bool read_integer(request *r, const field *f, int64_t low, int64_t high, bool clamped, number *value) {
    whole w;
    if (f->node == ABSENT) return true;
    if (!whole_of(&r->body.nodes[f->node], &w)) return deny(r, f, "invalid_type");
    const bool beyond = w.huge || w.size > INT64_MAX; /* and so outside of any low..high */
    int64_t size = beyond ? INT64_MAX : (int64_t)w.size;
    if (w.negative) size = -size;
    if (size > high && clamped) size = high;
    if (size < low || size > high) return deny(r, f, "invalid_value");
    *value = (number){true, size};
    return true;
}

static double double_of(const json_node *n) {
    char digits[DIGITS_MOST + 2];
    if (n->kind == JSON_DOUBLE) return n->number;
    if (n->text.length >= sizeof digits) return INFINITY; /* cannot be: such a text is no JSON */
    memcpy(digits, n->text.data, n->text.length);
    digits[n->text.length] = 0;
    return word_is(n->text, "-0") ? 0 : strtod(digits, NULL);
}

bool read_number(request *r, const field *f, double *value) {
    if (f->node == ABSENT) return true;
    const json_node *n = &r->body.nodes[f->node];
    if (n->kind != JSON_INTEGER && n->kind != JSON_DOUBLE) return deny(r, f, "invalid_type");
    const double read = double_of(n);
    if (!isfinite(read)) return deny(r, f, "invalid_value");
    *value = read;
    return true;
}

bool read_object(request *r, const field *f) {
    return f->node == ABSENT || node_is_kind(&r->body, f->node, JSON_OBJECT) || deny(r, f, "invalid_type");
}

bool read_objects(request *r, const field *f) { return f->node == ABSENT || some_objects(r, f); }

bool some_objects(request *r, const field *f) {
    if (!node_is_kind(&r->body, f->node, JSON_ARRAY)) return deny(r, f, "invalid_type");
    for (field e = first_of(r, f); e.node != ABSENT; step(r, &e))
        if (!node_is_kind(&r->body, e.node, JSON_OBJECT)) return deny(r, &e, "invalid_type");
    return true;
}

/* ---- of a member ---- */

bool text_of(request *r, const field *object, const char *name, text *value) {
    const field f = member_of(r, object, name);
    return read_text(r, &f, value);
}

bool name_of(request *r, const field *object, const char *name, bytes *value) {
    const field f = member_of(r, object, name);
    text read;
    if (!read_text(r, &f, &read)) return false;
    *value = read.data;
    return read.data.length > 0 || deny(r, &f, "missing_field");
}

bool boolean_of(request *r, const field *object, const char *name, bool *value) {
    const field f = member_of(r, object, name);
    return read_boolean(r, &f, value);
}

bool integer_of(request *r, const field *object, const char *name, int64_t low, int64_t high, bool clamped, number *value) {
    const field f = member_of(r, object, name);
    return read_integer(r, &f, low, high, clamped, value);
}

bool number_of(request *r, const field *object, const char *name, double *value) {
    const field f = member_of(r, object, name);
    return read_number(r, &f, value);
}

bool object_of(request *r, const field *object, const char *name, field *member) {
    *member = member_of(r, object, name);
    return read_object(r, member);
}

bool objects_of(request *r, const field *object, const char *name, field *member) {
    *member = member_of(r, object, name);
    return read_objects(r, member);
}
