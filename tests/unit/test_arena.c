/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/arena.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

Test(arena, memory_is_zeroed_and_aligned) {
    CLEANUP(arena_free_p) struct arena *arena = arena_new(0);
    for (size_t size = 0; size < 3000; size += 7) {
        unsigned char *at = arena_alloc(arena, size);
        cr_assert_eq((uintptr_t)at % (size >= 64 ? 64 : 16), 0, "size %zu", size);
        for (size_t i = 0; i < size; i++)
            cr_assert_eq(at[i], 0);
        memset(at, 0xFF, size);
    }
}

Test(arena, large_blocks_do_not_overlap_small_ones) {
    CLEANUP(arena_free_p) struct arena *arena = arena_new(0);
    char *small = arena_alloc(arena, 16);
    char *large = arena_alloc(arena, 1 << 20);
    char *next = arena_alloc(arena, 16);
    memset(large, 'x', 1 << 20);
    cr_assert_eq(next - small, 16, "the first block goes on being filled");
    cr_assert_eq(small[0] | next[0], 0);
}

Test(arena, a_large_block_may_come_first) {
    CLEANUP(arena_free_p) struct arena *arena = arena_new(0);
    memset(arena_alloc(arena, 100000), 'x', 100000);
    memset(arena_alloc(arena, 1000), 'y', 1000);
    cr_assert_eq(arena_used(arena), 101000);
}

Test(arena, try_alloc_refuses_past_the_limit) {
    CLEANUP(arena_free_p) struct arena *arena = arena_new(1000);
    cr_assert_not_null(arena_try_alloc(arena, 600));
    cr_assert_null(arena_try_alloc(arena, 401));
    cr_assert_null(arena_try_alloc(arena, SIZE_MAX));
    cr_assert_not_null(arena_try_alloc(arena, 400));
    arena_alloc(arena, 16);
    cr_assert_null(arena_try_alloc(arena, 1));
}

Test(arena, try_alloc_without_a_limit_refuses_the_impossible) {
    CLEANUP(arena_free_p) struct arena *arena = arena_new(0);
    cr_assert_null(arena_try_alloc(arena, SIZE_MAX));
    cr_assert_null(arena_try_alloc(arena, SIZE_MAX / 2));
    cr_assert_eq(arena_used(arena), 0);
}

Test(arena, texts_are_copied_and_printed) {
    CLEANUP(arena_free_p) struct arena *arena = arena_new(0);
    cr_assert_str_eq(arena_strdup(arena, "model"), "model");
    cr_assert_str_eq(arena_strndup(arena, "model", 3), "mod");
    cr_assert_str_eq(arena_strndup(arena, "m", 3), "m");
    cr_assert_str_eq(arena_printf(arena, "%s-%d", "a", 5), "a-5");
    cr_assert_str_eq(arena_printf(arena, "%s", ""), "");
    cr_assert_eq(strlen(arena_printf(arena, "%*d", 50000, 1)), 50000);
}

Test(arena, an_array_holds_count_times_size) {
    CLEANUP(arena_free_p) struct arena *arena = arena_new(0);
    cr_assert_not_null(arena_array(arena, 10, 12));
    cr_assert_eq(arena_used(arena), 120);
}

static void append_digit(void *data) {
    int *number = data;
    *number = *number * 10 + 1;
}

static void double_it(void *data) {
    int *number = data;
    *number *= 2;
}

Test(arena, deferred_functions_run_last_first) {
    struct arena *arena = arena_new(0);
    int number = 3;
    arena_defer(arena, double_it, &number);
    arena_defer(arena, append_digit, &number);
    cr_assert_eq(number, 3);
    arena_free(arena);
    cr_assert_eq(number, 62);
}

Test(arena, free_takes_null) {
    struct arena *none = NULL;
    arena_free(NULL);
    arena_free_p(&none);
}
