/* encoder.c - a conversation as the prompt of DeepSeek V4, told apart into special tokens and plain text. */
#include <string.h>

#include "oracles/common/json.h"
#include "oracles/common/oracle.h"
#include "oracles/encoder/conversation.h"

#define BOS "<｜begin▁of▁sentence｜>"
#define EOS "<｜end▁of▁sentence｜>"
#define USER "<｜User｜>"
#define ASSISTANT "<｜Assistant｜>"
#define REMINDER "<｜latest_reminder｜>"
#define THINK "<think>"
#define ENDTHINK "</think>"
#define DSML "｜DSML｜"

static const char think_max[] =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, "
    "rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered alternative, "
    "and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n";

static const char tools_head[] =
    "## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "
    "\"<" DSML "tool_calls>\" block like the following:\n\n"
    "<" DSML "tool_calls>\n"
    "<" DSML "invoke name=\"$TOOL_NAME\">\n"
    "<" DSML "parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</" DSML "parameter>\n"
    "...\n"
    "</" DSML "invoke>\n"
    "<" DSML "invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</" DSML "invoke>\n"
    "</" DSML "tool_calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types (numbers, booleans, arrays, "
    "objects), pass the value in JSON format and set `string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by " THINK "), you MUST output your complete reasoning inside " THINK "..." ENDTHINK
    " BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after " ENDTHINK " with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";

static const char tools_tail[] =
    "\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";

static const char format_head[] = "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

/* ---- segments ---- */

typedef struct prompt {
    const conversation *c;
    tape *out;
    buffer plain; /* the stretch that is not ended yet */
    buffer json;  /* scratch */
    bool failed;
} prompt;

static void segment(prompt *p, const char *kind, bytes text) {
    tape_word(p->out, kind);
    tape_bytes(p->out, text.data, text.length);
    tape_end(p->out);
}

static void end_plain(prompt *p) {
    if (p->plain.length > 0) segment(p, "plain", (bytes){p->plain.data, p->plain.length});
    p->plain.length = 0;
}

static void special(prompt *p, const char *token) {
    end_plain(p);
    segment(p, "special", (bytes){(const uint8_t *)token, strlen(token)});
}

static void plain(prompt *p, bytes text) { buffer_put(&p->plain, text); }

static bool begins_with(bytes text, size_t at, const char *what) {
    const size_t n = strlen(what);
    return text.length - at >= n && memcmp(text.data + at, what, n) == 0;
}

/* The first of the tokens that stands at `at`, or NULL. */
static const char *token_at(bytes text, size_t at, const char *const *tokens) {
    for (; *tokens != NULL; tokens++)
        if (begins_with(text, at, *tokens)) return *tokens;
    return NULL;
}

/* The tokens in it are special, the rest is plain. */
static void mixed(prompt *p, bytes text, const char *const *tokens) {
    size_t begun = 0;
    for (size_t at = 0; at < text.length;) {
        const char *token = token_at(text, at, tokens);
        if (token == NULL) {
            at++;
            continue;
        }
        plain(p, (bytes){text.data + begun, at - begun});
        special(p, token);
        begun = at += strlen(token);
    }
    if (begun < text.length) plain(p, (bytes){text.data + begun, text.length - begun});
}

/* Of the layout's own wording. */
static void layout(prompt *p, const char *text) {
    static const char *const tokens[] = {DSML, THINK, ENDTHINK, NULL};
    mixed(p, (bytes){(const uint8_t *)text, strlen(text)}, tokens);
}

/* Plain, where each `sentinel`, which begins with '<', gets `less` for that. */
static void escaped(prompt *p, bytes text, const char *sentinel, const char *less) {
    size_t begun = 0;
    for (size_t at = 0; at < text.length; at++) {
        if (!begins_with(text, at, sentinel)) continue;
        plain(p, (bytes){text.data + begun, at - begun});
        buffer_text(&p->plain, less);
        begun = at + 1;
    }
    if (begun < text.length) plain(p, (bytes){text.data + begun, text.length - begun});
}

/* ---- JSON ---- */

/* False: no JSON, or no memory (`failed`). The value is to be freed in any case. */
static bool read_json(prompt *p, bytes text, json *value) {
    const json_outcome outcome = json_read(text, JSON_CONSTANTS | JSON_INTEGER_LIMIT, value);
    if (outcome == JSON_NO_MEMORY) p->failed = true;
    return outcome == JSON_READ;
}

/* As JSON; it stays until the next call. */
static bytes as_json(prompt *p, const json *value, size_t node) {
    p->json.length = 0;
    json_write(value, node, &p->json);
    return (bytes){p->json.data, p->json.length};
}

/* ---- calls ---- */

static void write_parameter(prompt *p, bytes key, bytes value, bool is_string) {
    layout(p, "<" DSML "parameter name=\"");
    plain(p, key);
    layout(p, is_string ? "\" string=\"true\">" : "\" string=\"false\">");
    escaped(p, value, "</" DSML "parameter>", is_string ? "&lt;" : "\\u003c");
    layout(p, "</" DSML "parameter>");
}

static void write_arguments(prompt *p, bytes arguments) {
    static const bytes key = {(const uint8_t *)"arguments", 9};
    json value;
    if (!read_json(p, arguments, &value) || value.nodes[0].kind != JSON_OBJECT) {
        write_parameter(p, key, arguments, true);
    } else {
        for (size_t i = value.nodes[0].first; i != 0; i = value.nodes[i].next) {
            const json_node *member = &value.nodes[i];
            const bool is_string = member->kind == JSON_STRING;
            write_parameter(p, member->key, is_string ? member->text : as_json(p, &value, i), is_string);
            if (member->next != 0) layout(p, "\n");
        }
    }
    json_free(&value);
}

