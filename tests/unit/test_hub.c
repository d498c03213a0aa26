/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "api/hub.h"
#include "pg_fixture.h"
#include "service/base/clock.h"
#include "service/store/listener.h"

/* A waiter that counts how often it was woken. */
struct sleeper {
    struct hub_waiter waiter;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    int count;
};

static void wake(struct hub_waiter *waiter) {
    struct sleeper *sleeper = (struct sleeper *)waiter;
    pthread_mutex_lock(&sleeper->lock);
    sleeper->count++;
    pthread_cond_signal(&sleeper->woken);
    pthread_mutex_unlock(&sleeper->lock);
}

static void sleeper_init(struct sleeper *sleeper) {
    *sleeper = (struct sleeper){.waiter = {.wake = wake}, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&sleeper->woken, &attributes);
}

/* Whether it has been woken `count` times within some seconds. */
static bool woken(struct sleeper *sleeper, int count, double within_s) {
    int64_t deadline = deadline_in_s(within_s);
    struct timespec until = {deadline / NS_PER_S, deadline % NS_PER_S};
    pthread_mutex_lock(&sleeper->lock);
    while (sleeper->count < count && pthread_cond_timedwait(&sleeper->woken, &sleeper->lock, &until) == 0)
        continue;
    bool done = sleeper->count == count;
    pthread_mutex_unlock(&sleeper->lock);
    return done;
}

static void notify(struct fixture *f, const char *job_id) {
    char command[128];
    snprintf(command, sizeof command, "SELECT pg_notify('%s', '%s')", CHANNEL_JOB, job_id);
    fixture_sql(f->url, command);
}

struct setup {
    struct fixture f;
    struct hub *hub;
    struct sleeper sleeper;
};

static struct setup setup_new(int max_waiters) {
    struct setup setup = {.f = fixture_open()};
    struct error error;
    OK(hub_new(setup.f.url, max_waiters, &setup.hub, &error));
    return setup;
}

static void setup_end(struct setup *setup) {
    hub_drain(setup->hub);
    hub_free(setup->hub);
    fixture_close(&setup->f);
}

Test(hub, a_notification_wakes_those_who_wait_for_that_job) {
    struct setup s = setup_new(10);
    struct error error;
    sleeper_init(&s.sleeper);
    OK(hub_wait(s.hub, &s.sleeper.waiter, "job-a", hub_generation(s.hub, "job-a"), deadline_in_s(60), &error));
    cr_assert_eq(hub_waiting(s.hub), 1);
    notify(&s.f, "job-b");
    notify(&s.f, "job-a");
    cr_assert(woken(&s.sleeper, 1, 20));
    cr_assert_eq(hub_waiting(s.hub), 0);
    setup_end(&s);
}

Test(hub, a_change_between_the_look_and_the_wait_wakes_at_once) {
    struct setup s = setup_new(10);
    struct error error;
    uint64_t seen = hub_generation(s.hub, "job-a");
    notify(&s.f, "job-a");
    for (int64_t deadline = deadline_in_s(20); hub_generation(s.hub, "job-a") == seen && clock_now_ns() < deadline;)
        usleep(1000);
    sleeper_init(&s.sleeper);
    OK(hub_wait(s.hub, &s.sleeper.waiter, "job-a", seen, deadline_in_s(60), &error));
    cr_assert_eq(s.sleeper.count, 1);
    setup_end(&s);
}

Test(hub, the_deadline_wakes) {
    struct setup s = setup_new(10);
    struct error error;
    sleeper_init(&s.sleeper);
    OK(hub_wait(s.hub, &s.sleeper.waiter, "job-a", hub_generation(s.hub, "job-a"), deadline_in_s(0.1), &error));
    cr_assert(woken(&s.sleeper, 1, 20));
    setup_end(&s);
}

Test(hub, changes_before_the_earliest_time_wake_once_it_has_come) {
    struct setup s = setup_new(10);
    struct error error;
    int64_t earliest = deadline_in_s(0.5);
    sleeper_init(&s.sleeper);
    s.sleeper.waiter.earliest = earliest;
    OK(hub_wait(s.hub, &s.sleeper.waiter, "job-a", hub_generation(s.hub, "job-a"), deadline_in_s(600), &error));
    notify(&s.f, "job-a");
    notify(&s.f, "job-a");
    cr_assert(woken(&s.sleeper, 1, 20));
    cr_assert_geq(clock_now_ns(), earliest);
    setup_end(&s);
}

Test(hub, refuses_more_than_its_limit) {
    struct setup s = setup_new(1);
    struct error error;
    struct sleeper second;
    sleeper_init(&s.sleeper);
    sleeper_init(&second);
    OK(hub_check(s.hub, &error));
    OK(hub_wait(s.hub, &s.sleeper.waiter, "a", hub_generation(s.hub, "a"), deadline_in_s(60), &error));
    FAILS(hub_wait(s.hub, &second.waiter, "b", hub_generation(s.hub, "b"), deadline_in_s(60), &error),
          "too-many-waiters");
    FAILS(hub_check(s.hub, &error), "too-many-waiters");
    cr_assert_eq(second.count, 0);
    setup_end(&s);
}

Test(hub, draining_wakes_everybody_and_lets_nobody_sleep) {
    struct setup s = setup_new(10);
    struct error error;
    sleeper_init(&s.sleeper);
    OK(hub_wait(s.hub, &s.sleeper.waiter, "a", hub_generation(s.hub, "a"), DEADLINE_NEVER, &error));
    hub_drain(s.hub);
    cr_assert_eq(s.sleeper.count, 1);
    FAILS(hub_wait(s.hub, &s.sleeper.waiter, "a", hub_generation(s.hub, "a"), DEADLINE_NEVER, &error), "stopping");
    setup_end(&s);
}

Test(hub, a_lost_connection_wakes_everybody) {
    struct setup s = setup_new(10);
    struct error error;
    sleeper_init(&s.sleeper);
    OK(hub_wait(s.hub, &s.sleeper.waiter, "a", hub_generation(s.hub, "a"), deadline_in_s(600), &error));
    fixture_sql(s.f.url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                         " WHERE datname = current_database() AND query LIKE 'LISTEN%'");
    cr_assert(woken(&s.sleeper, 1, 30));
    setup_end(&s);
}
