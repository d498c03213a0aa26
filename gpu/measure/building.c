/* SPDX-License-Identifier: Apache-2.0 */
/* Who builds what: rendering ahead of all, one compile a source. */
#include <stdio.h>
#include <string.h>

#include "gpu/measure/batch.h"
#include "service/base/file.h"

/* What a builder may take beyond a compile's time to answer; a plain kernel's build at least. */
#define BUILD_SLACK_S 1.5
#define PLAIN_BUILD_S 60

static double build_timeout_s(const struct batch *batch, int job) {
    double timeout_s = batch->options->build_timeout_s;
    return job == JOB_PLAIN && timeout_s < PLAIN_BUILD_S ? PLAIN_BUILD_S : timeout_s;
}

static struct json_object *build_request(const struct batch *batch, const struct builder *builder) {
    struct json_object *request = json_object_new_object(), *items = json_object_new_array();
    for (int i = 0; i < builder->n_jobs; i++) {
        const struct trial *trial = builder->jobs[i] == JOB_PLAIN ? NULL : &batch->trials[builder->jobs[i]];
        struct json_object *item = json_object_new_array();
        json_object_array_add(item, json_object_new_string(trial ? trial->template->name : ""));
        json_object_array_add(item, json_object_new_int64(trial ? trial->index : 0));
        json_object_array_add(items, item);
    }
    json_add_string(request, "do", builder->compiles ? "compile" : "render");
    json_add_string(request, "workload", batch->key);
    json_add(request, "items", items);
    json_add_string(request, "cache_dir", batch->measurer->cache_dir);
    json_add_string(request, "tmp_dir", batch->measurer->tmp.path);
    json_add_double(request, "timeout_s", build_timeout_s(batch, builder->jobs[0]));
    json_add(request, "target", target_to_json(&batch->measurer->info.target));
    return request;
}

/* Whether code for this path is being compiled. */
static bool has_twin_at_work(struct batch *batch, const char *path) {
    for (int job = JOB_PLAIN; job < batch->n; job++) {
        const struct item *item = item_of(batch, job);
        if (item->stage == STAGE_COMPILING && strcmp(item->path, path) == 0)
            return true;
    }
    return false;
}

/* What to compile next, the plain kernel before all else; JOB_NONE. */
static int next_to_compile(struct batch *batch) {
    for (int job = JOB_PLAIN; job < batch->n; job++) {
        const struct item *item = item_of(batch, job);
        if (item->stage == STAGE_RENDERED && !has_twin_at_work(batch, item->path))
            return job;
    }
    return JOB_NONE;
}

/* Fills the builder's jobs with its share of what waits to be rendered, if there is any. */
static void choose_renders(struct batch *batch, int idle, struct builder *builder) {
    int waiting = 0;
    for (int job = JOB_PLAIN; job < batch->n; job++)
        waiting += item_of(batch, job)->stage == STAGE_WAITING;
    int share = (waiting + idle - 1) / idle;
    share = share < MOST_RENDERS ? share : MOST_RENDERS;
    builder->compiles = false;
    for (int job = JOB_PLAIN; job < batch->n && builder->n_jobs < share; job++)
        if (item_of(batch, job)->stage == STAGE_WAITING)
            builder->jobs[builder->n_jobs++] = job;
}

/* Sends the builder its jobs; those of one that had died meanwhile go to a new one. */
static int start_build(struct batch *batch, struct builder *builder, struct error *error) {
    struct measurer *m = batch->measurer;
    const struct peer_options options = peer_builder_options(m->program, m->null_fd);
    int answers = builder->compiles ? 2 : builder->n_jobs, rc = 1;
    for (int attempt = 0; rc > 0 && attempt < 2; attempt++)
        rc = peer_ask(&builder->peer, &options, build_request(batch, builder), answers,
                      build_timeout_s(batch, builder->jobs[0]), error);
    for (int i = 0; rc == 0 && i < builder->n_jobs; i++)
        item_of(batch, builder->jobs[i])->stage = builder->compiles ? STAGE_COMPILING : STAGE_RENDERING;
    builder->begun = false;
    if (rc != 0)
        builder->n_jobs = 0;
    return rc < 0 ? -1 : 0;
}

int feed_builders(struct batch *batch, struct error *error) {
    struct measurer *m = batch->measurer;
    int idle = 0;
    for (int i = 0; i < m->n_builders; i++)
        idle += m->builders[i].n_jobs == 0;
    for (int i = 0; i < m->n_builders; i++) {
        struct builder *builder = &m->builders[i];
        if (builder->n_jobs > 0)
            continue;
        int job = next_to_compile(batch);
        builder->compiles = job != JOB_NONE;
        if (builder->compiles)
            builder->jobs[builder->n_jobs++] = job;
        else
            choose_renders(batch, idle, builder);
        idle--;
        if (builder->n_jobs == 0)
            return 0;
        if (start_build(batch, builder, error) < 0)
            return -1;
    }
    return 0;
}

