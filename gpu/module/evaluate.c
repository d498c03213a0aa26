/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judging a module: its output on a random input held against eval.h's on the unfused network, and its time against
 * the baseline's. The two are timed in turn, a short round each, so that a slow spell of the machine meets both.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/module/module_run.h"
#include "service/base/child_call.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/model/eval.h"
#include "service/model/onnx_import.h"

#define MOST_PATH 4096
#define SEED 20240229
/* Rounds are about this long; no module is run fewer or more often than this. */
#define ROUND_S 0.02
enum { LEAST_RUNS = 10, MOST_RUNS = 100000, MOST_A_ROUND = 1000 };

/* ---- the answer as JSON ---- */

static struct json_object *latency_to_json(const struct module_latency *latency) {
    struct json_object *object = json_object_new_object();
    json_add_double(object, "p50_us", latency->p50_us);
    json_add_double(object, "p90_us", latency->p90_us);
    json_add_double(object, "p99_us", latency->p99_us);
    json_add_double(object, "min_us", latency->min_us);
    json_add_double(object, "mean_us", latency->mean_us);
    json_add_int(object, "runs", latency->runs);
    return object;
}

static int latency_from_json(struct json_object *answer, const char *field, struct module_latency *ret,
                             struct error *error) {
    struct json_object *object;
    int64_t runs;
    if (json_read_object(answer, field, JSON_REQUIRED, &object, error) < 0 ||
        json_read_double(object, "p50_us", JSON_REQUIRED, 0, HUGE_VAL, &ret->p50_us, error) < 0 ||
        json_read_double(object, "p90_us", JSON_REQUIRED, 0, HUGE_VAL, &ret->p90_us, error) < 0 ||
        json_read_double(object, "p99_us", JSON_REQUIRED, 0, HUGE_VAL, &ret->p99_us, error) < 0 ||
        json_read_double(object, "min_us", JSON_REQUIRED, 0, HUGE_VAL, &ret->min_us, error) < 0 ||
        json_read_double(object, "mean_us", JSON_REQUIRED, 0, HUGE_VAL, &ret->mean_us, error) < 0 ||
        json_read_int(object, "runs", JSON_REQUIRED, 0, INT32_MAX, &runs, error) < 0)
        return -1;
    ret->runs = (int)runs;
    return 0;
}

/* ---- correctness ---- */

/* What both are fed: random numbers; zeros where the type is not f32, for those are mostly indices. */
static const void **make_inputs(const struct graph *graph, struct arena *arena) {
    const void **inputs = arena_array(arena, (size_t)graph->n_inputs, sizeof *inputs);
    for (int i = 0; i < graph->n_inputs; i++) {
        const struct value *value = &graph->values[graph->inputs[i]];
        size_t n = (size_t)shape_count(&value->shape);
        void *data = arena_alloc(arena, n * dtype_size(value->dtype));
        if (value->dtype == DTYPE_F32)
            module_fill_random(data, n, SEED + (uint64_t)i);
        inputs[i] = data;
    }
    return inputs;
}

static int set_inputs(struct module *module, const struct graph *graph, const void *const *inputs,
                      struct error *error) {
    const struct warptune_tensor *tensors;
    int n = module_inputs(module, &tensors);
    if (n != graph->n_inputs)
        return error_set(error, ERROR_INTERNAL, "bad-module", NULL, "The module has %d inputs, the model %d.", n,
                         graph->n_inputs);
    for (int i = 0; i < n; i++) {
        const struct value *value = &graph->values[graph->inputs[i]];
        size_t bytes = (size_t)shape_count(&value->shape) * dtype_size(value->dtype);
        if (module_set_input(module, i, inputs[i], bytes, error) < 0)
            return -1;
    }
    return 0;
}

