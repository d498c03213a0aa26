/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/db.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/utf8.h"
#include "service/store/pg.h"

enum { PREPARED_SLOTS = 512, POOL_MAX = 1000 };

#define RETRY_S 10.0 /* how long an operation is tried again */

struct pg {
    PGconn *conn;
    struct db *db;
    struct pg *next;                                  /* of the idle ones */
    const struct statement *prepared[PREPARED_SLOTS]; /* a hash set of addresses */
    bool discard;                                     /* not to be used again */
    bool retry;                                       /* the last failure is worth another try */
    char sqlstate[6];                                 /* of the last failure */
};

struct db {
    char *url, *application;
    int limit;
    double wait_s, statement_s;
    /* A leaf: nothing is called that could block while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t returned;
    /* Under the lock. */
    struct pg *idle; /* the one used last first */
    struct db_stats stats;
};

/* --- Errors --- */

struct state_class {
    const char *prefix; /* of the SQLSTATE */
    enum error_class class;
    const char *code;
    bool retry;
};

#define READ_ONLY "25006"

/* The first that fits; ends with one that fits all. */
static const struct state_class state_classes[] = {
    {"40001", ERROR_DB, "database-conflict", true}, /* serialization failure */
    {"40P01", ERROR_DB, "database-conflict", true}, /* deadlock */
    {"55P03", ERROR_DB, "database-locked", true},   /* lock timeout */
    {"57014", ERROR_TIMEOUT, "database-timeout", false},
    {"57P", ERROR_DB, "database-away", true}, /* shutting down, starting, crashed */
    {"25P03", ERROR_DB, "database-away", true},
    {READ_ONLY, ERROR_DB, "database-read-only", true}, /* a server that is no longer the primary */
    {"53300", ERROR_BUSY, "database-busy", true},
    {"53100", ERROR_BUSY, DISK_FULL, false},
    {"53", ERROR_BUSY, "database-full", false}, /* memory and the like */
    {"08", ERROR_DB, "database-away", true},
    {"23", ERROR_CONFLICT, "database-conflict", false},
    {"", ERROR_DB, "database", false},
};

static void first_line(const char *message, char *ret, size_t size) {
    size_t len = strcspn(message, "\n");
    snprintf(ret, size, "%.*s", (int)(len < size ? len : size - 1), message);
    utf8_scrub(ret);
}

static int connection_failed(PGconn *conn, const char *doing, struct error *error) {
    char text[400];
    first_line(PQerrorMessage(conn), text, sizeof text);
    return error_set(error, ERROR_DB, "database-away", NULL, "PostgreSQL, %s: %s", doing, text);
}

int pg_fail(struct pg *pg, const PGresult *result, struct error *error) {
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    snprintf(pg->sqlstate, sizeof pg->sqlstate, "%s", state ? state : "");
    if (PQstatus(pg->conn) != CONNECTION_OK || !state) {
        pg->retry = PQstatus(pg->conn) != CONNECTION_OK;
        return connection_failed(pg->conn, "connection lost", error);
    }
    const struct state_class *found = state_classes;
    while (strncmp(state, found->prefix, strlen(found->prefix)) != 0)
        found++;
    pg->retry = found->retry;
    if (strcmp(found->prefix, READ_ONLY) == 0)
        pg->discard = true; /* the next connection is made to a server that takes writes */
    char text[400];
    first_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY), text, sizeof text);
    return error_set(error, found->class, found->code, NULL, "PostgreSQL refused (%s): %s", state, text);
}

const char *pg_sqlstate(const struct pg *pg) {
    return pg->sqlstate;
}

/* --- Connections --- */

/* Notices would go to standard error; nothing here prints. */
static void drop_notice(void *data, const PGresult *result) {
    (void)data;
    (void)result;
}

int pg_connect(const char *url, const char *application, double statement_s, PGconn **ret, struct error *error) {
    const char *const keywords[] = {"dbname",
                                    "application_name",
                                    "connect_timeout",
                                    "tcp_user_timeout",
                                    "keepalives",
                                    "keepalives_idle",
                                    "keepalives_interval",
                                    "keepalives_count",
                                    "client_encoding",
                                    "target_session_attrs",
                                    NULL};
    const char *const values[] = {url, application, "10", "20000", "1", "30", "10", "3", "UTF8", "read-write", NULL};
    char settings[320];
    snprintf(settings, sizeof settings,
             "SET statement_timeout = %d; SET lock_timeout = '20s'; SET idle_in_transaction_session_timeout = '60s';"
             "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET client_min_messages = 'warning'; SET jit = off",
             (int)(statement_s * 1000));
    PGconn *conn = PQconnectdbParams(keywords, values, 1);
    PQsetNoticeReceiver(conn, drop_notice, NULL);
    PGresult *result = PQstatus(conn) == CONNECTION_OK ? PQexec(conn, settings) : NULL;
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    if (done) {
        *ret = conn;
        return 0;
    }
    connection_failed(conn, "cannot connect", error);
    PQfinish(conn);
    return -1;
}

