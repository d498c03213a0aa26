/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "service/store/token_store.h"

#define SCOPES(scope) (1u << (scope))

static struct token_row *make(struct fixture *f, const char *project_id, unsigned scopes,
                              char ret_secret[SECRET_TOKEN_TEXT]) {
    struct error error;
    struct token_row *token;
    OK(token_create(f->db, &(struct token_new){project_id, "ci", scopes}, f->arena, &token, ret_secret, &error));
    return token;
}

static bool identify(struct fixture *f, const char *secret, struct identity *ret) {
    struct error error;
    char sha256[SHA256_HEX];
    bool found;
    sha256_of(secret, strlen(secret), sha256);
    OK(token_identify(f->db, sha256, ret, &found, &error));
    return found;
}

Test(token, it_stands_for_its_project_and_highest_scope) {
    struct fixture f = fixture_open();
    struct identity who;
    char secret[SECRET_TOKEN_TEXT];
    struct token_row *token = make(&f, NULL, SCOPES(SCOPE_READ) | SCOPES(SCOPE_SUBMIT), secret);
    cr_assert(identify(&f, secret, &who));
    cr_expect_str_eq(who.token_id, token->id);
    cr_expect_str_eq(who.project, "default");
    cr_expect_eq(who.scope, SCOPE_SUBMIT);
    secret[10] = secret[10] == 'a' ? 'b' : 'a';
    cr_expect_not(identify(&f, secret, &who));
    fixture_close(&f);
}

Test(token, only_its_hash_is_kept) {
    struct fixture f = fixture_open();
    char secret[SECRET_TOKEN_TEXT], sql[200];
    struct token_row *token = make(&f, NULL, SCOPES(SCOPE_READ), secret);
    cr_expect_eq(strncmp(secret, token->shown, strlen(token->shown)), 0);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM tokens t WHERE t::text LIKE '%%%s%%'", secret);
    cr_expect_eq(fixture_number(f.url, sql), 0);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM tokens WHERE sha256 = encode(sha256('%s'), 'hex')", secret);
    cr_expect_eq(fixture_number(f.url, sql), 1);
    fixture_close(&f);
}

Test(token, a_revoked_one_is_unknown_and_stays_as_a_row) {
    struct fixture f = fixture_open();
    struct error error;
    struct identity who;
    char secret[SECRET_TOKEN_TEXT];
    bool any;
    OK(token_any(f.db, &any, &error));
    cr_expect_not(any);
    struct token_row *token = make(&f, NULL, SCOPES(SCOPE_ADMIN), secret), *list;
    OK(token_revoke(f.db, token->id, NULL, &error));
    OK(token_revoke(f.db, token->id, PROJECT_DEFAULT_ID, &error));
    cr_expect_not(identify(&f, secret, &who));
    int n;
    bool more;
    OK(token_list(f.db, &(struct token_filter){.limit = 10}, f.arena, &list, &n, &more, &error));
    cr_assert_eq(n, 1);
    cr_expect_gt(list[0].revoked_us, 0);
    cr_expect_eq(list[0].scopes, SCOPES(SCOPE_ADMIN));
    OK(token_any(f.db, &any, &error));
    cr_expect(any);
    fixture_close(&f);
}

Test(token, another_projects_admin_cannot_revoke_it) {
    struct fixture f = fixture_open();
    struct error error;
    struct project_row *lab;
    struct identity who;
    char secret[SECRET_TOKEN_TEXT];
    struct project_new new = {"lab", {QUOTA_NONE, QUOTA_NONE, QUOTA_NONE}, {VISIBLE_PUBLIC}};
    OK(project_create(f.db, &new, f.arena, &lab, &error));
    struct token_row *token = make(&f, NULL, SCOPES(SCOPE_READ), secret);
    FAILS(token_revoke(f.db, token->id, lab->id, &error), "no-such-token");
    FAILS(token_revoke(f.db, "x", NULL, &error), "no-such-token");
    cr_expect(identify(&f, secret, &who));
    fixture_close(&f);
}

Test(token, use_is_noted_once_a_minute) {
    struct fixture f = fixture_open();
    struct identity who;
    char secret[SECRET_TOKEN_TEXT];
    make(&f, NULL, SCOPES(SCOPE_READ), secret);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM tokens WHERE last_used_at IS NULL"), 1);
    cr_assert(identify(&f, secret, &who));
    int64_t version = fixture_number(f.url, "SELECT xmin::text FROM tokens WHERE last_used_at IS NOT NULL");
    cr_assert(identify(&f, secret, &who));
    cr_expect_eq(fixture_number(f.url, "SELECT xmin::text FROM tokens"), version);
    fixture_sql(f.url, "UPDATE tokens SET last_used_at = now() - interval '61 seconds'");
    cr_assert(identify(&f, secret, &who));
    cr_expect_eq(
        fixture_number(f.url, "SELECT count(*) FROM tokens WHERE last_used_at > now() - interval '30 seconds'"), 1);
    fixture_close(&f);
}

Test(token, one_without_scope_name_or_project_is_refused) {
    struct fixture f = fixture_open();
    struct error error;
    struct token_row *token;
    enum scope scope;
    char secret[SECRET_TOKEN_TEXT];
    struct token_new no_scope = {NULL, "n", 0}, no_name = {NULL, "", 2}, bad_name = {NULL, "a\nb", 2},
                     no_project = {"01975f3e-0000-7000-8000-000000000000", "n", 2}, no_id = {"x", "n", 2};
    FAILS(token_create(f.db, &no_scope, f.arena, &token, secret, &error), "bad-scopes");
    FAILS(token_create(f.db, &no_name, f.arena, &token, secret, &error), "bad-name");
    FAILS(token_create(f.db, &bad_name, f.arena, &token, secret, &error), "bad-name");
    FAILS(token_create(f.db, &no_project, f.arena, &token, secret, &error), "no-such-project");
    FAILS(token_create(f.db, &no_id, f.arena, &token, secret, &error), "no-such-project");
    FAILS(scope_parse("none", &scope, &error), "bad-scopes");
    fixture_close(&f);
}
