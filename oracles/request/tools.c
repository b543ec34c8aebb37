/* tools.c - the tools of `responses`: functions and custom ones, some in a namespace. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/names.h"
#include "oracles/request/told.h"

typedef struct toolbox {
    names told;
    size_t capacity;
} toolbox;

uint8_t *told_name(const text *space, bytes name, size_t *length) {
    const size_t front = filled(space) ? space->data.length + 1 : 0;
    uint8_t *told = name.length < SIZE_MAX / 4 && front < SIZE_MAX / 4 ? malloc(front + name.length + 1) : NULL;
    if (told == NULL) return NULL;
    if (front > 0) {
        memcpy(told, space->data.data, front - 1);
        told[front - 1] = '.';
    }
    memcpy(told + front, name.data, name.length);
    *length = front + name.length;
    return told;
}

/* Room for one more; NULL: no memory. */
static known *more_known(request *r, toolbox *box) {
    if (r->known_count == box->capacity) {
        const size_t capacity = box->capacity == 0 ? 8 : 2 * box->capacity;
        known *grown = capacity <= SIZE_MAX / sizeof *grown / 2 ? realloc(r->known, capacity * sizeof *grown) : NULL;
        if (grown == NULL) return NULL;
        r->known = grown;
        box->capacity = capacity;
    }
    return &r->known[r->known_count];
}

static bool out_of_memory(request *r) {
    r->no_memory = true;
    return false;
}

static bool learn(request *r, toolbox *box, const field *tool, known new_tool) {
    known *place = more_known(r, box);
    if (place == NULL) return out_of_memory(r);
    new_tool.told = told_name(&new_tool.space, new_tool.name, &new_tool.told_length);
    if (new_tool.told == NULL) return out_of_memory(r);
    *place = new_tool;
    r->known_count++;
    switch (names_add(&box->told, (bytes){new_tool.told, new_tool.told_length}, 0)) {
    case NAME_NEW: return true;
    case NAME_NO_MEMORY: return out_of_memory(r);
    default: break;
    }
    const field name = member_of(r, tool, "name");
    return deny(r, &name, "invalid_value");
}

/* `[NAMESPACE: ABOUT] ` in front, where there is an ABOUT. */
static void put_description(request *r, const text *space, bytes about, bytes own) {
    buffer *out = &r->tools.data;
    if (about.length == 0 && own.length == 0) return;
    put_key(out, ", ", "description");
    buffer_text(out, "\"");
    if (about.length > 0) {
        buffer_text(out, "[");
        json_write_characters(space->data, out);
        buffer_text(out, ": ");
        json_write_characters(about, out);
        buffer_text(out, "] ");
    }
    json_write_characters(own, out);
    buffer_text(out, "\"");
}

static void put_schema(request *r, bool custom, const field *parameters) {
    buffer *out = &r->tools.data;
    put_key(out, ", ", "parameters");
    if (custom)
        buffer_text(out, "{\"type\": \"object\", \"properties\": {\"input\": {\"type\": \"string\", "
                         "\"description\": \"The input, as plain text.\"}}, \"required\": [\"input\"]}");
    else if (parameters->node == ABSENT) buffer_text(out, "{\"type\": \"object\", \"properties\": {}}");
    else json_write(&r->body, parameters->node, out);
}

/* `about` is what is told of the namespace, until the first tool has told it. */
static bool copy_tool(request *r, toolbox *box, const field *tool, const text *space, bytes *about) {
    const field named = member_of(r, tool, "type");
    text type, description;
    known new_tool = {.space = *space};
    field schema;
    if (!read_text(r, &named, &type)) return false;
    if (!type.there) return deny(r, &named, "missing_field");
    new_tool.custom = word_is(type.data, "custom");
    if (!new_tool.custom && !word_is(type.data, "function")) return true;
    if (!name_of(r, tool, "name", &new_tool.name) || !text_of(r, tool, "description", &description) ||
        !object_of(r, tool, new_tool.custom ? "format" : "parameters", &schema))
        return false;
    if (!learn(r, box, tool, new_tool)) return false;
    const known *learnt = &r->known[r->known_count - 1];
    buffer *out = &r->tools.data;
    buffer_text(out, "{\"type\": \"function\", \"function\": ");
    put_key(out, "{", "name");
    json_write_string((bytes){learnt->told, learnt->told_length}, out);
    put_description(r, space, *about, description.data);
    put_schema(r, new_tool.custom, &schema);
    buffer_text(out, "}}");
    line_end(&r->tools);
    *about = bytes_from("");
    return true;
}

static bool copy_namespace(request *r, toolbox *box, const field *tool) {
    text space = {.there = true}, description;
    field tools;
    if (!name_of(r, tool, "name", &space.data) || !text_of(r, tool, "description", &description) || !objects_of(r, tool, "tools", &tools))
        return false;
    bytes about = description.data;
    for (field e = first_of(r, &tools); e.node != ABSENT; step(r, &e))
        if (!copy_tool(r, box, &e, &space, &about)) return false;
    return true;
}

static bool copy_all(request *r, toolbox *box, const field *tools) {
    const text nowhere = {0};
    for (field tool = first_of(r, tools); tool.node != ABSENT; step(r, &tool)) {
        text type;
        bytes about = bytes_from("");
        if (!text_of(r, &tool, "type", &type)) return false;
        if (!(word_is(type.data, "namespace") ? copy_namespace(r, box, &tool) : copy_tool(r, box, &tool, &nowhere, &about))) return false;
    }
    return true;
}

bool read_known(request *r, said *s) {
    toolbox box = {0};
    if (!objects_of(r, &r->root, "tools", &s->tools)) return false;
    const bool good = copy_all(r, &box, &s->tools);
    names_free(&box.told);
    return good;
}
