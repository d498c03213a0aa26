/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every tuner, and that those that learn are worth it. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/target.h"
#include "scheduler/search/features.h"
#include "scheduler/search/search.h"
#include "service/base/json.h"

enum { BATCH = 16 };

static const char layer_key[] = "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64) -> f32:nhwc:1x64x56x56 "
                                "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu";

static const char *const names[] = {"auto", "xgb", "xgb_rank", "ga", "random", "gridsearch"};

/* A domain of the direct convolution on the CPU, with its space replaced when one is given. */
struct fixture {
    struct arena *arena;
    struct target target;
    struct workload *workload;
    struct domain domain;
    struct tuner_options options;
};

static void open_fixture(struct fixture *f, struct space *(*make)(struct arena *arena)) {
    struct error error;
    f->arena = arena_new(0);
    f->target = (struct target){.kind = "cpu", .arch = "x86-64-v3", .units = 8, .cache_bytes = 1 << 20};
    cr_assert_eq(workload_parse(layer_key, f->arena, &f->workload, &error), 0, "%s", error.text);
    const struct template *template = template_for(template_builtin, f->workload, &f->target);
    struct space *space = make ? make(f->arena) : template->space(f->workload, &f->target, f->arena);
    f->domain = (struct domain){template, f->workload, &f->target, space};
    f->options = (struct tuner_options){.domains = &f->domain, .n_domains = 1, .seed = 7, .feature = FEATURE_KNOB};
}

static const struct template *plain_knobs(struct template *ret) {
    static const struct template none = {.name = "synthetic"};
    *ret = none;
    return ret;
}

static struct space *four_knobs(struct arena *arena) {
    struct space *space = space_new(arena);
    space_split(space, "tile_f", 256, 4);
    space_split(space, "tile_x", 56, 4);
    space_split(space, "tile_rc", 64, 2);
    space_choice(space, "unroll", (const int64_t[]){0, 512, 1500}, 3);
    return space;
}

static struct space *three_points(struct arena *arena) {
    struct space *space = space_new(arena);
    space_choice(space, "unroll", (const int64_t[]){0, 512, 1500}, 3);
    return space;
}

/* Best, 1, where each knob has a liked value; some points fail. */
static double cost_of(const struct space *space, int64_t index) {
    double cost = 1;
    for (int part = 1; part < 4; part++) {
        cost *= 1 + 0.3 * fabs(log2((double)space_value(space, index, "tile_f", part)) - (part == 2 ? 4 : 1));
        cost *= 1 + 0.2 * fabs(log2((double)space_value(space, index, "tile_x", part)) - (part == 2 ? 2.8 : 0));
    }
    cost *= 1 + 0.1 * fabs(log2((double)space_value(space, index, "tile_rc", 1)) - 3);
    cost *= 1 + 0.05 * (space_value(space, index, "unroll", 0) != 512);
    int64_t threads = space_value(space, index, "tile_f", 2) * space_value(space, index, "tile_x", 2);
    return threads > 1024 ? INFINITY : cost;
}

static const struct tuner_class *class_of(const char *name) {
    const struct tuner_class *class;
    struct error error;
    cr_assert_eq(tuner_find(name, &class, &error), 0, "%s", error.text);
    return class;
}

/* Proposes and measures n points into `ret`, from the number `from` on. */
static void go_on(const struct tuner_class *class, struct tuner *tuner, const struct space *space, int from, int n,
                  struct measured *ret) {
    struct point points[BATCH];
    for (int at = from, got; at < from + n; at += got) {
        int wanted = from + n - at < BATCH ? from + n - at : BATCH;
        got = class->propose(tuner, points, wanted);
        cr_assert_gt(got, 0, "%s proposes nothing after %d", class->name, at);
        for (int i = 0; i < got; i++) {
            ret[at + i] = (struct measured){points[i], cost_of(space, points[i].index)};
            if (class->learn)
                class->learn(tuner, &ret[at + i]);
        }
    }
}

static double best_of(const struct measured *measured, int n) {
    double best = INFINITY;
    for (int i = 0; i < n; i++)
        best = fmin(best, measured[i].cost_s);
    return best;
}

Test(tuners, go_on_exactly_where_their_stored_state_left_off, .timeout = 60) {
    enum { BEFORE = 144, AFTER = 80 };
    struct template synthetic;
    for (size_t t = 0; t < ARRAY_COUNT(names); t++) {
        const struct tuner_class *class = class_of(names[t]);
        struct measured whole[BEFORE + AFTER], parts[BEFORE + AFTER];
        struct fixture f;
        open_fixture(&f, four_knobs);
        f.domain.template = plain_knobs(&synthetic);
        struct tuner *one = class->create(&f.options), *two = class->create(&f.options);
        go_on(class, one, f.domain.space, 0, BEFORE, whole);
        go_on(class, one, f.domain.space, BEFORE, AFTER, whole);
        go_on(class, two, f.domain.space, 0, BEFORE, parts);
        struct json_object *state = class->save(two), *copy;
        struct error error;
        size_t len;
        const char *text = json_text(state, &len);
        cr_assert_eq(json_parse(text, len, &copy, &error), 0, "%s: %s", names[t], error.text);
        class->destroy(two);
        two = class->create(&f.options);
        cr_assert_eq(class->restore(two, copy, parts, BEFORE, &error), 0, "%s: %s", names[t], error.text);
        go_on(class, two, f.domain.space, BEFORE, AFTER, parts);
        for (int i = 0; i < BEFORE + AFTER; i++)
            cr_assert_eq(whole[i].point.index, parts[i].point.index, "%s differs at %d", names[t], i);
        json_object_put(state);
        json_object_put(copy);
        class->destroy(one);
        class->destroy(two);
        arena_free(f.arena);
    }
}

