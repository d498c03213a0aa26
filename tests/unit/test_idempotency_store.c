/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include <pthread.h>

#include "service/base/sha256.h"
#include "service/store/idempotency_store.h"
#include "service/store/job_store.h"

static struct idempotency_key key_of(const char *key, const char *request) {
    struct idempotency_key made = {.scope = "/v1/things", .key = key};
    sha256_of(request, strlen(request), made.request);
    return made;
}

static const struct idempotency_answer created = {201, "application/json", "/v1/things/1", "{\"id\": 1}"};

/* Reserves under a new token; what came of it. */
static struct idempotency_answer *reserve(struct fixture *f, const struct idempotency_key *key, double lease_s,
                                          char ret_token[UUID_TEXT]) {
    struct error error;
    struct idempotency_answer *found;
    uuid_make(ret_token);
    OK(idempotency_reserve(f->db, key, ret_token, lease_s, f->arena, &found, &error));
    return found;
}

static void expect_created(const struct idempotency_answer *answer) {
    cr_assert_not_null(answer);
    cr_expect_eq(answer->status, created.status);
    cr_expect_str_eq(answer->type, created.type);
    cr_expect_str_eq(answer->location, created.location);
    cr_expect_str_eq(answer->body, created.body);
}

Test(idempotency, the_first_answer_comes_again) {
    struct fixture f = fixture_open();
    struct error error;
    struct idempotency_key key = key_of("k", "a"), elsewhere = key;
    struct idempotency_answer *found;
    char token[UUID_TEXT];
    cr_expect_null(reserve(&f, &key, 60, token));
    OK(idempotency_complete(f.db, &key, token, &created, &error));
    expect_created(reserve(&f, &key, 60, token));
    OK(idempotency_find(f.db, &key, f.arena, &found, &error));
    expect_created(found);
    elsewhere.scope = "/v1/other";
    cr_expect_null(reserve(&f, &elsewhere, 60, token));
    fixture_close(&f);
}

Test(idempotency, another_request_is_refused_also_while_the_first_runs) {
    struct fixture f = fixture_open();
    struct error error;
    struct idempotency_key key = key_of("k", "a"), other = key_of("k", "b");
    struct idempotency_answer *found;
    char token[UUID_TEXT], second[UUID_TEXT];
    uuid_make(second);
    cr_expect_null(reserve(&f, &key, 60, token));
    FAILS(idempotency_reserve(f.db, &other, second, 60, f.arena, &found, &error), "idempotency-key-reused");
    OK(idempotency_complete(f.db, &key, token, &created, &error));
    FAILS(idempotency_reserve(f.db, &other, second, 60, f.arena, &found, &error), "idempotency-key-reused");
    FAILS(idempotency_find(f.db, &other, f.arena, &found, &error), "idempotency-key-reused");
    fixture_close(&f);
}

Test(idempotency, a_reservation_holds_until_it_is_released_or_nobody_renews_it) {
    struct fixture f = fixture_open();
    struct error error;
    struct idempotency_key key = key_of("k", "a");
    struct idempotency_answer *found;
    char first[UUID_TEXT], second[UUID_TEXT], tokens[UUID_TEXT + 2];
    cr_expect_null(reserve(&f, &key, 60, first));
    uuid_make(second);
    FAILS(idempotency_reserve(f.db, &key, second, 60, f.arena, &found, &error), "idempotency-in-progress");
    OK(idempotency_release(f.db, &key, second, &error)); /* not its own */
    FAILS(idempotency_reserve(f.db, &key, second, 60, f.arena, &found, &error), "idempotency-in-progress");
    OK(idempotency_release(f.db, &key, first, &error));
    cr_expect_null(reserve(&f, &key, -1, first)); /* a lease that has run out */
    snprintf(tokens, sizeof tokens, "{%s}", first);
    OK(idempotency_renew(f.db, tokens, 60, &error));
    FAILS(idempotency_reserve(f.db, &key, second, 60, f.arena, &found, &error), "idempotency-in-progress");
    OK(idempotency_renew(f.db, tokens, -1, &error));
    cr_expect_null(reserve(&f, &key, 60, second));
    OK(idempotency_complete(f.db, &key, first, &created, &error)); /* too late */
    FAILS(idempotency_find(f.db, &key, f.arena, &found, &error), "idempotency-in-progress");
    OK(idempotency_complete(f.db, &key, second, &created, &error));
    expect_created(reserve(&f, &key, 60, first));
    fixture_close(&f);
}

Test(idempotency, a_reservation_taken_twice_under_one_token_is_one) {
    struct fixture f = fixture_open();
    struct error error;
    struct idempotency_key key = key_of("k", "a");
    struct idempotency_answer *found;
    char token[UUID_TEXT];
    cr_expect_null(reserve(&f, &key, 60, token));
    OK(idempotency_reserve(f.db, &key, token, 60, f.arena, &found, &error));
    cr_expect_null(found);
    fixture_close(&f);
}

