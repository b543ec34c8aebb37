/* template.c - ChatML as SmolLM2 renders it.
 *
 *   turn     <|im_start|> role \n content <|im_end|> \n
 *   prompt   [the default system turn, unless the first role is "system"] turn... [<|im_start|>assistant\n]
 *
 * The prompt is given as segments: what the template writes of its two special tokens is special, all else is plain. The
 * plain stretches of a turn never touch those of the next one, since a turn begins with a special token.
 */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/oracle.h"

#define OPEN "<|im_start|>"
#define CLOSE "<|im_end|>"
#define SYSTEM "system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
#define ASSISTANT "assistant\n"
enum {
    OPEN_LENGTH = sizeof OPEN - 1,
    CLOSE_LENGTH = sizeof CLOSE - 1,
    SYSTEM_LENGTH = sizeof SYSTEM - 1,
    ASSISTANT_LENGTH = sizeof ASSISTANT - 1
};
#define LIMIT_MOST (UINT64_C(1) << 53)

/* A role or a content as the tape has it. */
typedef struct field {
    bool is_text;
    const uint8_t *text;
    size_t length;
    uint64_t characters;
} field;

typedef struct conversation {
    bool add;
    uint64_t limit;
    field (*messages)[2];
    size_t count;
} conversation;

/* ---- texts ---- */

/* Well-formed UTF-8, counted, where a surrogate may stand as a character of three bytes. */
static bool count_characters(const uint8_t *s, size_t n, uint64_t *characters) {
    *characters = 0;
    for (size_t i = 0; i < n; ++*characters) {
        const uint8_t first = s[i++];
        if ((first >= 0x80 && first < 0xC2) || first > 0xF4) return false; /* begins no character */
        const size_t more = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
        if (more > n - i) return false;
        if (first == 0xE0 && s[i] < 0xA0) return false; /* overlong */
        if (first == 0xF0 && s[i] < 0x90) return false;
        if (first == 0xF4 && s[i] > 0x8F) return false; /* above U+10FFFF */
        for (size_t k = 0; k < more; k++, i++)
            if ((s[i] & 0xC0) != 0x80) return false;
    }
    return true;
}

/* ---- the verdict: the first fault in the order of the conversation, or NULL ---- */

static const char *judge_turn(const field message[2], uint64_t limit, uint64_t *characters) {
    *characters = OPEN_LENGTH;
    for (int i = 0; i < 2; i++) {
        if (!message[i].is_text) return "template_failed";
        *characters += message[i].characters;
        if (*characters > limit) return "template_size";
        *characters += i == 0 ? 1 : CLOSE_LENGTH; /* the newline behind the role; what ends the content */
        if (*characters > limit) return "template_size";
    }
    *characters += 1;
    return *characters > limit ? "template_size" : NULL;
}

static bool needs_system(const conversation *c) {
    if (c->count == 0) return false;
    const field *role = &c->messages[0][0];
    return !role->is_text || role->length != 6 || memcmp(role->text, "system", 6) != 0;
}

static const char *judge(const conversation *c) {
    uint64_t made = 0;
    if (needs_system(c)) {
        made += OPEN_LENGTH + SYSTEM_LENGTH + CLOSE_LENGTH + 1;
        if (made > c->limit) return "template_size";
    }
    for (size_t i = 0; i < c->count; i++) {
        uint64_t turn;
        const char *fault = judge_turn(c->messages[i], c->limit, &turn);
        if (fault != NULL) return fault;
        made += turn;
        if (made > c->limit) return "template_size";
    }
    if (c->add) made += OPEN_LENGTH + ASSISTANT_LENGTH;
    return made > c->limit ? "template_size" : NULL;
}

/* ---- the prompt ---- */

static void segment(const char *kind, const void *text, size_t length, tape *out) {
    tape_word(out, kind);
    tape_bytes(out, text, length);
    tape_end(out);
}

