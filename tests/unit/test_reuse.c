/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "gpu/template/template.h"
#include "scheduler/reuse.h"
#include "service/base/json.h"
#include "service/store/config_store.h"
#include "service/store/reuse_store.h"
#include "service/store/trial_store.h"

#define CONV                                                                              \
    "conv2d(f32:nhwc:1x16x14x14, f32:row:32x16x3x3) -> f32:nhwc:1x32x14x14 {stride=1x1, " \
    "dilation=1x1, pad=1x1x1x1, groups=1}"
#define TEMPLATE "conv2d_direct.cpu"

static int version(void) {
    return template_find(template_builtin, TEMPLATE)->version;
}

static bool put(struct fixture *f, const char *job_id, int template_version, const char *provenance) {
    struct error error;
    bool kept;
    struct config_row config = {.workload = CONV,
                                .device_key = FIXTURE_DEVICE,
                                .template = TEMPLATE,
                                .version = template_version,
                                .index = 7,
                                .entity = "[[\"tile\",\"ot\",4]]",
                                .cost_s = 1e-5,
                                .spread_s = 1e-7,
                                .baseline_s = 2e-5,
                                .provenance = provenance,
                                .job_id = job_id};
    OK(config_put(f->db, &config, &kept, &error));
    return kept;
}

/* A job whose only task had `trials` trials and stopped for the reason; its best became the shared configuration. */
static void searched(struct fixture *f, int trials, const char *reason, char ret_id[UUID_TEXT]) {
    struct error error;
    static const double cost = 1e-5;
    bool created;
    struct job_new new = {.model_id = fixture_model(f, "network")->id,
                          .device = "auto",
                          .options = "{\"tuner\": {\"early_stopping\": 20}}"};
    OK(job_create(f->db, &new, ret_id, &created, &error));
    struct work_item item = fixture_claim(f);
    struct task_new task = {CONV, "a", 1, 1, 1, 50, NULL};
    OK(queue_complete_plan(f->db, &item, &(struct plan_result){"cpu", FIXTURE_DEVICE, &task, 1}, &error));
    item = fixture_claim(f);
    struct trial_row rows[64];
    for (int i = 0; i < trials; i++)
        rows[i] = (struct trial_row){.template = TEMPLATE,
                                     .version = version(),
                                     .index = i,
                                     .entity = "[]",
                                     .costs_s = &cost,
                                     .n_costs = 1,
                                     .cost_s = cost,
                                     .finished_us = 1796095440123456};
    OK(trial_insert(f->db, &item, &(struct trial_batch){rows, trials, INFINITY, NULL, 0}, &error));
    struct tune_result result = {true, reason, TEMPLATE, 1, 7, "[]", 1e-5, 1e-7, 2e-5, 1};
    OK(queue_complete_tune(f->db, &item, &result, &error));
    item = fixture_claim(f);
    OK(queue_complete_build(f->db, &item, &(struct build_result){"{}", NULL, NULL}, &error));
    put(f, ret_id, version(), "{\"trials\": 1}");
}

static bool any(void *data, const struct config_row *config) {
    (void)config;
    return !data;
}

static struct reuse_record *find(struct fixture *f, int64_t trials, int64_t early_stopping) {
    struct error error;
    struct reuse_record *record;
    struct reuse_wish wish = {CONV, FIXTURE_DEVICE, trials, early_stopping, any, NULL};
    OK(reuse_find(f->db, &wish, f->arena, &record, &error));
    return record;
}

Test(reuse, a_search_of_as_many_trials_serves) {
    struct fixture f = fixture_open();
    struct error error;
    struct reuse_record *record;
    char job[UUID_TEXT];
    cr_expect_null(find(&f, 1, 0), "nothing is known");
    searched(&f, 12, "trials", job);
    record = find(&f, 12, 0);
    cr_assert_not_null(record);
    cr_expect_str_eq(record->config.job_id, job);
    cr_expect_eq(record->trial, 7);
    cr_expect_eq(record->trials, 12);
    cr_expect_null(find(&f, 13, 0), "its search was too short");
    struct reuse_wish other = {CONV, "cpu/other/8", 1, 0, any, NULL};
    OK(reuse_find(f.db, &other, f.arena, &record, &error));
    cr_expect_null(record, "another class of devices");
    struct reuse_wish picky = {CONV, FIXTURE_DEVICE, 1, 0, any, ""};
    OK(reuse_find(f.db, &picky, f.arena, &record, &error));
    cr_expect_null(record, "it cannot be used");
    fixture_close(&f);
}

Test(reuse, a_search_that_had_reason_to_end_serves_longer_wishes) {
    struct fixture f = fixture_open();
    char job[UUID_TEXT];
    searched(&f, 12, "early_stopping", job);
    cr_expect_null(find(&f, 50, 0), "it would not have stopped");
    cr_expect_null(find(&f, 50, 21), "it would have been more patient");
    cr_expect_null(find(&f, 51, 20), "it would have been given more");
    cr_expect_not_null(find(&f, 50, 20));
    searched(&f, 10, "space_exhausted", job);
    cr_expect_not_null(find(&f, 100000, 0));
    fixture_close(&f);
}

