/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "service/store/project_store.h"

/* A project with a model, and jobs of one task each. */
struct team {
    char id[UUID_TEXT], model_id[UUID_TEXT];
};

static struct team make_team(struct fixture *f, const char *name, int64_t gpu_s) {
    struct error error;
    struct project_row *project;
    struct model_row *model;
    struct team team;
    char sha256[SHA256_HEX];
    bool created;
    struct project_new new = {name, {QUOTA_NONE, QUOTA_NONE, gpu_s}, {VISIBLE_PUBLIC}};
    OK(project_create(f->db, &new, f->arena, &project, &error));
    fixture_blob(f, "network", sha256);
    OK(model_create(f->db, &(struct model_new){project->id, "m", sha256, 7, "{}"}, f->arena, &model, &created, &error));
    memcpy(team.id, project->id, sizeof team.id);
    memcpy(team.model_id, model->id, sizeof team.model_id);
    return team;
}

static void submit(struct fixture *f, const struct team *team, int priority, int n) {
    struct error error;
    char id[UUID_TEXT];
    bool created;
    struct job_new new = {
        .project_id = team->id, .model_id = team->model_id, .device = "auto", .priority = priority, .options = "{}"};
    for (int i = 0; i < n; i++)
        OK(job_create(f->db, &new, id, &created, &error));
}

static const struct claimant gpu = {"01975f3e-0000-7000-8000-000000000001", "cuda", 0, "cuda/test", NULL, 60};

static struct work_item claim(struct fixture *f) {
    struct error error;
    struct work_item item;
    bool found;
    OK(queue_claim(f->db, &gpu, &item, &found, &error));
    return found ? item : (struct work_item){0};
}

static bool is_of(struct fixture *f, const struct work_item *item, const struct team *team) {
    struct error error;
    char id[UUID_TEXT];
    cr_assert_neq(item->id, 0, "nothing was claimed");
    OK(project_of_job(f->db, item->job_id, id, &error));
    return strcmp(id, team->id) == 0;
}

/* As if the lease had lasted so long already. */
static void let_pass(struct fixture *f, const struct work_item *item, double seconds) {
    char sql[200];
    snprintf(sql, sizeof sql,
             "ALTER TABLE queue DISABLE TRIGGER USER; UPDATE queue SET charged_at = charged_at - "
             "%f * interval '1 second' WHERE id = %lld; ALTER TABLE queue ENABLE TRIGGER USER",
             seconds, (long long)item->id);
    fixture_sql(f->url, sql);
}

static void finish(struct fixture *f, const struct work_item *item) {
    struct error error;
    struct error why = {.class = ERROR_IO, .code = "x", .text = "y"};
    OK(queue_fail(f->db, item, &why, &error));
}

Test(fair_share, a_hundred_jobs_do_not_starve_one) {
    struct fixture f = fixture_open();
    struct team many = make_team(&f, "many", QUOTA_NONE), one = make_team(&f, "one", QUOTA_NONE);
    submit(&f, &many, 100, 100);
    struct work_item first = claim(&f);
    cr_expect(is_of(&f, &first, &many));
    submit(&f, &one, 0, 1);
    struct work_item second = claim(&f);
    cr_expect(is_of(&f, &second, &one), "it comes before 99 others that are older and of higher priority");
    fixture_close(&f);
}

Test(fair_share, each_gets_half_of_the_time_whatever_the_number_of_its_jobs_and_the_length_of_its_leases) {
    struct fixture f = fixture_open();
    struct team many = make_team(&f, "many", QUOTA_NONE), few = make_team(&f, "few", QUOTA_NONE);
    double seconds[2] = {0, 0};
    submit(&f, &many, 0, 60);
    submit(&f, &few, 0, 30);
    for (int i = 0; i < 45; i++) {
        struct work_item item = claim(&f);
        bool is_few = is_of(&f, &item, &few);
        double length = is_few ? 30 : 10;
        let_pass(&f, &item, length);
        finish(&f, &item);
        seconds[is_few] += length;
    }
    cr_expect_lt(fabs(seconds[0] - seconds[1]), 31, "%f s and %f s", seconds[0], seconds[1]);
    fixture_close(&f);
}

Test(fair_share, devices_that_claim_at_once_are_spread) {
    struct fixture f = fixture_open();
    struct team a = make_team(&f, "a", QUOTA_NONE), b = make_team(&f, "b", QUOTA_NONE);
    int of_a = 0;
    submit(&f, &a, 0, 8);
    submit(&f, &b, 0, 8);
    for (int i = 0; i < 8; i++) {
        struct work_item item = claim(&f);
        of_a += is_of(&f, &item, &a);
    }
    cr_expect_eq(of_a, 4);
    fixture_close(&f);
}

Test(fair_share, priority_counts_within_a_project) {
    struct fixture f = fixture_open();
    struct team a = make_team(&f, "a", QUOTA_NONE);
    submit(&f, &a, 0, 1);
    submit(&f, &a, 5, 1);
    struct work_item item = claim(&f);
    cr_expect_eq(fixture_get(&f, item.job_id)->priority, 5);
    fixture_close(&f);
}

