/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/retention_store.h"

#include <string.h>

#include "service/base/buf.h"
#include "service/store/model_store.h"
#include "service/store/pg.h"

enum { PAGE = 100 /* jobs or models that are looked at together */, JOBS_AT_ONCE = 20 };

/* One number for all programs that work on this schema: «wtre». */
static const struct statement try_lock = {"retention_lock", "SELECT pg_try_advisory_lock(2004120901)"};

static const struct statement unlock = {"retention_unlock", "SELECT pg_advisory_unlock(2004120901)"};

#define ENDED_LONG_AGO "j.finished_at < now() - make_interval(days => $1::int)"
/* Whoever looks a configuration up, or holds results against a golden set, may ask for the job that it came from. */
#define NOBODY_NAMES                                           \
    "NOT EXISTS (SELECT FROM configs c WHERE c.job_id = j.id)" \
    " AND NOT EXISTS (SELECT FROM golden g WHERE g.job_id = j.id AND g.ended_at IS NULL)"
#define AFTER_CURSOR "(j.finished_at, j.id) > ($2::timestamptz, $3::uuid) ORDER BY j.finished_at, j.id LIMIT $4"

static const struct statement ended_jobs = {
    "retention_ended_jobs", "SELECT j.id, j.finished_at FROM jobs j WHERE " ENDED_LONG_AGO " AND " AFTER_CURSOR};
static const struct statement unnamed_jobs = {"retention_unnamed_jobs",
                                              "SELECT j.id, j.finished_at FROM jobs j WHERE " ENDED_LONG_AGO
                                              " AND " NOBODY_NAMES " AND " AFTER_CURSOR};
/* A job that is taken up again while we look keeps what it has: the lock on its row decides. */
#define HELD                                                                            \
    "held AS MATERIALIZED (SELECT id FROM jobs WHERE id IN (SELECT job_id FROM victim)" \
    " AND finished_at IS NOT NULL FOR UPDATE SKIP LOCKED) "
static const struct statement delete_events = {
    "retention_events", "WITH victim AS MATERIALIZED (SELECT job_id, number FROM events WHERE job_id = ANY($1::uuid[])"
                        "  AND kind = ANY($2::text[]) LIMIT $3), " HELD
                        "DELETE FROM events e USING victim v JOIN held h ON h.id = v.job_id "
                        "WHERE e.job_id = v.job_id AND e.number = v.number"};
/* What stood for them in their project's order, once none of a row's events is left. */
static const struct statement forget_events = {
    "retention_forget_events",
    "WITH victim AS MATERIALIZED (SELECT f.project_id, f.number FROM project_events f"
    "  WHERE f.job_id = ANY($1::uuid[]) AND NOT EXISTS (SELECT FROM events e WHERE e.job_id = f.job_id"
    "   AND e.number BETWEEN f.first_event AND f.last_event) LIMIT $2) "
    "DELETE FROM project_events f USING victim v WHERE f.project_id = v.project_id AND f.number = v.number"};
static const struct statement delete_trials = {
    "retention_trials",
    "WITH victim AS MATERIALIZED (SELECT x.job_id, x.task, x.number FROM tasks t"
    "  JOIN trials x ON x.job_id = t.job_id AND x.task = t.number WHERE t.job_id = ANY($1::uuid[]) AND ($2 OR NOT"
    "   ((x.template, x.version, x.index) IS NOT DISTINCT FROM (t.best_template, t.best_version, t.best_index)"
    "    OR EXISTS (SELECT FROM configs c WHERE c.job_id = x.job_id AND c.workload = t.workload"
    "     AND c.template = x.template AND c.index = x.index)"
    "    OR EXISTS (SELECT FROM golden g JOIN golden_configs c ON c.golden = g.number WHERE g.job_id = x.job_id"
    "     AND c.workload = t.workload AND c.template = x.template AND c.index = x.index))) LIMIT $3), " HELD
    "DELETE FROM trials x USING victim v JOIN held h ON h.id = v.job_id "
    "WHERE x.job_id = v.job_id AND x.task = v.task AND x.number = v.number"};