Test(reuse, an_imported_configuration_counts_by_its_provenance) {
    struct fixture f = fixture_open();
    put(&f, NULL, version(), "{\"source\": \"autotvm\"}");
    cr_expect_null(find(&f, 1, 0));
    put(&f, NULL, version() + 1, "{\"trials\": 64}");
    struct reuse_record *record = find(&f, 64, 0);
    cr_assert_not_null(record);
    cr_expect_null(record->config.job_id);
    cr_expect_eq(record->trial, -1);
    cr_expect_null(find(&f, 65, 0));
    fixture_close(&f);
}

/* ---- for a job ---- */

static struct task_served *serve(struct fixture *f, enum reuse_kind reuse, const char *template) {
    struct error error;
    struct task_served *served;
    struct device_info device = {.target = {.kind = "cpu", .arch = "avx2", .units = 4}, .key = FIXTURE_DEVICE};
    struct job_options options = {.reuse = reuse, .template = template, .trials = 8};
    char job[UUID_TEXT];
    fixture_job(f, fixture_model(f, "asks")->id, job);
    struct reuse_request request = {&device, &options, job, CONV, 8};
    OK(reuse_serve(f->db, &request, f->arena, &served, &error));
    return served;
}

Test(reuse, only_who_asks_for_it_is_served) {
    struct fixture f = fixture_open();
    char job[UUID_TEXT];
    searched(&f, 12, "trials", job);
    cr_expect_null(serve(&f, REUSE_NOTHING, ""));
    cr_expect_null(serve(&f, REUSE_KNOWLEDGE, ""));
    cr_expect_null(serve(&f, REUSE_EXACT, "plain.cpu"), "another template was asked for");
    cr_expect_not_null(serve(&f, REUSE_EXACT, TEMPLATE));
    cr_expect_not_null(serve(&f, REUSE_EXACT, "conv2d_nchw.cuda"), "one that does not serve it is no wish");
    struct task_served *served = serve(&f, REUSE_EXACT, "");
    cr_assert_not_null(served);
    cr_expect_eq(served->index, 7);
    cr_expect_not_null(strstr(served->record, job), "%s", served->record);
    cr_expect_not_null(strstr(served->record, "\"trial\":7"), "%s", served->record);
    cr_expect_not_null(strstr(served->record, "\"found_at\":\"20"), "%s", served->record);
    fixture_close(&f);
}

Test(reuse, another_version_of_the_template_does_not_serve) {
    struct fixture f = fixture_open();
    cr_expect(put(&f, NULL, version() + 1, "{\"trials\": 64}"));
    cr_expect_null(serve(&f, REUSE_EXACT, ""));
    fixture_close(&f);
}

/* A job of two tasks, the first of them served. */
static void plan_served(struct fixture *f, int n_tasks, char ret_id[UUID_TEXT]) {
    struct error error;
    static const struct task_served served = {"{\"job_id\":null}", TEMPLATE, 1, 7, "[]", 1e-5, 1e-7, INFINITY, 2e-6};
    struct task_new tasks[] = {{CONV, "a", 1, 1, 1, 0, &served}, {"dense(c)", "fc", 1, 1, 1, 9, NULL}};
    fixture_job(f, fixture_model(f, "other")->id, ret_id);
    struct work_item item = fixture_claim(f);
    OK(queue_complete_plan(f->db, &item, &(struct plan_result){"cpu", FIXTURE_DEVICE, tasks, n_tasks}, &error));
}

Test(reuse, a_task_that_is_served_is_over_at_once) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    plan_served(&f, 2, id);
    const struct task_row *task = &fixture_get(&f, id)->tasks[0];
    cr_expect_eq(task->state, JOB_SUCCEEDED);
    cr_expect_str_eq(task->stop_reason, "reused");
    cr_expect_str_eq(task->served, "{\"job_id\":null}");
    cr_expect_eq(task->best_index, 7);
    cr_expect_eq(task->best_s, 1e-5);
    cr_expect_eq(task->baseline_s, INFINITY);
    cr_expect_eq(task->floor_s, 2e-6);
    cr_expect_null(fixture_get(&f, id)->tasks[1].served);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM events WHERE kind = 'progress'"), 1);
    struct work_item item = fixture_claim(&f);
    cr_expect_eq(item.kind, WORK_TUNE);
    cr_expect_eq(item.task, 1);
    OK(queue_complete_tune(f.db, &item, &(struct tune_result){.stop_reason = "all_failed", .baseline_s = INFINITY},
                           &error));
    cr_expect_eq(fixture_claim(&f).kind, WORK_BUILD);
    fixture_close(&f);
}

Test(reuse, a_job_of_which_all_is_served_goes_to_the_build) {
    struct fixture f = fixture_open();
    char id[UUID_TEXT];
    plan_served(&f, 1, id);
    cr_expect_eq(fixture_claim(&f).kind, WORK_BUILD);
    fixture_close(&f);
}
