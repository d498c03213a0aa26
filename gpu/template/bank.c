/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/bank.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Large enough for each template's space to have all its candidates. */
static const char *const kinds[] = {
    "conv2d(f32:nhwc:8x64x32x32, f32:row:256x64x3x3) -> f32:nhwc:8x256x32x32 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
    "conv2d(f32:nhwc:8x65x32x32, f32:row:256x65x3x3) -> f32:nhwc:8x256x32x32 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
    "conv2d(f32:row:8x64x32x32, f32:row:256x64x3x3) -> f32:row:8x256x32x32 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
};

struct list {
    struct bank_entry *entries;
    int n, capacity;
};

static void append(struct list *list, const struct bank_entry *entry) {
    if (list->n == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 256;
        list->entries = realloc(list->entries, (size_t)list->capacity * sizeof *list->entries);
        if (!list->entries)
            abort();
    }
    list->entries[list->n++] = *entry;
}

/* The banked configurations of one template for one workload; those that the device cannot hold are no programs. */
static void add_template(struct list *list, const struct template *template, const char *key,
                         const struct workload *workload, const struct target *target, struct arena *arena) {
    const struct space *space = template->space(workload, target, arena);
    for (int64_t i = 0; i < space->size; i++) {
        struct program *program;
        struct error error;
        if (template->banked(space, i) && template->render(workload, target, space, i, arena, &program, &error) == 0)
            append(list, &(struct bank_entry){program->source, template, key, i});
    }
}

static void add_kind(struct list *list, const char *key, const struct target *target, struct arena *arena) {
    struct workload *workload;
    struct error error;
    int status = workload_parse(key, arena, &workload, &error);
    assert(status == 0);
    (void)status;
    for (const struct template *const *t = template_builtin; *t; t++) {
        if ((*t)->banked && strcmp((*t)->device, target->kind) == 0 && (*t)->serves(workload, target))
            add_template(list, *t, key, workload, target, arena);
    }
}

static int compare(const void *a, const void *b) {
    const struct bank_entry *x = a, *y = b;
    int order = strcmp(x->source, y->source);
    if (order == 0) /* then any order that is always the same */
        order = strcmp(x->workload, y->workload);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

void bank_list(const struct target *target, struct arena *arena, struct bank_entry **ret, int *ret_count) {
    struct list list = {0};
    int n = 0;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        add_kind(&list, kinds[i], target, arena);
    if (list.n > 0)
        qsort(list.entries, (size_t)list.n, sizeof *list.entries, compare);
    *ret = arena_array(arena, (size_t)list.n + 1, sizeof **ret);
    for (int i = 0; i < list.n; i++) {
        if (n == 0 || strcmp((*ret)[n - 1].source, list.entries[i].source) != 0)
            (*ret)[n++] = list.entries[i];
    }
    free(list.entries);
    *ret_count = n;
}
