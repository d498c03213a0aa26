/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db.h: the database: a pool of connections to PostgreSQL, shared by all threads of a process.
 *
 * Every store function takes the pool, borrows a connection for as long as it works, and gives it back. All of them
 * are thread-safe and follow the same rules: a lost connection, a restart of PostgreSQL, a serialization failure or a
 * deadlock is retried for up to 10 seconds (each operation is written so that doing it twice is doing it once); past
 * that it is ERROR_DB. No free connection within the wait is ERROR_BUSY "database-busy". A statement past its time
 * limit is ERROR_TIMEOUT. Rows come back as plain structs whose texts live in the caller's arena; times are
 * microseconds since 1970 UTC, 0 for none; costs are seconds, INFINITY for none.
 */
#ifndef WARPTUNE_STORE_DB_H
#define WARPTUNE_STORE_DB_H

#include <stdint.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct db;

struct db_options {
    const char *url;         /* any libpq connection string */
    int connections;         /* the most at a time; 0: 16 */
    double wait_s;           /* for a free connection; 0: 5 */
    double connect_s;        /* how long db_open tries to reach the server; 0: 30 */
    double statement_s;      /* limit of one statement; 0: 60 */
    const char *application; /* name in pg_stat_activity; NULL: warptune */
};

/* Connects once, to know that it works. Does not look at the schema (see migrate.h). */
int db_open(const struct db_options *options, struct db **ret, struct error *error) MUST_CHECK;
const char *db_url(const struct db *db);
/* One round trip, without retries, and whether it takes writes: for readiness. */
int db_ping(struct db *db, struct error *error) MUST_CHECK;

struct db_stats {
    int limit, open, in_use;       /* connections */
    int64_t waits, busy, failures; /* borrowings that had to wait, that gave up, connections lost or refused */
};
void db_stats(struct db *db, struct db_stats *ret);

/* No other thread may be using it. NULL-safe. */
void db_close(struct db *db);

#endif
