/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "service/store/event_store.h"

static struct model_row *with_job(struct fixture *f, char ret_job[UUID_TEXT]) {
    *f = fixture_open();
    struct model_row *model = fixture_model(f, "network");
    fixture_job(f, model->id, ret_job);
    return model;
}

static enum job_state state_of(struct fixture *f, const char *id) {
    return fixture_get(f, id)->state;
}

Test(job_state, names_parse_back) {
    struct error error;
    for (int i = 0; i < JOB_STATE_COUNT; i++) {
        enum job_state state;
        OK(job_state_parse(job_state_name((enum job_state)i), &state, &error));
        cr_expect_eq((int)state, i);
    }
    enum job_state state;
    FAILS(job_state_parse("done", &state, &error), "bad-state");
}

Test(job_state, these_moves_are_all_that_there_are) {
    static const char expected[JOB_STATE_COUNT][JOB_STATE_COUNT + 1] = {
        /* to: queued, running, paused, succeeded, failed, cancelled */
        [JOB_QUEUED] = " rp fc",    [JOB_RUNNING] = "  psfc", [JOB_PAUSED] = "qr  fc",
        [JOB_SUCCEEDED] = "      ", [JOB_FAILED] = "q     ",  [JOB_CANCELLED] = "q     ",
    };
    for (int from = 0; from < JOB_STATE_COUNT; from++)
        for (int to = 0; to < JOB_STATE_COUNT; to++)
            cr_expect_eq(job_state_may((enum job_state)from, (enum job_state)to), expected[from][to] != ' ', "%s to %s",
                         job_state_name((enum job_state)from), job_state_name((enum job_state)to));
}

Test(job, it_comes_with_its_first_item_and_event) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT];
    struct event_row *events;
    int count;
    struct model_row *model = with_job(&f, id);
    struct job_row *job = fixture_get(&f, id);
    cr_expect_str_eq(job->model_id, model->id);
    cr_expect_eq(job->state, JOB_QUEUED);
    cr_expect_str_eq(job->options, "{\"batch\": 1}");
    cr_expect_str_eq(job->labels, "{}");
    cr_expect_eq(job->n_tasks, 0);
    cr_expect_null(job->result);
    cr_expect_null(job->error_code);
    cr_expect_eq(job->started_us, 0);
    cr_expect_gt(job->created_us, 1700000000000000);
    OK(event_list(f.db, id, NULL, 0, 10, f.arena, &events, &count, &error));
    cr_assert_eq(count, 1);
    cr_expect_str_eq(events[0].data, "{\"state\":\"queued\"}");
    cr_expect_eq(fixture_claim(&f).kind, WORK_PLAN);
    fixture_close(&f);
}

Test(job, its_tasks_come_in_order_with_it) {
    struct fixture f;
    char id[UUID_TEXT];
    with_job(&f, id);
    fixture_plan(&f, 3);
    struct job_row *job = fixture_get(&f, id);
    cr_assert_eq(job->n_tasks, 3);
    cr_expect_eq(job->n_tasks_ended, 0);
    cr_expect_eq(job->trials_planned, 300);
    cr_expect_str_eq(job->device_key, FIXTURE_DEVICE);
    cr_expect_str_eq(job->options, "{\"batch\": 1}");
    for (int i = 0; i < 3; i++) {
        const struct task_row *task = &job->tasks[i];
        cr_expect_eq(task->number, i);
        cr_expect_str_eq(task->workload, fixture_tasks[i].workload);
        cr_expect_str_eq(task->name, fixture_tasks[i].name);
        cr_expect_eq(task->count, fixture_tasks[i].count);
        cr_expect_eq(task->flops, fixture_tasks[i].flops);
        cr_expect_eq(task->state, JOB_QUEUED);
        cr_expect_eq(task->best_s, INFINITY);
        cr_expect_null(task->best_template);
        cr_expect_null(task->error_texts[5]);
    }
    fixture_close(&f);
}

