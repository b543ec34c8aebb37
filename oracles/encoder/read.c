/* read.c - the tape of a conversation. */
#include <stdlib.h>
#include <string.h>

#include "oracles/common/json.h"
#include "oracles/common/oracle.h"
#include "oracles/common/utf8.h"
#include "oracles/encoder/conversation.h"

/* Well-formed UTF-8, where a surrogate may stand as a character of three bytes. */
static bool is_text(bytes text) {
    for (size_t at = 0, n; at < text.length; at += n) {
        const uint8_t *s = text.data + at;
        const size_t left = text.length - at;
        uint32_t code;
        n = utf8_next(s, left, &code);
        if (n == 0 && left >= 3 && s[0] == 0xED && s[1] >= 0xA0 && s[1] <= 0xBF && (s[2] & 0xC0) == 0x80) n = 3;
        if (n == 0) return false;
    }
    return true;
}

/* The next word of the line, which is a text; its bytes go to *room. */
static bool read_text(reader *line, uint8_t **room, bytes *text) {
    bytes word;
    if (!reader_word(line, &word)) return false;
    text->data = *room;
    if (!word_unescape(word, *room, &text->length) || !is_text(*text)) return false;
    *room += text->length;
    return true;
}

static int read_json(reader *line, uint8_t **room, bytes *text) {
    json value;
    if (!read_text(line, room, text)) return ORACLE_BAD_TAPE;
    const json_outcome outcome = json_read(*text, JSON_CONSTANTS | JSON_INTEGER_LIMIT, &value);
    json_free(&value);
    return outcome == JSON_READ ? ORACLE_OK : outcome == JSON_NOT ? ORACLE_BAD_TAPE : ORACLE_NO_MEMORY;
}

static bool read_switch(reader *line, bool *value) {
    bytes word;
    if (!reader_word(line, &word)) return false;
    *value = word_is(word, "1");
    return *value || word_is(word, "0");
}

static role role_of(bytes text) {
    static const struct {
        const char *name;
        role role;
    } roles[] = {{"system", ROLE_SYSTEM},       {"developer", ROLE_DEVELOPER}, {"user", ROLE_USER},
                 {"assistant", ROLE_ASSISTANT}, {"tool", ROLE_TOOL},           {"latest_reminder", ROLE_REMINDER}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (word_is(text, roles[i].name)) return roles[i].role;
    return ROLE_OTHER;
}

/* turn <role> <kind> <content> */
static bool read_turn(reader *line, conversation *c, uint8_t **room) {
    bytes name, kind, none;
    turn *t = &c->turns[c->turn_count++];
    *t = (turn){.calls = {c->call_count, 0}, .tools = {c->tool_count, 0}};
    if (!read_text(line, room, &name) || !reader_word(line, &kind)) return false;
    t->role = role_of(name);
    t->has_content = word_is(kind, "text");
    if (t->has_content) return read_text(line, room, &t->content);
    return word_is(kind, "none") && reader_word(line, &none) && word_is(none, "-");
}

/* The lines that a turn may have, in their order. */
typedef enum { LINE_TURN, LINE_ID, LINE_REASONING, LINE_CALL, LINE_REPLAY, LINE_OPEN, LINE_TOOL, LINE_FORMAT } line_kind;

static const struct {
    const char *verb;
    line_kind kind;
    role role, or_role; /* whose turns may have it */
    bool repeated;
} lines[] = {
    {"id", LINE_ID, ROLE_TOOL, ROLE_TOOL, false},
    {"reasoning", LINE_REASONING, ROLE_ASSISTANT, ROLE_ASSISTANT, false},
    {"call", LINE_CALL, ROLE_ASSISTANT, ROLE_ASSISTANT, true},
    {"replay", LINE_REPLAY, ROLE_ASSISTANT, ROLE_ASSISTANT, false},
    {"open", LINE_OPEN, ROLE_ASSISTANT, ROLE_ASSISTANT, false},
    {"tool", LINE_TOOL, ROLE_SYSTEM, ROLE_DEVELOPER, true},
    {"format", LINE_FORMAT, ROLE_SYSTEM, ROLE_DEVELOPER, false},
};

static int good_if(bool good) { return good ? ORACLE_OK : ORACLE_BAD_TAPE; }

/* What stands behind the verb of a line that belongs to the last turn. */
static int read_words(line_kind kind, reader *line, conversation *c, uint8_t **room) {
    turn *t = &c->turns[c->turn_count - 1];
    call *next;
    switch (kind) {
    case LINE_ID: return good_if(read_text(line, room, &t->id));
    case LINE_REASONING: return good_if(read_text(line, room, &t->reasoning));
    case LINE_REPLAY: t->has_replay = true; return good_if(read_text(line, room, &t->replay));
    case LINE_OPEN: t->open = true; return ORACLE_OK;
    case LINE_FORMAT: t->has_format = true; return read_json(line, room, &t->format);
    case LINE_TOOL: t->tools.count++; return read_json(line, room, &c->tools[c->tool_count++]);
    case LINE_CALL:
        t->calls.count++;
        next = &c->calls[c->call_count++];
        return good_if(read_text(line, room, &next->id) && read_text(line, room, &next->name) && read_text(line, room, &next->arguments));
    default: return ORACLE_BAD_TAPE;
    }
}

/* `before` is the kind of the line in front of this one, and becomes this one's. */
static int read_part(bytes verb, reader *line, conversation *c, uint8_t **room, line_kind *before) {
    if (c->turn_count == 0) return ORACLE_BAD_TAPE;
    const role role = c->turns[c->turn_count - 1].role;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (!word_is(verb, lines[i].verb)) continue;
        if (role != lines[i].role && role != lines[i].or_role) return ORACLE_BAD_TAPE;
        if (lines[i].kind < *before || (lines[i].kind == *before && !lines[i].repeated)) return ORACLE_BAD_TAPE;
        *before = lines[i].kind;
        return read_words(lines[i].kind, line, c, room);
    }
    return ORACLE_BAD_TAPE;
}

