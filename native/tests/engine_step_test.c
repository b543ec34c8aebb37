/* engine_step_test.c - steps over many rows: the same bits in any chunking, tokens that never visit the host, banks that
 * are rewound and copied, and what is refused. */
#include "native/tests/tiny_engine.h"

#define N 50
#define VOCAB 97

static float expected[N * VOCAB], found[N * VOCAB];

static void same_logits(const char *what, int n)
{
    for (int t = 0; t < n; t++)
        if (memcmp(expected + t * VOCAB, found + t * VOCAB, VOCAB * sizeof(float))) {
            CHECK(0, "%s: the logits of position %d differ", what, t);
            return;
        }
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

static void compare_chunkings(tiny_spec spec, int32_t kv_type)
{
    const int chunks[] = {1, 2, 3, 7, 16, 31};
    int32_t tokens[N], others[N];
    ds4_session_desc desc = rig_desc();
    rig r;

    desc.kv_type = kv_type;
    r = rig_open(spec, desc);
    rig_tokens(tokens, N, VOCAB, 5);
    rig_tokens(others, N, VOCAB, 6);
    rig_feed(&r, 0, tokens, N, N, expected);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        REQUIRE(!ds4_bank_truncate(r.session, 1, 0, &r.err), "%s", r.err.message);
        rig_feed(&r, 1, tokens, N, chunks[i], found);
        same_logits("in chunks", N);
    }
    /* Rows of three banks in one step, each in its own rhythm. */
    for (int32_t step = 0, at2 = 0, at3 = 0; at2 < N; step++) {
        const int32_t first = ds4_bank_length(r.session, 2);
        ds4_result result;
        int64_t ticket;
        int32_t n = 0;
        for (int k = 0; k < 1 + step % 3 && at2 < N; k++) {
            if (at3 < N)
                r.rows[n++] = (ds4_row){3, at3, others[at3], 0, k ? 0 : DS4_ROW_OUTPUT, 0}, at3++;
            r.rows[n++] = (ds4_row){2, at2, tokens[at2], 0, DS4_ROW_LOGITS, 0}, at2++;
        }
        ticket = rig_step(&r, n, &result);
        for (int32_t i = 0; i < n; i++)
            if (r.rows[i].bank == 2)
                memcpy(found + r.rows[i].position * VOCAB, ds4_result_logits(r.session, ticket, i), VOCAB * sizeof(float));
        CHECK(ds4_bank_length(r.session, 2) > first, "bank 2 stands still");
    }
    same_logits("among other banks", N);
    rig_close(&r);
}

static void prefill_in_chunks_one_by_one_and_among_other_banks_gives_the_same_bits(void)
{
    tiny_spec spec = tiny_default();
    const int32_t types[] = {DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_Q8_0, DS4_TYPE_Q4_0};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        spec.type = types[i];
        compare_chunkings(spec, DS4_TYPE_F32);
    }
    compare_chunkings(spec, DS4_TYPE_F16);
    compare_chunkings(spec, DS4_TYPE_Q8_0);
    spec.h.sliding_window = 9;
    compare_chunkings(spec, DS4_TYPE_F16);
}

static void the_number_of_threads_changes_no_bit(void)
{
    int32_t tokens[N];
    ds4_session_desc desc = rig_desc();

    rig_tokens(tokens, N, VOCAB, 5);
    for (int32_t threads = 1; threads <= 5; threads += 2) {
        rig r;
        desc.n_threads = threads;
        r = rig_open(tiny_default(), desc);
        rig_feed(&r, 0, tokens, N, 13, threads == 1 ? expected : found);
        if (threads > 1)
            same_logits("threads", N);
        rig_close(&r);
    }
}

/* ---- tokens from the step before --------------------------------------------------------------------------------- */

