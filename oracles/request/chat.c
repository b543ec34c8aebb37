/* chat.c - the body of a chat completion. */
#include "oracles/request/request.h"

static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};

static const char *role_of(const text *role) {
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (role->there && word_is(role->data, roles[i])) return roles[i];
    return NULL;
}

/* Reads a message's content and writes it: a text, or the parts where there is not exactly one. */
static bool copy_content(request *r, const field *message, bool may_be_absent, buffer *out) {
    const field f = member_of(r, message, "content");
    text content;
    put_key(out, ", ", "content");
    if (f.node == ABSENT && !may_be_absent) return deny(r, &f, "invalid_value");
    if (f.node == ABSENT || node_is_kind(&r->body, f.node, JSON_STRING)) {
        if (!read_text(r, &f, &content)) return false;
        json_write_string(content.data, out);
        return true;
    }
    if (!node_is_kind(&r->body, f.node, JSON_ARRAY)) return deny(r, &f, "invalid_type");
    const bool single = count_of(r, f.node) == 1;
    if (!single) buffer_text(out, "[");
    for (field part = first_of(r, &f); part.node != ABSENT; step(r, &part)) {
        if (!node_is_kind(&r->body, part.node, JSON_OBJECT)) return deny(r, &part, "invalid_type");
        const field type = member_of(r, &part, "type"), value = member_of(r, &part, "text");
        if (!node_is(&r->body, type.node, "text")) return deny(r, &type, "invalid_value");
        if (value.node == ABSENT) return deny(r, &value, "invalid_type");
        if (!read_text(r, &value, &content)) return false;
        if (part.index > 0) buffer_text(out, ", ");
        if (single) json_write_string(content.data, out);
        else put_text_part(out, content.data);
    }
    if (!single) buffer_text(out, "]");
    return true;
}

/* A text that is written only if it is not empty. */
static bool copy_text(request *r, const field *object, const char *name, buffer *out) {
    text value;
    if (!text_of(r, object, name, &value)) return false;
    if (filled(&value)) put_pair(out, name, value.data);
    return true;
}

static bool copy_calls(request *r, const field *message, buffer *out) {
    field calls;
    if (!objects_of(r, message, "tool_calls", &calls)) return false;
    for (field call = first_of(r, &calls); call.node != ABSENT; step(r, &call)) {
        const field type = member_of(r, &call, "type");
        field function;
        text arguments, id;
        bytes name;
        if (!deny_unless(r, &type, node_is(&r->body, type.node, "function"))) return false;
        if (!object_of(r, &call, "function", &function) || !text_of(r, &function, "arguments", &arguments) || !text_of(r, &call, "id", &id) ||
            !name_of(r, &function, "name", &name))
            return false;
        if (call.index == 0) put_key(out, ", ", "tool_calls");
        buffer_text(out, call.index == 0 ? "[" : ", ");
        put_call(out, id.data, name, arguments.data);
    }
    if (first_of(r, &calls).node != ABSENT) buffer_text(out, "]");
    return true;
}

/* What an assistant's message has besides. */
static bool copy_answer(request *r, const field *message, buffer *out) {
    text reasoning;
    bool prefix = false;
    if (!copy_calls(r, message, out) || !text_of(r, message, "reasoning_content", &reasoning)) return false;
    if (!filled(&reasoning) && !text_of(r, message, "reasoning", &reasoning)) return false;
    if (filled(&reasoning)) put_pair(out, "reasoning_content", reasoning.data);
    if (!boolean_of(r, message, "prefix", &prefix)) return false;
    if (prefix) buffer_text(out, ", \"prefix\": true");
    return true;
}

