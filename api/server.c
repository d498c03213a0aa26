/* SPDX-License-Identifier: Apache-2.0 */
#include "api/server.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/acceptor.h"
#include "api/auth.h"
#include "api/event_feed.h"
#include "api/exchange.h"
#include "api/guard.h"
#include "api/idempotency.h"
#include "api/job_texts.h"
#include "api/listen.h"
#include "api/negotiate.h"
#include "api/openapi.h"
#include "api/peer.h"
#include "api/router.h"
#include "api/stats.h"
#include "api/tls.h"
#include "api/trace.h"
#include "service/base/clock.h"
#include "service/base/log.h"

enum { QUICK_THREADS = 4, SLOW_THREADS = 4 };
#define HEAD_S 30 /* for the head of a request to arrive; idle connections are closed after it, too */

struct server {
    struct api *api;
    struct MHD_Daemon *daemon;
    struct acceptor *acceptor; /* deals the daemon's threads their connections; NULL once the server drains */
    struct executor *quick, *slow;
    struct guard *guard;
    struct cors *cors;
    int threads;   /* that serve connections */
    int most;      /* connections open at a time */
    int listening; /* its socket; -1 before */
    bool adopted;  /* that socket is others' too */
    bool trust_proxy;
    atomic_int blocking; /* of them, those that may be waiting for the database */
    char url[160];
    atomic_ullong next_request;
    uint32_t instance;    /* tells request ids of one start from those of another */
    pthread_mutex_t lock; /* a leaf; guards active */
    pthread_cond_t idle;
    int active; /* requests under way */
};

/* ---- a request's life ---- */

static void count_active(struct server *server, int change) {
    pthread_mutex_lock(&server->lock);
    server->active += change;
    if (server->active == 0)
        pthread_cond_signal(&server->idle);
    pthread_mutex_unlock(&server->lock);
}

/* A connection begins or ends; *context stays with it. */
static void on_connection(void *data, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    struct server *server = data;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = guard_enter(server->guard,
                               MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    else if (*context)
        guard_leave(server->guard, *context);
}

static void set_busy(struct server *server, struct MHD_Connection *connection, bool busy) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    guard_set_busy(server->guard, info->socket_context, busy);
}

/* Called by libmicrohttpd with the target as sent, before anything else; what it returns is the request's context. */
static void *begin_exchange(void *data, const char *target, struct MHD_Connection *connection) {
    struct server *server = data;
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->server = server;
    exchange->connection = connection;
    exchange->started_ns = clock_now_ns();
    exchange->spool = -1;
    exchange->response.fd = -1;
    struct request *request = &exchange->request;
    request->arena = arena_new(0);
    request->api = server->api;
    request->connection = connection;
    request->id = arena_printf(request->arena, "%08x-%llu", server->instance,
                               (unsigned long long)atomic_fetch_add(&server->next_request, 1));
    exchange->target = arena_strdup(request->arena, target);
    count_active(server, 1);
    return exchange;
}

static void end_exchange(void *data, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code) {
    (void)code;
    struct exchange *exchange = *context;
    if (!exchange)
        return;
    *context = NULL;
    set_busy(data, connection, false);
    body_release(exchange);
    if (exchange->response.fd >= 0)
        close(exchange->response.fd);
    arena_free(exchange->request.arena);
    free(exchange);
    count_active(data, -1);
}

const char *request_header(const struct request *request, const char *name) {
    return request->connection ? MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name) : NULL;
}

static void fail(struct exchange *exchange, const struct error *error) {
    struct request *request = &exchange->request;
    memset(&exchange->response, 0, sizeof exchange->response);
    exchange->response.fd = -1;
    response_problem(request, &exchange->response, error);
    if (exchange->response.status >= 500) {
        log_context("request", request->id);
        log_error(exchange->response.status == 500 ? LOG_ERROR : LOG_WARN, request->path ? request->path : "request",
                  error);
        log_context("request", NULL);
    }
    exchange->phase = PHASE_READY;
}

/* ---- handlers, and where they run ---- */

