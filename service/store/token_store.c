/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/token_store.h"

#include <string.h>

#include "service/base/utf8.h"
#include "service/store/pg.h"

#define COLUMNS "t.id, t.project_id, p.name, t.name, t.scopes, t.prefix, t.created_at, t.last_used_at, t.revoked_at"

/* A second run after a lost answer finds the row that the first one made. */
static const struct statement insert = {
    "token_insert", "WITH t AS (INSERT INTO tokens AS t (id, project_id, name, scopes, sha256, prefix)"
                    "  SELECT $1, p.id, $3, $4, $5, $6 FROM projects p WHERE p.id = $2"
                    "  ON CONFLICT (id) DO UPDATE SET name = excluded.name RETURNING *) "
                    "SELECT " COLUMNS " FROM t JOIN projects p ON p.id = t.project_id"};
static const struct statement page = {
    "token_list", "SELECT " COLUMNS " FROM tokens t JOIN projects p ON p.id = t.project_id "
                  "WHERE ($1::uuid IS NULL OR t.project_id = $1) AND ($2::uuid IS NULL OR t.id < $2) "
                  "ORDER BY t.id DESC LIMIT $3"};
static const struct statement revoke = {"token_revoke", "UPDATE tokens SET revoked_at = coalesce(revoked_at, now()) "
                                                        "WHERE id = $1 AND ($2::uuid IS NULL OR project_id = $2)"};
static const struct statement any = {"token_any", "SELECT EXISTS (SELECT FROM tokens)"};
static const struct statement identify = {
    "token_identify", "WITH found AS (SELECT t.id, t.project_id, p.name, t.scopes, t.last_used_at FROM tokens t"
                      "  JOIN projects p ON p.id = t.project_id WHERE t.sha256 = $1 AND t.revoked_at IS NULL),"
                      " used AS (UPDATE tokens SET last_used_at = now() FROM found WHERE tokens.id = found.id"
                      "  AND coalesce(found.last_used_at, '-infinity') < now() - interval '1 minute') "
                      "SELECT id, project_id, name, scopes FROM found"};

static const char *const names[] = {
    [SCOPE_NONE] = "none", [SCOPE_READ] = "read", [SCOPE_SUBMIT] = "submit", [SCOPE_ADMIN] = "admin"};

const char *scope_name(enum scope scope) {
    return names[scope];
}

int scope_parse(const char *name, enum scope *ret, struct error *error) {
    for (int i = SCOPE_READ; i < SCOPE_COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum scope)i;
            return 0;
        }
    return error_set(error, ERROR_INVALID, "bad-scopes", "scopes", "A scope is read, submit or admin, not '%.40s'.",
                     name);
}

static unsigned read_scopes(struct row *row, struct arena *arena) {
    const char *texts[SCOPE_COUNT];
    unsigned scopes = 0;
    enum scope scope;
    int n = row_texts(row, arena, texts, SCOPE_COUNT);
    for (int i = 0; i < n; i++)
        if (scope_parse(texts[i], &scope, NULL) == 0)
            scopes |= 1u << scope;
    return scopes;
}

static const char *write_scopes(unsigned scopes, struct arena *arena) {
    const char *text = "";
    for (int i = SCOPE_READ; i < SCOPE_COUNT; i++)
        if (scopes & 1u << i)
            text = arena_printf(arena, "%s%s%s", text, *text ? "," : "", names[i]);
    return arena_printf(arena, "{%s}", text);
}

static void read_token(const PGresult *result, int number, struct arena *arena, struct token_row *ret) {
    struct row row = {result, number, 0};
    row_copy(&row, ret->id, sizeof ret->id);
    row_copy(&row, ret->project_id, sizeof ret->project_id);
    row_copy(&row, ret->project, sizeof ret->project);
    ret->name = row_text(&row, arena);
    ret->scopes = read_scopes(&row, arena);
    row_copy(&row, ret->shown, sizeof ret->shown);
    ret->created_us = row_time(&row);
    ret->last_used_us = row_time(&row);
    ret->revoked_us = row_time(&row);
}

/* --- Making --- */

