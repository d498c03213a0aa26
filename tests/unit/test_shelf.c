/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/shelf.h"

#include <criterion/criterion.h>
#include <string.h>

static struct device *device;
static struct shelf *shelf;

enum { MOST_IDLE = 1 << 20 };

static void start(void) {
    struct error error = {0};
    cr_assert_eq(device_cpu.open(0, &device, &error), 0, "%s", error.text);
    shelf = shelf_new(&device_cpu, device, MOST_IDLE);
}

static void stop(void) {
    shelf_free(shelf);
    device_cpu.close(device);
}

TestSuite(shelf, .init = start, .fini = stop);

static struct guarded take(size_t bytes) {
    struct guarded guarded;
    struct error error = {0};
    cr_assert_eq(shelf_take(shelf, bytes, CANARY_WRITTEN, &guarded, &error), 0, "%s", error.text);
    cr_assert_eq(guarded.bytes, bytes);
    cr_assert_eq(guarded.data % 256, 0);
    return guarded;
}

static bool is_intact(const struct guarded *guarded) {
    bool intact = false;
    int64_t offset;
    struct error error = {0};
    cr_assert_eq(guarded_check(&device_cpu, device, guarded, &intact, &offset, &error), 0);
    return intact;
}

Test(shelf, what_was_given_back_is_taken_again) {
    struct guarded first = take(10000);
    uint64_t base = first.base;
    shelf_give(shelf, &first);
    cr_assert_eq(first.base, 0);
    cr_assert_gt(shelf_idle_bytes(shelf), 10000);
    struct guarded second = take(9900);
    cr_assert_eq(second.base, base);
    cr_assert_eq(shelf_idle_bytes(shelf), 0);
    struct guarded third = take(9900);
    cr_assert_neq(third.base, base);
}

/* Whoever had it last may have written anywhere. */
Test(shelf, each_comes_with_canaries_of_its_own_size) {
    for (size_t bytes = 4000; bytes < 4100; bytes++) {
        struct guarded guarded = take(bytes);
        struct error error = {0};
        cr_assert_eq(guarded_poison(&device_cpu, device, &guarded, &error), 0);
        cr_assert(is_intact(&guarded), "%zu bytes", bytes);
        unsigned char *data = (unsigned char *)(uintptr_t)guarded.data;
        cr_assert_eq(data[bytes - 1], 0xff);
        data[bytes] ^= 1;
        cr_assert_not(is_intact(&guarded), "%zu bytes", bytes);
        memset((void *)(uintptr_t)guarded.base, 0, guarded.total);
        shelf_give(shelf, &guarded);
    }
}

Test(shelf, a_large_buffer_does_not_serve_a_small_need) {
    struct guarded large = take(500000);
    uint64_t base = large.base;
    shelf_give(shelf, &large);
    cr_assert_neq(take(100).base, base);
}

Test(shelf, idle_memory_is_bounded) {
    struct guarded many[10];
    for (int i = 0; i < 10; i++)
        many[i] = take(300000);
    for (int i = 0; i < 10; i++) {
        shelf_give(shelf, &many[i]);
        cr_assert_leq(shelf_idle_bytes(shelf), MOST_IDLE);
    }
    cr_assert_gt(shelf_idle_bytes(shelf), 0);
}

Test(shelf, a_size_that_cannot_be_is_refused) {
    struct guarded guarded;
    struct error error = {0};
    cr_assert_eq(shelf_take(shelf, SIZE_MAX - 10, CANARY_READ, &guarded, &error), -1);
    cr_assert_str_eq(error.code, "out-of-memory");
    shelf_give(shelf, &(struct guarded){0}); /* never taken */
    shelf_free(NULL);
}