static void close_connection(struct pg *pg) {
    PQfinish(pg->conn);
    free(pg);
}

/* --- The pool --- */

static struct timespec realtime_of(int64_t deadline) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t left = deadline - clock_now_ns();
    int64_t at = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec + (left > 0 ? left : 0);
    return (struct timespec){at / NS_PER_S, at % NS_PER_S};
}

/* An idle connection, or the right to make one (*ret NULL). */
static int take_slot(struct db *db, struct pg **ret, struct error *error) {
    struct timespec until = realtime_of(deadline_in_s(db->wait_s));
    pthread_mutex_lock(&db->lock);
    bool waited = false, timed_out = false;
    while (!db->idle && db->stats.open >= db->limit && !timed_out) {
        waited = true;
        timed_out = pthread_cond_timedwait(&db->returned, &db->lock, &until) != 0;
    }
    struct pg *pg = db->idle;
    bool granted = pg || db->stats.open < db->limit;
    if (pg)
        db->idle = pg->next;
    else
        db->stats.open += granted;
    db->stats.waits += waited;
    db->stats.in_use += granted;
    db->stats.busy += !granted;
    pthread_mutex_unlock(&db->lock);
    if (!granted)
        return error_set(error, ERROR_BUSY, "database-busy", NULL,
                         "All %d database connections are in use. Try again in a moment.", db->limit);
    *ret = pg;
    return 0;
}

static void return_slot(struct db *db, struct pg *pg, bool failed) {
    pthread_mutex_lock(&db->lock);
    db->stats.in_use--;
    db->stats.failures += failed;
    if (pg) {
        pg->next = db->idle;
        db->idle = pg;
    } else {
        db->stats.open--;
    }
    pthread_cond_signal(&db->returned);
    pthread_mutex_unlock(&db->lock);
}

/* *ret_retry: whether another try may help. */
static int borrow(struct db *db, struct pg **ret, bool *ret_retry, struct error *error) {
    struct pg *pg = NULL;
    *ret_retry = false;
    if (take_slot(db, &pg, error) < 0)
        return -1;
    if (!pg) {
        pg = calloc(1, sizeof *pg);
        if (!pg)
            abort();
        pg->db = db;
        if (pg_connect(db->url, db->application, db->statement_s, &pg->conn, error) < 0) {
            free(pg);
            return_slot(db, NULL, true);
            *ret_retry = true;
            return -1;
        }
    }
    pg->retry = false;
    pg->sqlstate[0] = 0;
    *ret = pg;
    return 0;
}

/* A connection that is not in a clean state is closed. */
static void give_back(struct pg *pg) {
    struct db *db = pg->db;
    bool clean = !pg->discard && PQstatus(pg->conn) == CONNECTION_OK && PQtransactionStatus(pg->conn) == PQTRANS_IDLE;
    bool failed = PQstatus(pg->conn) != CONNECTION_OK;
    if (!clean)
        close_connection(pg);
    return_slot(db, clean ? pg : NULL, failed);
}

/* --- Statements --- */

static bool is_prepared(struct pg *pg, const struct statement *statement, size_t *ret_slot) {
    size_t slot = ((uintptr_t)statement >> 4) % PREPARED_SLOTS;
    while (pg->prepared[slot] && pg->prepared[slot] != statement)
        slot = (slot + 1) % PREPARED_SLOTS;
    *ret_slot = slot;
    return pg->prepared[slot] != NULL;
}

static int prepare(struct pg *pg, const struct statement *statement, struct error *error) {
    size_t slot;
    if (is_prepared(pg, statement, &slot))
        return 0;
    PGresult *result CLEANUP(pg_clear_p) = PQprepare(pg->conn, statement->name, statement->sql, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        return pg_fail(pg, result, error);
    pg->prepared[slot] = statement;
    return 0;
}

int pg_run(struct pg *pg, const struct statement *statement, const struct params *params, PGresult **ret_result,
           struct error *error) {
    static const struct params none;
    if (!params)
        params = &none;
    if (prepare(pg, statement, error) < 0)
        return -1;
    PGresult *result =
        PQexecPrepared(pg->conn, statement->name, params->n, params->values, NULL, NULL, statement->binary);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        pg_fail(pg, result, error);
        PQclear(result);
        return -1;
    }
    if (ret_result)
        *ret_result = result;
    else
        PQclear(result);
    return 0;
}

int pg_script(struct pg *pg, const char *sql, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = PQexec(pg->conn, sql);
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : pg_fail(pg, result, error);
}

void pg_discard(struct pg *pg) {
    pg->discard = true;
}

PGconn *pg_raw(struct pg *pg) {
    return pg->conn;
}

/* --- Operations, retried --- */

