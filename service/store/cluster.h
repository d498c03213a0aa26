/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h: a private PostgreSQL cluster inside the data folder, for a server that was given no database.
 *
 * DIR/postgres is the cluster, DIR/postgres.log its log, DIR/run its socket's folder (a folder under $XDG_RUNTIME_DIR
 * or /tmp, recorded in DIR/run.path, when DIR is too long for a socket); no TCP. A watcher process stands between us
 * and the postmaster: it restarts a postmaster that dies, and shuts it down when our process ends, however it ends.
 * What a kill of both left behind is stopped, or recovered from, by the next start. PostgreSQL refuses root: as root
 * everything runs as `postgres`, or `nobody` where that user does not exist.
 */
#ifndef WARPTUNE_STORE_CLUSTER_H
#define WARPTUNE_STORE_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct cluster;

struct cluster_options {
    const char *data_dir; /* made when missing */
    bool no_sync;         /* for tests: a crash of the machine may lose the cluster */
};

/*
 * The folder with `postgres` and `initdb`: $WARPTUNE_PG_BIN, else pgsql/bin beside the program's folder, PATH, the
 * newest /usr/lib/postgresql/N/bin. ERROR_NOT_FOUND "no-postgresql" says what to install.
 */
int cluster_find_bin(char *ret_path, size_t size, struct error *error) MUST_CHECK;

/*
 * Makes the cluster when it is missing, starts it, and waits until it answers and holds the database `warptune`.
 * ERROR_CONFLICT "data-dir-in-use" when another live process owns the folder. Call once a folder, early, from any
 * thread.
 */
int cluster_start(const struct cluster_options *options, struct cluster **ret, struct error *error) MUST_CHECK;
/* The URL of the cluster that another process owns: what cluster_start found in use. */
int cluster_running_url(const char *data_dir, char *ret_url, size_t size, struct error *error) MUST_CHECK;
/* postgresql://… for db_open and for workers on this host; as long as the cluster. */
const char *cluster_url(const struct cluster *cluster);
/* Whether the process that watches over PostgreSQL is still there: without it nothing brings PostgreSQL back. */
bool cluster_alive(struct cluster *cluster);
/* Fast shutdown, after 30 s immediate, after 10 more SIGKILL; frees the handle. NULL-safe. */
void cluster_stop(struct cluster *cluster);

#endif
