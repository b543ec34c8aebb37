#include "native/engine/gguf.h"

#include "native/bridge/status.h"
#include "native/engine/checked.h"
#include "native/quant/quant.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "GGUF tensors are used where they lie; a big-endian machine would have to convert them"
#endif

enum {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_U64,
    GGUF_I64, GGUF_F64, GGUF_N_TYPES
};

/* Bytes of a scalar; 0 for string and array, whose size is in the file. */
static const uint8_t scalar_bytes[GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

#define HEADER_BYTES 24
#define LEAST_KV_BYTES 13     /* an empty key, a type, one byte */
#define LEAST_TENSOR_BYTES 32 /* an empty name, one dimension */
#define MAX_ARRAY_DEPTH 8     /* arrays in arrays; the format sets no limit, our stack does */
#define MAX_NAME_BYTES 4096

/* Where the walk stands. Every read goes through take(), which is the one bounds check. */
typedef struct cursor {
    const char *path;
    const uint8_t *data;
    uint64_t bytes, at;
    ds4_error *err;
} cursor;

static const uint8_t *take(cursor *c, uint64_t n, const char *what)
{
    const uint64_t left = c->bytes - c->at;
    const uint8_t *p = c->data + c->at;

    if (n > left) {
        ds4_fail(c->err, DS4_ERR_FORMAT, "%s: %s at offset %" PRIu64 " needs %" PRIu64 " bytes, %" PRIu64 " are left",
                 c->path, what, c->at, n, left);
        return NULL;
    }
    c->at += n;
    return p;
}

static bool take_u32(cursor *c, uint32_t *out, const char *what)
{
    const uint8_t *p = take(c, sizeof *out, what);
    if (p)
        memcpy(out, p, sizeof *out);
    return p != NULL;
}

static bool take_u64(cursor *c, uint64_t *out, const char *what)
{
    const uint8_t *p = take(c, sizeof *out, what);
    if (p)
        memcpy(out, p, sizeof *out);
    return p != NULL;
}

static bool take_string(cursor *c, const char **text, uint64_t *bytes, const char *what)
{
    if (!take_u64(c, bytes, what))
        return false;
    *text = (const char *)take(c, *bytes, what);
    return *text != NULL;
}

static bool skip_value(cursor *c, uint32_t type, int depth)
{
    const char *text;
    uint32_t element;
    uint64_t n, bytes;

    if (type >= GGUF_N_TYPES) {
        ds4_fail(c->err, DS4_ERR_FORMAT, "%s: metadata value at offset %" PRIu64 " has type %u, expected 0..%d", c->path,
                 c->at, type, GGUF_N_TYPES - 1);
        return false;
    }
    if (scalar_bytes[type])
        return take(c, scalar_bytes[type], "a metadata value") != NULL;
    if (type == GGUF_STRING)
        return take_string(c, &text, &n, "a metadata string");

    if (depth >= MAX_ARRAY_DEPTH) {
        ds4_fail(c->err, DS4_ERR_FORMAT, "%s: metadata arrays nest deeper than %d at offset %" PRIu64, c->path,
                 MAX_ARRAY_DEPTH, c->at);
        return false;
    }
    if (!take_u32(c, &element, "an array's element type") || !take_u64(c, &n, "an array's count"))
        return false;
    if (element < GGUF_N_TYPES && scalar_bytes[element]) {
        if (!checked_mul(n, scalar_bytes[element], &bytes))
            bytes = UINT64_MAX;
        return take(c, bytes, "a metadata array") != NULL;
    }
    /* Strings and arrays take eight bytes at least, so the loop ends with the file however large n is. */
    for (uint64_t i = 0; i < n; i++)
        if (!skip_value(c, element, depth + 1))
            return false;
    return true;
}

static bool walk_metadata(cursor *c, uint64_t n_kv, uint32_t *alignment)
{
    static const char key_alignment[] = "general.alignment";
    const char *key;
    uint64_t key_bytes;
    uint32_t type;

    for (uint64_t i = 0; i < n_kv; i++) {
        if (!take_string(c, &key, &key_bytes, "a metadata key") || !take_u32(c, &type, "a metadata type"))
            return false;
        const uint64_t value_at = c->at;
        if (!skip_value(c, type, 0))
            return false;
        if (key_bytes == sizeof key_alignment - 1 && !memcmp(key, key_alignment, key_bytes)) {
            if (type != GGUF_U32) {
                ds4_fail(c->err, DS4_ERR_FORMAT, "%s: general.alignment has type %u, expected %d (u32)", c->path, type,
                         GGUF_U32);
                return false;
            }
            memcpy(alignment, c->data + value_at, sizeof *alignment);
            if (*alignment < 8 || (*alignment & (*alignment - 1))) {
                ds4_fail(c->err, DS4_ERR_FORMAT, "%s: general.alignment is %u, expected a power of two of 8 or more",
                         c->path, *alignment);
                return false;
            }
        }
    }
    return true;
}

/* Reads a directory entry; its offset is still relative to the data section. */
static bool walk_tensor(cursor *c, gguf_tensor *t)
{
    uint64_t name_bytes, dim, elements = 1;
    uint32_t n_dims, type;

    if (!take_string(c, &t->name, &name_bytes, "a tensor name"))
        return false;
    if (name_bytes == 0 || name_bytes > MAX_NAME_BYTES || memchr(t->name, 0, name_bytes)) {
        ds4_fail(c->err, DS4_ERR_FORMAT,
                 "%s: the tensor name before offset %" PRIu64 " has %" PRIu64 " bytes, expected 1..%d and no NUL", c->path,
                 c->at, name_bytes, MAX_NAME_BYTES);
        return false;
    }
    t->name_bytes = (uint32_t)name_bytes;
    if (!take_u32(c, &n_dims, "a tensor's dimension count"))
        return false;
    if (n_dims < 1 || n_dims > DS4_MAX_DIMS) {
        ds4_fail(c->err, DS4_ERR_FORMAT, "%s: tensor %.*s has %u dimensions, expected 1..%d", c->path,
                 (int)t->name_bytes, t->name, n_dims, DS4_MAX_DIMS);
        return false;
    }
    t->n_dims = (int32_t)n_dims;
    for (int i = 0; i < DS4_MAX_DIMS; i++)
        t->dims[i] = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        if (!take_u64(c, &dim, "a tensor's dimensions"))
            return false;
        if (dim == 0 || dim > INT64_MAX || !checked_mul(elements, dim, &elements) || elements > INT64_MAX) {
            ds4_fail(c->err, DS4_ERR_FORMAT, "%s: dimension %u of tensor %.*s is %" PRIu64
                     ", expected 1 or more and fewer than 2^63 elements in all", c->path, i, (int)t->name_bytes, t->name, dim);
            return false;
        }
        t->dims[i] = (int64_t)dim;
    }
    if (!take_u32(c, &type, "a tensor's type") || !take_u64(c, &t->offset, "a tensor's offset"))
        return false;
    if (type > INT32_MAX) {
        ds4_fail(c->err, DS4_ERR_FORMAT, "%s: tensor %.*s has type %u", c->path, (int)t->name_bytes, t->name, type);
        return false;
    }
    t->type = (int32_t)type;
    return true;
}

