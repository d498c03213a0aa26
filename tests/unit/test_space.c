/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/template/space.h"
#include "service/base/json.h"
#include "tophub_log.h"

static const int64_t unroll[] = {0, 512, 1500}, flag[] = {0, 1};

/* conv2d_nchw.cuda's space as AutoTVM declares it; `window`: the names of the two window knobs, in order. */
static struct space *conv_space(struct arena *arena, const int64_t extent[6], const char *const window[2]) {
    struct space *space = space_new(arena);
    space_split(space, "tile_f", extent[0], 4);
    space_split(space, "tile_y", extent[1], 4);
    space_split(space, "tile_x", extent[2], 4);
    space_split(space, "tile_rc", extent[3], 2);
    space_split(space, window[0], extent[4], 2);
    space_split(space, window[1], extent[5], 2);
    space_choice(space, "auto_unroll_max_step", unroll, 3);
    space_choice(space, "unroll_explicit", flag, 2);
    return space;
}

static const char *const ry_rx[] = {"tile_ry", "tile_rx"};

static struct json_object *parse(const char *text) {
    struct json_object *object = NULL;
    struct error error = {0};
    cr_assert_eq(json_parse(text, strlen(text), &object, &error), 0, "%s", error.text);
    return object;
}

Test(space, sizes_are_autotvms) {
    struct arena *arena = arena_new(0);
    cr_assert_eq(conv_space(arena, (int64_t[]){64, 56, 56, 64, 3, 3}, ry_rx)->size, 90316800);
    cr_assert_eq(conv_space(arena, (int64_t[]){512, 7, 7, 512, 3, 3}, ry_rx)->size, 844800);

    struct space *depthwise = space_new(arena); /* 112², 32 channels */
    space_split(depthwise, "tile_f", 32, 4);
    space_split(depthwise, "tile_y", 112, 4);
    space_split(depthwise, "tile_x", 112, 4);
    space_choice(depthwise, "auto_unroll_max_step", (int64_t[]){0, 256, 1500}, 3);
    space_choice(depthwise, "unroll_explicit", flag, 2);
    cr_assert_eq(depthwise->size, 6585600);

    struct space *winograd = space_new(arena); /* 56², 64 channels, tiles of 4: 196 of them */
    space_split_list(winograd, "tile_b", 36, 4, (int64_t[]){36, 1, 1, 1}, 1);
    space_split(winograd, "tile_y", 64, 4);
    space_split(winograd, "tile_x", 196, 4);
    space_split(winograd, "tile_rc", 64, 2);
    space_choice(winograd, "auto_unroll_max_step", (int64_t[]){0, 128, 1500}, 3);
    space_choice(winograd, "unroll_explicit", flag, 2);
    cr_assert_eq(winograd->size, 352800);
    arena_free(arena);
}

Test(space, the_last_factor_of_a_split_changes_slowest) {
    struct arena *arena = arena_new(0);
    struct space *space = space_new(arena);
    static const int64_t expected[][3] = {{4, 1, 1}, {2, 2, 1}, {1, 4, 1}, {2, 1, 2}, {1, 2, 2}, {1, 1, 4}};
    space_split(space, "k", 4, 3);
    cr_assert_eq(space->size, 6);
    for (int64_t i = 0; i < 6; i++) {
        for (int part = 0; part < 3; part++)
            cr_assert_eq(space_value(space, i, "k", part), expected[i][part]);
    }
    arena_free(arena);
}

Test(space, an_extent_of_one_has_one_split) {
    struct arena *arena = arena_new(0);
    struct space *space = space_new(arena);
    space_split(space, "k", 1, 4);
    cr_assert_eq(space->size, 1);
    struct rng rng;
    rng_seed(&rng, 1);
    cr_assert_eq(space_neighbour(space, 0, &rng), 0);
    arena_free(arena);
}

Test(space, the_first_knob_is_the_fastest_digit) {
    struct arena *arena = arena_new(0);
    struct space *space = space_new(arena);
    int64_t digit[SPACE_MAX_KNOBS];
    space_choice(space, "a", unroll, 3);
    space_choice(space, "b", flag, 2);
    space_digits(space, 4, digit);
    cr_assert(digit[0] == 1 && digit[1] == 1);
    cr_assert_eq(space_index(space, digit), 4);
    cr_assert_eq(space_value(space, 4, "a", 0), 512);
    arena_free(arena);
}

Test(space, index_and_entity_agree_both_ways) {
    struct arena *arena = arena_new(0);
    struct space *space = conv_space(arena, (int64_t[]){64, 56, 56, 64, 3, 3}, ry_rx);
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 500; i++) {
        int64_t index = (int64_t)rng_below(&rng, (uint64_t)space->size), back = -1;
        struct json_object *entity CLEANUP(json_put_p) = space_entity(space, index);
        struct error error = {0};
        cr_assert_eq(space_index_of_entity(space, entity, &back, &error), 0, "%s", error.text);
        cr_assert_eq(back, index);
    }
    arena_free(arena);
}

Test(space, entities_look_as_autotvm_writes_them) {
    struct arena *arena = arena_new(0);
    struct space *space = space_new(arena);
    space_split(space, "tile_f", 64, 4);
    space_choice(space, "unroll", unroll, 3);
    struct json_object *given CLEANUP(json_put_p) = parse("[[\"unroll\",\"ot\",512],[\"tile_f\",\"sp\",[-1,2,16,1]]]");
    struct error error = {0};
    int64_t index = -1;
    cr_assert_eq(space_index_of_entity(space, given, &index, &error), 0, "%s", error.text);
    struct json_object *entity CLEANUP(json_put_p) = space_entity(space, index);
    cr_assert_str_eq(json_text(entity, NULL), "[[\"tile_f\",\"sp\",[-1,2,16,1]],[\"unroll\",\"ot\",512]]");
    arena_free(arena);
}