/* An output as float32, the way eval_graph gives it. */
static int read_output(struct module *module, int index, const struct value *value, struct arena *arena, float **ret,
                       struct error *error) {
    size_t n = (size_t)shape_count(&value->shape), bytes = n * dtype_size(value->dtype);
    void *data = arena_alloc(arena, bytes);
    float *numbers = arena_array(arena, n, sizeof *numbers);
    if (module_get_output(module, index, data, bytes, error) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        switch (value->dtype) {
        case DTYPE_F32:
            numbers[i] = ((const float *)data)[i];
            break;
        case DTYPE_I64:
            numbers[i] = (float)((const int64_t *)data)[i];
            break;
        case DTYPE_I32:
            numbers[i] = (float)((const int32_t *)data)[i];
            break;
        case DTYPE_I8:
            numbers[i] = ((const int8_t *)data)[i];
            break;
        default:
            numbers[i] = ((const uint8_t *)data)[i];
            break;
        }
    }
    *ret = numbers;
    return 0;
}

/* Against infinities and NaN no module can be judged. */
static int check_finite(const struct value *value, const float *expected, struct error *error) {
    int64_t n = shape_count(&value->shape);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(expected[i]))
            return error_set(error, ERROR_DEVICE, "reference-not-finite", value->name,
                             "The network's output %.100s has infinities or NaN in float32 already, for random input, "
                             "so no module of it can be verified. Look for them in its weights.",
                             value->name);
    return 0;
}

static int compare(struct module *module, const struct graph *graph, float *const *expected, struct arena *arena,
                   double *ret, struct error *error) {
    *ret = 0;
    if (module_run(module, error) < 0)
        return -1;
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct value *value = &graph->values[graph->outputs[i]];
        float *got;
        if (check_finite(value, expected[i], error) < 0 || read_output(module, i, value, arena, &got, error) < 0)
            return -1;
        *ret = fmax(*ret, module_error(got, expected[i], (size_t)shape_count(&value->shape)));
    }
    return 0;
}

/* ---- time ---- */

/* A module with the samples that it gave. */
struct racer {
    struct module *module;
    double *seconds, spent;
    int n, a_round;
};

/* Warms it up, a slow one only once, and finds how often it runs in a round. */
static int warm(struct racer *racer, struct error *error) {
    double seconds[3];
    if (module_time(racer->module, 1, seconds, error) < 0)
        return -1;
    if (seconds[0] < ROUND_S && module_time(racer->module, 3, seconds, error) < 0)
        return -1;
    double fit = seconds[0] > 0 ? ROUND_S / seconds[0] : MOST_A_ROUND;
    racer->a_round = fit < 1 ? 1 : fit > MOST_A_ROUND ? MOST_A_ROUND : (int)fit;
    return 0;
}

static bool goes_on(const struct racer *racer, double seconds) {
    return racer->n + racer->a_round <= MOST_RUNS && (racer->spent < seconds || racer->n < LEAST_RUNS);
}

static int turn(struct racer *racer, struct error *error) {
    double *at = racer->seconds + racer->n;
    if (module_time(racer->module, racer->a_round, at, error) < 0)
        return -1;
    for (int i = 0; i < racer->a_round; i++)
        racer->spent += at[i];
    racer->n += racer->a_round;
    return 0;
}

static int race(struct racer racers[2], double seconds, struct error *error) {
    if (warm(&racers[0], error) < 0 || warm(&racers[1], error) < 0)
        return -1;
    while (goes_on(&racers[0], seconds) || goes_on(&racers[1], seconds)) {
        for (int i = 0; i < 2; i++) {
            if (goes_on(&racers[i], seconds) && turn(&racers[i], error) < 0)
                return -1;
        }
    }
    return 0;
}

/* ---- the child ---- */

struct job {
    const char *model, *tuned, *baseline;
    int64_t batch, ordinal;
    double seconds;
};

static int job_from_json(struct json_object *object, struct job *ret, struct error *error) {
    if (json_read_string(object, "model", JSON_REQUIRED, MOST_PATH, &ret->model, error) < 0 ||
        json_read_string(object, "module", JSON_REQUIRED, MOST_PATH, &ret->tuned, error) < 0 ||
        json_read_string(object, "baseline", JSON_REQUIRED, MOST_PATH, &ret->baseline, error) < 0 ||
        json_read_int(object, "batch", JSON_REQUIRED, 0, INT32_MAX, &ret->batch, error) < 0 ||
        json_read_int(object, "ordinal", JSON_REQUIRED, 0, INT32_MAX, &ret->ordinal, error) < 0)
        return -1;
    return json_read_double(object, "seconds", JSON_REQUIRED, 0, HUGE_VAL, &ret->seconds, error);
}

