/* memory.c - lazily committed memory: buffers, scratch that grows, and the weights that refer to mapped files. */
#include "native/backends/cpu/backend.h"
#include "native/engine/checked.h"
#include "native/quant/quant.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif
#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif

void *cpu_map(size_t bytes, size_t *mapped)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0)
        bytes = 1;
    if (bytes > SIZE_MAX - page)
        return NULL;
    bytes = (bytes + page - 1) / page * page;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    *mapped = bytes;
    return base;
}

void cpu_unmap(void *base, size_t mapped)
{
    if (base)
        munmap(base, mapped);
}

bool cpu_arena_reserve(cpu_arena *arena, size_t bytes)
{
    if (bytes <= arena->bytes)
        return true;
    size_t mapped;
    void *base = cpu_map(bytes, &mapped);
    if (!base)
        return false;
    cpu_unmap(arena->base, arena->bytes);
    arena->base = base;
    arena->bytes = mapped;
    return true;
}

void cpu_arena_free(cpu_arena *arena)
{
    cpu_unmap(arena->base, arena->bytes);
    *arena = (cpu_arena){0};
}

ds4_buffer *cpu_buffer_create(ds4_backend *be, size_t bytes)
{
    ds4_buffer *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->bytes = bytes;
    b->base = cpu_map(bytes, &b->mapped);
    if (!b->base) {
        free(b);
        return NULL;
    }
    b->next = be->buffers;
    be->buffers = b;
    return b;
}

void cpu_buffer_free(ds4_backend *be, ds4_buffer *buffer)
{
    if (!buffer)
        return;
    for (ds4_buffer **at = &be->buffers; *at; at = &(*at)->next)
        if (*at == buffer) {
            *at = buffer->next;
            break;
        }
    cpu_unmap(buffer->base, buffer->mapped);
    free(buffer);
}

void cpu_buffer_write(ds4_backend *be, ds4_buffer *buffer, size_t offset, const void *data, size_t bytes)
{
    (void)be;
    if (bytes)
        memcpy(buffer->base + offset, data, bytes);
}

void cpu_buffer_read(ds4_backend *be, ds4_buffer *buffer, size_t offset, void *data, size_t bytes)
{
    (void)be;
    if (bytes)
        memcpy(data, buffer->base + offset, bytes);
}

ds4_weight *cpu_weight_create(ds4_backend *be, int32_t type, int64_t rows, int64_t cols, const void *data)
{
    (void)be;
    uint64_t row_bytes = ds4_row_bytes(type, cols);
    if (rows < 1 || cols < 1 || row_bytes == 0 || !data)
        return NULL;
    ds4_weight *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->m = (cpu_weight){.type = type, .n_out = rows, .n_in = cols, .row_bytes = (size_t)row_bytes, .data = data};
    if (rows > 1)
        return w;
    if (type == DS4_TYPE_F32 && (uintptr_t)data % sizeof(float) == 0) {
        w->vector = data;
        return w;
    }
    uint64_t bytes;
    if (checked_mul((uint64_t)cols, sizeof(float), &bytes) && bytes <= SIZE_MAX)
        w->owned = malloc((size_t)bytes);
    if (!w->owned || ds4_dequant_row(type, data, cols, w->owned)) {
        cpu_weight_free(be, w);
        return NULL;
    }
    w->vector = w->owned;
    return w;
}

void cpu_weight_free(ds4_backend *be, ds4_weight *weight)
{
    (void)be;
    if (!weight)
        return;
    free(weight->owned);
    free(weight);
}
