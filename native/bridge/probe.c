/* probe.c - the bridge's doors to block formats and to the CPU's matrix products, for tools and tests. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "native/backends/cpu/matmul.h"
#include "native/bridge/status.h"
#include "native/quant/quant.h"

int32_t ds4_type_block(int32_t type, int32_t *bytes) {
    if (bytes != NULL) *bytes = ds4_block_bytes(type);
    return ds4_block_elements(type);
}

int32_t ds4_dequantize(int32_t type, const void *blocks, int64_t n, float *out, ds4_error *err) {
    const int32_t elements = ds4_block_elements(type);
    if (elements == 0) return ds4_fail(err, DS4_ERR_UNSUPPORTED, "type: expected one of ds4_type, found %d", (int)type);
    if (n < 0 || n % elements != 0)
        return ds4_fail(err, DS4_ERR_ARG, "n: expected a whole number of blocks of %d elements, found %lld", (int)elements,
                        (long long)n);
    if (n > 0 && (blocks == NULL || out == NULL)) return ds4_fail(err, DS4_ERR_ARG, "blocks, out: expected memory, found NULL");
    return ds4_dequant_row(type, blocks, n, out);
}

int32_t ds4_quantize(int32_t type, const float *x, int64_t n, void *blocks, ds4_error *err) {
    const int32_t elements = ds4_block_elements(type);
    if (type != DS4_TYPE_F16 && type != DS4_TYPE_BF16 && type != DS4_TYPE_Q8_0)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "type: expected F16, BF16 or Q8_0, found %d", (int)type);
    if (n < 0 || n % elements != 0)
        return ds4_fail(err, DS4_ERR_ARG, "n: expected a whole number of blocks of %d elements, found %lld", (int)elements,
                        (long long)n);
    if (n > 0 && (x == NULL || blocks == NULL)) return ds4_fail(err, DS4_ERR_ARG, "x, blocks: expected memory, found NULL");
    return n > 0 ? ds4_quantize_row(type, x, n, blocks) : DS4_OK;
}

typedef struct probe {
    const mm_kernels *kernels;
    cpu_weight w;
    mm_form form;
    const float *x;
    const void *prepared;
    int32_t n_rows;
    float *y;
    int64_t grain;
    atomic_llong next;
} probe;

typedef struct probe_thread {
    probe *shared;
    void *scratch;
} probe_thread;

static void *take_grains(void *arg) {
    const probe_thread *t = arg;
    probe *p = t->shared;
    for (;;) {
        const int64_t o0 = atomic_fetch_add(&p->next, p->grain);
        if (o0 >= p->w.n_out) return NULL;
        const int64_t o1 = p->w.n_out - o0 < p->grain ? p->w.n_out : o0 + p->grain;
        mm_run(p->kernels, &p->w, p->form, p->x, p->w.n_in, p->prepared, p->n_rows, o0, o1, p->y, p->w.n_out, MM_STORE_SET,
               t->scratch);
    }
}

/* `count` pieces of `bytes`, each 64-byte aligned. */
static void *aligned(size_t count, size_t bytes) {
    void *p = NULL;
    bytes = (bytes + 63) / 64 * 64;
    if (bytes != 0 && count > SIZE_MAX / bytes) return NULL;
    return posix_memalign(&p, 64, count * bytes > 0 ? count * bytes : 64) == 0 ? p : NULL;
}

enum { PROBE_THREADS = 256 };

int32_t ds4_matmul_probe(int32_t type, const void *w, int32_t n_out, int32_t n_in, const float *x, int32_t n_rows, float *y,
                         int32_t numeric, int32_t n_threads, const char *kernels, ds4_error *err) {
    const mm_kernels *k = mm_kernels_find(kernels);
    if (k == NULL)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "kernels: expected a set that runs on this processor, found %s", kernels);
    if (ds4_block_elements(type) == 0 || type == DS4_TYPE_I32)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "type: expected one of ds4_type, found %d", (int)type);
    const uint64_t row_bytes = ds4_row_bytes(type, n_in);
    if (row_bytes == 0 || n_out < 1 || n_rows < 1)
        return ds4_fail(err, DS4_ERR_ARG, "shape: expected n_in in blocks of %d, n_out and n_rows of at least 1, found %d, %d, %d",
                        (int)ds4_block_elements(type), (int)n_in, (int)n_out, (int)n_rows);
    if (w == NULL || x == NULL || y == NULL) return ds4_fail(err, DS4_ERR_ARG, "w, x, y: expected memory, found NULL");
    if (numeric != DS4_NUMERIC_SHIP && numeric != DS4_NUMERIC_FLOAT)
        return ds4_fail(err, DS4_ERR_ARG, "numeric: expected 0 or 1, found %d", (int)numeric);
    if (n_threads < 1 || n_threads > PROBE_THREADS)
        return ds4_fail(err, DS4_ERR_ARG, "n_threads: expected 1..%d, found %d", PROBE_THREADS, (int)n_threads);

    probe p = {.kernels = k, .w = {type, n_out, n_in, (size_t)row_bytes, w}, .x = x, .n_rows = n_rows, .y = y};
    p.form = mm_choose(k, type, n_in, n_rows, numeric);
    p.grain = mm_grain(k, &p.w, p.form, n_rows, n_threads);
    const size_t scratch_bytes = (mm_scratch_bytes(k, &p.w, p.form, n_rows) + 63) / 64 * 64;
    void *prepared = aligned(1, mm_prepared_bytes(p.form, n_in, n_rows));
    uint8_t *scratch = aligned((size_t)n_threads, scratch_bytes);
    int32_t status = DS4_OK;
    if (prepared == NULL || scratch == NULL) {
        status = ds4_fail(err, DS4_ERR_MEMORY, "%zu bytes of scratch for each of %d threads were refused", scratch_bytes,
                          (int)n_threads);
    } else {
        probe_thread threads[PROBE_THREADS];
        pthread_t handles[PROBE_THREADS];
        int started = 0;
        mm_prepare(k, p.form, x, n_in, n_in, 0, n_rows, prepared);
        p.prepared = prepared;
        for (int i = 0; i < n_threads; i++) threads[i] = (probe_thread){&p, scratch + (size_t)i * scratch_bytes};
        /* What a thread that cannot be started would have done, the others do. */
        while (started < n_threads - 1 && pthread_create(&handles[started], NULL, take_grains, &threads[started + 1]) == 0)
            started++;
        take_grains(&threads[0]);
        for (int i = 0; i < started; i++) pthread_join(handles[i], NULL);
    }
    free(prepared);
    free(scratch);
    return status;
}
