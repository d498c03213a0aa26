/* SPDX-License-Identifier: Apache-2.0 */
#include "service/tune_show.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "service/base/arena.h"
#include "service/base/json.h"

/* ---- lines ---- */

void tune_show_line(struct tune_show *show, const char *format, ...) {
    va_list args;
    if (show->line_open)
        fputs("\r\033[K", stdout);
    show->line_open = false;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* One that the next replaces. */
static void show_open_line(struct tune_show *show, const char *line) {
    if (!show->on_terminal)
        return;
    printf("\r\033[K%s", line);
    fflush(stdout);
    show->line_open = true;
}

void tune_show_close_line(struct tune_show *show) {
    if (show->line_open)
        putchar('\n');
    show->line_open = false;
}

/* What a server says may hold anything: the terminal takes no commands from it. */
static const char *plain(struct arena *arena, const char *text) {
    char *copy = arena_strdup(arena, text);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    return copy;
}

static const char *text_of(struct json_object *object, const char *field) {
    const char *text = "";
    struct error ignored;
    return json_read_string(object, field, JSON_OPTIONAL, 1 << 16, &text, &ignored) == 0 ? text : "";
}

/* INFINITY where there is none. */
static double number_of(struct json_object *object, const char *field) {
    double number = INFINITY;
    struct error ignored;
    return json_read_double(object, field, JSON_OPTIONAL, -1e300, 1e300, &number, &ignored) == 0 ? number : INFINITY;
}

static const char *us(struct arena *arena, double value) {
    return isfinite(value) ? arena_printf(arena, "%.2f µs", value) : "not measured";
}

/* ---- events ---- */

static void show_task(struct tune_show *show, struct json_object *event, struct arena *arena) {
    const char *state = text_of(event, "state");
    double task = number_of(event, "task") + 1, tasks = number_of(event, "tasks"),
           trials = number_of(event, "trials_done");
    if (strcmp(state, "running") == 0 && trials > 0) {
        show_open_line(show, plain(arena, text_of(event, "line")));
    } else if (strcmp(state, "running") == 0) {
        tune_show_line(show, "task %2.0f/%.0f begins: at most %.0f trials", task, tasks,
                       number_of(event, "trials_planned"));
    } else {
        const char *reason = text_of(event, "stop_reason");
        bool says_more = *reason && strcmp(reason, "trials") != 0;
        tune_show_line(show, "task %2.0f/%.0f %s after %.0f trials%s%s: best %s, untuned %s", task, tasks,
                       plain(arena, state), trials, says_more ? ", " : "", says_more ? plain(arena, reason) : "",
                       us(arena, number_of(event, "best_us")), us(arena, number_of(event, "baseline_us")));
    }
}

static void show_log(struct tune_show *show, struct json_object *event, struct arena *arena) {
    const char *level = text_of(event, "level");
    if (strcmp(level, "info") != 0)
        tune_show_line(show, "%s: %s", plain(arena, level), plain(arena, text_of(event, "text")));
}

bool tune_show_event(void *context, const char *name, const char *data) {
    struct tune_show *show = context;
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct json_object *event CLEANUP(json_put_p) = NULL;
    struct error ignored; /* a later server may say more than we know */
    if (json_parse(data, strlen(data), &event, &ignored) < 0 || !json_object_is_type(event, json_type_object))
        return true;
    if (strcmp(name, "state") == 0)
        tune_show_line(show, "%s", plain(arena, text_of(event, "state")));
    else if (strcmp(name, "progress") == 0)
        show_task(show, event, arena);
    else if (strcmp(name, "log") == 0)
        show_log(show, event, arena);
    if (strcmp(name, "end") != 0)
        return true;
    snprintf(show->end, sizeof show->end, "%s", text_of(event, "state"));
    return false;
}

/* ---- the end ---- */

int tune_show_end(struct tune_show *show, struct json_object *job, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct json_object *result = NULL, *failure = NULL;
    struct error ignored;
    if (strcmp(show->end, "succeeded") != 0) {
        if (json_read_object(job, "error", JSON_OPTIONAL, &failure, &ignored) == 0 && failure)
            return error_set(error, ERROR_CONFLICT, "job-failed", NULL, "The job %s: %s", show->end,
                             plain(arena, text_of(failure, "text")));
        return error_set(error, ERROR_CONFLICT, "job-ended", NULL, "The job is %s.", show->end);
    }
    if (json_read_object(job, "result", JSON_OPTIONAL, &result, &ignored) == 0 && result)
        tune_show_line(show, "%s: the network takes %s, untuned %s", plain(arena, text_of(job, "device_key")),
                       us(arena, number_of(result, "tuned_p50_us")), us(arena, number_of(result, "baseline_p50_us")));
    return 0;
}

void tune_show_left(const char *job, const char *server, bool with_token) {
    fprintf(stderr,
            "warptune tune: interrupted; the job goes on.\n"
            "  follow it:  warptune tune --job %s --server %s\n"
            "  cancel it:  curl -X POST %s/v1/jobs/%s/cancel%s\n",
            job, server, server, job, with_token ? " -H \"Authorization: Bearer $WARPTUNE_TOKEN\"" : "");
}

void tune_show_kept(const char *job, const char *data_dir, const char *devices) {
    fprintf(stderr,
            "warptune tune: interrupted; the job goes on with whatever server runs on %s.\n"
            "  follow it:  warptune tune --job %s --data-dir %s%s%s\n",
            data_dir, job, data_dir, devices ? " --device " : "", devices ? devices : "");
}