Test(job, one_of_an_unknown_model_is_refused) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    bool created;
    struct job_new new = {.model_id = "01975f3e-0000-7000-8000-000000000000", .device = "cpu", .options = "{}"};
    FAILS(job_create(f.db, &new, id, &created, &error), "no-such-model");
    cr_expect_str_eq(error.field, "model_id");
    new.model_id = "nonsense";
    FAILS(job_create(f.db, &new, id, &created, &error), "no-such-model");
    fixture_close(&f);
}

Test(job, an_unknown_one_is_not_found) {
    struct fixture f = fixture_open();
    struct error error;
    struct job_row *job;
    const char *ids[] = {"01975f3e-0000-7000-8000-000000000000", "nonsense", ""};
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        FAILS(job_get(f.db, ids[i], f.arena, &job, &error), "no-such-job");
        FAILS(job_cancel(f.db, ids[i], &error), "no-such-job");
        FAILS(job_retry(f.db, ids[i], &error), "no-such-job");
    }
    fixture_close(&f);
}

Test(job, the_same_id_is_the_same_job) {
    struct fixture f = fixture_open();
    struct error error;
    struct model_row *model = fixture_model(&f, "network");
    char wanted[UUID_TEXT], id[UUID_TEXT];
    bool created;
    uuid_make(wanted);
    struct job_new new = {.id = wanted, .model_id = model->id, .device = "cpu", .options = "{}"};
    OK(job_create(f.db, &new, id, &created, &error));
    cr_expect(created);
    cr_expect_str_eq(id, wanted);
    OK(job_create(f.db, &new, id, &created, &error));
    cr_expect_not(created);
    cr_expect_str_eq(id, wanted);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM queue"), 1);
    fixture_close(&f);
}

Test(job, there_is_a_limit_of_open_ones) {
    struct fixture f;
    struct error error;
    char first[UUID_TEXT], id[UUID_TEXT];
    bool created;
    struct model_row *model = with_job(&f, first);
    struct job_new new = {.model_id = model->id, .device = "cpu", .options = "{}", .max_open = 1};
    FAILS(job_create(f.db, &new, id, &created, &error), "too-many-jobs");
    cr_expect_eq(error.class, ERROR_LIMIT);
    OK(job_cancel(f.db, first, &error));
    OK(job_create(f.db, &new, id, &created, &error));
    fixture_close(&f);
}

Test(job, they_are_not_counted_each_time_where_there_is_much_room) {
    struct fixture f;
    struct error error;
    char first[UUID_TEXT], id[UUID_TEXT];
    bool created;
    struct model_row *model = with_job(&f, first);
    struct job_room room = {0};
    struct job_new new = {.model_id = model->id, .device = "cpu", .options = "{}", .max_open = 40, .room = &room};
    OK(job_create(f.db, &new, id, &created, &error));
    cr_expect_eq(atomic_load(&room.left), 2, "a sixteenth of the 39 that were free");
    for (int i = 0; i < 38; i++)
        OK(job_create(f.db, &new, id, &created, &error));
    FAILS(job_create(f.db, &new, id, &created, &error), "too-many-jobs");
    fixture_close(&f);
}

static int list_count(struct fixture *f, struct job_filter filter) {
    struct error error;
    struct job_row *jobs;
    int count;
    bool more;
    filter.limit = filter.limit ? filter.limit : 100;
    OK(job_list(f->db, &filter, f->arena, &jobs, &count, &more, &error));
    return count;
}

