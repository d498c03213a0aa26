/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "scheduler/search/auto_pool.h"
#include "scheduler/search/permutation.h"
#include "scheduler/search/search.h"
#include "service/base/json.h"

static struct space *make_space(struct arena *arena) {
    struct space *space = space_new(arena);
    space_split(space, "tile", 48, 3);
    space_choice(space, "unroll", (const int64_t[]){0, 64, 512}, 3);
    return space;
}

/* A cost with its best at index 17. */
static double cost_of(int64_t index) {
    return 1.0 + (double)llabs(index - 17);
}

Test(permutation, visits_every_number_once) {
    static const uint64_t sizes[] = {1, 2, 3, 7, 64, 1000, 4097};
    for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
        struct permutation permutation;
        permutation_init(&permutation, sizes[s], 42 + s);
        char *seen = calloc(1, sizes[s]);
        for (uint64_t i = 0; i < sizes[s]; i++) {
            uint64_t at = permutation_at(&permutation, i);
            cr_assert_lt(at, sizes[s]);
            cr_assert_not(seen[at], "size %llu: %llu twice", (unsigned long long)sizes[s], (unsigned long long)at);
            seen[at] = 1;
        }
        free(seen);
    }
}

Test(permutation, depends_on_the_seed) {
    struct permutation a, b;
    permutation_init(&a, 1000000, 1);
    permutation_init(&b, 1000000, 2);
    int same = 0;
    for (uint64_t i = 0; i < 100; i++)
        same += permutation_at(&a, i) == permutation_at(&b, i);
    cr_assert_lt(same, 5);
}

/* A space with all that a search over it needs. */
struct subject {
    struct arena *arena;
    struct space *space;
    struct template template;
    struct domain domain;
    struct search_options options;
};

static void make_subject(struct subject *s, const struct tuner_class *tuner, int64_t trials, int64_t fallback) {
    s->arena = arena_new(0);
    s->space = make_space(s->arena);
    s->template = (struct template){.name = "synthetic"};
    s->domain = (struct domain){.template = &s->template, .space = s->space};
    s->options = (struct search_options){.tuner = tuner,
                                         .tuner_options = {.domains = &s->domain, .n_domains = 1, .seed = 3},
                                         .trials = trials,
                                         .fallback = fallback};
}

/* Runs a search to its end, in batches, and counts how often each index was proposed. */
static int run_to_end(struct search *search, int batch, int *times, bool fails) {
    struct point point[64];
    int total = 0;
    for (int n; (n = search_next(search, point, batch)) > 0; total += n)
        for (int i = 0; i < n; i++) {
            times[point[i].index]++;
            search_record(search, point[i], fails ? TRIAL_RUNTIME : TRIAL_OK, cost_of(point[i].index));
        }
    return total;
}

Test(search, measures_the_fallback_first_and_nothing_twice) {
    static const struct tuner_class *const tuners[] = {&tuner_random, &tuner_gridsearch};
    for (size_t t = 0; t < ARRAY_COUNT(tuners); t++) {
        struct subject s;
        make_subject(&s, tuners[t], 1000000, 9);
        struct search *search = search_new(&s.options);
        int *times = calloc((size_t)s.space->size, sizeof *times);
        struct point first;
        cr_assert_float_eq(search_promise(search), 1, 1e-9);
        cr_assert_eq(search_next(search, &first, 1), 1);
        cr_assert_eq(first.index, 9);
        times[first.index]++;
        search_record(search, first, TRIAL_OK, cost_of(first.index));
        cr_assert_eq(run_to_end(search, 7, times, false), s.space->size - 1);
        for (int64_t i = 0; i < s.space->size; i++)
            cr_assert_eq(times[i], 1);
        cr_assert_eq(search_reason(search), STOP_SPACE_EXHAUSTED);
        cr_assert_eq(search_progress(search)->best.index, 17);
        cr_assert_float_eq(search_progress(search)->baseline_s, cost_of(9), 1e-12);
        cr_assert_lt(search_promise(search), 0.5);
        search_free(search);
        free(times);
        arena_free(s.arena);
    }
}

Test(search, stops_early_only_after_a_success) {
    struct subject s;
    make_subject(&s, &tuner_gridsearch, 1000, 17);
    s.options.early_stopping = 10;
    int *times = calloc((size_t)s.space->size, sizeof *times);
    struct search *search = search_new(&s.options);
    /* The best is the first one measured, so it ends at the first batch's edge past ten more. */
    cr_assert_eq(run_to_end(search, 4, times, false), 12);
    cr_assert_eq(search_reason(search), STOP_EARLY_STOPPING);
    search_free(search);
    s.options.trials = 50;
    search = search_new(&s.options);
    cr_assert_eq(run_to_end(search, 4, times, true), 50);
    cr_assert_eq(search_reason(search), STOP_ALL_FAILED);
    cr_assert_eq(search_progress(search)->errors[TRIAL_RUNTIME], 50);
    cr_assert_eq(search_progress(search)->best.index, -1);
    search_free(search);
    free(times);
    arena_free(s.arena);
}

Test(search, stops_near_its_floor) {
    struct subject s;
    make_subject(&s, &tuner_gridsearch, 1000, 30);
    s.options.floor_s = 4; /* 1.3 times that is reached at the index 14, whose cost is 4 */
    int *times = calloc((size_t)s.space->size, sizeof *times);
    struct search *search = search_new(&s.options);
    cr_assert_eq(run_to_end(search, 1, times, false), 15); /* the baseline, then 0 to 13: 13 costs 5, below 5.2 */
    cr_assert_eq(search_reason(search), STOP_AT_FLOOR);
    cr_assert_lt(search_promise(search), 0.3);
    search_free(search);
    free(times);
    arena_free(s.arena);
}

