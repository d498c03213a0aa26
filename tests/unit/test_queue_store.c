/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include <pthread.h>

#include "service/store/listener.h"
#include "service/base/clock.h"
#include "service/store/trial_store.h"

static const struct tune_result tuned = {.succeeded = true,
                                         .stop_reason = "trials",
                                         .best_template = "conv2d.cpu",
                                         .best_version = 3,
                                         .best_index = 7,
                                         .best_entity = "[[\"tile\",\"ot\",4]]",
                                         .best_s = 1e-5,
                                         .best_spread_s = 1e-7,
                                         .baseline_s = 2e-5,
                                         .spent_s = 1.5};

static struct work_item claim_as(struct fixture *f, const char *kind, const char *key, const char *label,
                                 double lease_s) {
    struct error error;
    struct work_item item;
    bool found;
    char worker[UUID_TEXT];
    uuid_make(worker);
    OK(queue_claim(f->db, &(struct claimant){worker, kind, 0, key, label, lease_s}, &item, &found, &error));
    return found ? item : (struct work_item){0};
}

static void add_job(struct fixture *f, const char *device, const char *key, int priority, char ret_id[UUID_TEXT]) {
    struct error error;
    bool created;
    struct model_row *model = fixture_model(f, "network");
    struct job_new new = {.model_id = model->id, .device = device, .key = key, .priority = priority, .options = "{}"};
    OK(job_create(f->db, &new, ret_id, &created, &error));
}

Test(queue, the_first_claim_starts_the_job) {
    struct fixture f = fixture_open();
    char id[UUID_TEXT];
    add_job(&f, "auto", NULL, 0, id);
    struct work_item item = fixture_claim(&f);
    cr_expect_str_eq(item.job_id, id);
    cr_expect_eq(item.task, -1);
    cr_expect_eq(item.attempts, 1);
    struct job_row *job = fixture_get(&f, id);
    cr_expect_eq(job->state, JOB_RUNNING);
    cr_expect_gt(job->started_us, 0);
    cr_expect_eq(fixture_claim(&f).id, 0);
    fixture_close(&f);
}

Test(queue, higher_priority_comes_first_then_age) {
    struct fixture f = fixture_open();
    char low[UUID_TEXT], first[UUID_TEXT], second[UUID_TEXT];
    add_job(&f, "auto", NULL, -1, low);
    add_job(&f, "auto", NULL, 5, first);
    add_job(&f, "auto", NULL, 5, second);
    cr_expect_str_eq(fixture_claim(&f).job_id, first);
    cr_expect_str_eq(fixture_claim(&f).job_id, second);
    cr_expect_str_eq(fixture_claim(&f).job_id, low);
    fixture_close(&f);
}

Test(queue, work_goes_only_to_devices_and_labels_that_were_asked_for) {
    struct fixture f = fixture_open();
    char id[UUID_TEXT];
    add_job(&f, "cuda", "lab", 0, id);
    cr_expect_eq(claim_as(&f, "cpu", "cpu/x", "lab", 60).id, 0);
    cr_expect_eq(claim_as(&f, "cuda", "cuda/x", NULL, 60).id, 0);
    cr_expect_eq(claim_as(&f, "cuda", "cuda/x", "home", 60).id, 0);
    cr_expect_neq(claim_as(&f, "cuda", "cuda/x", "lab", 60).id, 0);
    fixture_close(&f);
}

Test(queue, tasks_are_tuned_by_the_class_of_devices_that_the_plan_chose) {
    struct fixture f = fixture_open();
    char id[UUID_TEXT];
    add_job(&f, "auto", NULL, 0, id);
    fixture_plan(&f, 1);
    cr_expect_eq(claim_as(&f, "cpu", "cpu/other/8", NULL, 60).id, 0);
    cr_expect_eq(claim_as(&f, "cuda", "cuda/x", NULL, 60).id, 0);
    struct work_item item = claim_as(&f, "cpu", FIXTURE_DEVICE, NULL, 60);
    cr_expect_eq(item.kind, WORK_TUNE);
    cr_expect_eq(item.task, 0);
    fixture_close(&f);
}

