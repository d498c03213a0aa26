/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "service/base/periodic.h"

struct work {
    sem_t called;
    atomic_int calls;
    double sleep_s;
    atomic_bool told;
};

static void count(struct periodic *periodic, void *data) {
    struct work *work = data;
    atomic_fetch_add(&work->calls, 1);
    sem_post(&work->called);
    if (work->sleep_s > 0)
        atomic_store(&work->told, periodic_sleep(periodic, work->sleep_s));
}

Test(periodic, calls_at_once_and_again) {
    struct work work = {0};
    struct periodic *periodic;
    struct error error;
    sem_init(&work.called, 0, 0);
    cr_assert_eq(periodic_start(0.001, count, &work, &periodic, &error), 0, "%s", error.text);
    for (int i = 0; i < 3; i++)
        sem_wait(&work.called);
    periodic_stop(periodic);
    int calls = atomic_load(&work.calls);
    cr_expect_geq(calls, 3);
    sem_destroy(&work.called);
}

Test(periodic, a_stop_waits_neither_for_the_next_call_nor_for_a_sleep, .timeout = 20) {
    struct work work = {.sleep_s = 3600};
    struct periodic *periodic;
    struct error error;
    sem_init(&work.called, 0, 0);
    cr_assert_eq(periodic_start(3600, count, &work, &periodic, &error), 0, "%s", error.text);
    sem_wait(&work.called);
    periodic_stop(periodic);
    cr_expect_eq(atomic_load(&work.calls), 1);
    cr_expect(atomic_load(&work.told));
    periodic_stop(NULL);
    sem_destroy(&work.called);
}
