/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include <pthread.h>

#include "service/store/golden_store.h"
#include "service/store/project_store.h"
#include "service/store/trial_store.h"

/* A job that has succeeded: task 0 with a trial of index 7, task 1 without one that is kept, task 2 all failed. */
static void finished_job(struct fixture *f, double best_s, char ret_id[UUID_TEXT]) {
    struct error error;
    fixture_job(f, fixture_model(f, "network")->id, ret_id);
    fixture_plan(f, 3);
    for (int task = 0; task < 3; task++) {
        struct work_item item = fixture_claim(f);
        cr_assert_eq(item.task, task);
        struct trial_row trial = {.template = "conv2d.cpu",
                                  .version = 4,
                                  .index = 7,
                                  .entity = "[]",
                                  .costs_s = &best_s,
                                  .n_costs = 1,
                                  .cost_s = best_s,
                                  .finished_us = 1796095440123456};
        if (task == 0)
            OK(trial_insert(f->db, &item, &(struct trial_batch){&trial, 1, INFINITY, NULL, 0}, &error));
        struct tune_result result = {
            task < 2, task < 2 ? "trials" : "all_failed", "conv2d.cpu", 4, 7, "[]", best_s, 1e-7, 2e-5, 1};
        OK(queue_complete_tune(f->db, &item, &result, &error));
    }
    struct work_item build = fixture_claim(f);
    cr_assert_eq(build.kind, WORK_BUILD);
    OK(queue_complete_build(f->db, &build, &(struct build_result){"{\"tuned_p50_us\": 5}", NULL, NULL}, &error));
}

static struct golden_row *set(struct fixture *f, const char *job_id, const char *note, bool expect_made) {
    struct error error;
    struct golden_row *golden;
    bool made;
    OK(golden_set(f->db, NULL, job_id, note, f->arena, &golden, &made, &error));
    cr_expect_eq(made, expect_made);
    return golden;
}

static int count_now(struct fixture *f, const char *device_key) {
    struct error error;
    struct golden_row *rows;
    int n;
    OK(golden_now(f->db, NULL, device_key, f->arena, &rows, &n, &error));
    return n;
}

Test(golden, it_is_a_copy_of_what_the_job_found) {
    struct fixture f = fixture_open();
    struct error error;
    struct golden_row *rows;
    int n;
    char job[UUID_TEXT];
    finished_job(&f, 1e-5, job);
    cr_expect_eq(count_now(&f, NULL), 0);
    struct golden_row *golden = set(&f, job, "release 1", true);
    cr_expect_str_eq(golden->device_key, FIXTURE_DEVICE);
    cr_expect_str_eq(golden->job_id, job);
    cr_expect_str_eq(golden->result, "{\"tuned_p50_us\": 5}");
    cr_expect_gt(golden->set_us, 0);
    cr_expect_eq(golden->ended_us, 0);
    fixture_sql(f.url, "DELETE FROM jobs");
    OK(golden_now(f.db, NULL, FIXTURE_DEVICE, f.arena, &rows, &n, &error));
    cr_assert_eq(n, 1);
    cr_assert_eq(rows[0].n_configs, 2, "a task without a best has nothing golden");
    cr_expect_str_eq(rows[0].configs[0].workload, "conv2d(a)");
    cr_expect_eq(rows[0].configs[0].version, 4);
    cr_expect_eq(rows[0].configs[0].index, 7);
    cr_expect_eq(rows[0].configs[0].count, 2);
    cr_expect_eq(rows[0].configs[0].cost_s, 1e-5);
    cr_expect_eq(rows[0].configs[1].version, 4);
    cr_expect_eq(count_now(&f, "cpu/other/8"), 0);
    fixture_close(&f);
}

