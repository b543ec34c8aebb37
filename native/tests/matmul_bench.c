/* matmul_bench - how fast the matrix products are on this machine, beside what it could do.
 *
 *   matmul_bench [kernels [type [rows]]]
 *
 * First the bounds, measured in the same run: fp32 fused multiply-adds of one core from registers, and reading of memory
 * in order. Then for each type, shape [n_out, n_in] of SmolLM2-135M and number of rows, on one thread: multiplications in
 * 1e9/s (GMAC/s) and beside it as a part of the first bound, bytes of weights read in GB/s and as a part of the second, and
 * the microseconds that preparation of all rows takes. The weights are a list of matrices larger than the caches, each used
 * once in turn as a model's layers are.
 *
 * Times are processor times of slices of about a millisecond, the best of many, so that other programs disturb little. */
#include <stdio.h>
#include <time.h>

#include "native/backends/cpu/matmul.h"
#include "native/tests/matmul_data.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *memory(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 64, (bytes + 63) / 64 * 64) != 0) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

static volatile float sink;

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double fma_peak(void) {
    typedef float v8 __attribute__((vector_size(32)));
    double best = 1e9;
    for (int run = 0; run < 60; run++) {
        v8 a[10] = {{0}};
        const v8 x = {1e-9f, 1e-9f, 1e-9f, 1e-9f, 1e-9f, 1e-9f, 1e-9f, 1e-9f};
        const double t0 = now();
        for (int i = 0; i < 400000; i++) {
#define ONE(j) __asm__("vfmadd231ps %1, %1, %0" : "+x"(a[j]) : "x"(x));
            ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(8) ONE(9)
        }
        const double t = now() - t0;
        for (int j = 0; j < 10; j++) sink += a[j][0];
        if (t < best) best = t;
    }
    return 4e5 * 80 / best / 1e9;
}
#else
static double fma_peak(void) { return 0; }
#endif

static double read_peak(const uint8_t *p, size_t bytes) {
    typedef uint64_t v4 __attribute__((vector_size(32)));
    const size_t slice = 8 << 20;
    double best = 1e9;
    for (int round = 0; round < 5; round++)
        for (size_t at = 0; at + slice <= bytes; at += slice) {
            v4 a[4] = {{0}};
            const double t0 = now();
            for (size_t i = at; i < at + slice; i += 128)
                for (int j = 0; j < 4; j++) {
                    v4 v;
                    memcpy(&v, p + i + 32 * j, 32);
                    a[j] += v;
                }
            const double t = now() - t0;
            for (int j = 0; j < 4; j++) sink += (float)a[j][0];
            if (t < best) best = t;
        }
    return (double)slice / best / 1e9;
}

enum { WEIGHT_BYTES = 96 << 20, MOST_ROWS = 512 };

int main(int argc, char **argv) {
    const mm_kernels *k = mm_kernels_find(argc > 1 && strcmp(argv[1], "best") != 0 ? argv[1] : NULL);
    if (k == NULL) {
        fprintf(stderr, "kernels %s cannot run here\n", argv[1]);
        return 2;
    }
    uint8_t *weights = memory(WEIGHT_BYTES);
    for (size_t i = 0; i < WEIGHT_BYTES; i += 8) {
        const uint64_t v = data_next();
        memcpy(weights + i, &v, 8);
    }
    const double fma = fma_peak(), reading = read_peak(weights, WEIGHT_BYTES);
    printf("fma %.1f GMAC/s, read %.1f GB/s, kernels %s\n", fma, reading, mm_kernels_name(k));
    static const int64_t shapes[][2] = {{576, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
    static const int32_t rows[] = {1, 2, 3, 4, 6, 8, 16, 64, 512};
    float *x = memory(sizeof(float) * MOST_ROWS * 1536), *y = memory(sizeof(float) * MOST_ROWS * 49152);
    for (size_t i = 0; i < MOST_ROWS * 1536; i++) x[i] = data_unit();
    memset(y, 0, sizeof(float) * MOST_ROWS * 49152);
    printf("%-5s %6s x %-5s %5s %9s %5s %8s %5s %8s\n", "type", "n_out", "n_in", "rows", "GMAC/s", "part", "GB/s", "part", "prep us");
    for (int t = 0; t < DATA_TYPES; t++) {
        if (argc > 2 && strcmp(argv[2], "all") != 0 && strcmp(argv[2], data_types[t].name) != 0) continue;
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            int64_t n_out = shapes[s][0], n_in = shapes[s][1];
            if (n_in % ds4_block_elements(data_types[t].type) != 0) n_in = n_in / 512 * 512;
            const size_t row = (size_t)ds4_row_bytes(data_types[t].type, n_in), bytes = row * (size_t)n_out;
            data_fill(data_types[t].type, weights, (int64_t)(WEIGHT_BYTES / row) * n_in);
            for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                if (argc > 3 && atoi(argv[3]) != rows[i]) continue;
                if (n_out > 10000 && rows[i] > 64) continue;
                cpu_weight w = {data_types[t].type, n_out, n_in, row, weights};
                const mm_form form = mm_choose(k, w.type, n_in, rows[i], DS4_NUMERIC_SHIP);
                void *prepared = memory(mm_prepared_bytes(form, n_in, rows[i]) + 64);
                void *scratch = memory(mm_scratch_bytes(k, &w, form, rows[i]) + 64);
                const int64_t fit = (int64_t)(WEIGHT_BYTES / bytes);
                /* A slice: so many whole matrices, or a part of one. */
                const double macs = (double)n_in * rows[i], slice = 3e7;
                int64_t grain = (int64_t)(slice / macs) / 16 * 16;
                if (grain > n_out) grain = n_out;
                if (grain < 16) grain = 16;
                const int64_t count = (int64_t)(slice / (macs * (double)grain)) + 1;
                double best = 1e9, prep = 1e9;
                int64_t c = 0, o = 0;
                for (int run = 0; run < 60; run++) {
                    const double t0 = now();
                    mm_prepare(k, form, x, n_in, n_in, 0, rows[i], prepared);
                    const double t1 = now();
                    for (int64_t j = 0; j < count; j++) {
                        w.data = weights + (size_t)c * bytes;
                        mm_run(k, &w, form, x, n_in, prepared, rows[i], o, o + grain, y, n_out, MM_STORE_SET, scratch);
                        o += grain;
                        if (o + grain > n_out) {
                            o = 0;
                            c = (c + 1) % fit;
                        }
                    }
                    const double t2 = now();
                    if (t1 - t0 < prep) prep = t1 - t0;
                    if (t2 - t1 < best) best = t2 - t1;
                }
                const double rate = macs * (double)(grain * count) / best / 1e9;
                const double gb = (double)row * (double)(grain * count) / best / 1e9;
                printf("%-5s %6lld x %-5lld %5d %9.1f %4.0f%% %8.2f %4.0f%% %8.1f\n", data_types[t].name, (long long)n_out,
                       (long long)n_in, (int)rows[i], rate, 100 * rate / fma, gb, 100 * gb / reading, prep * 1e6);
                fflush(stdout);
                free(prepared);
                free(scratch);
            }
        }
    }
    free(weights);
    free(x);
    free(y);
    return 0;
}
