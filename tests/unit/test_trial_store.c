/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "service/store/event_store.h"
#include "service/store/listener.h"
#include "service/store/trial_store.h"
#include "service/base/clock.h"

static const double costs[] = {1.1e-5, 1e-5, 1.25e-5};

static struct trial_row good(int64_t index, double cost_s) {
    return (struct trial_row){.template = "conv2d.cpu",
                              .version = 2,
                              .index = index,
                              .entity = "[[\"tile\", \"ot\", 4]]",
                              .costs_s = costs,
                              .n_costs = 3,
                              .cost_s = cost_s,
                              .build_s = 0.25,
                              .run_s = 0.5,
                              .finished_us = 1796095440123456,
                              .context = "{\"driver\": \"1\"}"};
}

static struct trial_row bad(int64_t index, int error_no, const char *text) {
    struct trial_row trial = good(index, INFINITY);
    trial.error_no = error_no;
    trial.error_text = text;
    trial.n_costs = 0;
    trial.context = NULL;
    return trial;
}

/* A job with two tasks, the first of them claimed and begun. */
static struct work_item begin(struct fixture *f, char ret_job[UUID_TEXT]) {
    struct error error;
    const char *state;
    *f = fixture_open();
    fixture_job(f, fixture_model(f, "network")->id, ret_job);
    fixture_plan(f, 2);
    struct work_item item = fixture_claim(f);
    OK(queue_begin_tune(f->db, &item, &(struct tune_begin){"conv2d.cpu", 10, 0}, f->arena, &state, &error));
    return item;
}

static void store(struct fixture *f, const struct work_item *item, struct trial_row *trials, int n) {
    struct error error;
    OK(trial_insert(f->db, item, &(struct trial_batch){trials, n, INFINITY, NULL}, &error));
}

static int list_all(struct fixture *f, const char *job, struct trial_row **ret) {
    struct error error;
    int count;
    OK(trial_list(f->db, &(struct trial_page){job, -1, -1, -1, 100}, f->arena, ret, &count, &error));
    return count;
}

Test(trial, records_come_back_as_they_went_in) {
    struct fixture f;
    char job[UUID_TEXT];
    struct trial_row *got;
    struct work_item item = begin(&f, job);
    store(&f, &item, (struct trial_row[]){good(7, 1.1e-5), bad(3, 5, "row 1: 2 \xff instead of \"3\"\n")}, 2);
    cr_assert_eq(list_all(&f, job, &got), 2);
    cr_expect_eq(got[0].task, 0);
    cr_expect_eq(got[0].number, 0);
    cr_expect_str_eq(got[0].template, "conv2d.cpu");
    cr_expect_eq(got[0].version, 2);
    cr_expect_eq(got[0].index, 7);
    cr_expect_not_null(strstr(got[0].entity, "tile"));
    cr_expect_null(got[0].error_text);
    cr_assert_eq(got[0].n_costs, 3);
    cr_expect_arr_eq(got[0].costs_s, costs, sizeof costs);
    cr_expect_eq(got[0].cost_s, 1.1e-5);
    cr_expect_eq(got[0].build_s, 0.25);
    cr_expect_eq(got[0].finished_us, 1796095440123456);
    cr_expect_not_null(strstr(got[0].context, "driver"));
    cr_expect_eq(got[1].number, 1);
    cr_expect_eq(got[1].error_no, 5);
    cr_expect_str_eq(got[1].error_text, "row 1: 2 ? instead of \"3\"\n");
    cr_expect_eq(got[1].n_costs, 0);
    cr_expect_eq(got[1].cost_s, INFINITY);
    cr_expect_null(got[1].context);
    fixture_close(&f);
}

Test(trial, the_task_counts_them_and_keeps_the_best) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    struct work_item item = begin(&f, job);
    struct trial_row first[] = {good(1, 4e-5), bad(2, 6, "slow"), good(3, 2e-5), bad(4, 6, "slower")};
    OK(trial_insert(f.db, &item, &(struct trial_batch){first, 4, 4e-5, NULL}, &error));
    store(&f, &item, (struct trial_row[]){good(5, 3e-5), bad(6, 5, "wrong")}, 2);
    const struct task_row *task = &fixture_get(&f, job)->tasks[0];
    cr_expect_eq(task->trials_done, 6);
    cr_expect_eq(task->errors[0], 3);
    cr_expect_eq(task->errors[5], 1);
    cr_expect_eq(task->errors[6], 2);
    cr_expect_str_eq(task->error_texts[6], "slow");
    cr_expect_str_eq(task->error_texts[5], "wrong");
    cr_expect_null(task->error_texts[0]);
    cr_expect_eq(task->best_s, 2e-5);
    cr_expect_eq(task->best_index, 3);
    cr_expect_str_eq(task->best_template, "conv2d.cpu");
    cr_expect_eq(task->baseline_s, 4e-5);
    cr_expect_eq(task->state, JOB_RUNNING);
    cr_expect_eq(task->floor_s, INFINITY);
    cr_expect_eq(fixture_get(&f, job)->trials_done, 6);
    fixture_close(&f);
}

