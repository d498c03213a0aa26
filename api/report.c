/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: the figures of a report: taken from the rows, and held against those of the reference. */
#include "api/report.h"

#include <math.h>
#include <string.h>

#include "service/base/json.h"

const char *report_verdict_name(enum report_verdict verdict) {
    static const char *const names[] = {
        [REPORT_NOT_COMPARED] = "not_compared",
        [REPORT_NEW] = "new",
        [REPORT_SAME] = "same",
        [REPORT_FASTER] = "faster",
        [REPORT_REGRESSION] = "regression",
        [REPORT_NO_BEST] = "no_best",
    };
    return names[verdict];
}

/* INFINITY unless both are known. */
static double quotient(double above, double below) {
    return isfinite(above) && isfinite(below) && below > 0 ? above / below : INFINITY;
}

/* ---- results ---- */

/* A number of the job's result; those of earlier versions have fewer. */
static double number_of(struct json_object *result, const char *field) {
    struct json_object *value;
    if (!json_object_object_get_ex(result, field, &value) ||
        !(json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int)))
        return INFINITY;
    return json_object_get_double(value);
}

static int read_network(const char *text, struct report_network *ret, struct error *error) {
    struct json_object *result CLEANUP(json_put_p) = NULL;
    if (json_parse(text, strlen(text), &result, error) < 0)
        return -1;
    double batch = number_of(result, "batch");
    *ret = (struct report_network){
        .p50_us = number_of(result, "tuned_p50_us"),
        .p90_us = number_of(result, "tuned_p90_us"),
        .p99_us = number_of(result, "tuned_p99_us"),
        .mean_us = number_of(result, "tuned_mean_us"),
        .baseline_p50_us = number_of(result, "baseline_p50_us"),
        .baseline_p90_us = number_of(result, "baseline_p90_us"),
        .baseline_p99_us = number_of(result, "baseline_p99_us"),
        .samples_per_s = number_of(result, "samples_per_s"),
        .batch = isfinite(batch) ? (int64_t)batch : 0,
        .relative_error = number_of(result, "relative_error"),
        .reference_p50_us = INFINITY,
        .ratio = INFINITY,
    };
    ret->speedup = quotient(ret->baseline_p50_us, ret->p50_us);
    return 0;
}

static int check_result(const struct job_row *job, struct error *error) {
    if (job->result)
        return 0;
    if (!job_state_ended(job->state))
        return error_set(error, ERROR_CONFLICT, "job-not-finished", NULL,
                         "Job %s is %s; its report is there once it has succeeded.", job->id,
                         job_state_name(job->state));
    if (job->error_text)
        return error_set(error, ERROR_CONFLICT, "job-without-result", NULL,
                         "Job %s failed, so there is nothing to report: %.700s", job->id, job->error_text);
    return error_set(error, ERROR_CONFLICT, "job-without-result", NULL, "Job %s was %s, so there is nothing to report.",
                     job->id, job_state_name(job->state));
}

/* ---- layers ---- */

static struct report_layer layer_of(const struct task_row *task) {
    struct report_layer layer = {.task = task,
                                 .ours_us = task->best_template ? task->best_s * 1e6 : INFINITY,
                                 .spread_us = task->best_template ? task->best_spread_s * 1e6 : INFINITY,
                                 .baseline_us = task->baseline_s * 1e6,
                                 .floor_us = task->floor_s * 1e6,
                                 .share = INFINITY,
                                 .reference_us = INFINITY,
                                 .ratio = INFINITY,
                                 .verdict = task->best_template ? REPORT_NOT_COMPARED : REPORT_NO_BEST};
    layer.speedup = quotient(layer.baseline_us, layer.ours_us);
    layer.floor_ratio = quotient(layer.ours_us, layer.floor_us);
    return layer;
}

/* A sum of which a part is not known is not known. */
static void sum_layers(struct report *report) {
    struct report_network *network = &report->network;
    for (int i = 0; i < report->n_layers; i++) {
        const struct report_layer *layer = &report->layers[i];
        network->layers_us += layer->task->count * layer->ours_us;
        network->layers_baseline_us += layer->task->count * layer->baseline_us;
        network->layers_floor_us += layer->task->count * layer->floor_us;
        report->n_no_best += layer->verdict == REPORT_NO_BEST;
    }
    for (int i = 0; i < report->n_layers; i++)
        report->layers[i].share =
            quotient(report->layers[i].task->count * report->layers[i].ours_us, network->layers_us);
}

