/* pool_test.c - the thread pool: jobs, barriers, the work counter, quiet and the end. */
#include "native/backends/cpu/pool.h"
#include "native/tests/check.h"

#include <string.h>
#include <time.h>

#define MOST 16

/* ---- jobs ---- */

typedef struct tally {
    ds4_pool *pool;
    int32_t runs[MOST]; /* each thread its own */
    int32_t order;      /* written by the last to arrive only */
    int32_t expected_order;
    int32_t wrong;
} tally;

static void count_run(void *arg, int32_t ith)
{
    tally *t = arg;
    t->runs[ith]++;
}

static void every_thread_runs_every_job_once(void)
{
    for (int32_t n = 1; n <= 5; n++) {
        ds4_pool *pool = ds4_pool_create(n);
        REQUIRE(pool);
        tally t = {.pool = pool};
        for (int i = 0; i < 50; i++) {
            ds4_pool_submit(pool, count_run, &t);
            ds4_pool_submit(pool, count_run, &t);
            ds4_pool_wait(pool);
            ds4_pool_wait(pool);
        }
        for (int32_t i = 0; i < n; i++)
            CHECK(t.runs[i] == 100, "%d of %d threads ran %d jobs", (int)i, (int)n, (int)t.runs[i]);
        ds4_pool_free(pool);
    }
}

typedef struct numbered {
    tally *t;
    int32_t number;
} numbered;

static void note_order(void *arg, int32_t ith)
{
    numbered *job = arg;
    (void)ith;
    if (ds4_pool_arrive(job->t->pool)) {
        if (job->t->order++ != job->number)
            job->t->wrong++;
        ds4_pool_release(job->t->pool);
    }
}

static void jobs_run_in_the_order_of_submission_with_two_in_flight(void)
{
    ds4_pool *pool = ds4_pool_create(3);
    tally t = {.pool = pool};
    numbered jobs[200];
    for (int32_t i = 0; i < 200; i++)
        jobs[i] = (numbered){&t, i};
    ds4_pool_submit(pool, note_order, &jobs[0]);
    for (int32_t i = 1; i < 200; i++) {
        ds4_pool_submit(pool, note_order, &jobs[i]);
        ds4_pool_wait(pool);
    }
    ds4_pool_wait(pool);
    CHECK(t.order == 200 && t.wrong == 0, "%d jobs, %d out of order", (int)t.order, (int)t.wrong);
    ds4_pool_free(pool);
}

static void freeing_lets_queued_jobs_end(void)
{
    ds4_pool *pool = ds4_pool_create(2);
    tally t = {.pool = pool};
    ds4_pool_submit(pool, count_run, &t);
    ds4_pool_submit(pool, count_run, &t);
    ds4_pool_free(pool);
    CHECK(t.runs[0] == 2 && t.runs[1] == 2, "%d and %d runs", (int)t.runs[0], (int)t.runs[1]);
}

static void waiting_for_nothing_returns(void)
{
    ds4_pool *pool = ds4_pool_create(2);
    ds4_pool_wait(pool);
    ds4_pool_drain(pool);
    ds4_pool_free(pool);
    ds4_pool_free(NULL);
    CHECK(!ds4_pool_create(0));
}

/* ---- inside a job ---- */

#define CELLS 64
#define ROUNDS 300

typedef struct field {
    ds4_pool *pool;
    int32_t n_threads, rounds;
    int32_t cells[CELLS]; /* plain memory: only barriers keep the threads apart */
    int32_t wrong, lone;
} field;

/* In each round every cell is written once, by whoever takes it, from its neighbour's value of the round before. */
static void ripple(void *arg, int32_t ith)
{
    field *f = arg;
    int32_t local[CELLS];
    (void)ith;
    for (int32_t round = 0; round < f->rounds; round++) {
        memcpy(local, f->cells, sizeof local);
        ds4_pool_barrier(f->pool);
        for (int32_t i = ds4_pool_next(f->pool); i < CELLS; i = ds4_pool_next(f->pool))
            f->cells[i] = local[(i + 1) % CELLS] + 1;
        if (ds4_pool_arrive(f->pool)) {
            f->lone++;
            for (int32_t i = 0; i < CELLS; i++)
                if (f->cells[i] != round + 1)
                    f->wrong++;
            ds4_pool_release(f->pool);
        }
    }
}

static void ripple_on(int32_t n_threads, int32_t rounds)
{
    ds4_pool *pool = ds4_pool_create(n_threads);
    field f = {.pool = pool, .n_threads = n_threads, .rounds = rounds};
    ds4_pool_submit(pool, ripple, &f);
    ds4_pool_wait(pool);
    CHECK(f.wrong == 0 && f.lone == rounds, "%d threads: %d wrong cells, %d lone sections of %d", (int)n_threads,
          (int)f.wrong, (int)f.lone, (int)rounds);
    ds4_pool_free(pool);
}

static void barriers_keep_rounds_apart_and_the_counter_gives_each_piece_once(void)
{
    for (int32_t n = 1; n <= 4; n++)
        ripple_on(n, ROUNDS);
}

static void many_more_threads_than_processors_still_end(void) { ripple_on(MOST, ROUNDS / 3); }

/* ---- quiet ---- */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void an_idle_pool_takes_no_processor_time(void)
{
    ds4_pool *pool = ds4_pool_create(4);
    tally t = {.pool = pool};
    ds4_pool_submit(pool, count_run, &t);
    ds4_pool_wait(pool);
    const struct timespec settle = {.tv_nsec = 100000000}, idle = {.tv_nsec = 200000000};
    nanosleep(&settle, NULL);
    double before = cpu_seconds();
    nanosleep(&idle, NULL);
    double used = cpu_seconds() - before; /* processor time, not the clock's: other processes do not count */
    CHECK(used < 0.01, "%g s of processor time in 0.2 s of doing nothing", used);
    ds4_pool_free(pool);
}

int main(void)
{
    RUN(every_thread_runs_every_job_once);
    RUN(jobs_run_in_the_order_of_submission_with_two_in_flight);
    RUN(freeing_lets_queued_jobs_end);
    RUN(waiting_for_nothing_returns);
    RUN(barriers_keep_rounds_apart_and_the_counter_gives_each_piece_once);
    RUN(many_more_threads_than_processors_still_end);
    RUN(an_idle_pool_takes_no_processor_time);
    CHECK_DONE();
}
