/* SPDX-License-Identifier: Apache-2.0 */
/*
 * golden_store.h: the golden set of a project for a class of devices: the configurations of one of its jobs that
 * others are held against. A project that is NULL is `default`.
 *
 * They are copied from the job, which may go. Each setting has a number of its own, from 1, and is kept after another
 * took its place, so that it can be said what was golden when.
 */
#ifndef WARPTUNE_STORE_GOLDEN_STORE_H
#define WARPTUNE_STORE_GOLDEN_STORE_H

#include <stdbool.h>

#include "service/base/arena.h"
#include "service/store/db.h"
#include "service/store/uuid.h"

struct golden_config {
    const char *workload;
    const char *name; /* first node of the network that has it */
    int count;        /* nodes that have it */
    const char *template;
    int version; /* the template's; 0: not known any more */
    int64_t index;
    const char *entity;                  /* JSON text */
    double cost_s, spread_s, baseline_s; /* INFINITY: not known */
};

struct golden_row {
    int64_t number;
    const char *device_key;
    char job_id[UUID_TEXT], model_id[UUID_TEXT];
    const char *note;
    const char *result;            /* the job's, JSON text */
    int64_t set_us, ended_us;      /* ended 0: it is golden now */
    struct golden_config *configs; /* in order of workload, by its bytes; NULL in the history */
    int n_configs;
};

/*
 * Makes the job's best configurations golden for its class of devices. The same job again only takes the new note;
 * *ret_made says whether there is a new setting. ERROR_NOT_FOUND "no-such-job", ERROR_CONFLICT "job-not-succeeded".
 */
int golden_set(struct db *db, const char *project_id, const char *job_id, const char *note, struct arena *arena,
               struct golden_row **ret, bool *ret_made, struct error *error) MUST_CHECK;
/* What is golden now, one for each class of devices, or for this one. *ret_count may be 0. */
int golden_now(struct db *db, const char *project_id, const char *device_key, struct arena *arena,
               struct golden_row **ret, int *ret_count, struct error *error) MUST_CHECK;
/* ERROR_NOT_FOUND "no-such-golden". */
int golden_get(struct db *db, const char *project_id, int64_t number, struct arena *arena, struct golden_row **ret,
               struct error *error) MUST_CHECK;
/* Nothing is golden for the class any more. ERROR_NOT_FOUND "no-golden" when nothing was. */
int golden_end(struct db *db, const char *project_id, const char *device_key, struct error *error) MUST_CHECK;

struct golden_filter {
    const char *project_id;
    const char *device_key; /* NULL: all */
    int64_t before;         /* cursor: the last number of the page before; 0: from the newest */
    int limit;              /* 1 to 1000 */
};
/* Newest first, with n_configs, without the configurations. */
int golden_history(struct db *db, const struct golden_filter *filter, struct arena *arena, struct golden_row **ret,
                   int *ret_count, bool *ret_more, struct error *error) MUST_CHECK;

#endif
