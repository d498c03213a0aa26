/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "api/fields.h"
#include "api/server.h"
#include "service/base/clock.h"

enum { TOKEN_SLOTS = 1024, OWNER_SLOTS = 8192 }; /* a newcomer takes the place of what was there */
#define REMEMBER_S 3

struct known_token {
    char sha256[SHA256_HEX];
    struct identity who;
    int64_t until;
};

/* A job or model, and its project. */
struct known_owner {
    char id[UUID_TEXT], project_id[UUID_TEXT];
};

struct auth {
    struct db *db;
    pthread_mutex_t lock; /* guards the rest */
    uint64_t generation;  /* counts auth_forget: what was asked before is not remembered after */
    bool closed;          /* a token was made, so it stays so */
    int64_t open_until;
    struct known_token tokens[TOKEN_SLOTS];
    struct known_owner owners[OWNER_SLOTS];
};

struct auth *auth_new(struct db *db) {
    struct auth *auth = calloc(1, sizeof *auth);
    if (!auth)
        abort();
    auth->db = db;
    pthread_mutex_init(&auth->lock, NULL);
    return auth;
}

void auth_free(struct auth *auth) {
    if (!auth)
        return;
    pthread_mutex_destroy(&auth->lock);
    free(auth);
}

void auth_forget(struct auth *auth) {
    pthread_mutex_lock(&auth->lock);
    auth->generation++;
    auth->open_until = 0;
    memset(auth->tokens, 0, sizeof auth->tokens);
    pthread_mutex_unlock(&auth->lock);
}

/* ---- who ---- */

static int token_missing(struct error *error) {
    return error_set(error, ERROR_AUTH, "token-missing", NULL,
                     "This server wants a token: send it as `Authorization: Bearer wt_…`.");
}

static int token_invalid(struct error *error) {
    return error_set(error, ERROR_AUTH, "token-invalid", NULL,
                     "The token is not one of this server's, or was revoked.");
}

static const struct identity everybody = {.project_id = PROJECT_DEFAULT_ID, .project = "default", .scope = SCOPE_ADMIN};

static bool recall_open(struct auth *auth, bool *ret_open, uint64_t *ret_generation) {
    pthread_mutex_lock(&auth->lock);
    bool known = auth->closed || clock_now_ns() < auth->open_until;
    *ret_open = !auth->closed;
    *ret_generation = auth->generation;
    pthread_mutex_unlock(&auth->lock);
    return known;
}

static int identify_nobody(struct auth *auth, struct identity *ret, struct error *error) {
    bool open, any;
    uint64_t generation;
    if (!recall_open(auth, &open, &generation)) {
        if (token_any(auth->db, &any, error) < 0)
            return -1;
        pthread_mutex_lock(&auth->lock);
        auth->closed |= any;
        if (auth->generation == generation)
            auth->open_until = deadline_in_s(REMEMBER_S);
        pthread_mutex_unlock(&auth->lock);
        open = !any;
    }
    *ret = everybody;
    return open ? 0 : token_missing(error);
}

/* The hash is as good as random, and begins with eight digits. */
static struct known_token *slot_of(struct auth *auth, const char *sha256) {
    char start[9] = "";
    memcpy(start, sha256, 8);
    return &auth->tokens[strtoul(start, NULL, 16) % TOKEN_SLOTS];
}

static bool recall(struct auth *auth, const char *sha256, struct identity *ret, uint64_t *ret_generation) {
    pthread_mutex_lock(&auth->lock);
    const struct known_token *known = slot_of(auth, sha256);
    bool found = CRYPTO_memcmp(known->sha256, sha256, SHA256_HEX) == 0 && clock_now_ns() < known->until;
    if (found)
        *ret = known->who;
    *ret_generation = auth->generation;
    pthread_mutex_unlock(&auth->lock);
    return found;
}

static void remember(struct auth *auth, const char *sha256, const struct identity *who, int64_t until,
                     uint64_t generation) {
    pthread_mutex_lock(&auth->lock);
    if (auth->generation == generation) {
        struct known_token *known = slot_of(auth, sha256);
        memcpy(known->sha256, sha256, SHA256_HEX);
        known->who = *who;
        known->until = until;
    }
    pthread_mutex_unlock(&auth->lock);
}

int auth_identify(struct auth *auth, const struct credential *credential, struct identity *ret, struct error *error) {
    uint64_t generation;
    bool found;
    if (!*credential->sha256)
        return identify_nobody(auth, ret, error);
    if (recall(auth, credential->sha256, ret, &generation))
        return 0;
    int64_t until = deadline_in_s(REMEMBER_S); /* from before the database looked */
    if (token_identify(auth->db, credential->sha256, ret, &found, error) < 0)
        return -1;
    if (!found)
        return token_invalid(error);
    remember(auth, credential->sha256, ret, until, generation);
    return 0;
}

