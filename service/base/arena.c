/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 64 * 1024, ALIGN_SMALL = 16, ALIGN_LARGE = 64 };

/* Memory comes zeroed from calloc and is handed out once, so that no allocation needs to be cleared. */
struct block {
    struct block *next;
    char *at, *end;
};

struct deferred {
    struct deferred *next;
    void (*fn)(void *data);
    void *data;
};

struct arena {
    struct block *blocks; /* the first is the one that is being filled */
    struct deferred *deferred;
    size_t limit, used;
};

static void out_of_memory(size_t size) {
    fprintf(stderr, "out of memory: an allocation of %zu bytes failed\n", size);
    abort();
}

struct arena *arena_new(size_t limit) {
    struct arena *arena = calloc(1, sizeof *arena);
    if (!arena)
        out_of_memory(sizeof *arena);
    arena->limit = limit;
    return arena;
}

void arena_free(struct arena *arena) {
    if (!arena)
        return;
    for (struct deferred *d = arena->deferred; d; d = d->next)
        d->fn(d->data);
    for (struct block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}

void arena_free_p(struct arena **arena) {
    arena_free(*arena);
    *arena = NULL;
}

static char *align_up(char *at, size_t align) {
    return at + (-(uintptr_t)at & (align - 1));
}

static char *block_take(struct block *block, size_t size, size_t align) {
    size_t room = (size_t)(block->end - block->at), pad = (size_t)(align_up(block->at, align) - block->at);
    if (pad > room || size > room - pad)
        return NULL;
    char *at = block->at + pad;
    block->at = at + size;
    return at;
}

/* A large allocation gets a block of its own, behind the first, which goes on being filled. */
static struct block *block_add(struct arena *arena, size_t size) {
    bool own = size > BLOCK_SIZE / 4;
    size_t total = own ? sizeof(struct block) + ALIGN_LARGE + size : BLOCK_SIZE;
    struct block *block = calloc(1, total);
    if (!block)
        return NULL;
    block->at = (char *)(block + 1);
    block->end = (char *)block + total;
    struct block **place = own && arena->blocks ? &arena->blocks->next : &arena->blocks;
    block->next = *place;
    *place = block;
    return block;
}

static void *allocate(struct arena *arena, size_t size) {
    if (size > PTRDIFF_MAX / 2)
        return NULL;
    size_t align = size >= ALIGN_LARGE ? ALIGN_LARGE : ALIGN_SMALL;
    char *at = arena->blocks ? block_take(arena->blocks, size ? size : 1, align) : NULL;
    if (!at) {
        struct block *block = block_add(arena, size);
        if (!block)
            return NULL;
        at = block_take(block, size ? size : 1, align);
    }
    arena->used += size;
    return at;
}

void *arena_alloc(struct arena *arena, size_t size) {
    void *at = allocate(arena, size);
    if (!at)
        out_of_memory(size);
    return at;
}

void *arena_array(struct arena *arena, size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        out_of_memory(SIZE_MAX);
    return arena_alloc(arena, total);
}

void *arena_try_alloc(struct arena *arena, size_t size) {
    if (arena->limit > 0 && (arena->used > arena->limit || size > arena->limit - arena->used))
        return NULL;
    return allocate(arena, size);
}

char *arena_strdup(struct arena *arena, const char *text) {
    return arena_strndup(arena, text, strlen(text));
}

char *arena_strndup(struct arena *arena, const char *text, size_t len) {
    size_t n = strnlen(text, len);
    char *copy = arena_alloc(arena, n + 1);
    memcpy(copy, text, n);
    return copy;
}

char *arena_vprintf(struct arena *arena, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    size_t size = len < 0 ? 1 : (size_t)len + 1;
    char *text = arena_alloc(arena, size);
    if (len > 0)
        vsnprintf(text, size, format, again);
    va_end(again);
    return text;
}

char *arena_printf(struct arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

void arena_defer(struct arena *arena, void (*fn)(void *data), void *data) {
    struct deferred *d = arena_alloc(arena, sizeof *d);
    *d = (struct deferred){arena->deferred, fn, data};
    arena->deferred = d;
}

size_t arena_used(const struct arena *arena) {
    return arena->used;
}
