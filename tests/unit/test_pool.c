/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/pool.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MOST = 1000 };

/* Counts each item and the number of contiguous runs. */
struct tally {
    atomic_int seen[MOST];
    atomic_int runs;
};

static void count_items(void *const *args, int64_t begin, int64_t end) {
    struct tally *tally = args[0];
    atomic_fetch_add(&tally->runs, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&tally->seen[i], 1);
}

static void expect_each_once(int threads, int64_t items) {
    struct pool *pool = pool_new(threads);
    static struct tally tally;
    void *args[] = {&tally};
    memset(&tally, 0, sizeof tally);
    pool_run(pool, count_items, args, items);
    for (int64_t i = 0; i < MOST; i++)
        cr_assert_eq(tally.seen[i], i < items, "item %d of %d over %d threads", (int)i, (int)items, threads);
    cr_assert_leq(tally.runs, threads);
    pool_free(pool);
}

Test(pool, does_each_item_exactly_once_whatever_the_counts) {
    for (int threads = 1; threads <= 7; threads++)
        for (int64_t items = 0; items <= 20; items++)
            expect_each_once(threads, items);
    expect_each_once(3, MOST);
    expect_each_once(16, MOST);
}

Test(pool, counts_the_caller_and_takes_the_processors_by_default) {
    struct pool *one = pool_new(1), *all = pool_new(0);
    cr_assert_eq(pool_threads(one), 1);
    cr_assert_geq(pool_threads(all), 1);
    pool_free(one);
    pool_free(all);
    pool_free(NULL);
}

static void add_one(void *const *args, int64_t begin, int64_t end) {
    int *numbers = args[0];
    for (int64_t i = begin; i < end; i++)
        numbers[i]++;
}

Test(pool, what_one_kernel_wrote_the_next_one_sees) {
    struct pool *pool = pool_new(2);
    static int numbers[64];
    void *args[] = {numbers};
    for (int round = 0; round < 20000; round++)
        pool_run(pool, add_one, args, 2 + round % 63);
    cr_assert_eq(numbers[0], 20000);
    cr_assert_eq(numbers[1], 20000);
    pool_free(pool);
}

Test(pool, wakes_workers_that_went_to_sleep) {
    struct pool *pool = pool_new(3);
    static int numbers[64];
    void *args[] = {numbers};
    for (int round = 0; round < 50; round++) {
        pool_run(pool, add_one, args, 64);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* far longer than they spin */
    }
    for (int i = 0; i < 64; i++)
        cr_assert_eq(numbers[i], 50);
    pool_free(pool);
}

static void sleep_a_little(void *const *args, int64_t begin, int64_t end) {
    (void)end;
    if (begin > 0)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    atomic_fetch_add((atomic_int *)args[0], 1);
}

Test(pool, waits_for_the_slowest_thread) {
    struct pool *pool = pool_new(2);
    static atomic_int done;
    void *args[] = {&done};
    for (int round = 1; round <= 10; round++) {
        pool_run(pool, sleep_a_little, args, 2);
        cr_assert_eq(done, 2 * round);
    }
    pool_free(pool);
}
