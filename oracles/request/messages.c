/* messages.c - the body of `messages`, but for its conversation. */
#include "oracles/request/request.h"
#include "oracles/request/turns.h"

static bool copy_tool(request *r, const field *tool) {
    const field named = member_of(r, tool, "type");
    buffer *out = &r->tools.data;
    text type, name, description;
    field schema;
    bytes name_there;
    if (!read_text(r, &named, &type) || !object_of(r, tool, "input_schema", &schema) || !text_of(r, tool, "name", &name)) return false;
    if (schema.node == ABSENT) {
        if (begins_with(type.data, "tool_search_")) return true;
        return type.there && !word_is(type.data, "custom") ? deny(r, &named, "unsupported_parameter") : deny(r, &schema, "missing_field");
    }
    if (!name_of(r, tool, "name", &name_there) || !text_of(r, tool, "description", &description)) return false;
    buffer_text(out, "{\"type\": \"function\", \"function\": ");
    put_key(out, "{", "name");
    json_write_string(name_there, out);
    if (description.there) put_pair(out, "description", description.data);
    put_key(out, ", ", "parameters");
    json_write(&r->body, schema.node, out);
    buffer_text(out, "}}");
    line_end(&r->tools);
    return true;
}

static bool read_tools(request *r) {
    field tools;
    if (!objects_of(r, &r->root, "tools", &tools)) return false;
    for (field tool = first_of(r, &tools); tool.node != ABSENT; step(r, &tool))
        if (!copy_tool(r, &tool)) return false;
    return true;
}

static bool read_effort(request *r, const field *config) {
    const field inner = member_of(r, config, "effort"), outer = member_of(r, &r->root, "reasoning_effort");
    const field *f = inner.node != ABSENT ? &inner : &outer;
    if (!read_text(r, f, &r->effort)) return false;
    return !r->effort.there || is_effort(r->effort.data) || deny(r, f, "invalid_value");
}

static bool read_thinking(request *r, const field *thinking, const text *model) {
    static const char *const types[] = {"enabled", "disabled", "adaptive", "between_tools"};
    const field f = member_of(r, thinking, "type");
    text type;
    bool known = false;
    if (!read_text(r, &f, &type)) return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) known = known || word_is(type.data, types[i]);
    if (!known && count_of(r, thinking->node) > 0) return deny(r, &f, "invalid_value");
    if (!integer_of(r, thinking, "budget_tokens", 0, MOST, true, &r->thought)) return false;
    if (word_is(type.data, "enabled")) r->thinking = 1;
    else if (word_is(type.data, "disabled")) r->thinking = 0;
    else if (r->thinks && !type.there && !r->effort.there) r->thinking = alias_of(model) == 1;
    return true;
}

static bool read_budget(request *r) {
    const field f = member_of(r, &r->root, "max_tokens");
    if (!read_integer(r, &f, 0, MOST, true, &r->budget)) return false;
    if (!r->budget.there) return deny(r, &f, "missing_field");
    r->warms = r->budget.value == 0;
    if (r->warms) r->budget.value = 1;
    return true;
}

/* ---- cache_control ---- */

static bool controls(const request *r, size_t node) { return find_member(&r->body, node, "cache_control") != ABSENT; }

static bool element_controls(const request *r, size_t array) {
    if (!node_is_kind(&r->body, array, JSON_ARRAY)) return false;
    for (size_t i = r->body.nodes[array].first; i != 0; i = r->body.nodes[i].next)
        if (controls(r, i)) return true;
    return false;
}

static bool asks_for_caching(const request *r) {
    const size_t messages = find_member(&r->body, 0, "messages"); /* an array: it has been read */
    if (controls(r, 0) || element_controls(r, find_member(&r->body, 0, "tools")) || element_controls(r, find_member(&r->body, 0, "system")))
        return true;
    for (size_t i = r->body.nodes[messages].first; i != 0; i = r->body.nodes[i].next)
        if (element_controls(r, find_member(&r->body, i, "content"))) return true;
    return false;
}

static bool read_rest(request *r, const field *thinking) {
    const field *body = &r->root, shown = member_of(r, thinking, "display");
    field metadata;
    text user, display;
    if (!read_sampling(r) || !read_stops(r, "stop_sequences") || !object_of(r, body, "metadata", &metadata) ||
        !text_of(r, &metadata, "user_id", &user))
        return false;
    if (!boolean_of(r, body, "stream", &r->stream) || !boolean_of(r, body, "cache_prompt", &r->cache_prompt) ||
        !boolean_of(r, body, "ignore_eos", &r->ignore_eos) || !read_text(r, &shown, &display))
        return false;
    r->hides = word_is(display.data, "omitted");
    return !display.there || r->hides || word_is(display.data, "summarized") || deny(r, &shown, "invalid_value");
}

bool read_messages(request *r) {
    const field *body = &r->root, servers = member_of(r, body, "mcp_servers");
    field config, thinking;
    text model;
    if (!r->dialect) return deny_plainly(r, "no_chat_template");
    if (!text_of(r, body, "model", &model) || !read_tools(r) || !object_of(r, body, "output_config", &config)) return false;
    if (!deny_unless(r, &servers, node_is_kind(&r->body, servers.node, JSON_ARRAY) && r->body.nodes[servers.node].first == 0)) return false;
    if (!read_effort(r, &config) || !object_of(r, body, "thinking", &thinking) || !read_thinking(r, &thinking, &model)) return false;
    if (!read_turns(r) || !read_budget(r) || !read_rest(r, &thinking)) return false;
    if (!r->thinks) r->effort.there = false;
    r->caches = asks_for_caching(r);
    return true;
}
