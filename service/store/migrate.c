/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/migrate.h"

#include <string.h>

#include "service/base/sha256.h"
#include "service/store/pg.h"

/* One number for all programs that migrate this schema: «wtun». */
#define LOCK_NUMBER "2004120942"

static const char make_table[] = "CREATE TABLE IF NOT EXISTS migrations ("
                                 "  version integer PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL, applied_at "
                                 "timestamptz NOT NULL DEFAULT now())";
static const struct statement find_table = {"migrate_find_table", "SELECT to_regclass('migrations') IS NOT NULL"};
static const struct statement get_version = {"migrate_version", "SELECT coalesce(max(version), 0) FROM migrations"};
static const struct statement get_hash = {"migrate_hash", "SELECT sha256 FROM migrations WHERE version = $1"};
static const struct statement record = {"migrate_record",
                                        "INSERT INTO migrations (version, name, sha256) VALUES ($1, $2, $3)"};

struct run {
    const struct migration *list;
    int count, applied;
};

static int get_int(struct pg *pg, const struct statement *statement, int *ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (pg_run(pg, statement, NULL, &result, error) < 0)
        return -1;
    *ret = (int)row_int(&(struct row){result, 0, 0});
    return 0;
}

static int too_new(int version, int known, struct error *error) {
    return error_set(
        error, ERROR_CONFLICT, "schema-too-new", NULL,
        "The database's schema has version %d, this program knows %d: a newer program was here. Install that "
        "version, or restore a backup made before.",
        version, known);
}

/* 1: it ran already, with this text. */
static int ran_before(struct pg *pg, const struct migration *migration, const char *sha256, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_int(&params, migration->version);
    if (pg_run(pg, &get_hash, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return 0;
    if (strcmp(PQgetvalue(result, 0, 0), sha256) == 0)
        return 1;
    return error_set(
        error, ERROR_CONFLICT, "schema-differs", NULL,
        "Migration %s was run on this database with another text. This program and the database are not of "
        "one origin.",
        migration->name);
}

static int apply(struct pg *pg, const struct migration *migration, struct run *run, struct error *error) {
    char sha256[SHA256_HEX];
    sha256_of(migration->sql, strlen(migration->sql), sha256);
    int ran = ran_before(pg, migration, sha256, error);
    if (ran != 0)
        return ran < 0 ? -1 : 0;
    struct params params = {0};
    params_int(&params, migration->version);
    params_text(&params, migration->name);
    params_text(&params, sha256);
    if (pg_script(pg, "BEGIN", error) < 0 || pg_script(pg, migration->sql, error) < 0 ||
        pg_run(pg, &record, &params, NULL, error) < 0 || pg_script(pg, "COMMIT", error) < 0)
        return error_prefix(error, "migration %s: ", migration->name);
    run->applied++;
    return 0;
}

static int run_under_lock(struct pg *pg, struct run *run, struct error *error) {
    int version;
    if (pg_script(pg, make_table, error) < 0 || get_int(pg, &get_version, &version, error) < 0)
        return -1;
    if (version > run->count)
        return too_new(version, run->count, error);
    for (int i = 0; i < run->count; i++)
        if (apply(pg, &run->list[i], run, error) < 0)
            return -1;
    return 0;
}

static int run_all(struct pg *pg, void *data, struct error *error) {
    /* Another program may be at work for long: its limits are its own. */
    if (pg_script(pg, "SET statement_timeout = 0; SET lock_timeout = 0; SELECT pg_advisory_lock(" LOCK_NUMBER ")",
                  error) < 0)
        return -1;
    pg_discard(pg); /* which also ends the lock, and a transaction cut off */
    return run_under_lock(pg, data, error);
}

int migrate_run_list(struct db *db, const struct migration *list, int count, int *ret_applied, struct error *error) {
    struct run run = {list, count, 0};
    if (db_with(db, run_all, &run, error) < 0)
        return -1;
    if (ret_applied)
        *ret_applied = run.applied;
    return 0;
}

int migrate_run(struct db *db, int *ret_applied, struct error *error) {
    return migrate_run_list(db, migrations, migrations_count, ret_applied, error);
}

static int read_version(struct pg *pg, void *data, struct error *error) {
    int *ret_version = data;
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (pg_run(pg, &find_table, NULL, &result, error) < 0)
        return -1;
    if (!row_bool(&(struct row){result, 0, 0})) {
        *ret_version = 0;
        return 0;
    }
    return get_int(pg, &get_version, ret_version, error);
}

int migrate_version(struct db *db, int *ret_version, struct error *error) {
    return db_with(db, read_version, ret_version, error);
}

int migrate_check(struct db *db, struct error *error) {
    int version = 0;
    if (migrate_version(db, &version, error) < 0)
        return -1;
    if (version > migrations_count)
        return too_new(version, migrations_count, error);
    if (version < migrations_count)
        return error_set(error, ERROR_CONFLICT, "schema-too-old", NULL,
                         "The database's schema has version %d, this program needs %d: run `warptune migrate`.",
                         version, migrations_count);
    return 0;
}
