/* SPDX-License-Identifier: Apache-2.0 */
#include "api/idempotency.h"

#include <string.h>

#include "api/exchange.h"
#include "api/fields.h"
#include "api/handlers.h"
#include "api/reservations.h"
#include "service/base/json.h"
#include "service/base/log.h"

enum { MOST_KEPT = 8 << 20 };

/* ---- the request ---- */

static int check_key(const struct request *request, const char *key, struct error *error) {
    if (request_header_count(request, "Idempotency-Key") == 1 && field_is_idempotency_key(key))
        return 0;
    return error_set(error, ERROR_INVALID, "bad-header", "Idempotency-Key",
                     "An Idempotency-Key is 1 to %d printable ASCII characters, given once.", IDEMPOTENCY_KEY_MOST);
}

static void hash_text(struct sha256 *hash, const char *text) {
    sha256_update(hash, text, strlen(text) + 1);
}

/* What makes two requests the same: path, query, and what the body says, however it was wrapped on its way. */
static void hash_request(struct request *request, char ret[SHA256_HEX]) {
    struct sha256 *hash = sha256_new();
    hash_text(hash, request->path);
    for (int i = 0; i < request->n_queries; i++) {
        hash_text(hash, request->queries[i].name);
        hash_text(hash, request->queries[i].value);
    }
    if (request->json)
        hash_text(hash, json_text(request->json, NULL));
    if (request->upload.sha256)
        hash_text(hash, request->upload.sha256);
    sha256_hex(hash, ret);
    sha256_free(hash);
}

/* ---- the answer ---- */

/* Whether the answer is the end of it, and one that a row can hold. */
static bool is_kept(const struct response *response) {
    int status = response->status;
    return response->kind == RESPONSE_TEXT && status < 500 && status != 408 && status != 409 && status != 429 &&
           response->len <= MOST_KEPT;
}

void idempotency_answer_of(const struct response *response, struct idempotency_answer *ret) {
    *ret =
        (struct idempotency_answer){.status = response->status, .type = response->content_type, .body = response->text};
    for (int i = 0; i < response->n_headers; i++)
        if (strcmp(response->headers[i][0], MHD_HTTP_HEADER_LOCATION) == 0)
            ret->location = response->headers[i][1];
}

static int replay(struct request *request, struct response *ret, const struct idempotency_answer *answer) {
    response_text(request, ret, answer->status, answer->type, answer->body, strlen(answer->body));
    if (answer->location)
        response_header(request, ret, MHD_HTTP_HEADER_LOCATION, answer->location);
    response_header(request, ret, "Idempotency-Replayed", "true");
    return 0;
}

/* A refusal that is kept becomes the answer here; others go the usual way, into the log where they belong there. */
static int run(struct request *request, struct response *ret, struct error *error) {
    if (request->route->handle(request, ret, error) == 0)
        return 0;
    struct response problem = {.status = problem_status(error), .fd = -1};
    if (!is_kept(&problem))
        return -1;
    *ret = problem;
    response_problem(request, ret, error);
    return 0;
}

/* ---- the two ways ---- */

/* The handler keeps what it made with its answer; what is left are the answers of requests that made nothing. */
static int submit(struct request *request, const struct idempotency_key *key, struct response *ret,
                  struct error *error) {
    struct db *db = request->api->db;
    struct idempotency_answer *found, answer;
    struct error failure;
    if (idempotency_find(db, key, request->arena, &found, error) < 0)
        return -1;
    if (found)
        return replay(request, ret, found);
    request->idempotency = key;
    if (run(request, ret, error) < 0)
        return -1;
    idempotency_answer_of(ret, &answer);
    if (ret->status >= 400 && is_kept(ret) && idempotency_keep(db, key, &answer, &failure) < 0)
        log_error(LOG_WARN, "keeping an answer", &failure);
    return 0;
}

static int reserve_and_run(struct request *request, const struct idempotency_key *key, struct response *ret,
                           struct error *error) {
    struct db *db = request->api->db;
    struct reservations *reservations = request->api->reservations;
    struct idempotency_answer *found, answer;
    struct reservation reservation;
    struct error failure;
    uuid_make(reservation.token);
    if (idempotency_reserve(db, key, reservation.token, RESERVATION_S, request->arena, &found, error) < 0)
        return -1;
    if (found)
        return replay(request, ret, found);
    reservations_add(reservations, &reservation);
    int status = run(request, ret, error), kept;
    if (status == 0 && is_kept(ret)) {
        idempotency_answer_of(ret, &answer);
        kept = idempotency_complete(db, key, reservation.token, &answer, &failure);
    } else {
        kept = idempotency_release(db, key, reservation.token, &failure);
    }
    reservations_remove(reservations, &reservation);
    if (kept < 0) /* the reservation ends by itself */
        log_error(LOG_WARN, "keeping an answer", &failure);
    return status;
}

int idempotency_handle(struct request *request, struct response *ret, struct error *error) {
    const char *text =
        strcmp(request->method, MHD_HTTP_METHOD_POST) == 0 ? request_header(request, "Idempotency-Key") : NULL;
    if (!text || request->route->handle == token_make) /* a secret is not kept to be shown again */
        return request->route->handle(request, ret, error);
    if (check_key(request, text, error) < 0)
        return -1;
    struct idempotency_key *key = arena_alloc(request->arena, sizeof *key);
    key->scope =
        arena_printf(request->arena, "%s %s", project_or_default(request->project_id), request->route->pattern);
    key->key = text;
    hash_request(request, key->request);
    return request->route->handle == job_submit ? submit(request, key, ret, error)
                                                : reserve_and_run(request, key, ret, error);
}
