/* engine_bench.c - prefill 512 and decode 128 of a llama GGUF through the bridge alone, for profiling.
 *
 *   engine_bench FILE THREADS [REPEATS] [DEPTH] [BANKS]
 *
 * Prints the best of REPEATS (3) as tokens per second: the prefill of 512 tokens, then 128 decode steps of BANKS (1) banks
 * from position DEPTH (0) on, each fed by the step before. F16 cache, shipping numerics. */
#include "native/tests/llama_plan.h"

#include <time.h>

#define PREFILL 512
#define DECODE 128

static ds4_error err;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t submit(ds4_session *s, ds4_batch *batch, int32_t n)
{
    int64_t ticket;
    REQUIRE(!ds4_submit(s, batch, n, &ticket, &err), "%s", err.message);
    return ticket;
}

static void wait_for(ds4_session *s, int64_t ticket)
{
    ds4_result result;
    REQUIRE(!ds4_wait(s, ticket, &result, &err), "%s", err.message);
}

/* Empties a bank and feeds it n tokens in steps of PREFILL; the last row draws. */
static void prefill(ds4_session *s, ds4_batch *batch, int32_t bank, int32_t n, int32_t n_vocab)
{
    ds4_row *rows = ds4_batch_rows(batch);

    REQUIRE(!ds4_bank_truncate(s, bank, 0, &err), "%s", err.message);
    for (int32_t at = 0; at < n;) {
        const int32_t m = n - at < PREFILL ? n - at : PREFILL;
        for (int32_t i = 0; i < m; i++)
            rows[i] = (ds4_row){bank, at + i, (at + i) * 7919 % n_vocab, 0, at + i == n - 1 ? DS4_ROW_OUTPUT : 0, 0};
        wait_for(s, submit(s, batch, m));
        at += m;
    }
}

static void decode(ds4_session *s, ds4_batch *batch, int32_t depth, int32_t banks)
{
    ds4_row *rows = ds4_batch_rows(batch);
    int64_t open = 0;

    for (int32_t i = 0; i < DECODE; i++) {
        for (int32_t b = 0; b < banks; b++)
            rows[b] = (ds4_row){b, depth + i, i ? -1 : 1, b, DS4_ROW_OUTPUT, 0};
        const int64_t next = submit(s, batch, banks);
        if (open)
            wait_for(s, open);
        open = next;
    }
    wait_for(s, open);
}

int main(int argc, char **argv)
{
    const int32_t repeats = argc > 3 ? atoi(argv[3]) : 3, depth = argc > 4 ? atoi(argv[4]) : 0;
    const int32_t banks = argc > 5 ? atoi(argv[5]) : 1;
    llama_plan plan;
    ds4_model *model;
    ds4_session *s;
    ds4_batch *batch;
    double best_prefill = 1e9, best_decode = 1e9;

    if (argc < 3) {
        fprintf(stderr, "engine_bench FILE THREADS [REPEATS] [DEPTH] [BANKS]\n");
        return 2;
    }
    llama_plan_read(&plan, argv[1]);
    REQUIRE(!ds4_model_open(&plan.desc, &model, &err), "%s", err.message);
    REQUIRE(!ds4_model_warm(model, NULL, NULL, &err), "%s", err.message);
    const ds4_session_desc desc = {.backend = DS4_BACKEND_CPU, .numeric = DS4_NUMERIC_SHIP, .kv_type = DS4_TYPE_F16,
                                   .n_banks = banks, .n_ctx = (depth > PREFILL ? depth : PREFILL) + DECODE,
                                   .max_rows = PREFILL > banks ? PREFILL : banks, .max_out = banks, .n_threads = atoi(argv[2])};
    REQUIRE(!ds4_session_create(model, &desc, &s, &err), "%s", err.message);
    REQUIRE(!ds4_batch_create(desc.max_rows, &batch, &err), "%s", err.message);
    for (int32_t i = 0; i < repeats; i++) {
        double start = seconds(), took;
        prefill(s, batch, 0, PREFILL, plan.desc.hparams.n_vocab);
        took = seconds() - start;
        best_prefill = took < best_prefill ? took : best_prefill;
        for (int32_t b = 0; b < banks; b++)
            prefill(s, batch, b, depth, plan.desc.hparams.n_vocab);
        start = seconds();
        decode(s, batch, depth, banks);
        took = seconds() - start;
        best_decode = took < best_decode ? took : best_decode;
    }
    printf("kernels %s, threads %d: prefill %d %.1f tok/s, decode %d x %d at %d %.1f tok/s (%.2f GB/s of weights)\n",
           ds4_cpu_kernels(), desc.n_threads, PREFILL, PREFILL / best_prefill, DECODE, banks, depth,
           DECODE * banks / best_decode, (double)ds4_model_active_bytes(model) * DECODE / best_decode * 1e-9);
    ds4_batch_free(batch);
    ds4_session_free(s);
    ds4_model_free(model);
    llama_plan_free(&plan);
    return 0;
}