static void draw_with(rig *r, int32_t bank, float temperature)
{
    const int32_t ids[2] = {3, 4};
    const float values[2] = {0.5f, -0.5f};
    const ds4_sampler sampler = {.temperature = temperature, .top_p = 0.95f, .repetition_penalty = 1.2f,
                                 .frequency_penalty = 0.3f, .presence_penalty = 0.2f, .output_from = 8, .seed = 42,
                                 .bias_ids = ids, .bias_values = values, .n_bias = 2};
    REQUIRE(!ds4_bank_set_sampler(r->session, bank, &sampler, &r->err), "%s", r->err.message);
}

/* Prefills 8 tokens into n_banks banks and decodes; host fed when chained is 0. out: [n_banks][24] */
static void decode(rig *r, int32_t n_banks, int chained, float temperature, int32_t *out)
{
    int32_t prompt[8], n = 0, from[4];
    int64_t open[2] = {0, 0};
    ds4_result result;

    for (int32_t b = 0; b < n_banks; b++) {
        draw_with(r, b, temperature);
        rig_tokens(prompt, 8, VOCAB, 20 + (uint64_t)b);
        for (int32_t i = 0; i < 8; i++)
            r->rows[n++] = (ds4_row){b, i, prompt[i], 0, i == 7 ? DS4_ROW_OUTPUT : 0, 0};
        from[b] = n - 1;
    }
    REQUIRE(!ds4_submit(r->session, r->batch, n, &open[0], &r->err), "%s", r->err.message);
    for (int32_t step = 0; step < 24; step++) {
        const int more = step < 23;
        if (!chained) {
            REQUIRE(!ds4_wait(r->session, open[0], &result, &r->err), "%s", r->err.message);
            for (int32_t b = 0; b < n_banks; b++)
                out[b * 24 + step] = result.tokens[result.row_out[from[b]]];
        }
        for (int32_t b = 0; b < n_banks && more; b++)
            r->rows[b] = (ds4_row){b, 8 + step, chained ? -1 : out[b * 24 + step], from[b], DS4_ROW_OUTPUT, 0};
        if (more)
            REQUIRE(!ds4_submit(r->session, r->batch, n_banks, &open[1], &r->err), "%s", r->err.message);
        if (chained) {
            REQUIRE(!ds4_wait(r->session, open[0], &result, &r->err), "%s", r->err.message);
            for (int32_t b = 0; b < n_banks; b++)
                out[b * 24 + step] = result.tokens[result.row_out[from[b]]];
        }
        for (int32_t b = 0; b < n_banks; b++)
            from[b] = b;
        open[0] = open[1];
    }
}

static void a_token_taken_from_the_step_before_is_as_good_as_one_from_the_host(void)
{
    int32_t fed[3 * 24], chained[3 * 24];

    for (int sampled = 0; sampled < 2; sampled++)
        for (int32_t banks = 1; banks <= 3; banks += 2) {
            rig a = rig_open(tiny_default(), rig_desc()), b = rig_open(tiny_default(), rig_desc());
            decode(&a, banks, 0, sampled ? 0.8f : 0, fed);
            decode(&b, banks, 1, sampled ? 0.8f : 0, chained);
            CHECK(!memcmp(fed, chained, sizeof(int32_t) * 24 * (size_t)banks), "%d banks, sampled %d", banks, sampled);
            for (int32_t i = 0; i < banks; i++) {
                ds4_snapshot *x, *y;
                uint64_t n, m;
                REQUIRE(!ds4_snapshot_take(a.session, i, &x, &a.err) && !ds4_snapshot_take(b.session, i, &y, &b.err), "take");
                const void *p = ds4_snapshot_data(x, &n), *q = ds4_snapshot_data(y, &m);
                CHECK(n == m && !memcmp(p, q, n), "bank %d holds other tokens or rows", i);
                ds4_snapshot_free(x), ds4_snapshot_free(y);
            }
            rig_close(&a), rig_close(&b);
        }
}

