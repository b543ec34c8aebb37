/* wire.c - an answer in the protocol of its surface: the order of events, and who tells them. */
#include <stdlib.h>

#include "oracles/common/oracle.h"
#include "oracles/wire/wire.h"

#define NO_CALL (-1)

typedef struct choice {
    bool finished;
    int64_t calls, open; /* calls begun; the open one or NO_CALL */
} choice;

typedef struct progress {
    const wire *w;
    choice *choices;
    size_t finished;
    bool opened, failed, over, closed;
} progress;

static bool call_fits(choice *c, const event *e) {
    if (e->index == c->calls) {
        if (e->id.length == 0) return false;
        c->open = c->calls++;
        return true;
    }
    return e->index < c->calls && e->id.length == 0 && e->name.length == 0 && (e->text.length == 0 || c->open == e->index);
}

/* Whether an event may come here, and what it changes. */
static bool in_order(progress *p, const event *e) {
    const wire *w = p->w;
    const bool talk = e->verb == DELTA || e->verb == REASONING || e->verb == CALL || e->verb == VOID || e->verb == FINISH;
    if (e->verb == OPEN) {
        const bool first = w->streamed && !p->opened;
        p->opened = true;
        return first;
    }
    if (w->streamed && !p->opened) return false;
    if (e->verb == WHOLE) return w->surface == RESPONSES || (!w->streamed && p->over && !p->failed);
    if (p->closed) return false;
    if (e->verb == CLOSE) {
        p->closed = true;
        return w->streamed && p->over;
    }
    if (e->verb == UNSTORED) return w->surface == RESPONSES && p->over;
    if (p->over) return false;
    if (e->verb == ALIVE) return w->streamed;
    if (e->verb == FAIL || e->verb == CANCEL) {
        p->over = true;
        p->failed = e->verb == FAIL;
        return e->verb == FAIL || w->surface == RESPONSES;
    }
    choice *c = &p->choices[e->choice];
    if (!talk || c->finished) return false;
    if ((e->verb == REASONING || e->verb == CALL || e->verb == VOID) && (w->surface == COMPLETIONS || (w->surface == CHAT && !w->reads)))
        return false;
    if (e->verb == CALL) return call_fits(c, e);
    if (e->verb == VOID && (c->open == NO_CALL || e->index > c->open)) return false;
    if (e->verb != FINISH) c->open = NO_CALL;
    if (e->verb == FINISH) {
        c->finished = true;
        p->over = ++p->finished == w->choices;
    }
    return true;
}

static bool well_ordered(const wire *w, int *rc) {
    progress p = {.w = w};
    p.choices = calloc(w->choices, sizeof *p.choices);
    if (p.choices == NULL) {
        *rc = ORACLE_NO_MEMORY;
        return false;
    }
    for (size_t i = 0; i < w->choices; i++) p.choices[i].open = NO_CALL;
    bool good = true;
    for (size_t i = 0; good && i < w->event_count; i++) good = in_order(&p, &w->events[i]);
    free(p.choices);
    if (!good) *rc = ORACLE_BAD_TAPE;
    return good;
}

typedef struct teller {
    openai_state *openai;
    messages_state *messages;
    responses_state *responses;
} teller;

static int take(const teller *t, const event *e, buffer *out) {
    if (t->responses != NULL) return responses_take(t->responses, e, out);
    const bool memory = t->openai != NULL ? openai_take(t->openai, e, out) : messages_take(t->messages, e, out);
    return memory ? ORACLE_OK : ORACLE_NO_MEMORY;
}

static int tell(wire *w, tape *out) {
    teller t = {0};
    if (w->surface == RESPONSES) t.responses = responses_new(w);
    else if (w->surface == MESSAGES) t.messages = messages_new(w);
    else t.openai = openai_new(w);
    int rc = t.openai != NULL || t.messages != NULL || t.responses != NULL ? ORACLE_OK : ORACLE_NO_MEMORY;
    for (size_t i = 0; rc == ORACLE_OK && i < w->event_count && !out->failed; i++) {
        buffer said = {0};
        rc = take(&t, &w->events[i], &said);
        if (rc == ORACLE_OK && said.failed) rc = ORACLE_NO_MEMORY;
        tape_word(out, w->events[i].verb == WHOLE ? "body" : "sent");
        tape_bytes(out, said.data, said.length);
        tape_end(out);
        buffer_free(&said);
    }
    openai_free(t.openai);
    messages_free(t.messages);
    responses_free(t.responses);
    return rc;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    wire w;
    int rc = wire_read(input, length, &w);
    if (rc == ORACLE_OK && well_ordered(&w, &rc)) rc = tell(&w, out);
    wire_free(&w);
    return rc;
}

const oracle_kind oracle_wire = {"wire", NULL, run, NULL};
