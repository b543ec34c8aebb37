/* matmul.c - choice of the kernel set, and the parts of matmul.h that no instruction set changes. */
#include "native/backends/cpu/cpuid.h"
#include "native/backends/cpu/matmul_impl.h"

static const mm_kernels *const sets[] = {
#if defined(__x86_64__)
    &ds4_mm_avx512,
    &ds4_mm_avx2,
#elif defined(__aarch64__)
    &ds4_mm_neon,
#endif
    &ds4_mm_portable,
};

const mm_kernels *mm_kernels_find(const char *name) {
    if (name == NULL) name = ds4_cpu_best_kernels();
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (strcmp(sets[i]->name, name) == 0) return ds4_cpu_has_kernels(name) ? sets[i] : NULL;
    return NULL;
}

const char *mm_kernels_name(const mm_kernels *k) { return k->name; }

mm_form mm_choose(const mm_kernels *k, int32_t type, int64_t n_in, int32_t n_rows, int32_t numeric) {
    if (numeric == DS4_NUMERIC_FLOAT || n_in % DS4_QK != 0) return MM_FORM_F32;
    return k->choose(type, n_in, n_rows);
}

size_t mm_prepared_bytes(mm_form form, int64_t n_in, int32_t n_rows) {
    return (size_t)n_rows * mm_row_bytes(form, n_in);
}

void mm_prepare(const mm_kernels *k, mm_form form, const float *x, int64_t stride, int64_t n_in, int32_t r0, int32_t r1,
                void *prepared) {
    const size_t row = mm_row_bytes(form, n_in);
    if (row == 0) return;
    for (int32_t r = r0; r < r1; r++) k->prepare(form, x + r * stride, n_in, (uint8_t *)prepared + (size_t)r * row);
}

/* A grain should be long enough to hide its start and, with many rows, to leave several for each thread, so that one
 * that is held up does not hold up all. */
int64_t mm_grain(const mm_kernels *k, const cpu_weight *w, mm_form form, int32_t n_rows, int32_t n_threads) {
    (void)k;
    (void)form;
    if (n_threads <= 1) return w->n_out;
    const int64_t work = (int64_t)w->n_in * n_rows; /* multiplications of one output */
    const int64_t least = (1 << 18) / (work > 0 ? work : 1), share = w->n_out / ((int64_t)n_threads * 4);
    int64_t grain = share > least ? share : least;
    grain = (grain + MM_TILE - 1) / MM_TILE * MM_TILE;
    return grain < MM_TILE ? MM_TILE : grain;
}

size_t mm_scratch_bytes(const mm_kernels *k, const cpu_weight *w, mm_form form, int32_t n_rows) {
    return mm_round_up(k->scratch(w, form, n_rows), MM_ALIGN);
}

void mm_run(const mm_kernels *k, const cpu_weight *w, mm_form form, const float *x, int64_t x_stride, const void *prepared,
            int32_t n_rows, int64_t o0, int64_t o1, float *dst, int64_t dst_stride, mm_store store, void *scratch) {
    const mm_job job = {w, x, x_stride, prepared, n_rows, o0, mm_min(o1, w->n_out), dst, dst_stride, store, scratch};
    if (n_rows > 0 && job.o0 < job.o1) k->run(form, &job);
}