static void a_chained_row_without_output_is_known_to_the_rows_after_it(void)
{
    rig r = rig_open(tiny_default(), rig_desc());
    int32_t tokens[4] = {5, 6, 7, 8}, drawn[2];
    int64_t first, second;
    ds4_result result;

    for (int chained = 0; chained < 2; chained++) {
        draw_with(&r, chained, 0.9f);
        for (int32_t i = 0; i < 4; i++)
            r.rows[i] = (ds4_row){chained, i, tokens[i], 0, i == 3 ? DS4_ROW_OUTPUT : 0, 0};
        REQUIRE(!ds4_submit(r.session, r.batch, 4, &first, &r.err), "%s", r.err.message);
        if (!chained)
            REQUIRE(!ds4_wait(r.session, first, &result, &r.err), "%s", r.err.message);
        r.rows[0] = (ds4_row){chained, 4, chained ? -1 : result.tokens[0], 3, 0, 0};
        r.rows[1] = (ds4_row){chained, 5, 9, 0, DS4_ROW_OUTPUT, 0};
        REQUIRE(!ds4_submit(r.session, r.batch, 2, &second, &r.err), "%s", r.err.message);
        if (chained)
            REQUIRE(!ds4_wait(r.session, first, &result, &r.err), "%s", r.err.message);
        REQUIRE(!ds4_wait(r.session, second, &result, &r.err), "%s", r.err.message);
        CHECK(result.row_out[0] == -1 && result.row_out[1] == 0 && result.n_out == 1, "outputs");
        drawn[chained] = result.tokens[0];
    }
    CHECK(drawn[0] == drawn[1], "%d, chained %d", drawn[0], drawn[1]);
    rig_close(&r);
}

/* ---- what a result holds ----------------------------------------------------------------------------------------- */

static void log_probabilities_are_those_of_the_raw_logits(void)
{
    rig r = rig_open(tiny_default(), rig_desc());
    ds4_result result;
    int64_t ticket;
    const float *logits;
    double sum = 0;

    draw_with(&r, 0, 0.7f); /* biases and penalties must not show */
    r.rows[0] = (ds4_row){0, 0, 11, 0, DS4_ROW_LOGITS, 5};
    r.rows[1] = (ds4_row){0, 1, 12, 0, 0, 0};
    r.rows[2] = (ds4_row){0, 2, 13, 0, DS4_ROW_OUTPUT, 0};
    ticket = rig_step(&r, 3, &result);
    CHECK(result.n_rows == 3 && result.n_out == 2, "%d rows, %d out", result.n_rows, result.n_out);
    CHECK(result.row_out[0] == 0 && result.row_out[1] == -1 && result.row_out[2] == 1, "row_out");
    CHECK(result.elapsed_ns > 0, "no time passed");
    logits = ds4_result_logits(r.session, ticket, 0);
    REQUIRE(logits, "no logits");
    CHECK(!ds4_result_logits(r.session, ticket, 1) && !ds4_result_logits(r.session, ticket, 2) &&
              !ds4_result_logits(r.session, ticket, 3) && !ds4_result_logits(r.session, ticket + 1, 0) &&
              !ds4_result_logits(r.session, 0, 0),
          "logits of a row that did not ask");
    for (int i = 0; i < VOCAB; i++)
        sum += exp(logits[i]);
    CHECK(fabs(result.logprobs[0] - (logits[result.tokens[0]] - log(sum))) < 1e-5, "logprob %g", (double)result.logprobs[0]);
    CHECK(result.top_ids[0] == rig_argmax(logits, VOCAB), "top id %d", result.top_ids[0]);
    for (int i = 0; i < 5; i++) {
        CHECK(fabs(result.top_logprobs[i] - (logits[result.top_ids[i]] - log(sum))) < 1e-5, "top %d", i);
        CHECK(!i || result.top_logprobs[i] <= result.top_logprobs[i - 1], "top %d rises", i);
    }
    rig_close(&r);
}