Test(fair_share, a_slice_ends_when_another_project_had_less) {
    struct fixture f = fixture_open();
    struct error error;
    struct team a = make_team(&f, "a", QUOTA_NONE), b = make_team(&f, "b", QUOTA_NONE);
    bool given_up;
    submit(&f, &a, 9, 1);
    struct work_item item = claim(&f);
    let_pass(&f, &item, 20);
    OK(queue_yield(f.db, &gpu, &item, 1, &given_up, &error));
    cr_expect_not(given_up, "nobody else waits");
    submit(&f, &b, 0, 1);
    OK(queue_yield(f.db, &gpu, &item, 1, &given_up, &error));
    cr_expect(given_up);
    item = claim(&f);
    cr_assert(is_of(&f, &item, &b));
    OK(queue_yield(f.db, &gpu, &item, 1, &given_up, &error));
    cr_expect_not(given_up, "the other one had more");
    let_pass(&f, &item, 50);
    OK(queue_yield(f.db, &gpu, &item, 1, &given_up, &error));
    cr_expect(given_up, "now it had less");
    fixture_close(&f);
}

static double number(struct fixture *f, const char *column, const struct team *team) {
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT round(%s) FROM project_use WHERE project_id = '%s' AND device_kind = 'cuda'",
             column, team->id);
    return (double)fixture_number(f->url, sql);
}

Test(fair_share, every_way_that_a_lease_ends_is_charged_once) {
    struct fixture f = fixture_open();
    struct error error;
    struct team a = make_team(&f, "a", QUOTA_NONE);
    bool given_up;
    submit(&f, &a, 0, 1);
    struct work_item item = claim(&f);
    cr_expect_eq(number(&f, "running", &a), 1);
    let_pass(&f, &item, 10);
    OK(queue_renew(f.db, &item, 60, &error));
    cr_expect_eq(number(&f, "day_s", &a), 10);
    cr_expect_eq(number(&f, "running", &a), 1);
    let_pass(&f, &item, 10);
    OK(queue_put_back(f.db, &item, 0, false, &error));
    cr_expect_eq(number(&f, "day_s", &a), 20);
    cr_expect_eq(number(&f, "running", &a), 0);
    item = claim(&f);
    let_pass(&f, &item, 10);
    OK(queue_yield(f.db, &gpu, &item, 1, &given_up, &error));
    cr_expect_eq(number(&f, "day_s", &a), 30);
    let_pass(&f, &item, 10);
    OK(job_pause(f.db, item.job_id, &error));
    cr_expect_eq(number(&f, "day_s", &a), 40);
    cr_expect_eq(number(&f, "running", &a), 0);
    OK(job_resume(f.db, item.job_id, &error));
    item = claim(&f);
    let_pass(&f, &item, 10);
    OK(job_cancel(f.db, item.job_id, &error));
    cr_expect_eq(number(&f, "day_s", &a), 50);
    cr_expect_eq(number(&f, "running", &a), 0);
    fixture_close(&f);
}

Test(fair_share, a_lease_that_ran_out_is_charged_to_its_end_and_the_next_anew) {
    struct fixture f = fixture_open();
    struct team a = make_team(&f, "a", QUOTA_NONE);
    submit(&f, &a, 0, 1);
    struct work_item item = claim(&f);
    char sql[300];
    snprintf(sql, sizeof sql,
             "ALTER TABLE queue DISABLE TRIGGER USER; UPDATE queue SET charged_at = now() - interval "
             "'100 seconds', available_at = now() - interval '70 seconds'; ALTER TABLE queue ENABLE TRIGGER USER");
    fixture_sql(f.url, sql);
    struct work_item again = claim(&f);
    cr_assert_eq(again.id, item.id);
    cr_expect_eq(number(&f, "day_s", &a), 30);
    cr_expect_eq(number(&f, "running", &a), 1);
    fixture_close(&f);
}

Test(fair_share, whoever_has_spent_the_gpu_seconds_of_the_day_waits_for_the_next) {
    struct fixture f = fixture_open();
    struct error error;
    struct team a = make_team(&f, "a", 15);
    bool given_up;
    submit(&f, &a, 0, 2);
    struct work_item item = claim(&f);
    let_pass(&f, &item, 10);
    OK(queue_yield(f.db, &gpu, &item, 1, &given_up, &error));
    cr_expect_not(given_up);
    let_pass(&f, &item, 10);
    OK(queue_renew(f.db, &item, 60, &error));
    OK(queue_yield(f.db, &gpu, &item, 1, &given_up, &error));
    cr_expect(given_up);
    cr_expect_eq(claim(&f).id, 0);
    cr_expect_neq(fixture_claim(&f).id, 0, "processors are not counted");
    fixture_sql(f.url, "UPDATE project_use SET day = day - 1");
    cr_expect_neq(claim(&f).id, 0);
    fixture_close(&f);
}

Test(fair_share, who_may_use_no_gpu_gets_none_even_if_it_never_had_one) {
    struct fixture f = fixture_open();
    struct team a = make_team(&f, "a", QUOTA_NONE);
    submit(&f, &a, 0, 1);
    fixture_sql(f.url, "UPDATE projects SET max_gpu_s = 0 WHERE name = 'a'");
    cr_expect_eq(claim(&f).id, 0);
    cr_expect_neq(fixture_claim(&f).id, 0);
    fixture_close(&f);
}
