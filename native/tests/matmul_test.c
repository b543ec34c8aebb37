/* Matrix products of every kernel set that runs here, for every weight type, against sums in double precision. */
#include <stdbool.h>

#include "native/backends/cpu/matmul.h"
#include "native/tests/check.h"
#include "native/tests/matmul_data.h"

static const char *const set_names[] = {"portable", "avx2", "avx512", "neon"};

/* Memory that ends exactly where its contents do, so that a sanitizer sees a read past them; offset shifts the start. */
typedef struct exact {
    uint8_t *base, *data;
} exact;

static exact exact_bytes(size_t bytes, size_t offset) {
    exact e = {malloc(bytes + offset), NULL};
    REQUIRE(e.base != NULL);
    e.data = e.base + offset;
    return e;
}

static void *aligned_bytes(size_t bytes) {
    void *p = NULL;
    REQUIRE(posix_memalign(&p, 64, bytes > 0 ? (bytes + 63) / 64 * 64 : 64) == 0);
    return p;
}

typedef struct product {
    int32_t type;
    int64_t n_out, n_in;
    int32_t n_rows;
    cpu_weight w;
    exact bytes;
    float *values; /* the weights as fp32 */
    float *x;
    double *want, *size; /* exact products, and the sums of the terms' magnitudes */
} product;

static product product_make(int32_t type, int64_t n_out, int64_t n_in, int32_t n_rows) {
    product p = {.type = type, .n_out = n_out, .n_in = n_in, .n_rows = n_rows};
    const size_t row = (size_t)ds4_row_bytes(type, n_in);
    REQUIRE(row > 0);
    p.bytes = exact_bytes(row * (size_t)n_out, 2 * (size_t)(n_out % 3));
    data_fill(type, p.bytes.data, n_out * n_in);
    p.w = (cpu_weight){type, n_out, n_in, row, p.bytes.data};
    p.values = malloc(sizeof(float) * (size_t)(n_out * n_in));
    p.x = malloc(sizeof(float) * (size_t)(n_rows * n_in));
    p.want = malloc(sizeof(double) * (size_t)(n_rows * n_out));
    p.size = malloc(sizeof(double) * (size_t)(n_rows * n_out));
    REQUIRE(p.values && p.x && p.want && p.size);
    for (int64_t o = 0; o < n_out; o++) ds4_dequant_row(type, p.bytes.data + (size_t)o * row, n_in, p.values + o * n_in);
    for (int64_t i = 0; i < n_rows * n_in; i++) p.x[i] = data_unit() * (i % 7 == 0 ? 4.0f : 1.0f);
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t o = 0; o < n_out; o++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < n_in; k++) {
                const double term = (double)p.values[o * n_in + k] * (double)p.x[r * n_in + k];
                sum += term;
                size += fabs(term);
            }
            p.want[r * n_out + o] = sum;
            p.size[r * n_out + o] = size;
        }
    return p;
}

static void product_free(product *p) {
    free(p->bytes.base);
    free(p->values);
    free(p->x);
    free(p->want);
    free(p->size);
}

/* Rows [r0, r0 + n) in grains of `grain` outputs, last grain first. y: [n_rows, n_out]. */
static void run_rows(const mm_kernels *k, const product *p, int32_t numeric, int32_t r0, int32_t n, int64_t grain,
                     mm_store store, float *y) {
    const mm_form form = mm_choose(k, p->type, p->n_in, n, numeric);
    uint8_t *prepared = aligned_bytes(mm_prepared_bytes(form, p->n_in, n));
    uint8_t *scratch = aligned_bytes(mm_scratch_bytes(k, &p->w, form, n));
    const float *x = p->x + r0 * p->n_in;
    mm_prepare(k, form, x, p->n_in, p->n_in, n / 2, n, prepared);
    mm_prepare(k, form, x, p->n_in, p->n_in, 0, n / 2, prepared);
    for (int64_t o = (p->n_out - 1) / grain * grain; o >= 0; o -= grain)
        mm_run(k, &p->w, form, x, p->n_in, prepared, n, o, o + grain < p->n_out ? o + grain : p->n_out, y + r0 * p->n_out,
               p->n_out, store, scratch);
    free(prepared);
    free(scratch);
}

static float *outputs(const product *p) {
    float *y = malloc(sizeof(float) * (size_t)(p->n_rows * p->n_out));
    REQUIRE(y != NULL);
    for (int64_t i = 0; i < p->n_rows * p->n_out; i++) y[i] = NAN;
    return y;
}

static const char *where(const mm_kernels *k, int type, const product *p, int32_t numeric) {
    static char text[128];
    snprintf(text, sizeof text, "%s %s %lld x %lld, %d rows, %s", mm_kernels_name(k), data_types[type].name,
             (long long)p->n_out, (long long)p->n_in, (int)p->n_rows, numeric == DS4_NUMERIC_FLOAT ? "float" : "ship");
    return text;
}