static void results_stay_until_two_further_tickets_are_submitted(void)
{
    rig r = rig_open(tiny_default(), rig_desc());
    ds4_result first, second;
    float kept[VOCAB];
    int64_t ticket, next;

    r.rows[0] = (ds4_row){0, 0, 1, 0, DS4_ROW_LOGITS, 3};
    ticket = rig_step(&r, 1, &first);
    memcpy(kept, ds4_result_logits(r.session, ticket, 0), sizeof kept);
    const int32_t token = first.tokens[0];
    r.rows[0] = (ds4_row){1, 0, 50, 0, DS4_ROW_LOGITS, 3};
    rig_step(&r, 1, &second);
    r.rows[0] = (ds4_row){1, 1, -1, 0, DS4_ROW_LOGITS, 3};
    CHECK(!memcmp(kept, ds4_result_logits(r.session, ticket, 0), sizeof kept) && first.tokens[0] == token, "clobbered");
    REQUIRE(!ds4_submit(r.session, r.batch, 1, &next, &r.err), "%s", r.err.message);
    REQUIRE(!ds4_wait(r.session, next, &second, &r.err), "%s", r.err.message);
    rig_close(&r);
}

static void a_sampler_or_mask_applies_from_the_next_step_on(void)
{
    rig r = rig_open(tiny_default(), rig_desc());
    uint32_t only7[4] = {1u << 7, 0, 0, 0}, only40[4] = {0, 1u << 8, 0, 0}, none[4] = {0}, past_the_end[4] = {0, 0, 0, ~1u};
    int64_t a, b;
    ds4_result result;

    CHECK(ds4_bank_set_mask(r.session, 0, none, 4, &r.err) == DS4_ERR_ARG, "an empty mask");
    CHECK(ds4_bank_set_mask(r.session, 0, past_the_end, 4, &r.err) == DS4_ERR_ARG, "bits past the vocabulary are no tokens");
    CHECK(ds4_bank_set_mask(r.session, 0, only7, 3, &r.err) == DS4_ERR_ARG, "too few words");
    CHECK(ds4_bank_set_mask(r.session, 4, only7, 4, &r.err) == DS4_ERR_ARG, "no such bank");
    REQUIRE(!ds4_bank_set_mask(r.session, 0, only7, 4, &r.err), "%s", r.err.message);
    r.rows[0] = (ds4_row){0, 0, 1, 0, DS4_ROW_OUTPUT, 0};
    REQUIRE(!ds4_submit(r.session, r.batch, 1, &a, &r.err), "%s", r.err.message);
    REQUIRE(!ds4_bank_set_mask(r.session, 0, only40, 4, &r.err), "%s", r.err.message);
    r.rows[0] = (ds4_row){0, 1, 1, 0, DS4_ROW_OUTPUT, 0};
    REQUIRE(!ds4_submit(r.session, r.batch, 1, &b, &r.err), "%s", r.err.message);
    REQUIRE(!ds4_bank_set_mask(r.session, 0, NULL, 0, &r.err), "%s", r.err.message);
    draw_with(&r, 0, 0);
    REQUIRE(!ds4_wait(r.session, a, &result, &r.err) && result.tokens[0] == 7, "%d", result.tokens[0]);
    REQUIRE(!ds4_wait(r.session, b, &result, &r.err) && result.tokens[0] == 40, "%d", result.tokens[0]);
    CHECK(ds4_bank_set_sampler(r.session, 0, &(ds4_sampler){.temperature = -1, .top_p = 1, .repetition_penalty = 1}, &r.err) ==
              DS4_ERR_ARG, "a negative temperature");
    CHECK(ds4_bank_set_sampler(r.session, -1, &(ds4_sampler){.top_p = 1, .repetition_penalty = 1}, &r.err) == DS4_ERR_ARG,
          "no such bank");
    rig_close(&r);
}

/* ---- banks ------------------------------------------------------------------------------------------------------- */

