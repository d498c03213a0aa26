/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/model_store.h"

#include <string.h>

#include "service/store/blob_store.h"
#include "service/store/pg.h"
#include "service/store/project_store.h"
#include "service/store/quota.h"

#define COLUMNS "id, sha256, name, bytes, summary, created_at"

static const struct statement insert = {
    "model_insert", "INSERT INTO models (id, sha256, name, bytes, summary, project_id) "
                    "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (project_id, sha256) DO NOTHING RETURNING " COLUMNS};
static const struct statement by_id = {"model_get", "SELECT " COLUMNS " FROM models WHERE id = $1"};
static const struct statement by_sha256 = {"model_find",
                                           "SELECT " COLUMNS " FROM models WHERE sha256 = $1 AND project_id = $2"};
static const struct statement page = {"model_list", "SELECT " COLUMNS " FROM models WHERE project_id = $3"
                                                    " AND ($1::uuid IS NULL OR id < $1) ORDER BY id DESC LIMIT $2"};
/* A job that is being made holds the row's share lock until it is there. */
static const struct statement lock = {"model_lock", "SELECT sha256 FROM models WHERE id = $1 FOR UPDATE"};
static const struct statement in_use = {
    "model_in_use",
    "SELECT id FROM jobs WHERE model_id = $1 AND state IN ('queued', 'running', 'paused') ORDER BY id LIMIT 1"};
static const struct statement delete_row = {"model_delete", "DELETE FROM models WHERE id = $1"};

static int no_such_model(const char *id, struct error *error) {
    return error_set(error, ERROR_NOT_FOUND, "no-such-model", NULL, "There is no model %.64s.", id ? id : "");
}

static void read_model(const PGresult *result, int number, struct arena *arena, struct model_row *ret) {
    struct row row = {result, number, 0};
    row_copy(&row, ret->id, sizeof ret->id);
    row_copy(&row, ret->sha256, sizeof ret->sha256);
    ret->name = row_text(&row, arena);
    ret->bytes = row_int(&row);
    ret->summary = row_text(&row, arena);
    ret->created_us = row_time(&row);
}

/* The one row of a result; *ret NULL when there is none. */
static int get_one(struct db *db, const struct statement *statement, const struct params *params, struct arena *arena,
                   struct model_row **ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (db_run(db, statement, params, &result, error) < 0)
        return -1;
    *ret = NULL;
    if (PQntuples(result) == 0)
        return 0;
    *ret = arena_alloc(arena, sizeof **ret);
    read_model(result, 0, arena, *ret);
    return 0;
}

static int find_bytes(struct db *db, const char *project_id, const char *sha256, struct arena *arena,
                      struct model_row **ret, struct error *error) {
    struct params params = {0};
    params_text(&params, sha256);
    params_text(&params, project_or_default(project_id));
    return get_one(db, &by_sha256, &params, arena, ret, error);
}

struct creation {
    const struct params *params;
    const struct model_new *model;
    PGresult *result;
};

/* Bytes that the project has already need no room. */
static int try_insert(struct pg *pg, void *data, struct error *error) {
    struct creation *creation = data;
    const struct model_new *model = creation->model;
    PGresult *found CLEANUP(pg_clear_p) = NULL;
    struct params key = {0};
    params_text(&key, model->sha256);
    params_text(&key, project_or_default(model->project_id));
    PQclear(creation->result);
    creation->result = NULL;
    if (pg_run(pg, &by_sha256, &key, &found, error) < 0 ||
        (PQntuples(found) == 0 && quota_for_model(pg, model->project_id, model->bytes, error) < 0))
        return -1;
    if (pg_run(pg, &insert, creation->params, &creation->result, error) == 0)
        return 0;
    if (strcmp(pg_sqlstate(pg), "23503") == 0)
        return error_set(error, ERROR_CONFLICT, "blob-missing", NULL,
                         "The model's bytes were deleted while it was being stored. Send the file again.");
    return -1;
}

