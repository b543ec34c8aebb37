/* words.h - the words of a line, one after the other, each of the kind and in the range that a contract says.
 *
 * A walk that has met a word that is none of these is `bad` and stays so, so a line can be read first and judged once.
 */
#ifndef DS4_ORACLE_WORDS_H
#define DS4_ORACLE_WORDS_H

#include "oracles/common/tape.h"

typedef struct words {
    reader line;
    bool bad;
} words;

words words_of(reader *tape);                                /* of the next line; bad when there is no whole line */
bool words_left(const words *w);                             /* false when bad, too */
bytes words_next(words *w);                                  /* any word, still escaped */
int64_t words_int(words *w, int64_t low, int64_t high);      /* an integer within low..high */
int words_choice(words *w, const char *const *names);        /* the index of one of these; the list ends with NULL */
bool words_done(const words *w);                             /* all words are taken and all were good */

#endif