struct claimer {
    struct fixture *fixture;
    int claimed[64];
    int n;
};

static void *claim_all(void *data) {
    struct claimer *claimer = data;
    for (struct work_item item; (item = fixture_claim(claimer->fixture)).id != 0;)
        claimer->claimed[claimer->n++] = item.task;
    return NULL;
}

Test(queue, claims_at_once_give_each_item_to_one) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    struct task_new tasks[60];
    struct claimer claimers[6];
    pthread_t threads[6];
    int times[60] = {0};
    for (int i = 0; i < 60; i++)
        tasks[i] = fixture_tasks[0];
    add_job(&f, "cpu", NULL, 0, id);
    struct work_item plan = fixture_claim(&f);
    OK(queue_complete_plan(f.db, &plan, &(struct plan_result){"cpu", FIXTURE_DEVICE, tasks, 60}, &error));
    for (int i = 0; i < 6; i++) {
        claimers[i] = (struct claimer){.fixture = &f};
        cr_assert_eq(pthread_create(&threads[i], NULL, claim_all, &claimers[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        for (int k = 0; k < claimers[i].n; k++)
            times[claimers[i].claimed[k]]++;
    }
    for (int i = 0; i < 60; i++)
        cr_expect_eq(times[i], 1, "task %d was claimed %d times", i, times[i]);
    fixture_close(&f);
}

Test(queue, a_lease_that_ran_out_is_another_workers) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    add_job(&f, "cpu", NULL, 0, id);
    struct work_item lost = claim_as(&f, "cpu", FIXTURE_DEVICE, NULL, 0.01);
    usleep(20000);
    struct work_item taken = fixture_claim(&f);
    cr_assert_eq(taken.id, lost.id);
    cr_expect_eq(taken.attempts, 2);
    cr_expect_str_neq(taken.token, lost.token);
    struct plan_result plan = {"cpu", FIXTURE_DEVICE, fixture_tasks, 1};
    FAILS(queue_renew(f.db, &lost, 60, &error), "lease-lost");
    FAILS(queue_put_back(f.db, &lost, 0, true, &error), "lease-lost");
    FAILS(queue_complete_plan(f.db, &lost, &plan, &error), "lease-lost");
    cr_expect_eq(error.class, ERROR_CONFLICT);
    FAILS(queue_fail(f.db, &lost, &(struct error){.class = ERROR_IO, .code = "x", .text = "y"}, &error), "lease-lost");
    cr_expect_eq(fixture_get(&f, id)->n_tasks, 0);
    OK(queue_complete_plan(f.db, &taken, &plan, &error));
    FAILS(queue_complete_plan(f.db, &taken, &plan, &error), "lease-lost");
    cr_expect_eq(fixture_get(&f, id)->n_tasks, 1);
    fixture_close(&f);
}

Test(queue, a_lease_that_is_renewed_stays) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    add_job(&f, "cpu", NULL, 0, id);
    struct work_item item = claim_as(&f, "cpu", FIXTURE_DEVICE, NULL, 0.01);
    OK(queue_renew(f.db, &item, 60, &error));
    usleep(20000);
    cr_expect_eq(fixture_claim(&f).id, 0);
    fixture_close(&f);
}

