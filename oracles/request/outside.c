/* outside.c - fields of which the contract does not speak yet. */
#include "oracles/request/request.h"

static size_t of_body(const request *r, const char *name) { return find_member(&r->body, 0, name); }

/* `{}`, and for a format also `{"type": "text"}`. */
static bool is_empty_object(const request *r, size_t node) {
    return node_is_kind(&r->body, node, JSON_OBJECT) && r->body.nodes[node].first == 0;
}

static bool is_plain_format(const request *r, size_t node) {
    if (is_empty_object(r, node)) return true;
    return node_is(&r->body, find_member(&r->body, node, "type"), "text") && count_of(r, node) == 1;
}

static bool absent_or(size_t node, bool harmless) { return node == ABSENT || harmless; }

static bool absent_or_false(const request *r, size_t node) { return absent_or(node, node_is_kind(&r->body, node, JSON_FALSE)); }

/* What is asked of a tool: whether it is harmless. */
typedef bool (*tool_test)(const request *r, size_t tool);

static bool chat_tool_is_loose(const request *r, size_t tool) {
    return absent_or_false(r, find_member(&r->body, find_member(&r->body, tool, "function"), "strict"));
}

static bool tool_is_loose(const request *r, size_t tool) { return absent_or_false(r, find_member(&r->body, tool, "strict")); }

static bool tool_takes_text(const request *r, size_t tool) {
    const size_t format = find_member(&r->body, tool, "format");
    if (format == ABSENT || !node_is(&r->body, find_member(&r->body, tool, "type"), "custom")) return true;
    const size_t type = find_member(&r->body, format, "type");
    return node_is_kind(&r->body, format, JSON_OBJECT) && absent_or(type, node_is(&r->body, type, "text"));
}

/* Of all elements of the array `tools`; `levels` is 2 where these may have tools of their own. */
static bool all_tools(const request *r, size_t tools, int levels, tool_test good) {
    if (!node_is_kind(&r->body, tools, JSON_ARRAY)) return true;
    for (size_t i = r->body.nodes[tools].first; i != 0; i = r->body.nodes[i].next) {
        if (!good(r, i)) return false;
        if (levels > 1 && !all_tools(r, find_member(&r->body, i, "tools"), levels - 1, good)) return false;
    }
    return true;
}

static const char *outside_chat(const request *r) {
    const size_t choice = of_body(r, "tool_choice"), parallel = of_body(r, "parallel_tool_calls"), format = of_body(r, "response_format");
    if (!absent_or(choice, node_is(&r->body, choice, "auto"))) return "tool_choice";
    if (!absent_or(parallel, node_is_kind(&r->body, parallel, JSON_TRUE))) return "parallel_tool_calls";
    if (!absent_or(format, is_plain_format(r, format))) return "response_format";
    if (find_member(&r->body, of_body(r, "thinking"), "budget_tokens") != ABSENT) return "thinking.budget_tokens";
    return all_tools(r, of_body(r, "tools"), 1, chat_tool_is_loose) ? NULL : "tools.strict";
}

static const char *outside_completions(const request *r) {
    const size_t format = of_body(r, "response_format");
    return absent_or(format, is_plain_format(r, format)) ? NULL : "response_format";
}

static const char *outside_messages(const request *r) {
    const size_t choice = of_body(r, "tool_choice"), format = find_member(&r->body, of_body(r, "output_config"), "format"),
                 older = of_body(r, "output_format");
    const bool automatic = node_is(&r->body, find_member(&r->body, choice, "type"), "auto") &&
                           absent_or_false(r, find_member(&r->body, choice, "disable_parallel_tool_use"));
    if (!absent_or(choice, automatic)) return "tool_choice";
    if (!absent_or(format, is_empty_object(r, format))) return "output_config.format";
    if (!absent_or(older, is_empty_object(r, older))) return "output_format";
    return all_tools(r, of_body(r, "tools"), 1, tool_is_loose) ? NULL : "tools.strict";
}

static const char *outside_responses(const request *r) {
    const size_t choice = of_body(r, "tool_choice"), format = find_member(&r->body, of_body(r, "text"), "format"), tools = of_body(r, "tools");
    if (!absent_or(choice, node_is(&r->body, choice, "auto"))) return "tool_choice";
    if (!absent_or(format, is_plain_format(r, format))) return "text.format";
    if (find_member(&r->body, of_body(r, "thinking"), "budget_tokens") != ABSENT) return "thinking.budget_tokens";
    if (!all_tools(r, tools, 2, tool_is_loose)) return "tools.strict";
    return all_tools(r, tools, 2, tool_takes_text) ? NULL : "tools.format";
}

const char *outside_of(const request *r) {
    static const char *const everywhere[] = {"grammar", "regex", "thinking_budget"};
    for (size_t i = 0; i < sizeof everywhere / sizeof *everywhere; i++)
        if (of_body(r, everywhere[i]) != ABSENT) return everywhere[i];
    if (r->surface != COMPLETIONS && find_member(&r->body, of_body(r, "reasoning"), "max_tokens") != ABSENT) return "reasoning.max_tokens";
    if (r->surface != MESSAGES && !absent_or_false(r, find_member(&r->body, of_body(r, "stream_options"), "include_progress")))
        return "stream_options.include_progress";
    switch (r->surface) {
    case CHAT: return outside_chat(r);
    case COMPLETIONS: return outside_completions(r);
    case MESSAGES: return outside_messages(r);
    default: return outside_responses(r);
    }
}
