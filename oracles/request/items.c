/* items.c - the input of `responses`: its items as they are printed, and the conversation that they are. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/names.h"
#include "oracles/request/told.h"

/* What says nothing to the model here. */
static const char *const silent[] = {"additional_tools",
                                     "apply_patch_call",
                                     "apply_patch_call_output",
                                     "code_interpreter_call",
                                     "compaction",
                                     "compaction_trigger",
                                     "computer_call",
                                     "computer_call_output",
                                     "file_search_call",
                                     "image_generation_call",
                                     "local_shell_call",
                                     "local_shell_call_output",
                                     "mcp_approval_request",
                                     "mcp_approval_response",
                                     "mcp_call",
                                     "mcp_list_tools",
                                     "program",
                                     "program_output",
                                     "shell_call",
                                     "shell_call_output",
                                     "tool_search_call",
                                     "tool_search_output",
                                     "web_search_call"};

/* An assistant's turn, and the calls of all turns. */
typedef struct talk {
    bool open;
    buffer said, thought, calls;
    names ids;
} talk;

/* ---- items ---- */

static const char *type_of_untyped(const request *r, size_t item) {
    if (find_member(&r->body, item, "role") != ABSENT) return "message";
    return find_member(&r->body, item, "id") != ABSENT ? "item_reference" : NULL;
}

static bytes item_type(const request *r, size_t item) {
    const size_t type = find_member(&r->body, item, "type");
    return type != ABSENT ? r->body.nodes[type].text : bytes_from(type_of_untyped(r, item)); /* it has one: it has been read */
}

/* As it is in the body, with a type. */
static void copy_item(request *r, size_t item) {
    buffer *out = &r->items.data;
    const char *before = "{";
    bool typed = false;
    for (size_t i = r->body.nodes[item].first; i != 0; i = r->body.nodes[i].next) {
        const bool type = word_is(r->body.nodes[i].key, "type");
        buffer_text(out, before);
        json_write_string(r->body.nodes[i].key, out);
        buffer_text(out, ": ");
        if (type) json_write_string(item_type(r, item), out);
        else json_write(&r->body, i, out);
        typed = typed || type;
        before = ", ";
    }
    if (!typed) {
        put_key(out, before, "type");
        json_write_string(item_type(r, item), out);
    }
    buffer_text(out, "}");
    line_end(&r->items);
}

static void copy_plain_input(request *r, bytes data) {
    buffer *out = &r->items.data;
    buffer_text(out, "{\"type\": \"message\", \"role\": \"user\", \"content\": [{\"type\": \"input_text\"");
    put_pair(out, "text", data);
    buffer_text(out, "}]}");
    line_end(&r->items);
}

bool read_items(request *r, bool *refers) {
    const field f = member_of(r, &r->root, "input");
    text plain;
    *refers = false;
    if (node_is_kind(&r->body, f.node, JSON_STRING)) {
        if (!read_text(r, &f, &plain)) return false;
        copy_plain_input(r, plain.data);
        return true;
    }
    if (!read_objects(r, &f)) return false;
    for (field item = first_of(r, &f); item.node != ABSENT; step(r, &item)) {
        const field named = member_of(r, &item, "type");
        text type;
        if (!read_text(r, &named, &type)) return false;
        if (!type.there && type_of_untyped(r, item.node) == NULL) return deny(r, &named, "missing_field");
        copy_item(r, item.node);
    }
    if (r->items.count == 0 && !r->previous.there) return deny(r, &f, "missing_field");
    for (field item = first_of(r, &f); item.node != ABSENT; step(r, &item)) {
        if (!word_is(item_type(r, item.node), "item_reference")) continue;
        const field id = member_of(r, &item, "id");
        text read;
        if (id.node == ABSENT) return deny(r, &id, "invalid_type");
        if (!read_text(r, &id, &read)) return false;
        *refers = true;
    }
    return true;
}

/* ---- turns ---- */

static void end_turn(request *r, talk *t) {
    buffer *out = &r->messages.data;
    if (!t->open) return;
    put_message(out, "assistant", bytes_in(&t->said));
    if (t->thought.length > 0) put_pair(out, "reasoning_content", bytes_in(&t->thought));
    if (t->calls.length > 0) {
        put_key(out, ", ", "tool_calls");
        buffer_text(out, "[");
        buffer_put(out, bytes_in(&t->calls));
        buffer_text(out, "]");
    }
    buffer_text(out, "}");
    line_end(&r->messages);
    t->open = false;
    t->said.length = t->thought.length = t->calls.length = 0;
}

