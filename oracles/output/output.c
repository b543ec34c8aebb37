/* output.c - what a DeepSeek V4 model says, as events: the tape, and the modes outside a block. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"
#include "oracles/common/utf8.h"
#include "oracles/output/answer.h"

static const char *const reasoning_markers[] = {"</think>", NULL};

static const char *const content_markers[] = {
    "<｜DSML｜tool_calls>", "<DSML｜tool_calls>", "<tool_calls>", /* by spelling, and again: */
    "\n\n<｜DSML｜tool_calls>", "\n\n<DSML｜tool_calls>", "\n\n<tool_calls>", NULL,
};

void enter_content(answer *a) {
    a->mode = IN_CONTENT;
    a->search = (search){a->tools ? content_markers : NULL, 0};
}

static void step_text(answer *a) {
    const bool reasoning = a->mode == IN_REASONING;
    bytes shown;
    const int met = search_take(&a->search, a->text + ++a->at, &shown);
    event_delta(&a->events, reasoning ? "reasoning" : "content", shown);
    if (met < 0) return;
    if (reasoning) {
        event_word(&a->events, "reasoned");
        tape_end(a->events.out);
        enter_content(a);
    } else {
        block_begin(a, a->at - strlen(content_markers[met]), (spelling)(met % SPELLINGS));
    }
}

static const char *const mode_names[] = {"reasoning", "content", "block", "done"};

/* A piece that ends at `end`. */
static void push(answer *a, size_t end) {
    while (a->at < end && !a->failed) {
        switch (a->mode) {
        case IN_REASONING:
        case IN_CONTENT: step_text(a); break;
        case IN_BLOCK: block_step(a); break;
        case IN_DONE: a->at = end; break;
        }
    }
    event_word(&a->events, "now");
    tape_word(a->events.out, mode_names[a->mode]);
    tape_end(a->events.out);
}

static void finish_block(answer *a) {
    tape *out = a->events.out;
    buffer closers = {0};
    const bool closed = block_closers(a, &closers);
    event_word(&a->events, "finish");
    tape_word(out, "unterminated");
    tape_bytes(out, a->text + a->block.begin, a->at - a->block.begin);
    if (closed) tape_bytes(out, closers.data, closers.length);
    else tape_word(out, "-");
    tape_end(out);
    a->failed = a->failed || closers.failed;
    buffer_free(&closers);
}

static void finish(answer *a) {
    const bytes held = {a->text + a->at - a->search.held, a->search.held};
    const char *how = "tool_calls";
    if (a->mode == IN_BLOCK) {
        finish_block(a);
        return;
    }
    if (a->mode == IN_REASONING) {
        event_delta(&a->events, "reasoning", held);
        how = "reasoning";
    } else if (a->mode == IN_CONTENT) {
        event_delta(&a->events, "content", held);
        how = "stop";
    }
    event_word(&a->events, "finish");
    tape_word(a->events.out, how);
    tape_end(a->events.out);
}

/* ---- the tape ---- */

typedef struct pieces {
    bool thinking, tools, finished;
    uint8_t *text; /* of all pieces */
    size_t *ends;  /* of each piece in it */
    size_t count;
} pieces;

/* A whole line and its verb; false also when it ends in a space, behind which a word is missing. */
static bool next_line(reader *r, reader *line, bytes *verb) {
    return reader_line(r, line) && line->at != line->end && line->end[-1] != ' ' && reader_word(line, verb);
}

static bool read_switch(reader *line, bool *value) {
    bytes word;
    if (!reader_word(line, &word)) return false;
    *value = word_is(word, "1");
    return *value || word_is(word, "0");
}

static bool read_first(reader *r, pieces *p) {
    reader line;
    bytes verb;
    return next_line(r, &line, &verb) && word_is(verb, "output") && read_switch(&line, &p->thinking) && read_switch(&line, &p->tools) &&
           line.at == line.end;
}

static bool read_later(reader *r, pieces *p, size_t *used) {
    reader line;
    bytes verb, word;
    if (p->finished || !next_line(r, &line, &verb)) return false;
    if (word_is(verb, "finish")) {
        p->finished = true;
    } else {
        size_t length;
        if (!word_is(verb, "push") || !reader_word(&line, &word) || !word_unescape(word, p->text + *used, &length)) return false;
        if (!utf8_valid((bytes){p->text + *used, length})) return false;
        *used += length;
        p->ends[p->count++] = *used;
    }
    return line.at == line.end;
}

static int read_tape(const uint8_t *input, size_t length, pieces *p) {
    enum { SHORTEST = sizeof "push a" }; /* no push line has fewer bytes, newline included */
    reader r = reader_over(input, length);
    size_t used = 0;
    *p = (pieces){0};
    if (!read_first(&r, p)) return ORACLE_BAD_TAPE;
    if (length > SIZE_MAX / sizeof *p->ends) return ORACLE_NO_MEMORY;
    p->text = malloc(length); /* no text has more bytes than its word */
    p->ends = malloc((length / SHORTEST + 1) * sizeof *p->ends);
    if (p->text == NULL || p->ends == NULL) return ORACLE_NO_MEMORY;
    while (r.at != r.end)
        if (!read_later(&r, p, &used)) return ORACLE_BAD_TAPE;
    return ORACLE_OK;
}

static int answer_to(const pieces *p, tape *out) {
    answer a = {.text = p->text, .tools = p->tools, .events = {.out = out}};
    a.room = malloc((p->count > 0 ? p->ends[p->count - 1] : 0) + 1);
    if (a.room == NULL) return ORACLE_NO_MEMORY;
    enter_content(&a);
    if (p->thinking) {
        a.mode = IN_REASONING;
        a.search.markers = reasoning_markers;
    }
    for (size_t i = 0; i < p->count && !a.failed; i++) push(&a, p->ends[i]);
    if (p->finished && !a.failed) finish(&a);
    block_free(&a);
    free(a.room);
    const bool failed = a.failed || a.events.delta.failed;
    buffer_free(&a.events.delta);
    return failed ? ORACLE_NO_MEMORY : ORACLE_OK;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    pieces p;
    int rc = read_tape(input, length, &p);
    if (rc == ORACLE_OK) rc = answer_to(&p, out);
    free(p.text);
    free(p.ends);
    return rc;
}

const oracle_kind oracle_output = {"output", NULL, run, NULL};
