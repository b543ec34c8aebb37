/* responses.c - OpenAI's Responses: items one after the other, each told from its beginning to its end. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/wire/wire.h"

typedef enum { MESSAGE, THOUGHT, FUNCTION, CUSTOM } item_kind;
typedef enum { IN_PROGRESS, COMPLETED, INCOMPLETE } item_status;
static const char *const statuses[] = {"in_progress", "completed", "incomplete"};

typedef struct item {
    item_kind kind;
    item_status status;
    buffer id;
    bool taken_out;
    buffer text;      /* of a message or a thought; a function's arguments; a custom call's input */
    bool joined;      /* by a delta */
    buffer entries;   /* a message's: JSON, separated by commas */
    const event *call;
    const tool *tool; /* NULL: a function that nobody knows */
    custom_input input;
} item;

/* A call that has begun. */
typedef struct call {
    bool dropped, voided;
    size_t item; /* unless dropped */
} call;

typedef enum { QUEUED, RUNNING, DONE, CUT, FAILED, CANCELLED } state_kind;
static const char *const states[] = {"queued", "in_progress", "completed", "incomplete", "failed", "cancelled"};

struct responses_state {
    wire *w;
    state_kind state;
    bool unstored;
    const event *end; /* finish or fail */
    item *items;
    size_t count;
    size_t open; /* an item, or NOTHING */
    call *calls;
    size_t call_count;
    buffer late; /* what closing the open item says, when that is said at the end */
    uint64_t sequence;
};

#define NOTHING SIZE_MAX

responses_state *responses_new(wire *w) {
    responses_state *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->w = w;
    s->state = w->queued ? QUEUED : RUNNING;
    s->open = NOTHING;
    s->items = calloc(w->event_count + 1, sizeof *s->items);
    s->calls = calloc(w->event_count + 1, sizeof *s->calls);
    if (s->items == NULL || s->calls == NULL) {
        responses_free(s);
        return NULL;
    }
    return s;
}

void responses_free(responses_state *s) {
    if (s == NULL) return;
    for (size_t i = 0; i < s->count; i++) {
        buffer_free(&s->items[i].id);
        buffer_free(&s->items[i].text);
        buffer_free(&s->items[i].entries);
        buffer_free(&s->items[i].input.seen);
    }
    free(s->items);
    free(s->calls);
    buffer_free(&s->late);
    free(s);
}

/* ---- events: nothing of them is said if the answer is not streamed ---- */

static void begin_event(const responses_state *s, buffer *out, const char *name) {
    if (s->w->streamed) put_format(out, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void end_event(responses_state *s, buffer *out) {
    if (s->w->streamed) put_format(out, ",\"sequence_number\":%llu}\n\n", (unsigned long long)s->sequence++);
}

static size_t output_index(const responses_state *s, const item *it) {
    size_t n = 0;
    for (const item *i = s->items; i < it; i++) n += !i->taken_out;
    return n;
}

static bool has_part(const item *it) { return it->kind == MESSAGE || it->kind == THOUGHT; }

static void put_part(const responses_state *s, const item *it, buffer *out) {
    buffer_text(out, it->kind == MESSAGE   ? "{\"type\":\"output_text\",\"text\":"
                     : s->w->summary ? "{\"type\":\"summary_text\",\"text\":"
                                     : "{\"type\":\"reasoning_text\",\"text\":");
    put_string(out, bytes_of(&it->text));
    if (it->kind == MESSAGE) {
        buffer_text(out, ",\"annotations\":[],\"logprobs\":[");
        buffer_put(out, bytes_of(&it->entries));
        buffer_text(out, "]");
    }
    buffer_text(out, "}");
}

static void put_parts(const responses_state *s, const item *it, buffer *out) {
    buffer_text(out, "[");
    if (it->status != IN_PROGRESS || it->joined) put_part(s, it, out);
    buffer_text(out, "]");
}

static void put_item(const responses_state *s, const item *it, buffer *out) {
    static const char *const types[] = {"message", "reasoning", "function_call", "custom_tool_call"};
    buffer_text(out, "{\"id\":");
    put_string(out, bytes_of(&it->id));
    put_format(out, ",\"type\":\"%s\",\"status\":\"%s\"", types[it->kind], statuses[it->status]);
    if (it->kind == MESSAGE) {
        buffer_text(out, ",\"role\":\"assistant\",\"content\":");
        put_parts(s, it, out);
    } else if (it->kind == THOUGHT) {
        buffer_text(out, s->w->summary ? ",\"summary\":" : ",\"summary\":[],\"content\":");
        put_parts(s, it, out);
        if (s->w->sealed) {
            buffer_text(out, ",\"encrypted_content\":\"ds4:");
            put_base64(out, bytes_of(&it->text), false);
            buffer_text(out, "\"");
        }
    } else {
        put_named(out, "call_id", it->call->id);
        if (it->tool != NULL && it->tool->space.there && it->tool->space.text.length > 0)
            put_named(out, "namespace", it->tool->space.text);
        put_named(out, "name", it->tool != NULL ? it->tool->name : it->call->name);
        put_named(out, it->kind == FUNCTION ? "arguments" : "input", bytes_of(&it->text));
    }
    buffer_text(out, "}");
}

static void put_items(const responses_state *s, buffer *out) {
    bool any = false;
    buffer_text(out, "[");
    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i].taken_out) continue;
        if (any) buffer_text(out, ",");
        any = true;
        put_item(s, &s->items[i], out);
    }
    buffer_text(out, "]");
}

