/* SPDX-License-Identifier: Apache-2.0 */
/* What the runner does next, and what became of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/measure/batch.h"
#include "service/base/clock.h"
#include "service/base/sandbox.h"

/* What a plain kernel may take. */
#define PLAIN_RUN_S 120

static struct json_object *load_request(const struct batch *batch) {
    struct json_object *request = json_object_new_object();
    json_add_string(request, "do", "load");
    json_add_string(request, "kind", batch->measurer->class->kind);
    json_add_int(request, "ordinal", batch->measurer->info.ordinal);
    json_add_string(request, "workload", batch->key);
    json_add_string(request, "code", batch->plain.path);
    return request;
}

static struct json_object *trial_request(const struct batch *batch, int job) {
    const struct measure_options *options = batch->options;
    struct json_object *request = json_object_new_object();
    json_add_string(request, "do", "trial");
    json_add_string(request, "template", batch->trials[job].template->name);
    json_add_int(request, "index", batch->trials[job].index);
    json_add_string(request, "code", batch->items[job].path);
    json_add_int(request, "number", options->number);
    json_add_int(request, "repeat", options->repeat);
    json_add_double(request, "min_repeat_ms", options->min_repeat_ms);
    json_add_double(request, "timeout_s", options->timeout_s);
    json_add_double(request, "bound_s", batch->trials[job].bound_s);
    return request;
}

/* The next trial to run. On the host a build would disturb the timing, so there all builds come first. */
static int next_to_run(const struct batch *batch) {
    int first = JOB_NONE;
    for (int i = batch->n - 1; i >= 0; i--) {
        enum stage stage = batch->items[i].stage;
        if (on_host(batch->measurer) && stage < STAGE_BUILT)
            return JOB_NONE;
        if (stage == STAGE_BUILT)
            first = i;
    }
    return first;
}

static void forget_loaded(struct measurer *m) {
    free(m->loaded);
    m->loaded = NULL;
}

static bool has_workload(const struct batch *batch) {
    const struct measurer *m = batch->measurer;
    return peer_runs(&m->runner) && m->loaded && strcmp(m->loaded, batch->key) == 0;
}

/* What the runner does next, and has not been told yet: JOB_PLAIN to load the workload, or a trial; JOB_NONE. */
static int next_for_runner(const struct batch *batch) {
    int ahead = batch->options->cooldown_s > 0 ? 1 : MOST_AHEAD;
    bool has = has_workload(batch);
    if (batch->plain.stage != STAGE_BUILT || batch->n_running >= ahead || (batch->n_running > 0 && !has) ||
        clock_now_ns() < batch->not_before)
        return JOB_NONE;
    int job = next_to_run(batch);
    return job == JOB_NONE || has ? job : JOB_PLAIN;
}

int feed_runner(struct batch *batch, struct error *error) {
    struct measurer *m = batch->measurer;
    /* A driver may talk to its daemons by sockets with names, and maps far more than it uses; on the host an absurd
     * workload would take the memory that the database lives in. */
    bool driver = !on_host(m);
    const struct peer_options options = {.program = m->program,
                                         .role = "run",
                                         .stderr_fd = m->null_fd,
                                         .no_network = !driver,
                                         .sandbox = driver ? SANDBOX_DRIVER : SANDBOX_STRICT,
                                         .memory_bytes = driver ? 0 : sandbox_half_memory()};
    for (int job; (job = next_for_runner(batch)) != JOB_NONE;) {
        int rc = job == JOB_PLAIN
                     ? peer_ask(&m->runner, &options, load_request(batch), 1, PLAIN_RUN_S, error)
                     : peer_ask(&m->runner, &options, trial_request(batch, job), 1, batch->options->timeout_s, error);
        if (rc < 0)
            return -1;
        if (rc > 0 && batch->n_running > 0)
            return 0; /* it has ended, as it will say itself */
        if (rc > 0)
            continue; /* it runs no more: a new one is to load the workload */
        if (job == JOB_PLAIN) {
            forget_loaded(m);
            batch->loads++;
        } else {
            batch->items[job].stage = STAGE_RUNNING;
        }
        if (batch->n_running == 0)
            batch->began_ns = clock_now_ns();
        batch->running[batch->n_running++] = job;
    }
    return 0;
}