Test(job, lists_are_filtered_by_state_model_and_label) {
    struct fixture f;
    struct error error;
    char plain[UUID_TEXT], labelled[UUID_TEXT];
    bool created;
    struct model_row *model = with_job(&f, plain), *other = fixture_model(&f, "other");
    struct job_new new = {
        .model_id = other->id, .device = "cpu", .options = "{}", .labels = "{\"team\": \"vision\", \"x\": \"\"}"};
    OK(job_create(f.db, &new, labelled, &created, &error));
    OK(job_cancel(f.db, plain, &error));
    cr_expect_eq(list_count(&f, (struct job_filter){0}), 2);
    cr_expect_eq(list_count(&f, (struct job_filter){.state = "queued"}), 1);
    cr_expect_eq(list_count(&f, (struct job_filter){.state = "running"}), 0);
    cr_expect_eq(list_count(&f, (struct job_filter){.model_id = model->id}), 1);
    cr_expect_eq(list_count(&f, (struct job_filter){.model_id = "nonsense"}), 0);
    cr_expect_eq(list_count(&f, (struct job_filter){.label = "team"}), 1);
    cr_expect_eq(list_count(&f, (struct job_filter){.label = "team=vision"}), 1);
    cr_expect_eq(list_count(&f, (struct job_filter){.label = "team=audio"}), 0);
    cr_expect_eq(list_count(&f, (struct job_filter){.label = "x="}), 1);
    struct job_row *jobs;
    int count;
    bool more;
    FAILS(job_list(f.db, &(struct job_filter){.state = "odd", .limit = 1}, f.arena, &jobs, &count, &more, &error),
          "bad-state");
    fixture_close(&f);
}

Test(job, pages_list_all_newest_first_with_their_progress) {
    struct fixture f;
    struct error error;
    char ids[3][UUID_TEXT];
    struct job_row *jobs;
    int count;
    bool more;
    struct model_row *model = with_job(&f, ids[0]);
    fixture_plan(&f, 2);
    for (int i = 1; i < 3; i++) {
        usleep(1100);
        fixture_job(&f, model->id, ids[i]);
    }
    OK(job_list(f.db, &(struct job_filter){.limit = 2}, f.arena, &jobs, &count, &more, &error));
    cr_assert_eq(count, 2);
    cr_expect(more);
    cr_expect_str_eq(jobs[0].id, ids[2]);
    OK(job_list(f.db, &(struct job_filter){.limit = 2, .after = jobs[1].id}, f.arena, &jobs, &count, &more, &error));
    cr_assert_eq(count, 1);
    cr_expect_not(more);
    cr_expect_str_eq(jobs[0].id, ids[0]);
    cr_expect_eq(jobs[0].n_tasks, 2);
    cr_expect_eq(jobs[0].trials_planned, 200);
    fixture_close(&f);
}

Test(job, counts_are_by_state) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT], other[UUID_TEXT];
    int64_t counts[JOB_STATE_COUNT];
    struct model_row *model = with_job(&f, id);
    fixture_job(&f, model->id, other);
    OK(job_cancel(f.db, id, &error));
    OK(job_counts(f.db, counts, &error));
    cr_expect_eq(counts[JOB_QUEUED], 1);
    cr_expect_eq(counts[JOB_CANCELLED], 1);
    cr_expect_eq(counts[JOB_RUNNING], 0);
    fixture_close(&f);
}

Test(job, a_second_cancel_is_no_error_and_changes_nothing) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT];
    with_job(&f, id);
    OK(job_cancel(f.db, id, &error));
    int64_t events = fixture_get(&f, id)->last_event, finished = fixture_get(&f, id)->finished_us;
    OK(job_cancel(f.db, id, &error));
    cr_expect_eq(fixture_get(&f, id)->last_event, events);
    cr_expect_eq(fixture_get(&f, id)->finished_us, finished);
    cr_expect_gt(finished, 0);
    fixture_close(&f);
}

Test(job, a_cancelled_one_has_no_work_and_no_open_tasks) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT];
    with_job(&f, id);
    fixture_plan(&f, 2);
    struct work_item item = fixture_claim(&f);
    OK(job_cancel(f.db, id, &error));
    cr_expect_eq(fixture_claim(&f).id, 0);
    FAILS(queue_renew(f.db, &item, 60, &error), "lease-lost");
    struct job_row *job = fixture_get(&f, id);
    cr_expect_eq(job->state, JOB_CANCELLED);
    cr_expect_eq(job->tasks[0].state, JOB_CANCELLED);
    cr_expect_str_eq(job->tasks[1].stop_reason, "cancelled");
    fixture_close(&f);
}