Test(search, continues_from_its_saved_state_without_repeating) {
    struct subject s;
    make_subject(&s, &tuner_random, 60, 4);
    struct search *whole = search_new(&s.options), *before = search_new(&s.options);
    struct point expected[60], point[60];
    struct measured measured[25];
    for (int i = 0; i < 60; i++)
        cr_assert_eq(search_next(whole, &expected[i], 1), 1);
    cr_assert_eq(search_next(before, point, 25), 25);
    for (int i = 0; i < 25; i++) {
        search_record(before, point[i], i % 5 ? TRIAL_OK : TRIAL_WRONG_ANSWER, cost_of(point[i].index));
        measured[i] = (struct measured){point[i], i % 5 ? cost_of(point[i].index) : INFINITY};
    }
    struct json_object *state = search_save(before), *copy;
    struct error error;
    size_t len;
    const char *text = json_text(state, &len);
    cr_assert_eq(json_parse(text, len, &copy, &error), 0, "%s", error.text);
    struct search *after = search_new(&s.options);
    cr_assert_eq(search_restore(after, copy, measured, 25, &error), 0, "%s", error.text);
    cr_assert_eq(search_progress(after)->best.index, search_progress(before)->best.index);
    cr_assert_eq(search_progress(after)->best_at, search_progress(before)->best_at);
    cr_assert_eq(search_progress(after)->errors[TRIAL_WRONG_ANSWER], 5);
    cr_assert_eq(search_next(after, point, 60), 35);
    for (int i = 0; i < 35; i++)
        cr_assert_eq(point[i].index, expected[25 + i].index);
    json_object_put(state);
    json_object_put(copy);
    search_free(whole);
    search_free(before);
    search_free(after);
    arena_free(s.arena);
}

Test(search, begins_anew_where_the_templates_are_others) {
    struct subject s;
    static const struct tuner_class *const tuners[] = {&tuner_random, &tuner_gridsearch, &tuner_ga, &tuner_xgb,
                                                       &tuner_auto};
    for (size_t t = 0; t < ARRAY_COUNT(tuners); t++) {
        make_subject(&s, tuners[t], 1000000, 9);
        struct search *before = search_new(&s.options);
        struct point point[8];
        struct measured kept[5];
        struct error error;
        int n = search_next(before, point, 8), *times = calloc((size_t)s.space->size, sizeof *times);
        cr_assert_eq(n, 8);
        for (int i = 0; i < n; i++)
            search_record(before, point[i], TRIAL_OK, cost_of(point[i].index));
        struct json_object *state = search_save(before);
        cr_expect(search_continues(before, state));
        s.template.version++;
        struct search *after = search_new(&s.options);
        cr_expect_not(search_continues(after, state), "%s", tuners[t]->name);
        for (int i = 0; i < 5; i++) /* without the first, which is the baseline */
            kept[i] = (struct measured){point[i + 1], cost_of(point[i + 1].index)};
        cr_assert_eq(search_renew(after, kept, 5, &error), 0, "%s", error.text);
        cr_expect_eq(search_progress(after)->done, 5);
        cr_assert_eq(search_next(after, point, 1), 1);
        cr_expect_eq(point[0].index, 9, "%s", tuners[t]->name);
        times[9]++;
        search_record(after, point[0], TRIAL_OK, cost_of(9));
        run_to_end(after, 4, times, false);
        for (int i = 0; i < 5; i++)
            cr_expect_eq(times[kept[i].point.index]++, 0, "%s", tuners[t]->name);
        for (int64_t i = 0; i < s.space->size; i++)
            cr_expect_eq(times[i], 1, "%s", tuners[t]->name);
        json_object_put(state);
        search_free(before);
        search_free(after);
        free(times);
        arena_free(s.arena);
    }
}

/* Least where each knob has its 5th candidate. */
static double knobs_away(const struct workload *workload, const struct target *target, const struct space *space,
                         int64_t index) {
    int64_t digit[SPACE_MAX_KNOBS];
    double away = 1;
    (void)workload;
    (void)target;
    space_digits(space, index, digit);
    for (int k = 0; k < space->n_knobs; k++)
        away += (double)llabs(digit[k] - 5);
    return away;
}

Test(auto_pool, of_a_space_too_large_to_list_it_finds_what_the_estimate_likes_best) {
    struct arena *arena = arena_new(0);
    struct space *space = space_new(arena);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    for (int k = 0; k < 6; k++)
        space_split(space, names[k], 64, 3); /* 28 candidates each */
    struct template template = {.name = "synthetic", .estimate = knobs_away};
    struct domain domain = {.template = &template, .space = space};
    struct tuner_options options = {.domains = &domain, .n_domains = 1, .seed = 3};
    struct auto_pool pool;
    auto_pool_init(&pool, &options);
    cr_assert_gt(pool.n, 10000);
    cr_assert_gt(space->size, 100000000);
    cr_expect_float_eq(pool.points[0].estimate_s, 1, 1e-9);
    for (int i = 1; i < pool.n; i++)
        cr_assert_leq(pool.points[i - 1].estimate_s, pool.points[i].estimate_s);
    auto_pool_free(&pool);
    arena_free(arena);
}

Test(tuner, unknown_name_is_refused_with_the_list) {
    const struct tuner_class *tuner;
    struct error error;
    cr_assert_eq(tuner_find("random", &tuner, &error), 0);
    cr_assert_eq(tuner_find("magic", &tuner, &error), -1);
    cr_assert(strstr(error.text, "gridsearch") != NULL);
    cr_assert_str_eq(error.field, "tuner.name");
}
