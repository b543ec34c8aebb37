/* words.c - the words of a line. */
#include "oracles/common/words.h"

words words_of(reader *tape) {
    words w = {0};
    w.bad = !reader_line(tape, &w.line) || w.line.at == w.line.end || w.line.end[-1] == ' ';
    return w;
}

bool words_left(const words *w) { return !w->bad && w->line.at != w->line.end; }

bytes words_next(words *w) {
    bytes word = {0};
    if (!w->bad && !reader_word(&w->line, &word)) w->bad = true;
    return word;
}

int64_t words_int(words *w, int64_t low, int64_t high) {
    int64_t value = low;
    const bytes word = words_next(w);
    if (w->bad) return low;
    if (!word_int(word, &value) || value < low || value > high) {
        w->bad = true;
        return low;
    }
    return value;
}

int words_choice(words *w, const char *const *names) {
    const bytes word = words_next(w);
    for (int i = 0; !w->bad && names[i] != NULL; i++)
        if (word_is(word, names[i])) return i;
    w->bad = true;
    return 0;
}

bool words_done(const words *w) { return !w->bad && w->line.at == w->line.end; }