Test(job, a_paused_one_waits_until_it_is_resumed) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT];
    with_job(&f, id);
    OK(job_pause(f.db, id, &error));
    OK(job_pause(f.db, id, &error));
    cr_expect_eq(fixture_claim(&f).id, 0);
    OK(job_resume(f.db, id, &error));
    OK(job_resume(f.db, id, &error));
    cr_expect_eq(state_of(&f, id), JOB_QUEUED);
    struct work_item item = fixture_claim(&f);
    cr_expect_eq(state_of(&f, id), JOB_RUNNING);
    OK(job_pause(f.db, id, &error));
    FAILS(queue_renew(f.db, &item, 60, &error), "lease-lost");
    OK(job_resume(f.db, id, &error));
    cr_expect_eq(state_of(&f, id), JOB_RUNNING);
    cr_expect_eq(fixture_claim(&f).id, item.id);
    fixture_close(&f);
}

Test(job, moves_that_the_state_forbids_are_refused) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT];
    with_job(&f, id);
    OK(job_cancel(f.db, id, &error));
    FAILS(job_pause(f.db, id, &error), "job-state");
    cr_expect_not_null(strstr(error.text, "cancelled"));
    FAILS(job_resume(f.db, id, &error), "job-state");
    fixture_close(&f);
}

Test(job, one_that_has_succeeded_stays_so) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT];
    with_job(&f, id);
    fixture_plan(&f, 0);
    struct work_item build = fixture_claim(&f);
    cr_assert_eq(build.kind, WORK_BUILD);
    OK(queue_complete_build(f.db, &build, &(struct build_result){"{\"p50_us\": 1}", NULL, NULL}, &error));
    FAILS(job_cancel(f.db, id, &error), "job-state");
    cr_expect_eq(error.class, ERROR_CONFLICT);
    FAILS(job_pause(f.db, id, &error), "job-state");
    FAILS(job_resume(f.db, id, &error), "job-state");
    FAILS(job_retry(f.db, id, &error), "job-state");
    cr_expect_eq(state_of(&f, id), JOB_SUCCEEDED);
    cr_expect_str_eq(fixture_get(&f, id)->result, "{\"p50_us\": 1}");
    fixture_close(&f);
}

/* As if so many seconds had passed since. */
static void let_pass(struct fixture *f, const char *column, int seconds) {
    char sql[160];
    snprintf(sql, sizeof sql, "UPDATE jobs SET %s = %s - interval '%d seconds'", column, column, seconds);
    fixture_sql(f->url, sql);
}

Test(job, the_time_in_which_it_is_paused_or_ended_does_not_count) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT];
    with_job(&f, id);
    cr_expect_eq(fixture_get(&f, id)->elapsed_s, INFINITY, "it has not started");
    OK(job_pause(f.db, id, &error));
    let_pass(&f, "idle_since", 1000);
    OK(job_resume(f.db, id, &error));
    fixture_plan(&f, 1);
    cr_expect_lt(fixture_get(&f, id)->elapsed_s, 60);
    let_pass(&f, "started_at", 5100);
    cr_expect_float_eq(fixture_get(&f, id)->elapsed_s, 5100, 60);
    OK(job_pause(f.db, id, &error));
    let_pass(&f, "idle_since", 2000);
    cr_expect_float_eq(fixture_get(&f, id)->elapsed_s, 3100, 60);
    OK(job_resume(f.db, id, &error));
    cr_expect_float_eq(fixture_get(&f, id)->elapsed_s, 3100, 60);
    OK(job_pause(f.db, id, &error));
    OK(job_cancel(f.db, id, &error));
    let_pass(&f, "idle_since", 1000);
    OK(job_retry(f.db, id, &error));
    cr_expect_float_eq(fixture_get(&f, id)->elapsed_s, 2100, 60);
    fixture_close(&f);
}

Test(job, a_clock_that_is_set_back_makes_no_negative_time) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT];
    with_job(&f, id);
    fixture_plan(&f, 1);
    let_pass(&f, "started_at", -5000);
    cr_expect_eq(fixture_get(&f, id)->elapsed_s, 0);
    let_pass(&f, "started_at", 5100);
    OK(job_pause(f.db, id, &error));
    let_pass(&f, "idle_since", -5000);
    OK(job_resume(f.db, id, &error));
    cr_expect_float_eq(fixture_get(&f, id)->elapsed_s, 100, 60);
    fixture_close(&f);
}

