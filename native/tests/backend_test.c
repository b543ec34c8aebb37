/* backend_test.c - the CPU backend's operations against double, fused operations against their composition, and the runs:
 * order, chaining, cancellation, refusals. Then the guard and the null backend. */
#include "native/ops/compose.h"
#include "native/quant/quant.h"
#include "native/sampling/sampling.h"
#include "native/tests/ops_step.h"

#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define D 96   /* width of the stream */
#define F 160  /* of the gated pair */
#define HEADS 6
#define KV_HEADS 3
#define DIM 32

static const char *const kernel_names[] = {"portable", "avx2", "avx512", "neon"};

static bool open_kernels(ops_step *s, const char *kernels)
{
    const ds4_backend_desc desc = {2, DS4_NUMERIC_FLOAT, kernels};
    ds4_backend *be = ds4_cpu_backend_create(&desc, NULL);
    if (!be)
        return false;
    ops_open(s, be);
    return true;
}

/* ---- plain operations ---- */

static void element_wise_operations_match_double_in_every_kernel_set(void)
{
    for (int k = 0; k < 4; k++)
        for (int32_t cols = 1; cols < 70; cols += cols < 20 ? 1 : 7) {
            ops_step s;
            if (!open_kernels(&s, kernel_names[k]))
                break;
            float x[5 * 70], y[5 * 70], w[70], out[3][5 * 70];
            ops_fill(x, 5 * cols, 9.0f);
            ops_fill(y, 5 * cols, 2.0f);
            ops_fill(w, cols, 1.5f);
            x[0] = cols % 2 ? -200.0f : 200.0f; /* far ends of the sigmoid */
            ds4_mat mx = ops_mat(&s, cols, DS4_ROWS_ALL), my = ops_mat(&s, cols, DS4_ROWS_ALL),
                    normed = ops_mat(&s, cols, DS4_ROWS_ALL), gated = ops_mat(&s, cols, DS4_ROWS_ALL);
            ds4_weight *weight = s.ops->weight_create(s.be, DS4_TYPE_F32, 1, cols, w);
            ds4_program *p = ops_begin(&s);
            s.ops->rmsnorm(p, normed, mx, weight, 1e-5f);
            s.ops->swiglu(p, gated, mx, my);
            s.ops->add(p, my, mx);
            ops_end(&s, p);
            ops_put(&s, mx, x, 5);
            ops_put(&s, my, y, 5);
            ops_rows_from(&s, 5, 0, 0);
            ops_run(&s, p);
            ops_get(&s, normed, out[0], 5);
            ops_get(&s, gated, out[1], 5);
            ops_get(&s, my, out[2], 5);
            for (int32_t r = 0; r < 5; r++) {
                double squares = 0.0;
                for (int32_t i = 0; i < cols; i++)
                    squares += (double)x[r * cols + i] * (double)x[r * cols + i];
                for (int32_t i = 0; i < cols; i++) {
                    int32_t at = r * cols + i;
                    double n = (double)x[at] / sqrt(squares / cols + 1e-5) * (double)w[i];
                    double g = (double)x[at] / (1.0 + exp(-(double)x[at])) * (double)y[at];
                    CHECK(fabs((double)out[0][at] - n) <= 5e-7 * (fabs(n) + 1e-3), "rmsnorm %s cols %d", kernel_names[k], (int)cols);
                    CHECK(fabs((double)out[1][at] - g) <= 6e-7 * fabs(g) + 1e-35, "swiglu %s: %g, expected %g", kernel_names[k],
                          (double)out[1][at], g);
                    CHECK(out[2][at] == y[at] + x[at], "add %s", kernel_names[k]);
                }
            }
            s.ops->program_free(s.be, p);
            s.ops->weight_free(s.be, weight);
            ops_close(&s);
        }
}

