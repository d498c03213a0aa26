/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokens.c: API tokens of a project, which its admins make, list and revoke, and a server admin those of every project;
 * and what a client's own token stands for.
 */
#include <string.h>

#include "api/auth.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/pages.h"
#include "api/server.h"
#include "service/base/json.h"

enum { MOST_TOKEN = 64 << 10, MOST_LIST = 16 << 20 };

/* ---- as JSON ---- */

static void write_scopes(struct buf *out, unsigned scopes) {
    write_array(out, "scopes");
    for (int i = SCOPE_READ; i < SCOPE_COUNT; i++)
        if (scopes & 1u << i)
            write_text(out, NULL, scope_name((enum scope)i));
    write_end(out, ']');
}

/* `secret`: the token itself, in the answer to the request that made it; else NULL. */
static void write_token(struct buf *out, const struct token_row *token, const char *secret) {
    write_object(out, NULL);
    write_text(out, "id", token->id);
    write_text(out, "name", token->name);
    write_text(out, "project_id", token->project_id);
    write_text(out, "project", token->project);
    write_scopes(out, token->scopes);
    write_text(out, "prefix", token->shown);
    if (secret)
        write_text(out, "token", secret);
    write_time(out, "created_at", token->created_us);
    write_time(out, "last_used_at", token->last_used_us);
    write_time(out, "revoked_at", token->revoked_us);
    write_end(out, '}');
}

/* ---- making ---- */

static int read_scopes(struct json_object *body, unsigned *ret, struct error *error) {
    struct json_object *scopes = NULL;
    if (json_read_array(body, "scopes", JSON_REQUIRED, &scopes, error) < 0)
        return -1;
    for (size_t i = 0; i < json_object_array_length(scopes); i++) {
        struct json_object *name = json_object_array_get_idx(scopes, i);
        enum scope scope;
        if (!json_object_is_type(name, json_type_string))
            return error_set(error, ERROR_INVALID, "bad-scopes", "scopes", "'scopes' is an array of texts.");
        if (scope_parse(json_object_get_string(name), &scope, error) < 0)
            return -1;
        *ret |= 1u << scope;
    }
    return 0;
}

static int read_token(struct request *request, struct token_new *ret, struct error *error) {
    static const char *const fields[] = {"name", "scopes", "project_id", NULL};
    ret->project_id = request->project_id;
    if (json_only_fields(request->json, fields, error) < 0 ||
        json_read_string(request->json, "name", JSON_REQUIRED, TOKEN_NAME - 1, &ret->name, error) < 0 ||
        json_read_string(request->json, "project_id", JSON_OPTIONAL, UUID_TEXT - 1, &ret->project_id, error) < 0 ||
        read_scopes(request->json, &ret->scopes, error) < 0)
        return -1;
    if (auth_is_server_admin(request) || strcmp(ret->project_id, request->project_id) == 0)
        return 0;
    return error_set(error, ERROR_NOT_FOUND, "no-such-project", "project_id", "There is no project %.64s.",
                     ret->project_id);
}

/* Where there are no tokens yet, the first one closes the server to everybody else. */
static int check_first(const struct request *request, const struct token_new *token, struct error *error) {
    bool admin = token->scopes & 1u << SCOPE_ADMIN && strcmp(token->project_id, PROJECT_DEFAULT_ID) == 0;
    if (*request->who.token_id || admin)
        return 0;
    return error_set(error, ERROR_CONFLICT, "first-token", "scopes",
                     "From the first token on nothing goes without one: make one of scope `admin` for the project "
                     "`default` first.");
}

int token_make(struct request *request, struct response *ret, struct error *error) {
    struct token_new wanted = {0};
    struct token_row *token;
    char secret[SECRET_TOKEN_TEXT];
    if (read_token(request, &wanted, error) < 0 || check_first(request, &wanted, error) < 0 ||
        token_create(request->api->db, &wanted, request->arena, &token, secret, error) < 0)
        return -1;
    auth_forget(request->api->auth);
    struct buf *json = request_buf(request, MOST_TOKEN);
    write_token(json, token, secret);
    response_header(request, ret, "Location", arena_printf(request->arena, "/v1/tokens/%s", token->id));
    response_header(request, ret, "Cache-Control", "no-store");
    return response_written(request, ret, 201, json, error);
}

/* ---- the rest ---- */

int token_page(struct request *request, struct response *ret, struct error *error) {
    struct token_filter filter = {.project_id = request->project_id};
    const char *project_id = request_query(request, "project_id");
    struct token_row *tokens;
    int n;
    bool more;
    if (auth_is_server_admin(request))
        filter.project_id = project_id;
    else if (project_id && strcmp(project_id, request->project_id) != 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-project", "project_id", "There is no project %.64s.",
                         project_id);
    if (filter.project_id && !uuid_valid(filter.project_id))
        return error_set(error, ERROR_NOT_FOUND, "no-such-project", "project_id", "There is no project %.64s.",
                         filter.project_id);
    if (page_read(request, &filter.after, &filter.limit, error) < 0 ||
        token_list(request->api->db, &filter, request->arena, &tokens, &n, &more, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_LIST);
    write_object(json, NULL);
    write_array(json, "tokens");
    for (int i = 0; i < n; i++)
        write_token(json, &tokens[i], NULL);
    return response_page(request, ret, json, more ? tokens[n - 1].id : NULL, error);
}

int token_remove(struct request *request, struct response *ret, struct error *error) {
    const char *project_id = auth_is_server_admin(request) ? NULL : request->project_id;
    if (token_revoke(request->api->db, request->params[0], project_id, error) < 0)
        return -1;
    auth_forget(request->api->auth);
    response_text(request, ret, 204, NULL, "", 0);
    return 0;
}

int identity_show(struct request *request, struct response *ret, struct error *error) {
    const struct identity *who = &request->who;
    struct buf *json = request_buf(request, MOST_TOKEN);
    write_object(json, NULL);
    write_text(json, "project_id", who->project_id);
    write_text(json, "project", who->project);
    write_text(json, "token_id", *who->token_id ? who->token_id : NULL);
    write_text(json, "scope", scope_name(who->scope));
    write_bool(json, "server_admin", auth_is_server_admin(request));
    write_end(json, '}');
    return response_written(request, ret, 200, json, error);
}
