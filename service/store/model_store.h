/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_store.h: uploaded models. Within its project a model is known by the SHA-256 of its bytes, which are a blob
 * (blob_store.h) that models of several projects may share.
 */
#ifndef WARPTUNE_STORE_MODEL_STORE_H
#define WARPTUNE_STORE_MODEL_STORE_H

#include <stdbool.h>

#include "service/base/arena.h"
#include "service/base/sha256.h"
#include "service/store/db.h"
#include "service/store/uuid.h"

struct model_row {
    char id[UUID_TEXT];
    char sha256[SHA256_HEX];
    const char *name;
    int64_t bytes;
    const char *summary; /* JSON text, as it was given */
    int64_t created_us;
};

struct model_new {
    const char *project_id; /* NULL: `default` */
    const char *name;
    const char *sha256; /* of a stored blob */
    int64_t bytes;
    const char *summary; /* JSON text */
};

/*
 * Inserts, or finds the project's model with the same bytes (then name and summary stay the first one's): the same
 * bytes from two clients at once make one model. ERROR_CONFLICT "blob-missing" when the blob is not there (any more):
 * store it again; ERROR_LIMIT "quota-model-bytes" of the project.
 */
int model_create(struct db *db, const struct model_new *model, struct arena *arena, struct model_row **ret,
                 bool *ret_created, struct error *error) MUST_CHECK;
/* ERROR_NOT_FOUND "no-such-model". */
int model_get(struct db *db, const char *id, struct arena *arena, struct model_row **ret,
              struct error *error) MUST_CHECK;
/* A project's, by its bytes. */
int model_find(struct db *db, const char *project_id, const char *sha256, struct arena *arena, struct model_row **ret,
               struct error *error) MUST_CHECK;
/* ERROR_LIMIT "quota-model-bytes" when the project has no room for so many bytes now. */
int model_check_room(struct db *db, const char *project_id, int64_t bytes, struct error *error) MUST_CHECK;
/* A project's, newest first, at most `limit` (1 to 1000), after the model `after` (NULL or empty: from the start). */
int model_list(struct db *db, const char *project_id, const char *after, int limit, struct arena *arena,
               struct model_row **ret, int *ret_count, bool *ret_more, struct error *error) MUST_CHECK;
/* With its blob, when nothing else refers to that. ERROR_CONFLICT "model-in-use" while a job that has not ended uses
 * it. */
int model_delete(struct db *db, const char *id, struct error *error) MUST_CHECK;

#endif
