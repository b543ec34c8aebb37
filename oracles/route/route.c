/* route.c - which lane answers a request: needs from facts, then the first lane that is there, can do it, and is large
 * enough. */
#include "oracles/common/oracle.h"
#include "oracles/common/words.h"

enum {
    STREAM, SAMPLING, THINKING, STOPS, TOOLS, TOKEN_IDS, LOGPROBS, GRAMMAR, STORE, LIVE, IMAGE, AUDIO, PRIVATE, CACHED, USAGE,
    FACTS
};
static const char *const fact_names[] = {"stream", "sampling", "thinking", "stops", "tools",   "token_ids", "logprobs", "grammar",
                                         "store",  "live",     "image",    "audio", "private", "cached",    "usage"};

enum {
    N_STREAMING, N_SAMPLING, N_THINKING, N_STOP_SCAN, N_TOOL_SCAN, N_TOKEN_IDS, N_LOGPROBS, N_GRAMMAR, N_PUBLISH, N_RECOVERY,
    N_DURABLE, N_PREFILL_ONLY, N_BANK_FRONTIER, N_IMAGE, N_AUDIO, N_EMBEDDING, N_CHOICES, N_PRIVATE,
    NEEDS
};
static const char *const need_names[] = {"streaming", "sampling", "thinking", "stop_scan",    "tool_scan",     "token_ids",
                                         "logprobs",  "grammar",  "publish",  "recovery",     "durable",       "prefill_only",
                                         "bank_frontier", "image", "audio",   "embedding",    "choices",       "private"};

enum { CHAT, COMPLETIONS, MESSAGES, RESPONSES, EMBEDDINGS };
static const char *const surfaces[] = {"chat", "completions", "messages", "responses", "embeddings", NULL};

enum { CONTINUOUS, STATIC, SERIAL, LANES };
static const char *const lanes[] = {"continuous", "static", "serial"};

#define MAX31 INT64_C(0x7FFFFFFF)
#define BIT(n) (UINT32_C(1) << (n))

typedef struct server {
    int64_t width, size[LANES];
    uint32_t open, meets[LANES];
} server;

typedef struct ask {
    int surface;
    uint32_t facts;
    int64_t prompt, budget, choices;
} ask;

static bool read_server(reader *tape, server *s) {
    static const char *const verb[] = {"route", NULL};
    words w = words_of(tape);
    (void)words_choice(&w, verb);
    s->width = words_int(&w, 0, 1024);
    s->size[CONTINUOUS] = s->size[STATIC] = words_int(&w, 1, MAX31);
    s->size[SERIAL] = words_int(&w, 1, MAX31);
    s->open = (uint32_t)words_int(&w, 0, 7);
    for (int lane = 0; lane < LANES; lane++) s->meets[lane] = (uint32_t)words_int(&w, 0, BIT(NEEDS) - 1);
    return words_done(&w);
}

static bool read_ask(reader *tape, ask *a) {
    static const char *const verb[] = {"ask", NULL};
    words w = words_of(tape);
    (void)words_choice(&w, verb);
    a->surface = words_choice(&w, surfaces);
    a->facts = (uint32_t)words_int(&w, 0, BIT(FACTS) - 1);
    a->prompt = words_int(&w, 0, MAX31);
    a->budget = words_int(&w, 0, MAX31);
    a->choices = words_int(&w, 1, MAX31);
    return words_done(&w);
}

static bool says(const ask *a, int fact) { return (a->facts & BIT(fact)) != 0; }

static uint32_t when(bool condition, int need) { return condition ? BIT(need) : 0; }

static uint32_t needs_of(const ask *a) {
    const bool tools = says(a, TOOLS);
    return when(says(a, STREAM), N_STREAMING) | when(says(a, SAMPLING), N_SAMPLING) | when(says(a, THINKING), N_THINKING) |
           when(says(a, STOPS), N_STOP_SCAN) | when(tools, N_TOOL_SCAN) | when(says(a, TOKEN_IDS), N_TOKEN_IDS) |
           when(says(a, LOGPROBS), N_LOGPROBS) | when(says(a, GRAMMAR), N_GRAMMAR) |
           when(tools && (a->surface == MESSAGES || a->surface == RESPONSES), N_PUBLISH) |
           when(tools && !says(a, STREAM), N_RECOVERY) | when(says(a, STORE) && a->surface == RESPONSES, N_DURABLE) |
           when(a->budget == 0 && a->surface != EMBEDDINGS, N_PREFILL_ONLY) | when(says(a, LIVE), N_BANK_FRONTIER) |
           when(says(a, IMAGE), N_IMAGE) | when(says(a, AUDIO), N_AUDIO) | when(a->surface == EMBEDDINGS, N_EMBEDDING) |
           when(a->choices > 1, N_CHOICES) | when(says(a, PRIVATE), N_PRIVATE);
}

