/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_serve.c: the composition root of the server: database, waiting room, HTTP, worker; stopped in reverse. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/deliverer.h"
#include "api/hub.h"
#include "api/listen.h"
#include "api/reservations.h"
#include "api/server.h"
#include "api/tls.h"
#include "scheduler/worker.h"
#include "service/announce.h"
#include "service/base/file.h"
#include "service/base/log.h"
#include "service/commands.h"
#include "service/retention.h"
#include "service/serving.h"
#include "service/store/token_store.h"
#include "service/systemd.h"

enum { WORKER_CONNECTIONS = 8, OWN_CONNECTIONS = 5 /* deliverer, reservations, housekeeping */ };

struct parts {
    struct serving serving;
    struct api api;
    struct hub *hub;
    struct reservations *reservations;
    struct deliverer *deliverer;
    struct server *server;
    struct worker *worker;
    struct retention_stats retained;
    struct retention_thread *retention;
    int announcement; /* says where we listen; 0: none */
};

/* Each connection is a descriptor, and the usual limit is 1,024. What the system does not grant we do without. */
static void allow_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Uploads that a server which was killed left half-way. */
static int drop_spools(struct parts *parts, struct error *error) {
    return file_remove_tree(arena_printf(parts->serving.arena, "%s/uploads", parts->serving.settings.data_dir), error);
}

/* As long as there is no token everybody who can reach the server may do everything. */
static int check_openness(const struct parts *parts, int adopted, struct error *error) {
    const struct settings *settings = &parts->serving.settings;
    bool any, loopback;
    if (token_any(parts->serving.db, &any, error) < 0 ||
        listen_is_loopback(settings->listen, adopted, &loopback, error) < 0)
        return -1;
    if (any)
        return 0;
    if (!loopback && !settings->allow_anonymous)
        return error_set(error, ERROR_INVALID, "anonymous", "listen",
                         "There is no token, so that everybody who reaches %.100s could do everything. Make one "
                         "(warptune token create --scope admin), listen on 127.0.0.1, or allow it (--allow-anonymous).",
                         settings->listen);
    log_line(loopback ? LOG_INFO : LOG_WARN, "there is no token: everybody who reaches %s may do everything",
             settings->listen);
    return 0;
}

/* The socket and the certificate, which may be for root alone; then root is let go of. */
static int take_what_needs_root(struct parts *parts, struct server_config *server, struct error *error) {
    const struct settings *settings = &parts->serving.settings;
    if (systemd_listen_fd(&server->listen_fd, error) < 0 ||
        (server->tls && tls_load(settings->tls_cert, settings->tls_key, error) < 0))
        return -1;
    server->own_socket = *settings->user && server->listen_fd <= 0;
    if (server->own_socket && listen_open(settings->listen, &server->listen_fd, error) < 0)
        return -1;
    if (serving_become_user(&parts->serving, error) < 0)
        return -1;
    serving_log_bounds();
    return 0;
}