static void rope_turns_both_layouts_by_the_fp32_angle(void)
{
    for (int k = 0; k < 4; k++)
        for (int kind = 0; kind < 2; kind++)
            for (int32_t dim = 2; dim <= 34; dim += 8) {
                ops_step s;
                if (!open_kernels(&s, kernel_names[k]))
                    break;
                float inv_freq[17], x[3 * 2 * 40], out[3 * 2 * 40];
                const int32_t banks[3] = {0, 0, 0}, positions[3] = {0, 17, 8000};
                for (int32_t i = 0; i < dim / 2; i++)
                    inv_freq[i] = (float)pow(10000.0, -2.0 * i / dim);
                const ds4_rope rope = {.kind = kind, .dim = dim, .inv_freq = inv_freq, .magnitude = 1.25f};
                ops_fill(x, 3 * 2 * 40, 1.0f);
                ds4_mat m = ops_mat(&s, 80, DS4_ROWS_ALL), stream = ops_mat(&s, 80, DS4_ROWS_ALL);
                float *table = calloc(80 * 4, sizeof(float));
                ds4_weight *embedding = s.ops->weight_create(s.be, DS4_TYPE_F32, 4, 80, table);
                ds4_program *p = ops_begin(&s);
                s.ops->embed(p, stream, embedding);
                s.ops->rope(p, m, 2, 40, &rope);
                ops_end(&s, p);
                ops_put(&s, m, x, 3);
                ops_rows(&s, 3, banks, positions);
                ops_run(&s, p);
                ops_get(&s, m, out, 3);
                for (int32_t h = 0; h < 6; h++)
                    for (int32_t i = 0; i < dim / 2; i++) {
                        int32_t a = h * 40 + (kind == DS4_ROPE_NORM ? 2 * i : i);
                        int32_t b = h * 40 + (kind == DS4_ROPE_NORM ? 2 * i + 1 : i + dim / 2);
                        double angle = (double)((float)positions[h / 2] * inv_freq[i]);
                        double c = 1.25 * cos(angle), n = 1.25 * sin(angle);
                        CHECK(fabs((double)out[a] - ((double)x[a] * c - (double)x[b] * n)) < 4e-7 &&
                                  fabs((double)out[b] - ((double)x[b] * c + (double)x[a] * n)) < 4e-7,
                              "%s kind %d dim %d pair %d", kernel_names[k], kind, (int)dim, (int)i);
                    }
                for (int32_t h = 0; h < 6; h++)
                    CHECK(!memcmp(out + h * 40 + dim, x + h * 40 + dim, (size_t)(40 - dim) * sizeof(float)), "the rest stays");
                s.ops->program_free(s.be, p);
                s.ops->weight_free(s.be, embedding);
                ops_close(&s);
                free(table);
            }
}

/* ---- a small forward in both ways of writing it ---- */

typedef struct model {
    float *embedding, *norm, *matrices;
    uint8_t *q8;
    ds4_weight *e, *n, *q, *k, *v, *o, *gate, *up, *down;
    float inv_freq[DIM / 2];
    ds4_mat x, normed, mq, mk, mv, att, mgate, mup, proj, out_x, out_normed, logits;
    ds4_cache *cache;
    ds4_program *program;
} model;

static float *randoms(int64_t n, float scale)
{
    float *x = malloc((size_t)n * sizeof(float));
    ops_fill(x, n, scale);
    return x;
}

