/* matmul_portable.c - the kernel set for any processor: fp32 throughout, in vectors of four that every compiler knows how
 * to lay on what there is. */
#include <stdbool.h>

#include "native/backends/cpu/matmul_impl.h"

#define VW 4
#define F32_DIRECT 0

typedef float vf __attribute__((vector_size(16)));

MM_INLINE vf vf_zero(void) { return (vf){0, 0, 0, 0}; }

MM_INLINE vf vf_load(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

MM_INLINE void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }

MM_INLINE void vf_settle(vf *v) { (void)v; }
MM_INLINE vf vf_load_part(const float *p, int n) {
    vf v = vf_zero();
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
}

MM_INLINE vf vf_load_f16(const uint8_t *p) {
    vf v;
    for (int i = 0; i < VW; i++) v[i] = ds4_f16_to_f32(ds4_load16(p + 2 * i));
    return v;
}

MM_INLINE vf vf_load_bf16(const uint8_t *p) {
    uint32_t u[VW];
    vf v;
    for (int i = 0; i < VW; i++) u[i] = (uint32_t)ds4_load16(p + 2 * i) << 16;
    memcpy(&v, u, sizeof v);
    return v;
}

MM_INLINE void vf_prefetch(const void *p) { (void)p; }
MM_INLINE vf vf_fma(vf a, vf b, vf acc) { return acc + a * b; }

MM_INLINE void vf_reduce4(vf a, vf b, vf c, vf d, float out[4]) {
    out[0] = (a[0] + a[2]) + (a[1] + a[3]);
    out[1] = (b[0] + b[2]) + (b[1] + b[3]);
    out[2] = (c[0] + c[2]) + (c[1] + c[3]);
    out[3] = (d[0] + d[2]) + (d[1] + d[3]);
}

#include "native/backends/cpu/gemm_f32.inc"

static mm_form choose(int32_t type, int64_t n_in, int32_t n_rows) {
    (void)type;
    (void)n_in;
    (void)n_rows;
    return MM_FORM_F32;
}

static size_t scratch(const cpu_weight *w, mm_form form, int32_t n_rows) {
    (void)form;
    return scratch_f32(w, n_rows);
}

static void run(mm_form form, const mm_job *job) {
    (void)form;
    run_f32(job);
}

const mm_kernels ds4_mm_portable = {"portable", choose, NULL, scratch, run};
