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
    OK(config_get(f.db, NULL, "w", "d", f.arena, &got, &error));
    cr_assert_not_null(got);
    cr_expect_str_eq(got->template, "conv2d.cpu");
    cr_expect_eq(got->index, 7);
    cr_expect_str_eq(got->entity, "[[\"tile\",\"ot\",4]]");
    cr_expect_eq(got->cost_s, 1e-5);
    cr_expect_eq(got->baseline_s, INFINITY);
    cr_expect_str_eq(got->provenance, "{\"compiler\":\"gcc\"}");
    cr_expect_null(got->job_id);
    OK(config_get(f.db, NULL, "w", "other", f.arena, &got, &error));
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

Test(config, a_batch_is_put_whole_or_not_at_all) {
    struct fixture f = fixture_open();
    struct error error;
    struct config_row *got;
    int kept = -1;
    put(&f, make("b", "d", 1e-5));
    struct config_row batch[] = {make("c", "d", 3e-5), make("a", "d", 3e-5), make("b", "d", 3e-5),
                                 make("a", "d", 2e-5)};
    OK(config_put_all(f.db, batch, 4, &kept, &error));
    cr_assert_geq(kept, 2); /* of the two rivals, one or both, by their order */
    OK(config_get(f.db, NULL, "a", "d", f.arena, &got, &error));
    cr_expect_eq(got->cost_s, 2e-5);
    OK(config_get(f.db, NULL, "b", "d", f.arena, &got, &error));
    cr_expect_eq(got->cost_s, 1e-5);
    struct config_row wrong[] = {make("e", "d", 1e-5), make("f", "d", INFINITY)};
    FAILS(config_put_all(f.db, wrong, 2, &kept, &error), "bad-cost");
    struct config_row broken[] = {make("e", "d", 1e-5), make("f", "d", 1e-5)};
    broken[1].entity = "not json";
    cr_expect_eq(config_put_all(f.db, broken, 2, &kept, &error), -1);
    OK(config_get(f.db, NULL, "e", "d", f.arena, &got, &error));
    cr_expect_null(got);
    OK(config_put_all(f.db, batch, 0, &kept, &error));
    cr_expect_eq(kept, 0);
    fixture_close(&f);
}

struct seen {
    int n, stop_at;
    char last[64];
};

static int see(void *data, const struct config_row *config, struct error *error) {
    struct seen *seen = data;
    cr_expect(strcmp(config->workload, seen->last) > 0, "%s after %s", config->workload, seen->last);
    snprintf(seen->last, sizeof seen->last, "%s", config->workload);
    return ++seen->n == seen->stop_at ? error_set(error, ERROR_INVALID, "enough", NULL, "Enough.") : 0;
}

Test(config, each_goes_over_all_in_order) {
    struct fixture f = fixture_open();
    struct error error;
    struct seen seen = {0};
    int kept;
    OK(config_each(f.db, &(struct config_filter){0}, see, &seen, &error));
    cr_expect_eq(seen.n, 0);
    struct config_row *rows = arena_array(f.arena, 1203, sizeof *rows);
    for (int i = 0; i < 1203; i++)
        rows[i] = make(arena_printf(f.arena, "w%04d", i), i % 2 ? "odd" : "even", 1e-5);
    OK(config_put_all(f.db, rows, 1203, &kept, &error));
    cr_expect_eq(kept, 1203);
    OK(config_each(f.db, &(struct config_filter){0}, see, &seen, &error));
    cr_expect_eq(seen.n, 1203);
    seen = (struct seen){0};
    OK(config_each(f.db, &(struct config_filter){.device_key = "odd"}, see, &seen, &error));
    cr_expect_eq(seen.n, 601);
    seen = (struct seen){.stop_at = 3};
    FAILS(config_each(f.db, &(struct config_filter){0}, see, &seen, &error), "enough");
    cr_expect_eq(seen.n, 3);
    fixture_close(&f);
}

static bool is_dense_two(void *data, const char *template, int version) {
    (void)data;
    return strcmp(template, "dense.cpu") == 0 && version == 2;
}

static void put_dense(struct fixture *f, int rows, const char *device_key, const char *template, int version) {
    struct config_row config = make(
        arena_printf(f->arena, "dense(f32:row:1x64, f32:row:%dx64) -> f32:row:1x%d", rows, rows), device_key, 1e-5);
    config.template = template;
    config.version = version;
    cr_expect(put(f, config));
}

Test(config, the_nearest_is_of_the_closest_shape_on_the_same_device) {
    struct fixture f = fixture_open();
    struct error error;
    struct config_row *got = NULL;
    double distance = 0;
    struct workload *workload;
    OK(workload_parse("dense(f32:row:1x64, f32:row:1000x64) -> f32:row:1x1000", f.arena, &workload, &error));
    struct config_wish wish = {NULL, workload, "d", is_dense_two, NULL};
    OK(config_nearest(f.db, &wish, f.arena, &got, &distance, &error));
    cr_expect_null(got);
    put_dense(&f, 1000, "d", "dense.cpu", 2); /* itself */
    put_dense(&f, 999, "d", "dense.cpu", 1);  /* another version */
    put_dense(&f, 998, "d", "other.cpu", 2);  /* another template */
    put_dense(&f, 997, "e", "dense.cpu", 2);  /* another device */
    put(&f, make("dense(no workload)", "d", 1e-5));
    put_dense(&f, 100, "d", "dense.cpu", 2);
    put_dense(&f, 4000, "d", "dense.cpu", 2);
    OK(config_nearest(f.db, &wish, f.arena, &got, &distance, &error));
    cr_assert_not_null(got);
    cr_expect_str_eq(got->workload, "dense(f32:row:1x64, f32:row:4000x64) -> f32:row:1x4000");
    cr_expect_float_eq(distance, 2 * sqrt(2), 1e-9);
    fixture_close(&f);
}