static int end_load(struct batch *batch, enum peer_event event, struct json_object *answer, const char *how,
                    struct error *error) {
    const char *text = "it took too long";
    if (event == PEER_ANSWER && read_verdict(answer, &text) == TRIAL_OK) {
        batch->measurer->loaded = strdup(batch->key);
        batch->loads = 0;
        return 0;
    }
    if (event != PEER_ANSWER && batch->loads < MOST_LOADS)
        return 0; /* once more, with a fresh child */
    return error_set(error, ERROR_DEVICE, "plain-kernel-failed", NULL,
                     "The plain kernel, with which candidates are compared, cannot be run: %s%.800s",
                     event == PEER_DIED ? "the runner " : "", event == PEER_DIED ? how : text);
}

static void read_costs(struct json_object *answer, struct trial *trial) {
    struct json_object *costs = NULL;
    struct error error;
    if (json_read_array(answer, "costs", JSON_REQUIRED, &costs, &error) < 0)
        return;
    size_t n = json_object_array_length(costs);
    for (size_t i = 0; i < n && i < TRIAL_MAX_COSTS; i++)
        trial->costs_s[trial->n_costs++] = json_object_get_double(json_object_array_get_idx(costs, i));
}

/* What comes with the verdict, good or bad. */
static void read_circumstances(struct json_object *answer, struct trial *trial) {
    struct json_object *state = NULL;
    struct error error;
    int64_t flags = 0, again = 0;
    if (json_read_int(answer, "flags", JSON_REQUIRED, 0, INT32_MAX, &flags, &error) < 0 ||
        json_read_int(answer, "again", JSON_REQUIRED, 0, INT32_MAX, &again, &error) < 0 ||
        json_read_double(answer, "load_s", JSON_REQUIRED, 0, 1e9, &trial->load_s, &error) < 0 ||
        json_read_double(answer, "verify_s", JSON_REQUIRED, 0, 1e9, &trial->verify_s, &error) < 0 ||
        json_read_double(answer, "time_s", JSON_REQUIRED, 0, 1e9, &trial->time_s, &error) < 0 ||
        json_read_object(answer, "state", JSON_REQUIRED, &state, &error) < 0 ||
        device_state_from_json(state, &trial->state, &error) < 0)
        return;
    trial->flags = (unsigned)flags;
    trial->again = (int)again;
    trial->run_s = trial->load_s + trial->verify_s + trial->time_s;
}

static void end_run(struct batch *batch, int job, enum peer_event event, struct json_object *answer, const char *how) {
    struct measurer *m = batch->measurer;
    struct trial *trial = &batch->trials[job];
    char text[512];
    trial->run_s = (double)(clock_now_ns() - batch->began_ns) / NS_PER_S;
    if (event == PEER_DIED) {
        snprintf(text, sizeof text, "The process that ran the kernel %s.", how);
        end_trial(batch, job, TRIAL_RUNTIME, text);
    } else if (event == PEER_LATE) {
        snprintf(text, sizeof text, "Verifying and timing did not end within %g s; the process was killed.",
                 batch->options->timeout_s);
        end_trial(batch, job, TRIAL_RUN_TIMEOUT, text);
    } else {
        const char *verdict;
        bool poisoned = false;
        struct error error;
        enum trial_error error_no = read_verdict(answer, &verdict);
        if (json_read_bool(answer, "poisoned", JSON_REQUIRED, &poisoned, &error) < 0 || poisoned)
            peer_end(&m->runner);
        if (error_no == TRIAL_OK)
            read_costs(answer, trial);
        read_circumstances(answer, trial);
        end_trial(batch, job, error_no, verdict);
    }
}

int hear_runner(struct batch *batch, bool readable, struct error *error) {
    struct peer *runner = &batch->measurer->runner;
    struct json_object *answer = NULL;
    char how[256];
    enum peer_event event = peer_look(runner, readable, &answer, how, sizeof how);
    int job = batch->running[0], rc = 0;
    if (event == PEER_NOTHING)
        return 0;
    if (job == JOB_PLAIN)
        rc = end_load(batch, event, answer, how, error);
    else
        end_run(batch, job, event, answer, how);
    json_object_put(answer);
    batch->n_running--;
    memmove(batch->running, batch->running + 1, sizeof batch->running - sizeof batch->running[0]);
    batch->began_ns = clock_now_ns();
    batch->not_before = deadline_in_s(batch->options->cooldown_s);
    while (!peer_runs(runner) && batch->n_running > 0) /* what it had been told ahead is for the next one */
        batch->items[batch->running[--batch->n_running]].stage = STAGE_BUILT;
    return rc;
}
