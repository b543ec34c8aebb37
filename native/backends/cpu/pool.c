/* pool.c - the pool on pthreads and, where there is one, the futex. */
#include "native/backends/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#define SPIN_NS 3000       /* without an item, before the time slice is given away: where threads share a processor this
                              time is lost to the one that has work, where they do not a yield is nearly as quick */
#define YIELDS 60          /* then so many times, before the thread sleeps */
#define LINE 64

struct worker {
    ds4_pool *pool;
    pthread_t thread;
    int32_t ith;
};

/* Each word that one thread writes while others poll has a cache line of its own. */
struct ds4_pool {
    _Alignas(LINE) atomic_uint_fast64_t items; /* of the stage: their number << 32 | the next to take */
    _Alignas(LINE) atomic_int done;            /* items done */
    _Alignas(LINE) atomic_uint stages;         /* ever begun; what threads without an item watch */
    atomic_uint sleepers;                      /* threads asleep on it */
    _Alignas(LINE) atomic_uint finished;       /* jobs ever over; what the owner watches */
    atomic_uint waiters;                       /* whether it sleeps on it */
    _Alignas(LINE) ds4_pool_job job;           /* the one that runs; changes between its stages only */
    bool beginning;                            /* the stage is one empty item, which calls for the first real one */
    atomic_bool ending;
    pthread_mutex_t mutex;                     /* over the three below */
    ds4_pool_job queued;
    bool active, has_queued;
    uint32_t submitted, waited;                /* owner's own */
    int32_t n_threads, spins;
    struct worker *workers;
    int32_t started;
#if !defined(__linux__)
    pthread_mutex_t sleep_mutex;
    pthread_cond_t changed;
#endif
};

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* ---- sleeping in the kernel on a word ---- */

#if defined(__linux__)

static void sleep_on(ds4_pool *pool, atomic_uint *word, unsigned value)
{
    (void)pool;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0); /* returns at once if *word != value */
}

static void wake_all(ds4_pool *pool, atomic_uint *word)
{
    (void)pool;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

#else

static void sleep_on(ds4_pool *pool, atomic_uint *word, unsigned value)
{
    pthread_mutex_lock(&pool->sleep_mutex);
    if (atomic_load(word) == value)
        pthread_cond_wait(&pool->changed, &pool->sleep_mutex);
    pthread_mutex_unlock(&pool->sleep_mutex);
}

static void wake_all(ds4_pool *pool, atomic_uint *word)
{
    (void)word;
    pthread_mutex_lock(&pool->sleep_mutex);
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->sleep_mutex);
}

#endif

/* Returns once *word differs from value. `asleep` counts the sleepers: they announce themselves before the kernel looks
 * at the word again, and whoever changes the word looks at the count after the change, so no wake is lost. */
static void wait_change(ds4_pool *pool, atomic_uint *word, unsigned value, atomic_uint *asleep, bool spin)
{
    if (spin) {
        for (int32_t i = 0; i < pool->spins; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value)
                return;
            pause_briefly();
        }
        for (int i = 0; i < YIELDS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value)
                return;
            sched_yield();
        }
    }
    atomic_fetch_add(asleep, 1);
    while (atomic_load(word) == value)
        sleep_on(pool, word, value);
    atomic_fetch_sub(asleep, 1);
}

static void change(ds4_pool *pool, atomic_uint *word, atomic_uint *asleep)
{
    atomic_fetch_add(word, 1);
    if (atomic_load(asleep))
        wake_all(pool, word);
}

/* ---- stages ---- */

/* Everything that the stage needs has been written; nobody holds an item. */
static void open_stage(ds4_pool *pool, int32_t n)
{
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->items, (uint_fast64_t)(uint32_t)n << 32, memory_order_release);
    change(pool, &pool->stages, &pool->sleepers);
}

