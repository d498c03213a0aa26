/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "api/auth.h"
#include "api/handlers.h"
#include "api/server.h"

static struct credential make_token(struct fixture *f, const char *project_id, enum scope scope,
                                    char ret_id[UUID_TEXT]) {
    struct error error;
    struct token_row *token;
    struct credential credential;
    char secret[SECRET_TOKEN_TEXT];
    OK(token_create(f->db, &(struct token_new){project_id, "t", 1u << scope}, f->arena, &token, secret, &error));
    sha256_of(secret, strlen(secret), credential.sha256);
    memcpy(ret_id, token->id, UUID_TEXT);
    return credential;
}

static const struct credential nobody = {""};

/* A route by method and pattern, as a client with that credential asks for it. */
static int ask(struct fixture *f, struct auth *auth, const struct credential *credential, const char *method,
               const char *pattern, const char *id, struct error *error) {
    struct api api = {.db = f->db, .auth = auth};
    struct route route = {.method = method, .pattern = pattern};
    for (const struct route *known = routes; known->method; known++)
        if (strcmp(known->method, method) == 0 && strcmp(known->pattern, pattern) == 0)
            route = *known;
    struct request request = {
        .api = &api, .arena = f->arena, .route = &route, .credential = *credential, .params = {id}};
    return auth_admit(&request, error);
}

Test(auth, everybody_is_the_default_projects_admin_until_there_is_a_token) {
    struct fixture f = fixture_open();
    struct error error;
    struct identity who;
    char id[UUID_TEXT];
    struct auth *auth = auth_new(f.db);
    OK(auth_identify(auth, &nobody, &who, &error));
    cr_expect_str_eq(who.project_id, PROJECT_DEFAULT_ID);
    cr_expect_eq(who.scope, SCOPE_ADMIN);
    struct credential token = make_token(&f, NULL, SCOPE_READ, id);
    auth_forget(auth);
    FAILS(auth_identify(auth, &nobody, &who, &error), "token-missing");
    cr_expect_eq(error.class, ERROR_AUTH);
    OK(auth_identify(auth, &token, &who, &error));
    OK(token_revoke(f.db, id, NULL, &error));
    auth_forget(auth);
    FAILS(auth_identify(auth, &nobody, &who, &error), "token-missing");
    auth_free(auth);
    fixture_close(&f);
}

Test(auth, a_token_is_remembered_until_forgotten) {
    struct fixture f = fixture_open();
    struct error error;
    struct identity who;
    char id[UUID_TEXT];
    struct auth *auth = auth_new(f.db);
    struct credential token = make_token(&f, NULL, SCOPE_READ, id);
    OK(auth_identify(auth, &token, &who, &error));
    OK(token_revoke(f.db, id, NULL, &error));
    OK(auth_identify(auth, &token, &who, &error)); /* the database is not asked again so soon */
    cr_expect_str_eq(who.token_id, id);
    auth_forget(auth);
    FAILS(auth_identify(auth, &token, &who, &error), "token-invalid");
    auth_free(auth);
    fixture_close(&f);
}

Test(auth, a_revocation_elsewhere_takes_effect_within_five_seconds) {
    struct fixture f = fixture_open();
    struct error error;
    struct identity who;
    char id[UUID_TEXT];
    struct auth *auth = auth_new(f.db);
    struct credential token = make_token(&f, NULL, SCOPE_READ, id);
    OK(auth_identify(auth, &token, &who, &error));
    OK(token_revoke(f.db, id, NULL, &error));
    sleep(4);
    FAILS(auth_identify(auth, &token, &who, &error), "token-invalid");
    auth_free(auth);
    fixture_close(&f);
}

