/* pool.h - threads that run one job at a time, all of them together, and meet at barriers inside it.
 *
 * A job is one wake of the pool. Inside it threads share work through one counter and separate operations by a barrier,
 * both a few dozen cycles when every thread is on a processor. A thread that waits spins for some microseconds, then gives
 * its time slice away, then sleeps in the kernel: fast when all run, harmless when there are more threads than processors,
 * and silent when there is nothing to do. */
#ifndef DS4_CPU_POOL_H
#define DS4_CPU_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define POOL_QUEUE 2 /* jobs that may be submitted and not yet waited for */

typedef struct ds4_pool ds4_pool;

/* Runs on every thread of the pool, ith in [0, n_threads). */
typedef void (*ds4_pool_fn)(void *arg, int32_t ith);

/* n_threads >= 1 threads, asleep; NULL if they cannot be had. */
ds4_pool *ds4_pool_create(int32_t n_threads);

/* Lets the submitted jobs end, then ends the threads. */
void ds4_pool_free(ds4_pool *pool);

/* Queues a job. At most POOL_QUEUE may be waiting or running. Jobs run in order, one at a time. */
void ds4_pool_submit(ds4_pool *pool, ds4_pool_fn fn, void *arg);

/* Waits for the oldest job not yet waited for; returns at once if there is none. */
void ds4_pool_wait(ds4_pool *pool);

/* Waits until nothing is queued or running; what was not waited for stays so. */
void ds4_pool_drain(ds4_pool *pool);

/* ---- inside a job ---- */

/* Meets the other threads. True for the last to come, which may then do work that no other thread may see half done, and
 * must call ds4_pool_release; the others return false after that, and see all that was written before. The work counter
 * is back at 0 by then. */
bool ds4_pool_arrive(ds4_pool *pool);
void ds4_pool_release(ds4_pool *pool);

static inline void ds4_pool_barrier(ds4_pool *pool)
{
    if (ds4_pool_arrive(pool))
        ds4_pool_release(pool);
}

/* The next piece of work: 0, 1, 2 ... over all threads, until the next barrier. */
int32_t ds4_pool_next(ds4_pool *pool);

int32_t ds4_pool_threads(const ds4_pool *pool);

#endif
