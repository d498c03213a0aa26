/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_NS = 40000, /* how long a thread looks before it sleeps: longer than the gap between kernels of a network */
    LOOKS = 64,      /* between two readings of the clock */
    MOST_THREADS = 1024,
};

/*
 * Who writes what: the caller writes the job and `left`, then counts `turn` up, which hands both to the workers; each
 * worker counts `left` down when its share is done, and the last one hands the job back. A thread says that it sleeps
 * before it does, and whoever changes the number that it waits for looks after the change, so no wake is lost.
 */
struct pool {
    pool_kernel *kernel;
    void *const *args;
    int64_t items;
    _Alignas(64) atomic_uint turn;
    atomic_uint sleepers; /* workers that sleep, or are about to, on `turn` */
    _Alignas(64) atomic_uint left;
    atomic_uint caller_sleeps;
    _Alignas(64) atomic_bool ending;
    int threads;
    int started; /* workers that run */
    bool spin;
    struct worker {
        struct pool *pool;
        pthread_t thread;
        int number; /* the caller is 0 */
    } * workers;
};

static void look_away(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Looks until *word is no longer `value`, at most for SPIN_NS; true when it changed. */
static bool changes_soon(atomic_uint *word, unsigned value) {
    for (int64_t end = 0;;) {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value)
                return true;
            look_away();
        }
        int64_t now = now_ns();
        if (end == 0)
            end = now + SPIN_NS;
        else if (now > end)
            return false;
    }
}

static void futex_wait(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake_all(atomic_uint *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void wait_for_change(struct pool *pool, atomic_uint *word, unsigned value, atomic_uint *sleepers) {
    if (pool->spin && changes_soon(word, value))
        return;
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == value)
        futex_wait(word, value);
    atomic_fetch_sub(sleepers, 1);
}

/* begin of thread t's share; its end is the next one's begin. */
static int64_t share(const struct pool *pool, int t) {
    int64_t whole = pool->items / pool->threads, rest = pool->items % pool->threads;
    return whole * t + rest * t / pool->threads;
}

static void do_share(const struct pool *pool, int t) {
    int64_t begin = share(pool, t), end = share(pool, t + 1);
    if (begin < end)
        pool->kernel(pool->args, begin, end);
}

static void *work(void *data) {
    struct worker *worker = data;
    struct pool *pool = worker->pool;
    for (unsigned turn = 0;; turn++) {
        wait_for_change(pool, &pool->turn, turn, &pool->sleepers);
        if (atomic_load(&pool->ending))
            return NULL;
        do_share(pool, worker->number);
        if (atomic_fetch_sub(&pool->left, 1) == 1 && atomic_load(&pool->caller_sleeps) != 0)
            futex_wake_all(&pool->left);
    }
}

/* Processors that this process may use. */
static int processors(void) {
    cpu_set_t *set = CPU_ALLOC(MOST_THREADS);
    size_t size = CPU_ALLOC_SIZE(MOST_THREADS);
    int n = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    CPU_FREE(set);
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n;
}

/* Workers take no signal: handlers stay with the threads that the program made. */
static bool start_workers(struct pool *pool) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i + 1 < pool->threads; i++) {
        struct worker *worker = &pool->workers[i];
        *worker = (struct worker){.pool = pool, .number = i + 1};
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            break;
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool->started + 1 == pool->threads;
}

struct pool *pool_new(int threads) {
    int available = processors();
    threads = threads <= 0 ? available : threads > MOST_THREADS ? MOST_THREADS : threads;
    struct pool *pool = aligned_alloc(64, sizeof *pool);
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    if (!pool || !workers) {
        free(pool);
        free(workers);
        return NULL;
    }
    *pool = (struct pool){.threads = threads, .spin = threads <= available, .workers = workers};
    if (start_workers(pool))
        return pool;
    pool_free(pool);
    return NULL;
}

int pool_threads(const struct pool *pool) {
    return pool->threads;
}

static void next_turn(struct pool *pool) {
    atomic_fetch_add(&pool->turn, 1);
    if (atomic_load(&pool->sleepers) != 0)
        futex_wake_all(&pool->turn);
}

void pool_run(struct pool *pool, pool_kernel *kernel, void *const *args, int64_t items) {
    if (items <= 1 || pool->threads == 1) {
        if (items > 0)
            kernel(args, 0, items);
        return;
    }
    pool->kernel = kernel;
    pool->args = args;
    pool->items = items;
    atomic_store_explicit(&pool->left, (unsigned)pool->threads - 1, memory_order_relaxed);
    next_turn(pool);
    do_share(pool, 0);
    for (unsigned left; (left = atomic_load_explicit(&pool->left, memory_order_acquire)) != 0;)
        wait_for_change(pool, &pool->left, left, &pool->caller_sleeps);
}

void pool_free(struct pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->ending, true);
    next_turn(pool);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    free(pool->workers);
    free(pool);
}