Test(auth, a_route_needs_the_scope_of_its_row_or_its_method) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    struct auth *auth = auth_new(f.db);
    struct credential read = make_token(&f, NULL, SCOPE_READ, id), submit = make_token(&f, NULL, SCOPE_SUBMIT, id),
                      admin = make_token(&f, NULL, SCOPE_ADMIN, id);
    OK(ask(&f, auth, &read, "GET", "/v1/jobs", NULL, &error));
    FAILS(ask(&f, auth, &read, "POST", "/v1/jobs", NULL, &error), "scope-missing");
    cr_expect_str_eq(error.field, "submit");
    FAILS(ask(&f, auth, &read, "PUT", "/v1/new/thing", NULL, &error), "scope-missing");
    OK(ask(&f, auth, &submit, "POST", "/v1/jobs", NULL, &error));
    FAILS(ask(&f, auth, &submit, "POST", "/v1/tokens", NULL, &error), "scope-missing");
    cr_expect_str_eq(error.field, "admin");
    OK(ask(&f, auth, &admin, "POST", "/v1/tokens", NULL, &error));
    OK(ask(&f, auth, &nobody, "GET", "/metrics", NULL, &error));
    FAILS(ask(&f, auth, &nobody, "GET", "/v1/jobs", NULL, &error), "token-missing");
    auth_free(auth);
    fixture_close(&f);
}

Test(auth, every_route_under_v1_needs_a_token_and_projects_and_tokens_are_for_admins) {
    struct fixture f = fixture_open();
    struct error error;
    char id[UUID_TEXT];
    struct auth *auth = auth_new(f.db);
    struct credential submit = make_token(&f, NULL, SCOPE_SUBMIT, id);
    for (const struct route *route = routes; route->method; route++) {
        bool open = strncmp(route->pattern, "/v1/", 4) != 0, change = strcmp(route->method, "GET") != 0;
        bool admins = strncmp(route->pattern, "/v1/tokens", 10) == 0 ||
                      (change && strncmp(route->pattern, "/v1/projects", 12) == 0);
        int status = ask(&f, auth, &nobody, route->method, route->pattern, id, &error);
        cr_expect_eq(status, open ? 0 : -1, "%s %s", route->method, route->pattern);
        if (admins)
            FAILS(ask(&f, auth, &submit, route->method, route->pattern, id, &error), "scope-missing");
    }
    auth_free(auth);
    fixture_close(&f);
}

Test(auth, what_another_project_owns_is_not_there) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *lab;
    char id[UUID_TEXT], job[UUID_TEXT];
    struct auth *auth = auth_new(f.db);
    struct project_new new = {"lab", {QUOTA_NONE, QUOTA_NONE, QUOTA_NONE}, {VISIBLE_PUBLIC}};
    OK(project_create(f.db, &new, f.arena, &lab, &error));
    struct model_row *model = fixture_model(&f, "network");
    fixture_job(&f, model->id, job);
    struct credential theirs = make_token(&f, lab->id, SCOPE_ADMIN, id), ours = make_token(&f, NULL, SCOPE_READ, id);
    for (int i = 0; i < 2; i++) { /* as first found, and as remembered */
        OK(ask(&f, auth, &ours, "GET", "/v1/jobs/{id}/module", job, &error));
        OK(ask(&f, auth, &ours, "GET", "/v1/models/{id}", model->id, &error));
        FAILS(ask(&f, auth, &theirs, "GET", "/v1/jobs/{id}/module", job, &error), "no-such-job");
        FAILS(ask(&f, auth, &theirs, "POST", "/v1/jobs/{id}/not-yet-thought-of", job, &error), "no-such-job");
        FAILS(ask(&f, auth, &theirs, "DELETE", "/v1/models/{id}", model->id, &error), "no-such-model");
    }
    /* The answer tells nothing: but for the id it is that for a job that does not exist. */
    const char *const ids[] = {"01975f3e-0000-7000-8000-000000000000", job};
    for (int i = 0; i < 2; i++) {
        char expected[100];
        FAILS(ask(&f, auth, &theirs, "GET", "/v1/jobs/{id}", ids[i], &error), "no-such-job");
        snprintf(expected, sizeof expected, "There is no job %s.", ids[i]);
        cr_expect_str_eq(error.text, expected);
    }
    auth_free(auth);
    fixture_close(&f);
}