/* A whole line and its verb; false also when it ends in a space, behind which a word is missing. */
static bool next_line(reader *r, reader *line, bytes *verb) {
    return reader_line(r, line) && line->at != line->end && line->end[-1] != ' ' && reader_word(line, verb);
}

static bool read_first(reader *r, conversation *c) {
    reader line;
    bytes verb;
    return next_line(r, &line, &verb) && word_is(verb, "encode") && read_switch(&line, &c->thinking) && read_switch(&line, &c->max) &&
           read_switch(&line, &c->drop) && line.at == line.end;
}

/* How many lines of each kind there are at most. */
static void count_lines(reader r, size_t *turns, size_t *calls, size_t *tools) {
    reader line;
    bytes verb;
    *turns = *calls = *tools = 0;
    while (next_line(&r, &line, &verb)) {
        *turns += word_is(verb, "turn");
        *calls += word_is(verb, "call");
        *tools += word_is(verb, "tool");
    }
}

int conversation_read(const uint8_t *input, size_t length, conversation *c) {
    reader r = reader_over(input, length), line;
    size_t turns, calls, tools;
    bytes verb;
    line_kind before = LINE_TURN;
    *c = (conversation){0};
    if (!read_first(&r, c)) return ORACLE_BAD_TAPE;
    count_lines(r, &turns, &calls, &tools);
    if (length > SIZE_MAX / sizeof *c->turns) return ORACLE_NO_MEMORY; /* a line is longer than a byte */
    c->turns = malloc((turns + 1) * sizeof *c->turns);
    c->calls = malloc((calls + 1) * sizeof *c->calls);
    c->tools = malloc((tools + 1) * sizeof *c->tools);
    c->room = malloc(length); /* no text has more bytes than its word */
    if (c->turns == NULL || c->calls == NULL || c->tools == NULL || c->room == NULL) return ORACLE_NO_MEMORY;

    uint8_t *room = c->room;
    while (r.at != r.end) {
        int rc = ORACLE_BAD_TAPE;
        if (!next_line(&r, &line, &verb)) return ORACLE_BAD_TAPE;
        if (word_is(verb, "turn")) {
            before = LINE_TURN;
            rc = good_if(read_turn(&line, c, &room));
        } else {
            rc = read_part(verb, &line, c, &room, &before);
        }
        if (rc != ORACLE_OK) return rc;
        if (line.at != line.end) return ORACLE_BAD_TAPE;
    }
    return ORACLE_OK;
}

void conversation_free(conversation *c) {
    free(c->turns);
    free(c->calls);
    free(c->tools);
    free(c->room);
    *c = (conversation){0};
}
