/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/point_set.h"

#include <stdlib.h>

static struct point_entry *slot_of(struct point_entry *entries, int64_t cap, struct point point) {
    uint64_t mask = (uint64_t)cap - 1;
    uint64_t hash = ((uint64_t)point.index + (uint64_t)point.domain * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    uint64_t i = (hash ^ hash >> 32) & mask;
    while (entries[i].point.index >= 0 &&
           (entries[i].point.index != point.index || entries[i].point.domain != point.domain))
        i = (i + 1) & mask;
    return &entries[i];
}

static void grow(struct point_set *set) {
    int64_t cap = set->cap ? 2 * set->cap : 64;
    struct point_entry *entries = malloc((size_t)cap * sizeof *entries);
    if (!entries)
        abort();
    for (int64_t i = 0; i < cap; i++)
        entries[i].point.index = -1;
    for (int64_t i = 0; i < set->cap; i++)
        if (set->entries[i].point.index >= 0)
            *slot_of(entries, cap, set->entries[i].point) = set->entries[i];
    free(set->entries);
    set->entries = entries;
    set->cap = cap;
}

void point_set_free(struct point_set *set) {
    free(set->entries);
    *set = (struct point_set){0};
}

int64_t point_set_get(const struct point_set *set, struct point point) {
    if (set->n == 0)
        return -1;
    const struct point_entry *entry = slot_of(set->entries, set->cap, point);
    return entry->point.index >= 0 ? entry->value : -1;
}

bool point_set_has(const struct point_set *set, struct point point) {
    return set->n > 0 && slot_of(set->entries, set->cap, point)->point.index >= 0;
}

bool point_set_add(struct point_set *set, struct point point, int64_t value) {
    if (2 * set->n >= set->cap)
        grow(set);
    struct point_entry *entry = slot_of(set->entries, set->cap, point);
    if (entry->point.index >= 0)
        return false;
    *entry = (struct point_entry){point, value};
    set->n++;
    return true;
}