Test(space, a_knob_that_does_not_fit_is_named) {
    static const struct {
        const char *entity, *field;
    } cases[] = {
        {"[[\"f\",\"sp\",[-1,3]],[\"u\",\"ot\",512]]", "f"},
        {"[[\"f\",\"sp\",[8,2]],[\"u\",\"ot\",512]]", "f"},
        {"[[\"f\",\"sp\",[-1,2,1]],[\"u\",\"ot\",512]]", "f"},
        {"[[\"f\",\"ot\",2],[\"u\",\"ot\",512]]", "f"},
        {"[[\"f\",\"sp\",2],[\"u\",\"ot\",512]]", "f"},
        {"[[\"f\",\"sp\",[-1,2]],[\"u\",\"ot\",\"512\"]]", "u"},
        {"[[\"f\",\"sp\",[-1,2]],[\"v\",\"ot\",512]]", "u"},
        {"[[\"f\",\"sp\",[-1,2]],512]", "u"},
        {"[[\"f\",\"sp\",[-1,2]]]", "entity"},
        {"{}", "entity"},
    };
    struct arena *arena = arena_new(0);
    struct space *space = space_new(arena);
    space_split(space, "f", 8, 2);
    space_choice(space, "u", unroll, 3);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json_object *entity CLEANUP(json_put_p) = parse(cases[i].entity);
        struct error error = {0};
        int64_t index = -1;
        cr_assert_eq(space_index_of_entity(space, entity, &index, &error), -1, "accepted %s", cases[i].entity);
        cr_assert_eq(error.class, ERROR_INVALID);
        cr_assert_str_eq(error.field, cases[i].field, "%s", cases[i].entity);
        cr_assert_eq(index, -1);
    }
    arena_free(arena);
}

Test(space, a_neighbour_differs_in_exactly_one_knob_and_each_is_reached) {
    struct arena *arena = arena_new(0);
    struct space *space = space_new(arena);
    int seen[12] = {0};
    space_choice(space, "a", unroll, 3);
    space_split(space, "b", 2, 2);
    space_choice(space, "c", flag, 2);
    struct rng rng;
    rng_seed(&rng, 3);
    for (int i = 0; i < 400; i++) {
        int64_t at = space_neighbour(space, 5, &rng), digit[SPACE_MAX_KNOBS], from[SPACE_MAX_KNOBS];
        space_digits(space, at, digit);
        space_digits(space, 5, from);
        cr_assert_eq((digit[0] != from[0]) + (digit[1] != from[1]) + (digit[2] != from[2]), 1);
        seen[at]++;
    }
    for (int i = 0; i < 12; i++) /* 3, 4 change a; 2 changes b; 11 changes c */
        cr_assert_eq(seen[i] > 60, i == 2 || i == 3 || i == 4 || i == 11, "%d: %d", i, seen[i]);
    arena_free(arena);
}

/* ---- real records ---- */

static int64_t int_at(struct json_object *array, size_t i) {
    return json_object_get_int64(json_object_array_get_idx(array, i));
}

static struct json_object *at(struct json_object *array, size_t i) {
    return json_object_array_get_idx(array, i);
}

/* Holds one line of a tuning log against our space; false when it is another template's. */
static bool check_record(const char *line) {
    struct json_object *record CLEANUP(json_put_p) = parse(line);
    struct json_object *input = NULL, *config = NULL, *index = NULL, *entity = NULL;
    cr_assert(
        json_object_object_get_ex(record, "input", &input) && json_object_object_get_ex(record, "config", &config) &&
        json_object_object_get_ex(config, "index", &index) && json_object_object_get_ex(config, "entity", &entity));
    if (strcmp(json_object_get_string(at(input, 1)), "conv2d_nchw.cuda") != 0)
        return false;
    struct json_object *args = at(input, 2), *x = at(at(args, 0), 1), *w = at(at(args, 1), 1);
    struct json_object *stride = at(args, 2), *pad = at(args, 3), *dilation = at(args, 4);
    int64_t extent[6] = {int_at(w, 0), 0, 0, int_at(w, 1), int_at(w, 2), int_at(w, 3)};
    size_t after = json_object_array_length(pad) == 4 ? 2 : 0;
    for (size_t i = 0; i < 2; i++) {
        int64_t taps = (int_at(w, 2 + i) - 1) * int_at(dilation, i) + 1;
        extent[1 + i] = (int_at(x, 2 + i) + int_at(pad, i) + int_at(pad, i + after) - taps) / int_at(stride, i) + 1;
    }
    const char *window[] = {json_object_get_string(at(at(entity, 4), 0)), json_object_get_string(at(at(entity, 5), 0))};
    struct arena *arena = arena_new(0);
    struct space *space = conv_space(arena, extent, window);
    struct error error = {0};
    int64_t ours = -1;
    cr_assert_eq(space_index_of_entity(space, entity, &ours, &error), 0, "%s\n%s", line, error.text);
    cr_assert_eq(ours, json_object_get_int64(index), "%s", line);
    arena_free(arena);
    return true;
}

Test(space, published_autotvm_records_have_our_indices) {
    char path[TOPHUB_MAX_PATH];
    if (!tophub_log(path))
        cr_skip_test("no tuning log");
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    char *line = NULL;
    size_t size = 0;
    int checked = 0;
    while (getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        checked += check_record(line);
    }
    free(line);
    fclose(file);
    cr_assert_gt(checked, 100);
}