static const struct statement delete_jobs = {
    "retention_jobs",
    "DELETE FROM jobs WHERE id IN (SELECT j.id FROM jobs j WHERE j.id = ANY($2::uuid[]) AND " ENDED_LONG_AGO
    " AND " NOBODY_NAMES " LIMIT $3 FOR UPDATE SKIP LOCKED)"};
static const struct statement unused_models = {
    "retention_models",
    "SELECT m.id FROM models m WHERE m.created_at < now() - make_interval(days => $1::int) AND m.id > $2::uuid"
    " AND NOT EXISTS (SELECT FROM jobs j WHERE j.model_id = m.id"
    "  AND (j.finished_at IS NULL OR NOT (" ENDED_LONG_AGO ")))"
    " AND NOT EXISTS (SELECT FROM golden g WHERE g.model_id = m.id AND g.ended_at IS NULL) ORDER BY m.id LIMIT $3"};

const char *retained_name(enum retained kind) {
    static const char *const names[] = {"events", "logs", "trials", "jobs", "models"};
    return names[kind];
}

struct pass {
    struct db *db;
    struct pg *pg;
    const struct retention *retention;
    bool *ret_ran;
    bool stopped;
};

/* A page of jobs: their ids as an array's text, and where the next page begins. */
struct page {
    struct buf ids;
    int n;
    char at[64], id[UUID_TEXT];
};

#define PAGE_INIT \
    { BUF_INIT(PAGE *(UUID_TEXT + 1) + 2), 0, "-infinity", "00000000-0000-0000-0000-000000000000" }

static void release_page(struct page *page) {
    buf_release(&page->ids);
}

static int next_page(struct pass *pass, const struct statement *statement, enum retained kind, struct page *page,
                     struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_int(&params, pass->retention->days[kind]);
    params_text(&params, page->at);
    params_text(&params, page->id);
    params_int(&params, PAGE);
    if (pg_run(pass->pg, statement, &params, &result, error) < 0)
        return -1;
    page->n = PQntuples(result);
    buf_clear(&page->ids);
    for (int i = 0; i < page->n; i++) {
        struct row row = {result, i, 0};
        row_copy(&row, page->id, sizeof page->id);
        row_copy(&row, page->at, sizeof page->at);
        buf_printf(&page->ids, "%s%s", i ? "," : "{", page->id);
    }
    buf_putc(&page->ids, '}');
    return 0;
}

/* Runs a statement, which deletes at most `limit` rows, until it deletes fewer. RETAINED_COUNT: rows nobody counts. */
static int delete_all(struct pass *pass, const struct statement *statement, const struct params *params, int limit,
                      enum retained kind, struct error *error) {
    int64_t deleted = limit;
    while (deleted >= limit && !pass->stopped) {
        PGresult *result CLEANUP(pg_clear_p) = NULL;
        if (pg_run(pass->pg, statement, params, &result, error) < 0)
            return -1;
        deleted = pg_affected(result);
        if (deleted == 0)
            break;
        if (kind != RETAINED_COUNT)
            pass->retention->deleted(pass->retention->data, kind, deleted);
        pass->stopped = pass->retention->pause(pass->retention->data);
    }
    return 0;
}

static int drop_events(struct pass *pass, const struct page *page, const char *kinds, enum retained kind,
                       struct error *error) {
    struct params params = {0};
    params_text(&params, page->ids.data);
    params_text(&params, kinds);
    params_int(&params, RETENTION_BATCH);
    if (delete_all(pass, &delete_events, &params, RETENTION_BATCH, kind, error) < 0)
        return -1;
    struct params forget = {0};
    params_text(&forget, page->ids.data);
    params_int(&forget, RETENTION_BATCH);
    return delete_all(pass, &forget_events, &forget, RETENTION_BATCH, RETAINED_COUNT, error);
}

static int drop_trials(struct pass *pass, const struct page *page, bool best_too, struct error *error) {
    struct params params = {0};
    params_text(&params, page->ids.data);
    params_bool(&params, best_too);
    params_int(&params, RETENTION_BATCH);
    return delete_all(pass, &delete_trials, &params, RETENTION_BATCH, RETAINED_TRIALS, error);
}

