/* SPDX-License-Identifier: Apache-2.0 */
/*
 * project_store.h: projects: who owns models, jobs and configurations, how much of what they may use, and have used.
 *
 * The project `default` always exists. Wherever a function takes a project's id, NULL stands for that project.
 */
#ifndef WARPTUNE_STORE_PROJECT_STORE_H
#define WARPTUNE_STORE_PROJECT_STORE_H

#include <stdbool.h>

#include "service/base/arena.h"
#include "service/store/db.h"
#include "service/store/uuid.h"

#define PROJECT_DEFAULT_ID "00000000-0000-7000-8000-000000000000"
#define PROJECT_NAME 64 /* bytes of a name, NUL included */
#define QUOTA_NONE (-1) /* no limit */

static inline const char *project_or_default(const char *id) {
    return id ? id : PROJECT_DEFAULT_ID;
}

/* 1 to 63 of a-z 0-9 . _ -, beginning with a letter or digit. */
bool project_name_valid(const char *name);

struct project_quotas {
    int64_t model_bytes; /* of all its models together; QUOTA_NONE, as for the next two */
    int64_t open_jobs;   /* that wait, run or are paused */
    int64_t gpu_s;       /* seconds of GPUs in a day of UTC */
};

/* Who, besides the project itself, may see a configuration. */
enum visibility { VISIBLE_PRIVATE, VISIBLE_SHARED, VISIBLE_PUBLIC, VISIBILITY_COUNT };
const char *visibility_name(enum visibility visibility);
int visibility_parse(const char *name, enum visibility *ret, struct error *error) MUST_CHECK;

struct sharing {
    enum visibility visibility;
    const char *const *with; /* VISIBLE_SHARED: names of projects */
    int n_with;
};

struct project_row {
    char id[UUID_TEXT], name[PROJECT_NAME];
    struct project_quotas quotas;
    struct sharing configs; /* of the configurations that it finds from now on */
    int64_t created_us;
    int64_t model_bytes, models, open_jobs; /* used now */
    double gpu_s, device_s;                 /* used today, the GPUs' and of all devices */
};

struct project_new {
    const char *name;
    struct project_quotas quotas;
    struct sharing configs;
};

/* ERROR_CONFLICT "project-exists"; ERROR_INVALID "bad-name" or, of `with`, "no-such-project". */
int project_create(struct db *db, const struct project_new *project, struct arena *arena, struct project_row **ret,
                   struct error *error) MUST_CHECK;
/* ERROR_NOT_FOUND "no-such-project". */
int project_get(struct db *db, const char *id, struct arena *arena, struct project_row **ret,
                struct error *error) MUST_CHECK;
int project_find(struct db *db, const char *name, struct arena *arena, struct project_row **ret,
                 struct error *error) MUST_CHECK;
/* Newest first, at most `limit` (1 to 1000), after the project `after` (NULL: from the start). */
int project_list(struct db *db, const char *after, int limit, struct arena *arena, struct project_row **ret,
                 int *ret_count, bool *ret_more, struct error *error) MUST_CHECK;
/* Name, quotas and sharing become those given. `default` keeps its name: ERROR_CONFLICT "default-project". */
int project_update(struct db *db, const char *id, const struct project_new *project, struct error *error) MUST_CHECK;

/*
 * Revokes its tokens, then removes it with its models, jobs and configurations; cut off half-way it goes on when asked
 * again. ERROR_CONFLICT "project-in-use" while jobs have not ended, "project-not-empty" when there is something to lose
 * and not `everything`, "default-project".
 */
int project_delete(struct db *db, const char *id, bool everything, struct error *error) MUST_CHECK;

/* Whose a job, or a model, is: that never changes. ERROR_NOT_FOUND "no-such-job", "no-such-model". */
int project_of_job(struct db *db, const char *job_id, char ret_id[UUID_TEXT], struct error *error) MUST_CHECK;
int project_of_model(struct db *db, const char *model_id, char ret_id[UUID_TEXT], struct error *error) MUST_CHECK;

/* "{id,id}" as PostgreSQL's uuid[], of projects by name. ERROR_INVALID "no-such-project", field "shared_with". */
int project_ids(struct db *db, const struct sharing *sharing, struct arena *arena, const char **ret,
                struct error *error) MUST_CHECK;

#endif
