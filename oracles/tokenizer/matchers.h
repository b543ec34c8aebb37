/* matchers.h - the expressions that pre-tokenizers cut by, as functions (split.h: matcher). Each is written out in
 * matchers.c. */
#ifndef DS4_ORACLE_TOKENIZER_MATCHERS_H
#define DS4_ORACLE_TOKENIZER_MATCHERS_H

#include "oracles/tokenizer/split.h"

uint8_t class_of(uint32_t code);

size_t match_gpt2(const characters *c, size_t i, size_t end);
size_t match_llama3(const characters *c, size_t i, size_t end);
size_t match_qwen2(const characters *c, size_t i, size_t end);
size_t match_qwen35(const characters *c, size_t i, size_t end);
size_t match_deepseek3(const characters *c, size_t i, size_t end);
size_t match_gpt4o(const characters *c, size_t i, size_t end);
size_t match_tekken(const characters *c, size_t i, size_t end);
size_t match_kimi(const characters *c, size_t i, size_t end);
size_t match_bloom(const characters *c, size_t i, size_t end);

size_t match_numeric(const characters *c, size_t i, size_t end);
size_t match_numeric_run(const characters *c, size_t i, size_t end);
size_t match_three_numbers(const characters *c, size_t i, size_t end);
size_t match_three_digits(const characters *c, size_t i, size_t end);
size_t match_punctuation_run(const characters *c, size_t i, size_t end);
size_t match_han_or_kana(const characters *c, size_t i, size_t end);
size_t match_east_asian(const characters *c, size_t i, size_t end);
size_t match_line_end(const characters *c, size_t i, size_t end);
size_t match_white_end(const characters *c, size_t i, size_t end);
size_t match_spaced_letters(const characters *c, size_t i, size_t end);
size_t match_spaced_punctuation(const characters *c, size_t i, size_t end);
size_t match_spaced_alphabet(const characters *c, size_t i, size_t end);
size_t match_spaced_ascii(const characters *c, size_t i, size_t end);

#endif
