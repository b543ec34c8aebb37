/* split.c - cutting a text by a pre-tokenizer, and the table of them. Their matchers are in matchers.c. */
#include "oracles/tokenizer/split.h"

#include <stdlib.h>
#include <string.h>

#include "oracles/common/utf8.h"
#include "oracles/tokenizer/matchers.h"
#include "oracles/tokenizer/standin.h"

/* Names, and the stages that they share. */
#define LLAMA3 .stages = {match_llama3}
#define DEEPSEEK3 .stages = {match_three_numbers, match_han_or_kana, match_deepseek3}
#define BLOOM .stages = {match_bloom}
#define DIGITS_AND_GPT2 .stages = {match_numeric, match_gpt2}

static const pretokenizer known[] = {
    {"gpt-2", .stages = {match_gpt2}},
    {"gpt2", .stages = {match_gpt2}},
    {"mpt", .stages = {match_gpt2}},
    {"olmo", .stages = {match_gpt2}},
    {"phi-2", .stages = {match_gpt2}},
    {"jais", .stages = {match_gpt2}},
    {"trillion", .stages = {match_gpt2}},
    {"granite-docling", .stages = {match_gpt2}},
    {"smollm", DIGITS_AND_GPT2},
    {"starcoder", DIGITS_AND_GPT2},
    {"refact", DIGITS_AND_GPT2},
    {"command-r", DIGITS_AND_GPT2},
    {"codeshell", DIGITS_AND_GPT2},
    {"exaone", DIGITS_AND_GPT2},
    {"minerva-7b", DIGITS_AND_GPT2},
    {"llama-bpe", .whole_words = true, LLAMA3},
    {"llama3", .whole_words = true, LLAMA3},
    {"llama-v3", .whole_words = true, LLAMA3},
    {"falcon3", .whole_words = true, LLAMA3},
    {"lfm2", .whole_words = true, LLAMA3},
    {"dbrx", LLAMA3},
    {"smaug-bpe", LLAMA3},
    {"chatglm-bpe", LLAMA3},
    {"glm4", LLAMA3},
    {"qwen2", .compose = true, .stages = {match_qwen2}},
    {"deepseek-r1-qwen", .compose = true, .stages = {match_qwen2}},
    {"megrez", .compose = true, .stages = {match_qwen2}},
    {"stablelm2", .stages = {match_qwen2}},
    {"solar-open", .stages = {match_qwen2}},
    {"qwen35", .stages = {match_qwen35}},
    {"deepseek-llm", .stages = {match_line_end, match_spaced_alphabet, match_spaced_ascii, match_white_end, match_east_asian, match_numeric}},
    {"deepseek-coder", .stages = {match_line_end, match_spaced_letters, match_spaced_punctuation, match_east_asian, match_numeric}},
    {"deepseek-v3", DEEPSEEK3},
    {"joyai-llm", DEEPSEEK3},
    {"hunyuan-dense", DEEPSEEK3},
    {"gpt-4o", .stages = {match_gpt4o}},
    {"llama4", .stages = {match_gpt4o}},
    {"tekken", .whole_words = true, .stages = {match_tekken}},
    {"kimi-k2", .stages = {match_kimi}},
    {"falcon", .stages = {match_punctuation_run, match_gpt2, match_numeric_run, match_three_digits}, .stand_ins = 2},
    {"bloom", BLOOM},
    {"poro-chat", BLOOM},
    {"gpt3-finnish", BLOOM},
};

const pretokenizer *pretokenizer_named(bytes name) {
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        if (name.length == strlen(known[k].name) && memcmp(name.data, known[k].name, name.length) == 0) return &known[k];
    return NULL;
}

/* ---- characters ---- */

static bool characters_make(characters *c, size_t most) {
    *c = (characters){0};
    if (most >= SIZE_MAX / 16) return false;
    c->code = malloc((most + 1) * sizeof *c->code);
    c->class = malloc(most + 1);
    c->at = malloc((most + 1) * sizeof *c->at);
    c->first = calloc(most + 1, sizeof *c->first);
    if (c->code != NULL && c->class != NULL && c->at != NULL && c->first != NULL) return true;
    characters_free(c);
    return false;
}

static void add(characters *c, uint32_t code, size_t at) {
    c->code[c->count] = code;
    c->class[c->count] = class_of(code);
    c->at[c->count++] = at;
}

bool characters_read(characters *c, bytes text) {
    if (!characters_make(c, text.length)) return false;
    for (size_t at = 0, n; at < text.length; at += n) {
        uint32_t code = 0xfffd;
        n = utf8_next(text.data + at, text.length - at, &code);
        if (n == 0) n = 1; /* the caller's text is UTF-8 */
        add(c, code, at);
    }
    c->at[c->count] = text.length;
    c->first[0] = c->first[c->count] = true;
    return true;
}

/* The same pieces over one character a byte. */
static bool turn_to_stand_ins(characters *c, bytes text) {
    characters turned;
    if (!characters_make(&turned, text.length)) return false;
    for (size_t i = 0; i < text.length; i++) add(&turned, stand_in(text.data[i]), i);
    turned.at[turned.count] = text.length;
    for (size_t i = 0; i <= c->count; i++) turned.first[c->at[i]] = c->first[i];
    characters_free(c);
    *c = turned;
    return true;
}

void characters_free(characters *c) {
    free(c->code);
    free(c->class);
    free(c->at);
    free(c->first);
    *c = (characters){0};
}

/* ---- cutting ---- */

static void cut(characters *c, matcher match) {
    for (size_t begin = 0, end; begin < c->count; begin = end) {
        end = begin + 1;
        while (!c->first[end]) end++;
        for (size_t i = begin, stop; i < end; i = stop) {
            stop = match(c, i, end);
            if (stop > i) c->first[i] = c->first[stop] = true;
            else stop = i + 1;
        }
    }
}

bool split(const pretokenizer *p, characters *c, bytes text) {
    for (size_t stage = 0; stage < STAGES && p->stages[stage] != NULL; stage++) {
        if (p->stand_ins != 0 && stage == p->stand_ins && !turn_to_stand_ins(c, text)) return false;
        cut(c, p->stages[stage]);
    }
    return true;
}