Test(trial, one_that_the_task_has_already_is_left_out) {
    struct fixture f;
    char job[UUID_TEXT];
    struct trial_row *got;
    struct work_item item = begin(&f, job);
    store(&f, &item, (struct trial_row[]){good(1, 4e-5), good(2, 3e-5)}, 2);
    store(&f, &item, (struct trial_row[]){good(2, 1e-5), good(3, 5e-5)}, 2);
    cr_assert_eq(list_all(&f, job, &got), 3);
    cr_expect_eq(got[2].index, 3);
    cr_expect_eq(got[2].number, 2);
    cr_expect_eq(fixture_get(&f, job)->tasks[0].trials_done, 3);
    cr_expect_eq(fixture_get(&f, job)->tasks[0].best_s, 3e-5);
    fixture_close(&f);
}

Test(trial, spaces_of_several_templates_lie_side_by_side) {
    struct fixture f;
    char job[UUID_TEXT];
    struct trial_row *got;
    struct work_item item = begin(&f, job);
    struct trial_row other = good(1, 2e-5);
    other.template = "winograd.cpu";
    store(&f, &item, (struct trial_row[]){good(1, 4e-5), other}, 2);
    store(&f, &item, &other, 1);
    cr_assert_eq(list_all(&f, job, &got), 2);
    cr_expect_str_eq(got[1].template, "winograd.cpu");
    cr_expect_str_eq(fixture_get(&f, job)->tasks[0].best_template, "winograd.cpu");
    fixture_close(&f);
}

Test(trial, a_search_that_goes_on_is_told_of_each_in_order) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    struct trial_point *points;
    int n;
    struct work_item item = begin(&f, job);
    const double odd = 1.0 / 3e5;
    store(&f, &item, (struct trial_row[]){good(9, odd), bad(2, 6, "slow")}, 2);
    store(&f, &item, (struct trial_row[]){good(4, 3e-5)}, 1);
    OK(trial_points(f.db, job, 0, f.arena, &points, &n, &error));
    cr_assert_eq(n, 3);
    cr_expect_str_eq(points[0].template, "conv2d.cpu");
    cr_expect_eq(points[0].version, 2);
    cr_expect_eq(points[0].index, 9);
    cr_expect_eq(points[0].cost_s, odd, "to the last bit");
    cr_expect_eq(points[1].index, 2);
    cr_expect_eq(points[1].cost_s, INFINITY);
    cr_expect_eq(points[2].index, 4);
    OK(trial_points(f.db, job, 1, f.arena, &points, &n, &error));
    cr_expect_eq(n, 0);
    fixture_close(&f);
}

static int ask_history(struct fixture *f, const char *device, const char *job, int task, int trials,
                       struct history_task **ret) {
    struct error error;
    int n;
    struct history_query query = {.device_key = device,
                                  .job_id = job,
                                  .task = task,
                                  .templates = (const char *const[]){"conv2d.cpu", "winograd.cpu"},
                                  .versions = (const int[]){2, 7},
                                  .n_templates = 2,
                                  .trials = trials};
    OK(trial_history(f->db, &query, f->arena, ret, &n, &error));
    return n;
}

Test(trial, history_is_of_other_tasks_by_task_and_template) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    const char *state;
    struct history_task *history;
    struct work_item first = begin(&f, job), second = fixture_claim(&f);
    struct trial_row other = good(5, 3e-5), old = good(6, 1e-5), stranger = good(7, 1e-5);
    other.template = "winograd.cpu";
    other.version = 7;
    old.version = 1;
    stranger.template = "dense.cpu";
    store(&f, &first, (struct trial_row[]){good(1, 4e-5), bad(2, 6, "slow"), other, old, stranger}, 5);
    OK(queue_begin_tune(f.db, &second, &(struct tune_begin){"winograd.cpu", 10, 0}, f.arena, &state, &error));
    store(&f, &second, (struct trial_row[]){good(8, 2e-5)}, 1);
    cr_assert_eq(ask_history(&f, FIXTURE_DEVICE, job, 1, 3000, &history), 2);
    cr_expect_str_eq(history[0].workload, "conv2d(a)");
    cr_expect_str_eq(history[0].template, "conv2d.cpu");
    cr_assert_eq(history[0].n, 2, "not the one of another version");
    cr_expect_eq(history[0].index[0], 1);
    cr_expect_eq(history[0].cost_s[0], 4e-5);
    cr_expect_eq(history[0].index[1], 2);
    cr_expect_eq(history[0].cost_s[1], INFINITY);
    cr_expect_str_eq(history[1].template, "winograd.cpu");
    cr_assert_eq(history[1].n, 1);
    cr_expect_eq(history[1].index[0], 5);
    cr_assert_eq(ask_history(&f, FIXTURE_DEVICE, job, 0, 3000, &history), 1);
    cr_expect_str_eq(history[0].workload, "conv2d(b)");
    cr_expect_eq(ask_history(&f, FIXTURE_DEVICE, job, 7, 3000, &history), 3);
    cr_expect_eq(ask_history(&f, "cpu/other/8", job, 7, 3000, &history), 0);
    fixture_close(&f);
}