Test(queue, a_database_clock_that_is_set_back_strands_nothing) {
    struct fixture f = fixture_open();
    struct error error;
    char waits[UUID_TEXT], held[UUID_TEXT], left[UUID_TEXT];
    const char *back = "UPDATE queue SET available_at = available_at + interval '1 day'";
    const char *soon = "SELECT count(*) FROM queue WHERE available_at < now() + interval '40 seconds'";
    add_job(&f, "cpu", NULL, 0, held);
    struct work_item item = fixture_claim(&f);
    add_job(&f, "cpu", NULL, 0, left);
    cr_expect_neq(fixture_claim(&f).id, 0); /* its worker dies */
    add_job(&f, "cpu", NULL, 0, waits);
    fixture_sql(f.url, back);
    cr_expect_eq(fixture_claim(&f).id, 0, "all is dated tomorrow");
    OK(queue_expire(f.db, NULL, &error));
    cr_expect_str_eq(fixture_claim(&f).job_id, waits);
    cr_expect_eq(fixture_claim(&f).id, 0, "leases run, but not for a day");
    cr_expect_eq(fixture_number(f.url, soon), 2);
    OK(queue_renew(f.db, &item, 60, &error));
    fixture_close(&f);
}

Test(queue, what_is_dated_within_reach_stays_so) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    add_job(&f, "cpu", NULL, 0, id);
    struct work_item item = fixture_claim(&f);
    OK(queue_put_back(f.db, &item, QUEUE_MOST_AHEAD_S - 10, true, &error));
    OK(queue_expire(f.db, NULL, &error));
    cr_expect_eq(fixture_claim(&f).id, 0);
    fixture_close(&f);
}

Test(queue, what_is_put_back_is_claimable_after_its_delay) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    struct queue_depth depth;
    add_job(&f, "cpu", NULL, 0, id);
    struct work_item item = fixture_claim(&f);
    OK(queue_put_back(f.db, &item, 3600, true, &error));
    cr_expect_eq(fixture_claim(&f).id, 0);
    OK(queue_depth(f.db, &depth, &error));
    cr_expect_eq(depth.waiting, 1);
    cr_expect_eq(depth.oldest_s, 0, "it may not be claimed yet, so it does not wait");
    fixture_sql(f.url, "UPDATE queue SET available_at = now() - interval '90 seconds'");
    OK(queue_depth(f.db, &depth, &error));
    cr_expect_geq(depth.oldest_s, 90);
    item = fixture_claim(&f);
    cr_expect_eq(item.attempts, 2);
    OK(queue_put_back(f.db, &item, 0, false, &error));
    cr_expect_eq(fixture_claim(&f).attempts, 2);
    OK(queue_depth(f.db, &depth, &error));
    cr_expect_eq(depth.leased, 1);
    fixture_close(&f);
}

/* The end of a slice, after which the item promises so much. Whether it was given up. */
static bool yield(struct fixture *f, const struct work_item *item, double promise) {
    struct error error;
    bool given_up;
    struct claimant claimant = {item->token, "cpu", 0, FIXTURE_DEVICE, NULL, 60};
    OK(queue_yield(f->db, &claimant, item, promise, &given_up, &error));
    return given_up;
}

static struct work_item claim_task(struct fixture *f, int task) {
    struct work_item item = fixture_claim(f);
    cr_assert_eq(item.kind, WORK_TUNE);
    cr_assert_eq(item.task, task, "task %d instead of %d", item.task, task);
    return item;
}

Test(queue, each_task_begins_before_the_one_that_promises_most_goes_on) {
    struct fixture f = fixture_open();
    char id[UUID_TEXT];
    add_job(&f, "cpu", NULL, 0, id);
    fixture_plan(&f, 3);
    struct work_item item = claim_task(&f, 0);
    cr_expect(yield(&f, &item, 1e9));
    item = claim_task(&f, 1);
    cr_expect(yield(&f, &item, 3e-3));
    item = claim_task(&f, 2);
    cr_expect(yield(&f, &item, 5e-3), "task 0 promises more");
    item = claim_task(&f, 0);
    cr_expect_not(yield(&f, &item, 6e-3), "it still promises most");
    cr_expect_not(yield(&f, &item, 5e-3), "as much as another is enough to go on");
    cr_expect(yield(&f, &item, 0));
    item = claim_task(&f, 2);
    cr_expect(yield(&f, &item, 2e-3));
    struct work_item first = claim_task(&f, 1), second = claim_task(&f, 2), third = claim_task(&f, 0);
    cr_expect_not(yield(&f, &third, 1), "the others are being worked on");
    cr_expect_not(yield(&f, &first, 0));
    cr_expect_not(yield(&f, &second, 0));
    fixture_close(&f);
}