/* The turn without text and calls. */
static void fresh_turn(request *r, talk *t) {
    if (t->said.length > 0 || t->calls.length > 0) end_turn(r, t);
    t->open = true;
}

/* ---- texts ---- */

/* Each of the texts of a field, in order. */
static bool read_texts(request *r, const field *item, const char *name, void (*take)(buffer *out, bytes data, size_t index), buffer *out,
                       size_t *count) {
    const field f = member_of(r, item, name);
    text whole;
    *count = 1;
    if (f.node == ABSENT) return deny(r, &f, "missing_field");
    if (node_is_kind(&r->body, f.node, JSON_STRING)) {
        if (!read_text(r, &f, &whole)) return false;
        take(out, whole.data, 0);
        return true;
    }
    if (!some_objects(r, &f)) return false;
    *count = count_of(r, f.node);
    for (field part = first_of(r, &f); part.node != ABSENT; step(r, &part)) {
        const field type = member_of(r, &part, "type");
        const bool refusal = node_is(&r->body, type.node, "refusal");
        if (!refusal && !node_is(&r->body, type.node, "input_text") && !node_is(&r->body, type.node, "output_text") &&
            !node_is(&r->body, type.node, "text"))
            return deny(r, &type, "invalid_value");
        const field value = member_of(r, &part, refusal ? "refusal" : "text");
        if (value.node == ABSENT) return deny(r, &value, "invalid_type");
        if (!read_text(r, &value, &whole)) return false;
        take(out, whole.data, part.index);
    }
    return true;
}

static void take_joined(buffer *out, bytes data, size_t index) {
    (void)index;
    buffer_put(out, data);
}

static void take_spaced(buffer *out, bytes data, size_t index) {
    if (index > 0) buffer_text(out, "\n\n");
    buffer_put(out, data);
}

static void take_string(buffer *out, bytes data, size_t index) {
    (void)index;
    json_write_string(data, out);
}

static void take_part(buffer *out, bytes data, size_t index) {
    if (index > 0) buffer_text(out, ", ");
    put_text_part(out, data);
}

/* ---- by type ---- */

static bool read_assistant(request *r, talk *t, const field *item, buffer *room) {
    size_t count;
    if (!read_texts(r, item, "content", take_joined, room, &count)) return false;
    if (room->length == 0) return true;
    fresh_turn(r, t);
    buffer_put(&t->said, bytes_in(room));
    return true;
}

static bool read_message(request *r, talk *t, const field *item, buffer *room) {
    static const char *const roles[] = {"system", "developer", "user"};
    const field role = member_of(r, item, "role"), content = member_of(r, item, "content");
    buffer *out = &r->messages.data;
    text who;
    const char *said = NULL;
    size_t count;
    if (!read_text(r, &role, &who)) return false;
    if (word_is(who.data, "assistant")) return read_assistant(r, t, item, room);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (word_is(who.data, roles[i])) said = roles[i == 1 ? 0 : i];
    if (said == NULL) return deny(r, &role, "invalid_value");
    end_turn(r, t);
    put_key(out, "{", "role");
    json_write_string(bytes_from(said), out);
    put_key(out, ", ", "content");
    const bool single = node_is_kind(&r->body, content.node, JSON_STRING) || count_of(r, content.node) == 1;
    if (!single) buffer_text(out, "[");
    if (!read_texts(r, item, "content", single ? take_string : take_part, out, &count)) return false;
    buffer_text(out, single ? "}" : "]}");
    line_end(&r->messages);
    return true;
}

/* The texts of an array of objects. */
static bool join_texts(request *r, const field *item, const char *name, const char *between, buffer *room) {
    field parts;
    if (!objects_of(r, item, name, &parts)) return false;
    for (field part = first_of(r, &parts); part.node != ABSENT; step(r, &part)) {
        text said;
        if (!text_of(r, &part, "text", &said)) return false;
        if (part.index > 0) buffer_text(room, between);
        buffer_put(room, said.data);
    }
    return true;
}

