/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h: who asks, and what they may.
 *
 * Routes under /v1 need a token: for GET one of scope `read`, for other methods one of `submit`, unless the route's row
 * names a scope. Routes outside of /v1 need none. A route of one job or model (/v1/jobs/{id}…, /v1/models/{id}…) is
 * there for its own project only: for all others the answer is the one for an id that does not exist. So a new route is
 * guarded before anybody thinks of it; a handler that takes an id from elsewhere (a body, a query) asks auth_owns_job.
 *
 * As long as no token was ever made, everybody is the project `default` with the scope `admin`.
 *
 * What tokens stand for is remembered for three seconds, so that most requests ask the database nothing; a revocation
 * takes effect within that time on every server, on the one that did it at once. Whose a job or model is never changes
 * and is remembered as long as there is room. Thread-safe; the lock is a leaf.
 */
#ifndef WARPTUNE_API_AUTH_H
#define WARPTUNE_API_AUTH_H

#include "api/http.h"

struct auth;

struct auth *auth_new(struct db *db);
void auth_free(struct auth *auth); /* NULL-safe */

/*
 * Once the headers are there: refuses what can be refused now, so that no body need be sent. Asks the database only if
 * `may_ask`, and only for a body that would be spooled. ERROR_AUTH "token-missing", "token-invalid" (401),
 * "scope-missing" (403).
 */
int auth_before_body(struct request *request, bool may_ask, struct error *error) MUST_CHECK;
/* Before each run of a handler: fills request->who and project_id, or one of the above, or ERROR_NOT_FOUND. */
int auth_admit(struct request *request, struct error *error) MUST_CHECK;

/* Who holds what was shown: for an answer that goes on for long. */
int auth_identify(struct auth *auth, const struct credential *credential, struct identity *ret,
                  struct error *error) MUST_CHECK;
/* ERROR_NOT_FOUND "no-such-job" unless the job is of the request's project. */
int auth_owns_job(const struct request *request, const char *job_id, struct error *error) MUST_CHECK;
/* An admin of the project `default`, who may do everything in all projects. */
bool auth_is_server_admin(const struct request *request);

/* Tokens have changed: forgets what they stood for. */
void auth_forget(struct auth *auth);

#endif
