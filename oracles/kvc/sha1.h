/* sha1.h - SHA-1 (FIPS 180-4, section 6.1) of two stretches of bytes, one behind the other. */
#ifndef DS4_ORACLE_SHA1_H
#define DS4_ORACLE_SHA1_H

#include "oracles/common/tape.h"

/* As 40 lower-case hexadecimal digits and a NUL. */
void sha1_hex(bytes first, bytes second, char hex[41]);

#endif