static void run_handler(struct exchange *exchange) {
    struct request *request = &exchange->request;
    struct error error = {0};
    memset(&exchange->response, 0, sizeof exchange->response);
    exchange->response.fd = -1;
    log_context("request", request->id);
    bool done = auth_admit(request, &error) == 0 && idempotency_handle(request, &exchange->response, &error) == 0;
    log_context("request", NULL);
    if (!done)
        fail(exchange, &error);
    else
        exchange->phase = PHASE_READY;
}

static void work_on_exchange(struct work *work) {
    struct exchange *exchange = (struct exchange *)((char *)work - offsetof(struct exchange, work));
    run_handler(exchange);
    MHD_resume_connection(exchange->connection);
}

int server_submit(struct server *server, enum route_run run, struct work *work, struct error *error) {
    return executor_submit(run == RUN_SLOW ? server->slow : server->quick, work, error);
}

struct api *server_api(struct server *server) {
    return server->api;
}

const struct cors *server_cors(const struct server *server) {
    return server->cors;
}

bool server_trusts_proxy(const struct server *server) {
    return server->trust_proxy;
}

static enum MHD_Result hand_over(struct exchange *exchange) {
    struct error error;
    exchange->phase = PHASE_RUNNING;
    exchange->work.run = work_on_exchange;
    MHD_suspend_connection(exchange->connection);
    if (server_submit(exchange->server, exchange->request.route->run, &exchange->work, &error) < 0) {
        fail(exchange, &error);
        MHD_resume_connection(exchange->connection);
    }
    return MHD_YES;
}

/* ---- waiting ---- */

#define LOOK_AGAIN_S 15 /* a sleeping connection does not show that its client left */
#define SETTLE_S 0.25   /* a busy job's changes are looked at together */

static void wake_exchange(struct hub_waiter *waiter) {
    struct exchange *exchange = (struct exchange *)((char *)waiter - offsetof(struct exchange, waiter));
    MHD_resume_connection(exchange->connection);
}

/* Puts a request whose handler chose to wait to sleep; it is handled again from the top when it wakes. */
static enum MHD_Result sleep_exchange(struct exchange *exchange) {
    struct error error;
    int64_t look_again = deadline_in_s(LOOK_AGAIN_S), until = exchange->request.wait_until;
    exchange->phase = PHASE_HANDLE;
    exchange->waiter.wake = wake_exchange;
    exchange->waiter.earliest = deadline_in_s(SETTLE_S);
    MHD_suspend_connection(exchange->connection);
    if (hub_wait(exchange->server->api->hub, &exchange->waiter, exchange->response.job_id, exchange->response.seen,
                 until < look_again ? until : look_again, &error) < 0) {
        if (error.class != ERROR_CANCELLED) /* else the server drains: its handler answers at once now */
            fail(exchange, &error);
        MHD_resume_connection(exchange->connection);
    }
    return MHD_YES;
}

/* What it sent last may lie unread before its end: with TLS the word that it ends does. */
static bool client_left(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd end = {info ? info->connect_fd : -1, POLLRDHUP, 0};
    return !info || (poll(&end, 1, 0) > 0 && end.revents != 0);
}

/* ---- answering ---- */

/* Reading changes nothing and comes often: only a log that is asked for everything has it. */
static bool only_reads(const struct request *request) {
    const char *method = request->method;
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 ||
           strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0;
}

/* Counts the answer that begins now, and logs it. */
static void note_answer(const struct exchange *exchange, unsigned status) {
    const struct request *request = &exchange->request;
    double seconds = (double)(clock_now_ns() - exchange->started_ns) / NS_PER_S;
    stats_add(exchange->server->api->stats, request->route, status, request->wait_until ? -1 : seconds);
    char client[PEER_ADDRESS];
    peer_address(exchange, client);
    struct log_field fields[] = {
        {"request", request->id, 0}, {"method", request->method, 0}, {"path", request->path ? request->path : "", 0},
        {"status", NULL, status},    {"ms", NULL, seconds * 1e3},    {"client", client, 0}};
    log_fields(only_reads(request) ? LOG_DEBUG : LOG_INFO, "request", fields, (int)ARRAY_COUNT(fields));
}