Test(idempotency, after_a_day_a_key_is_new) {
    struct fixture f = fixture_open();
    struct error error;
    struct idempotency_key key = key_of("k", "a"), other = key_of("k", "b");
    struct idempotency_answer *found;
    char token[UUID_TEXT];
    OK(idempotency_keep(f.db, &key, &created, &error));
    fixture_sql(f.url, "UPDATE idempotency SET created_at = now() - interval '23 hours 59 minutes'");
    FAILS(idempotency_find(f.db, &other, f.arena, &found, &error), "idempotency-key-reused");
    FAILS(idempotency_keep(f.db, &other, &created, &error), "idempotency-in-progress");
    fixture_sql(f.url, "UPDATE idempotency SET created_at = now() - interval '24 hours 1 minute'");
    OK(idempotency_find(f.db, &other, f.arena, &found, &error));
    cr_expect_null(found);
    OK(idempotency_keep(f.db, &other, &created, &error));
    OK(idempotency_find(f.db, &other, f.arena, &found, &error));
    expect_created(found);
    fixture_sql(f.url, "UPDATE idempotency SET created_at = now() - interval '24 hours 1 minute'");
    cr_expect_null(reserve(&f, &key, 60, token));
    fixture_close(&f);
}

Test(idempotency, old_ones_are_swept_in_batches) {
    struct fixture f = fixture_open();
    struct error error;
    int64_t removed;
    fixture_sql(f.url, "INSERT INTO idempotency (scope, key, request, status, body, created_at) "
                       "SELECT 's', n::text, repeat('0', 64), 200, '', now() - n * interval '1 hour' "
                       "FROM generate_series(1, 50) n");
    OK(idempotency_sweep(f.db, IDEMPOTENCY_KEPT_S + 60, 7, &removed, &error));
    cr_expect_eq(removed, 26);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM idempotency"), 24);
    cr_expect_eq(fixture_number(f.url, "SELECT max(key::int) FROM idempotency"), 24);
    fixture_close(&f);
}

/* --- In a job's transaction --- */

static int answer(void *data, const struct job_row *job, struct idempotency_answer *ret, struct error *error) {
    if (!data)
        return error_set(error, ERROR_INTERNAL, "no-answer", NULL, "There is none.");
    snprintf(data, UUID_TEXT, "%s", job->id);
    *ret = (struct idempotency_answer){202, "text/plain", NULL, data};
    return 0;
}

Test(idempotency, a_job_and_its_answer_are_written_together) {
    struct fixture f = fixture_open();
    struct error error;
    struct idempotency_key key = key_of("k", "a");
    struct model_row *model = fixture_model(&f, "network");
    struct idempotency_answer *found;
    char text[UUID_TEXT], id[UUID_TEXT];
    bool made;
    struct job_new new = {.model_id = model->id,
                          .device = "cpu",
                          .options = "{}",
                          .idempotency = &key,
                          .answer = answer,
                          .answer_data = text};
    OK(job_create(f.db, &new, id, &made, &error));
    OK(idempotency_find(f.db, &key, f.arena, &found, &error));
    cr_assert_not_null(found);
    cr_expect_eq(found->status, 202);
    cr_expect_str_eq(found->body, id);
    cr_expect_null(found->location);
    FAILS(job_create(f.db, &new, id, &made, &error), "idempotency-in-progress");
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM jobs"), 1);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM queue"), 1);
    fixture_close(&f);
}

Test(idempotency, without_an_answer_there_is_no_job) {
    struct fixture f = fixture_open();
    struct error error;
    struct idempotency_key key = key_of("k", "a");
    struct model_row *model = fixture_model(&f, "network");
    char id[UUID_TEXT];
    bool made;
    struct job_new new = {
        .model_id = model->id, .device = "cpu", .options = "{}", .idempotency = &key, .answer = answer};
    FAILS(job_create(f.db, &new, id, &made, &error), "no-answer");
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM jobs"), 0);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM idempotency"), 0);
    fixture_close(&f);
}

struct race {
    struct fixture *fixture;
    const char *model_id;
    char text[UUID_TEXT];
    bool made;
};

static void *create_same(void *data) {
    struct race *race = data;
    struct error error;
    char id[UUID_TEXT];
    struct idempotency_key key = key_of("k", "a");
    struct job_new new = {.model_id = race->model_id,
                          .device = "cpu",
                          .options = "{}",
                          .idempotency = &key,
                          .answer = answer,
                          .answer_data = race->text};
    if (job_create(race->fixture->db, &new, id, &race->made, &error) < 0)
        cr_expect_str_eq(error.code, "idempotency-in-progress");
    return NULL;
}

Test(idempotency, the_same_key_at_once_makes_one_job) {
    struct fixture f = fixture_open();
    struct model_row *model = fixture_model(&f, "network");
    struct race races[6] = {0};
    pthread_t threads[6];
    int made = 0;
    for (int i = 0; i < 6; i++) {
        races[i].fixture = &f;
        races[i].model_id = model->id;
        cr_assert_eq(pthread_create(&threads[i], NULL, create_same, &races[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        made += races[i].made;
    }
    cr_expect_eq(made, 1);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM jobs"), 1);
    fixture_close(&f);
}
