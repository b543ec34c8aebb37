/* checked.h - arithmetic on numbers that come from a file or a caller: false when the result does not fit. */
#ifndef DS4_CHECKED_H
#define DS4_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_add_overflow(a, b, out); }

#endif