static void turn(const void *text, size_t length, tape *out) {
    segment("special", OPEN, OPEN_LENGTH, out);
    segment("plain", text, length, out);
    segment("special", CLOSE, CLOSE_LENGTH, out);
    segment("plain", "\n", 1, out);
}

/* `scratch` has room for the role and content of any message and one byte more. */
static void render(const conversation *c, uint8_t *scratch, tape *out) {
    if (needs_system(c)) turn(SYSTEM, SYSTEM_LENGTH, out);
    for (size_t i = 0; i < c->count; i++) {
        const field *role = &c->messages[i][0], *content = &c->messages[i][1];
        memcpy(scratch, role->text, role->length);
        scratch[role->length] = '\n';
        memcpy(scratch + role->length + 1, content->text, content->length);
        turn(scratch, role->length + 1 + content->length, out);
    }
    if (!c->add) return;
    segment("special", OPEN, OPEN_LENGTH, out);
    segment("plain", ASSISTANT, ASSISTANT_LENGTH, out);
}

/* ---- the tape ---- */

static bool next_line(reader *r, reader *line) {
    return reader_line(r, line) && line->at != line->end && line->end[-1] != ' ';
}

/* render <add> <limit> */
static bool read_first(reader *r, conversation *c) {
    reader line;
    bytes verb, add, limit;
    if (!next_line(r, &line) || !reader_word(&line, &verb) || !reader_word(&line, &add) || !reader_word(&line, &limit)) return false;
    c->add = word_is(add, "1");
    return line.at == line.end && word_is(verb, "render") && (c->add || word_is(add, "0")) && word_uint(limit, &c->limit) &&
           c->limit <= LIMIT_MOST;
}

/* message <kind> <value> <kind> <value>; the texts' bytes go to *room, which they take up. */
static bool read_message(reader *r, field message[2], uint8_t **room) {
    reader line;
    bytes verb, kind, value;
    if (!next_line(r, &line) || !reader_word(&line, &verb) || !word_is(verb, "message")) return false;
    for (int i = 0; i < 2; i++) {
        field *f = &message[i];
        if (!reader_word(&line, &kind) || !reader_word(&line, &value)) return false;
        *f = (field){word_is(kind, "text"), *room, 0, 0};
        if (f->is_text) {
            if (!word_unescape(value, *room, &f->length) || !count_characters(f->text, f->length, &f->characters)) return false;
            *room += f->length;
        } else if (!word_is(kind, "other") || !word_is(value, "-")) {
            return false;
        }
    }
    return line.at == line.end;
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    enum { SHORTEST = sizeof "message text a text b" }; /* no message line has fewer bytes, newline included */
    reader r = reader_over(input, length);
    conversation c = {0};
    if (!read_first(&r, &c)) return ORACLE_BAD_TAPE;
    if (length > SIZE_MAX / 16) return ORACLE_NO_MEMORY;
    /* A text has no more bytes than its spelling, so the texts together fit in the tape's length, and a turn's as well. */
    uint8_t *room = malloc(length), *scratch = malloc(length), *at = room;
    c.messages = malloc((length / SHORTEST + 1) * sizeof *c.messages);
    int rc = room == NULL || scratch == NULL || c.messages == NULL ? ORACLE_NO_MEMORY : ORACLE_OK;
    while (rc == ORACLE_OK && r.at != r.end) {
        if (!read_message(&r, c.messages[c.count], &at)) rc = ORACLE_BAD_TAPE;
        c.count++;
    }
    if (rc == ORACLE_OK) {
        const char *fault = judge(&c);
        if (fault == NULL) {
            render(&c, scratch, out);
        } else {
            tape_word(out, "error");
            tape_word(out, fault);
            tape_end(out);
        }
    }
    free(c.messages);
    free(scratch);
    free(room);
    return rc;
}

const oracle_kind oracle_template = {"template", NULL, run, NULL};