/* The same numbers at each call. */
static void open_model(ops_step *s, model *m, bool fused, int32_t layers)
{
    const int64_t sizes[][2] = {{HEADS * DIM, D}, {KV_HEADS * DIM, D}, {KV_HEADS * DIM, D}, {D, HEADS * DIM},
                                {F, D},           {F, D},              {D, F}};
    ds4_weight **const slots[] = {&m->q, &m->k, &m->v, &m->o, &m->gate, &m->up, &m->down};
    ds4_ops table = *s->ops;
    if (!fused) {
        table.norm_matmul = NULL;
        table.matmul_add = NULL;
        table.rope_store = NULL;
        table.norm_swiglu = NULL;
    }
    ops_state = 99;
    m->embedding = randoms((int64_t)OPS_VOCAB * D, 1.0f);
    m->norm = randoms(D, 1.0f);
    m->e = s->ops->weight_create(s->be, DS4_TYPE_F32, OPS_VOCAB, D, m->embedding);
    m->n = s->ops->weight_create(s->be, DS4_TYPE_F32, 1, D, m->norm);
    int64_t total = 0, bytes = 0;
    for (int i = 0; i < 7; i++)
        total += sizes[i][0] * sizes[i][1];
    m->matrices = randoms(total, 0.2f);
    m->q8 = malloc((size_t)(total / 32 * 34));
    for (int i = 0; i < 7; i++) { /* half of them quantised, so that forms mix */
        int64_t n = sizes[i][0] * sizes[i][1], at = m->matrices ? bytes : 0;
        float *f = m->matrices;
        for (int j = 0; j < i; j++)
            f += sizes[j][0] * sizes[j][1];
        if (i % 2 == 0) {
            REQUIRE(!ds4_quantize_row(DS4_TYPE_Q8_0, f, n, m->q8 + at));
            *slots[i] = s->ops->weight_create(s->be, DS4_TYPE_Q8_0, sizes[i][0], sizes[i][1], m->q8 + at);
            bytes += n / 32 * 34;
        } else {
            *slots[i] = s->ops->weight_create(s->be, DS4_TYPE_F32, sizes[i][0], sizes[i][1], f);
        }
        REQUIRE(*slots[i]);
    }
    const ds4_cache_desc desc = {.type = DS4_TYPE_F16, .n_banks = 4, .n_ctx = OPS_CTX, .n_layer = layers,
                                 .n_head_kv = KV_HEADS, .head_dim = DIM};
    m->cache = s->ops->cache_create(s->be, &desc);
    for (int32_t i = 0; i < DIM / 2; i++)
        m->inv_freq[i] = (float)pow(10000.0, -2.0 * i / DIM);
    const ds4_rope rope = {.kind = DS4_ROPE_NORM, .dim = DIM, .inv_freq = m->inv_freq, .magnitude = 1.0f};
    m->x = ops_mat(s, D, DS4_ROWS_ALL);
    m->normed = ops_mat(s, D, DS4_ROWS_ALL);
    m->mq = ops_mat(s, HEADS * DIM, DS4_ROWS_ALL);
    m->mk = ops_mat(s, KV_HEADS * DIM, DS4_ROWS_ALL);
    m->mv = ops_mat(s, KV_HEADS * DIM, DS4_ROWS_ALL);
    m->att = ops_mat(s, HEADS * DIM, DS4_ROWS_ALL);
    m->mgate = ops_mat(s, F, DS4_ROWS_ALL);
    m->mup = ops_mat(s, F, DS4_ROWS_ALL);
    m->proj = ops_mat(s, D, DS4_ROWS_ALL);
    m->out_x = ops_mat(s, D, DS4_ROWS_OUT);
    m->out_normed = ops_mat(s, D, DS4_ROWS_OUT);
    m->logits = ops_mat(s, OPS_VOCAB, DS4_ROWS_OUT);
    ds4_program *p = m->program = ops_begin(s);
    s->ops->embed(p, m->x, m->e);
    for (int32_t l = 0; l < layers; l++) {
        const ds4_attention a = {l, HEADS, KV_HEADS, DIM, 0.17f, 0};
        ds4_norm_matmul(&table, p, m->x, m->n, 1e-5f, 3, (const ds4_mat[]){m->mq, m->mk, m->mv},
                        (const ds4_weight *const[]){m->q, m->k, m->v}, m->normed);
        ds4_rope_store(&table, p, m->mq, m->mk, m->mv, m->cache, &a, &rope);
        s->ops->attention(p, m->att, m->mq, m->cache, &a);
        ds4_matmul_add(&table, p, m->x, m->att, m->o, m->proj);
        ds4_norm_swiglu(&table, p, m->mgate, m->x, m->n, 1e-5f, m->gate, m->up, m->normed, m->mup);
        ds4_matmul_add(&table, p, m->x, m->mgate, m->down, m->proj);
        s->ops->layer_end(p);
    }
    s->ops->gather(p, m->out_x, m->x);
    ds4_norm_matmul(&table, p, m->out_x, m->n, 1e-5f, 1, &m->logits, (const ds4_weight *const[]){m->e}, m->out_normed);
    s->ops->sample(p, m->logits);
    ops_end(s, p);
}

