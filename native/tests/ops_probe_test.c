/* ops_probe_test.c - the bridge's door to one operation: what comes out is the operation's, in any steps and threads, and
 * whatever does not fit is refused with a message that names it. The numbers themselves are judged by oracles/ops. */
#include "native/bridge/ds4_bridge.h"
#include "native/tests/check.h"

#include <math.h>
#include <string.h>

#define ROWS 5
#define COLS 64

static float a[ROWS * COLS], b[ROWS * COLS], c[ROWS * COLS], y[ROWS * COLS], again[ROWS * COLS], weight[COLS * COLS];
static int32_t ids[1 + DS4_MAX_TOP];
static int32_t tokens[ROWS] = {3, 0, 2, 3, 1}, banks[ROWS] = {0, 1, 0, 0, 1}, positions[ROWS] = {0, 0, 1, 2, 1};
static ds4_hparams hparams;
static ds4_error err;

static void fill(void)
{
    for (int i = 0; i < ROWS * COLS; i++) {
        a[i] = (float)((i * 37) % 101 - 50) / 16.0f;
        b[i] = (float)((i * 53) % 97 - 48) / 32.0f;
        c[i] = (float)((i * 29) % 89 - 44) / 8.0f;
    }
    for (int i = 0; i < COLS * COLS; i++)
        weight[i] = (float)((i * 41) % 83 - 41) / 64.0f;
    hparams = (ds4_hparams){.n_head = 4, .n_head_kv = 2, .head_dim = 16, .rope_dim = 16, .rms_eps = 1e-5f, .rope_base = 1e4f,
                            .rope_factor = 1.0f, .rope_attn_factor = 1.0f};
}

static ds4_op_desc desc_of(int32_t op)
{
    ds4_op_desc d = {.op = op, .numeric = DS4_NUMERIC_FLOAT, .n_threads = 1, .n_rows = ROWS, .n_in = COLS, .n_out = COLS};
    d.weight_type = DS4_TYPE_F32;
    d.weight_rows = 4;
    d.kv_type = DS4_TYPE_F16;
    d.hparams = &hparams;
    d.weight = weight;
    d.a = a, d.b = b, d.c = c;
    d.tokens = tokens, d.banks = banks, d.positions = positions;
    return d;
}

static void every_operation_gives_the_same_in_any_steps_and_threads(void)
{
    for (int32_t op = DS4_OP_EMBED; op <= DS4_OP_ATTENTION; op++) {
        ds4_op_desc d = desc_of(op);
        REQUIRE(!ds4_ops_probe(&d, y, NULL, &err), "op %d: %s", (int)op, err.message);
        for (int32_t steps = 1; steps <= 3; steps++) {
            d.step_rows = steps;
            d.n_threads = steps;
            memset(again, 0, sizeof again);
            REQUIRE(!ds4_ops_probe(&d, again, NULL, &err), "op %d: %s", (int)op, err.message);
            CHECK(!memcmp(y, again, sizeof y), "op %d in steps of %d", (int)op, (int)steps);
        }
    }
}

static void the_plain_ones_are_what_they_say(void)
{
    ds4_op_desc d = desc_of(DS4_OP_EMBED);
    CHECK(!ds4_ops_probe(&d, y, NULL, &err) && !memcmp(y, weight + 3 * COLS, COLS * sizeof *y), "embed");
    d = desc_of(DS4_OP_ADD);
    CHECK(!ds4_ops_probe(&d, y, NULL, &err) && y[70] == a[70] + b[70], "add");
    d = desc_of(DS4_OP_MATMUL);
    double sum = 0.0;
    for (int k = 0; k < COLS; k++)
        sum += (double)weight[3 * COLS + k] * (double)a[2 * COLS + k];
    CHECK(!ds4_ops_probe(&d, y, NULL, &err) && fabs((double)y[2 * COLS + 3] - sum) < 1e-4, "matmul: %g, expected %g",
          (double)y[2 * COLS + 3], sum);
    d = desc_of(DS4_OP_ROPE);
    CHECK(!ds4_ops_probe(&d, y, NULL, &err), "rope: %s", err.message);
    CHECK(y[0] == a[0] && fabs((double)y[2 * COLS] - ((double)a[2 * COLS] * cos(1.0) - (double)a[2 * COLS + 1] * sin(1.0))) < 1e-6,
          "row 2 is at position 1");
    d = desc_of(DS4_OP_ATTENTION);
    CHECK(!ds4_ops_probe(&d, y, NULL, &err) && y[0] == c[0], "a first position attends to itself: %g, expected %g", (double)y[0],
          (double)c[0]);
}

static void a_step_draws_and_tells_the_likeliest(void)
{
    ds4_sampler sampler = {.top_p = 1.0f, .repetition_penalty = 1.0f};
    uint32_t mask[COLS / 32] = {1u << 7, 0};
    ds4_op_desc d = desc_of(DS4_OP_SAMPLE);
    d.n_rows = 1;
    d.n_out = 4;
    d.sampler = &sampler;
    REQUIRE(!ds4_ops_probe(&d, y, ids, &err), "%s", err.message);
    CHECK(ids[0] == ids[1] && y[0] == y[1] && y[1] >= y[2] && y[2] >= y[3] && y[0] < 0.0f, "%d %g", (int)ids[0], (double)y[0]);
    d.mask = mask;
    CHECK(!ds4_ops_probe(&d, y, ids, &err) && ids[0] == 7 && y[0] < y[1], "the mask leaves one: %d", (int)ids[0]);
}


