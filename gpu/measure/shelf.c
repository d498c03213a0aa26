/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/shelf.h"

#include <stdlib.h>

/* Sizes are rounded up to one of this many steps between powers of two, so that near ones can share. */
enum { STEPS = 8, LEAST = 4096, WASTE = 2 };

struct block {
    struct block *next;
    uint64_t base;
    size_t capacity;
};

struct shelf {
    const struct device_class *class;
    struct device *device;
    struct block *idle, *taken;
    size_t idle_bytes, most_idle_bytes;
};

struct shelf *shelf_new(const struct device_class *class, struct device *device, size_t most_idle_bytes) {
    struct shelf *shelf = calloc(1, sizeof *shelf);
    if (!shelf)
        abort();
    *shelf = (struct shelf){.class = class, .device = device, .most_idle_bytes = most_idle_bytes};
    return shelf;
}

size_t shelf_idle_bytes(const struct shelf *shelf) {
    return shelf->idle_bytes;
}

static size_t round_up(size_t total) {
    size_t step = LEAST / STEPS;
    while (step * STEPS < total)
        step *= 2;
    step = step / 2 > LEAST / STEPS ? step / 2 : LEAST / STEPS;
    return (total + step - 1) / step * step;
}

/* Takes the first of the list's blocks out that fits between the two sizes; NULL when there is none. */
static struct block *take_out(struct block **list, size_t least, size_t most) {
    struct block **best = NULL;
    for (struct block **at = list; *at; at = &(*at)->next)
        if ((*at)->capacity >= least && (*at)->capacity <= most && (!best || (*at)->capacity < (*best)->capacity))
            best = at;
    struct block *block = best ? *best : NULL;
    if (block)
        *best = block->next;
    return block;
}

/* Frees idle blocks until at most `most` bytes are. */
static void trim(struct shelf *shelf, size_t most) {
    while (shelf->idle && shelf->idle_bytes > most) {
        struct block *block = shelf->idle;
        shelf->idle = block->next;
        shelf->idle_bytes -= block->capacity;
        shelf->class->free(shelf->device, block->base);
        free(block);
    }
}

static struct block *make_block(struct shelf *shelf, size_t capacity, struct error *error) {
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        abort();
    block->capacity = capacity;
    if (shelf->class->alloc(shelf->device, capacity, &block->base, error) == 0)
        return block;
    trim(shelf, 0);
    if (shelf->class->alloc(shelf->device, capacity, &block->base, error) == 0)
        return block;
    free(block);
    return NULL;
}

static void put_idle(struct shelf *shelf, struct block *block) {
    block->next = shelf->idle;
    shelf->idle = block;
    shelf->idle_bytes += block->capacity;
}

int shelf_take(struct shelf *shelf, size_t bytes, uint32_t canary, struct guarded *ret, struct error *error) {
    size_t total = guarded_total(bytes);
    if (total > SIZE_MAX / 4)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "A buffer of %zu bytes is too large.", bytes);
    size_t capacity = round_up(total);
    struct block *block = take_out(&shelf->idle, total, capacity * WASTE);
    if (block)
        shelf->idle_bytes -= block->capacity;
    else
        block = make_block(shelf, capacity, error);
    if (!block)
        return -1;
    if (guarded_place(shelf->class, shelf->device, block->base, bytes, canary, ret, error) < 0) {
        put_idle(shelf, block);
        return -1;
    }
    block->next = shelf->taken;
    shelf->taken = block;
    return 0;
}

void shelf_give(struct shelf *shelf, struct guarded *guarded) {
    for (struct block **at = &shelf->taken; guarded->base && *at; at = &(*at)->next) {
        struct block *block = *at;
        if (block->base != guarded->base)
            continue;
        *at = block->next;
        put_idle(shelf, block);
        break;
    }
    *guarded = (struct guarded){0};
    trim(shelf, shelf->most_idle_bytes);
}

void shelf_free(struct shelf *shelf) {
    if (!shelf)
        return;
    trim(shelf, 0);
    while (shelf->taken) { /* their memory goes with the device */
        struct block *block = shelf->taken;
        shelf->taken = block->next;
        free(block);
    }
    free(shelf);
}
