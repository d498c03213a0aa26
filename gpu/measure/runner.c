/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runner child: owns the device. Two requests:
 *   {do: "load", kind, ordinal, workload, code}: opens the device and runs the plain kernel, whose code is in the
 *       file `code`; the answer {error_no, text} is about that
 *   {do: "trial", template, index, code, number, repeat, min_repeat_ms, timeout_s, bound_s}: verifies and times a
 *       candidate of the workload loaded last; the answer {error_no, text, costs, poisoned, flags, again, state,
 *       load_s, verify_s, time_s}
 * When memory or device may be damaged, the answer says so and the process ends.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu/device/pool.h"
#include "gpu/measure/bench.h"
#include "gpu/measure/instantiate.h"
#include "gpu/measure/peer.h"
#include "gpu/measure/shelf.h"
#include "gpu/measure/steady.h"
#include "service/base/clock.h"
#include "service/base/file.h"

enum { MOST_CODE = 64 << 20, MOST_TEXT = 1 << 20, MOST_PATH = 511, MOST_ORDINAL = 1024, HELPERS = 4 };
#define MOST_IDLE_BYTES ((size_t)512 << 20)

struct runner {
    const struct template *const *templates;
    struct bench_device on; /* class NULL: not open */
    struct steady steady;
    struct target target;
    struct buf code;     /* room for files */
    struct arena *arena; /* of the workload */
    struct workload *workload;
    struct bench *bench;
};

static struct json_object *reply_of(const struct bench_result *result) {
    struct json_object *reply = json_object_new_object(), *costs = json_object_new_array();
    for (int i = 0; i < result->n_costs; i++)
        json_object_array_add(costs, json_object_new_double(result->costs_s[i]));
    json_add_int(reply, "error_no", result->error_no);
    json_add_string(reply, "text", result->text);
    json_add_bool(reply, "poisoned", result->poisoned);
    json_add(reply, "costs", costs);
    json_add_int(reply, "flags", result->flags);
    json_add_int(reply, "again", result->again);
    json_add(reply, "state", device_state_to_json(&result->state));
    json_add_double(reply, "load_s", result->load_s);
    json_add_double(reply, "verify_s", result->verify_s);
    json_add_double(reply, "time_s", result->time_s);
    return reply;
}

static struct json_object *failure(enum trial_error error_no, const struct error *error) {
    struct bench_result result = {.error_no = error_no, .state = device_state_unknown};
    snprintf(result.text, sizeof result.text, "%s", error->text);
    return reply_of(&result);
}

static int open_device(struct runner *runner, struct json_object *request, struct error *error) {
    const char *kind = NULL;
    int64_t ordinal = 0;
    struct device_info info;
    struct bench_device on = {.steady = &runner->steady};
    if (runner->on.device)
        return 0;
    if (json_read_string(request, "kind", JSON_REQUIRED, sizeof info.target.kind, &kind, error) < 0 ||
        json_read_int(request, "ordinal", JSON_REQUIRED, 0, MOST_ORDINAL, &ordinal, error) < 0)
        return -1;
    on.class = device_class_find(kind);
    if (!on.class)
        return error_set(error, ERROR_INVALID, "unknown-kind", "kind", "There is no kind of device \"%s\".", kind);
    if (on.class->describe((int)ordinal, &info, error) < 0 || on.class->open((int)ordinal, &on.device, error) < 0)
        return -1;
    on.shelf = shelf_new(on.class, on.device, MOST_IDLE_BYTES);
    on.pool = sysconf(_SC_NPROCESSORS_ONLN) > 2 * HELPERS ? pool_new(HELPERS) : NULL;
    runner->target = info.target;
    runner->on = on;
    return 0;
}

static void forget_workload(struct runner *runner) {
    bench_free(runner->bench);
    arena_free(runner->arena);
    runner->bench = NULL;
    runner->workload = NULL;
    runner->arena = NULL;
}

static int load(struct runner *runner, struct json_object *request, struct error *error) {
    const char *key = NULL, *path = NULL;
    struct program *plain;
    forget_workload(runner);
    runner->arena = arena_new(0);
    if (json_read_string(request, "workload", JSON_REQUIRED, MOST_TEXT, &key, error) < 0 ||
        json_read_string(request, "code", JSON_REQUIRED, MOST_PATH, &path, error) < 0 ||
        workload_parse(key, runner->arena, &runner->workload, error) < 0 || open_device(runner, request, error) < 0 ||
        file_read(path, MOST_CODE, &runner->code, error) < 0 ||
        instantiate(runner->templates, "", runner->workload, &runner->target, 0, runner->arena, &plain, error) < 0)
        return -1;
    return bench_new(&runner->on, &runner->target, runner->workload, plain, &runner->code, &runner->bench, error);
}

