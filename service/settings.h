/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h: every setting of the server and the worker, from one table: the command line (`--listen ADDR`), the
 * environment (WARPTUNE_LISTEN), a file (`listen = ADDR`, named by --config or WARPTUNE_CONFIG), the default; the first
 * of these that gives it wins. The help text is made from the same table.
 */
#ifndef WARPTUNE_SETTINGS_H
#define WARPTUNE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/arena.h"
#include "service/base/buf.h"
#include "service/base/error.h"

struct settings {
    const char *listen;       /* HOST:PORT; port 0 takes a free one */
    const char *data_dir;     /* private cluster, caches */
    const char *database_url; /* empty: a private cluster in data_dir */
    const char *devices;      /* "cpu,cuda:0", "auto": every GPU, else the CPU; "all" */
    const char *key;          /* label of this worker */
    const char *log_level;
    const char *user;         /* to become when started as root; empty: none */
    const char *cors_origins; /* web pages of these origins may read the answers */
    bool no_worker;
    bool allow_anonymous; /* listen anywhere although there is no token */
    int64_t builders;     /* compiler processes of each device; 0: one for each core */
    int64_t http_threads; /* 0: four for each core */
    int64_t max_connections;
    int64_t max_waiters; /* long polls and event streams */
    int64_t max_upload_mb;
    int64_t max_open_jobs;
    int64_t request_timeout_s;
    const char *webhook_backoff;    /* seconds between the attempts of a delivery, "5,300,…" */
    bool webhook_allow_private;     /* deliver to private and loopback addresses, too */
    const char *tls_cert, *tls_key; /* empty: plain HTTP */
    bool trust_proxy;
    int64_t drain_s;
    int64_t keep_events_days, keep_logs_days, keep_trials_days; /* after a job's end; 0: for ever, as the rest */
    int64_t keep_jobs_days, keep_models_days;
};

/*
 * Reads all four sources; argv[0] is skipped; values live in `arena`. An unknown option, a value that is not a number
 * or out of range, a bad line of the file: ERROR_INVALID naming it.
 */
int settings_load(struct settings *ret, int argc, char **argv, struct arena *arena, struct error *error) MUST_CHECK;
/* One line for each setting. */
void settings_help(struct buf *ret);

#endif
