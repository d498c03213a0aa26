/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_store.h: the best configuration known for a workload on a class of devices.
 *
 * Each project keeps its own best ones. Who reads, the viewer, is a project (NULL: `default`) and gets, of those that
 * it may see (its own, public ones, those shared with it), the fastest for each workload and class; one that was
 * measured with an older version of a template than another is passed over.
 */
#ifndef WARPTUNE_STORE_CONFIG_STORE_H
#define WARPTUNE_STORE_CONFIG_STORE_H

#include <stdbool.h>

#include "service/base/arena.h"
#include "service/model/workload.h"
#include "service/store/db.h"
#include "service/store/project_store.h"
#include "service/store/uuid.h"

#define CONFIG_MAX_WORKLOAD 2000 /* bytes of a workload's text */
#define CONFIG_MAX_DEVICE_KEY 200

struct config_row {
    const char *workload;   /* canonical text */
    const char *device_key; /* the class of devices */
    const char *template;
    int version; /* the template's when it was measured */
    int64_t index;
    const char *entity;                  /* JSON text */
    double cost_s, spread_s, baseline_s; /* baseline INFINITY: not known */
    const char *provenance;              /* JSON text: device, driver, compiler, … */
    const char *job_id;                  /* where it was measured; NULL: imported */
    const char *project_id;              /* who keeps it; NULL: the job's project, or `default` */
    int64_t updated_us;
    const char *project; /* its name; read only, as the next */
    enum visibility visibility;
};

/*
 * Keeps it when it is faster than the project's one there, or was measured with a newer version of the same template;
 * *ret_kept (optional) says whether. Who may see a new one is as the project says.
 */
int config_put(struct db *db, const struct config_row *config, bool *ret_kept, struct error *error) MUST_CHECK;
/* All of them in one transaction; *ret_kept: how many were kept. It sorts them. */
int config_put_all(struct db *db, struct config_row *configs, int n, int *ret_kept, struct error *error) MUST_CHECK;
/* *ret NULL when there is none. */
int config_get(struct db *db, const char *viewer, const char *workload, const char *device_key, struct arena *arena,
               struct config_row **ret, struct error *error) MUST_CHECK;

struct config_filter {
    const char *viewer;                            /* NULL: `default` */
    bool own;                                      /* only those that the viewer keeps itself */
    const char *workload, *device_key;             /* NULL: all */
    const char *after_workload, *after_device_key; /* cursor: the last of the page before; NULL: from the start */
    int limit;                                     /* 1 to 10000 */
};
/* In order of (workload, device_key). */
int config_list(struct db *db, const struct config_filter *filter, struct arena *arena, struct config_row **ret,
                int *ret_count, bool *ret_more, struct error *error) MUST_CHECK;
/* Calls fn for every configuration of the filter (its limit is not looked at) in that order; -1 as soon as fn is. */
int config_each(struct db *db, const struct config_filter *filter,
                int (*fn)(void *data, const struct config_row *config, struct error *error), void *data,
                struct error *error) MUST_CHECK;

/*
 * Changes who may see a project's own configurations, those of the filter's workload and device (its other members are
 * not looked at); *ret_changed: how many. ERROR_INVALID "no-such-project" names who does not exist.
 */
int config_share(struct db *db, const char *project_id, const struct config_filter *filter,
                 const struct sharing *sharing, int64_t *ret_changed, struct error *error) MUST_CHECK;

/* What a configuration of another workload must be to stand in for `workload`. */
struct config_wish {
    const char *viewer; /* NULL: `default` */
    const struct workload *workload;
    const char *device_key;
    /* Whether a configuration of this template and version could be used at all. */
    bool (*usable)(void *data, const char *template, int version);
    void *data;
};
/*
 * The usable configuration on the same class of devices whose workload is closest (workload_distance), and not the
 * wished one itself. *ret NULL when there is none.
 */
int config_nearest(struct db *db, const struct config_wish *wish, struct arena *arena, struct config_row **ret,
                   double *ret_distance, struct error *error) MUST_CHECK;

#endif