Test(tuners, propose_every_point_of_a_small_space_once) {
    struct template synthetic;
    for (size_t t = 0; t < ARRAY_COUNT(names); t++) {
        const struct tuner_class *class = class_of(names[t]);
        struct fixture f;
        int times[3] = {0};
        open_fixture(&f, three_points);
        f.domain.template = plain_knobs(&synthetic);
        struct tuner *tuner = class->create(&f.options);
        struct point point;
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(class->propose(tuner, &point, 1), 1, "%s", names[t]);
            times[point.index]++;
            if (class->learn)
                class->learn(tuner, &(struct measured){point, INFINITY});
        }
        cr_assert_eq(class->propose(tuner, &point, 1), 0, "%s", names[t]);
        for (int i = 0; i < 3; i++)
            cr_assert_eq(times[i], 1, "%s proposes %d %d times", names[t], i, times[i]);
        class->destroy(tuner);
        arena_free(f.arena);
    }
}

Test(tuners, never_propose_a_point_twice_though_all_fail, .timeout = 60) {
    enum { TRIALS = 400 };
    struct template synthetic;
    for (size_t t = 0; t < ARRAY_COUNT(names); t++) {
        const struct tuner_class *class = class_of(names[t]);
        struct fixture f;
        open_fixture(&f, four_knobs);
        f.domain.template = plain_knobs(&synthetic);
        struct tuner *tuner = class->create(&f.options);
        char *seen = calloc((size_t)f.domain.space->size, 1);
        struct point points[BATCH];
        for (int done = 0, got; done < TRIALS; done += got) {
            got = class->propose(tuner, points, BATCH);
            cr_assert_gt(got, 0, "%s", names[t]);
            for (int i = 0; i < got; i++) {
                cr_assert_eq(seen[points[i].index]++, 0, "%s repeats itself", names[t]);
                if (class->learn)
                    class->learn(tuner, &(struct measured){points[i], INFINITY});
            }
        }
        free(seen);
        class->destroy(tuner);
        arena_free(f.arena);
    }
}

/* Over three seeds, the mean of the best cost that a tuner finds. */
static double mean_best(const char *name, int trials, enum feature_kind feature) {
    struct template synthetic;
    struct measured *measured = calloc((size_t)trials, sizeof *measured);
    double sum = 0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const struct tuner_class *class = class_of(name);
        struct fixture f;
        open_fixture(&f, four_knobs);
        f.domain.template = plain_knobs(&synthetic);
        f.options.seed = seed;
        f.options.feature = feature;
        struct tuner *tuner = class->create(&f.options);
        go_on(class, tuner, f.domain.space, 0, trials, measured);
        sum += best_of(measured, trials);
        class->destroy(tuner);
        arena_free(f.arena);
    }
    free(measured);
    return sum / 3;
}

Test(tuners, that_learn_find_more_than_chance, .timeout = 60) {
    double random = mean_best("random", 300, FEATURE_KNOB);
    static const struct {
        const char *name;
        int trials;
    } cases[] = {{"auto", 100}, {"xgb", 300}, {"xgb_rank", 300}, {"ga", 300}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        double best = mean_best(cases[i].name, cases[i].trials, FEATURE_KNOB);
        cr_log_info("%s in %d trials: %.3f; random in 300: %.3f", cases[i].name, cases[i].trials, best, random);
        cr_assert_lt(best, random, "%s finds %.3f, random %.3f", cases[i].name, best, random);
    }
}

/* Whatever else was computed before: other features in between, each point twice. */
Test(features, of_knobs_are_logarithms_of_their_values) {
    struct fixture f;
    open_fixture(&f, NULL);
    const struct space *space = f.domain.space;
    float *loops = calloc((size_t)features_count(&f.domain, FEATURE_ITERVAR), sizeof *loops);
    float *knobs = calloc((size_t)features_count(&f.domain, FEATURE_KNOB), sizeof *knobs);
    for (int64_t at = 0; at < 2 * space->size; at++) {
        int64_t digit[SPACE_MAX_KNOBS];
        int n = 0;
        features_write(&f.domain, at % space->size, FEATURE_ITERVAR, loops);
        features_write(&f.domain, at % space->size, FEATURE_KNOB, knobs);
        space_digits(space, at % space->size, digit);
        for (int k = 0; k < space->n_knobs; k++)
            for (int part = 0; part < space->knobs[k].parts; part++) {
                int64_t value = space->knobs[k].values[digit[k] * space->knobs[k].parts + part];
                cr_assert_eq(knobs[n++], (float)log2(1 + (double)value), "%s of %lld", space->knobs[k].name,
                             (long long)at);
            }
    }
    free(loops);
    free(knobs);
    arena_free(f.arena);
}

Test(features, are_finite_and_tell_configurations_apart) {
    static const enum feature_kind kinds[] = {FEATURE_ITERVAR, FEATURE_KNOB, FEATURE_CURVE};
    struct fixture f;
    open_fixture(&f, NULL);
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        int n = features_count(&f.domain, kinds[k]), different = 0;
        float *first = calloc((size_t)n, sizeof *first), *row = calloc((size_t)n, sizeof *row);
        features_write(&f.domain, 0, kinds[k], first);
        for (int64_t index = 0; index < f.domain.space->size; index++) {
            features_write(&f.domain, index, kinds[k], row);
            for (int i = 0; i < n; i++)
                cr_assert(isfinite(row[i]), "%s of %lld", feature_name(kinds[k]), (long long)index);
            different += memcmp(first, row, (size_t)n * sizeof *row) != 0;
        }
        cr_assert_gt(2 * different, f.domain.space->size, "%s", feature_name(kinds[k]));
        free(first);
        free(row);
    }
    arena_free(f.arena);
}
