/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/event_store.h"

#include "service/base/json.h"
#include "service/base/utf8.h"
#include "service/store/job_tx.h"

static const struct statement list = {
    "event_list", "SELECT number, kind, data, created_at FROM events WHERE job_id = $1 AND number > $2"
                  " AND ($3::text IS NULL OR kind = $3) ORDER BY number LIMIT $4"};

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
    for (int i = 0; i < count; i++) {
        struct row row = {result, i, 0};
        events[i].number = row_int(&row);
        events[i].kind = row_text(&row, arena);
        events[i].data = row_text(&row, arena);
        events[i].created_us = row_time(&row);
    }
    *ret = events;
    *ret_count = count;
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