/* The end of one job's build. */
static int end_build(struct batch *batch, int job, enum trial_error error_no, const char *text, struct error *error) {
    if (error_no == TRIAL_OK) {
        item_of(batch, job)->stage = STAGE_BUILT;
        return 0;
    }
    if (job == JOB_PLAIN)
        return error_set(error, ERROR_DEVICE, "plain-kernel-failed", NULL,
                         "The plain kernel, with which candidates are compared, cannot be built: %.800s", text);
    end_trial(batch, job, error_no, text);
    return 0;
}

/* A compile's end is also that of the twins: the same source would end in the same way. */
static int end_compile(struct batch *batch, int job, enum trial_error error_no, const char *text, double seconds,
                       struct error *error) {
    char path[MOST_PATH];
    memcpy(path, item_of(batch, job)->path, sizeof path);
    if (job != JOB_PLAIN)
        batch->trials[job].build_s = seconds;
    if (end_build(batch, job, error_no, text, error) < 0)
        return -1;
    for (int twin = JOB_PLAIN; twin < batch->n; twin++) {
        const struct item *item = item_of(batch, twin);
        if (item->stage == STAGE_RENDERED && strcmp(item->path, path) == 0 &&
            end_build(batch, twin, error_no, text, error) < 0)
            return -1;
    }
    return 0;
}

static int end_render(struct batch *batch, int job, enum trial_error error_no, const char *text,
                      struct json_object *answer, struct error *error) {
    struct item *item = item_of(batch, job);
    const char *path = "";
    bool hit = false;
    if (error_no != TRIAL_OK)
        return end_build(batch, job, error_no, text, error);
    if (json_read_string(answer, "path", JSON_REQUIRED, MOST_PATH - 1, &path, error) < 0 ||
        json_read_bool(answer, "hit", JSON_REQUIRED, &hit, error) < 0)
        return end_build(batch, job, TRIAL_UNKNOWN, "The builder's answer makes no sense.", error);
    snprintf(item->path, sizeof item->path, "%s", path);
    item->stage = hit ? STAGE_BUILT : STAGE_RENDERED;
    return 0;
}

/* The builder is gone: its present job is to blame, those behind it wait for another. */
static int lose_builder(struct batch *batch, struct builder *builder, enum trial_error error_no, const char *text,
                        double seconds, struct error *error) {
    int job = builder->jobs[0];
    for (int i = 1; i < builder->n_jobs; i++)
        item_of(batch, builder->jobs[i])->stage = STAGE_WAITING;
    builder->n_jobs = 0;
    if (job == JOB_PLAIN && error_no != TRIAL_BUILD_TIMEOUT && ++batch->plain_builds < MOST_LOADS) {
        batch->plain.stage = STAGE_WAITING; /* without it there is no measuring at all: once more */
        return 0;
    }
    return builder->compiles ? end_compile(batch, job, error_no, text, seconds, error)
                             : end_render(batch, job, error_no, text, NULL, error);
}

/* An answer about the builder's present job. */
static int take_answer(struct batch *batch, struct builder *builder, struct json_object *answer, struct error *error) {
    const char *text;
    double seconds = 0;
    int job = builder->jobs[0];
    if (builder->compiles && !builder->begun) {
        builder->begun = true;
        peer_allow(&builder->peer, build_timeout_s(batch, job) + BUILD_SLACK_S);
        return 0;
    }
    enum trial_error error_no = read_verdict(answer, &text);
    if (json_object_get_boolean(json_object_object_get(answer, "no_room")))
        return error_set(error, ERROR_IO, DISK_FULL, NULL, "%s", text);
    memmove(builder->jobs, builder->jobs + 1, sizeof builder->jobs - sizeof builder->jobs[0]);
    if (--builder->n_jobs > 0)
        peer_allow(&builder->peer, build_timeout_s(batch, builder->jobs[0]));
    if (!builder->compiles)
        return end_render(batch, job, error_no, text, answer, error);
    if (json_read_double(answer, "seconds", JSON_REQUIRED, 0, 1e9, &seconds, error) < 0)
        error_no = TRIAL_UNKNOWN;
    return end_compile(batch, job, error_no, text, seconds, error);
}

int hear_builder(struct batch *batch, struct builder *builder, bool readable, struct error *error) {
    struct json_object *answer = NULL;
    char how[256], text[512];
    enum trial_error died = on_host(batch->measurer) ? TRIAL_COMPILE_HOST : TRIAL_COMPILE_DEVICE;
    double timeout_s = build_timeout_s(batch, builder->jobs[0]);
    switch (peer_look(&builder->peer, readable, &answer, how, sizeof how)) {
    case PEER_DIED:
        snprintf(text, sizeof text, "The compiler process %s.", how);
        return lose_builder(batch, builder, died, text, 0, error);
    case PEER_LATE:
        snprintf(text, sizeof text, "Building did not end within %g s and was killed.", timeout_s);
        return lose_builder(batch, builder, TRIAL_BUILD_TIMEOUT, text, timeout_s, error);
    case PEER_ANSWER: {
        int rc = take_answer(batch, builder, answer, error);
        json_object_put(answer);
        return rc;
    }
    default:
        return 0;
    }
}