int model_create(struct db *db, const struct model_new *model, struct arena *arena, struct model_row **ret,
                 bool *ret_created, struct error *error) {
    char id[UUID_TEXT];
    uuid_make(id);
    struct params params = {0};
    params_text(&params, id);
    params_text(&params, model->sha256);
    params_text(&params, model->name);
    params_int(&params, model->bytes);
    params_text(&params, model->summary);
    params_text(&params, project_or_default(model->project_id));
    struct creation creation = {&params, model, NULL};
    int status = db_transaction(db, try_insert, &creation, error);
    PGresult *result CLEANUP(pg_clear_p) = creation.result;
    if (status < 0)
        return -1;
    if (PQntuples(result) == 1) {
        *ret = arena_alloc(arena, sizeof **ret);
        read_model(result, 0, arena, *ret);
        *ret_created = true;
        return 0;
    }
    struct model_row *found;
    if (find_bytes(db, model->project_id, model->sha256, arena, &found, error) < 0)
        return -1;
    if (!found)
        return error_set(error, ERROR_CONFLICT, "blob-missing", NULL,
                         "The same model was deleted while this one was being stored. Send the file again.");
    *ret = found;
    *ret_created = strcmp(found->id, id) == 0; /* an earlier try made it, only its answer was lost */
    return 0;
}

struct room {
    const char *project_id;
    int64_t bytes;
};

static int check_room(struct pg *pg, void *data, struct error *error) {
    const struct room *room = data;
    return quota_for_model(pg, room->project_id, room->bytes, error);
}

int model_check_room(struct db *db, const char *project_id, int64_t bytes, struct error *error) {
    return db_transaction(db, check_room, &(struct room){project_id, bytes}, error);
}

int model_get(struct db *db, const char *id, struct arena *arena, struct model_row **ret, struct error *error) {
    struct model_row *found = NULL;
    struct params params = {0};
    params_text(&params, id);
    if (uuid_valid(id) && get_one(db, &by_id, &params, arena, &found, error) < 0)
        return -1;
    if (!found)
        return no_such_model(id, error);
    *ret = found;
    return 0;
}

int model_find(struct db *db, const char *project_id, const char *sha256, struct arena *arena, struct model_row **ret,
               struct error *error) {
    struct model_row *found;
    if (find_bytes(db, project_id, sha256, arena, &found, error) < 0)
        return -1;
    if (!found)
        return no_such_model(sha256, error);
    *ret = found;
    return 0;
}

int model_list(struct db *db, const char *project_id, const char *after, int limit, struct arena *arena,
               struct model_row **ret, int *ret_count, bool *ret_more, struct error *error) {
    if (after && *after && !uuid_valid(after))
        return error_set(error, ERROR_INVALID, "bad-cursor", "cursor", "The cursor is not one that a page gave.");
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, after && *after ? after : NULL);
    params_int(&params, limit + 1);
    params_text(&params, project_or_default(project_id));
    if (db_run(db, &page, &params, &result, error) < 0)
        return -1;
    int count = PQntuples(result) > limit ? limit : PQntuples(result);
    *ret = arena_array(arena, (size_t)count + 1, sizeof **ret);
    for (int i = 0; i < count; i++)
        read_model(result, i, arena, &(*ret)[i]);
    *ret_count = count;
    *ret_more = PQntuples(result) > limit;
    return 0;
}

struct deletion {
    const char *id;
    char sha256[SHA256_HEX];
};

static int delete_model(struct pg *pg, void *data, struct error *error) {
    struct deletion *deletion = data;
    struct params params = {0};
    params_text(&params, deletion->id);
    PGresult *found CLEANUP(pg_clear_p) = NULL, *user CLEANUP(pg_clear_p) = NULL;
    if (pg_run(pg, &lock, &params, &found, error) < 0)
        return -1;
    if (PQntuples(found) == 0)
        return no_such_model(deletion->id, error);
    row_copy(&(struct row){found, 0, 0}, deletion->sha256, sizeof deletion->sha256);
    if (pg_run(pg, &in_use, &params, &user, error) < 0)
        return -1;
    if (PQntuples(user) > 0)
        return error_set(error, ERROR_CONFLICT, "model-in-use", NULL,
                         "Job %s uses the model and has not ended. Cancel it first.", PQgetvalue(user, 0, 0));
    return pg_run(pg, &delete_row, &params, NULL, error);
}

int model_delete(struct db *db, const char *id, struct error *error) {
    struct deletion deletion = {.id = id};
    if (!uuid_valid(id))
        return no_such_model(id, error);
    if (db_transaction(db, delete_model, &deletion, error) < 0)
        return -1;
    return blob_delete(db, deletion.sha256, error);
}