static void for_each_product(void (*check)(const mm_kernels *, int, const product *, int32_t)) {
    static const int64_t shapes[][2] = {{1, 256}, {7, 512}, {8, 256}, {19, 768}, {33, 1536}, {48, 2304}};
    static const int32_t rows[] = {1, 2, 3, 5, 8, 14, 100};
    for (int t = 0; t < DATA_TYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            product p = product_make(data_types[t].type, shapes[s][0], shapes[s][1], rows[(s + (size_t)t) % 7]);
            for (size_t i = 0; i < sizeof set_names / sizeof set_names[0]; i++) {
                const mm_kernels *k = mm_kernels_find(set_names[i]);
                if (k == NULL) continue;
                check(k, t, &p, DS4_NUMERIC_SHIP);
                check(k, t, &p, DS4_NUMERIC_FLOAT);
            }
            product_free(&p);
        }
}

static void check_close(const mm_kernels *k, int type, const product *p, int32_t numeric) {
    float *y = outputs(p);
    run_rows(k, p, numeric, 0, p->n_rows, 16, MM_STORE_SET, y);
    const bool exact_x = mm_choose(k, p->type, p->n_in, p->n_rows, numeric) == MM_FORM_F32;
    for (int64_t i = 0; i < p->n_rows * p->n_out; i++) {
        /* fp32: a rounding for each addition of a lane. 8 bits: an error of at most half of 4/127 in each term's factor,
         * random in sign: 6 standard deviations of the sum. */
        double bound = p->size[i] * 2e-6 + 1e-6;
        if (!exact_x) bound += 6 * (4.0 / 127 / sqrt(12)) * 2 * p->size[i] / sqrt((double)p->n_in);
        CHECK(fabs((double)y[i] - p->want[i]) <= bound, "%s: element %lld is %.9g, not %.9g (bound %.3g)",
              where(k, type, p, numeric), (long long)i, (double)y[i], p->want[i], bound);
    }
    free(y);
}

static void products_are_those_of_the_dequantised_weights(void) { for_each_product(check_close); }

/* In either mode: alone, in threes, in larger groups and all together. */
static void check_batching(const mm_kernels *k, int type, const product *p, int32_t numeric) {
    float *all = outputs(p), *part = outputs(p);
    const size_t bytes = sizeof(float) * (size_t)(p->n_rows * p->n_out);
    run_rows(k, p, numeric, 0, p->n_rows, p->n_out, MM_STORE_SET, all);
    static const int32_t groups[] = {1, 2, 3, 4, 7, 11, 40};
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (int32_t r = 0; r < p->n_rows; r += groups[g])
            run_rows(k, p, numeric, r, p->n_rows - r < groups[g] ? p->n_rows - r : groups[g], 16, MM_STORE_SET, part);
        CHECK(memcmp(all, part, bytes) == 0, "%s: rows in groups of %d", where(k, type, p, numeric), (int)groups[g]);
    }
    free(all);
    free(part);
}

static void a_row_has_the_same_bits_however_many_share_the_product(void) { for_each_product(check_batching); }

static void check_add(const mm_kernels *k, int type, const product *p, int32_t numeric) {
    float *once = outputs(p), *added = outputs(p);
    run_rows(k, p, numeric, 0, p->n_rows, 32, MM_STORE_SET, once);
    for (int64_t i = 0; i < p->n_rows * p->n_out; i++) added[i] = (float)(i % 13);
    run_rows(k, p, numeric, 0, p->n_rows, 16, MM_STORE_ADD, added);
    for (int64_t i = 0; i < p->n_rows * p->n_out; i++)
        CHECK(added[i] == (float)(i % 13) + once[i], "%s: element %lld", where(k, type, p, numeric), (long long)i);
    free(once);
    free(added);
}

static void adding_adds_the_whole_product_in_one_rounding(void) { for_each_product(check_add); }

/* F32, F16 and BF16 have no blocks, so any length is whole. */
static void float_weights_may_have_any_length(void) {
    for (int t = 0; t < 3; t++)
        for (int64_t n_in = 1; n_in < 700; n_in += n_in < 40 ? 1 : 97) {
            product p = product_make(data_types[t].type, 11, n_in, 5);
            for (size_t i = 0; i < sizeof set_names / sizeof set_names[0]; i++) {
                const mm_kernels *k = mm_kernels_find(set_names[i]);
                if (k == NULL) continue;
                check_close(k, t, &p, DS4_NUMERIC_SHIP);
                check_batching(k, t, &p, DS4_NUMERIC_SHIP);
            }
            product_free(&p);
        }
}