static uint32_t foreign_facts(int surface) {
    const uint32_t media = BIT(IMAGE) | BIT(AUDIO);
    if (surface == COMPLETIONS) return BIT(THINKING) | BIT(TOOLS) | BIT(STORE) | BIT(LIVE) | media;
    if (surface == EMBEDDINGS)
        return BIT(STREAM) | BIT(SAMPLING) | BIT(THINKING) | BIT(STOPS) | BIT(TOOLS) | BIT(LOGPROBS) | BIT(GRAMMAR) | BIT(STORE) |
               BIT(LIVE) | media;
    return 0;
}

/* The number of the lowest bit; there is one. */
static int lowest(uint32_t bits) {
    int n = 0;
    while ((bits & BIT(n)) == 0) n++;
    return n;
}

static void line(tape *out, const char *first, const char *second, const char *third, const char *fourth) {
    tape_word(out, first);
    tape_word(out, second);
    tape_word(out, third);
    tape_word(out, fourth);
}

static void refuse(tape *out, const char *status, const char *reason, const char *subject) {
    line(out, "refuse", status, reason, subject);
    tape_end(out);
}

static void answer(const server *s, const ask *a, tape *out) {
    const uint32_t needs = needs_of(a);
    const int64_t room = a->budget == 0 || a->surface == EMBEDDINGS ? a->prompt : a->prompt + 1;
    bool usable[LANES];
    uint32_t unmet = needs;
    int first = -1;
    bool fits = false;
    for (int lane = 0; lane < LANES; lane++) {
        usable[lane] = (s->open & BIT(lane)) != 0 && (lane == SERIAL || s->width >= (lane == STATIC ? 2 : 1));
        if (!usable[lane]) continue;
        if (first < 0) first = lane;
        unmet &= ~s->meets[lane];
        fits = fits || room <= s->size[lane];
    }
    const uint32_t foreign = a->facts & foreign_facts(a->surface);

    if (first < 0) {
        refuse(out, "503", "no_lane", "-");
    } else if (a->prompt == 0) {
        refuse(out, "400", "prompt_empty", "-");
    } else if (foreign != 0) {
        refuse(out, "400", "surface", fact_names[lowest(foreign)]);
    } else if (unmet != 0) {
        refuse(out, "400", "need", need_names[lowest(unmet)]);
    } else if (!fits) {
        refuse(out, "400", "prompt_too_long", "-");
    } else {
        for (int lane = 0; lane < LANES; lane++) {
            if (!usable[lane] || (needs & ~s->meets[lane]) != 0 || s->size[lane] < room) continue;
            const uint32_t missed = needs & ~s->meets[CONTINUOUS];
            const char *reason, *subject = "-";
            if (lane == CONTINUOUS) {
                reason = (needs & BIT(N_BANK_FRONTIER)) != 0 ? "continuation" : "continuous";
            } else if (s->width == 0) {
                reason = "width_zero";
            } else if ((s->open & BIT(CONTINUOUS)) == 0) {
                reason = "continuous_off";
            } else if (missed != 0) {
                reason = "need";
                subject = need_names[lowest(missed)];
            } else {
                reason = "prompt_bounds";
            }
            line(out, "lane", lanes[lane], reason, subject);
            tape_uint(out, needs);
            tape_end(out);
            return;
        }
        const uint32_t missed = needs & ~s->meets[first];
        refuse(out, "400", "no_common_lane", missed != 0 ? need_names[lowest(missed)] : "-");
    }
}

static int run(const void *state, const uint8_t *input, size_t length, tape *out) {
    (void)state;
    reader tape = reader_over(input, length);
    server s;
    if (!read_server(&tape, &s)) return ORACLE_BAD_TAPE;
    while (tape.at != tape.end && !out->failed) { /* of a tape that turns out to be bad nothing is kept */
        ask a;
        if (!read_ask(&tape, &a)) return ORACLE_BAD_TAPE;
        answer(&s, &a, out);
    }
    return ORACLE_OK;
}

const oracle_kind oracle_route = {"route", NULL, run, NULL};