static void write_calls(prompt *p, const turn *t) {
    layout(p, "\n\n<" DSML "tool_calls>\n");
    for (size_t i = 0; i < t->calls.count; i++) {
        const call *one = &p->c->calls[t->calls.first + i];
        if (i > 0) layout(p, "\n");
        layout(p, "<" DSML "invoke name=\"");
        plain(p, one->name);
        layout(p, "\">\n");
        write_arguments(p, one->arguments);
        layout(p, "\n</" DSML "invoke>");
    }
    layout(p, "\n</" DSML "tool_calls>");
}

/* ---- items ---- */

static void write_tools(prompt *p, const turn *t) {
    if (t->tools.count == 0) return;
    layout(p, "\n\n");
    layout(p, tools_head);
    for (size_t i = 0; i < t->tools.count; i++) {
        json value;
        if (read_json(p, p->c->tools[t->tools.first + i], &value)) plain(p, as_json(p, &value, 0));
        json_free(&value);
        layout(p, "\n");
    }
    layout(p, tools_tail);
}

static void write_format(prompt *p, const turn *t) {
    json value;
    if (!t->has_format) return;
    if (read_json(p, t->format, &value) && json_truth(&value.nodes[0])) {
        layout(p, format_head);
        plain(p, as_json(p, &value, 0));
    }
    json_free(&value);
}

static void write_instructions(prompt *p, const turn *t) {
    plain(p, t->content);
    write_tools(p, t);
    write_format(p, t);
}

static void write_user(prompt *p, const turn *const *parts, size_t count) {
    special(p, USER);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) layout(p, "\n\n");
        if (parts[i]->role == ROLE_TOOL) {
            layout(p, "<tool_result>");
            escaped(p, parts[i]->content, "</tool_result>", "&lt;");
            layout(p, "</tool_result>");
        } else {
            plain(p, parts[i]->content);
        }
    }
}

static void write_assistant(prompt *p, const turn *t, bool reasoning) {
    static const char *const dsml[] = {DSML, NULL};
    if (reasoning) {
        plain(p, t->reasoning);
        special(p, ENDTHINK);
    }
    plain(p, t->content);
    if (t->has_replay) mixed(p, t->replay, dsml);
    else if (t->calls.count > 0) write_calls(p, t);
    if (!t->open) special(p, EOS);
}

static void write_item(prompt *p, const plan *plan, size_t place) {
    const item *at = &plan->items[place];
    const turn *const *parts = (const turn *const *)plan->turns + at->first;
    switch (at->role) {
    case ROLE_SYSTEM: write_instructions(p, *parts); break;
    case ROLE_DEVELOPER:
        special(p, USER);
        write_instructions(p, *parts);
        break;
    case ROLE_USER: write_user(p, parts, at->count); break;
    case ROLE_REMINDER:
        special(p, REMINDER);
        plain(p, (*parts)->content);
        break;
    case ROLE_ASSISTANT:
        write_assistant(p, *parts, p->c->thinking && (!plan->dropping || (ptrdiff_t)place > plan->last));
        break;
    default: break;
    }
}

/* The assistant's turn is opened behind what it answers. */
static void write_opening(prompt *p, const plan *plan, size_t place) {
    const role role = plan->items[place].role;
    if (role != ROLE_USER && role != ROLE_DEVELOPER) return;
    if (place + 1 < plan->count && plan->items[place + 1].role != ROLE_ASSISTANT && plan->items[place + 1].role != ROLE_REMINDER) return;
    special(p, ASSISTANT);
    special(p, p->c->thinking && (!plan->dropping || (ptrdiff_t)place >= plan->last) ? THINK : ENDTHINK);
}

static int encode(const conversation *c, tape *out) {
    plan plan;
    prompt p = {.c = c, .out = out};
    if (plan_make(c, &plan)) {
        special(&p, BOS);
        if (plan.count > 0 && c->thinking && c->max) layout(&p, think_max);
        for (size_t i = 0; i < plan.count && !p.failed; i++) {
            write_item(&p, &plan, i);
            write_opening(&p, &plan, i);
        }
        end_plain(&p);
    } else {
        p.failed = true;
    }
    plan_free(&plan);
    const bool failed = p.failed || p.plain.failed || p.json.failed;
    buffer_free(&p.plain);
    buffer_free(&p.json);
    return failed ? ORACLE_NO_MEMORY : ORACLE_OK;
}

/* ---- verdicts ---- */

static const char *fault_of(const turn *t) {
    if (t->role == ROLE_OTHER) return "encoder_role";
    if (t->role == ROLE_DEVELOPER && t->content.length == 0) return "encoder_content";
    if (t->role == ROLE_REMINDER && !t->has_content) return "encoder_content";
    return NULL;
}

static bool judge(const conversation *c, tape *out) {
    for (size_t i = 0; i < c->turn_count; i++) {
        const char *fault = fault_of(&c->turns[i]);
        if (fault == NULL) continue;
        tape_word(out, "error");
        tape_word(out, fault);
        tape_uint(out, i);
        tape_end(out);
        return false;
    }
    return true;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    conversation c;
    int rc = conversation_read(input, length, &c);
    if (rc == ORACLE_OK && judge(&c, out)) rc = encode(&c, out);
    conversation_free(&c);
    return rc;
}

const oracle_kind oracle_encoder = {"encoder", NULL, run, NULL};
