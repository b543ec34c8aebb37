/* openai.c - chat and completions: chunks of choices, and one body of them. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/utf8.h"
#include "oracles/wire/wire.h"

struct openai_state {
    const wire *w;
    const event **finishes; /* by choice; NULL: it goes on */
    size_t *characters;     /* by choice: of its text so far */
    bool failed;
};

openai_state *openai_new(const wire *w) {
    openai_state *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->w = w;
    s->finishes = calloc(w->choices, sizeof *s->finishes);
    s->characters = calloc(w->choices, sizeof *s->characters);
    if (s->finishes == NULL || s->characters == NULL) {
        openai_free(s);
        return NULL;
    }
    return s;
}

void openai_free(openai_state *s) {
    if (s == NULL) return;
    free(s->finishes);
    free(s->characters);
    free(s);
}

/* ---- pieces ---- */

static void put_head(const openai_state *s, buffer *out, bool chunk) {
    const wire *w = s->w;
    buffer_text(out, "{\"id\":");
    put_string(out, w->id);
    put_named(out, "object", literal(w->surface == COMPLETIONS ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion"));
    put_format(out, ",\"created\":%lld", (long long)w->created);
    put_named(out, "model", w->model);
    put_named(out, "system_fingerprint", w->fingerprint);
}

static void put_usage(const openai_state *s, buffer *out) {
    const wire *w = s->w;
    int64_t prompt = 0, cached = 0, completion = 0, thought = 0;
    for (size_t i = 0; i < w->choices; i++) {
        const event *f = s->finishes[i];
        completion += f->completion;
        thought += f->thought;
        if (i % w->n != 0) continue;
        prompt += f->prompt;
        cached += f->cached;
    }
    put_format(out, ",\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld", (long long)prompt,
               (long long)completion, (long long)(prompt + completion));
    put_format(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%lld}", (long long)cached);
    if (w->reads) put_format(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%lld}", (long long)thought);
    buffer_text(out, "}");
}

static const char *reason_name(reason_kind reason) {
    return reason == STOP ? "stop" : reason == LENGTH ? "length" : "tool_calls";
}

static void put_chat_logprobs(buffer *out, const entry *tokens, size_t count) {
    buffer_text(out, "{\"content\":");
    put_chat_entries(out, tokens, count);
    buffer_text(out, ",\"refusal\":null}");
}

/* ---- completions' way with tokens: parallel arrays ---- */

/* S of the contract. */
static void put_shown(buffer *out, bytes data) {
    if (utf8_valid(data)) {
        buffer_put(out, data);
        return;
    }
    buffer_text(out, "bytes:");
    for (size_t i = 0; i < data.length; i++) put_format(out, "\\x%02x", (unsigned)data.data[i]);
}

static void put_shown_string(buffer *out, bytes data) {
    buffer shown = {0};
    put_shown(&shown, data);
    if (shown.failed) out->failed = true;
    put_string(out, bytes_of(&shown));
    buffer_free(&shown);
}

static bool shown_alike(bytes a, bytes b, bool *failed) {
    buffer x = {0}, y = {0};
    put_shown(&x, a);
    put_shown(&y, b);
    if (x.failed || y.failed) *failed = true;
    const bool same = x.length == y.length && (x.length == 0 || memcmp(x.data, y.data, x.length) == 0);
    buffer_free(&x);
    buffer_free(&y);
    return same;
}

/* The alternatives as an object, the last one first. */
static void put_alternatives(buffer *out, const entry *token) {
    bool any = false, failed = false;
    buffer_text(out, "{");
    for (size_t i = token->alternatives; i >= 1; i--) {
        bool there = false;
        for (size_t k = token->alternatives; k > i && !there; k--) there = shown_alike(token[k].data, token[i].data, &failed);
        if (there) continue;
        double value = token[i].logprob;
        for (size_t k = i; k-- > 1;)
            if (shown_alike(token[k].data, token[i].data, &failed)) value = token[k].logprob;
        if (any) buffer_text(out, ",");
        any = true;
        put_shown_string(out, token[i].data);
        buffer_text(out, ":");
        put_double(out, value);
    }
    buffer_text(out, "}");
    if (failed) out->failed = true;
}

/* A chain of tokens, which may lie in several lines. */
typedef struct token_walk {
    const wire *w;
    const event *line, *last; /* of one choice from `line` on to before `last`; its own line only, if they are neighbours */
    size_t choice, at;
    const entry *token;
} token_walk;

static token_walk walk(const wire *w, const event *from, const event *to, size_t choice) {
    return (token_walk){w, from, to, choice, 0, from < to ? from->tokens : NULL};
}

static const entry *next_token(token_walk *t) {
    while (t->line < t->last) {
        const bool counts = (t->line->verb == DELTA || t->line->verb == REASONING || t->line->verb == CALL) && t->line->choice == t->choice;
        if (counts && t->at < t->line->token_count) {
            const entry *token = t->token;
            t->token = entry_after(token);
            t->at++;
            return token;
        }
        t->line++;
        t->at = 0;
        if (t->line < t->last) t->token = t->line->tokens;
    }
    return NULL;
}

static void put_parallel(buffer *out, token_walk tokens, size_t offset) {
    static const char *const names[] = {"{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[", "],\"text_offset\":["};
    for (int column = 0; column < 4; column++) {
        token_walk t = tokens;
        const entry *token;
        bool any = false;
        buffer_text(out, names[column]);
        while ((token = next_token(&t)) != NULL) {
            if (any) buffer_text(out, ",");
            any = true;
            if (column == 0) put_shown_string(out, token->data);
            if (column == 1) put_double(out, token->logprob);
            if (column == 2) put_alternatives(out, token);
            if (column == 3) {
                buffer shown = {0};
                put_format(out, "%zu", offset);
                put_shown(&shown, token->data);
                if (shown.failed) out->failed = true;
                offset += characters(bytes_of(&shown));
                buffer_free(&shown);
            }
        }
    }
    buffer_text(out, "]}");
}

/* ---- streams ---- */

/* From `{HEAD,"choices":[{"index":i,` on; the caller adds the choice's own member. */
static void begin_chunk(const openai_state *s, buffer *out, size_t choice) {
    buffer_text(out, "data: ");
    put_head(s, out, true);
    put_format(out, ",\"choices\":[{\"index\":%zu", choice);
}

/* line: the event whose tokens are told; NULL: none. */
static void end_chunk(const openai_state *s, buffer *out, const event *line, const char *reason) {
    buffer_text(out, ",\"logprobs\":");
    if (line == NULL || !line->has_tokens) {
        buffer_text(out, "null");
    } else if (s->w->surface == CHAT) {
        put_chat_logprobs(out, line->tokens, line->token_count);
    } else {
        put_parallel(out, walk(s->w, line, line + 1, line->choice), s->characters[line->choice]);
    }
    if (reason == NULL) {
        buffer_text(out, ",\"finish_reason\":null}]");
    } else {
        put_format(out, ",\"finish_reason\":\"%s\"}]", reason);
    }
    if (s->w->usage) buffer_text(out, ",\"usage\":null");
    buffer_text(out, "}\n\n");
}

static void put_call_delta(buffer *out, const event *e) {
    put_format(out, "{\"tool_calls\":[{\"index\":%lld,\"function\":{", (long long)e->index);
    if (e->id.length > 0) {
        buffer_text(out, "\"name\":");
        put_string(out, e->name);
        put_named(out, "arguments", e->text);
        buffer_text(out, "}");
        put_named(out, "id", e->id);
        buffer_text(out, ",\"type\":\"function\"}]}");
    } else {
        buffer_text(out, "\"arguments\":");
        put_string(out, e->text);
        buffer_text(out, "}}]}");
    }
}

static void put_delta(const openai_state *s, buffer *out, const event *e) {
    begin_chunk(s, out, e->choice);
    if (s->w->surface == COMPLETIONS) {
        put_named(out, "text", e->text);
    } else {
        buffer_text(out, ",\"delta\":");
        if (e->verb == CALL) {
            put_call_delta(out, e);
        } else {
            buffer_text(out, e->verb == DELTA ? "{\"content\":" : "{\"reasoning_content\":");
            put_string(out, e->text);
            buffer_text(out, "}");
        }
    }
    end_chunk(s, out, e, NULL);
}

static void put_closing(const openai_state *s, buffer *out) {
    const wire *w = s->w;
    if (w->usage) {
        buffer_text(out, "data: ");
        put_head(s, out, true);
        buffer_text(out, ",\"choices\":[]");
        put_usage(s, out);
        put_timings(out, s->finishes, w->choices, w->n);
        buffer_text(out, "}\n\n");
    }
    buffer_text(out, "data: [DONE]\n\n");
}

static void put_streamed(openai_state *s, const event *e, buffer *out) {
    const wire *w = s->w;
    switch (e->verb) {
    case OPEN:
        if (w->surface == COMPLETIONS) buffer_text(out, ": stream\n\n");
        for (size_t i = 0; w->surface == CHAT && i < w->choices; i++) {
            begin_chunk(s, out, i);
            buffer_text(out, ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
            end_chunk(s, out, NULL, NULL);
        }
        break;
    case DELTA:
    case REASONING:
    case CALL: put_delta(s, out, e); break;
    case FINISH:
        begin_chunk(s, out, e->choice);
        buffer_text(out, w->surface == CHAT ? ",\"delta\":{}" : ",\"text\":\"\"");
        end_chunk(s, out, NULL, reason_name(e->reason));
        break;
    case ALIVE: buffer_text(out, ": keep-alive\n\n"); break;
    case FAIL:
        buffer_text(out, "data: ");
        put_openai_error(out, e);
        buffer_text(out, "\n\n");
        break;
    case CLOSE:
        if (!s->failed) put_closing(s, out);
        break;
    default: break;
    }
}

/* ---- bodies ---- */

/* The texts of a choice's lines of this kind, joined. False: there was no such line. */
static bool joined(const wire *w, const event *to, size_t choice, verb_kind verb, buffer *text) {
    bool any = false;
    for (const event *e = w->events; e < to; e++) {
        if (e->verb != verb || e->choice != choice) continue;
        buffer_put(text, e->text);
        any = true;
    }
    return any;
}

typedef struct call {
    const event *begun;
    buffer arguments;
    bool gone;
} call;

/* False: no memory. */
static bool put_calls(const wire *w, const event *to, size_t choice, buffer *out, bool *any) {
    size_t lines = 0, count = 0;
    for (const event *e = w->events; e < to; e++) lines += e->verb == CALL && e->choice == choice;
    call *calls = calloc(lines + 1, sizeof *calls);
    if (calls == NULL) return false;
    for (const event *e = w->events; e < to; e++) {
        if (e->choice != choice) continue;
        if (e->verb == CALL) {
            if (e->id.length > 0) calls[count++].begun = e;
            buffer_put(&calls[e->index].arguments, e->text);
        } else if (e->verb == VOID) {
            for (size_t i = (size_t)e->index; i < count; i++) calls[i].gone = true;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!calls[i].gone) {
            buffer_text(out, *any ? "," : ",\"tool_calls\":[");
            *any = true;
            buffer_text(out, "{\"id\":");
            put_string(out, calls[i].begun->id);
            buffer_text(out, ",\"type\":\"function\",\"function\":{\"name\":");
            put_string(out, calls[i].begun->name);
            put_named(out, "arguments", bytes_of(&calls[i].arguments));
            buffer_text(out, "}}");
        }
        if (calls[i].arguments.failed) out->failed = true;
        buffer_free(&calls[i].arguments);
    }
    free(calls);
    if (*any) buffer_text(out, "]");
    return true;
}

static bool put_message(const wire *w, const event *to, size_t choice, buffer *out) {
    buffer content = {0}, reasoning = {0}, calls = {0};
    bool any = false;
    (void)joined(w, to, choice, DELTA, &content);
    const bool thought = joined(w, to, choice, REASONING, &reasoning);
    const bool memory = put_calls(w, to, choice, &calls, &any);
    buffer_text(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (any && content.length == 0) {
        buffer_text(out, "null");
    } else {
        put_string(out, bytes_of(&content));
    }
    buffer_text(out, ",\"refusal\":null");
    if (thought) put_named(out, "reasoning_content", bytes_of(&reasoning));
    buffer_put(out, bytes_of(&calls));
    buffer_text(out, "}");
    if (content.failed || reasoning.failed || calls.failed) out->failed = true;
    buffer_free(&content);
    buffer_free(&reasoning);
    buffer_free(&calls);
    return memory;
}

/* All entries of a choice's lines, side by side. False: no memory. */
static bool put_all_entries(const wire *w, const event *to, size_t choice, buffer *out) {
    token_walk t = walk(w, w->events, to, choice);
    const entry *token;
    size_t entries = 0, count = 0;
    while ((token = next_token(&t)) != NULL) entries += 1 + token->alternatives;
    entry *all = malloc((entries + 1) * sizeof *all);
    if (all == NULL) return false;
    t = walk(w, w->events, to, choice);
    for (size_t at = 0; (token = next_token(&t)) != NULL; at += 1 + token->alternatives, count++)
        memcpy(all + at, token, (1 + token->alternatives) * sizeof *all);
    put_chat_logprobs(out, all, count);
    free(all);
    return true;
}

static bool put_whole(const openai_state *s, const event *to, buffer *out) {
    const wire *w = s->w;
    put_head(s, out, false);
    buffer_text(out, ",\"choices\":[");
    for (size_t i = 0; i < w->choices; i++) {
        put_format(out, i == 0 ? "{\"index\":%zu" : ",{\"index\":%zu", i);
        if (w->surface == CHAT) {
            if (!put_message(w, to, i, out)) return false;
        } else {
            buffer text = {0};
            (void)joined(w, to, i, DELTA, &text);
            put_named(out, "text", bytes_of(&text));
            if (text.failed) out->failed = true;
            buffer_free(&text);
        }
        buffer_text(out, ",\"logprobs\":");
        if (!w->logprobs) {
            buffer_text(out, "null");
        } else if (w->surface == CHAT) {
            if (!put_all_entries(w, to, i, out)) return false;
        } else {
            put_parallel(out, walk(w, w->events, to, i), 0);
        }
        put_format(out, ",\"finish_reason\":\"%s\"}", reason_name(s->finishes[i]->reason));
    }
    buffer_text(out, "]");
    put_usage(s, out);
    put_timings(out, s->finishes, w->choices, w->n);
    buffer_text(out, "}");
    return true;
}

bool openai_take(openai_state *s, const event *e, buffer *out) {
    if (e->verb == FINISH) s->finishes[e->choice] = e;
    if (e->verb == FAIL) s->failed = true;
    if (e->verb == WHOLE) return put_whole(s, e, out);
    if (s->w->streamed) {
        put_streamed(s, e, out);
    } else if (e->verb == FAIL) {
        put_openai_error(out, e);
    }
    if (e->verb == DELTA) s->characters[e->choice] += characters(e->text);
    return true;
}