Test(golden, another_takes_its_place_and_the_history_keeps_both) {
    struct fixture f = fixture_open();
    struct error error;
    struct golden_row *rows;
    int n;
    bool more;
    char first[UUID_TEXT], second[UUID_TEXT];
    finished_job(&f, 1e-5, first);
    finished_job(&f, 2e-5, second);
    int64_t number = set(&f, first, "one", true)->number;
    cr_expect_eq(set(&f, first, "renamed", false)->number, number, "the same job again is no new setting");
    int64_t next = set(&f, second, "two", true)->number;
    cr_expect_gt(next, number);
    cr_expect_eq(count_now(&f, FIXTURE_DEVICE), 1);
    set(&f, first, "one again", true);
    OK(golden_history(f.db, &(struct golden_filter){.limit = 2}, f.arena, &rows, &n, &more, &error));
    cr_assert_eq(n, 2);
    cr_expect(more);
    cr_expect_str_eq(rows[0].note, "one again");
    cr_expect_eq(rows[0].ended_us, 0);
    cr_expect_eq(rows[0].n_configs, 2);
    cr_expect_null(rows[0].configs);
    cr_expect_geq(rows[1].ended_us, rows[1].set_us);
    struct golden_filter rest = {.device_key = FIXTURE_DEVICE, .before = rows[1].number, .limit = 2};
    OK(golden_history(f.db, &rest, f.arena, &rows, &n, &more, &error));
    cr_assert_eq(n, 1);
    cr_expect_not(more);
    cr_expect_str_eq(rows[0].note, "renamed");
    struct golden_row *old;
    OK(golden_get(f.db, NULL, number, f.arena, &old, &error));
    cr_expect_eq(old->configs[0].cost_s, 1e-5);
    FAILS(golden_get(f.db, NULL, 12345, f.arena, &old, &error), "no-such-golden");
    fixture_close(&f);
}

Test(golden, it_can_be_ended_once) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    finished_job(&f, 1e-5, job);
    set(&f, job, "", true);
    FAILS(golden_end(f.db, NULL, "cpu/other/8", &error), "no-golden");
    OK(golden_end(f.db, NULL, FIXTURE_DEVICE, &error));
    FAILS(golden_end(f.db, NULL, FIXTURE_DEVICE, &error), "no-golden");
    cr_expect_eq(count_now(&f, NULL), 0);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM golden"), 1);
    set(&f, job, "", true);
    fixture_close(&f);
}

Test(golden, a_set_stays_within_its_project) {
    struct fixture f = fixture_open();
    struct error error;
    struct golden_row *rows, *golden;
    struct project_row *lab;
    char job[UUID_TEXT];
    bool more;
    int n;
    finished_job(&f, 1e-5, job);
    int64_t number = set(&f, job, "", true)->number;
    OK(project_create(f.db, &(struct project_new){"lab", {QUOTA_NONE, QUOTA_NONE, QUOTA_NONE}, {0}}, f.arena, &lab,
                      &error));
    FAILS(golden_set(f.db, lab->id, job, "", f.arena, &golden, &more, &error), "no-such-job");
    FAILS(golden_get(f.db, lab->id, number, f.arena, &golden, &error), "no-such-golden");
    FAILS(golden_end(f.db, lab->id, FIXTURE_DEVICE, &error), "no-golden");
    OK(golden_now(f.db, lab->id, NULL, f.arena, &rows, &n, &error));
    cr_expect_eq(n, 0);
    OK(golden_history(f.db, &(struct golden_filter){.project_id = lab->id, .limit = 2}, f.arena, &rows, &n, &more,
                      &error));
    cr_expect_eq(n, 0);
    cr_expect_eq(count_now(&f, FIXTURE_DEVICE), 1);
    fixture_close(&f);
}

Test(golden, only_a_job_that_succeeded_can_be) {
    struct fixture f = fixture_open();
    struct error error;
    struct golden_row *golden;
    bool made;
    char job[UUID_TEXT];
    fixture_job(&f, fixture_model(&f, "network")->id, job);
    FAILS(golden_set(f.db, NULL, job, "", f.arena, &golden, &made, &error), "job-not-succeeded");
    FAILS(golden_set(f.db, NULL, "not a job", "", f.arena, &golden, &made, &error), "no-such-job");
    uuid_make(job);
    FAILS(golden_set(f.db, NULL, job, "", f.arena, &golden, &made, &error), "no-such-job");
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM golden"), 0);
    fixture_close(&f);
}

struct setter {
    struct db *db;
    char job[UUID_TEXT];
};

static void *set_often(void *data) {
    struct setter *setter = data;
    struct arena *arena = arena_new(0);
    struct error error;
    for (int i = 0; i < 10; i++) {
        struct golden_row *golden;
        bool made;
        OK(golden_set(setter->db, NULL, setter->job, "", arena, &golden, &made, &error));
    }
    arena_free(arena);
    return NULL;
}

Test(golden, of_two_who_set_at_once_one_is_the_last) {
    struct fixture f = fixture_open();
    struct setter setters[2] = {{.db = f.db}, {.db = f.db}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        finished_job(&f, 1e-5, setters[i].job);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, set_often, &setters[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(count_now(&f, FIXTURE_DEVICE), 1);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM golden WHERE ended_at IS NULL"), 1);
    fixture_close(&f);
}
