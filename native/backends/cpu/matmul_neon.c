/* matmul_neon.c - the kernel set for aarch64. Products of signed bytes use SDOT where the compiler is told that it is there
 * (Apple's targets say so), else widening multiplications.
 *
 * Integer weights: four neighbouring outputs at a time, unpacked block by block to registers as x = d * q + m with q a
 * signed byte, and used for up to four rows. */
#include <arm_neon.h>
#include <stdbool.h>

#include "native/backends/cpu/matmul_impl.h"
#include "native/quant/iq2_tables.h"

/* ---- fp32 ---- */

#define VW 4
#define F32_DIRECT 1

typedef float32x4_t vf;

MM_INLINE vf vf_zero(void) { return vdupq_n_f32(0); }
MM_INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
MM_INLINE void vf_store(float *p, vf v) { vst1q_f32(p, v); }
MM_INLINE void vf_prefetch(const void *p) { __builtin_prefetch(p); }
MM_INLINE vf vf_fma(vf a, vf b, vf acc) { return vfmaq_f32(acc, a, b); }

MM_INLINE void vf_settle(vf *v) { (void)v; }
MM_INLINE vf vf_load_part(const float *p, int n) {
    float full[VW] = {0};
    memcpy(full, p, (size_t)n * sizeof(float));
    return vld1q_f32(full);
}

MM_INLINE uint16x4_t load_u16(const uint8_t *p) { return vreinterpret_u16_u8(vld1_u8(p)); }
MM_INLINE vf vf_load_f16(const uint8_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(load_u16(p))); }
MM_INLINE vf vf_load_bf16(const uint8_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(load_u16(p), 16)); }

