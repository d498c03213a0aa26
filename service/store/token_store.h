/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token_store.h: API tokens. What is kept of one is its SHA-256: it is told once, when it is made. Revoked ones stay as
 * rows, so that a server that once had tokens never again serves those who have none.
 */
#ifndef WARPTUNE_STORE_TOKEN_STORE_H
#define WARPTUNE_STORE_TOKEN_STORE_H

#include <stdbool.h>

#include "service/base/secret_token.h"
#include "service/base/sha256.h"
#include "service/store/project_store.h"

#define TOKEN_NAME 101 /* bytes of a name, NUL included */

/* What a token allows; each includes those before it. */
enum scope { SCOPE_NONE, SCOPE_READ, SCOPE_SUBMIT, SCOPE_ADMIN, SCOPE_COUNT };
const char *scope_name(enum scope scope); /* "read", … */
int scope_parse(const char *name, enum scope *ret, struct error *error) MUST_CHECK;

struct token_row {
    char id[UUID_TEXT], project_id[UUID_TEXT], project[PROJECT_NAME];
    const char *name;
    unsigned scopes; /* a bit for each, 1 << SCOPE_… */
    char shown[SECRET_TOKEN_SHOWN];
    int64_t created_us, last_used_us, revoked_us; /* 0: never */
};

struct token_new {
    const char *project_id; /* NULL: `default` */
    const char *name;       /* 1 to 100 bytes */
    unsigned scopes;        /* at least one */
};

/* ret_token: the secret itself. ERROR_NOT_FOUND "no-such-project", ERROR_INVALID "bad-name", "bad-scopes". */
int token_create(struct db *db, const struct token_new *token, struct arena *arena, struct token_row **ret,
                 char ret_token[SECRET_TOKEN_TEXT], struct error *error) MUST_CHECK;

struct token_filter {
    const char *project_id; /* NULL: of all projects */
    const char *after;      /* cursor: the last of the page before; NULL: from the start */
    int limit;              /* 1 to 1000 */
};
/* Newest first, the revoked ones too. */
int token_list(struct db *db, const struct token_filter *filter, struct arena *arena, struct token_row **ret,
               int *ret_count, bool *ret_more, struct error *error) MUST_CHECK;
/* One that is revoked already stays as it is. `project_id`: whose it must be; NULL: anybody's. "no-such-token". */
int token_revoke(struct db *db, const char *id, const char *project_id, struct error *error) MUST_CHECK;
/* Whether any was ever made. */
int token_any(struct db *db, bool *ret, struct error *error) MUST_CHECK;

/* Who holds a token. */
struct identity {
    char token_id[UUID_TEXT]; /* empty: nobody, where there are no tokens */
    char project_id[UUID_TEXT], project[PROJECT_NAME];
    enum scope scope; /* the highest */
};
/*
 * By the token's hash; *ret_found false for one that is unknown or revoked, between which nothing differs. Notes the
 * use when the last one noted is a minute old.
 */
int token_identify(struct db *db, const char *sha256, struct identity *ret, bool *ret_found,
                   struct error *error) MUST_CHECK;

#endif
