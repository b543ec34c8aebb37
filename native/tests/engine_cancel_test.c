/* engine_cancel_test.c - what is left of banks and tickets when a step is cancelled. */
#include "native/tests/tiny_engine.h"

#include <pthread.h>

#define ATTEMPTS 2000 /* a cancellation races with the step's end: each test tries until it has seen what it is about */

/* Six layers, each wide enough that a step of 64 rows is not over before the next call. */
static tiny_spec slow(void)
{
    tiny_spec spec = tiny_default();
    spec.h.n_layer = 6;
    spec.h.d_ff = 512;
    return spec;
}

static void prefill(rig *r, int32_t bank, int32_t n)
{
    const int32_t start = ds4_bank_length(r->session, bank);
    for (int32_t i = 0; i < n; i++)
        r->rows[i] = (ds4_row){bank, start + i, (start + i) % r->n_vocab, 0, i == n - 1 ? DS4_ROW_OUTPUT : 0, 0};
}

static int64_t submit(rig *r, int32_t n)
{
    int64_t ticket;
    REQUIRE(!ds4_submit(r->session, r->batch, n, &ticket, &r->err), "%s", r->err.message);
    return ticket;
}

static void a_cancelled_step_leaves_its_banks_as_they_were(void)
{
    rig r = rig_open(slow(), rig_desc());
    float before[97], after[97];
    ds4_result result;
    int32_t token = 3;
    int cancelled = 0;

    rig_feed(&r, 0, (const int32_t[]){1, 2, 3}, 3, 3, NULL);
    rig_feed(&r, 0, &token, 1, 1, before);
    REQUIRE(!ds4_bank_truncate(r.session, 0, 3, &r.err), "%s", r.err.message);
    for (int i = 0; i < ATTEMPTS && !cancelled; i++) {
        prefill(&r, 0, RIG_ROWS);
        const int64_t ticket = submit(&r, RIG_ROWS);
        CHECK(ds4_bank_length(r.session, 0) == 3 + RIG_ROWS, "it advances at submit");
        ds4_session_cancel(r.session);
        cancelled = ds4_wait(r.session, ticket, &result, &r.err) == DS4_ERR_CANCELLED;
        CHECK(cancelled || r.err.status == DS4_OK, "%s", r.err.message);
        CHECK(ds4_bank_length(r.session, 0) == (cancelled ? 3 : 3 + RIG_ROWS), "length %d", ds4_bank_length(r.session, 0));
        if (cancelled)
            CHECK(strlen(r.err.message) > 5 && result.n_rows == 0, "'%s'", r.err.message);
        else
            REQUIRE(!ds4_bank_truncate(r.session, 0, 3, &r.err), "%s", r.err.message);
    }
    CHECK(cancelled, "no step was cancelled in %d attempts", ATTEMPTS);
    rig_feed(&r, 0, &token, 1, 1, after);
    CHECK(!memcmp(before, after, sizeof before), "the bank computes something else now");
    rig_close(&r);
}

static void a_ticket_that_builds_on_a_cancelled_one_is_cancelled_too(void)
{
    rig r = rig_open(slow(), rig_desc());
    ds4_result result;
    int seen = 0;

    for (int i = 0; i < ATTEMPTS && !seen; i++) {
        int64_t first, second, third;
        prefill(&r, 0, 40);
        first = submit(&r, 40);
        ds4_session_cancel(r.session);
        /* Submitted after the cancellation, so that it runs; but on tokens and rows that never came to be. */
        r.rows[0] = (ds4_row){0, 40, -1, 39, DS4_ROW_OUTPUT, 0};
        r.rows[1] = (ds4_row){1, 0, 7, 0, 0, 0};
        second = submit(&r, 2);
        if (ds4_wait(r.session, first, &result, &r.err) == DS4_OK) {
            REQUIRE(!ds4_wait(r.session, second, &result, &r.err), "%s", r.err.message);
        } else {
            seen = 1;
            CHECK(ds4_bank_length(r.session, 0) == 0 && ds4_bank_length(r.session, 1) == 0, "both fall back at once");
            prefill(&r, 0, 1);
            CHECK(ds4_submit(r.session, r.batch, 1, &third, &r.err) == DS4_ERR_BUSY, "%s", r.err.message);
            r.rows[0] = (ds4_row){2, 0, -1, 0, DS4_ROW_OUTPUT, 0};
            CHECK(ds4_submit(r.session, r.batch, 1, &third, &r.err) == DS4_ERR_ARG && strstr(r.err.message, "did not complete"),
                  "%s", r.err.message);
            CHECK(ds4_bank_truncate(r.session, 0, 0, &r.err) == DS4_ERR_BUSY, "%s", r.err.message);
            CHECK(ds4_wait(r.session, second, &result, &r.err) == DS4_ERR_CANCELLED && strstr(r.err.message, "built on"), "%s",
                  r.err.message);
            CHECK(ds4_bank_length(r.session, 0) == 0 && ds4_bank_length(r.session, 1) == 0, "lengths");
            r.rows[0] = (ds4_row){2, 0, -1, 0, DS4_ROW_OUTPUT, 0};
            CHECK(ds4_submit(r.session, r.batch, 1, &third, &r.err) == DS4_ERR_ARG, "%s", r.err.message);
            prefill(&r, 0, 4);
            rig_step(&r, 4, &result);
        }
        REQUIRE(!ds4_bank_truncate(r.session, 0, 0, &r.err) && !ds4_bank_truncate(r.session, 1, 0, &r.err), "%s", r.err.message);
    }
    CHECK(seen, "no step was cancelled in %d attempts", ATTEMPTS);
    rig_close(&r);
}

