/* SPDX-License-Identifier: Apache-2.0 */
/*
 * migrate.h: brings the schema up to what this program knows: forward only, each migration one transaction, recorded
 * with its name and SHA-256, all under an advisory lock, so that any number of programs may start at once.
 */
#ifndef WARPTUNE_STORE_MIGRATE_H
#define WARPTUNE_STORE_MIGRATE_H

#include "service/store/db.h"
#include "service/store/migrations.h"

/*
 * Runs what is missing of the list; ret_applied (optional) is how many. ERROR_CONFLICT "schema-too-new" when the
 * database is ahead of the list, "schema-differs" when a migration that ran had other text.
 */
int migrate_run_list(struct db *db, const struct migration *list, int count, int *ret_applied,
                     struct error *error) MUST_CHECK;
/* The same with the built-in list. */
int migrate_run(struct db *db, int *ret_applied, struct error *error) MUST_CHECK;
/* Version of the schema; 0 for an empty database. */
int migrate_version(struct db *db, int *ret_version, struct error *error) MUST_CHECK;
/* ERROR_CONFLICT "schema-too-old" or "schema-too-new" unless the schema is exactly this program's: for readiness. */
int migrate_check(struct db *db, struct error *error) MUST_CHECK;

#endif
