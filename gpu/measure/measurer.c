/* SPDX-License-Identifier: Apache-2.0 */
/* The parent's side of measuring: who builds what, what runs next, and what became of it. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/measure/measure.h"
#include "gpu/measure/peer.h"
#include "service/base/clock.h"
#include "service/base/file.h"

enum { MOST_BUILDERS = 64, LOOK_MS = 200, MOST_PATH = 512, MOST_LOADS = 3 };
/* What a builder may take beyond a compile's time to start and to answer; a plain kernel's build and run at least. */
#define BUILD_SLACK_S 1.5
#define PLAIN_BUILD_S 60
#define PLAIN_RUN_S 120

/* Which trial a builder or the runner works on; or the plain kernel, or nothing. */
enum { JOB_PLAIN = -1, JOB_NONE = -2 };

struct builder {
    struct peer peer;
    int job;
};

struct measurer {
    char program[PATH_MAX], cache_dir[MOST_PATH];
    char tmp_dir[MOST_PATH]; /* of the compilers: what killed ones leave goes with the measurer; empty: not made */
    const struct device_class *class;
    struct device_info info;
    struct builder *builders;
    int n_builders;
    struct peer runner;
    char *loaded; /* the workload that the runner has, if it runs; NULL: none */
    int null_fd;  /* what children say on standard error goes nowhere: they may be broken in any way */
};

enum stage { STAGE_WAITING, STAGE_BUILDING, STAGE_BUILT, STAGE_RUNNING, STAGE_ENDED };

/* A trial on its way. */
struct item {
    enum stage stage;
    char path[MOST_PATH]; /* its code, once built */
    int64_t began_ns;
};

/* One call of measurer_run. */
struct batch {
    struct measurer *measurer;
    const struct measure_options *options;
    const struct measure_callbacks *callbacks;
    const char *key; /* the workload */
    struct trial *trials;
    struct item *items;
    struct item plain;
    int n, n_ended;
    int running;         /* the runner's job */
    int loads;           /* tries at loading it in a row */
    int plain_builds;    /* compiler processes that died over the plain kernel */
    int64_t not_before;  /* of the next trial, for the cooldown */
    int64_t asked_at_ns; /* when stop was last asked */
};

/* ---- making one ---- */

static int find_program(const char *program, char ret[PATH_MAX], struct error *error) {
    if (!program)
        return file_self(ret, PATH_MAX, error);
    snprintf(ret, PATH_MAX, "%s", program);
    return 0;
}

static int make_tmp_dir(struct measurer *measurer, struct error *error) {
    char path[MOST_PATH];
    if (snprintf(path, sizeof path, "%s/tmp-XXXXXX", measurer->cache_dir) >= MOST_PATH || !mkdtemp(path))
        return error_set(error, ERROR_IO, "no-temporary-folder", NULL,
                         "No folder can be made in the code cache %.200s; check its owner and the free space.",
                         measurer->cache_dir);
    memcpy(measurer->tmp_dir, path, sizeof path);
    return 0;
}

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
        measurer->builders[i] = (struct builder){PEER_INIT, JOB_NONE};
    if (snprintf(measurer->cache_dir, sizeof measurer->cache_dir, "%s", config->cache_dir) >= MOST_PATH - 100)
        return error_set(error, ERROR_LIMIT, "path-too-long", NULL, "The path of the code cache is too long.");
    if (find_program(config->program, measurer->program, error) < 0 || file_make_dirs(measurer->cache_dir, error) < 0 ||
        make_tmp_dir(measurer, error) < 0)
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
    struct error ignored; /* a folder that stays is no reason to fail at the end */
    if (measurer->tmp_dir[0] != '\0')
        (void)!file_remove_tree(measurer->tmp_dir, &ignored);
    free(measurer->builders);
    free(measurer->loaded);
    free(measurer);
}

/* ---- trials ---- */

static bool on_host(const struct measurer *measurer) {
    return strcmp(measurer->class->kind, "cpu") == 0;
}

static struct item *item_of(struct batch *batch, int job) {
    return job == JOB_PLAIN ? &batch->plain : &batch->items[job];
}