/* ---- the response ---- */

static void put_members(const responses_state *s, buffer *out) {
    bool stored = false;
    for (size_t i = 0; i < s->w->member_count; i++) {
        const member *m = &s->w->members[i];
        const bool is_store = word_is(m->name, "store");
        stored = stored || is_store;
        put_string(out, m->name);
        buffer_text(out, ":");
        buffer_put(out, is_store && s->unstored ? literal("false") : m->json);
        buffer_text(out, ",");
    }
    if (s->unstored && !stored) buffer_text(out, "\"store\":false,");
}

static void put_response(const responses_state *s, bool with_items, buffer *out) {
    const event *e = s->end;
    const bool finished = s->state == DONE || s->state == CUT;
    buffer_text(out, "{");
    put_members(s, out);
    buffer_text(out, "\"error\":");
    if (s->state == FAILED) {
        put_format(out, "{\"code\":\"%s\"", e->status == 429 ? "rate_limit_exceeded" : "server_error");
        put_named(out, "message", e->text);
        buffer_text(out, "}");
    } else {
        buffer_text(out, "null");
    }
    buffer_text(out, s->state == CUT ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}" : ",\"incomplete_details\":null");
    if (s->state == DONE) {
        put_format(out, ",\"completed_at\":%lld", (long long)s->w->finished);
    } else {
        buffer_text(out, ",\"completed_at\":null");
    }
    if (finished) {
        put_format(out, ",\"usage\":{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":%lld,\"cache_write_tokens\":%lld}",
                   (long long)e->prompt, (long long)e->cached, (long long)(e->prompt - e->cached));
        put_format(out, ",\"output_tokens\":%lld,\"output_tokens_details\":{\"reasoning_tokens\":%lld},\"total_tokens\":%lld}",
                   (long long)e->completion, (long long)e->thought, (long long)(e->prompt + e->completion));
    } else {
        buffer_text(out, ",\"usage\":null");
    }
    put_format(out, ",\"status\":\"%s\"", states[s->state]);
    if (finished) put_timings(out, &s->end, 1, 1);
    buffer_text(out, ",\"output\":");
    if (with_items) {
        put_items(s, out);
    } else {
        buffer_text(out, "[]");
    }
    buffer_text(out, "}");
}

static void say_response(responses_state *s, const char *name, bool with_items, buffer *out) {
    if (!s->w->streamed) return;
    begin_event(s, out, name);
    buffer_text(out, ",\"response\":");
    put_response(s, with_items, out);
    end_event(s, out);
}

/* ---- what is said about an item ---- */

static void put_where(const responses_state *s, const item *it, buffer *out) {
    buffer_text(out, ",\"item_id\":");
    put_string(out, bytes_of(&it->id));
    put_format(out, ",\"output_index\":%zu", output_index(s, it));
    if (has_part(it)) put_format(out, ",\"%s\":0", it->kind == THOUGHT && s->w->summary ? "summary_index" : "content_index");
}

static const char *delta_name(const responses_state *s, const item *it) {
    switch (it->kind) {
    case MESSAGE: return "response.output_text.delta";
    case THOUGHT: return s->w->summary ? "response.reasoning_summary_text.delta" : "response.reasoning_text.delta";
    case FUNCTION: return "response.function_call_arguments.delta";
    default: return "response.custom_tool_call_input.delta";
    }
}

static const char *done_name(const responses_state *s, const item *it) {
    switch (it->kind) {
    case MESSAGE: return "response.output_text.done";
    case THOUGHT: return s->w->summary ? "response.reasoning_summary_text.done" : "response.reasoning_text.done";
    case FUNCTION: return "response.function_call_arguments.done";
    default: return "response.custom_tool_call_input.done";
    }
}

