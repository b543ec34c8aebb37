/* engine_guard_test.c - a forward is recorded once and is right everywhere.
 *
 * On the guard backend memory is unreadable except while an operation runs, so a forward that looked at a buffer while it
 * was recorded, or an engine that did so between two operations, would crash here. Its results must be the CPU's. */
#include "native/tests/tiny_engine.h"

#define N 40
#define VOCAB 97

static float expected[N * VOCAB], found[N * VOCAB];
static int32_t tokens[N];

static rig open_on(int32_t backend, tiny_spec spec, int32_t kv_type)
{
    ds4_session_desc desc = rig_desc();
    desc.backend = backend;
    desc.kv_type = kv_type;
    return rig_open(spec, desc);
}

static void the_whole_forward_on_the_guard_backend_equals_the_cpu_to_the_bit(void)
{
    const int32_t kv_types[] = {DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_Q8_0};
    const int32_t types[] = {DS4_TYPE_F32, DS4_TYPE_Q8_0, DS4_TYPE_Q4_0};

    rig_tokens(tokens, N, VOCAB, 5);
    for (int i = 0; i < 3; i++) {
        tiny_spec spec = tiny_default();
        rig cpu, guard;
        spec.type = types[i];
        spec.tied = i == 2;
        spec.h.sliding_window = i == 1 ? 9 : 0;
        cpu = open_on(DS4_BACKEND_CPU, spec, kv_types[i]);
        guard = open_on(DS4_BACKEND_GUARD, spec, kv_types[i]);
        rig_feed(&cpu, 0, tokens, N, 16, expected);
        rig_feed(&guard, 0, tokens, N, 16, found);
        CHECK(!memcmp(expected, found, sizeof expected), "weights %d, KV %d", types[i], kv_types[i]);
        rig_close(&cpu), rig_close(&guard);
    }
}

/* Session `old` has recorded a program for one row at position 0 of bank 0 and now runs it at position `at` of bank 3;
 * session `fresh` gets there in one wide step and records its program for one row there. */
static void replay_equals_fresh(int32_t backend, int32_t at)
{
    rig old = open_on(backend, tiny_default(), DS4_TYPE_F16), fresh = open_on(backend, tiny_default(), DS4_TYPE_F16);

    rig_feed(&old, 0, tokens, 1, 1, NULL);
    rig_feed(&old, 3, tokens, at, RIG_ROWS, NULL);
    rig_feed(&old, 3, tokens + at, 1, 1, found);
    rig_feed(&fresh, 3, tokens, at, RIG_ROWS, NULL);
    rig_feed(&fresh, 3, tokens + at, 1, 1, expected);
    CHECK(!memcmp(expected, found, VOCAB * sizeof(float)), "backend %d, position %d", backend, at);
    rig_close(&old), rig_close(&fresh);
}

static void a_program_replayed_at_another_position_equals_a_fresh_recording(void)
{
    for (int32_t at = 2; at < N; at += 9) {
        replay_equals_fresh(DS4_BACKEND_CPU, at);
        replay_equals_fresh(DS4_BACKEND_GUARD, at);
    }
}

/* A bucket's program serves every smaller number of rows and of outputs that falls into it. */
static void a_program_recorded_for_many_rows_is_right_for_fewer(void)
{
    for (int guard = 0; guard < 2; guard++) {
        rig r = open_on(guard ? DS4_BACKEND_GUARD : DS4_BACKEND_CPU, tiny_default(), DS4_TYPE_F32);
        rig_feed(&r, 0, tokens, 16, 16, expected); /* records for 16 */
        rig_feed(&r, 1, tokens, 9, 9, found);      /* 9 of its 16 rows */
        CHECK(!memcmp(expected, found, 9 * VOCAB * sizeof(float)), "9 of 16 rows");
        for (int i = 0; i < 13; i++)
            r.rows[i] = (ds4_row){2, i, tokens[i], 0, i == 12 ? DS4_ROW_LOGITS : 0, 0};
        ds4_result result;
        const int64_t ticket = rig_step(&r, 13, &result);
        CHECK(!memcmp(expected + 12 * VOCAB, ds4_result_logits(r.session, ticket, 12), VOCAB * sizeof(float)), "one output");
        rig_close(&r);
    }
}

static void chained_tokens_are_drawn_on_the_guard_backend_too(void)
{
    int32_t drawn[2][12];

    for (int guard = 0; guard < 2; guard++) {
        rig r = open_on(guard ? DS4_BACKEND_GUARD : DS4_BACKEND_CPU, tiny_default(), DS4_TYPE_F16);
        const ds4_sampler sampler = {.temperature = 0.9f, .top_p = 0.9f, .top_k = 40, .repetition_penalty = 1.1f, .seed = 3};
        ds4_result result;
        int64_t open, next;
        REQUIRE(!ds4_bank_set_sampler(r.session, 2, &sampler, &r.err), "%s", r.err.message);
        r.rows[0] = (ds4_row){2, 0, 1, 0, DS4_ROW_OUTPUT, 2};
        REQUIRE(!ds4_submit(r.session, r.batch, 1, &open, &r.err), "%s", r.err.message);
        for (int i = 0; i < 12; i++) {
            r.rows[0] = (ds4_row){2, i + 1, -1, 0, DS4_ROW_OUTPUT, 2};
            REQUIRE(!ds4_submit(r.session, r.batch, 1, &next, &r.err), "%s", r.err.message);
            REQUIRE(!ds4_wait(r.session, open, &result, &r.err), "%s", r.err.message);
            drawn[guard][i] = result.tokens[0];
            open = next;
        }
        REQUIRE(!ds4_wait(r.session, open, &result, &r.err), "%s", r.err.message);
        rig_close(&r);
    }
    CHECK(!memcmp(drawn[0], drawn[1], sizeof drawn[0]), "other tokens");
}

int main(void)
{
    RUN(the_whole_forward_on_the_guard_backend_equals_the_cpu_to_the_bit);
    RUN(a_program_replayed_at_another_position_equals_a_fresh_recording);
    RUN(a_program_recorded_for_many_rows_is_right_for_fewer);
    RUN(chained_tokens_are_drawn_on_the_guard_backend_too);
    CHECK_DONE();
}
