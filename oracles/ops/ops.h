/* ops.h - what the files of this oracle share. The contract is README.md beside it. */
#ifndef DS4_ORACLE_OPS_H
#define DS4_ORACLE_OPS_H

#include "oracles/common/oracle.h"

#define OPS_U 0x1p-24 /* half a unit in the last place of 1 */

/* A number of the result: its value, and by how much an engine may differ. */
typedef struct bounded {
    double value, within;
} bounded;

/* The rest of a command line, word by word. Each answers false for a word that is missing or out of range. */
bool take_word(reader *line, bytes *word);
bool take_int(reader *line, int64_t from, int64_t to, int64_t *value);
bool take_float(reader *line, double from, double to, float *value); /* 8 hex digits */
bool hex_float(bytes word, double from, double to, float *value);
bool part_of(bytes *word, char separator, bytes *part); /* cuts the part before a separator off; the last has none */

/* n fp32 numbers off the front of raw, each finite and of at most 2^20; NULL: no such numbers or no memory, see *status. */
float *take_numbers(bytes *raw, uint64_t n, int *status);

/* `exact`: there is nothing to allow. */
void put_row(tape *out, const bounded *row, size_t n, bool exact);

/* One operation: the words behind its name, and the raw bytes. */
int ops_rope(reader line, bytes raw, tape *out);
int ops_attention(reader line, bytes raw, tape *out);

#endif