/* ---- what they showed, and may ---- */

static enum scope scope_of(const struct route *route) {
    if (strncmp(route->pattern, "/v1/", 4) != 0)
        return SCOPE_NONE;
    if (route->scope != SCOPE_NONE)
        return route->scope;
    return strcmp(route->method, "GET") == 0 ? SCOPE_READ : SCOPE_SUBMIT;
}

static int read_credential(struct request *request, struct error *error) {
    const char *header = request_header(request, "Authorization");
    if (!header)
        return 0;
    const char *token = field_bearer(header);
    if (!token)
        return token_invalid(error);
    sha256_of(token, strlen(token), request->credential.sha256);
    return 0;
}

static int check_scope(const struct request *request, const struct identity *who, struct error *error) {
    enum scope scope = scope_of(request->route);
    if (who->scope >= scope)
        return 0;
    return error_set(error, ERROR_AUTH, "scope-missing", scope_name(scope),
                     "This takes a token of scope `%s`; this one has `%s`.", scope_name(scope), scope_name(who->scope));
}

int auth_before_body(struct request *request, bool may_ask, struct error *error) {
    struct auth *auth = request->api->auth;
    struct identity who;
    uint64_t generation;
    bool open, spooled = request->route->body == BODY_UPLOAD || request->route->body == BODY_RECORDS;
    if (scope_of(request->route) == SCOPE_NONE)
        return 0;
    if (read_credential(request, error) < 0)
        return -1;
    if (spooled && may_ask)
        return auth_identify(auth, &request->credential, &who, error) < 0 ? -1 : check_scope(request, &who, error);
    if (*request->credential.sha256)
        return recall(auth, request->credential.sha256, &who, &generation) ? check_scope(request, &who, error) : 0;
    return recall_open(auth, &open, &generation) && !open ? token_missing(error) : 0;
}

/* ---- whose ---- */

static struct known_owner *owner_slot(struct auth *auth, const char *id) {
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    for (const char *c = id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
    return &auth->owners[hash % OWNER_SLOTS];
}

static bool recall_owner(struct auth *auth, const char *id, char ret_project_id[UUID_TEXT]) {
    pthread_mutex_lock(&auth->lock);
    const struct known_owner *known = owner_slot(auth, id);
    bool found = strcmp(known->id, id) == 0;
    if (found)
        memcpy(ret_project_id, known->project_id, UUID_TEXT);
    pthread_mutex_unlock(&auth->lock);
    return found;
}

static void remember_owner(struct auth *auth, const char *id, const char project_id[UUID_TEXT]) {
    pthread_mutex_lock(&auth->lock);
    struct known_owner *known = owner_slot(auth, id);
    memcpy(known->id, id, UUID_TEXT);
    memcpy(known->project_id, project_id, UUID_TEXT);
    pthread_mutex_unlock(&auth->lock);
}

/* What an id that nobody may see, or that is none, is answered with comes from one place. */
struct owned {
    const char *prefix; /* of the routes' patterns */
    int (*project_of)(struct db *db, const char *id, char ret_id[UUID_TEXT], struct error *error);
    const char *code, *noun;
};

static const struct owned owned[] = {
    {"/v1/jobs/{", project_of_job, "no-such-job", "job"},
    {"/v1/models/{", project_of_model, "no-such-model", "model"},
};

static int check_owner(const struct request *request, const struct owned *kind, const char *id, struct error *error) {
    char project_id[UUID_TEXT];
    struct auth *auth = request->api->auth;
    if (!uuid_valid(id) || !recall_owner(auth, id, project_id)) {
        if (kind->project_of(request->api->db, id, project_id, error) < 0)
            return -1;
        remember_owner(auth, id, project_id);
    }
    if (strcmp(project_id, project_or_default(request->project_id)) == 0)
        return 0;
    return error_set(error, ERROR_NOT_FOUND, kind->code, NULL, "There is no %s %.64s.", kind->noun, id);
}

int auth_owns_job(const struct request *request, const char *job_id, struct error *error) {
    return check_owner(request, &owned[0], job_id, error);
}

int auth_admit(struct request *request, struct error *error) {
    const char *pattern = request->route->pattern;
    if (scope_of(request->route) == SCOPE_NONE)
        return 0;
    if (auth_identify(request->api->auth, &request->credential, &request->who, error) < 0 ||
        check_scope(request, &request->who, error) < 0)
        return -1;
    request->project_id = request->who.project_id;
    for (size_t i = 0; i < ARRAY_COUNT(owned); i++)
        if (strncmp(pattern, owned[i].prefix, strlen(owned[i].prefix)) == 0)
            return check_owner(request, &owned[i], request->params[0], error);
    return 0;
}

bool auth_is_server_admin(const struct request *request) {
    return request->who.scope == SCOPE_ADMIN && strcmp(request->who.project_id, PROJECT_DEFAULT_ID) == 0;
}