/* Makes a tensor's offset absolute and checks that its data lie within the file. */
static bool place_tensor(const gguf_file *f, const char *path, gguf_tensor *t, ds4_error *err)
{
    const uint64_t data_bytes = f->bytes - f->data_offset;
    const int known = ds4_block_elements(t->type) > 0;

    if (t->offset % f->alignment) {
        ds4_fail(err, DS4_ERR_FORMAT, "%s: tensor %.*s begins at %" PRIu64 ", expected a multiple of %u", path,
                 (int)t->name_bytes, t->name, t->offset, f->alignment);
        return false;
    }
    t->bytes = 0;
    if (known) {
        const uint64_t row = ds4_row_bytes(t->type, t->dims[0]);
        const uint64_t rows = (uint64_t)t->dims[1] * (uint64_t)t->dims[2] * (uint64_t)t->dims[3]; /* < 2^63, see above */
        if (row == 0) {
            ds4_fail(err, DS4_ERR_FORMAT, "%s: rows of tensor %.*s have %" PRId64
                     " elements, expected a multiple of %d and fewer than 2^63 bytes", path, (int)t->name_bytes, t->name,
                     t->dims[0], ds4_block_elements(t->type));
            return false;
        }
        if (!checked_mul(row, rows, &t->bytes))
            t->bytes = UINT64_MAX;
    }
    if (t->offset > data_bytes || t->bytes > data_bytes - t->offset) {
        ds4_fail(err, DS4_ERR_FORMAT, "%s: tensor %.*s needs %" PRIu64 " bytes at %" PRIu64 " of %" PRIu64 " bytes of data",
                 path, (int)t->name_bytes, t->name, t->bytes, t->offset, data_bytes);
        return false;
    }
    t->offset += f->data_offset;
    return true;
}