static void close_model(ops_step *s, model *m)
{
    ds4_weight *const all[] = {m->e, m->n, m->q, m->k, m->v, m->o, m->gate, m->up, m->down};
    s->ops->program_free(s->be, m->program);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        s->ops->weight_free(s->be, all[i]);
    ops_close(s);
    free(m->embedding);
    free(m->norm);
    free(m->matrices);
    free(m->q8);
}

static int32_t histories[4][OPS_CTX];

/* n rows of bank 0 from `position`; every third and the last draw greedily. Tokens below 0 are taken from row 0 before. */
static void step_inputs(ops_step *s, int32_t n, int32_t position, int32_t token)
{
    int32_t tokens[OPS_ROWS] = {0}, from[OPS_ROWS] = {0}, out_rows[OPS_OUT] = {0}, counts[4] = {n, 0, 0, 0};
    ds4_row_sampler samplers[OPS_OUT] = {0};
    int32_t *rows[OPS_ROWS] = {0};
    ops_rows_from(s, n, 0, position);
    for (int32_t r = 0; r < n; r++) {
        tokens[r] = token < 0 ? -1 : (token + 31 * r) % OPS_VOCAB;
        rows[r] = histories[0];
        if ((r % 3 == 0 || r == n - 1) && counts[1] < OPS_OUT) {
            out_rows[counts[1]] = r;
            samplers[counts[1]] = (ds4_row_sampler){.params = {.top_p = 1.0f, .repetition_penalty = 1.0f},
                                                    .history = histories[0], .n_history = position + r + 1, .n_top = 3};
            counts[1]++;
        }
    }
    s->ops->buffer_write(s->be, s->in.counts, 0, counts, sizeof counts);
    s->ops->buffer_write(s->be, s->in.tokens, 0, tokens, (size_t)n * sizeof(int32_t));
    s->ops->buffer_write(s->be, s->in.from, 0, from, (size_t)n * sizeof(int32_t));
    s->ops->buffer_write(s->be, s->in.histories, 0, rows, (size_t)n * sizeof(int32_t *));
    s->ops->buffer_write(s->be, s->in.out_rows, 0, out_rows, (size_t)counts[1] * sizeof(int32_t));
    s->ops->buffer_write(s->be, s->in.samplers, 0, samplers, (size_t)counts[1] * sizeof(ds4_row_sampler));
}

/* Steps of several sizes, whose streams, drawn tokens and log-probabilities go into `out`. */
typedef struct trace {
    float stream[80 * D];
    int32_t tokens[8][OPS_OUT];
    float logprobs[8][OPS_OUT], top[8][OPS_OUT * 3];
} trace;

static void run_model(ops_step *s, model *m, trace *t)
{
    const int32_t sizes[] = {1, 3, 4, 5, 33, 1, 2, 17};
    int32_t position = 0;
    memset(t, 0, sizeof *t);
    for (int i = 0; i < 8; i++) {
        step_inputs(s, sizes[i], position, 7 * i);
        ops_run(s, m->program);
        ops_get(s, m->x, t->stream + position * D, sizes[i]);
        for (int32_t r = 0, o; r < sizes[i]; r++)
            if ((o = s->row_out[0][r]) >= 0) {
                t->tokens[i][o] = s->tokens[0][o];
                t->logprobs[i][o] = s->logprobs[0][o];
                memcpy(t->top[i] + o * 3, s->top_logprobs[0] + o * DS4_MAX_TOP, 3 * sizeof(float));
            }
        position += sizes[i];
    }
}