static enum MHD_Result send_response(struct exchange *exchange) {
    unsigned status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    struct MHD_Response *response = response_make(exchange, &status);
    if (!response)
        return MHD_NO;
    note_answer(exchange, status);
    enum MHD_Result result = MHD_queue_response(exchange->connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(struct exchange *exchange) {
    return exchange->response.kind == RESPONSE_WAIT ? sleep_exchange(exchange) : send_response(exchange);
}

static enum MHD_Result handle(struct exchange *exchange) {
    struct server *server = exchange->server;
    enum route_run run = exchange->request.route->run;
    if (exchange->request.wait_until && client_left(exchange->connection))
        return MHD_NO;
    bool counted = run == RUN_QUICK, here = run == RUN_HERE;
    if (counted)
        here = atomic_fetch_add(&server->blocking, 1) < server->threads - 1;
    if (here)
        run_handler(exchange);
    if (counted)
        atomic_fetch_sub(&server->blocking, 1);
    return here ? answer(exchange) : hand_over(exchange);
}

/* ---- reading ---- */

static enum MHD_Result count_value(void *data, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct {
        const char *name;
        int count;
    } *counter = data;
    (void)kind, (void)value;
    counter->count += strcasecmp(name, counter->name) == 0;
    return MHD_YES;
}

int request_header_count(const struct request *request, const char *name) {
    struct {
        const char *name;
        int count;
    } counter = {name, 0};
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_value, &counter);
    return counter.count;
}

struct value_list {
    const char *name;
    struct arena *arena;
    const char *text; /* so far */
};

static enum MHD_Result add_value(void *data, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct value_list *list = data;
    (void)kind;
    if (strcasecmp(name, list->name) == 0 && value)
        list->text = list->text ? arena_printf(list->arena, "%s, %s", list->text, value) : value;
    return MHD_YES;
}

const char *request_header_list(const struct request *request, const char *name) {
    struct value_list list = {name, request->arena, NULL};
    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, add_value, &list);
    return list.text;
}

static int check_host(const struct request *request, const char *version, struct error *error) {
    int hosts = request_header_count(request, MHD_HTTP_HEADER_HOST);
    if (hosts > 1 || (hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0))
        return error_set(error, ERROR_INVALID, "bad-framing", "Host", "A request has one Host header.");
    return 0;
}

/* A browser sends other origins' pages' plain POSTs without asking: where it says so, we look. */
static int check_origin(const struct exchange *exchange, struct error *error) {
    const struct request *request = &exchange->request;
    const char *origin = request_header(request, MHD_HTTP_HEADER_ORIGIN);
    if (!origin || only_reads(request) || cors_may_change(exchange->server->cors, origin, peer_host(exchange)))
        return 0;
    return error_set(error, ERROR_AUTH, "foreign-origin", MHD_HTTP_HEADER_ORIGIN,
                     "Pages of %.200s may change nothing here; the setting cors-origins can allow it.", origin);
}

static int check_draining(const struct exchange *exchange, struct error *error) {
    if (only_reads(&exchange->request) || !hub_draining(exchange->server->api->hub))
        return 0;
    return error_set(error, ERROR_CANCELLED, "stopping", NULL, "The server is stopping; ask again in a moment.");
}

static int check_accept(const struct request *request, struct error *error) {
    const char *makes = request->route->makes ? request->route->makes : "application/json";
    if (negotiate_accepts(request_header_list(request, MHD_HTTP_HEADER_ACCEPT), makes))
        return 0;
    return error_set(error, ERROR_INVALID, "not-acceptable", MHD_HTTP_HEADER_ACCEPT,
                     "Accept excludes what this answers with: %s.", makes);
}

/* A trace that the client is in names the request; else its own number does. */
static void take_trace(struct request *request) {
    char trace[TRACE_ID];
    if (trace_read(request_header(request, "traceparent"), trace))
        request->id = arena_strdup(request->arena, trace);
}

