/* guard.c - the CPU backend over memory that is unreadable except while an operation runs; for tests.
 *
 * Buffers and the KV cache are PROT_NONE. An operation's own operands, and nothing else, are opened while it runs, and the
 * backend's entry points open what they copy. So a forward that looks into a buffer while it records, or an operation that
 * reads what it was not given, dies at the very place. Only plain operations: their operands are the finest. Runs happen
 * inside `run`, on the caller's thread. */
#include "native/backends/cpu/backend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static ds4_ops guard_ops;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void protect(void *base, size_t mapped, bool open)
{
    if (mprotect(base, mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE)) {
        perror("guard backend: mprotect"); /* a test that would pass unguarded must not go on */
        abort();
    }
}

static void set_buffer(ds4_buffer *b, bool open)
{
    if (b)
        protect(b->base, b->mapped, open);
}

static void set_cache(const ds4_cache *c, bool open)
{
    if (c)
        protect(c->base, c->mapped, open);
}

static void around_node(ds4_backend *be, const cpu_node *n, bool before)
{
    (void)be;
    set_buffer(n->dst.buffer, before);
    set_buffer(n->x.buffer, before);
    set_buffer(n->y.buffer, before);
    set_buffer(n->z.buffer, before);
    for (int32_t i = 0; i < n->n; i++)
        set_buffer(n->out[i].buffer, before);
    set_cache(n->cache, before);
}

static void around_host(ds4_backend *be, bool before)
{
    for (ds4_buffer *b = be->buffers; b; b = b->next)
        set_buffer(b, before);
}

static ds4_buffer *buffer_create(ds4_backend *be, size_t bytes)
{
    ds4_buffer *b = cpu_buffer_create(be, bytes);
    set_buffer(b, false);
    return b;
}

static void buffer_write(ds4_backend *be, ds4_buffer *buffer, size_t offset, const void *data, size_t bytes)
{
    set_buffer(buffer, true);
    cpu_buffer_write(be, buffer, offset, data, bytes);
    set_buffer(buffer, false);
}

static void buffer_read(ds4_backend *be, ds4_buffer *buffer, size_t offset, void *data, size_t bytes)
{
    set_buffer(buffer, true);
    cpu_buffer_read(be, buffer, offset, data, bytes);
    set_buffer(buffer, false);
}

static ds4_cache *cache_create(ds4_backend *be, const ds4_cache_desc *desc)
{
    ds4_cache *c = cpu_cache_create(be, desc);
    set_cache(c, false);
    return c;
}

static void cache_copy(ds4_backend *be, ds4_cache *cache, int32_t from_bank, int32_t to_bank, int32_t length)
{
    set_cache(cache, true);
    cpu_cache_copy(be, cache, from_bank, to_bank, length);
    set_cache(cache, false);
}

static void cache_save(ds4_backend *be, const ds4_cache *cache, int32_t bank, int32_t length, void *out)
{
    set_cache(cache, true);
    cpu_cache_save(be, cache, bank, length, out);
    set_cache(cache, false);
}

static void cache_load(ds4_backend *be, ds4_cache *cache, int32_t bank, int32_t length, const void *in)
{
    set_cache(cache, true);
    cpu_cache_load(be, cache, bank, length, in);
    set_cache(cache, false);
}

static void fill_ops(void)
{
    guard_ops = (ds4_ops){
        .name = "guard",
        .backend_free = cpu_backend_free,
        .buffer_create = buffer_create,
        .buffer_free = cpu_buffer_free,
        .buffer_write = buffer_write,
        .buffer_read = buffer_read,
        .weight_create = cpu_weight_create,
        .weight_free = cpu_weight_free,
        .cache_create = cache_create,
        .cache_free = cpu_cache_free,
        .cache_release = cpu_cache_release,
        .cache_copy = cache_copy,
        .cache_state_bytes = cpu_cache_state_bytes,
        .cache_save = cache_save,
        .cache_load = cache_load,
        .program_begin = cpu_program_begin,
        .program_end = cpu_program_end,
        .program_free = cpu_program_free,
        .run = cpu_run,
        .wait = cpu_wait,
        .run_cancel = cpu_run_cancel,
    };
    cpu_record_plain(&guard_ops);
}

ds4_backend *ds4_guard_backend_create(const ds4_backend_desc *desc, ds4_error *err)
{
    ds4_backend_desc one = *desc;
    one.n_threads = 1;
    ds4_backend *be = cpu_backend_new(&one, false, err);
    if (!be)
        return NULL;
    pthread_once(&once, fill_ops);
    be->ops = &guard_ops;
    be->on_node = around_node;
    be->on_host = around_host;
    return be;
}
