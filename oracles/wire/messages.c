/* messages.c - Anthropic's Messages: blocks one after the other. */
#include <stdlib.h>

#include "oracles/wire/wire.h"

typedef enum { NONE, TEXT, THINKING, TOOL } block_kind;

/* A block of the whole message. */
typedef struct block {
    block_kind kind;
    const event *call; /* of a tool block */
    buffer text;       /* or thought, or arguments */
    bool gone;
} block;

struct messages_state {
    const wire *w;
    bool failed;
    const event *finish;
    block_kind open; /* of the stream */
    size_t index;    /* the open block's number, or the next one's */
    buffer hidden;   /* of the open thinking block */
    block *blocks;
    size_t count;
};

messages_state *messages_new(const wire *w) {
    messages_state *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->w = w;
    s->blocks = calloc(w->event_count + 1, sizeof *s->blocks);
    if (s->blocks == NULL) {
        free(s);
        return NULL;
    }
    return s;
}

void messages_free(messages_state *s) {
    if (s == NULL) return;
    for (size_t i = 0; i < s->count; i++) buffer_free(&s->blocks[i].text);
    free(s->blocks);
    buffer_free(&s->hidden);
    free(s);
}

/* ---- pieces ---- */

static void begin_event(buffer *out, const char *name) { put_format(out, "event: %s\ndata: {\"type\":\"%s\"", name, name); }

static void end_event(buffer *out) { buffer_text(out, "}\n\n"); }

static void put_signature(const messages_state *s, bytes hidden, buffer *out) {
    if (!s->w->hides) {
        put_string(out, s->w->id);
        return;
    }
    buffer_text(out, "\"ds4-thinking:");
    put_base64(out, hidden, true);
    buffer_text(out, "\"");
}

static void put_stop(const messages_state *s, buffer *out) {
    const event *f = s->finish;
    buffer_text(out, "\"stop_reason\":");
    if (s->w->warms || f->reason == LENGTH) {
        buffer_text(out, "\"max_tokens\",\"stop_sequence\":null");
    } else if (f->reason == TOOL_CALLS) {
        buffer_text(out, "\"tool_use\",\"stop_sequence\":null");
    } else if (!f->stop.there) {
        buffer_text(out, "\"end_turn\",\"stop_sequence\":null");
    } else {
        buffer_text(out, "\"stop_sequence\",\"stop_sequence\":");
        put_string(out, f->stop.text);
    }
}

static void put_usage(const messages_state *s, buffer *out, const char *tail) {
    const event *f = s->finish;
    const int64_t computed = f->prompt - f->cached, written = s->w->writes ? computed - 1 : 0;
    put_format(out, "\"usage\":{\"input_tokens\":%lld,\"cache_creation_input_tokens\":%lld,\"cache_read_input_tokens\":%lld",
               (long long)(computed - written), (long long)written, (long long)f->cached);
    put_format(out, ",\"output_tokens\":%lld,\"output_tokens_details\":{\"thinking_tokens\":%lld}%s}",
               (long long)(s->w->warms ? 0 : f->completion), (long long)(s->w->warms ? 0 : f->thought), tail);
}

static void put_message_head(const messages_state *s, buffer *out) {
    buffer_text(out, "{\"id\":");
    put_string(out, s->w->id);
    buffer_text(out, ",\"type\":\"message\",\"role\":\"assistant\"");
    put_named(out, "model", s->w->model);
    buffer_text(out, ",\"content\":[");
}

/* ---- the stream ---- */

static void put_block_delta(const messages_state *s, buffer *out, const char *type, const char *name, bytes text) {
    begin_event(out, "content_block_delta");
    put_format(out, ",\"index\":%zu,\"delta\":{\"type\":\"%s\"", s->index, type);
    put_named(out, name, text);
    buffer_text(out, "}");
    end_event(out);
}

static void end_block(messages_state *s, buffer *out) {
    if (s->open == NONE) return;
    if (s->open == THINKING) {
        begin_event(out, "content_block_delta");
        put_format(out, ",\"index\":%zu,\"delta\":{\"type\":\"signature_delta\",\"signature\":", s->index);
        put_signature(s, bytes_of(&s->hidden), out);
        buffer_text(out, "}");
        end_event(out);
    }
    begin_event(out, "content_block_stop");
    put_format(out, ",\"index\":%zu", s->index);
    end_event(out);
    s->open = NONE;
    s->index++;
    s->hidden.length = 0;
}