MM_INLINE void vf_reduce4(vf a, vf b, vf c, vf d, float out[4]) {
    vst1q_f32(out, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}

#include "native/backends/cpu/gemm_f32.inc"

/* ---- integers ---- */

enum { OUTS = 4, ROWS = 4 };

/* A run of 32 of one output: codes, and the factor and min of either half. */
typedef struct run32 {
    int8x16_t lo, hi;
    float d[2], m[2];
} run32;

MM_INLINE float f16_at(const uint8_t *p) { return ds4_f16_to_f32(ds4_load16(p)); }

MM_INLINE int8x16_t codes(uint8x16_t v) { return vreinterpretq_s8_u8(v); }

MM_INLINE void set_scales(run32 *r, float d, float m) {
    r->d[0] = r->d[1] = d;
    r->m[0] = r->m[1] = m;
}

MM_INLINE void set_nibbles(run32 *r, const uint8_t *qs) {
    const uint8x16_t v = vld1q_u8(qs);
    r->lo = codes(vandq_u8(v, vdupq_n_u8(15)));
    r->hi = codes(vshrq_n_u8(v, 4));
}

/* All ones in each byte whose bit of the word is set. */
MM_INLINE uint8x16_t spread_bits(uint32_t bits) {
    static const uint8_t masks[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t spread = vcombine_u8(vdup_n_u8((uint8_t)bits), vdup_n_u8((uint8_t)(bits >> 8)));
    return vtstq_u8(spread, vld1q_u8(masks));
}

MM_INLINE uint8x16_t sixteens(uint32_t bits) { return vandq_u8(spread_bits(bits), vdupq_n_u8(16)); }

/* Two rows of IQ2_XXS's grid, negated where their signs are set. */
MM_INLINE int8x16_t signed_rows(uint8_t first, uint8_t second, uint32_t signs) {
    const uint8x16_t rows = vcombine_u8(vcreate_u8(iq2_xxs_grid[first]), vcreate_u8(iq2_xxs_grid[second]));
    const int8x16_t negative = codes(spread_bits(signs));
    return vsubq_s8(veorq_s8(codes(rows), negative), negative);
}

MM_INLINE void add_fifth_bits(run32 *r, const uint8_t *qh) {
    const uint32_t bits = ds4_load32(qh);
    r->lo = vorrq_s8(r->lo, codes(sixteens(bits)));
    r->hi = vorrq_s8(r->hi, codes(sixteens(bits >> 16)));
}

/* ((v >> by) & mask) << up in each byte */
MM_INLINE uint8x16_t field(const uint8_t *p, int by, uint8_t mask, int up) {
    const uint8x16_t v = vandq_u8(vshlq_u8(vld1q_u8(p), vdupq_n_s8((int8_t)-by)), vdupq_n_u8(mask));
    return vshlq_u8(v, vdupq_n_s8((int8_t)up));
}

/* What a K block says of its runs, unpacked once for all eight. */
typedef struct k_scales {
    float d, dmin;
    uint8_t bytes[16];
} k_scales;

static void read_k_scales(int32_t type, const uint8_t *b, k_scales *s) {
    s->dmin = 0;
    switch (type) {
    case DS4_TYPE_Q2_K:
        memcpy(s->bytes, b, 16);
        s->d = f16_at(b + 80);
        s->dmin = f16_at(b + 82);
        break;
    case DS4_TYPE_Q3_K:
        ds4_unpack_scales_3k(b + 96, (int8_t *)s->bytes);
        s->d = f16_at(b + 108);
        break;
    case DS4_TYPE_Q6_K:
        memcpy(s->bytes, b + 192, 16);
        s->d = f16_at(b + 208);
        break;
    default: /* Q4_K, Q5_K */
        ds4_unpack_scales_4k(b + 4, s->bytes);
        s->d = f16_at(b);
        s->dmin = f16_at(b + 2);
        break;
    }
}

/* Run t of the block at b; t is 0 and s unused for plain blocks. type is a constant of the caller. */
MM_INLINE run32 unpack(const int32_t type, const uint8_t *b, int t, const k_scales *s) {
    run32 r;
    const int h = t / 4, i = t % 4;
    switch (type) {
    case DS4_TYPE_Q4_0:
        set_nibbles(&r, b + 2);
        set_scales(&r, f16_at(b), -8 * f16_at(b));
        break;
    case DS4_TYPE_Q4_1:
        set_nibbles(&r, b + 4);
        set_scales(&r, f16_at(b), f16_at(b + 2));
        break;
    case DS4_TYPE_Q5_0:
        set_nibbles(&r, b + 6);
        add_fifth_bits(&r, b + 2);
        set_scales(&r, f16_at(b), -16 * f16_at(b));
        break;
    case DS4_TYPE_Q5_1:
        set_nibbles(&r, b + 8);
        add_fifth_bits(&r, b + 4);
        set_scales(&r, f16_at(b), f16_at(b + 2));
        break;
    case DS4_TYPE_Q8_0:
        r.lo = codes(vld1q_u8(b + 2));
        r.hi = codes(vld1q_u8(b + 18));
        set_scales(&r, f16_at(b), 0);
        break;
    case DS4_TYPE_MXFP4: {
        static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
        set_nibbles(&r, b + 1);
        r.lo = vqtbl1q_s8(vld1q_s8(doubled), vreinterpretq_u8_s8(r.lo));
        r.hi = vqtbl1q_s8(vld1q_s8(doubled), vreinterpretq_u8_s8(r.hi));
        set_scales(&r, ds4_mxfp4_half_scale(b[0]), 0);
        break;
    }
    case DS4_TYPE_IQ2_XXS: {
        const uint8_t *rows = b + 2 + 8 * t;
        const uint32_t word = ds4_load32(rows + 4), signs = ds4_iq2_signs(word);
        r.lo = signed_rows(rows[0], rows[1], signs);
        r.hi = signed_rows(rows[2], rows[3], signs >> 16);
        set_scales(&r, f16_at(b) * (0.5f + (float)(word >> 28)) * 0.25f, 0);
        break;
    }
    case DS4_TYPE_Q4_K:
    case DS4_TYPE_Q5_K: {
        const uint8_t *qs = b + (type == DS4_TYPE_Q4_K ? 16 : 48) + 32 * (t / 2);
        uint8x16_t lo = field(qs, 4 * (t % 2), 15, 0), hi = field(qs + 16, 4 * (t % 2), 15, 0);
        if (type == DS4_TYPE_Q5_K) {
            lo = vorrq_u8(lo, field(b + 16, t, 1, 4));
            hi = vorrq_u8(hi, field(b + 32, t, 1, 4));
        }
        r.lo = codes(lo);
        r.hi = codes(hi);
        set_scales(&r, s->d * (float)s->bytes[t], -s->dmin * (float)s->bytes[8 + t]);
        break;
    }
    case DS4_TYPE_Q2_K:
        r.lo = codes(field(b + 16 + 32 * h, 2 * i, 3, 0));
        r.hi = codes(field(b + 32 + 32 * h, 2 * i, 3, 0));
        for (int e = 0; e < 2; e++) {
            r.d[e] = s->d * (float)(s->bytes[2 * t + e] & 15);
            r.m[e] = -s->dmin * (float)(s->bytes[2 * t + e] >> 4);
        }
        break;
    case DS4_TYPE_Q3_K:
        r.lo = codes(vorrq_u8(field(b + 32 + 32 * h, 2 * i, 3, 0), field(b, t, 1, 2)));
        r.hi = codes(vorrq_u8(field(b + 48 + 32 * h, 2 * i, 3, 0), field(b + 16, t, 1, 2)));
        for (int e = 0; e < 2; e++) {
            r.d[e] = s->d * (float)(int8_t)s->bytes[2 * t + e];
            r.m[e] = -4 * r.d[e];
        }
        break;
    default: { /* Q6_K */
        const uint8_t *ql = b + 64 * h + 32 * (i % 2), *qh = b + 128 + 32 * h;
        r.lo = codes(vorrq_u8(field(ql, 4 * (i / 2), 15, 0), field(qh, 2 * i, 3, 4)));
        r.hi = codes(vorrq_u8(field(ql + 16, 4 * (i / 2), 15, 0), field(qh + 16, 2 * i, 3, 4)));
        for (int e = 0; e < 2; e++) {
            r.d[e] = s->d * (float)(int8_t)s->bytes[2 * t + e];
            r.m[e] = -32 * r.d[e];
        }
        break;
    }
    }
    return r;
}

MM_INLINE int32x4_t dot16(int32x4_t acc, int8x16_t a, int8x16_t b) {
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(acc, a, b);
#else
    acc = vpadalq_s16(acc, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    return vpadalq_s16(acc, vmull_high_s8(a, b));
#endif
}

/* rows (a constant, 1..ROWS) from row r on by up to four outputs from o on. An output's sum takes its blocks in rising
 * order, whatever the number of rows. */
MM_INLINE void rows_by_four(const int32_t type, const int rows, const mm_job *job, int64_t r, int64_t o) {
    const cpu_weight *w = job->w;
    const bool halves = type == DS4_TYPE_Q2_K || type == DS4_TYPE_Q3_K || type == DS4_TYPE_Q6_K;
    const bool has_k = halves || type == DS4_TYPE_Q4_K || type == DS4_TYPE_Q5_K;
    const bool has_min = type != DS4_TYPE_Q8_0 && type != DS4_TYPE_IQ2_XXS && type != DS4_TYPE_MXFP4;
    const int runs = has_k || type == DS4_TYPE_IQ2_XXS ? 8 : 1;
    const int64_t bytes = ds4_block_bytes(type), blocks = w->n_in / (DS4_QK * runs), n = mm_min(OUTS, job->o1 - o);
    mm_row x[ROWS];
    float32x4_t acc[ROWS];
    const uint8_t *b[OUTS];
    for (int i = 0; i < rows; i++) {
        x[i] = mm_row_at(MM_FORM_Q8, w->n_in, job->prepared, r + i);
        acc[i] = vdupq_n_f32(0);
    }
    /* An output too many repeats the last one, and is dropped at the end. */
    for (int j = 0; j < OUTS; j++) b[j] = w->data + (size_t)(o + mm_min(j, n - 1)) * w->row_bytes;
    for (int64_t block = 0; block < blocks; block++) {
        k_scales s[OUTS];
        if (has_k)
            for (int j = 0; j < OUTS; j++) read_k_scales(type, b[j], &s[j]);
        for (int t = 0; t < runs; t++) {
            const int64_t at = block * runs + t;
            run32 u[OUTS];
            for (int j = 0; j < OUTS; j++) u[j] = unpack(type, b[j], t, &s[j]);
            for (int e = 0; e < (halves ? 2 : 1); e++) {
                const float32x4_t d = {u[0].d[e], u[1].d[e], u[2].d[e], u[3].d[e]};
                const float32x4_t m = {u[0].m[e], u[1].m[e], u[2].m[e], u[3].m[e]};
                for (int i = 0; i < rows; i++) {
                    const int8x16_t ql = vld1q_s8(x[i].q + 32 * at), qh = vld1q_s8(x[i].q + 32 * at + 16);
                    int32x4_t p[OUTS];
                    for (int j = 0; j < OUTS; j++) {
                        p[j] = vdupq_n_s32(0);
                        if (!halves || e == 0) p[j] = dot16(p[j], u[j].lo, ql);
                        if (!halves || e == 1) p[j] = dot16(p[j], u[j].hi, qh);
                    }
                    const int32x4_t sum = vpaddq_s32(vpaddq_s32(p[0], p[1]), vpaddq_s32(p[2], p[3]));
                    const float sum_x = halves ? x[i].half[2 * at + e] : x[i].sum[at];
                    acc[i] = vfmaq_f32(acc[i], vcvtq_f32_s32(sum), vmulq_n_f32(d, x[i].d[at]));
                    if (has_min) acc[i] = vfmaq_n_f32(acc[i], m, sum_x);
                }
            }
        }
        for (int j = 0; j < OUTS; j++) b[j] += bytes;
    }
    for (int i = 0; i < rows; i++) {
        float *dst = job->dst + (r + i) * job->dst_stride + o, v[OUTS];
        vst1q_f32(v, acc[i]);
        for (int64_t j = 0; j < n; j++) dst[j] = job->store == MM_STORE_ADD ? dst[j] + v[j] : v[j];
    }
}

MM_INLINE void run_type(const int32_t type, const mm_job *job) {
    for (int64_t o = job->o0; o < job->o1; o += OUTS) {
        int64_t r = 0;
        for (; r + ROWS <= job->n_rows; r += ROWS) rows_by_four(type, ROWS, job, r, o);
        for (; r < job->n_rows; r++) rows_by_four(type, 1, job, r, o);
    }
}

/* ---- the set ---- */

static mm_form choose(int32_t type, int64_t n_in, int32_t n_rows) {
    (void)n_in;
    (void)n_rows;
    switch (type) {
    case DS4_TYPE_F32:
    case DS4_TYPE_F16:
    case DS4_TYPE_BF16: return MM_FORM_F32;
    default: return MM_FORM_Q8;
    }
}

static void prepare(mm_form form, const float *x, int64_t n_in, uint8_t *row) {
    const mm_row to = mm_row_at(form, n_in, row, 0);
    int8_t *q = (int8_t *)to.q;
    float *d = (float *)to.d, *sum = (float *)to.sum, *half = (float *)to.half;
    for (int64_t b = 0; b < n_in / DS4_QK; b++, x += DS4_QK, q += DS4_QK) {
        float32x4_t top = vdupq_n_f32(0);
        for (int i = 0; i < 32; i += 4) top = vmaxq_f32(top, vabsq_f32(vld1q_f32(x + i)));
        const float absmax = vmaxvq_f32(top);
        /* Below 2^-110 the quotient could overflow: such a block is zero. */
        const float scale = absmax > 0x1p-110f ? 127.0f / absmax : 0.0f;
        int32_t sums[2] = {0, 0};
        for (int i = 0; i < 32; i += 4) {
            const int32x4_t v = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), scale));
            sums[i / 16] += vaddvq_s32(v);
            const int16x4_t narrow = vmovn_s32(v);
            const int8x8_t bytes = vmovn_s16(vcombine_s16(narrow, narrow));
            memcpy(q + i, &bytes, 4);
        }
        d[b] = scale != 0 ? absmax / 127.0f : 0.0f;
        half[2 * b] = d[b] * (float)sums[0];
        half[2 * b + 1] = d[b] * (float)sums[1];
        sum[b] = d[b] * (float)(sums[0] + sums[1]);
    }
}

