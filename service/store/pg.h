/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pg.h: statements, parameters, rows and transactions over libpq, for the store's own files.
 *
 * A statement is a constant at the top of its file; each connection prepares it at first use. Parameters and results
 * are in text form, but for bytes, and the rows of statements that say so.
 */
#ifndef WARPTUNE_STORE_PG_H
#define WARPTUNE_STORE_PG_H

#include <stdbool.h>
#include <stddef.h>

#include <libpq-fe.h>

#include "service/base/arena.h"
#include "service/store/db.h"

struct pg; /* a borrowed connection */

struct statement {
    const char *name; /* unique in the program */
    const char *sql;
    bool binary; /* results in binary form */
};

enum { PARAMS_MAX = 24 };

struct params {
    int n;
    const char *values[PARAMS_MAX];
    char texts[PARAMS_MAX][32];
};

/* Texts are borrowed. NULL, and a number that is not finite, become null. */
void params_text(struct params *params, const char *text);
void params_int(struct params *params, int64_t value);
void params_double(struct params *params, double value);
void params_bool(struct params *params, bool value);
void params_time(struct params *params, int64_t us); /* 0: null */

/* A row of a result; columns are taken in order, each by one call. */
struct row {
    const PGresult *result;
    int number, column;
};
const char *row_raw(struct row *row);                       /* NULL for null; as long as the result */
const char *row_text(struct row *row, struct arena *arena); /* NULL for null */
void row_copy(struct row *row, char *ret, size_t size);     /* cut off; empty for null */
int64_t row_int(struct row *row);                           /* 0 for null */
double row_double(struct row *row);                         /* INFINITY for null */
bool row_bool(struct row *row);
int64_t row_time(struct row *row); /* microseconds; 0 for null */
/* An array of numbers or of texts ('{1,2}', '{a,"b c",NULL}'); at most `max` elements. How many. */
int row_ints(struct row *row, int64_t *ret, int max);
int row_doubles(struct row *row, double *ret, int max);
int row_texts(struct row *row, struct arena *arena, const char **ret, int max);

/* Runs a statement. *ret_result (NULL: not wanted) is released with PQclear. */
int pg_run(struct pg *pg, const struct statement *statement, const struct params *params, PGresult **ret_result,
           struct error *error) MUST_CHECK;
/* Rows that the last statement of an INSERT, UPDATE or DELETE touched. */
int64_t pg_affected(const PGresult *result);
/* Several statements without parameters, separated by semicolons. */
int pg_script(struct pg *pg, const char *sql, struct error *error) MUST_CHECK;
/* The connection is closed, not given back to the pool, when the operation is over. */
void pg_discard(struct pg *pg);
/* For COPY: the connection itself, and the error of a result (or of the connection, result NULL) as pg_run gives it. */
PGconn *pg_raw(struct pg *pg);
int pg_fail(struct pg *pg, const PGresult *result, struct error *error);
/* 23503, 23505, …: SQLSTATE of the last failure on this connection; empty when it was none of the server's. */
const char *pg_sqlstate(const struct pg *pg);

/* One statement by itself, retried as db.h says: so it must be one that may run twice. */
int db_run(struct db *db, const struct statement *statement, const struct params *params, PGresult **ret_result,
           struct error *error) MUST_CHECK;
/*
 * Runs body(pg, data) in a transaction, commits when it returns 0, rolls back when it returns -1 and, when the reason
 * is one of those that db.h names, runs it again.
 */
int db_transaction(struct db *db, int (*body)(struct pg *pg, void *data, struct error *error), void *data,
                   struct error *error) MUST_CHECK;
/* The same without a transaction around it: the body sees a connection of its own. */
int db_with(struct db *db, int (*body)(struct pg *pg, void *data, struct error *error), void *data,
            struct error *error) MUST_CHECK;

/* A connection with the settings that the pool's have; *ret only on success. */
int pg_connect(const char *url, const char *application, double statement_s, PGconn **ret,
               struct error *error) MUST_CHECK;

void pg_clear_p(PGresult **result); /* for CLEANUP */
/* The result lives as long as the arena, so that texts of row_raw need no copy; *result becomes NULL. */
void pg_keep(PGresult **result, struct arena *arena);

#endif