static void a_rewound_bank_continues_as_if_it_had_never_gone_on(void)
{
    rig r = rig_open(tiny_default(), rig_desc());
    int32_t tokens[N], others[N];

    rig_tokens(tokens, N, VOCAB, 5);
    rig_tokens(others, N, VOCAB, 6);
    rig_feed(&r, 0, tokens, N, 16, expected);
    rig_feed(&r, 1, tokens, 20, 20, NULL);
    rig_feed(&r, 1, others, 25, 25, NULL);
    REQUIRE(!ds4_bank_truncate(r.session, 1, 20, &r.err), "%s", r.err.message);
    CHECK(ds4_bank_length(r.session, 1) == 20, "%d", ds4_bank_length(r.session, 1));
    rig_feed(&r, 1, tokens + 20, N - 20, 16, found + 20 * VOCAB);
    memcpy(found, expected, 20 * VOCAB * sizeof(float));
    same_logits("rewound", N);
    CHECK(ds4_bank_truncate(r.session, 1, N + 1, &r.err) == DS4_ERR_ARG, "past the end");
    CHECK(ds4_bank_truncate(r.session, 1, -1, &r.err) == DS4_ERR_ARG, "negative");
    CHECK(ds4_bank_length(r.session, 4) == -1 && ds4_bank_length(r.session, -1) == -1, "no such bank");
    rig_close(&r);
}

