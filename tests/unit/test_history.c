/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "scheduler/domains.h"
#include "scheduler/history.h"
#include "service/store/config_store.h"
#include "service/store/trial_store.h"

#define CONV(channels)                                                                          \
    "conv2d(f32:nhwc:1x" channels "x14x14, f32:row:32x" channels "x3x3) -> f32:nhwc:1x32x14x14" \
    " {stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}"

static const struct target target = {.kind = "cpu", .arch = "avx2", .units = 4};

static struct trial_row trial_of(const struct domain *domain, int64_t index, double cost_s) {
    static const double cost = 1e-5;
    return (struct trial_row){.template = domain->template->name,
                              .version = domain->template->version,
                              .index = index,
                              .entity = "[]",
                              .error_no = isfinite(cost_s) ? 0 : 4,
                              .costs_s = &cost,
                              .n_costs = isfinite(cost_s),
                              .cost_s = cost_s,
                              .finished_us = 1796095440123456};
}

static struct domain domain_over(struct arena *arena, const char *text) {
    struct workload *workload;
    struct domain *domains;
    struct error error;
    int n;
    OK(workload_parse(text, arena, &workload, &error));
    OK(domains_of(workload, &target, "conv2d_direct.cpu", false, arena, &domains, &n, &error));
    return domains[0];
}

/* A job whose first task (of 16 channels) has trials, and whose second (of 24) asks for its history. */
static struct history_request set_up(struct fixture *f, struct domain *domain) {
    struct error error;
    const char *state;
    static char job[UUID_TEXT];
    *f = fixture_open();
    *domain = domain_over(f->arena, CONV("24"));
    fixture_job(f, fixture_model(f, "network")->id, job);
    struct work_item item = fixture_claim(f);
    struct task_new tasks[] = {
        {CONV("16"), "a", 1, 1, 1, 9}, {CONV("24"), "b", 1, 1, 1, 9}, {"odd()", "c", 1, 1, 1, 9}};
    OK(queue_complete_plan(f->db, &item, &(struct plan_result){"cpu", FIXTURE_DEVICE, tasks, 3}, &error));
    item = fixture_claim(f);
    struct tune_begin begin = {.template = domain->template->name, .trials_planned = 9};
    OK(queue_begin_tune(f->db, &item, &begin, f->arena, &state, &error));
    struct trial_row trials[] = {trial_of(domain, 3, 2e-5), trial_of(domain, 1LL << 50, 1e-5),
                                 trial_of(domain, 5, INFINITY)};
    OK(trial_insert(f->db, &item, &(struct trial_batch){trials, 3, INFINITY, NULL}, &error));
    return (struct history_request){FIXTURE_DEVICE, job, 1, CONV("24"), domain, 1};
}

static int load(struct fixture *f, const struct history_request *request, struct past_task **ret) {
    struct error error;
    int n;
    OK(history_load(f->db, request, f->arena, ret, &n, &error));
    return n;
}

Test(history, comes_with_the_space_of_its_own_workload) {
    struct fixture f;
    struct domain domain;
    struct past_task *past;
    struct history_request request = set_up(&f, &domain);
    cr_assert_eq(load(&f, &request, &past), 1);
    cr_expect_eq(past[0].domain.template, domain.template);
    cr_expect_eq(past[0].domain.workload->in[0].shape.dim[1], 16);
    cr_expect_eq(past[0].domain.space->size, domain.template->space(past[0].domain.workload, &target, f.arena)->size);
    cr_assert_eq(past[0].n, 2, "its space has no such index as the second");
    cr_expect_eq(past[0].index[0], 3);
    cr_expect_eq(past[0].cost_s[0], 2e-5);
    cr_expect_eq(past[0].index[1], 5);
    cr_expect_eq(past[0].cost_s[1], INFINITY);
    request.device_key = "cpu/other/8";
    cr_expect_eq(load(&f, &request, &past), 0);
    fixture_close(&f);
}

Test(history, begins_with_the_shared_configuration_of_this_workload) {
    struct fixture f;
    struct error error;
    struct domain domain;
    struct past_task *past;
    struct history_request request = set_up(&f, &domain);
    struct config_row config = {.workload = CONV("24"),
                                .device_key = FIXTURE_DEVICE,
                                .template = domain.template->name,
                                .version = domain.template->version,
                                .index = 7,
                                .entity = "[]",
                                .cost_s = 9e-6,
                                .baseline_s = INFINITY,
                                .provenance = "{}"};
    OK(config_put(f.db, &config, NULL, &error));
    cr_assert_eq(load(&f, &request, &past), 2);
    cr_assert_eq(past[0].n, 1);
    cr_expect_eq(past[0].domain.workload->in[0].shape.dim[1], 24);
    cr_expect_eq(past[0].index[0], 7);
    cr_expect_eq(past[0].cost_s[0], 9e-6);
    config.version++;
    OK(config_put(f.db, &config, NULL, &error));
    cr_expect_eq(load(&f, &request, &past), 1, "what another version meant by it is not known");
    fixture_close(&f);
}
