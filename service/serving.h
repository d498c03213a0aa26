/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serving.h: what `serve`, `worker` and `migrate` have in common: settings, the log, the database (a private cluster
 * when none is named), and waiting for the signal to stop.
 */
#ifndef WARPTUNE_SERVING_H
#define WARPTUNE_SERVING_H

#include <stdbool.h>

#include "service/settings.h"
#include "service/store/cluster.h"
#include "service/store/db.h"

struct serving {
    struct arena *arena;
    struct settings settings;
    struct cluster *cluster; /* NULL when a database was named */
    struct db *db;
    const char *database_url;
    bool may_join; /* another process may own the private cluster: then its database is opened */
    char joined_url[512];
    struct periodic *tidying;
    int connections; /* the most to the database at a time, set before it is opened; 0: a default */
};

/*
 * Reads the settings and starts the log. Returns -1 to go on, or the exit status to end with at once: 0 after --help,
 * 2 when the command line is wrong.
 */
int serving_settings(struct serving *serving, const char *verb, const char *summary, int argc, char **argv);
/* Becomes the user that the settings name; before the first thread and the database. */
int serving_become_user(struct serving *serving, struct error *error) MUST_CHECK;
/* Opens the database; with `may_start_cluster`, a private cluster in the data folder when no database is named. */
int serving_open_database(struct serving *serving, bool may_start_cluster, struct error *error) MUST_CHECK;
/*
 * For commands beside a server: the settings but for those given here (NULL: not given), and the database, whether or
 * not a server runs on it. Close it, opened or not.
 */
int serving_open_beside(struct serving *serving, const char *data_dir, const char *database_url,
                        struct error *error) MUST_CHECK;
/*
 * From now on, every ten minutes, removes blobs to which nothing refers, answers and deliveries that are old enough
 * and, when there are many, the files of the cache that were read least. Ends when the serving is closed.
 */
int serving_tidy(struct serving *serving, struct error *error) MUST_CHECK;
/* Blocks SIGTERM, SIGINT and SIGHUP in this and all later threads; call before the first thread is made. */
void serving_block_signals(void);
/* Logs what this process and its children are not kept from. */
void serving_log_bounds(void);
/*
 * Sleeps until one of the first two arrives, and returns 0; SIGHUP calls `reload` (NULL: nothing to do); or until the
 * private cluster is gone for good, and returns the exit status, so that whoever supervises this process starts it
 * anew.
 */
int serving_wait_for_signal(struct serving *serving, void (*reload)(const struct settings *settings));
/* Waits until done(data), for as long as the setting drain-seconds allows, or until a second signal to stop. */
void serving_drain(struct serving *serving, bool (*done)(void *data), void *data);
/* Closes what was opened, the cluster last. Safe on a partly opened one. */
void serving_close(struct serving *serving);

#endif
