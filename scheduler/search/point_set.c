/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/point_set.h"

#include <stdlib.h>

static struct point *slot_of(struct point *slots, int64_t cap, struct point point) {
    uint64_t mask = (uint64_t)cap - 1;
    uint64_t hash = ((uint64_t)point.index + (uint64_t)point.domain * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    uint64_t i = (hash ^ hash >> 32) & mask;
    while (slots[i].index >= 0 && (slots[i].index != point.index || slots[i].domain != point.domain))
        i = (i + 1) & mask;
    return &slots[i];
}

static void grow(struct point_set *set) {
    int64_t cap = set->cap ? 2 * set->cap : 64;
    struct point *slots = malloc((size_t)cap * sizeof *slots);
    if (!slots)
        abort();
    for (int64_t i = 0; i < cap; i++)
        slots[i].index = -1;
    for (int64_t i = 0; i < set->cap; i++)
        if (set->slots[i].index >= 0)
            *slot_of(slots, cap, set->slots[i]) = set->slots[i];
    free(set->slots);
    set->slots = slots;
    set->cap = cap;
}

void point_set_free(struct point_set *set) {
    free(set->slots);
    *set = (struct point_set){0};
}

bool point_set_has(const struct point_set *set, struct point point) {
    return set->n > 0 && slot_of(set->slots, set->cap, point)->index >= 0;
}

bool point_set_add(struct point_set *set, struct point point) {
    if (2 * set->n >= set->cap)
        grow(set);
    struct point *slot = slot_of(set->slots, set->cap, point);
    if (slot->index >= 0)
        return false;
    *slot = point;
    set->n++;
    return true;
}
