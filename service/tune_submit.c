/* SPDX-License-Identifier: Apache-2.0 */
#include "service/tune_submit.h"

#include <string.h>

#include "service/base/json.h"
#include "service/base/sha256.h"

#define MARK "warptune-tune" /* the label of jobs on a server of ours */

struct submission {
    struct client *client;
    const struct tune_wishes *wishes;
    struct arena *arena;
    const char *job; /* its id, once it has one */
};

/* The file's name without folder and ending. */
static const char *name_of(const char *model, struct arena *arena) {
    const char *slash = strrchr(model, '/'), *base = slash ? slash + 1 : model;
    const char *dot = strrchr(base, '.');
    return arena_strndup(arena, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

/* Empty where there is none. */
static const char *id_in(struct json_object *answer, struct arena *arena) {
    const char *id = "";
    struct error ignored;
    return json_read_string(answer, "id", JSON_OPTIONAL, 1 << 16, &id, &ignored) == 0 ? arena_strdup(arena, id) : "";
}

static int upload(struct submission *submission, const char **ret_id, struct error *error) {
    struct json_object *model CLEANUP(json_put_p) = NULL;
    const char *file = submission->wishes->model, *name = submission->wishes->name;
    const char *path = arena_printf(submission->arena, "/v1/models?name=%s",
                                    client_escape(submission->client, name ? name : name_of(file, submission->arena)));
    if (client_upload(submission->client, path, file, &model, error) < 0)
        return -1;
    *ret_id = id_in(model, submission->arena);
    return 0;
}

static void add_text(struct json_object *object, const char *field, const char *text) {
    if (text)
        json_add_string(object, field, text);
}

static void add_number(struct json_object *object, const char *field, int64_t value) {
    if (value)
        json_add_int(object, field, value);
}

static struct json_object *body_of(const struct tune_wishes *wishes, const char *model_id) {
    struct json_object *body = json_object_new_object(), *tuner = json_object_new_object();
    json_add_string(body, "model_id", model_id);
    add_text(body, "device", wishes->device);
    add_text(body, "precision", wishes->precision);
    add_text(body, "layout", wishes->layout);
    add_number(body, "batch", wishes->batch);
    add_number(body, "budget_s", wishes->budget_s);
    add_text(tuner, "name", wishes->tuner);
    add_number(tuner, "trials", wishes->trials);
    json_add(body, "tuner", tuner);
    return body;
}

/* The same for the same wishes. */
static const char *mark_of(struct json_object *body, struct arena *arena) {
    const char *text = json_text(body, NULL);
    char hex[SHA256_HEX];
    sha256_of(text, strlen(text), hex);
    return arena_strdup(arena, hex);
}

/* The same wishes on a server of ours: a job that was cut short, or that another terminal follows. */
static int find_begun(struct submission *submission, const char *model_id, const char *mark, struct error *error) {
    static const char *const states[] = {"running", "queued"};
    for (size_t i = 0; !submission->job && i < ARRAY_COUNT(states); i++) {
        struct json_object *page CLEANUP(json_put_p) = NULL, *jobs = NULL;
        const char *path = arena_printf(submission->arena, "/v1/jobs?model_id=%s&state=%s&label=" MARK "%%3D%s&limit=1",
                                        model_id, states[i], mark);
        if (client_get(submission->client, path, &page, error) < 0)
            return -1;
        if (json_object_object_get_ex(page, "jobs", &jobs) && json_object_is_type(jobs, json_type_array) &&
            json_object_array_length(jobs) > 0)
            submission->job = id_in(json_object_array_get_idx(jobs, 0), submission->arena);
    }
    return 0;
}

/* A job that is asked for again is gone on with, rather than done twice. */
static int find_or_mark(struct submission *submission, const char *model_id, struct json_object *body,
                        struct error *error) {
    struct json_object *labels = json_object_new_object();
    const char *mark = mark_of(body, submission->arena);
    json_add_string(labels, MARK, mark);
    json_add(body, "labels", labels);
    return find_begun(submission, model_id, mark, error);
}

int tune_submit(struct client *client, const struct tune_wishes *wishes, bool own, struct arena *arena,
                const char **ret_job, bool *ret_begun, struct error *error) {
    struct submission submission = {client, wishes, arena, NULL};
    struct json_object *job CLEANUP(json_put_p) = NULL;
    const char *model_id;
    if (upload(&submission, &model_id, error) < 0)
        return -1;
    struct json_object *body CLEANUP(json_put_p) = body_of(wishes, model_id);
    if (own && find_or_mark(&submission, model_id, body, error) < 0)
        return -1;
    *ret_begun = submission.job;
    if (!submission.job) {
        if (client_post(client, "/v1/jobs", body, true, &job, error) < 0)
            return -1;
        submission.job = id_in(job, arena);
    }
    *ret_job = submission.job;
    return 0;
}
