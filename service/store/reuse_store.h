/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reuse_store.h: whether the very same work was searched for already, well enough that its best can be taken as it is.
 */
#ifndef WARPTUNE_STORE_REUSE_STORE_H
#define WARPTUNE_STORE_REUSE_STORE_H

#include "service/store/config_store.h"

struct reuse_wish {
    const char *workload, *device_key;
    int64_t trials;         /* that a search would be given */
    int64_t early_stopping; /* 0: never */
    /* Whether the configuration still is what its template makes of the workload. */
    bool (*usable)(void *data, const struct config_row *config);
    void *data;
    const char *viewer; /* the project that wants to know; NULL: `default` */
};

struct reuse_record {
    struct config_row config; /* the fastest known for the workload on the class of devices */
    int64_t trial;            /* its number in its task of the job; -1: not kept here */
    int64_t trials;           /* of the search that was as long as the wished one */
};

/*
 * *ret NULL when there is none. The record's configuration is the fastest known, and a search of the workload with that
 * version of its template was as long as the wished one would be: it had as many trials, or nothing was left to try or
 * to gain, or it stopped early by a rule at least as patient. An imported configuration counts by its provenance.
 */
int reuse_find(struct db *db, const struct reuse_wish *wish, struct arena *arena, struct reuse_record **ret,
               struct error *error) MUST_CHECK;

#endif