static bool announces_body(const struct request *request) {
    return request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
           request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

/* OPTIONS: the Allow header says it all. */
static void allow_methods(struct exchange *exchange) {
    response_text(&exchange->request, &exchange->response, MHD_HTTP_NO_CONTENT, NULL, "", 0);
    exchange->phase = PHASE_READY;
}

/* As for handlers, the database is asked here only while a thread is left that does not wait for it. */
static int check_client(struct exchange *exchange, struct error *error) {
    struct server *server = exchange->server;
    bool may_ask = atomic_fetch_add(&server->blocking, 1) < server->threads - 1;
    int status = auth_before_body(&exchange->request, may_ask, error);
    atomic_fetch_sub(&server->blocking, 1);
    return status;
}

/* The headers are there: find the route, decide about the body. An error is answered at once. */
static enum MHD_Result read_headers(struct exchange *exchange, const char *method, const char *version) {
    struct request *request = &exchange->request;
    struct error error = {0};
    set_busy(exchange->server, exchange->connection, true);
    request->method = arena_strdup(request->arena, method);
    take_trace(request);
    if (check_host(request, version, &error) == 0 &&
        route_request(request, exchange->target, &exchange->allow, &error) == 0 &&
        check_origin(exchange, &error) == 0 && check_draining(exchange, &error) == 0 &&
        check_accept(request, &error) == 0 && check_client(exchange, &error) == 0 &&
        body_begin(exchange, &error) == 0) {
        exchange->phase = PHASE_BODY;
        return MHD_YES;
    }
    if (exchange->allow && strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0)
        allow_methods(exchange);
    else
        fail(exchange, &error);
    if (exchange->allow)
        response_header(request, &exchange->response, MHD_HTTP_HEADER_ALLOW, exchange->allow);
    if (strcmp(error.code, "bad-framing") == 0) /* where the next request would begin is not known */
        response_header(request, &exchange->response, MHD_HTTP_HEADER_CONNECTION, "close");
    else if (!announces_body(request)) /* the answer waits for the next call: one given now ends the connection */
        return MHD_YES;
    return send_response(exchange);
}

#define DRAIN_LIMIT (8 << 20)

/* A body that is refused half-way is read on for a while, so that the client gets to see the answer. */
static enum MHD_Result read_body(struct exchange *exchange, const char *data, size_t *size) {
    struct error error = {0};
    size_t len = *size;
    *size = 0;
    if (exchange->phase == PHASE_REFUSED) {
        exchange->drained += (int64_t)len;
        return exchange->drained > DRAIN_LIMIT ? MHD_NO : MHD_YES;
    }
    if (clock_now_ns() - exchange->started_ns > exchange->server->api->request_timeout_s * NS_PER_S)
        return MHD_NO;
    if (body_add(exchange, data, len, &error) < 0) {
        exchange->error = error;
        exchange->phase = PHASE_REFUSED;
    }
    return MHD_YES;
}

static enum MHD_Result end_body(struct exchange *exchange) {
    struct error error = exchange->error;
    if (exchange->phase == PHASE_REFUSED || body_end(exchange, &error) < 0) {
        fail(exchange, &error);
        return send_response(exchange);
    }
    exchange->phase = PHASE_HANDLE;
    return handle(exchange);
}

/* libmicrohttpd calls this for the headers, each piece of a body, its end, and after each resumption. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload_data, size_t *upload_size, void **context) {
    (void)data, (void)connection, (void)url;
    struct exchange *exchange = *context;
    if (!exchange)
        return MHD_NO;
    switch (exchange->phase) {
    case PHASE_HEADERS:
        return read_headers(exchange, method, version);
    case PHASE_BODY:
    case PHASE_REFUSED:
        return *upload_size ? read_body(exchange, upload_data, upload_size) : end_body(exchange);
    case PHASE_HANDLE:
        return handle(exchange);
    case PHASE_RUNNING:
        return MHD_YES;
    case PHASE_READY:
        return answer(exchange);
    }
    return MHD_NO;
}

/* ---- start and stop ---- */

static int threads_of(const struct server_config *config) {
    return config->threads > 0 ? config->threads : 4 * (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int server_max_queries(const struct server_config *config) {
    return threads_of(config) + QUICK_THREADS + SLOW_THREADS;
}

static int start_daemon(struct server *server, const struct server_config *config, struct error *error) {
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem tls[] = {
        {config->tls ? MHD_OPTION_HTTPS_CERT_CALLBACK : MHD_OPTION_END, 0, (void *)(uintptr_t)tls_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL}};
    server->daemon = MHD_start_daemon(
        flags | (config->tls ? MHD_USE_TLS : 0u), 0, NULL, NULL, on_request, server, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)server->threads, MHD_OPTION_CONNECTION_LIMIT, (unsigned)server->most,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(64 << 10), MHD_OPTION_CONNECTION_TIMEOUT, 60u,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_URI_LOG_CALLBACK, begin_exchange, server,
        MHD_OPTION_NOTIFY_COMPLETED, end_exchange, server, MHD_OPTION_END);
    if (!server->daemon)
        return error_set(error, ERROR_IO, "cannot-listen", NULL, "The HTTP server did not start: %m.");
    return 0;
}

static bool has_room(void *data) {
    struct server *server = data;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return !info || info->num_connections < (unsigned)server->most;
}

/* libmicrohttpd begins with the thread that the descriptor's number stands for, and closes what it cannot take. */
static void take_connection(void *data, int fd, const struct sockaddr *address, socklen_t len) {
    struct server *server = data;
    MHD_add_connection(server->daemon, fd, address, len);
}

static int start_acceptor(struct server *server, struct error *error) {
    struct acceptor_target target = {has_room, take_connection, server};
    return acceptor_start(server->listening, &target, &server->acceptor, error);
}

static struct server *server_new(struct api *api, const struct server_config *config) {
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        abort();
    server->api = api;
    server->threads = threads_of(config);
    server->most = config->max_connections;
    api->auth = auth_new(api->db);
    server->listening = -1;
    server->adopted = config->listen_fd > 0 && !config->own_socket;
    server->trust_proxy = config->trust_proxy;
    api->started_ns = clock_now_ns();
    api->stats = stats_new();
    api->job_texts = job_texts_new();
    api->event_feed = event_feed_new(api->db);
    if (getrandom(&server->instance, sizeof server->instance, 0) < 0)
        server->instance = (uint32_t)clock_now_ns();
    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&server->idle, &attributes);
    pthread_condattr_destroy(&attributes);
    return server;
}

int server_start(struct api *api, const struct server_config *config, struct server **ret, struct error *error) {
    int fd = config->listen_fd;
    if ((config->tls && tls_check(error) < 0) ||
        (fd > 0 ? listen_adopt(fd, error) : listen_open(config->listen, &fd, error)) < 0)
        return -1;
    struct server *server = server_new(api, config);
    server->listening = fd;
    listen_url(config->tls ? "https" : "http", fd, server->url, sizeof server->url);
    if (cors_new(config->cors_origins, &server->cors, error) < 0 || openapi_new(&api->openapi, error) < 0 ||
        guard_start(HEAD_S, &server->guard, error) < 0 || executor_new(QUICK_THREADS, &server->quick, error) < 0 ||
        executor_new(SLOW_THREADS, &server->slow, error) < 0 || start_daemon(server, config, error) < 0 ||
        start_acceptor(server, error) < 0) {
        server_stop(server);
        return -1;
    }
    *ret = server;
    return 0;
}

const char *server_url(const struct server *server) {
    return server->url;
}

#define GRACE_S 3 /* for requests under way when the server stops */

static void wait_until_idle(struct server *server) {
    int64_t deadline = deadline_in_s(GRACE_S);
    struct timespec until = {deadline / NS_PER_S, deadline % NS_PER_S};
    pthread_mutex_lock(&server->lock);
    while (server->active > 0 && pthread_cond_timedwait(&server->idle, &server->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&server->lock);
}

void server_drain(struct server *server) {
    bool listened = server->acceptor != NULL;
    acceptor_stop(server->acceptor);
    server->acceptor = NULL;
    if (listened && !server->adopted)
        shutdown(server->listening, SHUT_RDWR); /* who comes now is refused at once, not left waiting */
    hub_drain(server->api->hub);
}

/* No connection may be suspended when the daemon stops: the hub takes no one in any more, the executors finish first.
 */
void server_stop(struct server *server) {
    if (!server)
        return;
    if (server->daemon) {
        if (server->acceptor)
            server_drain(server);
        wait_until_idle(server);
    }
    executor_close(server->quick);
    executor_close(server->slow);
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    if (server->listening >= 0)
        close(server->listening);
    executor_free(server->quick);
    executor_free(server->slow);
    guard_stop(server->guard);
    cors_free(server->cors);
    openapi_free(server->api->openapi);
    stats_free(server->api->stats);
    job_texts_free(server->api->job_texts);
    event_feed_free(server->api->event_feed);
    auth_free(server->api->auth);
    server->api->auth = NULL;
    pthread_cond_destroy(&server->idle);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