static bool is_name(const char *name) {
    size_t len = strlen(name);
    for (size_t at = 0, n; at < len; at += n) {
        n = utf8_sequence(name + at, len - at);
        if (n == 0 || (unsigned char)name[at] < 0x20)
            return false;
    }
    return len > 0 && len < TOKEN_NAME;
}

static int check(const struct token_new *token, struct error *error) {
    if (!is_name(token->name))
        return error_set(error, ERROR_INVALID, "bad-name", "name", "A token's name is 1 to %d bytes of printable text.",
                         TOKEN_NAME - 1);
    if (token->scopes == 0)
        return error_set(error, ERROR_INVALID, "bad-scopes", "scopes", "A token has at least one scope.");
    return 0;
}

int token_create(struct db *db, const struct token_new *token, struct arena *arena, struct token_row **ret,
                 char ret_token[SECRET_TOKEN_TEXT], struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    const char *project_id = project_or_default(token->project_id);
    char id[UUID_TEXT], sha256[SHA256_HEX], shown[SECRET_TOKEN_SHOWN];
    struct params params = {0};
    if (check(token, error) < 0)
        return -1;
    if (!uuid_valid(project_id))
        return error_set(error, ERROR_NOT_FOUND, "no-such-project", "project_id", "There is no project %.64s.",
                         project_id);
    uuid_make(id);
    secret_token_make(ret_token);
    secret_token_shown(ret_token, shown);
    sha256_of(ret_token, strlen(ret_token), sha256);
    params_text(&params, id);
    params_text(&params, project_id);
    params_text(&params, token->name);
    params_text(&params, write_scopes(token->scopes, arena));
    params_text(&params, sha256);
    params_text(&params, shown);
    if (db_run(db, &insert, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-project", "project_id", "There is no project %.64s.",
                         project_id);
    *ret = arena_alloc(arena, sizeof **ret);
    read_token(result, 0, arena, *ret);
    return 0;
}

/* --- The rest --- */

int token_list(struct db *db, const struct token_filter *filter, struct arena *arena, struct token_row **ret,
               int *ret_count, bool *ret_more, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    bool from_start = !filter->after || !*filter->after;
    if (!from_start && !uuid_valid(filter->after))
        return error_set(error, ERROR_INVALID, "bad-cursor", "cursor", "The cursor is not one that a page gave.");
    params_text(&params, filter->project_id);
    params_text(&params, from_start ? NULL : filter->after);
    params_int(&params, filter->limit + 1);
    if (db_run(db, &page, &params, &result, error) < 0)
        return -1;
    int rows = PQntuples(result), count = rows > filter->limit ? filter->limit : rows;
    *ret = arena_array(arena, (size_t)count + 1, sizeof **ret);
    for (int i = 0; i < count; i++)
        read_token(result, i, arena, &(*ret)[i]);
    *ret_count = count;
    *ret_more = rows > filter->limit;
    return 0;
}

int token_revoke(struct db *db, const char *id, const char *project_id, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, id);
    params_text(&params, project_id);
    if (uuid_valid(id) && db_run(db, &revoke, &params, &result, error) < 0)
        return -1;
    if (!result || pg_affected(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-token", NULL, "There is no token %.64s.", id);
    return 0;
}

int token_any(struct db *db, bool *ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (db_run(db, &any, NULL, &result, error) < 0)
        return -1;
    *ret = row_bool(&(struct row){result, 0, 0});
    return 0;
}

int token_identify(struct db *db, const char *sha256, struct identity *ret, bool *ret_found, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, sha256);
    if (db_run(db, &identify, &params, &result, error) < 0)
        return -1;
    *ret_found = PQntuples(result) == 1;
    if (!*ret_found)
        return 0;
    struct row row = {result, 0, 0};
    row_copy(&row, ret->token_id, sizeof ret->token_id);
    row_copy(&row, ret->project_id, sizeof ret->project_id);
    row_copy(&row, ret->project, sizeof ret->project);
    unsigned scopes = read_scopes(&row, arena);
    for (int i = SCOPE_NONE; i < SCOPE_COUNT; i++)
        if (scopes & 1u << i)
            ret->scope = (enum scope)i;
    return 0;
}
