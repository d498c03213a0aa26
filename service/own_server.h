/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_server.h: a server for one command: the one that runs on the data folder already, else a child process of ours.
 *
 * The child serves a loopback port that the system chooses, and stops as after SIGTERM, trials under way finished, when
 * it is told to and when this process ends, however it ends. It has a process group of its own, so that a Ctrl-C is
 * ours alone. Used by one thread, which must be the one that lives longest.
 */
#ifndef WARPTUNE_OWN_SERVER_H
#define WARPTUNE_OWN_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/arena.h"
#include "service/base/child.h"

struct own_server {
    const char *data_dir;
    const char *devices; /* of a child; NULL: as the settings have them */
    bool (*stop)(void);  /* asked while it starts: true gives up with ERROR_CANCELLED */
    /* The rest is ours; zero at first. */
    struct child child; /* pid 0: the server is another's */
    int log_fd;         /* of the child's standard error; below 1: none */
    int64_t looked_ns;
    bool gone;
    char url[160]; /* empty: none */
};

/* The folder of `--data-dir` (NULL: not given), as `warptune serve` would have it. */
int own_server_data_dir(const char *given, struct arena *arena, const char **ret, struct error *error) MUST_CHECK;
/* Finds or starts a server; waits for one that is about to end. What a child that does not start says is the error. */
int own_server_open(struct own_server *own, struct error *error) MUST_CHECK;
/* Whether it has ended, or stopped announcing itself: open it anew. Looks twice a second. */
bool own_server_gone(struct own_server *own);
/* Lets the child finish what is under way, and end; another's server is left alone. Safe on one never opened. */
void own_server_close(struct own_server *own);

#endif
