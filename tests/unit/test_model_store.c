/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include <pthread.h>

Test(model, it_comes_back_as_it_was_made) {
    struct fixture f = fixture_open();
    struct error error;
    struct model_row *made = fixture_model(&f, "network"), *got, *found;
    OK(model_get(f.db, made->id, f.arena, &got, &error));
    OK(model_find(f.db, NULL, made->sha256, f.arena, &found, &error));
    cr_expect_str_eq(got->name, "network");
    cr_expect_str_eq(got->summary, "{\"inputs\": []}");
    cr_expect_eq(got->bytes, 7);
    cr_expect_gt(got->created_us, 1700000000000000);
    cr_expect_str_eq(found->id, made->id);
    fixture_close(&f);
}

Test(model, the_same_bytes_again_are_the_same_model) {
    struct fixture f = fixture_open();
    struct error error;
    struct model_row *first = fixture_model(&f, "network"), *second;
    bool created = true;
    struct model_new again = {.name = "other name", .sha256 = first->sha256, .bytes = 7, .summary = "{}"};
    OK(model_create(f.db, &again, f.arena, &second, &created, &error));
    cr_expect_not(created);
    cr_expect_str_eq(second->id, first->id);
    cr_expect_str_eq(second->name, "network");
    fixture_close(&f);
}

struct race {
    struct fixture *fixture;
    const char *sha256;
    char id[UUID_TEXT];
    bool created;
};

static void *create(void *data) {
    struct race *race = data;
    struct error error;
    struct model_row *model;
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct model_new new = {.name = "n", .sha256 = race->sha256, .bytes = 5, .summary = "{}"};
    OK(model_create(race->fixture->db, &new, arena, &model, &race->created, &error));
    memcpy(race->id, model->id, sizeof race->id);
    return NULL;
}

Test(model, the_same_bytes_from_many_clients_at_once_make_one) {
    struct fixture f = fixture_open();
    char sha256[SHA256_HEX];
    struct race races[6];
    pthread_t threads[6];
    int created = 0;
    fixture_blob(&f, "bytes", sha256);
    for (int i = 0; i < 6; i++) {
        races[i] = (struct race){&f, sha256, "", false};
        cr_assert_eq(pthread_create(&threads[i], NULL, create, &races[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        created += races[i].created;
        cr_expect_str_eq(races[i].id, races[0].id);
    }
    cr_expect_eq(created, 1);
    fixture_close(&f);
}

Test(model, one_without_its_bytes_is_refused) {
    struct fixture f = fixture_open();
    struct error error;
    struct model_row *model;
    bool created;
    char sha256[SHA256_HEX];
    sha256_of("never stored", 12, sha256);
    struct model_new new = {.name = "n", .sha256 = sha256, .bytes = 12, .summary = "{}"};
    FAILS(model_create(f.db, &new, f.arena, &model, &created, &error), "blob-missing");
    cr_expect_eq(error.class, ERROR_CONFLICT);
    fixture_close(&f);
}

Test(model, an_unknown_one_is_not_found) {
    struct fixture f = fixture_open();
    struct error error;
    struct model_row *model;
    FAILS(model_get(f.db, "01975f3e-0000-7000-8000-000000000000", f.arena, &model, &error), "no-such-model");
    FAILS(model_get(f.db, "'; DROP TABLE models", f.arena, &model, &error), "no-such-model");
    FAILS(model_delete(f.db, "01975f3e-0000-7000-8000-000000000000", &error), "no-such-model");
    FAILS(model_delete(f.db, "", &error), "no-such-model");
    fixture_close(&f);
}

Test(model, pages_list_all_of_them_newest_first) {
    struct fixture f = fixture_open();
    struct error error;
    struct model_row *page;
    char name[16];
    int count, expected = 4, pages = 0;
    const char *after = NULL;
    bool more = true;
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "m%d", i);
        fixture_model(&f, name);
        usleep(1100); /* ids sort by the millisecond */
    }
    for (; more; pages++) {
        OK(model_list(f.db, NULL, after, 2, f.arena, &page, &count, &more, &error));
        for (int i = 0; i < count; i++) {
            snprintf(name, sizeof name, "m%d", expected--);
            cr_expect_str_eq(page[i].name, name);
        }
        after = page[count - 1].id;
    }
    cr_expect_eq(expected, -1);
    cr_expect_eq(pages, 3);
    FAILS(model_list(f.db, NULL, "not a cursor", 2, f.arena, &page, &count, &more, &error), "bad-cursor");
    fixture_close(&f);
}

Test(model, deleting_it_deletes_its_bytes) {
    struct fixture f = fixture_open();
    struct error error;
    int64_t bytes;
    struct model_row *model = fixture_model(&f, "network"), *got;
    OK(model_delete(f.db, model->id, &error));
    FAILS(model_get(f.db, model->id, f.arena, &got, &error), "no-such-model");
    FAILS(blob_size(f.db, model->sha256, &bytes, &error), "no-such-blob");
    fixture_close(&f);
}

Test(model, it_cannot_be_deleted_while_a_job_uses_it) {
    struct fixture f = fixture_open();
    struct error error;
    char job[UUID_TEXT];
    struct model_row *model = fixture_model(&f, "network");
    fixture_job(&f, model->id, job);
    FAILS(model_delete(f.db, model->id, &error), "model-in-use");
    cr_expect_eq(error.class, ERROR_CONFLICT);
    cr_expect_not_null(strstr(error.text, job));
    OK(job_cancel(f.db, job, &error));
    OK(model_delete(f.db, model->id, &error));
    cr_expect_str_eq(fixture_get(&f, job)->model_id, model->id);
    FAILS(job_retry(f.db, job, &error), "model-deleted");
    fixture_close(&f);
}
