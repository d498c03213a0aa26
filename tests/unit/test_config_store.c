/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "service/store/config_store.h"

static struct config_row make(const char *workload, const char *device_key, double cost_s) {
    return (struct config_row){.workload = workload,
                               .device_key = device_key,
                               .template = "conv2d.cpu",
                               .version = 1,
                               .index = 7,
                               .entity = "[[\"tile\",\"ot\",4]]",
                               .cost_s = cost_s,
                               .spread_s = 1e-7,
                               .baseline_s = INFINITY,
                               .provenance = "{\"compiler\":\"gcc\"}"};
}

static bool put(struct fixture *f, struct config_row config) {
    struct error error;
    bool kept;
    OK(config_put(f->db, &config, &kept, &error));
    return kept;
}

Test(config, it_comes_back_as_it_was_put) {
    struct fixture f = fixture_open();
    struct error error;
    struct config_row *got;
    cr_expect(put(&f, make("w", "d", 1e-5)));
    OK(config_get(f.db, "w", "d", f.arena, &got, &error));
    cr_assert_not_null(got);
    cr_expect_str_eq(got->template, "conv2d.cpu");
    cr_expect_eq(got->index, 7);
    cr_expect_str_eq(got->entity, "[[\"tile\",\"ot\",4]]");
    cr_expect_eq(got->cost_s, 1e-5);
    cr_expect_eq(got->baseline_s, INFINITY);
    cr_expect_str_eq(got->provenance, "{\"compiler\":\"gcc\"}");
    cr_expect_null(got->job_id);
    OK(config_get(f.db, "w", "other", f.arena, &got, &error));
    cr_expect_null(got);
    fixture_close(&f);
}

Test(config, only_a_faster_one_or_a_newer_version_replaces_it) {
    struct fixture f = fixture_open();
    struct config_row newer = make("w", "d", 3e-5), older = make("w", "d", 9e-5);
    newer.version = 2;
    older.version = 0;
    cr_expect(put(&f, make("w", "d", 2e-5)));
    cr_expect_not(put(&f, make("w", "d", 2e-5)));
    cr_expect(put(&f, make("w", "d", 1e-5)));
    cr_expect(put(&f, newer));
    cr_expect_not(put(&f, older));
    fixture_close(&f);
}

Test(config, one_that_cannot_be_kept_is_refused) {
    struct fixture f = fixture_open();
    struct error error;
    char *text = arena_alloc(f.arena, CONFIG_MAX_WORKLOAD + 2);
    memset(text, 'x', CONFIG_MAX_WORKLOAD + 1);
    struct config_row config = make(text, "d", 1e-5);
    FAILS(config_put(f.db, &config, NULL, &error), "workload-too-long");
    config = make("w", "d", INFINITY);
    FAILS(config_put(f.db, &config, NULL, &error), "bad-cost");
    fixture_close(&f);
}

Test(config, lists_are_filtered_and_come_in_pages) {
    struct fixture f = fixture_open();
    struct error error;
    struct config_row *got;
    int count;
    bool more;
    static const char *const workloads[] = {"a", "b", "c"}, *const devices[] = {"d1", "d2"};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            put(&f, make(workloads[i], devices[k], 1e-5));
    OK(config_list(f.db, &(struct config_filter){.limit = 4}, f.arena, &got, &count, &more, &error));
    cr_assert_eq(count, 4);
    cr_expect(more);
    struct config_filter next = {.limit = 4, .after_workload = got[3].workload, .after_device_key = got[3].device_key};
    OK(config_list(f.db, &next, f.arena, &got, &count, &more, &error));
    cr_assert_eq(count, 2);
    cr_expect_not(more);
    cr_expect_str_eq(got[0].workload, "c");
    OK(config_list(f.db, &(struct config_filter){.workload = "b", .limit = 9}, f.arena, &got, &count, &more, &error));
    cr_expect_eq(count, 2);
    OK(config_list(f.db, &(struct config_filter){.device_key = "d2", .limit = 9}, f.arena, &got, &count, &more,
                   &error));
    cr_expect_eq(count, 3);
    fixture_close(&f);
}