Test(queue, a_slice_is_no_attempt) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    add_job(&f, "cpu", NULL, 0, id);
    fixture_plan(&f, 2);
    for (int i = 0; i < 3 * QUEUE_MAX_ATTEMPTS; i++) {
        struct work_item item = claim_task(&f, i % 2);
        cr_expect_eq(item.attempts, 1);
        cr_expect(yield(&f, &item, 1.0 / (i + 1)));
        FAILS(queue_renew(f.db, &item, 60, &error), "lease-lost");
    }
    fixture_close(&f);
}

Test(queue, a_slice_ends_under_the_lease_alone) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    bool given_up;
    add_job(&f, "cpu", NULL, 0, id);
    fixture_plan(&f, 2);
    struct work_item item = claim_task(&f, 0);
    struct claimant claimant = {item.token, "cpu", 0, FIXTURE_DEVICE, NULL, 60};
    OK(job_pause(f.db, id, &error));
    FAILS(queue_yield(f.db, &claimant, &item, 1, &given_up, &error), "lease-lost");
    OK(job_resume(f.db, id, &error));
    claim_task(&f, 0);
    fixture_close(&f);
}

Test(queue, a_slice_gives_way_to_what_would_be_claimed_first) {
    struct fixture f = fixture_open();
    struct error error;
    char low[UUID_TEXT], high[UUID_TEXT], elsewhere[UUID_TEXT];
    add_job(&f, "cpu", NULL, 0, low);
    fixture_plan(&f, 1);
    struct work_item item = claim_task(&f, 0);
    add_job(&f, "cuda", NULL, 9, elsewhere);
    cr_expect_not(yield(&f, &item, 1), "this device cannot do that");
    add_job(&f, "cpu", NULL, 0, high);
    cr_expect_not(yield(&f, &item, 1), "an older job goes on");
    OK(job_cancel(f.db, high, &error));
    add_job(&f, "cpu", NULL, 5, high);
    cr_expect(yield(&f, &item, 1));
    cr_expect_str_eq(fixture_claim(&f).job_id, high);
    cr_expect_str_eq(fixture_claim(&f).job_id, low);
    fixture_close(&f);
}

Test(queue, an_older_job_is_finished_before_a_younger_is_begun) {
    struct fixture f = fixture_open();
    struct error error;
    char older[UUID_TEXT], younger[UUID_TEXT];
    add_job(&f, "cpu", NULL, 0, older);
    fixture_plan(&f, 1);
    add_job(&f, "cpu", NULL, 0, younger);
    struct work_item item = claim_task(&f, 0);
    OK(queue_complete_tune(f.db, &item, &tuned, &error));
    item = fixture_claim(&f);
    cr_expect_eq(item.kind, WORK_BUILD);
    cr_expect_str_eq(item.job_id, older);
    cr_expect_str_eq(fixture_claim(&f).job_id, younger);
    fixture_close(&f);
}

Test(queue, an_item_that_is_lost_again_and_again_fails_its_job) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    int failed;
    add_job(&f, "cpu", NULL, 0, id);
    fixture_plan(&f, 2);
    for (int i = 0; i < QUEUE_MAX_ATTEMPTS; i++) {
        OK(queue_expire(f.db, &failed, &error));
        cr_expect_eq(failed, 0);
        cr_expect_eq(claim_as(&f, "cpu", FIXTURE_DEVICE, NULL, 0.001).task, 0);
        usleep(5000);
    }
    cr_expect_eq(fixture_claim(&f).task, 1);
    OK(queue_expire(f.db, &failed, &error));
    cr_expect_eq(failed, 1);
    struct job_row *job = fixture_get(&f, id);
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_str_eq(job->error_code, "work-lost");
    cr_expect_not_null(strstr(job->error_text, "task 0"), "%s", job->error_text);
    cr_expect_eq(job->tasks[1].state, JOB_CANCELLED);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM queue"), 0);
    fixture_close(&f);
}

