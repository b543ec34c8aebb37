/* pool_test.c - the thread pool: jobs, stages, items, quiet and the end. */
#include "native/backends/cpu/pool.h"
#include "native/tests/check.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define MOST 16

/* ---- jobs ---- */

#define CELLS 64

/* Plain memory, but for what is counted: only the ends of stages keep threads apart. */
typedef struct ripple {
    int32_t stages;           /* to do */
    int32_t stage;            /* -1 before the first */
    int32_t cells[2][CELLS];  /* of even and odd stages */
    int32_t wrong;
    int32_t number, *order;   /* of this job; jobs that ended before it */
    atomic_int items[MOST];   /* that each thread did */
} ripple;

/* In each stage every cell is written once, from its neighbour's value of the stage before. */
static int32_t ripple_next(void *arg, int32_t ith)
{
    ripple *r = arg;
    (void)ith;
    if (r->stage >= 0)
        for (int32_t i = 0; i < CELLS; i++)
            r->wrong += r->cells[r->stage % 2][i] != r->stage + 1;
    if (++r->stage < r->stages)
        return CELLS;
    if (r->order)
        r->wrong += (*r->order)++ != r->number;
    return 0;
}

static void ripple_item(void *arg, int32_t ith, int32_t item)
{
    ripple *r = arg;
    const int32_t *before = r->cells[(r->stage + 1) % 2];
    int32_t *cell = &r->cells[r->stage % 2][item];
    /* A second visit in the same stage would be one too many. */
    *cell = *cell == r->stage + 1 ? -1 : before[(item + 1) % CELLS] + 1;
    atomic_fetch_add_explicit(&r->items[ith], 1, memory_order_relaxed);
}

static ripple fresh(int32_t stages)
{
    ripple r = {.stages = stages, .stage = -1};
    for (int32_t i = 0; i < CELLS; i++)
        r.cells[0][i] = -1; /* stage 0 reads the odd cells, which hold 0 */
    return r;
}

static ds4_pool_job job_of(ripple *r) { return (ds4_pool_job){ripple_next, ripple_item, r}; }

static void ripple_on(int32_t n_threads, int32_t stages)
{
    ds4_pool *pool = ds4_pool_create(n_threads);
    REQUIRE(pool);
    ripple r = fresh(stages);
    ds4_pool_submit(pool, &(ds4_pool_job){ripple_next, ripple_item, &r});
    ds4_pool_wait(pool);
    int32_t items = 0;
    for (int32_t i = 0; i < MOST; i++)
        items += r.items[i];
    CHECK(r.wrong == 0 && r.stage == stages && items == stages * CELLS, "%d threads: %d wrong cells, %d of %d stages, %d items",
          (int)n_threads, (int)r.wrong, (int)r.stage, (int)stages, (int)items);
    ds4_pool_free(pool);
}

static void stages_are_kept_apart_and_each_item_is_done_once(void)
{
    for (int32_t n = 1; n <= 4; n++)
        ripple_on(n, 2000);
}

static void many_more_threads_than_processors_still_end(void) { ripple_on(MOST, 1000); }

static void a_job_without_a_stage_ends_and_so_does_the_pool_without_a_job(void)
{
    ripple_on(2, 0);
    ds4_pool *pool = ds4_pool_create(2);
    ds4_pool_wait(pool);
    ds4_pool_drain(pool);
    ds4_pool_free(pool);
    ds4_pool_free(NULL);
    CHECK(!ds4_pool_create(0));
}

static void jobs_run_in_the_order_of_submission_with_two_in_flight(void)
{
    for (int32_t threads = 1; threads <= 3; threads++) {
        enum { JOBS = 400 };
        static ripple r[JOBS];
        int32_t order = 0, wrong = 0;
        ds4_pool *pool = ds4_pool_create(threads);
        for (int32_t i = 0; i < JOBS; i++) {
            r[i] = fresh(i % 5);
            r[i].number = i;
            r[i].order = &order;
            const ds4_pool_job job = job_of(&r[i]);
            ds4_pool_submit(pool, &job);
            if (i > 0)
                ds4_pool_wait(pool);
            if (i > 0)
                wrong += r[i - 1].wrong || r[i - 1].stage != (i - 1) % 5; /* is over and visible */
        }
        ds4_pool_wait(pool);
        CHECK(order == JOBS && wrong == 0, "%d jobs, %d wrong", (int)order, (int)wrong);
        ds4_pool_free(pool);
    }
}

static void freeing_lets_queued_jobs_end(void)
{
    ds4_pool *pool = ds4_pool_create(2);
    ripple a = fresh(300), b = fresh(200);
    const ds4_pool_job jobs[] = {job_of(&a), job_of(&b)};
    ds4_pool_submit(pool, &jobs[0]);
    ds4_pool_submit(pool, &jobs[1]);
    ds4_pool_free(pool);
    CHECK(a.stage == 300 && b.stage == 200 && !a.wrong && !b.wrong);
}

/* ---- a thread that is held up ---- */

typedef struct held {
    int32_t stage;
    atomic_int others; /* items of stage 0 that are done, but for the first */
} held;

static int32_t held_next(void *arg, int32_t ith)
{
    held *h = arg;
    (void)ith;
    return ++h->stage < 50 ? 8 : 0;
}

/* The first thread to take an item of stage 0 waits until all the other items of the stage are done: by other threads. */
static void held_item(void *arg, int32_t ith, int32_t item)
{
    held *h = arg;
    (void)ith;
    if (h->stage > 0)
        return;
    if (item > 0) {
        atomic_fetch_add(&h->others, 1);
        return;
    }
    while (atomic_load(&h->others) < 7)
        sched_yield();
}

static void the_others_do_the_share_of_a_thread_that_is_held_up(void)
{
    ds4_pool *pool = ds4_pool_create(3);
    held h = {.stage = -1};
    const ds4_pool_job job = {held_next, held_item, &h};
    ds4_pool_submit(pool, &job);
    ds4_pool_wait(pool); /* or it would hang */
    CHECK(h.stage == 50);
    ds4_pool_free(pool);
}

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
    ripple r = fresh(100);
    const ds4_pool_job job = job_of(&r);
    ds4_pool_submit(pool, &job);
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
    RUN(stages_are_kept_apart_and_each_item_is_done_once);
    RUN(many_more_threads_than_processors_still_end);
    RUN(a_job_without_a_stage_ends_and_so_does_the_pool_without_a_job);
    RUN(jobs_run_in_the_order_of_submission_with_two_in_flight);
    RUN(freeing_lets_queued_jobs_end);
    RUN(the_others_do_the_share_of_a_thread_that_is_held_up);
    RUN(an_idle_pool_takes_no_processor_time);
    CHECK_DONE();
}
