/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "api/event_feed.h"
#include "service/store/project_store.h"

struct setup {
    struct fixture f;
    struct event_feed *feed;
    char id[UUID_TEXT];
};

/* The job's first event is that it is queued. */
static struct setup setup_new(void) {
    struct setup setup = {.f = fixture_open()};
    struct model_row *model = fixture_model(&setup.f, "network");
    fixture_job(&setup.f, model->id, setup.id);
    setup.feed = event_feed_new(setup.f.db);
    return setup;
}

static void setup_free(struct setup *setup) {
    event_feed_free(setup->feed);
    fixture_close(&setup->f);
}

static struct event_batch *take(struct setup *setup, int64_t after, uint64_t seen) {
    struct error error;
    struct event_batch *batch;
    OK(event_feed_take(setup->feed, setup->id, false, after, seen, &batch, &error));
    return batch;
}

static size_t len_of(const struct event_batch *batch) {
    size_t len;
    event_batch_text(batch, &len);
    return len;
}

Test(event_feed, those_who_have_come_as_far_share_what_follows) {
    struct setup setup = setup_new();
    size_t len;
    struct event_batch *first = take(&setup, 0, 1), *second = take(&setup, 0, 2);
    cr_expect_eq(first, second);
    cr_expect_eq(event_batch_last(first), 1);
    cr_expect_str_eq(event_batch_text(first, &len), "id: 1\nevent: state\ndata: {\"state\":\"queued\"}\n\n");
    event_batch_release(second);
    event_batch_release(first);
    setup_free(&setup);
}

Test(event_feed, that_nothing_follows_holds_until_a_change_was_told) {
    struct setup setup = setup_new();
    struct error error;
    struct event_batch *none = take(&setup, 1, 7);
    cr_expect_eq(len_of(none), 0);
    cr_expect_eq(event_batch_last(none), 1);
    OK(job_cancel(setup.f.db, setup.id, &error));
    struct event_batch *again = take(&setup, 1, 8);
    cr_expect_neq(none, again);
    cr_expect_eq(event_batch_last(again), 2);
    event_batch_release(again);
    event_batch_release(none);
    setup_free(&setup);
}

Test(event_feed, the_last_state_says_whether_the_job_has_ended) {
    struct setup setup = setup_new();
    struct error error;
    struct event_batch *open = take(&setup, 0, 1);
    cr_expect_not(event_batch_ended(open, true));
    OK(job_cancel(setup.f.db, setup.id, &error));
    struct event_batch *ended = take(&setup, 1, 2), *none = take(&setup, 2, 2);
    cr_expect(event_batch_ended(ended, false));
    cr_expect(event_batch_ended(none, true));
    cr_expect_not(event_batch_ended(none, false));
    event_batch_release(none);
    event_batch_release(ended);
    event_batch_release(open);
    setup_free(&setup);
}

Test(event_feed, a_batch_outlives_the_feed_and_its_place_there) {
    struct setup setup = setup_new();
    size_t len;
    struct event_batch *batch = take(&setup, 0, 1);
    for (int i = 1; i < 1000; i++)
        event_batch_release(take(&setup, i, 1));
    event_feed_free(setup.feed);
    setup.feed = NULL;
    cr_expect_not_null(strstr(event_batch_text(batch, &len), "queued"));
    event_batch_release(batch);
    setup_free(&setup);
}

/* ---- a project's ---- */

static struct event_batch *take_of(struct setup *setup, const char *project_id, int64_t after, uint64_t seen) {
    struct error error;
    struct event_batch *batch;
    OK(event_feed_take(setup->feed, project_id, true, after, seen, &batch, &error));
    return batch;
}

Test(event_feed, a_projects_events_name_their_job_and_are_shared) {
    struct setup setup = setup_new();
    size_t len;
    fixture_claim(&setup.f);
    struct event_batch *one = take_of(&setup, PROJECT_DEFAULT_ID, 0, 1);
    struct event_batch *two = take_of(&setup, PROJECT_DEFAULT_ID, 0, 1);
    struct event_batch *other = take_of(&setup, "11111111-1111-7111-8111-110000000000", 0, 1);
    cr_expect_eq(one, two);
    cr_expect_eq(event_batch_last(one), 2);
    cr_expect_not_null(strstr(event_batch_text(one, &len), "id: 2\nevent: state\ndata: {\"job_id\":\""));
    cr_expect_not_null(strstr(event_batch_text(one, &len), "\"event\":2,\"state\":\"running\"}"));
    cr_expect_eq(len_of(other), 0);
    event_batch_release(one);
    event_batch_release(two);
    event_batch_release(other);
    setup_free(&setup);
}

Test(event_feed, much_comes_in_pieces) {
    struct setup setup = setup_new();
    fixture_sql(setup.f.url, "BEGIN; UPDATE jobs SET last_event = 201; INSERT INTO events (job_id, number, kind, data)"
                             " SELECT id, i, 'log', json_build_object('text', repeat('x', 2000))"
                             " FROM jobs, generate_series(2, 201) i; COMMIT");
    int64_t after = 1;
    int pieces = 0;
    while (after < 201) {
        struct event_batch *batch = take_of(&setup, PROJECT_DEFAULT_ID, after, 1);
        cr_assert_gt(event_batch_last(batch), after);
        cr_expect_leq(len_of(batch), (size_t)68 << 10);
        after = event_batch_last(batch);
        pieces++;
        event_batch_release(batch);
    }
    cr_expect_eq(after, 201);
    cr_expect_geq(pieces, 6);
    setup_free(&setup);
}