static int compare_names(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int compare_tensors(const void *a, const void *b)
{
    const gguf_tensor *x = a, *y = b;
    return compare_names(x->name, x->name_bytes, y->name, y->name_bytes);
}

static bool walk_directory(cursor *c, gguf_file *f)
{
    uint64_t n_kv;

    if (f->n_tensors > (c->bytes - c->at) / LEAST_TENSOR_BYTES) {
        ds4_fail(c->err, DS4_ERR_FORMAT, "%s: %" PRIu64 " tensors are announced, %" PRIu64 " bytes are left", c->path,
                 f->n_tensors, c->bytes - c->at);
        return false;
    }
    if (!take_u64(c, &n_kv, "the metadata count"))
        return false;
    if (n_kv > (c->bytes - c->at) / LEAST_KV_BYTES) {
        ds4_fail(c->err, DS4_ERR_FORMAT, "%s: %" PRIu64 " metadata entries are announced, %" PRIu64 " bytes are left",
                 c->path, n_kv, c->bytes - c->at);
        return false;
    }
    if (!walk_metadata(c, n_kv, &f->alignment))
        return false;

    f->tensors = calloc(f->n_tensors ? f->n_tensors : 1, sizeof *f->tensors);
    if (!f->tensors) {
        ds4_fail(c->err, DS4_ERR_MEMORY, "%s: no memory for a directory of %" PRIu64 " tensors", c->path, f->n_tensors);
        return false;
    }
    for (uint64_t i = 0; i < f->n_tensors; i++)
        if (!walk_tensor(c, &f->tensors[i]))
            return false;

    const uint64_t pad = (f->alignment - c->at % f->alignment) % f->alignment;
    if (!take(c, f->n_tensors ? pad : 0, "the padding before tensor data"))
        return false;
    f->data_offset = c->at;
    for (uint64_t i = 0; i < f->n_tensors; i++)
        if (!place_tensor(f, c->path, &f->tensors[i], c->err))
            return false;

    qsort(f->tensors, f->n_tensors, sizeof *f->tensors, compare_tensors);
    for (uint64_t i = 1; i < f->n_tensors; i++)
        if (!compare_tensors(&f->tensors[i - 1], &f->tensors[i])) {
            ds4_fail(c->err, DS4_ERR_FORMAT, "%s: two tensors are named %.*s", c->path, (int)f->tensors[i].name_bytes,
                     f->tensors[i].name);
            return false;
        }
    return true;
}

int32_t gguf_walk(const char *path, const void *data, uint64_t bytes, gguf_file *out, ds4_error *err)
{
    cursor c = {path, data, bytes, 0, err};
    const uint8_t *magic;

    memset(out, 0, sizeof *out);
    out->data = data;
    out->bytes = bytes;
    out->alignment = 32;
    if (bytes < HEADER_BYTES)
        return ds4_fail(err, DS4_ERR_FORMAT, "%s: a GGUF header has %d bytes, the file has %" PRIu64, path, HEADER_BYTES,
                        bytes);
    magic = take(&c, 4, "the magic");
    if (memcmp(magic, "GGUF", 4))
        return ds4_fail(err, DS4_ERR_FORMAT, "%s: magic is %02x %02x %02x %02x, expected 47 47 55 46 (GGUF)", path,
                        magic[0], magic[1], magic[2], magic[3]);
    take_u32(&c, &out->version, "the version");
    if (out->version != 2 && out->version != 3)
        return ds4_fail(err, DS4_ERR_FORMAT, "%s: GGUF version is %u%s, expected 2 or 3", path, out->version,
                        out->version & 0xff000000u ? " (a big-endian file?)" : "");
    take_u64(&c, &out->n_tensors, "the tensor count");
    if (!walk_directory(&c, out)) {
        const int32_t status = err ? err->status : DS4_ERR_FORMAT;
        gguf_forget(out);
        return status;
    }
    return ds4_ok(err);
}

void gguf_forget(gguf_file *file)
{
    free(file->tensors);
    memset(file, 0, sizeof *file);
}

int32_t gguf_open(const char *path, gguf_file *out, ds4_error *err)
{
    ds4_error local;
    struct stat st;
    void *map;
    int32_t status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    memset(out, 0, sizeof *out);
    if (fd < 0)
        return ds4_fail(err, DS4_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        close(fd);
        return ds4_fail(err, DS4_ERR_IO, "%s: expected a regular file that is not empty", path);
    }
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return ds4_fail(err, DS4_ERR_IO, "%s: cannot map %" PRIu64 " bytes: %s", path, (uint64_t)st.st_size,
                        strerror(errno));
    status = gguf_walk(path, map, (uint64_t)st.st_size, out, err ? err : &local);
    if (status)
        munmap(map, (size_t)st.st_size);
    return status;
}

void gguf_close(gguf_file *file)
{
    const void *data = file->data;
    const uint64_t bytes = file->bytes;

    gguf_forget(file);
    if (data)
        munmap((void *)(uintptr_t)data, (size_t)bytes);
}

const gguf_tensor *gguf_find(const gguf_file *file, const char *name)
{
    const size_t bytes = strlen(name);
    uint64_t low = 0, high = file->n_tensors;

    while (low < high) {
        const uint64_t mid = low + (high - low) / 2;
        const int order = compare_names(name, bytes, file->tensors[mid].name, file->tensors[mid].name_bytes);
        if (order == 0)
            return &file->tensors[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}