/* Jobs of the fixture's device with ten tasks of a hundred trials each; the latest has the largest id. */
static void make_history(struct fixture *f, int jobs) {
    char sql[1600];
    snprintf(
        sql, sizeof sql,
        "INSERT INTO jobs (id, model_id, device, device_kind, device_key, options)"
        " SELECT ('00000000-0000-7000-8000-' || lpad(j::text, 12, '0'))::uuid, gen_random_uuid(), 'cpu', 'cpu',"
        " '" FIXTURE_DEVICE "', '{}' FROM generate_series(1, %d) j;"
        "INSERT INTO tasks (job_id, number, workload, name, count, flops, bytes, template, trials_planned,"
        " trials_done) SELECT id, t, 'w' || t, 'n', 1, 1, 1, CASE WHEN t < 9 THEN 'conv2d.cpu' ELSE 'x' END, 100,"
        " 100 FROM jobs, generate_series(0, 9) t WHERE id < '01000000-0000-7000-8000-000000000000';"
        "INSERT INTO trials (job_id, task, number, template, version, index, entity, error_no, costs_s, cost_s,"
        " build_s, run_s, finished_at) SELECT job_id, tasks.number, i, CASE WHEN tasks.number < 9 THEN 'conv2d.cpu'"
        " ELSE 'x' END, 2, i, '[]', 0, '{1}', i * 1e-6, 0, 0, now()"
        " FROM tasks, generate_series(0, 99) i WHERE job_id < '01000000-0000-7000-8000-000000000000';"
        "ANALYZE",
        jobs);
    fixture_sql(f->url, sql);
}

Test(trial, history_is_the_latest_and_so_much_at_most) {
    struct fixture f;
    char job[UUID_TEXT];
    struct history_task *history;
    begin(&f, job);
    make_history(&f, 6);
    int n = ask_history(&f, FIXTURE_DEVICE, job, 0, 1000, &history);
    cr_assert_eq(n, 10, "nine tasks of the latest job and one of the one before, not %d", n);
    for (int i = 0; i < n; i++)
        cr_expect_eq(history[i].n, 100);
    cr_expect_str_eq(history[0].workload, "w0");
    cr_expect_str_eq(history[9].workload, "w0");
    cr_expect_eq(history[9].index[99], 99);
    fixture_close(&f);
}

Test(trial, a_lost_lease_stores_nothing) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    struct work_item item = begin(&f, job), stranger = item;
    struct trial_row trial = good(1, 1e-5);
    uuid_make(stranger.token);
    FAILS(trial_insert(f.db, &stranger, &(struct trial_batch){&trial, 1, INFINITY, "{}"}, &error), "lease-lost");
    OK(job_cancel(f.db, job, &error));
    FAILS(trial_insert(f.db, &item, &(struct trial_batch){&trial, 1, INFINITY, "{}"}, &error), "lease-lost");
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM trials"), 0);
    fixture_close(&f);
}

Test(trial, the_search_goes_on_from_its_stored_state_elsewhere) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    const char *state;
    struct trial_row trial = good(1, 1e-5);
    struct work_item item = begin(&f, job);
    OK(trial_insert(f.db, &item, &(struct trial_batch){&trial, 1, INFINITY, "{\"at\":1}"}, &error));
    OK(trial_insert(f.db, &item, &(struct trial_batch){NULL, 0, INFINITY, "{\"at\":2}"}, &error));
    OK(queue_put_back(f.db, &item, 0, false, &error));
    item = fixture_claim(&f);
    cr_assert_eq(item.task, 0);
    OK(queue_begin_tune(f.db, &item, &(struct tune_begin){"conv2d.cpu", 10, 0}, f.arena, &state, &error));
    cr_expect_str_eq(state, "{\"at\":2}");
    fixture_close(&f);
}