Test(job, a_retry_goes_on_with_what_is_missing) {
    struct fixture f;
    struct error error, why;
    char id[UUID_TEXT];
    with_job(&f, id);
    OK(job_cancel(f.db, id, &error));
    OK(job_retry(f.db, id, &error));
    OK(job_retry(f.db, id, &error));
    fixture_plan(&f, 2); /* not planned yet: the plan */
    struct work_item item = fixture_claim(&f);
    struct tune_result tuned = {.succeeded = false, .stop_reason = "all_failed", .baseline_s = INFINITY};
    OK(queue_complete_tune(f.db, &item, &tuned, &error));
    item = fixture_claim(&f);
    error_set(&why, ERROR_DEVICE, "device-gone", NULL, "The device went away.");
    OK(queue_fail(f.db, &item, &why, &error));
    struct job_row *job = fixture_get(&f, id);
    cr_expect_eq(job->state, JOB_FAILED);
    cr_expect_str_eq(job->error_code, "device-gone");
    cr_expect_str_eq(job->error_text, "The device went away.");
    OK(job_retry(f.db, id, &error));
    cr_expect_null(fixture_get(&f, id)->error_code);
    item = fixture_claim(&f); /* one task had ended: the other */
    cr_expect_eq(item.kind, WORK_TUNE);
    cr_expect_eq(item.task, 1);
    OK(queue_complete_tune(f.db, &item, &tuned, &error));
    OK(job_cancel(f.db, id, &error));
    OK(job_retry(f.db, id, &error));
    cr_expect_eq(fixture_claim(&f).kind, WORK_BUILD); /* both had: the build */
    fixture_close(&f);
}

/* Whether the job's version is another than it was when this was asked last. */
static bool changed(struct fixture *f, const char *id, struct job_version *last) {
    struct job_version now;
    struct error error;
    OK(job_version_get(f->db, id, &now, &error));
    struct job_row *job = fixture_get(f, id);
    cr_expect_eq(now.last_event, job->last_event);
    cr_expect_eq(now.row, job->row);
    cr_expect_eq(now.state, job->state);
    bool other = now.last_event != last->last_event;
    *last = now;
    return other;
}

Test(job, its_version_tells_of_every_change) {
    struct fixture f;
    struct error error;
    char id[UUID_TEXT];
    const char *state;
    struct job_version version = {0};
    with_job(&f, id);
    cr_expect(changed(&f, id, &version));
    cr_expect_not(changed(&f, id, &version));
    fixture_plan(&f, 1);
    cr_expect(changed(&f, id, &version), "planned");
    struct work_item item = fixture_claim(&f);
    struct tune_begin begin = {"conv2d.cpu", 50, 2e-6};
    OK(queue_begin_tune(f.db, &item, &begin, f.arena, &state, &error));
    cr_expect(changed(&f, id, &version), "begun");
    OK(queue_begin_tune(f.db, &item, &begin, f.arena, &state, &error));
    cr_expect_not(changed(&f, id, &version), "begun again as before");
    begin.trials_planned = 60;
    OK(queue_begin_tune(f.db, &item, &begin, f.arena, &state, &error));
    cr_expect(changed(&f, id, &version), "more trials are planned");
    begin.floor_s = 3e-6;
    OK(queue_begin_tune(f.db, &item, &begin, f.arena, &state, &error));
    cr_expect(changed(&f, id, &version), "the floor is another");
    OK(job_pause(f.db, id, &error));
    cr_expect(changed(&f, id, &version), "paused");
    OK(job_resume(f.db, id, &error));
    cr_expect(changed(&f, id, &version), "resumed");
    OK(job_cancel(f.db, id, &error));
    cr_expect(changed(&f, id, &version), "cancelled");
    OK(job_retry(f.db, id, &error));
    cr_expect(changed(&f, id, &version), "tried again");
    FAILS(job_version_get(f.db, "00000000-0000-7000-8000-00000000abcd", &version, &error), "no-such-job");
    FAILS(job_version_get(f.db, "none", &version, &error), "no-such-job");
    fixture_close(&f);
}