Test(queue, the_last_task_of_a_job_brings_its_build) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT], so[SHA256_HEX];
    const char *state;
    add_job(&f, "cpu", NULL, 0, id);
    fixture_plan(&f, 2);
    struct work_item first = fixture_claim(&f), second = fixture_claim(&f);
    OK(queue_begin_tune(f.db, &first, &(struct tune_begin){"conv2d.cpu", 50, 2e-6}, f.arena, &state, &error));
    cr_expect_null(state);
    OK(queue_complete_tune(f.db, &first, &tuned, &error));
    cr_expect_eq(fixture_claim(&f).id, 0);
    OK(queue_complete_tune(f.db, &second, &(struct tune_result){false, "all_failed", .baseline_s = INFINITY}, &error));
    struct work_item build = fixture_claim(&f);
    cr_assert_eq(build.kind, WORK_BUILD);
    fixture_blob(&f, "module", so);
    OK(queue_complete_build(f.db, &build, &(struct build_result){"{\"p50_us\":12}", so, NULL}, &error));
    struct job_row *job = fixture_get(&f, id);
    cr_expect_eq(job->state, JOB_SUCCEEDED);
    cr_expect_gt(job->finished_us, 0);
    cr_expect_str_eq(job->module_so, so);
    cr_expect_str_eq(job->module_tar, "");
    cr_expect_str_eq(job->result, "{\"p50_us\":12}");
    const struct task_row *task = &job->tasks[0];
    cr_expect_eq(task->state, JOB_SUCCEEDED);
    cr_expect_eq(task->trials_planned, 50);
    cr_expect_str_eq(task->template, "conv2d.cpu");
    cr_expect_eq(task->best_version, 3);
    cr_expect_eq(task->best_index, 7);
    cr_expect_str_eq(task->best_entity, "[[\"tile\",\"ot\",4]]");
    cr_expect_eq(task->best_s, 1e-5);
    cr_expect_eq(task->best_spread_s, 1e-7);
    cr_expect_eq(task->baseline_s, 2e-5);
    cr_expect_eq(task->floor_s, 2e-6);
    cr_expect_eq(task->search_s, 1.5);
    cr_expect_eq(job->tasks[1].state, JOB_FAILED);
    cr_expect_null(job->tasks[1].best_template);
    cr_expect_eq(job->tasks[1].best_s, INFINITY);
    cr_expect_eq(job->tasks[1].floor_s, INFINITY);
    cr_expect_eq(job->n_tasks_ended, 2);
    OK(blob_delete(f.db, so, &error));
    int64_t bytes;
    OK(blob_size(f.db, so, &bytes, &error)); /* the job refers to it */
    fixture_close(&f);
}

