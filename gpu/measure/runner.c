/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runner child: owns the device. Two requests:
 *   {do: "load", kind, ordinal, workload, code}: opens the device and runs the plain kernel, whose code is in the
 *       file `code`; the answer {error_no, text} is about that
 *   {do: "trial", template, index, code, number, repeat, min_repeat_ms, timeout_s}: verifies and times a candidate of
 *       the workload loaded last; the answer {error_no, text, costs, poisoned}
 * When memory or device may be damaged, the answer says so and the process ends.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/measure/bench.h"
#include "gpu/measure/instantiate.h"
#include "gpu/measure/peer.h"
#include "service/base/file.h"

enum { MOST_CODE = 64 << 20, MOST_TEXT = 1 << 20, MOST_PATH = 511, MOST_ORDINAL = 1024 };

struct runner {
    const struct template *const *templates;
    const struct device_class *class;
    struct device *device; /* NULL: not open */
    struct target target;
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
    return reply;
}

static struct json_object *failure(enum trial_error error_no, const struct error *error) {
    struct bench_result result = {.error_no = error_no};
    snprintf(result.text, sizeof result.text, "%s", error->text);
    return reply_of(&result);
}

static int open_device(struct runner *runner, struct json_object *request, struct error *error) {
    const char *kind = NULL;
    int64_t ordinal = 0;
    struct device_info info;
    if (runner->device)
        return 0;
    if (json_read_string(request, "kind", JSON_REQUIRED, sizeof info.target.kind, &kind, error) < 0 ||
        json_read_int(request, "ordinal", JSON_REQUIRED, 0, MOST_ORDINAL, &ordinal, error) < 0)
        return -1;
    runner->class = device_class_find(kind);
    if (!runner->class)
        return error_set(error, ERROR_INVALID, "unknown-kind", "kind", "There is no kind of device \"%s\".", kind);
    if (runner->class->describe((int)ordinal, &info, error) < 0)
        return -1;
    runner->target = info.target;
    return runner->class->open((int)ordinal, &runner->device, error);
}

static void forget_workload(struct runner *runner) {
    bench_free(runner->bench);
    arena_free(runner->arena);
    runner->bench = NULL;
    runner->workload = NULL;
    runner->arena = NULL;
}

static int load(struct runner *runner, struct json_object *request, struct error *error) {
    CLEANUP(buf_release) struct buf code = BUF_INIT(MOST_CODE);
    const char *key = NULL, *path = NULL;
    struct program *plain;
    forget_workload(runner);
    runner->arena = arena_new(0);
    if (json_read_string(request, "workload", JSON_REQUIRED, MOST_TEXT, &key, error) < 0 ||
        json_read_string(request, "code", JSON_REQUIRED, MOST_PATH, &path, error) < 0 ||
        workload_parse(key, runner->arena, &runner->workload, error) < 0 || open_device(runner, request, error) < 0 ||
        file_read(path, MOST_CODE, &code, error) < 0 ||
        instantiate(runner->templates, "", runner->workload, &runner->target, 0, runner->arena, &plain, error) < 0)
        return -1;
    return bench_new(runner->class, runner->device, &runner->target, runner->workload, plain, &code, &runner->bench,
                     error);
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

static int trial(struct runner *runner, struct json_object *request, struct arena *arena, struct bench_result *ret,
                 struct error *error) {
    CLEANUP(buf_release) struct buf code = BUF_INIT(MOST_CODE);
    const char *name = NULL, *path = NULL;
    int64_t index = 0;
    struct measure_options options = {0};
    struct program *program;
    if (!runner->bench)
        return error_set(error, ERROR_INTERNAL, "no-workload", NULL, "No workload was loaded before the trial.");
    if (json_read_string(request, "template", JSON_REQUIRED, MOST_TEXT, &name, error) < 0 ||
        json_read_int(request, "index", JSON_REQUIRED, INT64_MIN, INT64_MAX, &index, error) < 0 ||
        json_read_string(request, "code", JSON_REQUIRED, MOST_PATH, &path, error) < 0 ||
        read_options(request, &options, error) < 0 || file_read(path, MOST_CODE, &code, error) < 0 ||
        instantiate(runner->templates, name, runner->workload, &runner->target, index, arena, &program, error) < 0)
        return -1;
    bench_trial(runner->bench, program, &code, &options, ret);
    return 0;
}

static struct json_object *answer_trial(struct runner *runner, struct json_object *request, bool *ret_last) {
    struct arena *arena = arena_new(0);
    struct bench_result result = {0};
    struct error error = {0};
    int rc = trial(runner, request, arena, &result, &error);
    arena_free(arena);
    *ret_last = rc == 0 && result.poisoned;
    return rc == 0 ? reply_of(&result) : failure(TRIAL_UNKNOWN, &error);
}

static struct json_object *answer(void *data, struct json_object *request, bool *ret_last) {
    struct runner *runner = data;
    const char *what = NULL;
    struct error error = {0};
    if (json_read_string(request, "do", JSON_REQUIRED, MOST_TEXT, &what, &error) < 0)
        return failure(TRIAL_UNKNOWN, &error);
    if (strcmp(what, "trial") == 0)
        return answer_trial(runner, request, ret_last);
    if (load(runner, request, &error) < 0) {
        forget_workload(runner);
        return failure(TRIAL_UNKNOWN, &error);
    }
    return reply_of(&(struct bench_result){.error_no = TRIAL_OK});
}

int runner_child_main(const struct template *const *templates) {
    struct runner runner = {.templates = templates};
    int status = peer_serve(answer, &runner);
    forget_workload(&runner);
    if (runner.class)
        runner.class->close(runner.device);
    return status;
}
