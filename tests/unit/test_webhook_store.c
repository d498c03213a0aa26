/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "service/base/json.h"
#include "service/store/webhook_store.h"

#define URL "https://example.com/hook"
#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

static void job_with_hook(struct fixture *f, char ret_id[UUID_TEXT]) {
    struct error error;
    bool created;
    struct model_row *model = fixture_model(f, "network");
    struct job_new new = {.model_id = model->id,
                          .device = "auto",
                          .options = "{}",
                          .labels = "{\"ci\": \"yes\"}",
                          .webhook_url = URL,
                          .webhook_secret = SECRET};
    OK(job_create(f->db, &new, ret_id, &created, &error));
}

static int claim(struct fixture *f, int limit, struct webhook_delivery **ret) {
    struct error error;
    int n;
    OK(webhook_claim(f->db, limit, 60, f->arena, ret, &n, &error));
    return n;
}

static int list(struct fixture *f, const char *job, struct delivery_row **ret) {
    struct error error;
    int n;
    bool more;
    OK(webhook_list(f->db, job, 0, 100, f->arena, ret, &n, &more, &error));
    cr_expect_not(more);
    return n;
}

/* A member of the payload's data. */
static const char *said(struct fixture *f, const char *payload, const char *field) {
    struct error error;
    struct json_object *object, *data;
    const char *text = NULL;
    OK(json_parse(payload, strlen(payload), &object, &error));
    OK(json_read_object(object, "data", JSON_REQUIRED, &data, &error));
    struct json_object *value = json_object_object_get(data, field);
    if (value)
        text = arena_strdup(f->arena, json_object_get_string(value));
    json_object_put(object);
    return text;
}

Test(webhook, each_state_makes_a_delivery) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct delivery_row *rows;
    job_with_hook(&f, job);
    OK(job_pause(f.db, job, &error));
    OK(job_pause(f.db, job, &error)); /* changes nothing */
    OK(job_cancel(f.db, job, &error));
    cr_assert_eq(list(&f, job, &rows), 3);
    cr_expect_str_eq(said(&f, rows[2].payload, "state"), "queued");
    cr_expect_null(said(&f, rows[2].payload, "previous_state"));
    cr_expect_str_eq(said(&f, rows[1].payload, "state"), "paused");
    cr_expect_str_eq(said(&f, rows[0].payload, "state"), "cancelled");
    cr_expect_str_eq(said(&f, rows[0].payload, "previous_state"), "paused");
    cr_expect_str_eq(said(&f, rows[0].payload, "job_id"), job);
    cr_expect(strstr(rows[0].payload, "\"job.cancelled\""));
    cr_expect(strstr(rows[0].payload, "\"ci\""));
    cr_expect_eq(rows[0].event, fixture_get(&f, job)->last_event);
    cr_expect_str_eq(rows[0].state, "pending");
    fixture_close(&f);
}

Test(webhook, what_workers_find_out_is_told_too) {
    struct fixture f = fixture_open();
    struct error error, why;
    char job[UUID_TEXT];
    struct delivery_row *rows;
    job_with_hook(&f, job);
    struct work_item item = fixture_claim(&f);
    error_set(&why, ERROR_INVALID, "bad-model", NULL, "It is \"odd\".");
    OK(queue_fail(f.db, &item, &why, &error));
    cr_assert_eq(list(&f, job, &rows), 3);
    cr_expect_str_eq(said(&f, rows[1].payload, "state"), "running");
    cr_expect_str_eq(said(&f, rows[0].payload, "state"), "failed");
    cr_expect_str_eq(said(&f, rows[0].payload, "error_code"), "bad-model");
    cr_expect_str_eq(said(&f, rows[0].payload, "error_text"), "It is \"odd\".");
    fixture_close(&f);
}

Test(webhook, jobs_without_one_have_no_deliveries) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct webhook_row hook;
    struct delivery_row *rows;
    struct model_row *model = fixture_model(&f, "network");
    fixture_job(&f, model->id, job);
    OK(job_cancel(f.db, job, &error));
    OK(webhook_get(f.db, job, f.arena, &hook, &error));
    cr_expect_null(hook.url);
    cr_expect_eq(list(&f, job, &rows), 0);
    FAILS(webhook_get(f.db, "00000000-0000-4000-8000-000000000000", f.arena, &hook, &error), "no-such-job");
    FAILS(webhook_get(f.db, "x", f.arena, &hook, &error), "no-such-job");
    fixture_close(&f);
}

Test(webhook, a_claim_is_one_servers_and_comes_back_when_it_died) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct webhook_delivery *first, *second;
    job_with_hook(&f, job);
    OK(job_cancel(f.db, job, &error));
    cr_assert_eq(claim(&f, 1, &first), 1);
    cr_expect_str_eq(first->url, URL);
    cr_expect_str_eq(first->secret, SECRET);
    cr_expect_eq(first->lease.attempts, 1);
    cr_assert_eq(claim(&f, 10, &second), 1);
    cr_expect_str_neq(first->lease.id, second->lease.id);
    cr_expect_eq(claim(&f, 10, &second), 0);
    fixture_sql(f.url, "UPDATE webhook_deliveries SET next_at = now()");
    cr_assert_eq(claim(&f, 10, &second), 2);
    cr_expect_eq(second->lease.attempts, 2);
    /* Who lost the lease changes nothing any more. */
    OK(webhook_delivered(f.db, &first->lease, &(struct webhook_attempt){200, NULL}, &error));
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'"), 2);
    fixture_close(&f);
}