Test(queue, a_task_is_searched_anew_a_bounded_number_of_times) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    const char *state;
    add_job(&f, "cpu", NULL, 0, id);
    fixture_plan(&f, 1);
    struct work_item item = fixture_claim(&f);
    struct tune_begin begin = {"conv2d.cpu", 50, 0};
    OK(queue_begin_tune(f.db, &item, &begin, f.arena, &state, &error));
    static const double cost_s = 1e-5;
    struct trial_row rows[3];
    for (int i = 0; i < 3; i++)
        rows[i] = (struct trial_row){.template = i ? "conv2d.cpu" : "other.cpu",
                                     .version = 1,
                                     .index = i,
                                     .entity = "[]",
                                     .cost_s = 1e-5,
                                     .costs_s = &cost_s,
                                     .n_costs = 1};
    OK(trial_insert(f.db, &item, &(struct trial_batch){rows, 3, 2e-5, "{\"a\":1}", 1}, &error));
    OK(queue_renew_tune(f.db, &item, 1, "{\"a\":2}", &error));
    OK(queue_begin_tune(f.db, &item, &begin, f.arena, &state, &error));
    cr_expect_str_eq(state, "{\"a\":2}");
    const struct task_row *task = &fixture_get(&f, id)->tasks[0];
    cr_expect_null(task->best_template);
    cr_expect_eq(task->best_s, INFINITY);
    cr_expect_eq(task->baseline_s, INFINITY);
    cr_expect_eq(task->trials_done, 3);
    cr_expect_eq(task->trials_planned, 52, "two of the three are not the new search's");
    rows[1].version = 2; /* another kernel now */
    rows[1].cost_s = 3e-5;
    OK(trial_insert(f.db, &item, &(struct trial_batch){rows, 2, INFINITY, NULL, 1}, &error));
    task = &fixture_get(&f, id)->tasks[0];
    cr_expect_eq(task->trials_done, 4, "the one that was there is not there twice");
    cr_expect_eq(task->best_version, 2);
    for (int i = 1; i < QUEUE_MAX_RENEWALS; i++)
        OK(queue_renew_tune(f.db, &item, 0, "{}", &error));
    FAILS(queue_renew_tune(f.db, &item, 0, "{}", &error), "templates-differ");
    fixture_close(&f);
}

Test(queue, tasks_that_are_searched_again_come_before_the_build) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    add_job(&f, "cpu", NULL, 0, id);
    fixture_plan(&f, 2);
    struct work_item first = fixture_claim(&f), second = fixture_claim(&f);
    OK(queue_complete_tune(f.db, &first, &tuned, &error));
    OK(queue_complete_tune(f.db, &second, &tuned, &error));
    struct work_item build = fixture_claim(&f);
    cr_assert_eq(build.kind, WORK_BUILD);
    OK(queue_reopen_tunes(f.db, &build, &(int){1}, 1, &error));
    struct work_item again = fixture_claim(&f);
    cr_assert_eq(again.kind, WORK_TUNE);
    cr_expect_eq(again.task, 1);
    cr_expect_eq(fixture_claim(&f).id, 0, "neither the other task nor the build");
    struct job_row *job = fixture_get(&f, id);
    cr_expect_eq(job->state, JOB_RUNNING);
    cr_expect_eq(job->tasks[0].state, JOB_SUCCEEDED);
    cr_expect_null(job->tasks[1].best_template);
    OK(queue_complete_tune(f.db, &again, &tuned, &error));
    cr_expect_eq(fixture_claim(&f).kind, WORK_BUILD);
    fixture_close(&f);
}

struct completer {
    struct fixture *fixture;
    struct work_item item;
};

static void *complete(void *data) {
    struct completer *completer = data;
    struct error error;
    OK(queue_complete_tune(completer->fixture->db, &completer->item, &tuned, &error));
    return NULL;
}