static void fused_operations_equal_their_composition_to_the_bit(void)
{
    static trace composed, fused;
    for (int32_t numeric = 0; numeric < 2; numeric++)
        for (int32_t threads = 1; threads <= 3; threads++) {
            ops_step s;
            model m;
            ops_open_cpu(&s, threads, numeric, NULL);
            open_model(&s, &m, false, 2);
            run_model(&s, &m, &composed);
            close_model(&s, &m);
            ops_open_cpu(&s, threads, numeric, NULL);
            open_model(&s, &m, true, 2);
            run_model(&s, &m, &fused);
            close_model(&s, &m);
            CHECK(!memcmp(&composed, &fused, sizeof fused), "numeric %d, %d threads", (int)numeric, (int)threads);
            CHECK(fused.stream[0] != 0.0f && fused.tokens[4][1] >= 0 && fused.logprobs[0][0] < 0.0f);
        }
}

static void the_guard_backend_computes_the_same_bits(void)
{
    static trace plain, guarded;
    for (int32_t numeric = 0; numeric < 2; numeric++) {
        ops_step s;
        model m;
        ops_open_cpu(&s, 2, numeric, NULL);
        open_model(&s, &m, true, 2);
        run_model(&s, &m, &plain);
        close_model(&s, &m);
        const ds4_backend_desc desc = {2, numeric, NULL};
        ops_open(&s, ds4_guard_backend_create(&desc, &ops_err));
        CHECK(!s.ops->norm_matmul && !s.ops->matmul_add && !s.ops->rope_store && !s.ops->norm_swiglu);
        open_model(&s, &m, true, 2);
        run_model(&s, &m, &guarded);
        close_model(&s, &m);
        CHECK(!memcmp(&plain, &guarded, sizeof plain), "numeric %d", (int)numeric);
    }
}

static void threads_and_crowding_change_no_bit_in_float_mode(void)
{
    static trace one, many;
    for (int32_t threads = 1; threads <= 13; threads += 6) { /* 13: far more than processors */
        ops_step s;
        model m;
        ops_open_cpu(&s, threads, DS4_NUMERIC_FLOAT, NULL);
        open_model(&s, &m, true, 3);
        run_model(&s, &m, threads == 1 ? &one : &many);
        close_model(&s, &m);
        CHECK(threads == 1 || !memcmp(&one, &many, sizeof one), "%d threads", (int)threads);
    }
}

/* ---- runs ---- */

static void a_chained_token_is_resolved_in_the_history_and_the_stream(void)
{
    ops_step s;
    model m;
    float stream[2][D];
    ops_open_cpu(&s, 2, DS4_NUMERIC_FLOAT, NULL);
    open_model(&s, &m, true, 2);
    memset(histories, 0xff, sizeof histories);
    step_inputs(&s, 1, 0, 5);
    REQUIRE(!s.ops->run(s.be, m.program, &s.out[0], NULL, &ops_err), "%s", ops_err.message);
    step_inputs(&s, 1, 1, -1); /* the inputs may be refilled at once */
    REQUIRE(!s.ops->run(s.be, m.program, &s.out[1], &s.out[0], &ops_err), "%s", ops_err.message);
    step_inputs(&s, 1, 2, 5);
    CHECK(s.ops->run(s.be, m.program, &s.out[0], NULL, &ops_err) == DS4_ERR_BUSY, "a third run in flight");
    CHECK(!s.ops->wait(s.be, NULL, NULL) && !s.ops->wait(s.be, NULL, NULL));
    CHECK(s.ops->wait(s.be, NULL, NULL) == DS4_ERR_ARG, "nothing is left to wait for");
    ops_get(&s, m.x, stream[0], 1);
    CHECK(histories[0][0] == 5 && histories[0][1] == s.tokens[0][0]);
    int32_t drawn = s.tokens[0][0], second = s.tokens[1][0];
    step_inputs(&s, 1, 0, 5);
    ops_run(&s, m.program);
    step_inputs(&s, 1, 1, drawn);
    ops_run(&s, m.program);
    ops_get(&s, m.x, stream[1], 1);
    CHECK(!memcmp(stream[0], stream[1], sizeof stream[0]) && s.tokens[0][0] == second);
    close_model(&s, &m);
}

