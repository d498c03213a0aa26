/* SPDX-License-Identifier: Apache-2.0 */
/* The parent's side of measuring: the children's owner, and the loop that goes round between them. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/measure/batch.h"
#include "service/base/clock.h"
#include "service/base/file.h"

enum { LOOK_MS = 200 };

/* ---- making one ---- */

static int measurer_init(struct measurer *measurer, const struct measurer_config *config, struct error *error) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int builders = config->builders > 0 ? config->builders : (int)cores;
    measurer->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    measurer->class = device_class_find(config->kind);
    measurer->n_builders = builders < 1 ? 1 : builders > MOST_BUILDERS ? MOST_BUILDERS : builders;
    measurer->builders = calloc((size_t)measurer->n_builders, sizeof *measurer->builders);
    if (!measurer->class)
        return error_set(error, ERROR_INVALID, "unknown-kind", "kind", "There is no kind of device \"%.20s\".",
                         config->kind);
    if (measurer->null_fd < 0 || !measurer->builders)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL,
                         "There is no memory or descriptor left to measure.");
    for (int i = 0; i < measurer->n_builders; i++)
        measurer->builders[i] = (struct builder){.peer = PEER_INIT};
    if (snprintf(measurer->cache_dir, sizeof measurer->cache_dir, "%s", config->cache_dir) >= MOST_PATH - 100)
        return error_set(error, ERROR_LIMIT, "path-too-long", NULL, "The path of the code cache is too long.");
    snprintf(measurer->program, sizeof measurer->program, "%s", config->program ? config->program : CHILD_SELF);
    if (file_make_dirs(measurer->cache_dir, error) < 0 ||
        scratch_make(measurer->cache_dir, "tmp", &measurer->tmp, error) < 0)
        return -1;
    return measurer->class->describe(config->ordinal, &measurer->info, error);
}

int measurer_new(const struct measurer_config *config, struct measurer **ret, struct error *error) {
    struct measurer *measurer = calloc(1, sizeof *measurer);
    if (!measurer)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is no memory left to measure.");
    measurer->null_fd = -1;
    measurer->runner = (struct peer)PEER_INIT;
    if (measurer_init(measurer, config, error) < 0) {
        measurer_free(measurer);
        return -1;
    }
    *ret = measurer;
    return 0;
}

const struct device_info *measurer_device(const struct measurer *measurer) {
    return &measurer->info;
}

void measurer_free(struct measurer *measurer) {
    if (!measurer)
        return;
    for (int i = 0; measurer->builders && i < measurer->n_builders; i++)
        peer_end(&measurer->builders[i].peer);
    peer_end(&measurer->runner);
    if (measurer->null_fd >= 0)
        close(measurer->null_fd);
    scratch_remove(&measurer->tmp);
    free(measurer->builders);
    free(measurer->loaded);
    free(measurer);
}

/* ---- trials ---- */

bool on_host(const struct measurer *measurer) {
    return strcmp(measurer->class->kind, "cpu") == 0;
}

struct item *item_of(struct batch *batch, int job) {
    return job == JOB_PLAIN ? &batch->plain : &batch->items[job];
}

void end_trial(struct batch *batch, int job, enum trial_error error_no, const char *text) {
    struct trial *trial = &batch->trials[job];
    trial->error_no = error_no;
    snprintf(trial->error_text, sizeof trial->error_text, "%s", error_no == TRIAL_OK ? "" : text);
    trial->finished_us = clock_wall_us();
    batch->items[job].stage = STAGE_ENDED;
    batch->n_ended++;
    batch->asked_at_ns = 0; /* ask stop between trials */
    if (batch->callbacks && batch->callbacks->done)
        batch->callbacks->done(batch->callbacks->data, trial);
}

enum trial_error read_verdict(struct json_object *answer, const char **ret_text) {
    int64_t error_no = TRIAL_UNKNOWN;
    struct error error;
    *ret_text = "The child's answer makes no sense.";
    if (json_read_string(answer, "text", JSON_REQUIRED, INT32_MAX, ret_text, &error) < 0 ||
        json_read_int(answer, "error_no", JSON_REQUIRED, 0, TRIAL_ERROR_COUNT - 1, &error_no, &error) < 0)
        return TRIAL_UNKNOWN;
    return (enum trial_error)error_no;
}