/* What hangs on the jobs goes first, in batches of its own, so that no transaction is a large one. */
static int drop_jobs(struct pass *pass, const struct page *page, struct error *error) {
    if (drop_events(pass, page, "{progress,trial}", RETAINED_EVENTS, error) < 0 ||
        drop_events(pass, page, "{log}", RETAINED_LOGS, error) < 0 || drop_trials(pass, page, true, error) < 0)
        return -1;
    struct params params = {0};
    params_int(&params, pass->retention->days[RETAINED_JOBS]);
    params_text(&params, page->ids.data);
    params_int(&params, JOBS_AT_ONCE);
    return delete_all(pass, &delete_jobs, &params, JOBS_AT_ONCE, RETAINED_JOBS, error);
}

static int drop_of_page(struct pass *pass, enum retained kind, const struct page *page, struct error *error) {
    switch (kind) {
    case RETAINED_EVENTS:
        return drop_events(pass, page, "{progress,trial}", kind, error);
    case RETAINED_LOGS:
        return drop_events(pass, page, "{log}", kind, error);
    case RETAINED_TRIALS:
        return drop_trials(pass, page, false, error);
    default:
        return drop_jobs(pass, page, error);
    }
}

static int walk_jobs(struct pass *pass, enum retained kind, struct error *error) {
    struct page page CLEANUP(release_page) = PAGE_INIT;
    do {
        if (next_page(pass, kind == RETAINED_JOBS ? &unnamed_jobs : &ended_jobs, kind, &page, error) < 0 ||
            (page.n && drop_of_page(pass, kind, &page, error) < 0))
            return -1;
    } while (page.n == PAGE && !pass->stopped);
    return 0;
}

/* A model that a job has begun to use meanwhile is left, as one that somebody deleted is. */
static int drop_model(struct pass *pass, const char *id, struct error *error) {
    struct error failure;
    if (model_delete(pass->db, id, &failure) == 0) {
        pass->retention->deleted(pass->retention->data, RETAINED_MODELS, 1);
    } else if (failure.class != ERROR_CONFLICT && failure.class != ERROR_NOT_FOUND) {
        *error = failure;
        return -1;
    }
    pass->stopped = pass->retention->pause(pass->retention->data);
    return 0;
}

static int walk_models(struct pass *pass, struct error *error) {
    char after[UUID_TEXT] = "00000000-0000-0000-0000-000000000000";
    int n;
    do {
        PGresult *result CLEANUP(pg_clear_p) = NULL;
        struct params params = {0};
        params_int(&params, pass->retention->days[RETAINED_MODELS]);
        params_text(&params, after);
        params_int(&params, PAGE);
        if (pg_run(pass->pg, &unused_models, &params, &result, error) < 0)
            return -1;
        n = PQntuples(result);
        for (int i = 0; i < n && !pass->stopped; i++) {
            row_copy(&(struct row){result, i, 0}, after, sizeof after);
            if (drop_model(pass, after, error) < 0)
                return -1;
        }
    } while (n == PAGE && !pass->stopped);
    return 0;
}

static int run_pass(struct pg *pg, void *data, struct error *error) {
    struct pass *pass = data;
    PGresult *locked CLEANUP(pg_clear_p) = NULL;
    pass->pg = pg;
    pg_discard(pg); /* which ends the lock, too, when this ends early */
    if (pg_run(pg, &try_lock, NULL, &locked, error) < 0)
        return -1;
    *pass->ret_ran = row_bool(&(struct row){locked, 0, 0});
    for (int kind = 0; kind < RETAINED_COUNT && *pass->ret_ran && !pass->stopped; kind++)
        if (pass->retention->days[kind] > 0 &&
            (kind == RETAINED_MODELS ? walk_models(pass, error) : walk_jobs(pass, (enum retained)kind, error)) < 0)
            return -1;
    return pg_run(pg, &unlock, NULL, NULL, error);
}

int retention_pass(struct db *db, const struct retention *retention, bool *ret_ran, struct error *error) {
    struct pass pass = {.db = db, .retention = retention, .ret_ran = ret_ran};
    *ret_ran = false;
    return db_with(db, run_pass, &pass, error);
}