static void begin_block(messages_state *s, block_kind kind, const event *e, buffer *out) {
    end_block(s, out);
    s->open = kind;
    begin_event(out, "content_block_start");
    put_format(out, ",\"index\":%zu,\"content_block\":", s->index);
    if (kind == TEXT) {
        buffer_text(out, "{\"type\":\"text\",\"text\":\"\"}");
    } else if (kind == THINKING) {
        buffer_text(out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    } else {
        buffer_text(out, "{\"type\":\"tool_use\"");
        put_named(out, "id", e->id);
        put_named(out, "name", e->name);
        buffer_text(out, ",\"input\":{}}");
    }
    end_event(out);
}

static void put_streamed(messages_state *s, const event *e, buffer *out) {
    const wire *w = s->w;
    switch (e->verb) {
    case OPEN:
        begin_event(out, "message_start");
        buffer_text(out, ",\"message\":");
        put_message_head(s, out);
        put_format(out, "],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%lld,", (long long)w->prompt);
        buffer_text(out, "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":0,");
        buffer_text(out, "\"service_tier\":\"standard\"}}");
        end_event(out);
        break;
    case DELTA:
        if (w->warms) break;
        if (s->open != TEXT) begin_block(s, TEXT, e, out);
        put_block_delta(s, out, "text_delta", "text", e->text);
        break;
    case REASONING:
        if (w->warms) break;
        if (s->open != THINKING) begin_block(s, THINKING, e, out);
        if (w->hides) {
            buffer_put(&s->hidden, e->text);
        } else {
            put_block_delta(s, out, "thinking_delta", "thinking", e->text);
        }
        break;
    case CALL:
        if (w->warms) break;
        if (e->id.length > 0) begin_block(s, TOOL, e, out);
        if (e->text.length > 0) put_block_delta(s, out, "input_json_delta", "partial_json", e->text);
        break;
    case FINISH:
        end_block(s, out);
        begin_event(out, "message_delta");
        buffer_text(out, ",\"delta\":{");
        put_stop(s, out);
        buffer_text(out, "},");
        put_usage(s, out, "");
        end_event(out);
        break;
    case ALIVE:
        begin_event(out, "ping");
        end_event(out);
        break;
    case FAIL:
        buffer_text(out, "event: error\ndata: ");
        put_anthropic_error(out, e, w->request);
        buffer_text(out, "\n\n");
        break;
    case CLOSE:
        if (s->failed) break;
        begin_event(out, "message_stop");
        end_event(out);
        break;
    default: break;
    }
    if (s->hidden.failed) out->failed = true;
}

/* ---- the whole message ---- */

static block *last_block(messages_state *s) {
    for (size_t i = s->count; i-- > 0;)
        if (!s->blocks[i].gone) return &s->blocks[i];
    return NULL;
}

static void collect(messages_state *s, const event *e) {
    block *last = last_block(s);
    if (e->verb == DELTA || e->verb == REASONING) {
        const block_kind kind = e->verb == DELTA ? TEXT : THINKING;
        if (last == NULL || last->kind != kind) {
            last = &s->blocks[s->count++];
            last->kind = kind;
        }
        buffer_put(&last->text, e->text);
    } else if (e->verb == CALL && e->id.length > 0) {
        block *b = &s->blocks[s->count++];
        b->kind = TOOL;
        b->call = e;
        buffer_put(&b->text, e->text);
    } else if (e->verb == CALL) {
        for (size_t i = s->count; i-- > 0 && e->text.length > 0;) {
            if (s->blocks[i].kind != TOOL || s->blocks[i].call->index != e->index) continue;
            buffer_put(&s->blocks[i].text, e->text);
            break;
        }
    } else if (e->verb == VOID) {
        for (size_t i = 0; i < s->count; i++)
            if (s->blocks[i].kind == TOOL && s->blocks[i].call->index >= e->index) s->blocks[i].gone = true;
    }
}

static bool put_block(const messages_state *s, const block *b, buffer *out) {
    const bytes text = bytes_of(&b->text);
    bool memory = !b->text.failed;
    if (b->kind == TEXT) {
        buffer_text(out, "{\"type\":\"text\"");
        put_named(out, "text", text);
    } else if (b->kind == THINKING) {
        buffer_text(out, "{\"type\":\"thinking\"");
        put_named(out, "thinking", s->w->hides ? (bytes){0} : text);
        buffer_text(out, ",\"signature\":");
        put_signature(s, text, out);
    } else {
        buffer_text(out, "{\"type\":\"tool_use\"");
        put_named(out, "id", b->call->id);
        put_named(out, "name", b->call->name);
        buffer_text(out, ",\"input\":");
        memory = put_certain(out, text) && memory;
    }
    buffer_text(out, "}");
    return memory;
}

static bool put_whole(const messages_state *s, buffer *out) {
    bool any = false, memory = true;
    put_message_head(s, out);
    for (size_t i = 0; i < s->count && !s->w->warms; i++) {
        if (s->blocks[i].gone) continue;
        if (any) buffer_text(out, ",");
        any = true;
        memory = put_block(s, &s->blocks[i], out) && memory;
    }
    buffer_text(out, "],");
    put_stop(s, out);
    buffer_text(out, ",");
    put_usage(s, out, ",\"service_tier\":\"standard\"");
    buffer_text(out, "}");
    return memory;
}

bool messages_take(messages_state *s, const event *e, buffer *out) {
    if (e->verb == FINISH) s->finish = e;
    if (e->verb == FAIL) s->failed = true;
    if (e->verb == WHOLE) return put_whole(s, out);
    if (s->w->streamed) {
        put_streamed(s, e, out);
    } else {
        collect(s, e);
        if (e->verb == FAIL) put_anthropic_error(out, e, s->w->request);
    }
    return true;
}
