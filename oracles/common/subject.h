/* subject.h - verdicts on metadata and tensors: what they are about, as one word that a terminal can show. */
#ifndef DS4_ORACLE_SUBJECT_H
#define DS4_ORACLE_SUBJECT_H

#include "oracles/common/tape.h"

/* Writes `error <code> <subject>`. A subject of more than 96 characters is cut to 93 and "..."; characters outside
 * U+0020..007E are written as \t, \n, \r, \xNN, \uNNNN or \UNNNNNNNN, a byte XX of no UTF-8 as \udcXX. */
void write_verdict(tape *out, const char *code, bytes subject);

#endif
