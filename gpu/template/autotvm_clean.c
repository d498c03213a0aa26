/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_clean.c: what of a log is worth keeping. One pass over the log, which collects where the good lines are; of
 * records of the same task that are already known to be slower than another nothing is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/template/autotvm_log.h"
#include "gpu/template/autotvm_map.h"
#include "service/base/clock.h"
#include "service/base/sha256.h"

enum { FIRST_ENTRIES = 1 << 10, MOST_ENTRIES = 1 << 20 };

struct entry {
    char task[SHA256_HEX]; /* hash of what makes records each other's rivals */
    double cost_s;
    const char *text;
    size_t len;
};

struct cleaning {
    const struct autotvm_clean_options *options;
    struct autotvm_mapper *mapper;
    struct arena *arena;
    struct autotvm_cleaned *result;
    autotvm_put *put;
    void *data;
    struct entry *entries; /* keep_best */
    size_t n, cap;
};

/* Rivals together, the best of them first. */
static int by_task(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    int order = strcmp(a->task, b->task);
    if (order)
        return order;
    if (a->cost_s != b->cost_s)
        return a->cost_s < b->cost_s ? -1 : 1;
    return a->text < b->text ? -1 : 1;
}

static int by_place(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    return a->text < b->text ? -1 : 1;
}

static void drop_slower(struct cleaning *cleaning) {
    size_t kept = 0;
    if (cleaning->n)
        qsort(cleaning->entries, cleaning->n, sizeof *cleaning->entries, by_task);
    for (size_t i = 0; i < cleaning->n; i++) {
        if (kept && strcmp(cleaning->entries[kept - 1].task, cleaning->entries[i].task) == 0)
            cleaning->result->duplicates++;
        else
            cleaning->entries[kept++] = cleaning->entries[i];
    }
    cleaning->n = kept;
}

/* Room for one more: by dropping the slower ones, unless that frees too little to be worth the sorting. */
static int make_room(struct cleaning *cleaning, struct error *error) {
    if (cleaning->n < cleaning->cap)
        return 0;
    drop_slower(cleaning);
    if (cleaning->cap && cleaning->n <= cleaning->cap / 2)
        return 0;
    size_t cap = cleaning->cap ? cleaning->cap * 2 : FIRST_ENTRIES;
    struct entry *entries = cap <= MOST_ENTRIES ? reallocarray(cleaning->entries, cap, sizeof *entries) : NULL;
    if (!entries)
        return error_set(error, ERROR_LIMIT, "too-many-tasks", NULL, "The log has records of more than %d tasks.",
                         MOST_ENTRIES / 2);
    cleaning->entries = entries;
    cleaning->cap = cap;
    return 0;
}

static int add(struct cleaning *cleaning, const struct autotvm_line *line, const struct autotvm_record *record,
               const char *task, struct error *error) {
    if (make_room(cleaning, error) < 0)
        return -1;
    struct entry *entry = &cleaning->entries[cleaning->n++];
    sha256_of(task, strlen(task), entry->task);
    entry->cost_s = autotvm_record_cost(record);
    entry->text = line->text;
    entry->len = line->len;
    return 0;
}

static int take(void *data, const struct autotvm_line *line, const struct autotvm_record *record, struct error *error) {
    struct cleaning *cleaning = data;
    struct autotvm_fit fit;
    struct error reason;
    if (clock_now_ns() > cleaning->options->deadline)
        return error_set(error, ERROR_TIMEOUT, "clean-too-long", NULL,
                         "Cleaning took too long and ended at line %lld; send the log in parts.",
                         (long long)line->number);
    if (autotvm_record_cost(record) >= AUTOTVM_FAILED_S) {
        cleaning->result->failed++;
        return 0;
    }
    if (autotvm_map(cleaning->mapper, record, &fit, &reason) < 0) {
        autotvm_note(&cleaning->result->stale, line->number, &reason, cleaning->arena);
        return 0;
    }
    if (cleaning->options->keep_best)
        return add(cleaning, line, record, fit.task, error);
    cleaning->result->kept++;
    return cleaning->put(cleaning->data, line->text, line->len, error);
}

static int put_entries(struct cleaning *cleaning, struct error *error) {
    drop_slower(cleaning);
    if (cleaning->n)
        qsort(cleaning->entries, cleaning->n, sizeof *cleaning->entries, by_place);
    for (size_t i = 0; i < cleaning->n; i++)
        if (cleaning->put(cleaning->data, cleaning->entries[i].text, cleaning->entries[i].len, error) < 0)
            return -1;
    cleaning->result->kept += (int64_t)cleaning->n;
    return 0;
}

int autotvm_log_clean(const char *text, size_t len, const struct autotvm_clean_options *options, autotvm_put *put,
                      void *data, struct arena *arena, struct autotvm_cleaned *ret, struct error *error) {
    struct cleaning cleaning = {.options = options,
                                .mapper = autotvm_mapper_new(options->templates),
                                .arena = arena,
                                .result = ret,
                                .put = put,
                                .data = data};
    *ret = (struct autotvm_cleaned){0};
    int status = autotvm_log_each(text, len, take, &cleaning, arena, &ret->log, error);
    if (status == 0)
        status = put_entries(&cleaning, error);
    autotvm_mapper_free(cleaning.mapper);
    free(cleaning.entries);
    return status;
}
