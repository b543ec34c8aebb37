/* gguf.h - a read-only walk of a GGUF file's tensor directory.
 *
 * Written apart from the host's reader on purpose: the two walks are compared when a model is opened, so a fault in one
 * shows. Metadata is stepped over (only general.alignment is read); names point into the mapping and
 * are not terminated.
 *
 * GGUF v2/v3, little-endian (source: the GGUF specification, ggml docs/gguf.md):
 *
 *   offset  size  field
 *   0       4     magic "GGUF"
 *   4       4     u32 version, 2 or 3
 *   8       8     u64 n_tensors
 *   16      8     u64 n_kv
 *   24      ...   n_kv entries: string key, u32 value type, value
 *   ...     ...   n_tensors entries: string name, u32 n_dims, u64 dims[n_dims], u32 type, u64 offset
 *   ...     ...   zeros up to a multiple of general.alignment (32); tensor offsets count from here
 *
 *   string: u64 length, bytes.  array value: u32 element type, u64 count, elements.
 *   value types: 0 u8, 1 i8, 2 u16, 3 i16, 4 u32, 5 i32, 6 f32, 7 bool, 8 string, 9 array, 10 u64, 11 i64, 12 f64
 */
#ifndef DS4_ENGINE_GGUF_H
#define DS4_ENGINE_GGUF_H

#include "native/bridge/ds4_bridge.h"

typedef struct gguf_tensor {
    const char *name; /* in the mapping, not terminated */
    uint32_t name_bytes;
    int32_t type; /* GGUF's number, perhaps not a ds4_type */
    int32_t n_dims;
    int64_t dims[DS4_MAX_DIMS]; /* unused are 1 */
    uint64_t offset;            /* from the start of the file */
    uint64_t bytes;             /* 0 when the type is not a ds4_type */
} gguf_tensor;

typedef struct gguf_file {
    const uint8_t *data; /* the mapping */
    uint64_t bytes;
    uint32_t version;
    uint32_t alignment;
    uint64_t data_offset; /* where tensor data begins */
    uint64_t n_tensors;
    gguf_tensor *tensors; /* sorted by name */
} gguf_file;

/* Maps and walks a file. The name of the path appears in errors. gguf_close undoes both; it accepts a zeroed struct. */
int32_t gguf_open(const char *path, gguf_file *out, ds4_error *err);
void gguf_close(gguf_file *file);

/* Walks bytes that the caller keeps; gguf_close is then gguf_forget. */
int32_t gguf_walk(const char *path, const void *data, uint64_t bytes, gguf_file *out, ds4_error *err);
void gguf_forget(gguf_file *file);

const gguf_tensor *gguf_find(const gguf_file *file, const char *name);

#endif