static void a_cancelled_run_and_one_that_needs_its_token_end_cancelled(void)
{
    for (int32_t threads = 1; threads <= 2; threads++) {
        ops_step s;
        model m;
        int cancelled = 0;
        ops_open_cpu(&s, threads, DS4_NUMERIC_FLOAT, NULL);
        open_model(&s, &m, true, 60);
        for (int i = 0; i < 20; i++) {
            step_inputs(&s, 80, 0, 5);
            REQUIRE(!s.ops->run(s.be, m.program, &s.out[0], NULL, &ops_err), "%s", ops_err.message);
            s.ops->run_cancel(s.be);
            step_inputs(&s, 1, 80, -1); /* submitted after the cancellation, but its token never came */
            REQUIRE(!s.ops->run(s.be, m.program, &s.out[1], &s.out[0], &ops_err), "%s", ops_err.message);
            int32_t first = s.ops->wait(s.be, NULL, &ops_err), second = s.ops->wait(s.be, NULL, NULL);
            CHECK(first == second && (first == DS4_OK || first == DS4_ERR_CANCELLED), "%d and %d", (int)first, (int)second);
            cancelled += first == DS4_ERR_CANCELLED;
        }
        CHECK(cancelled > 0, "no run was caught");
        step_inputs(&s, 3, 0, 5);
        ops_run(&s, m.program); /* later runs are not cancelled */
        close_model(&s, &m);
    }
}

static void rows_that_cannot_be_are_refused_by_number(void)
{
    ops_step s;
    model m;
    ops_open_cpu(&s, 1, DS4_NUMERIC_FLOAT, NULL);
    open_model(&s, &m, true, 1);
#define REFUSED(status, text)                                                                                  \
    do {                                                                                                       \
        int32_t found = s.ops->run(s.be, m.program, &s.out[0], NULL, &ops_err);                                \
        CHECK(found == status && strstr(ops_err.message, text), "%d %s", (int)found, ops_err.message);         \
    } while (0)
    const int32_t none[4] = {0, 0, 0, 0}, many[4] = {OPS_ROWS + 1, 0, 0, 0}, bank[1] = {4}, deep[1] = {OPS_CTX}, zero[1] = {0};
    step_inputs(&s, 1, 0, 5);
    s.ops->buffer_write(s.be, s.in.counts, 0, none, sizeof none);
    REFUSED(DS4_ERR_ARG, "0 rows");
    s.ops->buffer_write(s.be, s.in.counts, 0, many, sizeof many);
    REFUSED(DS4_ERR_ARG, "97 rows");
    step_inputs(&s, 1, 0, -1);
    REFUSED(DS4_ERR_ARG, "row 0: its token");
    step_inputs(&s, 1, 0, 5);
    s.ops->buffer_write(s.be, s.in.tokens, 0, &(int32_t){OPS_VOCAB}, sizeof(int32_t));
    REFUSED(DS4_ERR_ARG, "row 0: token 512");
    step_inputs(&s, 1, 0, 5);
    ops_rows(&s, 1, bank, zero);
    REFUSED(DS4_ERR_ARG, "row 0: bank 4");
    ops_rows(&s, 1, zero, deep);
    REFUSED(DS4_ERR_CONTEXT, "row 0: position 1024");
    step_inputs(&s, 4, 0, 5);
    s.ops->buffer_write(s.be, s.in.out_rows, 0, &(int32_t){9}, sizeof(int32_t));
    REFUSED(DS4_ERR_ARG, "output 0: row 9");
    step_inputs(&s, 4, 0, 5);
    ops_run(&s, m.program); /* and nothing is broken */
    close_model(&s, &m);
}

