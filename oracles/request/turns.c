/* turns.c - the conversation of `messages`: what follows each other from one side is one turn. */
#include "oracles/request/blocks.h"
#include "oracles/request/turns.h"

typedef enum { NOBODY, USER, ASSISTANT } side;

typedef struct turns {
    side open;
    bool begun;   /* there has been a turn */
    bool results; /* the user's turn has some; they are messages already */
    bool prompted;
    buffer system, said, thought, calls;
} turns;

static void close_line(request *r) {
    buffer_text(&r->messages.data, "}");
    line_end(&r->messages);
}

/* The system prompt is complete once a turn begins, or at the end. */
static void prompt(request *r, turns *t) {
    if (t->prompted) return;
    t->prompted = true;
    if (t->system.length == 0) return;
    put_message(&r->messages.data, "system", bytes_in(&t->system));
    close_line(r);
}

/* `over`: nothing comes behind it. */
static void end_turn(request *r, turns *t, bool over) {
    buffer *out = &r->messages.data;
    if (t->open == USER && (t->said.length > 0 || !t->results)) {
        put_message(out, "user", bytes_in(&t->said));
        close_line(r);
    }
    if (t->open == ASSISTANT) {
        put_message(out, "assistant", bytes_in(&t->said));
        if (t->thought.length > 0) put_pair(out, "reasoning_content", bytes_in(&t->thought));
        if (t->calls.length > 0) {
            put_key(out, ", ", "tool_calls");
            buffer_text(out, "[");
            buffer_put(out, bytes_in(&t->calls));
            buffer_text(out, "]");
        } else if (over) {
            buffer_text(out, ", \"prefix\": true");
        }
        close_line(r);
    }
    t->open = NOBODY;
    t->results = false;
    t->said.length = t->thought.length = t->calls.length = 0;
}

static void begin_turn(request *r, turns *t, side whose) {
    if (t->open == whose) return;
    prompt(r, t);
    end_turn(r, t, false);
    t->open = whose;
    t->begun = true;
}

/* ---- by role ---- */

static bool read_user(request *r, turns *t, const field *content) {
    text whole;
    begin_turn(r, t, USER);
    if (node_is_kind(&r->body, content->node, JSON_STRING)) {
        if (!read_text(r, content, &whole)) return false;
        put_paragraph(&t->said, whole.data);
        return true;
    }
    if (!some_objects(r, content)) return false;
    for (field block = first_of(r, content); block.node != ABSENT; step(r, &block)) {
        if (!node_is(&r->body, find_member(&r->body, block.node, "type"), "tool_result")) {
            if (!put_readable(r, &block, &t->said)) return false;
            continue;
        }
        if (!copy_result(r, &block, &r->messages)) return false;
        t->results = true;
    }
    return true;
}

static bool read_assistant_block(request *r, turns *t, const field *block) {
    const field type = member_of(r, block, "type");
    bytes part;
    if (node_is(&r->body, type.node, "text")) {
        if (!required_text(r, block, "text", &part)) return false;
        buffer_put(&t->said, part);
        return true;
    }
    if (node_is(&r->body, type.node, "thinking")) return put_thought(r, block, &t->thought);
    if (node_is(&r->body, type.node, "redacted_thinking")) return true;
    if (!node_is(&r->body, type.node, "tool_use")) return deny(r, &type, "invalid_value");
    if (t->calls.length > 0) buffer_text(&t->calls, ", ");
    return copy_call(r, block, &t->calls);
}

static bool read_assistant(request *r, turns *t, const field *content) {
    text whole;
    begin_turn(r, t, ASSISTANT);
    if (content->node == ABSENT) return true;
    if (node_is_kind(&r->body, content->node, JSON_STRING)) {
        if (!read_text(r, content, &whole)) return false;
        buffer_put(&t->said, whole.data);
        return true;
    }
    if (!some_objects(r, content)) return false;
    for (field block = first_of(r, content); block.node != ABSENT; step(r, &block))
        if (!read_assistant_block(r, t, &block)) return false;
    return true;
}

static bool read_system(request *r, turns *t, const field *content) {
    buffer said = {0};
    const bool good = put_system_text(r, content, &said);
    if (good && !t->begun) {
        put_paragraph(&t->system, bytes_in(&said));
    } else if (good) {
        begin_turn(r, t, USER);
        if (said.length > 0) {
            put_paragraph(&t->said, bytes_from("<system>\n"));
            buffer_put(&t->said, bytes_in(&said));
            buffer_text(&t->said, "\n</system>");
        }
    }
    r->no_memory = r->no_memory || said.failed;
    buffer_free(&said);
    return good;
}

static bool read_message(request *r, turns *t, const field *message) {
    text said;
    if (!node_is_kind(&r->body, message->node, JSON_OBJECT)) return deny(r, message, "invalid_type");
    const field role = member_of(r, message, "role"), content = member_of(r, message, "content");
    if (!read_text(r, &role, &said)) return false;
    if (word_is(said.data, "user")) return read_user(r, t, &content);
    if (word_is(said.data, "assistant")) return read_assistant(r, t, &content);
    if (word_is(said.data, "system")) return read_system(r, t, &content);
    return deny(r, &role, "invalid_value");
}

static bool read_all(request *r, turns *t) {
    const field f = member_of(r, &r->root, "messages"), system = member_of(r, &r->root, "system");
    if (!node_is_kind(&r->body, f.node, JSON_ARRAY)) return deny(r, &f, "invalid_type");
    if (r->body.nodes[f.node].first == 0) return deny(r, &f, "invalid_value");
    if (system.node != ABSENT && !put_system_text(r, &system, &t->system)) return false;
    for (field message = first_of(r, &f); message.node != ABSENT; step(r, &message))
        if (!read_message(r, t, &message)) return false;
    prompt(r, t);
    end_turn(r, t, true);
    return true;
}

bool read_turns(request *r) {
    turns t = {0};
    const bool good = read_all(r, &t);
    r->no_memory = r->no_memory || t.system.failed || t.said.failed || t.thought.failed || t.calls.failed;
    buffer_free(&t.system);
    buffer_free(&t.said);
    buffer_free(&t.thought);
    buffer_free(&t.calls);
    return good;
}