Test(trial, time_is_counted_by_task_and_going_on_is_no_event) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    const char *state;
    struct event_row *events;
    int count;
    struct trial_row trials[] = {good(1, 4e-5), good(2, 3e-5)};
    struct work_item item = begin(&f, job);
    OK(trial_insert(f.db, &item, &(struct trial_batch){&trials[0], 1, INFINITY, "{}", 1.25}, &error));
    OK(trial_insert(f.db, &item, &(struct trial_batch){&trials[1], 1, INFINITY, "{}", 0.5}, &error));
    cr_expect_eq(fixture_get(&f, job)->tasks[0].search_s, 1.75);
    int64_t before = fixture_get(&f, job)->last_event;
    OK(event_list(f.db, job, "progress", before - 1, 10, f.arena, &events, &count, &error));
    cr_assert_eq(count, 1);
    cr_expect_not_null(strstr(events[0].data, "\"elapsed_s\" : 1.75"), "%s", events[0].data);
    OK(queue_begin_tune(f.db, &item, &(struct tune_begin){"conv2d.cpu", 10, 0}, f.arena, &state, &error));
    cr_expect_eq(fixture_get(&f, job)->last_event, before);
    fixture_close(&f);
}

Test(trial, progress_starts_the_count_of_attempts_anew) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    struct work_item item = begin(&f, job);
    OK(queue_put_back(f.db, &item, 0, true, &error));
    item = fixture_claim(&f);
    cr_expect_eq(item.attempts, 2);
    store(&f, &item, (struct trial_row[]){good(1, 1e-5)}, 1);
    OK(queue_put_back(f.db, &item, 0, true, &error));
    cr_expect_eq(fixture_claim(&f).attempts, 1);
    fixture_close(&f);
}

Test(trial, each_has_an_event_and_the_batch_one_of_progress) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT], payload[LISTENER_PAYLOAD];
    struct event_row *events;
    struct listener *listener;
    int count;
    struct work_item item = begin(&f, job);
    int64_t before = fixture_get(&f, job)->last_event;
    OK(listener_open(f.url, CHANNEL_JOB, &listener, &error));
    store(&f, &item, (struct trial_row[]){good(1, 4e-5), bad(2, 6, "slow"), good(3, 2e-5)}, 3);
    OK(listener_wait(listener, deadline_in_s(30), payload, &error));
    cr_expect_str_eq(payload, job);
    listener_close(listener);
    OK(event_list(f.db, job, NULL, before, 10, f.arena, &events, &count, &error));
    cr_assert_eq(count, 4);
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(events[i].number, before + 1 + i);
        cr_expect_str_eq(events[i].kind, i < 3 ? "trial" : "progress");
    }
    cr_expect_not_null(strstr(events[1].data, "\"error_no\" : 6"), "%s", events[1].data);
    cr_expect_not_null(strstr(events[1].data, "\"template\" : \"conv2d.cpu\""), "%s", events[1].data);
    cr_expect_not_null(strstr(events[1].data, "\"cost_us\" : null"), "%s", events[1].data);
    cr_expect_not_null(strstr(events[3].data, "\"trials_done\" : 3"), "%s", events[3].data);
    cr_expect_not_null(strstr(events[3].data, "\"tasks\" : 2"), "%s", events[3].data);
    cr_expect_not_null(strstr(events[3].data, "\"best_us\" : 20"), "%s", events[3].data);
    fixture_close(&f);
}

static int count_trial(void *data, const struct trial_row *trial, struct error *error) {
    int64_t *next = data;
    cr_assert_eq(trial->number, (*next)++);
    (void)error;
    return 0;
}

static int stop_at_once(void *data, const struct trial_row *trial, struct error *error) {
    cr_assert_null(data);
    cr_assert_eq(trial->number, 0);
    return error_set(error, ERROR_CANCELLED, "enough", NULL, "Enough.");
}

Test(trial, a_walk_over_many_pages_meets_each_once) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    int64_t next = 0;
    struct trial_row trials[300];
    struct work_item item = begin(&f, job);
    for (int batch = 0; batch < 4; batch++) {
        for (int i = 0; i < 300; i++)
            trials[i] = good(batch * 300 + i, 1e-5);
        store(&f, &item, trials, 300);
    }
    OK(trial_each(f.db, job, -1, count_trial, &next, &error));
    cr_expect_eq(next, 1200);
    next = 0;
    OK(trial_each(f.db, job, 1, count_trial, &next, &error));
    cr_expect_eq(next, 0);
    OK(trial_each(f.db, "nonsense", -1, count_trial, &next, &error));
    FAILS(trial_each(f.db, job, 0, stop_at_once, NULL, &error), "enough");
    fixture_close(&f);
}