static void end_trial(struct batch *batch, int job, enum trial_error error_no, const char *text) {
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

/* Error number and text of an answer; TRIAL_UNKNOWN for one that makes no sense. */
static enum trial_error read_verdict(struct json_object *answer, const char **ret_text) {
    int64_t error_no = TRIAL_UNKNOWN;
    struct error error;
    *ret_text = "The child's answer makes no sense.";
    if (json_read_string(answer, "text", JSON_REQUIRED, INT32_MAX, ret_text, &error) < 0 ||
        json_read_int(answer, "error_no", JSON_REQUIRED, 0, TRIAL_ERROR_COUNT - 1, &error_no, &error) < 0)
        return TRIAL_UNKNOWN;
    return (enum trial_error)error_no;
}

/* ---- builders ---- */

static struct json_object *build_request(const struct batch *batch, int job, double timeout_s) {
    struct json_object *request = json_object_new_object();
    const struct trial *trial = job == JOB_PLAIN ? NULL : &batch->trials[job];
    json_add_string(request, "workload", batch->key);
    json_add_string(request, "template", trial ? trial->template->name : "");
    json_add_int(request, "index", trial ? trial->index : 0);
    json_add_string(request, "cache_dir", batch->measurer->cache_dir);
    json_add_string(request, "tmp_dir", batch->measurer->tmp_dir);
    json_add_double(request, "timeout_s", timeout_s);
    json_add(request, "target", target_to_json(&batch->measurer->info.target));
    return request;
}

/* What to build next: the plain kernel before all else. */
static int next_to_build(struct batch *batch) {
    if (batch->plain.stage == STAGE_WAITING)
        return JOB_PLAIN;
    for (int i = 0; i < batch->n; i++)
        if (batch->items[i].stage == STAGE_WAITING)
            return i;
    return JOB_NONE;
}

static int feed_builders(struct batch *batch, struct error *error) {
    struct measurer *m = batch->measurer;
    const struct peer_options options = {m->program, "build", m->null_fd};
    for (int i = 0; i < m->n_builders; i++) {
        struct builder *builder = &m->builders[i];
        int job = builder->job == JOB_NONE ? next_to_build(batch) : JOB_NONE;
        if (job == JOB_NONE)
            continue;
        double timeout_s = batch->options->build_timeout_s;
        if (job == JOB_PLAIN && timeout_s < PLAIN_BUILD_S)
            timeout_s = PLAIN_BUILD_S;
        int rc =
            peer_ask(&builder->peer, &options, build_request(batch, job, timeout_s), timeout_s + BUILD_SLACK_S, error);
        if (rc < 0)
            return -1;
        if (rc > 0) /* the child had died meanwhile: the next turn starts another */
            continue;
        builder->job = job;
        item_of(batch, job)->stage = STAGE_BUILDING;
    }
    return 0;
}

/* The end of a build: error_no TRIAL_OK and the code's path, or what went wrong. */
static int end_build(struct batch *batch, int job, enum trial_error error_no, const char *text, const char *path,
                     double seconds, struct error *error) {
    struct item *item = item_of(batch, job);
    if (job != JOB_PLAIN)
        batch->trials[job].build_s = seconds;
    if (error_no == TRIAL_OK) {
        item->stage = STAGE_BUILT;
        snprintf(item->path, sizeof item->path, "%s", path);
        return 0;
    }
    if (job == JOB_PLAIN)
        return error_set(error, ERROR_DEVICE, "plain-kernel-failed", NULL,
                         "The plain kernel, with which candidates are compared, cannot be built: %.800s", text);
    end_trial(batch, job, error_no, text);
    return 0;
}

static int hear_builder(struct batch *batch, struct builder *builder, bool readable, struct error *error) {
    struct json_object *answer = NULL;
    const char *path = "", *verdict;
    char how[256], text[512];
    double seconds = 0;
    enum peer_event event = peer_look(&builder->peer, readable, &answer, how, sizeof how);
    int job = builder->job, rc;
    if (event == PEER_NOTHING)
        return 0;
    builder->job = JOB_NONE;
    if (event == PEER_DIED && job == JOB_PLAIN && ++batch->plain_builds < MOST_LOADS) {
        batch->plain.stage = STAGE_WAITING; /* without it there is no measuring at all: once more */
        return 0;
    }
    if (event == PEER_DIED) {
        snprintf(text, sizeof text, "The compiler process %s.", how);
        return end_build(batch, job, on_host(batch->measurer) ? TRIAL_COMPILE_HOST : TRIAL_COMPILE_DEVICE, text, "", 0,
                         error);
    }
    if (event == PEER_LATE) {
        snprintf(text, sizeof text, "Building did not end within %g s and was killed.",
                 batch->options->build_timeout_s);
        return end_build(batch, job, TRIAL_BUILD_TIMEOUT, text, "", batch->options->build_timeout_s, error);
    }
    enum trial_error error_no = read_verdict(answer, &verdict);
    if (json_read_string(answer, "path", JSON_REQUIRED, MOST_PATH - 1, &path, error) < 0 ||
        json_read_double(answer, "seconds", JSON_REQUIRED, 0, 1e9, &seconds, error) < 0)
        error_no = TRIAL_UNKNOWN;
    rc = end_build(batch, job, error_no, verdict, path, seconds, error);
    json_object_put(answer);
    return rc;
}

/* ---- the runner ---- */

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
    return request;
}