static bool copy_message(request *r, const field *message) {
    buffer *out = &r->messages.data;
    text said;
    if (!node_is_kind(&r->body, message->node, JSON_OBJECT)) return deny(r, message, "invalid_type");
    const field f = member_of(r, message, "role");
    if (!read_text(r, &f, &said)) return false;
    const char *role = role_of(&said);
    if (role == NULL) return deny(r, &f, "invalid_value");
    const bool assistant = word_is(said.data, "assistant");
    put_key(out, "{", "role");
    json_write_string(word_is(said.data, "developer") ? bytes_from("system") : said.data, out);
    if (!copy_content(r, message, assistant, out) || !copy_text(r, message, "name", out)) return false;
    if (word_is(said.data, "tool") && !copy_text(r, message, "tool_call_id", out)) return false;
    if (assistant && !copy_answer(r, message, out)) return false;
    buffer_text(out, "}");
    line_end(&r->messages);
    return true;
}

static bool read_conversation(request *r) {
    const field f = member_of(r, &r->root, "messages");
    if (!node_is_kind(&r->body, f.node, JSON_ARRAY)) return deny(r, &f, "invalid_type");
    if (r->body.nodes[f.node].first == 0) return deny(r, &f, "invalid_value");
    for (field message = first_of(r, &f); message.node != ABSENT; step(r, &message))
        if (!copy_message(r, &message)) return false;
    return true;
}

static bool read_tools(request *r) {
    field tools;
    if (!objects_of(r, &r->root, "tools", &tools)) return false;
    for (field tool = first_of(r, &tools); tool.node != ABSENT; step(r, &tool)) {
        const field type = member_of(r, &tool, "type");
        field function, parameters;
        text description;
        bytes name;
        if (!deny_unless(r, &type, node_is(&r->body, type.node, "function"))) return false;
        if (!object_of(r, &tool, "function", &function) || !text_of(r, &function, "description", &description) ||
            !object_of(r, &function, "parameters", &parameters) || !name_of(r, &function, "name", &name))
            return false;
        buffer_text(&r->tools.data, "{\"type\": \"function\", \"function\": ");
        json_write(&r->body, function.node, &r->tools.data);
        buffer_text(&r->tools.data, "}");
        line_end(&r->tools);
    }
    return true;
}

static bool read_thinking(request *r, const text *model) {
    static const char *const names[] = {"thinking", "enable_thinking", "think"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const field f = member_of(r, &r->root, names[i]);
        text type;
        bool on = false;
        if (f.node == ABSENT) continue;
        if (i > 0 || !node_is_kind(&r->body, f.node, JSON_OBJECT)) {
            if (!read_boolean(r, &f, &on)) return false;
            r->thinking = on;
            return true;
        }
        const field kind = member_of(r, &f, "type");
        if (!read_text(r, &kind, &type)) return false;
        if (!word_is(type.data, "enabled") && !word_is(type.data, "disabled")) return deny(r, &kind, "invalid_value");
        r->thinking = word_is(type.data, "enabled");
        return true;
    }
    if (r->thinks) r->thinking = alias_of(model);
    return true;
}

static bool read_logprobs(request *r) {
    const field top = member_of(r, &r->root, "top_logprobs");
    number alternatives = {true, 0};
    bool wanted = false;
    if (!read_integer(r, &top, 0, 20, false, &alternatives) || !boolean_of(r, &r->root, "logprobs", &wanted)) return false;
    if (top.node != ABSENT && !wanted) return deny(r, &top, "invalid_value");
    if (wanted) r->logprobs = alternatives;
    return true;
}

bool read_chat(request *r) {
    const field *body = &r->root;
    const field functions = member_of(r, body, "functions"), call = member_of(r, body, "function_call");
    const field effort = member_of(r, body, "reasoning_effort");
    text model;
    if (!r->dialect) return deny_plainly(r, "no_chat_template");
    if (!text_of(r, body, "model", &model) || !read_conversation(r)) return false;
    const bool none = node_is_kind(&r->body, functions.node, JSON_ARRAY) && r->body.nodes[functions.node].first == 0;
    if (!deny_unless(r, &functions, none) || !deny_unless(r, &call, node_is(&r->body, call.node, "none"))) return false;
    if (!read_tools(r) || !read_thinking(r, &model) || !read_text(r, &effort, &r->effort)) return false;
    if (r->effort.there && !is_effort(r->effort.data)) return deny(r, &effort, "invalid_value");
    return read_options(r) && read_logprobs(r);
}