/* 18, 48 and odd numbers of blocks, and the largest codes with the largest activations: sums must not overflow. */
static void extreme_codes_do_not_overflow(void) {
    for (int t = 3; t < DATA_TYPES; t++) {
        product p = product_make(data_types[t].type, 17, ds4_block_elements(data_types[t].type) * 3, 9);
        const int32_t bytes = ds4_block_bytes(p.type), elements = ds4_block_elements(p.type);
        for (int64_t i = 0; i < p.n_out * p.n_in / elements; i++) {
            uint8_t *b = p.bytes.data + i * bytes, keep[256];
            memcpy(keep, b, (size_t)bytes);
            memset(b, p.type == DS4_TYPE_Q8_0 ? 0x80 : 0xff, (size_t)bytes);
            const int at = p.type == DS4_TYPE_Q2_K ? 80 : p.type == DS4_TYPE_Q3_K ? 108 : p.type == DS4_TYPE_Q6_K ? 208 : 0;
            const int kept = p.type == DS4_TYPE_MXFP4 ? 1 : p.type == DS4_TYPE_IQ2_XXS || bytes - at < 4 ? 2 : 4;
            memcpy(b + at, keep + at, (size_t)kept);
        }
        for (int64_t i = 0; i < p.n_rows * p.n_in; i++) p.x[i] = i / 64 % 2 ? -2.5f : 2.5f;
        for (int64_t o = 0; o < p.n_out; o++) {
            float *v = p.values + o * p.n_in;
            ds4_dequant_row(p.type, p.bytes.data + (size_t)o * p.w.row_bytes, p.n_in, v);
            for (int64_t r = 0; r < p.n_rows; r++) {
                double sum = 0, size = 0;
                for (int64_t i = 0; i < p.n_in; i++) {
                    sum += (double)v[i] * (double)p.x[r * p.n_in + i];
                    size += fabs((double)v[i] * (double)p.x[r * p.n_in + i]);
                }
                p.want[r * p.n_out + o] = sum;
                p.size[r * p.n_out + o] = size;
            }
        }
        for (size_t i = 0; i < sizeof set_names / sizeof set_names[0]; i++) {
            const mm_kernels *k = mm_kernels_find(set_names[i]);
            if (k == NULL) continue;
            float *y = outputs(&p);
            for (int32_t rows = 1; rows <= p.n_rows; rows += 8) {
                run_rows(k, &p, DS4_NUMERIC_SHIP, 0, rows, p.n_out, MM_STORE_SET, y);
                for (int64_t e = 0; e < rows * p.n_out; e++) /* all activations are +-127: no rounding error of theirs */
                    CHECK(fabs((double)y[e] - p.want[e]) <= 2e-6 * p.size[e] + 1e-6, "%s: %g, not %g",
                          where(k, t, &p, DS4_NUMERIC_SHIP), (double)y[e], p.want[e]);
            }
            free(y);
        }
        product_free(&p);
    }
}

static void zero_and_tiny_activations_give_zero_or_nearly(void) {
    for (int t = 0; t < DATA_TYPES; t++) {
        product p = product_make(data_types[t].type, 16, 256, 2);
        for (int64_t i = 0; i < p.n_in; i++) {
            p.x[i] = 0;
            p.x[p.n_in + i] = 1e-40f;
        }
        for (size_t i = 0; i < sizeof set_names / sizeof set_names[0]; i++) {
            const mm_kernels *k = mm_kernels_find(set_names[i]);
            if (k == NULL) continue;
            float *y = outputs(&p);
            run_rows(k, &p, DS4_NUMERIC_SHIP, 0, 2, 16, MM_STORE_SET, y);
            for (int64_t e = 0; e < 16; e++) CHECK(y[e] == 0, "%s", where(k, t, &p, DS4_NUMERIC_SHIP));
            for (int64_t e = 16; e < 32; e++) CHECK(fabsf(y[e]) < 1e-36f, "%s", where(k, t, &p, DS4_NUMERIC_SHIP));
            free(y);
        }
        product_free(&p);
    }
}

static void a_set_that_cannot_run_here_is_not_found(void) {
    CHECK(mm_kernels_find("sse9") == NULL);
    CHECK(mm_kernels_find(NULL) != NULL);
    CHECK(strcmp(mm_kernels_name(mm_kernels_find("portable")), "portable") == 0);
}

static void grains_are_whole_tiles(void) {
    for (int32_t rows = 1; rows <= 512; rows *= 2)
        for (int32_t threads = 1; threads <= 64; threads *= 2) {
            const cpu_weight w = {DS4_TYPE_Q4_1, 1000, 576, 360, NULL};
            const int64_t grain = mm_grain(mm_kernels_find(NULL), &w, MM_FORM_Q8, rows, threads);
            CHECK(grain >= w.n_out || grain % 16 == 0, "%lld", (long long)grain);
        }
}

int main(void) {
    RUN(products_are_those_of_the_dequantised_weights);
    RUN(a_row_has_the_same_bits_however_many_share_the_product);
    RUN(adding_adds_the_whole_product_in_one_rounding);
    RUN(float_weights_may_have_any_length);
    RUN(extreme_codes_do_not_overflow);
    RUN(zero_and_tiny_activations_give_zero_or_nearly);
    RUN(a_set_that_cannot_run_here_is_not_found);
    RUN(grains_are_whole_tiles);
    CHECK_DONE();
}
