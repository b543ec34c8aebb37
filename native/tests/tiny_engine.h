/* tiny_engine.h - short ways to open a tiny model, run steps and read them, for the engine's tests. */
#ifndef DS4_TESTS_TINY_ENGINE_H
#define DS4_TESTS_TINY_ENGINE_H

#include "native/tests/tiny_gguf.h"

typedef struct rig {
    tiny_model *tiny;
    ds4_model *model;
    ds4_session *session;
    ds4_batch *batch;
    ds4_row *rows;
    ds4_error err;
    int32_t n_vocab;
} rig;

#define RIG_ROWS 64

__attribute__((unused)) static ds4_session_desc rig_desc(void)
{
    return (ds4_session_desc){.backend = DS4_BACKEND_CPU, .numeric = DS4_NUMERIC_FLOAT, .kv_type = DS4_TYPE_F32, .n_banks = 4,
                              .n_ctx = 96, .max_rows = RIG_ROWS, .max_out = RIG_ROWS, .n_threads = 2};
}

__attribute__((unused)) static rig rig_open(tiny_spec spec, ds4_session_desc desc)
{
    rig r = {.n_vocab = spec.h.n_vocab};

    r.tiny = tiny_build(spec);
    tiny_write(r.tiny);
    REQUIRE(!ds4_model_open(&r.tiny->desc, &r.model, &r.err), "%s", r.err.message);
    REQUIRE(!ds4_session_create(r.model, &desc, &r.session, &r.err), "%s", r.err.message);
    REQUIRE(!ds4_batch_create(RIG_ROWS, &r.batch, &r.err), "%s", r.err.message);
    r.rows = ds4_batch_rows(r.batch);
    return r;
}

__attribute__((unused)) static void rig_close(rig *r)
{
    ds4_batch_free(r->batch);
    ds4_session_free(r->session);
    ds4_model_free(r->model);
    tiny_free(r->tiny);
}

/* Submits and waits; the step must succeed. */
__attribute__((unused)) static int64_t rig_step(rig *r, int32_t n_rows, ds4_result *result)
{
    int64_t ticket;

    REQUIRE(!ds4_submit(r->session, r->batch, n_rows, &ticket, &r->err), "%s", r->err.message);
    REQUIRE(!ds4_wait(r->session, ticket, result, &r->err), "%s", r->err.message);
    return ticket;
}

/* Feeds tokens[0, n) to a bank in steps of at most `chunk` rows and leaves the logits of every row [n][n_vocab]. */
__attribute__((unused)) static void rig_feed(rig *r, int32_t bank, const int32_t *tokens, int32_t n, int32_t chunk,
                                             float *logits)
{
    for (int32_t done = 0; done < n;) {
        const int32_t start = ds4_bank_length(r->session, bank), rows = n - done < chunk ? n - done : chunk;
        ds4_result result;
        int64_t ticket;

        for (int32_t i = 0; i < rows; i++)
            r->rows[i] = (ds4_row){bank, start + i, tokens[done + i], 0, logits ? DS4_ROW_LOGITS : 0, 0};
        ticket = rig_step(r, rows, &result);
        for (int32_t i = 0; i < rows && logits; i++) {
            const float *row = ds4_result_logits(r->session, ticket, i);
            REQUIRE(row, "row %d kept no logits", i);
            memcpy(logits + (size_t)(done + i) * (size_t)r->n_vocab, row, (size_t)r->n_vocab * sizeof *row);
        }
        done += rows;
    }
}

__attribute__((unused)) static void rig_tokens(int32_t *tokens, int32_t n, int32_t n_vocab, uint64_t seed)
{
    for (int32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(tiny_random(&seed) % (uint64_t)n_vocab);
}

__attribute__((unused)) static int32_t rig_argmax(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

#endif