static void fill_layers(struct report *report, struct arena *arena) {
    const struct job_row *job = report->job;
    report->n_layers = job->n_tasks;
    report->layers = arena_array(arena, (size_t)job->n_tasks + 1, sizeof *report->layers);
    for (int i = 0; i < job->n_tasks; i++)
        report->layers[i] = layer_of(&job->tasks[i]);
    sum_layers(report);
}

/* ---- comparing ---- */

/* What the reference knows of its layers, whatever it is. */
struct known {
    const char *workload;
    double cost_us; /* INFINITY: no best */
};

static int known_layers(const struct report_source *source, struct arena *arena, struct known **ret) {
    const struct job_row *job = source->against;
    const struct golden_row *golden = source->golden;
    int n = job ? job->n_tasks : golden->n_configs;
    struct known *known = arena_array(arena, (size_t)n + 1, sizeof *known);
    for (int i = 0; i < n; i++)
        known[i] = job ? (struct known){job->tasks[i].workload, job->tasks[i].best_s * 1e6}
                       : (struct known){golden->configs[i].workload, golden->configs[i].cost_s * 1e6};
    *ret = known;
    return n;
}

static enum report_verdict judge(double ratio, double limit) {
    if (!isfinite(ratio))
        return REPORT_NEW;
    return ratio > limit ? REPORT_REGRESSION : ratio * limit < 1 ? REPORT_FASTER : REPORT_SAME;
}

/* The reference's figure for the layer; whether it has such a layer at all. */
static bool look_up(const struct known *known, int n, const char *workload, double *ret_us) {
    for (int i = 0; i < n; i++)
        if (strcmp(known[i].workload, workload) == 0) {
            *ret_us = known[i].cost_us;
            return true;
        }
    return false;
}

static void compare_layers(struct report *report, const struct known *known, int n) {
    double ours = 0, theirs = 0;
    int found = 0;
    for (int i = 0; i < report->n_layers; i++) {
        struct report_layer *layer = &report->layers[i];
        found += look_up(known, n, layer->task->workload, &layer->reference_us);
        layer->ratio = quotient(layer->ours_us, layer->reference_us);
        if (layer->verdict != REPORT_NO_BEST)
            layer->verdict = judge(layer->ratio, report->reference.limit);
        report->n_regressions += layer->verdict == REPORT_REGRESSION;
        if (isfinite(layer->ratio)) {
            ours += layer->task->count * layer->ours_us;
            theirs += layer->task->count * layer->reference_us;
        }
    }
    report->reference.n_missing = n - found;
    report->reference.layers_ratio = quotient(ours, theirs);
}

/* Only the same model with the same batch makes the whole comparable. */
static int compare_network(struct report *report, const char *model_id, const char *result, struct error *error) {
    struct report_network *network = &report->network, other;
    network->verdict = REPORT_NEW;
    if (!result || strcmp(model_id, report->job->model_id) != 0)
        return 0;
    if (read_network(result, &other, error) < 0)
        return -1;
    if (other.batch != network->batch)
        return 0;
    network->reference_p50_us = other.p50_us;
    network->ratio = quotient(network->p50_us, other.p50_us);
    network->verdict = judge(network->ratio, report->reference.limit);
    report->n_regressions += network->verdict == REPORT_REGRESSION;
    return 0;
}

static int compare(struct report *report, const struct report_source *source, struct arena *arena,
                   struct error *error) {
    const struct job_row *against = source->against;
    const struct golden_row *golden = source->golden;
    const char *device_key = against ? against->device_key : golden->device_key;
    struct known *known;
    if (against && check_result(against, error) < 0)
        return -1;
    if (strcmp(device_key, report->job->device_key) != 0)
        return error_set(
            error, ERROR_CONFLICT, "other-device", "compare_to",
            "The job ran on %.160s and what it should be compared to on %.160s: their times do not compare.",
            report->job->device_key, device_key);
    report->reference = (struct report_reference){.job_id = against ? against->id : golden->job_id,
                                                  .golden = golden ? golden->number : 0,
                                                  .limit = source->limit};
    int n = known_layers(source, arena, &known);
    compare_layers(report, known, n);
    return compare_network(report, against ? against->model_id : golden->model_id,
                           against ? against->result : golden->result, error);
}

int report_fill(const struct report_source *source, struct arena *arena, struct report *ret, struct error *error) {
    struct report report = {.job = source->job, .model_name = source->model_name};
    if (check_result(source->job, error) < 0 || read_network(source->job->result, &report.network, error) < 0)
        return -1;
    fill_layers(&report, arena);
    if ((source->against || source->golden) && compare(&report, source, arena, error) < 0)
        return -1;
    *ret = report;
    return 0;
}