static void say_item(responses_state *s, const char *name, const item *it, buffer *out) {
    if (!s->w->streamed) return;
    begin_event(s, out, name);
    put_format(out, ",\"output_index\":%zu,\"item\":", output_index(s, it));
    put_item(s, it, out);
    end_event(s, out);
}

static void say_part(responses_state *s, bool done, const item *it, buffer *out) {
    if (!s->w->streamed) return;
    const bool summary = it->kind == THOUGHT && s->w->summary;
    begin_event(s, out,
                summary ? (done ? "response.reasoning_summary_part.done" : "response.reasoning_summary_part.added")
                        : (done ? "response.content_part.done" : "response.content_part.added"));
    put_where(s, it, out);
    buffer_text(out, ",\"part\":");
    put_part(s, it, out);
    end_event(s, out);
}

/* entries: a message's new ones, else NULL. */
static void say_delta(responses_state *s, const item *it, bytes more, const event *entries, buffer *out) {
    if (!s->w->streamed) return;
    begin_event(s, out, delta_name(s, it));
    put_where(s, it, out);
    put_named(out, "delta", more);
    if (it->kind == MESSAGE) {
        buffer_text(out, ",\"logprobs\":");
        put_chat_entries(out, entries->tokens, entries->token_count);
    }
    end_event(s, out);
}

static void say_done(responses_state *s, const item *it, buffer *out) {
    if (!s->w->streamed) return;
    begin_event(s, out, done_name(s, it));
    put_where(s, it, out);
    if (it->kind == FUNCTION) put_named(out, "name", it->tool != NULL ? it->tool->name : it->call->name);
    put_named(out, has_part(it) ? "text" : it->kind == FUNCTION ? "arguments" : "input", bytes_of(&it->text));
    if (it->kind == MESSAGE) {
        buffer_text(out, ",\"logprobs\":[");
        buffer_put(out, bytes_of(&it->entries));
        buffer_text(out, "]");
    }
    end_event(s, out);
}

/* ---- items ---- */

/* NULL: no suffix is left. */
static item *begin(responses_state *s, item_kind kind, const event *call, const tool *known, buffer *out) {
    static const char *const prefixes[] = {"msg_", "rs_", "fc_", "ctc_"};
    if (s->w->suffix_used == s->w->suffix_count) return NULL;
    item *it = &s->items[s->count];
    s->open = s->count++;
    it->kind = kind;
    it->call = call;
    it->tool = known;
    buffer_text(&it->id, prefixes[kind]);
    buffer_put(&it->id, s->w->suffixes[s->w->suffix_used++]);
    say_item(s, "response.output_item.added", it, out);
    if (has_part(it)) say_part(s, false, it, out);
    return it;
}

/* False: no memory. */
static bool close_open(responses_state *s, item_status status, buffer *out) {
    if (s->open == NOTHING) return true;
    item *it = &s->items[s->open];
    bool memory = true;
    s->open = NOTHING;
    if (it->kind == CUSTOM && status == COMPLETED) {
        buffer more = {0};
        memory = custom_finish(&it->input, &more);
        if (more.length > 0) {
            buffer_put(&it->text, bytes_of(&more));
            say_delta(s, it, bytes_of(&more), NULL, out);
        }
        memory = memory && !more.failed;
        buffer_free(&more);
    }
    it->status = status;
    if (has_part(it) || status == COMPLETED) say_done(s, it, out);
    if (has_part(it)) say_part(s, true, it, out);
    say_item(s, "response.output_item.done", it, out);
    return memory && !it->text.failed && !it->entries.failed && !it->id.failed;
}

static int take_text(responses_state *s, const event *e, buffer *out) {
    const item_kind kind = e->verb == DELTA ? MESSAGE : THOUGHT;
    if (s->open == NOTHING || s->items[s->open].kind != kind) {
        if (!close_open(s, COMPLETED, out)) return ORACLE_NO_MEMORY;
        if (begin(s, kind, NULL, NULL, out) == NULL) return ORACLE_BAD_TAPE;
    }
    item *it = &s->items[s->open];
    const bool entries = kind == MESSAGE && e->token_count > 0;
    if (e->text.length == 0 && !entries) return ORACLE_OK;
    it->joined = true;
    buffer_put(&it->text, e->text);
    if (entries) {
        buffer list = {0};
        put_chat_entries(&list, e->tokens, e->token_count);
        if (list.failed) it->entries.failed = true;
        if (it->entries.length > 0) buffer_text(&it->entries, ",");
        if (list.length > 2) buffer_put(&it->entries, (bytes){list.data + 1, list.length - 2}); /* without the brackets */
        buffer_free(&list);
    }
    say_delta(s, it, e->text, e, out);
    return ORACLE_OK;
}

