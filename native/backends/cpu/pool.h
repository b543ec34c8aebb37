/* pool.h - threads that work through jobs, each a sequence of stages, each a number of items.
 *
 * Threads take the items of a stage from one counter. Whoever completes a stage's last item sets up the next one while the
 * others wait, for they have nothing to do. Nobody waits for a thread that took no item: when the system takes a processor
 * away from a thread, because the host or another program wants it, the others do its share and go on without it, and it
 * joins in again at whatever stage it finds. So there is no barrier, only the end of a stage.
 *
 * A thread without an item spins for some microseconds, then gives its time slice away, then sleeps in the kernel: fast
 * when all run, harmless when there are more threads than processors, silent when there is nothing to do. */
#ifndef DS4_CPU_POOL_H
#define DS4_CPU_POOL_H

#include <stdint.h>

#define POOL_QUEUE 2 /* jobs that may be submitted and not yet be over */

typedef struct ds4_pool ds4_pool;

/* All calls of a job see what earlier stages wrote. ith in [0, n_threads): the calling thread. */
typedef struct ds4_pool_job {
    /* Sets up a stage, alone: when the job begins, and whenever all items of a stage are done. Returns the number of items,
     * or 0 when the job is over. */
    int32_t (*next)(void *arg, int32_t ith);
    /* Does one item of the stage: each of 0 .. number - 1 is done once, in any order, on any thread. */
    void (*item)(void *arg, int32_t ith, int32_t item);
    void *arg;
} ds4_pool_job;

/* n_threads >= 1 threads, asleep; NULL if they cannot be had. */
ds4_pool *ds4_pool_create(int32_t n_threads);

/* Lets the submitted jobs end, then ends the threads. */
void ds4_pool_free(ds4_pool *pool);

/* Queues a job, which is copied. Jobs run in order, one at a time. */
void ds4_pool_submit(ds4_pool *pool, const ds4_pool_job *job);

/* Waits for the oldest job not yet waited for; returns at once if there is none. */
void ds4_pool_wait(ds4_pool *pool);

/* Waits until nothing is queued or running; what was not waited for stays so. */
void ds4_pool_drain(ds4_pool *pool);

#endif