static int start(struct parts *parts, struct error *error) {
    const struct settings *settings = &parts->serving.settings;
    struct server_config server = {.listen = settings->listen,
                                   .threads = (int)settings->http_threads,
                                   .max_connections = (int)settings->max_connections,
                                   .cors_origins = settings->cors_origins,
                                   .tls = *settings->tls_cert || *settings->tls_key,
                                   .trust_proxy = settings->trust_proxy};
    struct deliverer_config deliverer = {.allow_private = settings->webhook_allow_private};
    if (take_what_needs_root(parts, &server, error) < 0)
        return -1;
    if (backoff_parse(settings->webhook_backoff, &deliverer.backoff, error) < 0)
        return error_prefix(error, "webhook-backoff: ");
    parts->serving.connections = server_max_queries(&server) + WORKER_CONNECTIONS + OWN_CONNECTIONS;
    if (serving_open_database(&parts->serving, true, error) < 0 || check_openness(parts, server.listen_fd, error) < 0 ||
        drop_spools(parts, error) < 0 ||
        hub_new(parts->serving.database_url, (int)settings->max_waiters, &parts->hub, error) < 0 ||
        reservations_start(parts->serving.db, &parts->reservations, error) < 0)
        return -1;
    deliverer.db = parts->serving.db;
    if (deliverer_start(&deliverer, &parts->deliverer, error) < 0)
        return -1;
    parts->api = (struct api){.db = parts->serving.db,
                              .hub = parts->hub,
                              .reservations = parts->reservations,
                              .data_dir = settings->data_dir,
                              .own_database = parts->serving.cluster != NULL,
                              .max_upload_bytes = settings->max_upload_mb << 20,
                              .max_json_bytes = 1 << 20,
                              .max_open_jobs = settings->max_open_jobs,
                              .request_timeout_s = settings->request_timeout_s,
                              .webhook_allow_private = settings->webhook_allow_private,
                              .retention = &parts->retained};
    struct worker_config worker = {.db = parts->serving.db,
                                   .data_dir = settings->data_dir,
                                   .devices = settings->devices,
                                   .key = settings->key,
                                   .builders = (int)settings->builders};
    if ((!settings->no_worker && worker_start(&worker, &parts->worker, error) < 0) ||
        serving_tidy(&parts->serving, error) < 0 ||
        retention_start(parts->serving.db, settings, &parts->retained, &parts->retention, error) < 0)
        return -1;
    if (server_start(&parts->api, &server, &parts->server, error) < 0)
        return -1;
    return announce_server(settings->data_dir, server_url(parts->server), &parts->announcement, error);
}

/* A certificate that cannot be read leaves the one before in use. */
static void reload(const struct settings *settings) {
    struct error error;
    if (!*settings->tls_cert)
        log_line(LOG_INFO, "there is nothing to read again: no tls-cert");
    else if (tls_load(settings->tls_cert, settings->tls_key, &error) < 0)
        log_error(LOG_ERROR, "the certificate stays as it was", &error);
    else
        log_line(LOG_INFO, "the certificate was read again");
}

static bool has_finished(void *data) {
    const struct parts *parts = data;
    return !parts->worker || worker_stopped(parts->worker);
}

static void unannounce(struct parts *parts) {
    if (parts->announcement > 0)
        close(parts->announcement);
    parts->announcement = 0;
}

/* What is under way may finish: the trials being measured, the requests being answered. */
static void drain(struct parts *parts) {
    unannounce(parts);
    server_drain(parts->server);
    if (parts->worker)
        worker_ask_stop(parts->worker);
    serving_drain(&parts->serving, has_finished, parts);
}

static void stop(struct parts *parts) {
    unannounce(parts);
    server_stop(parts->server);
    tls_unload();
    worker_stop(parts->worker);
    deliverer_stop(parts->deliverer);
    reservations_stop(parts->reservations);
    retention_stop(parts->retention);
    hub_free(parts->hub);
    serving_close(&parts->serving);
}

int cmd_serve(int argc, char **argv) {
    struct parts parts = {0};
    struct error error;
    int status = serving_settings(
        &parts.serving, "serve",
        "Serves the HTTP interface, with a worker beside it. Without --database-url a private PostgreSQL cluster runs\n"
        "in the data folder and stops with the server.",
        argc, argv);
    if (status >= 0)
        return status;
    serving_block_signals();
    allow_descriptors();
    if (start(&parts, &error) < 0) {
        status = command_failed("serve", &error);
        if (strcmp(error.code, "data-dir-in-use") == 0)
            status = COMMAND_FOLDER_TAKEN;
    } else {
        printf("listening on %s\n", server_url(parts.server));
        fflush(stdout);
        log_line(LOG_INFO, "listening on %s", server_url(parts.server));
        systemd_notify("READY=1\nSTATUS=listening on %s", server_url(parts.server));
        status = serving_wait_for_signal(&parts.serving, reload);
        log_line(LOG_INFO, "stopping");
        if (status == 0)
            drain(&parts);
    }
    stop(&parts);
    return status;
}