/* After the last item of a stage: the next stage, of this job or of the one that waits. */
static void go_on(ds4_pool *pool, int32_t ith)
{
    int32_t n;
    pool->beginning = false;
    while ((n = pool->job.next(pool->job.arg, ith)) == 0) {
        pthread_mutex_lock(&pool->mutex);
        bool more = pool->has_queued;
        if (more)
            pool->job = pool->queued;
        pool->has_queued = false;
        pool->active = more;
        pthread_mutex_unlock(&pool->mutex);
        change(pool, &pool->finished, &pool->waiters);
        if (!more)
            return;
    }
    open_stage(pool, n);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    ds4_pool *pool = w->pool;
    char name[16];
    snprintf(name, sizeof name, "ds4-cpu-%d", (int)w->ith);
#if defined(__linux__)
    pthread_setname_np(pthread_self(), name);
#elif defined(__APPLE__)
    pthread_setname_np(name);
#endif
    for (;;) {
        unsigned stage = atomic_load_explicit(&pool->stages, memory_order_acquire);
        uint_fast64_t taken = atomic_fetch_add_explicit(&pool->items, 1, memory_order_acq_rel);
        int32_t item = (int32_t)(taken & 0xffffffff), n = (int32_t)(taken >> 32), did = 0;
        /* As long as this thread has not told what it did, the stage cannot end, nor the counter be another's. */
        for (; item < n; did++) {
            if (!pool->beginning)
                pool->job.item(pool->job.arg, w->ith, item);
            item = (int32_t)(atomic_fetch_add_explicit(&pool->items, 1, memory_order_relaxed) & 0xffffffff);
        }
        if (did > 0 && atomic_fetch_add_explicit(&pool->done, did, memory_order_acq_rel) + did == n) {
            go_on(pool, w->ith);
            continue;
        }
        if (atomic_load_explicit(&pool->ending, memory_order_acquire))
            return NULL;
        wait_change(pool, &pool->stages, stage, &pool->sleepers, stage > 0);
    }
}

/* How many pauses take SPIN_NS here; none where threads outnumber the processors that we may use. */
static int32_t count_spins(int32_t n_threads)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        processors = CPU_COUNT(&set);
#endif
    if (n_threads > processors)
        return 0;
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 1000; i++)
        pause_briefly();
    clock_gettime(CLOCK_MONOTONIC, &b);
    double ns = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
    double spins = ns > 0 ? SPIN_NS * 1000.0 / ns : 1000;
    return spins < 50 ? 50 : spins > 4000 ? 4000 : (int32_t)spins;
}

ds4_pool *ds4_pool_create(int32_t n_threads)
{
    if (n_threads < 1)
        return NULL;
    void *memory;
    if (posix_memalign(&memory, LINE, sizeof(ds4_pool)))
        return NULL;
    ds4_pool *pool = memset(memory, 0, sizeof(ds4_pool));
    pool->n_threads = n_threads;
    pool->spins = count_spins(n_threads);
    pool->workers = calloc((size_t)n_threads, sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->mutex, NULL);
#if !defined(__linux__)
    pthread_mutex_init(&pool->sleep_mutex, NULL);
    pthread_cond_init(&pool->changed, NULL);
#endif
    /* Signals are the host's business. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int32_t i = 0; i < n_threads; i++) {
        pool->workers[i] = (struct worker){.pool = pool, .ith = i};
        if (pthread_create(&pool->workers[i].thread, NULL, work, &pool->workers[i]))
            break;
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pool->started < n_threads) {
        ds4_pool_free(pool);
        return NULL;
    }
    return pool;
}

void ds4_pool_free(ds4_pool *pool)
{
    if (!pool)
        return;
    ds4_pool_drain(pool);
    atomic_store_explicit(&pool->ending, true, memory_order_release);
    change(pool, &pool->stages, &pool->sleepers);
    for (int32_t i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
#if !defined(__linux__)
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->sleep_mutex);
#endif
    pthread_mutex_destroy(&pool->mutex);
    free(pool->workers);
    free(pool);
}

void ds4_pool_submit(ds4_pool *pool, const ds4_pool_job *job)
{
    pthread_mutex_lock(&pool->mutex);
    bool idle = !pool->active;
    if (idle) {
        pool->active = true;
        pool->job = *job;
        pool->beginning = true;
    } else {
        pool->queued = *job;
        pool->has_queued = true;
    }
    pthread_mutex_unlock(&pool->mutex);
    pool->submitted++;
    if (idle)
        open_stage(pool, 1);
}

static void wait_finished(ds4_pool *pool, unsigned count)
{
    for (;;) {
        unsigned finished = atomic_load_explicit(&pool->finished, memory_order_acquire);
        if ((int32_t)(finished - count) >= 0)
            return;
        wait_change(pool, &pool->finished, finished, &pool->waiters, false);
    }
}

void ds4_pool_wait(ds4_pool *pool)
{
    if (pool->waited == pool->submitted)
        return;
    wait_finished(pool, ++pool->waited);
}

void ds4_pool_drain(ds4_pool *pool)
{
    wait_finished(pool, pool->submitted);
}