static void a_ticket_submitted_after_the_cancellation_runs(void)
{
    rig r = rig_open(slow(), rig_desc());
    ds4_result result;
    float alone[97], found[97];
    const int32_t token = 9;
    int seen = 0;

    rig_feed(&r, 3, &token, 1, 1, alone);
    for (int i = 0; i < ATTEMPTS && !seen; i++) {
        int64_t first, second;
        prefill(&r, 0, 40);
        first = submit(&r, 40);
        ds4_session_cancel(r.session);
        r.rows[0] = (ds4_row){1, 0, token, 0, DS4_ROW_LOGITS, 0};
        second = submit(&r, 1);
        seen = ds4_wait(r.session, first, &result, &r.err) == DS4_ERR_CANCELLED;
        REQUIRE(!ds4_wait(r.session, second, &result, &r.err), "%s", r.err.message);
        memcpy(found, ds4_result_logits(r.session, second, 0), sizeof found);
        CHECK(!memcmp(alone, found, sizeof alone), "another bank's step was disturbed");
        CHECK(ds4_bank_length(r.session, 1) == 1 && ds4_bank_length(r.session, 0) == (seen ? 0 : 40), "lengths");
        REQUIRE(!ds4_bank_truncate(r.session, 0, 0, &r.err) && !ds4_bank_truncate(r.session, 1, 0, &r.err), "%s", r.err.message);
    }
    CHECK(seen, "no step was cancelled in %d attempts", ATTEMPTS);
    rig_close(&r);
}

static void *cancel(void *session)
{
    ds4_session_cancel(session);
    return NULL;
}

static void another_thread_may_cancel_while_the_owner_waits(void)
{
    rig r = rig_open(slow(), rig_desc());
    ds4_result result;
    int cancelled = 0, done = 0;

    for (int i = 0; i < 60; i++) {
        pthread_t thread;
        int64_t first, second;
        int32_t a, b;
        prefill(&r, 0, 30);
        first = submit(&r, 30);
        prefill(&r, 0, 30);
        REQUIRE(!pthread_create(&thread, NULL, cancel, r.session), "thread");
        second = submit(&r, 30);
        a = ds4_wait(r.session, first, &result, &r.err);
        b = ds4_wait(r.session, second, &result, &r.err);
        CHECK((a == DS4_OK || a == DS4_ERR_CANCELLED) && (b == DS4_OK || b == DS4_ERR_CANCELLED), "%d %d", a, b);
        CHECK(a == DS4_OK || b == DS4_ERR_CANCELLED, "the second outlived the first");
        CHECK(ds4_bank_length(r.session, 0) == (a ? 0 : b ? 30 : 60), "length %d", ds4_bank_length(r.session, 0));
        cancelled += a || b;
        done += !a;
        pthread_join(thread, NULL);
        REQUIRE(!ds4_bank_truncate(r.session, 0, 0, &r.err), "%s", r.err.message);
    }
    CHECK(cancelled + done > 0, "nothing happened");
    rig_close(&r);
}

static void a_session_may_be_freed_with_tickets_open(void)
{
    rig r = rig_open(slow(), rig_desc());

    prefill(&r, 0, 40);
    submit(&r, 40);
    prefill(&r, 1, 40);
    submit(&r, 40);
    rig_close(&r);
}

int main(void)
{
    RUN(a_cancelled_step_leaves_its_banks_as_they_were);
    RUN(a_ticket_that_builds_on_a_cancelled_one_is_cancelled_too);
    RUN(a_ticket_submitted_after_the_cancellation_runs);
    RUN(another_thread_may_cancel_while_the_owner_waits);
    RUN(a_session_may_be_freed_with_tickets_open);
    CHECK_DONE();
}
