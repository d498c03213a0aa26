/* SPDX-License-Identifier: Apache-2.0 */
/* operations.c: is it alive, is it ready, how is it doing. */
#include "api/device_metrics.h"
#include "api/handlers.h"
#include "api/queue_metrics.h"
#include "api/server.h"
#include "api/stats.h"
#include "service/base/clock.h"
#include "service/store/db.h"
#include "service/store/job_store.h"
#include "service/store/migrate.h"
#include "service/store/queue_store.h"
#include "service/store/retention_store.h"
#include "service/store/worker_store.h"

static int answer_status(struct request *request, struct response *ret, const char *text) {
    response_text(request, ret, 200, "application/json", text, strlen(text));
    return 0;
}

int health_show(struct request *request, struct response *ret, struct error *error) {
    (void)error;
    return answer_status(request, ret, "{\"status\":\"ok\"}");
}

int readiness_show(struct request *request, struct response *ret, struct error *error) {
    if (hub_draining(request->api->hub))
        return error_set(error, ERROR_CANCELLED, "draining", NULL,
                         "The server is stopping: it finishes what is under way and takes nothing new.");
    if (db_ping(request->api->db, error) < 0)
        return -1;
    if (migrate_check(request->api->db, error) < 0) {
        error->class = ERROR_DB; /* the request is right: we are not ready for it */
        return -1;
    }
    return answer_status(request, ret, "{\"status\":\"ready\"}");
}

/* ---- metrics ---- */

static void describe(struct buf *out, const char *name, const char *type, const char *help) {
    buf_printf(out, "# HELP warptune_%s %s\n# TYPE warptune_%s %s\n", name, help, name, type);
}

static void put(struct buf *out, const char *name, const char *label, const char *value, long long number) {
    if (label)
        buf_printf(out, "warptune_%s{%s=\"%s\"} %lld\n", name, label, value, number);
    else
        buf_printf(out, "warptune_%s %lld\n", name, number);
}

static void put_server(struct buf *out, struct api *api) {
    describe(out, "info", "gauge", "The program.");
    put(out, "info", "version", WARPTUNE_VERSION, 1);
    describe(out, "uptime_seconds", "gauge", "Since the server started.");
    put(out, "uptime_seconds", NULL, NULL, (clock_now_ns() - api->started_ns) / NS_PER_S);
    describe(out, "waiters", "gauge", "Long polls and event streams that sleep.");
    put(out, "waiters", NULL, NULL, hub_waiting(api->hub));
    stats_write(api->stats, out);
}

static void put_pool(struct buf *out, struct db *db) {
    struct db_stats stats;
    db_stats(db, &stats);
    describe(out, "database_connections", "gauge", "Connections of the pool.");
    put(out, "database_connections", "state", "limit", stats.limit);
    put(out, "database_connections", "state", "open", stats.open);
    put(out, "database_connections", "state", "in_use", stats.in_use);
    describe(out, "database_events_total", "counter", "Borrowings that waited or gave up, connections that failed.");
    put(out, "database_events_total", "kind", "wait", stats.waits);
    put(out, "database_events_total", "kind", "busy", stats.busy);
    put(out, "database_events_total", "kind", "failure", stats.failures);
}

static void put_retention(struct buf *out, const struct retention_stats *stats) {
    if (!stats)
        return;
    describe(out, "retention_deleted_total", "counter", "Rows that were kept long enough.");
    for (int kind = 0; kind < RETAINED_COUNT; kind++)
        put(out, "retention_deleted_total", "kind", retained_name((enum retained)kind),
            atomic_load(&stats->deleted[kind]));
    describe(out, "retention_passes_total", "counter", "Looks at what is old enough to be deleted.");
    put(out, "retention_passes_total", "result", "done", atomic_load(&stats->passes));
    put(out, "retention_passes_total", "result", "failed", atomic_load(&stats->failures));
}

static int put_stored(struct buf *out, struct db *db, struct arena *arena, struct error *error) {
    int64_t jobs[JOB_STATE_COUNT];
    struct queue_depth depth;
    struct queue_waits waits;
    struct worker_row *workers;
    int n_workers;
    if (db_ping(db, error) < 0 || job_counts(db, jobs, error) < 0 || queue_depth(db, &depth, error) < 0 ||
        queue_waits(db, arena, &waits, error) < 0 || worker_list(db, arena, &workers, &n_workers, error) < 0)
        return -1;
    describe(out, "jobs", "gauge", "Jobs by state.");
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        put(out, "jobs", "state", job_state_name((enum job_state)i), jobs[i]);
    describe(out, "queue_items", "gauge", "Work items: waiting, leased to a worker, held by a pause.");
    put(out, "queue_items", "state", "waiting", depth.waiting);
    put(out, "queue_items", "state", "leased", depth.leased);
    put(out, "queue_items", "state", "held", depth.held);
    describe(out, "queue_oldest_seconds", "gauge", "How long the work item that waits longest has waited.");
    buf_printf(out, "warptune_queue_oldest_seconds %.3f\n", depth.oldest_s);
    queue_metrics_write(out, &waits);
    device_metrics_write(out, workers, n_workers);
    return 0;
}

/* The server's own figures are there whatever the database does; `database_up` says whether the others are. */
int metrics_show(struct request *request, struct response *ret, struct error *error) {
    struct buf *text = request_buf(request, 1 << 20);
    struct error away;
    put_server(text, request->api);
    put_pool(text, request->api->db);
    put_retention(text, request->api->retention);
    int up = put_stored(text, request->api->db, request->arena, &away) == 0;
    describe(text, "database_up", "gauge", "Whether the database answered just now.");
    put(text, "database_up", NULL, NULL, up);
    if (buf_check(text, "the metrics", error) < 0)
        return -1;
    response_text(request, ret, 200, "text/plain; version=0.0.4; charset=utf-8", buf_str(text), text->len);
    return 0;
}