static bool read_reasoning(request *r, talk *t, const field *item, buffer *room) {
    static const char mark[] = "ds4:";
    text sealed;
    if (!join_texts(r, item, "content", "", room)) return false;
    if (room->length == 0) {
        if (!text_of(r, item, "encrypted_content", &sealed)) return false;
        if (begins_with(sealed.data, mark) && !put_unsealed(room, after(sealed.data, strlen(mark)), false)) room->length = 0;
        if (room->length == 0 && !join_texts(r, item, "summary", "\n\n", room)) return false;
    }
    if (room->length == 0) return true;
    fresh_turn(r, t);
    buffer_put(&t->thought, bytes_in(room));
    return true;
}

static bool read_call(request *r, talk *t, const field *item, bool custom, buffer *room) {
    text given, space;
    bytes name, id;
    size_t length;
    if (!text_of(r, item, custom ? "input" : "arguments", &given) || !name_of(r, item, "name", &name) || !name_of(r, item, "call_id", &id) ||
        !text_of(r, item, "namespace", &space))
        return false;
    uint8_t *told = told_name(&space, name, &length);
    if (told == NULL || names_add(&t->ids, id, 0) == NAME_NO_MEMORY) {
        free(told);
        r->no_memory = true;
        return false;
    }
    if (custom) {
        put_key(room, "{", "input");
        json_write_string(given.data, room);
        buffer_text(room, "}");
    }
    t->open = true;
    if (t->calls.length > 0) buffer_text(&t->calls, ", ");
    put_call(&t->calls, id, (bytes){told, length}, custom ? bytes_in(room) : given.data);
    free(told);
    return true;
}

static bool read_output(request *r, talk *t, const field *item, buffer *room) {
    const field f = member_of(r, item, "call_id");
    buffer *out = &r->messages.data;
    uint64_t there;
    bytes id;
    size_t count;
    if (!name_of(r, item, "call_id", &id)) return false;
    if (!names_get(&t->ids, id, &there)) return deny(r, &f, "invalid_value");
    if (!read_texts(r, item, "output", take_spaced, room, &count)) return false;
    end_turn(r, t);
    put_key(out, "{", "role");
    json_write_string(bytes_from("tool"), out);
    put_pair(out, "tool_call_id", id);
    put_pair(out, "content", bytes_in(room));
    buffer_text(out, "}");
    line_end(&r->messages);
    return true;
}

static bool read_item(request *r, talk *t, const field *item, buffer *room) {
    const bytes type = item_type(r, item->node);
    if (word_is(type, "message")) return read_message(r, t, item, room);
    if (word_is(type, "reasoning")) return read_reasoning(r, t, item, room);
    if (word_is(type, "function_call")) return read_call(r, t, item, false, room);
    if (word_is(type, "custom_tool_call")) return read_call(r, t, item, true, room);
    if (word_is(type, "function_call_output") || word_is(type, "custom_tool_call_output")) return read_output(r, t, item, room);
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        if (word_is(type, silent[i])) return true;
    const field named = member_of(r, item, "type");
    return deny(r, &named, "invalid_value");
}

static bool put_items(request *r, talk *t, buffer *room) {
    const field f = member_of(r, &r->root, "input");
    if (node_is_kind(&r->body, f.node, JSON_STRING)) {
        put_message(&r->messages.data, "user", r->body.nodes[f.node].text);
        buffer_text(&r->messages.data, "}");
        line_end(&r->messages);
        return true;
    }
    for (field item = first_of(r, &f); item.node != ABSENT; step(r, &item)) {
        room->length = 0;
        if (!read_item(r, t, &item, room)) return false;
    }
    end_turn(r, t);
    return true;
}

bool put_conversation(request *r, const text *instructions) {
    talk t = {0};
    buffer room = {0};
    if (filled(instructions)) {
        put_message(&r->messages.data, "system", instructions->data);
        buffer_text(&r->messages.data, "}");
        line_end(&r->messages);
    }
    const bool good = put_items(r, &t, &room);
    r->no_memory = r->no_memory || room.failed || t.said.failed || t.thought.failed || t.calls.failed;
    buffer_free(&room);
    buffer_free(&t.said);
    buffer_free(&t.thought);
    buffer_free(&t.calls);
    names_free(&t.ids);
    return good;
}
