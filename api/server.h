/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h: the HTTP server: libmicrohttpd's threads, executors for handlers that take longer, sleeping requests.
 *
 * A request moves through the phases of `enum phase` in exchange.h. All but one of the threads that serve connections
 * may wait for the database at a time, so that the operations' routes are answered whatever the database does. Other
 * handlers run on an executor while their connection is suspended; waiting ones sleep in the hub without any thread.
 */
#ifndef WARPTUNE_API_SERVER_H
#define WARPTUNE_API_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/hub.h"
#include "service/base/error.h"
#include "service/store/job_store.h"

struct auth;
struct db;
struct event_feed;
struct job_texts;
struct reservations;
struct retention_stats;

/* What handlers share; owned by the composition root, outlives the server. */
struct api {
    struct db *db;
    struct hub *hub;
    const char *data_dir; /* uploads/ and blobs/ lie in it */
    bool own_database;    /* which lies in it, too */
    const char *program;  /* answers `child inspect` */
    int64_t max_upload_bytes;
    int64_t max_json_bytes;
    int64_t max_open_jobs;
    struct job_room job_room;
    int64_t request_timeout_s;
    bool webhook_allow_private;        /* webhooks may go to private addresses */
    struct reservations *reservations; /* of Idempotency-Keys */
    struct auth *auth;                 /* the server's own, as the rest: who asks; for /metrics and /openapi.json */
    int64_t started_ns;
    struct job_texts *job_texts;
    struct event_feed *event_feed;
    struct stats *stats;
    struct openapi *openapi;
    const struct retention_stats *retention; /* NULL in tests */
};

struct server_config {
    const char *listen; /* HOST:PORT, [HOST]:PORT */
    int threads;        /* that serve connections; 0: four for each core */
    int max_connections;
    const char *cors_origins; /* pages of these may read the answers: a list of origins, or "*"; NULL: none */
    int listen_fd;            /* a socket that listens already, instead of `listen`; 0: none */
    bool own_socket;          /* and is this server's alone, not handed in by who may use it after it */
    bool tls;                 /* HTTPS, with what tls_load read (tls.h) */
    bool trust_proxy;         /* X-Forwarded-For and X-Forwarded-Host are a proxy's */
};

struct server;

int server_start(struct api *api, const struct server_config *config, struct server **ret,
                 struct error *error) MUST_CHECK;
/* "http://127.0.0.1:8080", with the port that was taken. */
const char *server_url(const struct server *server);
/* How many database connections the handlers may want at a time. */
int server_max_queries(const struct server_config *config);
/*
 * Takes no new connections and nothing that changes something, answers those that wait, says `draining` to whoever
 * asks whether it is ready; all else goes on. Returns at once.
 */
void server_drain(struct server *server);
/* Takes no new connections, wakes those that wait, gives the rest a few seconds to finish, frees everything. NULL-safe.
 */
void server_stop(struct server *server);

#endif