/* ---- the loop ---- */

static int stopped(struct batch *batch, struct error *error) {
    const struct measure_callbacks *callbacks = batch->callbacks;
    int64_t now = clock_now_ns();
    if (!callbacks || !callbacks->stop || now - batch->asked_at_ns < LOOK_MS * (NS_PER_S / 1000))
        return 0;
    batch->asked_at_ns = now;
    if (!callbacks->stop(callbacks->data))
        return 0;
    return error_set(error, ERROR_CANCELLED, "cancelled", NULL, "Measuring was stopped.");
}

static int64_t sooner(int64_t deadline, const struct peer *peer) {
    return peer->owed > 0 && peer->deadline < deadline ? peer->deadline : deadline;
}

/* Waits until a child answers, is late, or it is time to look around. */
static int wait_for_news(struct batch *batch, struct error *error) {
    struct measurer *m = batch->measurer;
    struct pollfd fds[MOST_BUILDERS + 1];
    int64_t until = deadline_in_s(LOOK_MS / 1000.0);
    for (int i = 0; i < m->n_builders; i++) {
        const struct peer *peer = &m->builders[i].peer;
        fds[i] = (struct pollfd){peer->owed > 0 ? peer->child.out : -1, POLLIN, 0};
        until = sooner(until, peer);
    }
    fds[m->n_builders] = (struct pollfd){m->runner.owed > 0 ? m->runner.child.out : -1, POLLIN, 0};
    until = sooner(until, &m->runner);
    if (batch->not_before < until && batch->not_before > clock_now_ns())
        until = batch->not_before;
    if (poll(fds, (nfds_t)m->n_builders + 1, deadline_poll_ms(until)) < 0)
        return 0; /* interrupted: look around */
    for (int i = 0; i < m->n_builders; i++)
        if (m->builders[i].peer.owed > 0 && hear_builder(batch, &m->builders[i], fds[i].revents != 0, error) < 0)
            return -1;
    return m->runner.owed > 0 ? hear_runner(batch, fds[m->n_builders].revents != 0, error) : 0;
}

/* No child may be left with an answer that belongs to a batch which is over. */
static void end_busy(struct measurer *m) {
    for (int i = 0; i < m->n_builders; i++) {
        if (m->builders[i].peer.owed > 0)
            peer_end(&m->builders[i].peer);
        m->builders[i].n_jobs = 0;
    }
    if (m->runner.owed > 0)
        peer_end(&m->runner);
}

static int run_batch(struct batch *batch, struct error *error) {
    while (batch->n_ended < batch->n) {
        if (stopped(batch, error) < 0 || feed_builders(batch, error) < 0 || feed_runner(batch, error) < 0 ||
            wait_for_news(batch, error) < 0)
            return -1;
    }
    return 0;
}

int measurer_run(struct measurer *measurer, const struct workload *workload, const struct measure_options *options,
                 struct trial *trials, int n, const struct measure_callbacks *callbacks, struct error *error) {
    CLEANUP(buf_release) struct buf key = BUF_INIT(1 << 20);
    workload_key(workload, &key);
    struct batch batch = {.measurer = measurer,
                          .options = options,
                          .callbacks = callbacks,
                          .key = buf_str(&key),
                          .trials = trials,
                          .items = calloc((size_t)n + 1, sizeof *batch.items),
                          .n = n};
    if (!batch.items)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is no memory for %d trials.", n);
    for (int i = 0; i < n; i++)
        trials[i] = (struct trial){.template = trials[i].template,
                                   .index = trials[i].index,
                                   .bound_s = trials[i].bound_s,
                                   .state = device_state_unknown};
    int rc = run_batch(&batch, error);
    end_busy(measurer);
    free(batch.items);
    return rc;
}
