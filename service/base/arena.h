/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h: memory for one unit of work (a request, an import, a batch of trials), freed as a whole.
 *
 * Allocations are zeroed and aligned to 64 bytes when at least that large, else to 16. An arena is used by one
 * thread at a time. A small allocation that fails aborts the process; one whose size a user chose goes through
 * arena_try_alloc, which answers NULL past the arena's limit or when memory is out. The limit counts every
 * allocation, but only arena_try_alloc refuses by it.
 */
#ifndef WARPTUNE_BASE_ARENA_H
#define WARPTUNE_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "service/base/attr.h"

struct arena;

/* `limit`: the most bytes that all allocations together may take; 0 for no limit. */
struct arena *arena_new(size_t limit);
/* Runs the deferred functions, last first, and frees everything. NULL-safe. */
void arena_free(struct arena *arena);
void arena_free_p(struct arena **arena); /* for CLEANUP */

void *arena_alloc(struct arena *arena, size_t size);
/* count × size, checked; aborts on overflow, so count must be bounded by the caller. */
void *arena_array(struct arena *arena, size_t count, size_t size);
void *arena_try_alloc(struct arena *arena, size_t size) MUST_CHECK;
char *arena_strdup(struct arena *arena, const char *text);
char *arena_strndup(struct arena *arena, const char *text, size_t len);
char *arena_printf(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(struct arena *arena, const char *format, va_list args);
/* Calls fn(data) when the arena is freed. */
void arena_defer(struct arena *arena, void (*fn)(void *data), void *data);
/* Bytes handed out so far. */
size_t arena_used(const struct arena *arena);

#endif
