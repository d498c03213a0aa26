/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/event_store.h"

#include "service/base/json.h"
#include "service/base/utf8.h"
#include "service/store/job_tx.h"
#include "service/store/project_store.h"

static const struct statement list = {
    "event_list", "SELECT number, kind, data, created_at FROM events WHERE job_id = $1 AND number > $2"
                  " AND ($3::text IS NULL OR kind = $3) ORDER BY number LIMIT $4"};

/* A row of project_events stands for events that came together; its number is that of the last. */
static const struct statement list_project = {
    "event_list_project",
    "SELECT f.number - f.last_event + e.number, e.kind, e.data, e.created_at, e.job_id, e.number FROM project_events f"
    " JOIN events e ON e.job_id = f.job_id AND e.number BETWEEN f.first_event AND f.last_event "
    "WHERE f.project_id = $1 AND f.number > $2 AND f.number - f.last_event + e.number > $2 "
    "ORDER BY f.number, e.number LIMIT $3"};
static const struct statement last_of_project = {"event_last_of_project",
                                                 "SELECT last_number FROM project_feeds WHERE project_id = $1"};

static void read_event(struct row *row, struct arena *arena, struct event_row *ret) {
    ret->number = row_int(row);
    ret->kind = row_text(row, arena);
    ret->data = row_text(row, arena);
    ret->created_us = row_time(row);
}

int event_list(struct db *db, const char *job_id, const char *kind, int64_t after, int limit, struct arena *arena,
               struct event_row **ret, int *ret_count, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, job_id);
    params_int(&params, after);
    params_text(&params, kind);
    params_int(&params, limit);
    if (uuid_valid(job_id) && db_run(db, &list, &params, &result, error) < 0)
        return -1;
    int count = PQntuples(result);
    struct event_row *events = arena_array(arena, (size_t)count + 1, sizeof *events);
    for (int i = 0; i < count; i++)
        read_event(&(struct row){result, i, 0}, arena, &events[i]);
    *ret = events;
    *ret_count = count;
    return 0;
}

int event_list_project(struct db *db, const char *project_id, int64_t after, int limit, struct arena *arena,
                       struct event_row **ret, int *ret_count, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, project_or_default(project_id));
    params_int(&params, after);
    params_int(&params, limit);
    if (db_run(db, &list_project, &params, &result, error) < 0)
        return -1;
    int count = PQntuples(result);
    struct event_row *events = arena_array(arena, (size_t)count + 1, sizeof *events);
    for (int i = 0; i < count; i++) {
        struct row row = {result, i, 0};
        read_event(&row, arena, &events[i]);
        events[i].job_id = row_text(&row, arena);
        events[i].job_number = row_int(&row);
    }
    *ret = events;
    *ret_count = count;
    return 0;
}

int event_last_of_project(struct db *db, const char *project_id, int64_t *ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, project_or_default(project_id));
    if (db_run(db, &last_of_project, &params, &result, error) < 0)
        return -1;
    *ret = PQntuples(result) ? row_int(&(struct row){result, 0, 0}) : 0;
    return 0;
}

struct line {
    const struct work_item *item;
    const char *data;
};

static int add_line(struct pg *pg, void *data, struct error *error) {
    struct line *line = data;
    enum job_state state;
    if (item_hold(pg, line->item, &state, error) < 0)
        return -1;
    return event_add(pg, line->item->job_id, "log", line->data, error);
}

int event_log(struct db *db, const struct work_item *item, const char *level, const char *text, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    char *valid = arena_strdup(arena, text);
    utf8_scrub(valid);
    struct json_object *data CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(data, "level", level);
    json_add_string(data, "text", valid);
    return db_transaction(db, add_line, &(struct line){item, json_text(data, NULL)}, error);
}