static int push(responses_state *s, item *it, bytes arguments, buffer *out) {
    buffer more = {0};
    if (it->kind == FUNCTION) {
        buffer_put(&more, arguments);
    } else {
        custom_push(&it->input, arguments, &more);
    }
    if (more.length > 0) {
        buffer_put(&it->text, bytes_of(&more));
        say_delta(s, it, bytes_of(&more), NULL, out);
    }
    const bool failed = more.failed;
    buffer_free(&more);
    return failed ? ORACLE_NO_MEMORY : ORACLE_OK;
}

static const tool *tool_named(const wire *w, bytes name) {
    for (size_t i = 0; i < w->tool_count; i++) {
        const tool *t = &w->tools[i];
        if (t->told.length == name.length && (name.length == 0 || memcmp(t->told.data, name.data, name.length) == 0)) return t;
    }
    return NULL;
}

static int take_call(responses_state *s, const event *e, buffer *out) {
    if (e->id.length > 0) {
        call *c = &s->calls[s->call_count];
        for (size_t i = 0; i < s->call_count && !s->w->parallel; i++)
            c->dropped = c->dropped || (!s->calls[i].voided && !s->calls[i].dropped);
        s->call_count++;
        if (c->dropped) return ORACLE_OK;
        const tool *known = tool_named(s->w, e->name);
        if (!close_open(s, COMPLETED, out)) return ORACLE_NO_MEMORY;
        c->item = s->count;
        if (begin(s, known != NULL && known->custom ? CUSTOM : FUNCTION, e, known, out) == NULL) return ORACLE_BAD_TAPE;
    }
    const call *c = &s->calls[e->index];
    if (c->dropped || e->text.length == 0) return ORACLE_OK;
    return push(s, &s->items[c->item], e->text, out);
}

static bool take_void(responses_state *s, const event *e, buffer *out) {
    bool memory = true;
    for (size_t i = (size_t)e->index; i < s->call_count; i++) {
        call *c = &s->calls[i];
        if (c->dropped || c->voided) continue;
        c->voided = true;
        if (s->open == c->item) memory = close_open(s, INCOMPLETE, out) && memory;
        if (!s->w->streamed) s->items[c->item].taken_out = true;
    }
    if (s->w->streamed) return memory;
    size_t last = s->count;
    while (last > 0 && s->items[last - 1].taken_out) last--;
    if (last > 0 && s->items[last - 1].kind == MESSAGE) {
        s->open = last - 1;
        s->items[s->open].status = IN_PROGRESS;
    }
    return memory;
}

static int take_end(responses_state *s, const event *e, buffer *out) {
    const item_status status = e->verb == FINISH && e->reason != LENGTH ? COMPLETED : INCOMPLETE;
    buffer *said = e->verb == CANCEL ? &s->late : out;
    const bool memory = close_open(s, status, said);
    s->state = e->verb == FAIL ? FAILED : e->verb == CANCEL ? CANCELLED : e->reason == LENGTH ? CUT : DONE;
    if (e->verb != CANCEL) s->end = e;
    if (e->verb == FAIL && !s->w->streamed) put_openai_error(out, e);
    return memory ? ORACLE_OK : ORACLE_NO_MEMORY;
}

int responses_take(responses_state *s, const event *e, buffer *out) {
    if (e->verb == DELTA || e->verb == REASONING || e->verb == CALL || e->verb == VOID || e->verb == ALIVE) s->state = RUNNING;
    switch (e->verb) {
    case OPEN:
        say_response(s, "response.created", true, out);
        say_response(s, "response.in_progress", true, out);
        return ORACLE_OK;
    case DELTA:
    case REASONING: return take_text(s, e, out);
    case CALL: return take_call(s, e, out);
    case VOID: return take_void(s, e, out) ? ORACLE_OK : ORACLE_NO_MEMORY;
    case FINISH:
    case FAIL:
    case CANCEL: return take_end(s, e, out);
    case ALIVE: say_response(s, "response.in_progress", false, out); return ORACLE_OK;
    case UNSTORED: s->unstored = true; return ORACLE_OK;
    case CLOSE:
        buffer_put(out, bytes_of(&s->late));
        if (s->late.failed) out->failed = true;
        say_response(s, s->state == DONE ? "response.completed" : s->state == FAILED ? "response.failed" : "response.incomplete", true,
                     out);
        return ORACLE_OK;
    default: put_response(s, true, out); return ORACLE_OK;
    }
}
