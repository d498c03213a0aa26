/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "api/feed.h"
#include "service/store/event_store.h"
#include "service/store/project_store.h"

struct setup {
    struct fixture f;
    struct feed *feed;
    char job[UUID_TEXT];
    struct work_item item;
};

/* A job that was queued and claimed: two events. */
static void begin(struct setup *setup) {
    setup->f = fixture_open();
    fixture_job(&setup->f, fixture_model(&setup->f, "network")->id, setup->job);
    setup->item = fixture_claim(&setup->f);
    setup->feed = feed_new(setup->f.db);
}

static void end(struct setup *setup) {
    feed_free(setup->feed);
    fixture_close(&setup->f);
}

static struct feed_text *read_after(struct setup *setup, int64_t after, uint64_t seen) {
    struct feed_text *text;
    struct error error;
    OK(feed_read(setup->feed, PROJECT_DEFAULT_ID, after, seen, &text, &error));
    return text;
}

Test(feed, followers_at_the_same_event_share_a_text) {
    struct setup setup;
    begin(&setup);
    struct feed_text *one = read_after(&setup, 0, 1), *two = read_after(&setup, 0, 1);
    cr_assert_not_null(one);
    cr_expect_eq(one, two);
    cr_expect_eq(one->from, 0);
    cr_expect_eq(one->to, 2);
    cr_expect_not_null(strstr(buf_str(&one->text), "id: 2\nevent: state\ndata: {\"job_id\":\""));
    feed_text_release(one);
    cr_expect_not_null(strstr(buf_str(&two->text), "\"event\":2,\"state\":\"running\"}"), "it is there for the other");
    feed_text_release(two);
    end(&setup);
}

Test(feed, at_the_end_there_is_nothing_until_a_notification_came) {
    struct setup setup;
    struct error error;
    begin(&setup);
    cr_expect_null(read_after(&setup, 2, 1));
    OK(event_log(setup.f.db, &setup.item, "info", "news", &error));
    cr_expect_null(read_after(&setup, 2, 1), "what is known is not asked for again");
    struct feed_text *text = read_after(&setup, 2, 2);
    cr_assert_not_null(text);
    cr_expect_eq(text->to, 3);
    feed_text_release(text);
    end(&setup);
}

Test(feed, one_who_is_behind_gets_what_they_miss) {
    struct setup setup;
    begin(&setup);
    feed_text_release(read_after(&setup, 1, 1));
    struct feed_text *all = read_after(&setup, 0, 1), *last = read_after(&setup, 1, 1);
    cr_assert(all && last);
    cr_expect_eq(all->from, 0);
    cr_expect_eq(all->to, 2);
    cr_expect_eq(last->from, 1);
    cr_expect_null(strstr(buf_str(&last->text), "id: 1\n"));
    feed_text_release(all);
    feed_text_release(last);
    end(&setup);
}

Test(feed, much_comes_in_pieces) {
    struct setup setup;
    begin(&setup);
    fixture_sql(setup.f.url, "BEGIN; UPDATE jobs SET last_event = 202; INSERT INTO events (job_id, number, kind, data)"
                             " SELECT id, i, 'log', json_build_object('text', repeat('x', 2000))"
                             " FROM jobs, generate_series(3, 202) i; COMMIT");
    int64_t after = 2;
    int pieces = 0;
    while (after < 202) {
        struct feed_text *text = read_after(&setup, after, 1);
        cr_assert_not_null(text);
        cr_assert_eq(text->from, after);
        cr_expect_leq(text->text.len, (size_t)68 << 10);
        after = text->to;
        pieces++;
        feed_text_release(text);
    }
    cr_expect_eq(after, 202);
    cr_expect_geq(pieces, 6);
    end(&setup);
}

Test(feed, projects_have_their_own) {
    struct setup setup;
    struct error error;
    struct feed_text *text;
    begin(&setup);
    feed_text_release(read_after(&setup, 0, 1));
    /* another project with the same place in the memory */
    OK(feed_read(setup.feed, "11111111-1111-7111-8111-110000000000", 0, 1, &text, &error));
    cr_expect_null(text);
    text = read_after(&setup, 0, 1);
    cr_expect_not_null(text);
    feed_text_release(text);
    end(&setup);
}