static size_t scratch(const cpu_weight *w, mm_form form, int32_t n_rows) {
    return form == MM_FORM_F32 ? scratch_f32(w, n_rows) : 0;
}

static void run(mm_form form, const mm_job *job) {
    if (form == MM_FORM_F32) {
        run_f32(job);
        return;
    }
    switch (job->w->type) {
    case DS4_TYPE_Q4_0: run_type(DS4_TYPE_Q4_0, job); break;
    case DS4_TYPE_Q4_1: run_type(DS4_TYPE_Q4_1, job); break;
    case DS4_TYPE_Q5_0: run_type(DS4_TYPE_Q5_0, job); break;
    case DS4_TYPE_Q5_1: run_type(DS4_TYPE_Q5_1, job); break;
    case DS4_TYPE_Q8_0: run_type(DS4_TYPE_Q8_0, job); break;
    case DS4_TYPE_MXFP4: run_type(DS4_TYPE_MXFP4, job); break;
    case DS4_TYPE_IQ2_XXS: run_type(DS4_TYPE_IQ2_XXS, job); break;
    case DS4_TYPE_Q2_K: run_type(DS4_TYPE_Q2_K, job); break;
    case DS4_TYPE_Q3_K: run_type(DS4_TYPE_Q3_K, job); break;
    case DS4_TYPE_Q4_K: run_type(DS4_TYPE_Q4_K, job); break;
    case DS4_TYPE_Q5_K: run_type(DS4_TYPE_Q5_K, job); break;
    case DS4_TYPE_Q6_K: run_type(DS4_TYPE_Q6_K, job); break;
    default: break;
    }
}

const mm_kernels ds4_mm_neon = {"neon", choose, prepare, scratch, run};
