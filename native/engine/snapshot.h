/* snapshot.h - a bank as bytes.
 *
 * Little-endian:
 *
 *   offset         size          field
 *   0              8             magic "DS4SNAP\n"
 *   8              4             u32 version, 1
 *   12             4             u32 header bytes, 80
 *   16             8             u64 bytes in all, checksum included
 *   24             8             u64 fingerprint of the model: XXH64 of its hparams and of each slot's role, layer, type,
 *                                dims, size and name
 *   32             4             u32 family
 *   36             4             u32 n_layer
 *   40             4             u32 n_head_kv
 *   44             4             u32 head_dim
 *   48             4             u32 KV type (GGUF's number)
 *   52             4             u32 n_vocab
 *   56             4             u32 n, the positions held
 *   60             4             u32 0
 *   64             8             u64 s, the bytes of the rows
 *   72             8             u64 0
 *   80             4 n           i32 token of each position
 *   80 + 4 n       0 or 4        zeros up to a multiple of 8
 *   ...            s             K and V rows of every layer, as the backend lays them out for this KV type and shape; of a
 *                                latent cache what later positions need: raw rows of the window, compressed rows, the rolling
 *                                state of open windows, and the carried row of the last position
 *   ...            8             u64 XXH64 (seed 0) of every byte before it
 */
#ifndef DS4_ENGINE_SNAPSHOT_H
#define DS4_ENGINE_SNAPSHOT_H

#include "native/engine/session.h"

#define SNAPSHOT_VERSION 1
#define SNAPSHOT_HEADER_BYTES 80

struct ds4_snapshot {
    uint64_t bytes;
    int32_t n_tokens;
    uint64_t rows_bytes;
    uint8_t *data; /* [bytes], aligned to 8 */
};

#endif