static void a_recording_of_the_wrong_shape_fails_when_it_ends(void)
{
    ops_step s;
    ops_open_cpu(&s, 1, DS4_NUMERIC_FLOAT, NULL);
    static float w[8 * 4];
    ds4_weight *weight = s.ops->weight_create(s.be, DS4_TYPE_F32, 8, 4, w);
    ds4_mat four = ops_mat(&s, 4, DS4_ROWS_ALL), eight = ops_mat(&s, 8, DS4_ROWS_ALL), out = ops_mat(&s, 8, DS4_ROWS_OUT);
    ds4_program *p = ops_begin(&s);
    s.ops->matmul(p, four, eight, weight);
    CHECK(s.ops->program_end(s.be, p, &ops_err) == DS4_ERR_ARG && strstr(ops_err.message, "matmul"), "%s", ops_err.message);
    CHECK(s.ops->run(s.be, p, &s.out[0], NULL, &ops_err) == DS4_ERR_ARG, "a program that failed does not run");
    s.ops->program_free(s.be, p);
    p = ops_begin(&s);
    s.ops->matmul(p, out, four, weight);
    CHECK(s.ops->program_end(s.be, p, &ops_err) == DS4_ERR_ARG && strstr(ops_err.message, "same rows"), "%s", ops_err.message);
    s.ops->program_free(s.be, p);
    p = ops_begin(&s);
    eight.offset += 4096; /* past the buffer */
    s.ops->matmul(p, eight, four, weight);
    CHECK(s.ops->program_end(s.be, p, &ops_err) == DS4_ERR_ARG && strstr(ops_err.message, "needs"), "%s", ops_err.message);
    s.ops->program_free(s.be, p);
    p = ops_begin(&s);
    s.ops->rmsnorm(p, four, four, weight, 1e-5f);
    CHECK(s.ops->program_end(s.be, p, &ops_err) == DS4_ERR_ARG && strstr(ops_err.message, "vector"), "%s", ops_err.message);
    s.ops->program_free(s.be, p);
    s.ops->weight_free(s.be, weight);
    ops_close(&s);
    const ds4_backend_desc none = {0, 0, NULL}, strange = {1, 0, "mmx"};
    CHECK(!ds4_cpu_backend_create(&none, &ops_err) && strstr(ops_err.message, "threads"));
    CHECK(!ds4_cpu_backend_create(&strange, &ops_err) && ops_err.status == DS4_ERR_UNSUPPORTED);
}

static void norm_vectors_of_half_precision_are_taken_too(void)
{
    ops_step s;
    ops_open_cpu(&s, 1, DS4_NUMERIC_FLOAT, NULL);
    const int32_t types[] = {DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_BF16};
    const float w[4] = {1.0f, 0.5f, -2.0f, 0.25f}, x[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    float out[3][4];
    for (int t = 0; t < 3; t++) {
        uint8_t stored[16];
        memcpy(stored, w, sizeof w);
        if (types[t] != DS4_TYPE_F32)
            REQUIRE(!ds4_quantize_row(types[t], w, 4, stored));
        ds4_weight *weight = s.ops->weight_create(s.be, types[t], 1, 4, stored);
        ds4_mat m = ops_mat(&s, 4, DS4_ROWS_ALL);
        ds4_program *p = ops_begin(&s);
        s.ops->rmsnorm(p, m, m, weight, 1e-5f);
        ops_end(&s, p);
        ops_put(&s, m, x, 1);
        ops_rows_from(&s, 1, 0, 0);
        ops_run(&s, p);
        ops_get(&s, m, out[t], 1);
        s.ops->weight_free(s.be, weight);
        s.ops->program_free(s.be, p);
    }
    CHECK(!memcmp(out[0], out[1], sizeof out[0]) && !memcmp(out[0], out[2], sizeof out[0]) && out[0][0] > 0.3f);
    ops_close(&s);
}

/* ---- guard ---- */

static void memory_of_the_guard_backend_is_unreadable_between_operations(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they want the fault for themselves */
    ops_step s;
    const ds4_backend_desc desc = {1, DS4_NUMERIC_FLOAT, NULL};
    ops_open(&s, ds4_guard_backend_create(&desc, &ops_err));
    ds4_mat m = ops_mat(&s, 4, DS4_ROWS_ALL);
    for (int after_run = 0; after_run < 2; after_run++) {
        uint8_t *base;
        memcpy(&base, m.buffer, sizeof base); /* the buffer's first member: a forward that cheats would find it too */
        fflush(NULL);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            volatile uint8_t byte = *(volatile uint8_t *)base;
            (void)byte;
            _exit(0);
        }
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status), "a buffer was read between operations");
        ds4_program *p = ops_begin(&s);
        s.ops->add(p, m, m);
        ops_end(&s, p);
        ops_rows_from(&s, 2, 0, 0);
        ops_run(&s, p);
        s.ops->program_free(s.be, p);
    }
    ops_close(&s);