static int once(struct db *db, bool transaction, int (*body)(struct pg *pg, void *data, struct error *error),
                void *data, bool *ret_retry, struct error *error) {
    struct pg *pg;
    if (borrow(db, &pg, ret_retry, error) < 0)
        return -1;
    int status = transaction ? pg_script(pg, "BEGIN", error) : 0;
    if (status == 0)
        status = body(pg, data, error);
    if (status == 0 && transaction)
        status = pg_script(pg, "COMMIT", error);
    *ret_retry = status < 0 && pg->retry;
    if (status < 0 && PQstatus(pg->conn) == CONNECTION_OK && PQtransactionStatus(pg->conn) != PQTRANS_IDLE)
        PQclear(PQexec(pg->conn, "ROLLBACK"));
    give_back(pg);
    return status;
}

static int with_retries(struct db *db, bool transaction, int (*body)(struct pg *pg, void *data, struct error *error),
                        void *data, struct error *error) {
    int64_t deadline = deadline_in_s(RETRY_S);
    for (int64_t delay_ns = 20000000;; delay_ns *= 2) {
        bool retry;
        if (once(db, transaction, body, data, &retry, error) == 0)
            return 0;
        if (delay_ns > NS_PER_S)
            delay_ns = NS_PER_S;
        if (!retry || clock_now_ns() + delay_ns > deadline)
            return -1;
        nanosleep(&(struct timespec){delay_ns / NS_PER_S, delay_ns % NS_PER_S}, NULL);
    }
}

int db_transaction(struct db *db, int (*body)(struct pg *pg, void *data, struct error *error), void *data,
                   struct error *error) {
    return with_retries(db, true, body, data, error);
}

int db_with(struct db *db, int (*body)(struct pg *pg, void *data, struct error *error), void *data,
            struct error *error) {
    return with_retries(db, false, body, data, error);
}

struct single {
    const struct statement *statement;
    const struct params *params;
    PGresult **ret_result;
};

static int run_single(struct pg *pg, void *data, struct error *error) {
    struct single *single = data;
    return pg_run(pg, single->statement, single->params, single->ret_result, error);
}

int db_run(struct db *db, const struct statement *statement, const struct params *params, PGresult **ret_result,
           struct error *error) {
    struct single single = {statement, params, ret_result};
    return with_retries(db, false, run_single, &single, error);
}

/* --- Open and close --- */

/* Until the server can be reached; a server that is up and refuses us ends it at once. */
static int connect_first(struct db *db, double connect_s, struct error *error) {
    int64_t deadline = deadline_in_s(connect_s);
    for (;;) {
        struct pg *pg;
        bool retry;
        if (borrow(db, &pg, &retry, error) == 0) {
            give_back(pg);
            return 0;
        }
        PGPing ping = PQping(db->url);
        if (ping == PQPING_OK || ping == PQPING_NO_ATTEMPT || clock_now_ns() > deadline)
            return -1;
        nanosleep(&(struct timespec){0, 200000000}, NULL);
    }
}

int db_open(const struct db_options *options, struct db **ret, struct error *error) {
    struct db *db = calloc(1, sizeof *db);
    if (!db)
        abort();
    db->url = strdup(options->url);
    db->application = strdup(options->application ? options->application : "warptune");
    if (!db->url || !db->application)
        abort();
    db->limit = options->connections > 0 && options->connections < POOL_MAX ? options->connections : 16;
    db->wait_s = options->wait_s > 0 ? options->wait_s : 5;
    db->statement_s = options->statement_s > 0 ? options->statement_s : 60;
    db->stats.limit = db->limit;
    pthread_mutex_init(&db->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&db->returned, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (connect_first(db, options->connect_s > 0 ? options->connect_s : 30, error) < 0) {
        db_close(db);
        return -1;
    }
    *ret = db;
    return 0;
}

const char *db_url(const struct db *db) {
    return db->url;
}

/* A server that answers but takes no writes is of no use: it was the primary once, or somebody closed it. */
static int ping(struct pg *pg, void *data, struct error *error) {
    (void)data;
    PGresult *result CLEANUP(pg_clear_p) = PQexec(pg->conn, "SHOW transaction_read_only");
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return pg_fail(pg, result, error);
    if (strcmp(PQgetvalue(result, 0, 0), "off") == 0)
        return 0;
    pg->discard = true;
    return error_set(error, ERROR_DB, "database-read-only", NULL, "PostgreSQL answers, but takes no writes.");
}

int db_ping(struct db *db, struct error *error) {
    bool retry;
    return once(db, false, ping, NULL, &retry, error);
}

void db_stats(struct db *db, struct db_stats *ret) {
    pthread_mutex_lock(&db->lock);
    *ret = db->stats;
    pthread_mutex_unlock(&db->lock);
}

void db_close(struct db *db) {
    if (!db)
        return;
    for (struct pg *pg = db->idle; pg;) {
        struct pg *following = pg->next;
        close_connection(pg);
        pg = following;
    }
    pthread_cond_destroy(&db->returned);
    pthread_mutex_destroy(&db->lock);
    free(db->url);
    free(db->application);
    free(db);
}