/* The next trial to run. On the host a build would disturb the timing, so there all builds come first. */
static int next_to_run(const struct batch *batch) {
    int first = JOB_NONE;
    for (int i = batch->n - 1; i >= 0; i--) {
        enum stage stage = batch->items[i].stage;
        if (on_host(batch->measurer) && (stage == STAGE_WAITING || stage == STAGE_BUILDING))
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

static int feed_runner(struct batch *batch, struct error *error) {
    struct measurer *m = batch->measurer;
    const struct peer_options options = {m->program, "run", m->null_fd};
    if (batch->running != JOB_NONE || batch->plain.stage != STAGE_BUILT)
        return 0;
    int job = next_to_run(batch);
    if (job == JOB_NONE || clock_now_ns() < batch->not_before)
        return 0;
    bool load = !has_workload(batch);
    int rc = load ? peer_ask(&m->runner, &options, load_request(batch), PLAIN_RUN_S, error)
                  : peer_ask(&m->runner, &options, trial_request(batch, job), batch->options->timeout_s, error);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    batch->running = load ? JOB_PLAIN : job;
    if (load) {
        forget_loaded(m);
        batch->loads++;
    } else {
        batch->items[job].stage = STAGE_RUNNING;
        batch->items[job].began_ns = clock_now_ns();
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

static void end_run(struct batch *batch, int job, enum peer_event event, struct json_object *answer, const char *how) {
    struct measurer *m = batch->measurer;
    struct trial *trial = &batch->trials[job];
    char text[512];
    trial->run_s = (double)(clock_now_ns() - batch->items[job].began_ns) / NS_PER_S;
    batch->not_before = deadline_in_s(batch->options->cooldown_s);
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
        end_trial(batch, job, error_no, verdict);
    }
}

static int hear_runner(struct batch *batch, bool readable, struct error *error) {
    struct json_object *answer = NULL;
    char how[256];
    enum peer_event event = peer_look(&batch->measurer->runner, readable, &answer, how, sizeof how);
    int job = batch->running, rc = 0;
    if (event == PEER_NOTHING)
        return 0;
    batch->running = JOB_NONE;
    if (job == JOB_PLAIN)
        rc = end_load(batch, event, answer, how, error);
    else
        end_run(batch, job, event, answer, how);
    json_object_put(answer);
    return rc;
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
    return peer->busy && peer->deadline < deadline ? peer->deadline : deadline;
}

/* Waits until a child answers, is late, or it is time to look around. */
static int wait_for_news(struct batch *batch, struct error *error) {
    struct measurer *m = batch->measurer;
    struct pollfd fds[MOST_BUILDERS + 1];
    int64_t until = deadline_in_s(LOOK_MS / 1000.0);
    for (int i = 0; i < m->n_builders; i++) {
        const struct peer *peer = &m->builders[i].peer;
        fds[i] = (struct pollfd){peer->busy ? peer->child.out : -1, POLLIN, 0};
        until = sooner(until, peer);
    }
    fds[m->n_builders] = (struct pollfd){m->runner.busy ? m->runner.child.out : -1, POLLIN, 0};
    until = sooner(until, &m->runner);
    if (batch->not_before < until && batch->not_before > clock_now_ns())
        until = batch->not_before;
    if (poll(fds, (nfds_t)m->n_builders + 1, deadline_poll_ms(until)) < 0)
        return 0; /* interrupted: look around */
    for (int i = 0; i < m->n_builders; i++)
        if (m->builders[i].peer.busy && hear_builder(batch, &m->builders[i], fds[i].revents != 0, error) < 0)
            return -1;
    return m->runner.busy ? hear_runner(batch, fds[m->n_builders].revents != 0, error) : 0;
}

/* No child may be left with an answer that belongs to a batch which is over. */
static void end_busy(struct measurer *m) {
    for (int i = 0; i < m->n_builders; i++) {
        if (m->builders[i].peer.busy)
            peer_end(&m->builders[i].peer);
        m->builders[i].job = JOB_NONE;
    }
    if (m->runner.busy)
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
                          .n = n,
                          .running = JOB_NONE};
    if (!batch.items)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is no memory for %d trials.", n);
    for (int i = 0; i < n; i++)
        trials[i] = (struct trial){.template = trials[i].template, .index = trials[i].index};
    int rc = run_batch(&batch, error);
    end_busy(measurer);
    free(batch.items);
    return rc;
}
