/* hash.h - XXH64 with seed 0 (the published specification, "XXH64 algorithm description", doc/xxhash_spec.md of the
 * xxHash project), so that any tool can check a snapshot's checksum. Little-endian hosts only, as all of the engine. */
#ifndef DS4_HASH_H
#define DS4_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ds4_hash64(const void *data, size_t bytes);

#endif