Test(queue, tasks_that_end_at_once_bring_one_build) {
    struct fixture f = fixture_open();
    char id[UUID_TEXT];
    struct completer completers[3];
    pthread_t threads[3];
    add_job(&f, "cpu", NULL, 0, id);
    fixture_plan(&f, 3);
    for (int i = 0; i < 3; i++)
        completers[i] = (struct completer){&f, fixture_claim(&f)};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, complete, &completers[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(fixture_claim(&f).kind, WORK_BUILD);
    cr_expect_eq(fixture_claim(&f).id, 0);
    fixture_close(&f);
}

Test(queue, new_work_is_told_to_those_who_wait) {
    struct fixture f = fixture_open();
    struct error error;
    struct listener *listener;
    char id[UUID_TEXT], payload[LISTENER_PAYLOAD];
    OK(listener_open(f.url, CHANNEL_QUEUE, &listener, &error));
    add_job(&f, "auto", NULL, 0, id);
    OK(listener_wait(listener, deadline_in_s(30), payload, &error));
    cr_expect_str_eq(payload, "any");
    fixture_plan(&f, 2);
    OK(listener_wait(listener, deadline_in_s(30), payload, &error));
    cr_expect_str_eq(payload, "cpu");
    listener_close(listener);
    fixture_close(&f);
}

/* --- How long it waited --- */

static struct queue_waits waits_of(struct fixture *f) {
    struct error error;
    struct queue_waits waits;
    OK(queue_waits(f->db, f->arena, &waits, &error));
    return waits;
}

Test(queue_wait, nothing_was_taken_yet) {
    struct fixture f = fixture_open();
    char job[UUID_TEXT];
    fixture_job(&f, fixture_model(&f, "network")->id, job);
    cr_expect_eq(waits_of(&f).n, 0);
    fixture_close(&f);
}

Test(queue_wait, each_item_counts_once_by_how_long_it_waited) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    fixture_job(&f, fixture_model(&f, "network")->id, job);
    fixture_plan(&f, 3); /* which was taken at once */
    fixture_sql(f.url, "UPDATE queue SET waits_since = now() - (ARRAY[7, 7, 100000])[task + 1] * interval '1 second'");
    for (int i = 0; i < 3; i++) {
        struct work_item item = fixture_claim(&f);
        cr_assert_neq(item.id, 0);
        OK(queue_renew(f.db, &item, 60, &error));
        if (i == 0) { /* given back and taken again */
            OK(queue_put_back(f.db, &item, 0, true, &error));
            cr_assert_eq(fixture_claim(&f).id, item.id);
        }
    }
    struct queue_waits waits = waits_of(&f);
    cr_assert_eq(waits.n, 2);
    cr_assert_eq(waits.n_bounds, 15);
    cr_expect_eq(waits.of[0].kind, WORK_PLAN);
    cr_expect_eq(waits.of[1].kind, WORK_TUNE);
    cr_expect_str_eq(waits.of[1].device_kind, "cpu");
    cr_expect_eq(waits.bounds_s[7], 10);
    cr_expect_eq(waits.of[1].counts[7], 2, "above 5 s, up to 10 s");
    cr_expect_eq(waits.of[1].counts[15], 1, "longer than all bounds");
    int64_t all = 0;
    for (int i = 0; i <= waits.n_bounds; i++)
        all += waits.of[1].counts[i];
    cr_expect_eq(all, 3);
    cr_expect(waits.of[1].total_s >= 100014 && waits.of[1].total_s < 100074, "%g", waits.of[1].total_s);
    fixture_close(&f);
}

Test(queue_wait, a_pause_is_no_waiting) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    fixture_job(&f, fixture_model(&f, "network")->id, job);
    OK(job_pause(f.db, job, &error));
    fixture_sql(f.url, "UPDATE queue SET waits_since = now() - interval '1000 seconds'");
    OK(job_resume(f.db, job, &error));
    cr_assert_neq(fixture_claim(&f).id, 0);
    struct queue_waits waits = waits_of(&f);
    cr_assert_eq(waits.n, 1);
    cr_expect_lt(waits.of[0].total_s, 500);
    fixture_close(&f);
}

Test(queue_wait, a_project_that_goes_takes_none_away) {
    struct fixture f = fixture_open();
    char job[UUID_TEXT];
    fixture_job(&f, fixture_model(&f, "network")->id, job);
    cr_assert_neq(fixture_claim(&f).id, 0);
    fixture_sql(f.url, "DELETE FROM jobs");
    cr_expect_eq(waits_of(&f).n, 1);
    fixture_close(&f);
}