Test(webhook, attempts_end_as_they_end) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct webhook_delivery *sent;
    struct delivery_row *rows;
    job_with_hook(&f, job);
    cr_assert_eq(claim(&f, 1, &sent), 1);
    OK(webhook_failed(f.db, &sent->lease, &(struct webhook_attempt){500, NULL}, 3600, &error));
    cr_assert_eq(list(&f, job, &rows), 1);
    cr_expect_str_eq(rows->state, "pending");
    cr_expect_eq(rows->last_status, 500);
    cr_expect(rows->next_us > rows->last_us + 3590 * INT64_C(1000000));
    cr_expect_eq(claim(&f, 1, &sent), 0);
    fixture_sql(f.url, "UPDATE webhook_deliveries SET next_at = now()");
    cr_assert_eq(claim(&f, 1, &sent), 1);
    OK(webhook_put_back(f.db, &sent->lease, &error));
    cr_assert_eq(claim(&f, 1, &sent), 1);
    cr_expect_eq(sent->lease.attempts, 2);
    OK(webhook_failed(f.db, &sent->lease, &(struct webhook_attempt){0, "no route"}, INFINITY, &error));
    cr_assert_eq(list(&f, job, &rows), 1);
    cr_expect_str_eq(rows->state, "failed");
    cr_expect_eq(rows->last_status, 0);
    cr_expect_str_eq(rows->last_error, "no route");
    cr_expect_eq(rows->next_us, 0);
    cr_expect(rows->finished_us > 0);
    fixture_close(&f);
}

Test(webhook, one_that_is_gone_is_told_nothing_more_until_asked) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct webhook_delivery *sent;
    struct delivery_row *rows, again;
    struct webhook_row hook;
    job_with_hook(&f, job);
    OK(job_pause(f.db, job, &error));
    cr_assert_eq(claim(&f, 1, &sent), 1);
    OK(webhook_gone(f.db, &sent->lease, &(struct webhook_attempt){410, NULL}, &error));
    OK(job_resume(f.db, job, &error));
    cr_assert_eq(list(&f, job, &rows), 2);
    cr_expect_str_eq(rows[1].state, "failed");
    cr_expect_eq(rows[1].last_status, 410);
    cr_expect_str_eq(rows[0].state, "cancelled");
    OK(webhook_get(f.db, job, f.arena, &hook, &error));
    cr_expect_str_eq(hook.url, URL);
    cr_expect(hook.disabled_us > 0);
    cr_expect_eq(claim(&f, 10, &sent), 0);
    OK(webhook_redeliver(f.db, job, rows[0].id, f.arena, &again, &error));
    cr_expect_str_eq(again.state, "pending");
    OK(job_cancel(f.db, job, &error));
    cr_assert_eq(claim(&f, 10, &sent), 2);
    OK(webhook_get(f.db, job, f.arena, &hook, &error));
    cr_expect_eq(hook.disabled_us, 0);
    fixture_close(&f);
}

Test(webhook, what_was_delivered_is_sent_again_on_request) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct webhook_delivery *sent;
    struct delivery_row *rows, again;
    job_with_hook(&f, job);
    cr_assert_eq(claim(&f, 1, &sent), 1);
    OK(webhook_delivered(f.db, &sent->lease, &(struct webhook_attempt){204, NULL}, &error));
    cr_assert_eq(list(&f, job, &rows), 1);
    cr_expect_str_eq(rows->state, "delivered");
    OK(webhook_redeliver(f.db, job, rows->id, f.arena, &again, &error));
    cr_assert_eq(claim(&f, 1, &sent), 1);
    cr_expect_str_eq(sent->lease.id, rows->id);
    cr_expect_eq(sent->lease.attempts, 1);
    FAILS(webhook_redeliver(f.db, job, "x", f.arena, &again, &error), "no-such-delivery");
    FAILS(webhook_redeliver(f.db, rows->id, rows->id, f.arena, &again, &error), "no-such-delivery");
    fixture_close(&f);
}

Test(webhook, lists_come_in_pages_newest_first) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct delivery_row *rows;
    int n;
    bool more;
    job_with_hook(&f, job);
    OK(job_pause(f.db, job, &error));
    OK(job_resume(f.db, job, &error));
    OK(webhook_list(f.db, job, 0, 2, f.arena, &rows, &n, &more, &error));
    cr_assert_eq(n, 2);
    cr_expect(more);
    cr_expect(rows[0].event > rows[1].event);
    OK(webhook_list(f.db, job, rows[1].event, 2, f.arena, &rows, &n, &more, &error));
    cr_assert_eq(n, 1);
    cr_expect_not(more);
    cr_expect_eq(rows[0].event, 1);
    fixture_close(&f);
}

Test(webhook, old_ones_are_swept_those_that_wait_are_not) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct webhook_delivery *sent;
    struct delivery_row *rows;
    int64_t removed;
    job_with_hook(&f, job);
    OK(job_pause(f.db, job, &error));
    cr_assert_eq(claim(&f, 1, &sent), 1);
    OK(webhook_delivered(f.db, &sent->lease, &(struct webhook_attempt){200, NULL}, &error));
    OK(webhook_sweep(f.db, 60, 1, &removed, &error));
    cr_expect_eq(removed, 0);
    fixture_sql(f.url, "UPDATE webhook_deliveries SET created_at = created_at - interval '1 year',"
                       " finished_at = finished_at - interval '1 year'");
    OK(webhook_sweep(f.db, 60, 1, &removed, &error));
    cr_expect_eq(removed, 1);
    cr_expect_eq(list(&f, job, &rows), 1);
    fixture_close(&f);
}
