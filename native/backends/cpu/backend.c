/* backend.c - making and unmaking a CPU backend, and its table. */
#include "native/backends/cpu/backend.h"
#include "native/bridge/status.h"

#include <pthread.h>
#include <stdlib.h>

_Static_assert(sizeof(cpu_worker) == 64, "aligned_alloc takes the size for the alignment");

static ds4_ops cpu_ops;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_ops(void)
{
    cpu_ops = (ds4_ops){
        .name = "cpu",
        .backend_free = cpu_backend_free,
        .buffer_create = cpu_buffer_create,
        .buffer_free = cpu_buffer_free,
        .buffer_write = cpu_buffer_write,
        .buffer_read = cpu_buffer_read,
        .weight_create = cpu_weight_create,
        .weight_free = cpu_weight_free,
        .cache_create = cpu_cache_create,
        .cache_free = cpu_cache_free,
        .cache_release = cpu_cache_release,
        .cache_copy = cpu_cache_copy,
        .cache_state_bytes = cpu_cache_state_bytes,
        .cache_save = cpu_cache_save,
        .cache_load = cpu_cache_load,
        .program_begin = cpu_program_begin,
        .program_end = cpu_program_end,
        .program_free = cpu_program_free,
        .run = cpu_run,
        .wait = cpu_wait,
        .run_cancel = cpu_run_cancel,
    };
    cpu_record_plain(&cpu_ops);
    cpu_record_fused(&cpu_ops);
}

ds4_backend *cpu_backend_new(const ds4_backend_desc *desc, bool with_pool, ds4_error *err)
{
    if (desc->n_threads < 1 || desc->n_threads > 256) {
        ds4_fail(err, DS4_ERR_ARG, "threads: expected 1 to 256, found %d", (int)desc->n_threads);
        return NULL;
    }
    const cpu_kernels *k = cpu_kernels_find(desc->kernels);
    const mm_kernels *mm = k ? mm_kernels_find(k->name) : NULL;
    if (!k || !mm) {
        ds4_fail(err, DS4_ERR_UNSUPPORTED, "this processor cannot run the kernels \"%s\"",
                 desc->kernels ? desc->kernels : "(best)");
        return NULL;
    }
    ds4_backend *be = calloc(1, sizeof *be);
    if (be) {
        pthread_once(&once, fill_ops);
        be->ops = &cpu_ops;
        be->desc = *desc;
        be->desc.kernels = k->name;
        be->k = k;
        be->mm = mm;
        be->workers = aligned_alloc(sizeof *be->workers, (size_t)desc->n_threads * sizeof *be->workers);
        if (with_pool && be->workers)
            be->pool = ds4_pool_create(desc->n_threads);
    }
    if (!be || !be->workers || (with_pool && !be->pool)) {
        if (be)
            free(be->workers);
        free(be);
        ds4_fail(err, DS4_ERR_MEMORY, "a backend of %d threads was refused", (int)desc->n_threads);
        return NULL;
    }
    return be;
}

void cpu_backend_free(ds4_backend *be)
{
    if (!be)
        return;
    ds4_pool_free(be->pool);
    while (be->buffers)
        cpu_buffer_free(be, be->buffers);
    while (be->caches)
        cpu_cache_free(be, be->caches);
    for (int i = 0; i < DS4_STEPS_IN_FLIGHT; i++)
        cpu_arena_free(&be->steps[i].arena);
    cpu_arena_free(&be->shared);
    cpu_arena_free(&be->own);
    cpu_arena_free(&be->sampling);
    free(be->workers);
    free(be);
}

ds4_backend *ds4_cpu_backend_create(const ds4_backend_desc *desc, ds4_error *err)
{
    return cpu_backend_new(desc, true, err);
}

const ds4_ops *ds4_backend_ops(const ds4_backend *be) { return *(const ds4_ops *const *)(const void *)be; }