#endif
}

/* ---- null ---- */

static void the_null_backend_draws_its_cycle_and_resolves_histories(void)
{
    ops_step s;
    model m;
    const ds4_backend_desc desc = {1, DS4_NUMERIC_SHIP, NULL};
    ops_open(&s, ds4_null_backend_create(&desc, &ops_err));
    open_model(&s, &m, true, 2);
    memset(histories, 0xff, sizeof histories);
    step_inputs(&s, 4, 40, 5);
    REQUIRE(!s.ops->run(s.be, m.program, &s.out[0], NULL, &ops_err), "%s", ops_err.message);
    step_inputs(&s, 1, 44, -1);
    REQUIRE(!s.ops->run(s.be, m.program, &s.out[1], &s.out[0], &ops_err), "%s", ops_err.message);
    CHECK(s.ops->run(s.be, m.program, &s.out[1], &s.out[0], &ops_err) == DS4_ERR_BUSY);
    int64_t elapsed = -1;
    CHECK(!s.ops->wait(s.be, &elapsed, NULL) && !s.ops->wait(s.be, NULL, NULL) && elapsed == 0);
    CHECK(s.tokens[0][0] == 140 && s.tokens[0][1] == 143 && s.tokens[1][0] == 144 && s.logprobs[0][0] == 0.0f);
    CHECK(s.row_out[0][0] == 0 && s.row_out[0][1] == -1 && s.row_out[0][3] == 1);
    CHECK(histories[0][40] == 5 && histories[0][44] == 140);
    step_inputs(&s, 1, 950, 1); /* 100 + 950 is not in a vocabulary of 512 */
    ops_run(&s, m.program);
    CHECK(s.tokens[0][0] == 950 % OPS_VOCAB);
    s.ops->cache_free(s.be, m.cache);
    const ds4_mat all[] = {m.x, m.normed, m.mq, m.mk, m.mv, m.att, m.mgate, m.mup, m.proj, m.out_x, m.out_normed, m.logits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        s.ops->buffer_free(s.be, all[i].buffer);
    ds4_buffer *const inputs[] = {s.in.counts, s.in.tokens, s.in.from, s.in.banks, s.in.positions, s.in.out_rows,
                                  s.in.samplers, s.in.histories};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        s.ops->buffer_free(s.be, inputs[i]);
    close_model(&s, &m);
}

int main(void)
{
    RUN(element_wise_operations_match_double_in_every_kernel_set);
    RUN(rope_turns_both_layouts_by_the_fp32_angle);
    RUN(fused_operations_equal_their_composition_to_the_bit);
    RUN(the_guard_backend_computes_the_same_bits);
    RUN(threads_and_crowding_change_no_bit_in_float_mode);
    RUN(a_chained_token_is_resolved_in_the_history_and_the_stream);
    RUN(a_cancelled_run_and_one_that_needs_its_token_end_cancelled);
    RUN(rows_that_cannot_be_are_refused_by_number);
    RUN(a_recording_of_the_wrong_shape_fails_when_it_ends);
    RUN(norm_vectors_of_half_precision_are_taken_too);
    RUN(memory_of_the_guard_backend_is_unreadable_between_operations);
    RUN(the_null_backend_draws_its_cycle_and_resolves_histories);
    CHECK_DONE();
}
