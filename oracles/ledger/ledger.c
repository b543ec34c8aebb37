/* ledger.c - what a bank holds, and how it comes to hold a prompt.
 *
 * A tape of what was asked and what was done; each line is answered from the one state below. A refused line changes
 * nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"

enum { TOKEN_MOST = 2147483647 };

typedef struct tokens {
    int32_t *at;
    size_t count;
} tokens;

typedef struct ledger {
    uint64_t ctx;
    tokens held;
    bool valid;
    uint64_t generation;
} ledger;

static void state(const ledger *l, tape *out) {
    tape_word(out, "ok");
    tape_uint(out, l->valid);
    tape_uint(out, l->generation);
    tape_uint(out, l->held.count);
    tape_end(out);
}

static void refuse(const char *code, tape *out) {
    tape_word(out, "error");
    tape_word(out, code);
    tape_end(out);
}

static void plan(const ledger *l, tokens prompt, tape *out) {
    if (prompt.count == 0) {
        refuse("prompt_empty", out);
        return;
    }
    if (prompt.count > l->ctx) {
        refuse("context_length_exceeded", out);
        return;
    }
    size_t start = 0;
    bool rebuild = true, bump = true;
    if (l->valid) {
        /* The last token of a prompt is evaluated in any case: its output is what is wanted. */
        while (start < prompt.count - 1 && start < l->held.count && prompt.at[start] == l->held.at[start]) start++;
        rebuild = start == 0;
        bump = start < l->held.count;
    }
    tape_word(out, "plan");
    tape_uint(out, start);
    tape_uint(out, rebuild);
    tape_uint(out, bump);
    tape_end(out);
}

/* The bank holds the first `kept` of what it held, then prompt[kept..upto). */
static void commit(ledger *l, size_t kept, bool bump, int64_t upto, tokens prompt, tape *out) {
    if (upto < 0 || (uint64_t)upto > prompt.count || kept > (uint64_t)upto) {
        refuse("commit_range", out);
        return;
    }
    if ((uint64_t)upto > l->ctx) {
        refuse("context_length_exceeded", out);
        return;
    }
    for (size_t i = kept; i < (size_t)upto; i++) l->held.at[i] = prompt.at[i];
    l->held.count = (size_t)upto;
    l->valid = true;
    l->generation += bump;
    state(l, out);
}

static void append(ledger *l, int32_t token, tape *out) {
    if (l->held.count >= l->ctx) {
        refuse("context_length_exceeded", out);
        return;
    }
    l->held.at[l->held.count++] = token;
    state(l, out);
}

static void rewind_to(ledger *l, int64_t length, tape *out) {
    if (length < 0) length = 0;
    if ((uint64_t)length < l->held.count) {
        l->held.count = (size_t)length;
        l->generation++;
    }
    state(l, out);
}

static void invalidate(ledger *l, tape *out) {
    l->held.count = 0;
    l->valid = false;
    l->generation++;
    state(l, out);
}

static void adopt(ledger *l, tokens prompt, tape *out) {
    if (prompt.count > l->ctx) {
        refuse("context_length_exceeded", out);
        return;
    }
    if (prompt.count > 0) memcpy(l->held.at, prompt.at, prompt.count * sizeof *prompt.at);
    l->held.count = prompt.count;
    l->valid = true;
    l->generation++;
    state(l, out);
}

static void say(const ledger *l, tape *out) {
    tape_word(out, "tokens");
    for (size_t i = 0; i < l->held.count; i++) tape_int(out, l->held.at[i]);
    tape_end(out);
}

/* ---- the tape ---- */

static bool next_int(reader *line, int64_t low, int64_t high, int64_t *value) {
    bytes word;
    return reader_word(line, &word) && word_int(word, value) && *value >= low && *value <= high;
}

/* The tokens that end a line, into the room that `prompt` has. */
static bool rest(reader *line, tokens *prompt) {
    int64_t token;
    for (prompt->count = 0; line->at != line->end; prompt->at[prompt->count++] = (int32_t)token)
        if (!next_int(line, 0, TOKEN_MOST, &token)) return false;
    return true;
}

static bool one_line(ledger *l, reader line, tokens *prompt, tape *out) {
    bytes verb;
    int64_t start, bump, number;
    if (line.at == line.end || line.end[-1] == ' ' || !reader_word(&line, &verb)) return false;
    if (word_is(verb, "plan")) {
        if (!rest(&line, prompt)) return false;
        plan(l, *prompt, out);
    } else if (word_is(verb, "commit")) {
        if (!next_int(&line, 0, TOKEN_MOST, &start) || !next_int(&line, 0, 1, &bump)) return false;
        if (!next_int(&line, INT64_MIN, INT64_MAX, &number) || !rest(&line, prompt)) return false;
        commit(l, (uint64_t)start < l->held.count ? (size_t)start : l->held.count, bump == 1, number, *prompt, out);
    } else if (word_is(verb, "extend")) {
        if (!next_int(&line, INT64_MIN, INT64_MAX, &number) || !rest(&line, prompt)) return false;
        commit(l, l->held.count, false, number, *prompt, out);
    } else if (word_is(verb, "append")) {
        if (!next_int(&line, 0, TOKEN_MOST, &number) || line.at != line.end) return false;
        append(l, (int32_t)number, out);
    } else if (word_is(verb, "rewind")) {
        if (!next_int(&line, INT64_MIN, INT64_MAX, &number) || line.at != line.end) return false;
        rewind_to(l, number, out);
    } else if (word_is(verb, "invalidate")) {
        if (line.at != line.end) return false;
        invalidate(l, out);
    } else if (word_is(verb, "adopt")) {
        if (!rest(&line, prompt)) return false;
        adopt(l, *prompt, out);
    } else if (word_is(verb, "tokens")) {
        if (line.at != line.end) return false;
        say(l, out);
    } else {
        return false;
    }
    return true;
}

static bool first_line(reader *r, ledger *l) {
    reader line;
    bytes verb;
    int64_t ctx;
    if (!reader_line(r, &line) || line.at == line.end || line.end[-1] == ' ') return false;
    if (!reader_word(&line, &verb) || !word_is(verb, "ctx")) return false;
    if (!next_int(&line, 1, TOKEN_MOST, &ctx) || line.at != line.end) return false;
    l->ctx = (uint64_t)ctx;
    return true;
}

static int run(const void *shared, const uint8_t *input, size_t length, tape *out) {
    (void)shared;
    reader r = reader_over(input, length), line;
    ledger l = {0, {NULL, 0}, true, 1};
    if (!first_line(&r, &l)) return ORACLE_BAD_TAPE;
    if (length > SIZE_MAX / 8) return ORACLE_NO_MEMORY;
    /* A token held stands in some line of the tape, and takes two bytes there, so this is room enough whatever ctx is. */
    tokens prompt = {malloc(length * sizeof *prompt.at), 0};
    l.held.at = malloc(length * sizeof *l.held.at);
    int rc = prompt.at == NULL || l.held.at == NULL ? ORACLE_NO_MEMORY : ORACLE_OK;
    while (rc == ORACLE_OK && r.at != r.end && !out->failed)
        if (!reader_line(&r, &line) || !one_line(&l, line, &prompt, out)) rc = ORACLE_BAD_TAPE;
    free(prompt.at);
    free(l.held.at);
    return rc;
}

const oracle_kind oracle_ledger = {"ledger", NULL, run, NULL};