static void a_copied_prefix_continues_like_the_original(void)
{
    const int32_t kv_types[] = {DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_Q8_0};
    int32_t tokens[N], others[N];

    rig_tokens(tokens, N, VOCAB, 5);
    rig_tokens(others, N, VOCAB, 6);
    for (int i = 0; i < 3; i++) {
        ds4_session_desc desc = rig_desc();
        rig r;
        desc.kv_type = kv_types[i];
        r = rig_open(tiny_default(), desc);
        rig_feed(&r, 0, tokens, N, 16, expected);
        rig_feed(&r, 3, others, N, 16, NULL); /* what it held is gone */
        REQUIRE(!ds4_bank_copy(r.session, 0, 3, 33, &r.err), "%s", r.err.message);
        CHECK(ds4_bank_length(r.session, 3) == 33 && ds4_bank_length(r.session, 0) == N, "lengths");
        rig_feed(&r, 3, tokens + 33, N - 33, 5, found + 33 * VOCAB);
        memcpy(found, expected, 33 * VOCAB * sizeof(float));
        same_logits("copied", N);
        CHECK(ds4_bank_copy(r.session, 0, 3, N + 1, &r.err) == DS4_ERR_ARG, "longer than the original");
        CHECK(ds4_bank_copy(r.session, 0, 4, 1, &r.err) == DS4_ERR_ARG, "no such bank");
        REQUIRE(!ds4_bank_copy(r.session, 3, 3, 10, &r.err) && ds4_bank_length(r.session, 3) == 10, "onto itself");
        rig_close(&r);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void every_bad_row_is_refused_by_number_and_changes_nothing(void)
{
    ds4_session_desc desc = rig_desc();
    ds4_result result;
    int64_t ticket;
    rig r;

    desc.max_out = 4;
    r = rig_open(tiny_default(), desc);
    r.rows[0] = (ds4_row){1, 0, 5, 0, 0, 0};
    r.rows[1] = (ds4_row){1, 1, 6, 0, DS4_ROW_OUTPUT, 0};
#define REFUSED(row, want, says)                                                                                       \
    do {                                                                                                               \
        r.rows[2] = row;                                                                                               \
        CHECK(ds4_submit(r.session, r.batch, 3, &ticket, &r.err) == want, "%s: %d %s", says, r.err.status, r.err.message); \
        CHECK(strstr(r.err.message, says) && ticket == 0, "'%s' does not say '%s'", r.err.message, says);              \
        CHECK(ds4_bank_length(r.session, 1) == 0, "the bank moved");                                                   \
    } while (0)
#define ROW(...) ((ds4_row){__VA_ARGS__})
    REFUSED(ROW(4, 0, 1, 0, 0, 0), DS4_ERR_ARG, "row 2: bank is 4, expected 0..3");
    REFUSED(ROW(-1, 0, 1, 0, 0, 0), DS4_ERR_ARG, "row 2: bank is -1");
    REFUSED(ROW(1, 3, 1, 0, 0, 0), DS4_ERR_ARG, "row 2: position is 3, expected 2");
    REFUSED(ROW(1, 1, 1, 0, 0, 0), DS4_ERR_ARG, "row 2: position is 1, expected 2");
    REFUSED(ROW(0, 1, 1, 0, 0, 0), DS4_ERR_ARG, "row 2: position is 1, expected 0");
    REFUSED(ROW(1, 2, 97, 0, 0, 0), DS4_ERR_ARG, "row 2: token is 97, expected 0..96");
    REFUSED(ROW(1, 2, -2, 0, 0, 0), DS4_ERR_ARG, "row 2: token is -2");
    REFUSED(ROW(1, 2, 1, 0, 4, 0), DS4_ERR_ARG, "row 2: flags are 0x4");
    REFUSED(ROW(1, 2, 1, 0, 0, 3), DS4_ERR_ARG, "row 2: n_top is 3, which needs the output flag");
    REFUSED(ROW(1, 2, 1, 0, DS4_ROW_OUTPUT, 65), DS4_ERR_ARG, "row 2: n_top is 65, expected 0..64");
    REFUSED(ROW(1, 2, -1, 0, DS4_ROW_OUTPUT, 0), DS4_ERR_ARG, "row 2: its token comes from the step before, and there is none");
    rig_step(&r, 2, &result);
    REQUIRE(!ds4_bank_truncate(r.session, 1, 0, &r.err), "%s", r.err.message);
    REFUSED(ROW(1, 2, -1, 2, DS4_ROW_OUTPUT, 0), DS4_ERR_ARG, "row 2: token_from is 2, expected 0..1");
    REFUSED(ROW(1, 2, -1, -1, DS4_ROW_OUTPUT, 0), DS4_ERR_ARG, "row 2: token_from is -1");
    REFUSED(ROW(1, 2, -1, 0, DS4_ROW_OUTPUT, 0), DS4_ERR_ARG, "has no output");
#undef REFUSED
    for (int i = 0; i < 6; i++)
        r.rows[i] = ROW(1, i, 5, 0, DS4_ROW_OUTPUT, 0);
    CHECK(ds4_submit(r.session, r.batch, 6, &ticket, &r.err) == DS4_ERR_ARG &&
              strstr(r.err.message, "row 4: it is output 5 of the step, expected at most 4"), "%s", r.err.message);
    CHECK(ds4_submit(r.session, r.batch, 0, &ticket, &r.err) == DS4_ERR_ARG && strstr(r.err.message, "n_rows is 0"), "%s",
          r.err.message);
    CHECK(ds4_submit(r.session, r.batch, RIG_ROWS + 1, &ticket, &r.err) == DS4_ERR_ARG, "%s", r.err.message);
    rig_close(&r);
}

static void a_row_past_the_context_is_a_context_error(void)
{
    ds4_session_desc desc = rig_desc();
    int32_t tokens[N];
    int64_t ticket;
    rig r;

    desc.n_ctx = 20;
    r = rig_open(tiny_default(), desc);
    rig_tokens(tokens, N, VOCAB, 5);
    rig_feed(&r, 2, tokens, 20, 20, NULL);
    r.rows[0] = (ds4_row){2, 20, 1, 0, 0, 0};
    CHECK(ds4_submit(r.session, r.batch, 1, &ticket, &r.err) == DS4_ERR_CONTEXT && strstr(r.err.message, "context of 20"), "%s",
          r.err.message);
    CHECK(ds4_bank_length(r.session, 2) == 20, "length");
    rig_close(&r);
}

static void an_open_ticket_keeps_its_bank_and_only_its_bank(void)
{
    rig r = rig_open(tiny_default(), rig_desc());
    ds4_snapshot *snapshot, *none;
    int64_t a, b, c;
    ds4_result result;

    r.rows[0] = (ds4_row){0, 0, 1, 0, DS4_ROW_OUTPUT, 0};
    r.rows[1] = (ds4_row){2, 0, 1, 0, 0, 0};
    REQUIRE(!ds4_submit(r.session, r.batch, 2, &a, &r.err), "%s", r.err.message);
    CHECK(a > 0 && ds4_bank_length(r.session, 0) == 1, "the length advances at once");
    CHECK(ds4_bank_truncate(r.session, 0, 0, &r.err) == DS4_ERR_BUSY, "truncate");
    CHECK(ds4_bank_copy(r.session, 0, 1, 0, &r.err) == DS4_ERR_BUSY, "copy from");
    CHECK(ds4_bank_copy(r.session, 1, 2, 0, &r.err) == DS4_ERR_BUSY, "copy to");
    CHECK(ds4_snapshot_take(r.session, 2, &none, &r.err) == DS4_ERR_BUSY && !none, "take");
    REQUIRE(!ds4_snapshot_take(r.session, 1, &snapshot, &r.err), "%s", r.err.message);
    CHECK(ds4_snapshot_restore(r.session, 0, snapshot, &r.err) == DS4_ERR_BUSY, "restore");
    CHECK(ds4_bank_truncate(r.session, 3, 0, &r.err) == DS4_OK, "another bank: %s", r.err.message);
    r.rows[0] = (ds4_row){0, 1, 2, 0, 0, 0};
    REQUIRE(!ds4_submit(r.session, r.batch, 1, &b, &r.err), "%s", r.err.message);
    r.rows[0] = (ds4_row){3, 0, 2, 0, 0, 0};
    CHECK(ds4_submit(r.session, r.batch, 1, &c, &r.err) == DS4_ERR_BUSY, "a third ticket");
    CHECK(ds4_wait(r.session, b, &result, &r.err) == DS4_ERR_ARG && strstr(r.err.message, "the oldest"), "%s", r.err.message);
    REQUIRE(!ds4_wait(r.session, a, &result, &r.err), "%s", r.err.message);
    CHECK(ds4_wait(r.session, a, &result, &r.err) == DS4_ERR_ARG, "waited for twice");
    CHECK(ds4_bank_truncate(r.session, 2, 0, &r.err) == DS4_OK, "%s", r.err.message);
    CHECK(ds4_bank_truncate(r.session, 0, 0, &r.err) == DS4_ERR_BUSY, "the second ticket still has it");
    REQUIRE(!ds4_wait(r.session, b, &result, &r.err), "%s", r.err.message);
    CHECK(ds4_bank_truncate(r.session, 0, 0, &r.err) == DS4_OK, "%s", r.err.message);
    CHECK(ds4_wait(r.session, b + 1, &result, &r.err) == DS4_ERR_ARG && strstr(r.err.message, "none is open"), "%s",
          r.err.message);
    ds4_snapshot_free(snapshot);
    rig_close(&r);
}

static void a_session_that_cannot_be_is_refused_by_field(void)
{
    rig r = rig_open(tiny_default(), rig_desc());
    ds4_session *s = NULL;

#define REFUSED(field, value, want, says)                                                                             \
    do {                                                                                                              \
        ds4_session_desc desc = rig_desc();                                                                           \
        desc.field = value;                                                                                           \
        CHECK(ds4_session_create(r.model, &desc, &s, &r.err) == want && !s  , #field ": %d", r.err.status);           \
        CHECK(strstr(r.err.message, says), #field ": '%s' does not say '%s'", r.err.message, says);                   \
    } while (0)
    REFUSED(backend, 9, DS4_ERR_ARG, "backend is 9");
    REFUSED(numeric, 2, DS4_ERR_ARG, "numeric is 2");
    REFUSED(kv_type, DS4_TYPE_Q4_0, DS4_ERR_UNSUPPORTED, "kv_type is 2");
    REFUSED(n_banks, 0, DS4_ERR_ARG, "n_banks is 0");
    REFUSED(n_banks, 1025, DS4_ERR_ARG, "n_banks is 1025");
    REFUSED(n_ctx, 0, DS4_ERR_ARG, "n_ctx is 0");
    REFUSED(n_ctx, INT32_MAX, DS4_ERR_ARG, "n_ctx is");
    REFUSED(max_rows, 0, DS4_ERR_ARG, "max_rows is 0");
    REFUSED(max_out, 3, DS4_ERR_ARG, "max_out is 3, expected 4");
    REFUSED(n_threads, 0, DS4_ERR_ARG, "n_threads is 0");
    REFUSED(n_threads, 257, DS4_ERR_ARG, "n_threads is 257");
#undef REFUSED
    CHECK(ds4_kv_bytes_per_position(&r.tiny->spec.h, DS4_TYPE_F16) == 2 * 2 * 2 * 32 * 2, "F16");
    CHECK(ds4_kv_bytes_per_position(&r.tiny->spec.h, DS4_TYPE_Q8_0) == 2 * 2 * 2 * 34, "Q8_0");
    CHECK(ds4_kv_bytes_per_position(&r.tiny->spec.h, DS4_TYPE_Q4_0) == 0, "no cache of that type");
    rig_close(&r);
}

static void the_null_backend_runs_the_same_rows_and_draws_by_position(void)
{
    ds4_session_desc desc = rig_desc();
    ds4_result result;
    int64_t first, second;
    rig r;

    desc.backend = DS4_BACKEND_NULL;
    r = rig_open(tiny_default(), desc);
    for (int i = 0; i < 5; i++)
        r.rows[i] = (ds4_row){2, i, 9, 0, i == 4 ? DS4_ROW_OUTPUT : 0, 0};
    REQUIRE(!ds4_submit(r.session, r.batch, 5, &first, &r.err), "%s", r.err.message);
    r.rows[0] = (ds4_row){2, 5, -1, 4, DS4_ROW_OUTPUT, 0};
    REQUIRE(!ds4_submit(r.session, r.batch, 1, &second, &r.err), "%s", r.err.message);
    REQUIRE(!ds4_wait(r.session, first, &result, &r.err) && result.tokens[0] == 4, "%d", result.tokens[0]);
    REQUIRE(!ds4_wait(r.session, second, &result, &r.err) && result.tokens[0] == 5, "%d", result.tokens[0]);
    CHECK(ds4_bank_length(r.session, 2) == 6, "%d", ds4_bank_length(r.session, 2));
    rig_close(&r);
}

static void the_layout_table_says_what_the_compiler_did(void)
{
    char line[64];

    snprintf(line, sizeof line, "ds4_row %zu bank:0 position:4", sizeof(ds4_row));
    CHECK(strstr(ds4_abi_layout(), line), "%s", ds4_abi_layout());
    snprintf(line, sizeof line, " elapsed_ns:%zu", offsetof(ds4_result, elapsed_ns));
    CHECK(strstr(ds4_abi_layout(), line), "%s", ds4_abi_layout());
    CHECK(ds4_abi_version() == DS4_ABI_VERSION && ds4_version()[0] && ds4_cpu_kernels()[0], "versions");
}

int main(void)
{
    RUN(the_layout_table_says_what_the_compiler_did);
    RUN(prefill_in_chunks_one_by_one_and_among_other_banks_gives_the_same_bits);
    RUN(the_number_of_threads_changes_no_bit);
    RUN(a_token_taken_from_the_step_before_is_as_good_as_one_from_the_host);
    RUN(a_chained_row_without_output_is_known_to_the_rows_after_it);
    RUN(log_probabilities_are_those_of_the_raw_logits);
    RUN(results_stay_until_two_further_tickets_are_submitted);
    RUN(a_sampler_or_mask_applies_from_the_next_step_on);
    RUN(a_rewound_bank_continues_as_if_it_had_never_gone_on);
    RUN(a_copied_prefix_continues_like_the_original);
    RUN(every_bad_row_is_refused_by_number_and_changes_nothing);
    RUN(a_row_past_the_context_is_a_context_error);
    RUN(an_open_ticket_keeps_its_bank_and_only_its_bank);
    RUN(a_session_that_cannot_be_is_refused_by_field);
    RUN(the_null_backend_runs_the_same_rows_and_draws_by_position);
    CHECK_DONE();
}