static void refused(const ds4_op_desc *d, int32_t status, const char *names)
{
    memset(&err, 0, sizeof err);
    const int32_t found = ds4_ops_probe(d, y, ids, &err);
    CHECK(found == status && strstr(err.message, names), "expected %d naming %s, found %d: %s", (int)status, names, (int)found,
          err.message);
}

#define REFUSED(op, change, status, names) \
    do {                                   \
        ds4_op_desc d = desc_of(op);       \
        change;                            \
        refused(&d, status, names);        \
    } while (0)

static void what_does_not_fit_is_refused_by_name(void)
{
    ds4_hparams h = hparams;
    ds4_sampler bad = {.top_p = 2.0f, .repetition_penalty = 1.0f}, good = {.top_p = 1.0f, .repetition_penalty = 1.0f};
    int32_t outside[ROWS] = {0, 4, 0, 0, 0}, gap[ROWS] = {0, 0, 2, 3, 1};
    REFUSED(99, (void)0, DS4_ERR_UNSUPPORTED, "op");
    REFUSED(DS4_OP_ADD, d.n_rows = 0, DS4_ERR_ARG, "shape");
    REFUSED(DS4_OP_ADD, d.n_out = 3, DS4_ERR_ARG, "n_out");
    REFUSED(DS4_OP_ADD, d.b = NULL, DS4_ERR_ARG, "b");
    REFUSED(DS4_OP_ADD, d.numeric = 7, DS4_ERR_ARG, "numeric");
    REFUSED(DS4_OP_ADD, d.n_threads = 0, DS4_ERR_ARG, "n_threads");
    REFUSED(DS4_OP_ADD, d.kernels = "abacus", DS4_ERR_UNSUPPORTED, "abacus");
    REFUSED(DS4_OP_EMBED, d.tokens = outside, DS4_ERR_ARG, "tokens[1]");
    REFUSED(DS4_OP_EMBED, d.weight_type = 77, DS4_ERR_UNSUPPORTED, "weight_type");
    REFUSED(DS4_OP_MATMUL, d.weight_type = DS4_TYPE_Q4_K, DS4_ERR_ARG, "weight");
    REFUSED(DS4_OP_RMSNORM, d.hparams = NULL, DS4_ERR_ARG, "hparams");
    h.rope_dim = 7;
    REFUSED(DS4_OP_ROPE, d.hparams = &h, DS4_ERR_ARG, "rope_dim");
    h = hparams;
    h.n_head_kv = 3;
    REFUSED(DS4_OP_ATTENTION, d.hparams = &h, DS4_ERR_ARG, "hparams");
    REFUSED(DS4_OP_ATTENTION, d.positions = gap, DS4_ERR_ARG, "row 2");
    REFUSED(DS4_OP_ATTENTION, d.kv_type = DS4_TYPE_Q4_0, DS4_ERR_UNSUPPORTED, "kv_type");
    REFUSED(DS4_OP_SAMPLE, (d.n_rows = 1, d.n_out = 1, d.sampler = &bad), DS4_ERR_ARG, "top_p");
    REFUSED(DS4_OP_SAMPLE, (d.n_out = 1, d.sampler = &good), DS4_ERR_ARG, "n_rows");
    REFUSED(DS4_OP_SAMPLE, (d.n_rows = 1, d.n_out = 2 + DS4_MAX_TOP, d.sampler = &good), DS4_ERR_ARG, "n_out");
}

static void blocks_that_the_engine_does_not_write_are_refused(void)
{
    uint8_t blocks[2 * 34];
    CHECK(!ds4_quantize(DS4_TYPE_Q8_0, a, 64, blocks, &err), "%s", err.message);
    CHECK(!ds4_dequantize(DS4_TYPE_Q8_0, blocks, 64, y, &err) && fabsf(y[5] - a[5]) < 0.05f, "there and back");
    CHECK(ds4_quantize(DS4_TYPE_Q8_0, a, 63, blocks, &err) == DS4_ERR_ARG && strstr(err.message, "63"), "%s", err.message);
    CHECK(ds4_quantize(DS4_TYPE_Q4_0, a, 64, blocks, &err) == DS4_ERR_UNSUPPORTED, "%s", err.message);
    CHECK(ds4_quantize(DS4_TYPE_F16, NULL, 1, blocks, &err) == DS4_ERR_ARG, "%s", err.message);
    CHECK(!ds4_quantize(DS4_TYPE_F16, NULL, 0, NULL, &err), "nothing at all");
}

int main(void)
{
    fill();
    RUN(every_operation_gives_the_same_in_any_steps_and_threads);
    RUN(the_plain_ones_are_what_they_say);
    RUN(a_step_draws_and_tells_the_likeliest);
    RUN(what_does_not_fit_is_refused_by_name);
    RUN(blocks_that_the_engine_does_not_write_are_refused);
    CHECK_DONE();
}