static int read_options(struct json_object *request, struct measure_options *ret, struct error *error) {
    int64_t number = 0, repeat = 0;
    if (json_read_int(request, "number", JSON_REQUIRED, 0, INT32_MAX, &number, error) < 0 ||
        json_read_int(request, "repeat", JSON_REQUIRED, 0, INT32_MAX, &repeat, error) < 0 ||
        json_read_double(request, "min_repeat_ms", JSON_REQUIRED, 0, 1e9, &ret->min_repeat_ms, error) < 0 ||
        json_read_double(request, "timeout_s", JSON_REQUIRED, 0, 1e9, &ret->timeout_s, error) < 0)
        return -1;
    ret->number = (int)number;
    ret->repeat = (int)repeat;
    return 0;
}

/* load_s becomes all that is neither verifying nor timing: rendering and reading the code are part of it. */
static int trial(struct runner *runner, struct json_object *request, struct arena *arena, struct bench_result *ret,
                 struct error *error) {
    const char *name = NULL, *path = NULL;
    int64_t index = 0, begin = clock_now_ns();
    double bound_s = 0;
    struct measure_options options = {0};
    struct program *program;
    if (!runner->bench)
        return error_set(error, ERROR_INTERNAL, "no-workload", NULL, "No workload was loaded before the trial.");
    if (json_read_string(request, "template", JSON_REQUIRED, MOST_TEXT, &name, error) < 0 ||
        json_read_int(request, "index", JSON_REQUIRED, INT64_MIN, INT64_MAX, &index, error) < 0 ||
        json_read_string(request, "code", JSON_REQUIRED, MOST_PATH, &path, error) < 0 ||
        json_read_double(request, "bound_s", JSON_OPTIONAL, 0, 1e9, &bound_s, error) < 0 ||
        read_options(request, &options, error) < 0 || file_read(path, MOST_CODE, &runner->code, error) < 0 ||
        instantiate(runner->templates, name, runner->workload, &runner->target, index, arena, &program, error) < 0)
        return -1;
    bench_trial(runner->bench, program, &runner->code, &options, bound_s, ret);
    ret->load_s = (double)(clock_now_ns() - begin) / NS_PER_S - ret->verify_s - ret->time_s;
    return 0;
}

static struct json_object *answer_trial(struct runner *runner, struct json_object *request, bool *ret_last) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct bench_result result = {0};
    struct error error = {0};
    int rc = trial(runner, request, arena, &result, &error);
    *ret_last = rc == 0 && result.poisoned;
    return rc == 0 ? reply_of(&result) : failure(TRIAL_UNKNOWN, &error);
}

static struct json_object *answer_load(struct runner *runner, struct json_object *request) {
    struct error error = {0};
    if (load(runner, request, &error) == 0)
        return reply_of(&(struct bench_result){.error_no = TRIAL_OK, .state = device_state_unknown});
    forget_workload(runner);
    return failure(TRIAL_UNKNOWN, &error);
}

static void serve(void *data, struct json_object *request, struct peer_client *client) {
    struct runner *runner = data;
    const char *what = NULL;
    struct error error = {0};
    bool last = false;
    if (json_read_string(request, "do", JSON_REQUIRED, MOST_TEXT, &what, &error) < 0)
        peer_answer(client, failure(TRIAL_UNKNOWN, &error));
    else if (strcmp(what, "trial") == 0)
        peer_answer(client, answer_trial(runner, request, &last));
    else
        peer_answer(client, answer_load(runner, request));
    if (last)
        peer_retire(client);
}

int runner_child_main(const struct template *const *templates) {
    struct runner runner = {.templates = templates, .code = BUF_INIT(MOST_CODE)};
    int status = peer_serve(serve, &runner);
    forget_workload(&runner);
    shelf_free(runner.on.shelf);
    if (runner.on.pool)
        pool_free(runner.on.pool);
    if (runner.on.class)
        runner.on.class->close(runner.on.device);
    buf_release(&runner.code);
    return status;
}