static int64_t batch_of(const struct graph *graph) {
    const struct shape *shape = graph->n_inputs ? &graph->values[graph->inputs[0]].shape : NULL;
    return shape && shape->rank ? shape->dim[0] : 1;
}

static int judge(const struct job *job, const struct file_map *map, struct racer racers[2], struct arena *arena,
                 struct json_object *reply, struct error *error) {
    struct onnx_options options = {.batch = job->batch};
    struct graph *graph;
    double difference;
    if (onnx_import(map->data, map->len, &options, arena, &graph, error) < 0)
        return -1;
    const void **inputs = make_inputs(graph, arena);
    float **expected = arena_array(arena, (size_t)graph->n_outputs, sizeof *expected);
    if (module_open(job->tuned, (int)job->ordinal, &racers[0].module, error) < 0 ||
        module_open(job->baseline, (int)job->ordinal, &racers[1].module, error) < 0 ||
        set_inputs(racers[0].module, graph, inputs, error) < 0 ||
        set_inputs(racers[1].module, graph, inputs, error) < 0 ||
        eval_graph(graph, inputs, arena, expected, error) < 0 ||
        compare(racers[0].module, graph, expected, arena, &difference, error) < 0 ||
        race(racers, job->seconds, error) < 0)
        return -1;
    struct module_latency tuned = module_latency(racers[0].seconds, racers[0].n);
    struct module_latency baseline = module_latency(racers[1].seconds, racers[1].n);
    json_add(reply, "tuned", latency_to_json(&tuned));
    json_add(reply, "baseline", latency_to_json(&baseline));
    json_add_double(reply, "error", difference); /* infinity becomes null */
    json_add_int(reply, "batch", batch_of(graph));
    return 0;
}

static int answer(void *data, struct json_object *object, struct json_object *reply, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct racer racers[2] = {{0}};
    struct file_map map;
    struct job job;
    (void)data;
    if (job_from_json(object, &job, error) < 0 || file_map(job.model, &map, error) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        racers[i].seconds = arena_array(arena, MOST_RUNS, sizeof(double));
    int rc = judge(&job, &map, racers, arena, reply, error);
    for (int i = 0; i < 2; i++)
        module_close(racers[i].module);
    file_unmap(&map);
    return rc;
}

int evaluate_child_main(void) {
    return child_answer(answer, NULL);
}

/* ---- the parent ---- */

int module_evaluate(const struct module_evaluate_request *request, int64_t deadline, struct module_evaluation *ret,
                    struct error *error) {
    struct child_call call = {.program = request->program,
                              .role = "evaluate",
                              .memory_bytes = request->memory_bytes,
                              .sandbox = request->sandbox,
                              .stop = request->stop,
                              .data = request->data};
    struct json_object *question CLEANUP(json_put_p) = json_object_new_object();
    struct json_object *reply CLEANUP(json_put_p) = NULL;
    struct module_evaluation evaluation = {.error = INFINITY};
    int status = -1;
    json_add_string(question, "model", request->model_path);
    json_add_string(question, "module", request->module_path);
    json_add_string(question, "baseline", request->baseline_path);
    json_add_int(question, "batch", request->batch);
    json_add_int(question, "ordinal", request->ordinal);
    json_add_double(question, "seconds", request->seconds);
    if (child_call(&call, question, deadline, &reply, &status, error) < 0)
        return error_prefix(error, "Evaluating the module: ");
    if (latency_from_json(reply, "tuned", &evaluation.tuned, error) < 0 ||
        latency_from_json(reply, "baseline", &evaluation.baseline, error) < 0 ||
        json_read_int(reply, "batch", JSON_REQUIRED, 0, INT64_MAX, &evaluation.batch, error) < 0)
        return -1;
    if (json_object_object_get(reply, "error") &&
        json_read_double(reply, "error", JSON_REQUIRED, 0, HUGE_VAL, &evaluation.error, error) < 0)
        return -1;
    *ret = evaluation;
    return 0;
}
