/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_build.c: the module from the best configurations, judged against the untuned baseline and the reference, and
 * stored.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/module/module_run.h"
#include "scheduler/step.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/json.h"
#include "service/base/sandbox.h"
#include "service/base/scratch.h"
#include "service/store/blob_store.h"

#define COMPILE_S 900
#define EVALUATE_S 900
#define TIME_EACH_S 1.0 /* how long each module is timed */

/* Everything lies in a folder of the step's own, which goes with it. */
struct build {
    struct step *step;
    struct job_row *job;
    struct job_options options;
    int64_t opened_ns; /* when the job was read */
    const char *model_path;
    const char *tuned_path, *tar_path, *baseline_path;
};

static void remove_dir(void *data) {
    scratch_remove(data);
}

static int open_build(struct step *step, struct build *build, struct error *error) {
    *build = (struct build){.step = step, .opened_ns = clock_now_ns()};
    if (step_load_job(step, &build->job, &build->options, error) < 0 ||
        step_fetch_model(step, build->job, &build->model_path, error) < 0)
        return -1;
    const char *parent = arena_printf(step->arena, "%s/work", step->data_dir);
    if (file_make_dirs(parent, error) < 0)
        return -1;
    struct scratch *scratch = arena_alloc(step->arena, sizeof *scratch);
    if (scratch_make(parent, step->item->job_id, scratch, error) < 0)
        return -1;
    arena_defer(step->arena, remove_dir, scratch);
    const char *dir = scratch->path;
    build->tuned_path = arena_printf(step->arena, "%s/module.so", dir);
    build->tar_path = arena_printf(step->arena, "%s/module.tar", dir);
    build->baseline_path = arena_printf(step->arena, "%s/baseline.so", dir);
    return 0;
}

/* The best of each task; a task of which every trial failed runs on the plain kernel. */
static int choices_of(struct build *build, struct plan_choice **ret) {
    const struct job_row *job = build->job;
    struct plan_choice *choices = arena_array(build->step->arena, (size_t)job->n_tasks, sizeof *choices);
    for (int i = 0; i < job->n_tasks; i++) {
        const struct task_row *task = &job->tasks[i];
        choices[i] = (struct plan_choice){task->workload, task->best_template, task->best_index};
        if (!task->best_template)
            choices[i] = (struct plan_choice){task->workload, template_plain(&build->step->device->target)->name, 0};
    }
    *ret = choices;
    return job->n_tasks;
}

/* The tasks whose best is of a template that is not there any more, or is another now. */
static int stale_tasks(const struct build *build, int *ret) {
    int n = 0;
    for (int i = 0; i < build->job->n_tasks; i++) {
        const struct task_row *task = &build->job->tasks[i];
        const struct template *template =
            task->best_template ? template_find(template_builtin, task->best_template) : NULL;
        if (task->best_template && (!template || template->version != task->best_version))
            ret[n++] = task->number;
    }
    return n;
}

static int compile(struct build *build, const struct plan_choice *choices, int n_choices, const char *so_path,
                   const char *tar_path, struct error *error) {
    struct step *step = build->step;
    struct buf manifest CLEANUP(buf_release) = BUF_INIT(64 << 20);
    struct module_request request = {.program = step->program,
                                     .model_path = build->model_path,
                                     .batch = build->options.batch,
                                     .target = step->device->target,
                                     .precision = build->options.precision,
                                     .layout = build->options.layout,
                                     .choices = choices,
                                     .n_choices = n_choices,
                                     .cache_dir = arena_printf(step->arena, "%s/code", step->data_dir),
                                     .so_path = so_path,
                                     .tar_path = tar_path,
                                     .build_timeout_s = build->options.measure.build_timeout_s};
    if (module_compile(&request, deadline_in_s(COMPILE_S), step_must_stop, step, &manifest, error) == 0)
        return 0;
    return error->class == ERROR_CANCELLED ? step_stopped(step, error) : -1;
}

/* The sum over the network of what each task costs, in microseconds; 0 when one is not known. */
static double sum_of_tasks(const struct job_row *job, bool tuned) {
    double sum = 0;
    for (int i = 0; i < job->n_tasks; i++)
        sum += job->tasks[i].count * (tuned ? job->tasks[i].best_s : job->tasks[i].baseline_s) * 1e6;
    return isfinite(sum) ? sum : 0;
}

static const char *result_of(const struct build *build, const struct module_evaluation *evaluation) {
    const struct job_row *job = build->job;
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    json_add_double(object, "tuned_p50_us", evaluation->tuned.p50_us);
    json_add_double(object, "tuned_p90_us", evaluation->tuned.p90_us);
    json_add_double(object, "tuned_p99_us", evaluation->tuned.p99_us);
    json_add_double(object, "tuned_mean_us", evaluation->tuned.mean_us);
    json_add_double(object, "baseline_p50_us", evaluation->baseline.p50_us);
    json_add_double(object, "baseline_p90_us", evaluation->baseline.p90_us);
    json_add_double(object, "baseline_p99_us", evaluation->baseline.p99_us);
    json_add_int(object, "batch", evaluation->batch);
    json_add_double(object, "samples_per_s", (double)evaluation->batch * 1e6 / evaluation->tuned.mean_us);
    json_add_double(object, "speedup", evaluation->baseline.p50_us / evaluation->tuned.p50_us);
    json_add_int(object, "runs", evaluation->tuned.runs);
    json_add_double(object, "relative_error", evaluation->error);
    json_add_double(object, "tasks_tuned_us", sum_of_tasks(job, true));
    json_add_double(object, "tasks_baseline_us", sum_of_tasks(job, false));
    double tune_s = job->elapsed_s + (double)(clock_now_ns() - build->opened_ns) / 1e9;
    json_add_double(object, "tune_s", tune_s);
    json_add_double(object, "trials_per_s", tune_s > 0 ? (double)job->trials_done / tune_s : 0);
    return arena_strdup(build->step->arena, json_text(object, NULL));
}

static int store(struct build *build, const struct module_evaluation *evaluation, struct error *error) {
    struct step *step = build->step;
    char so[SHA256_HEX], tar[SHA256_HEX];
    int64_t bytes;
    if (blob_put_file(step->db, build->tuned_path, so, &bytes, error) < 0 ||
        blob_put_file(step->db, build->tar_path, tar, &bytes, error) < 0)
        return -1;
    struct build_result result = {.result = result_of(build, evaluation), .module_so = so, .module_tar = tar};
    return queue_complete_build(step->db, step->item, &result, error);
}

/*
 * Relative to the largest number of the output, whose reference is always f32's. Rounding alone costs the sample
 * networks up to 1.1e-3 in fp16 and in tf32, which have the same fraction, and 8 times as much in bf16, whose is three
 * bits shorter.
 */
static const double accepted_errors[PRECISION_COUNT] = {
    [PRECISION_FP32] = 1e-3, [PRECISION_FP16] = 1e-2, [PRECISION_BF16] = 5e-2, [PRECISION_TF32] = 5e-3};

static int check_error(double difference, enum precision precision, struct error *error) {
    double accepted = accepted_errors[precision];
    if (difference <= accepted)
        return 0;
    if (precision == PRECISION_FP16 && !isfinite(difference))
        return error_set(error, ERROR_DEVICE, "out-of-range", "precision",
                         "The module's output has infinities or NaN where the reference has none: some number of this "
                         "network is beyond fp16's largest, 65504. Ask for fp32.");
    return error_set(
        error, ERROR_DEVICE, "wrong-answer", NULL,
        "The module's output differs from the reference by %.3g of the largest number; at most %.3g is accepted.",
        difference, accepted);
}

/* CUDA maps too much to be limited. */
static int64_t memory_limit(const struct device_info *device) {
    return strcmp(device->target.kind, "cpu") == 0 ? sandbox_half_memory() : 0;
}

/* A GPU's runner works under SANDBOX_DRIVER; whole modules, with a library of the vendor's in them, were not tried. */
static enum sandbox sandbox_of(const struct device_info *device) {
    return strcmp(device->target.kind, "cpu") == 0 ? SANDBOX_STRICT : SANDBOX_NONE;
}

int step_build(struct step *step, struct error *error) {
    struct build build;
    struct plan_choice *choices;
    if (open_build(step, &build, error) < 0)
        return -1;
    int *stale = arena_array(step->arena, (size_t)build.job->n_tasks + 1, sizeof *stale);
    int n_stale = stale_tasks(&build, stale);
    if (n_stale > 0)
        return queue_reopen_tunes(step->db, step->item, stale, n_stale, error);
    int n_choices = choices_of(&build, &choices);
    step_log(step, "info", "building the module");
    if (compile(&build, choices, n_choices, build.tuned_path, build.tar_path, error) < 0 ||
        compile(&build, NULL, 0, build.baseline_path, NULL, error) < 0)
        return -1;
    struct module_evaluate_request request = {.program = step->program,
                                              .model_path = build.model_path,
                                              .batch = build.options.batch,
                                              .module_path = build.tuned_path,
                                              .baseline_path = build.baseline_path,
                                              .ordinal = step->device->ordinal,
                                              .seconds = TIME_EACH_S,
                                              .sandbox = sandbox_of(step->device),
                                              .memory_bytes = memory_limit(step->device),
                                              .stop = step_must_stop,
                                              .data = step};
    struct module_evaluation evaluation;
    step_log(step, "info", "comparing it with the reference and the untuned baseline");
    if (module_evaluate(&request, deadline_in_s(EVALUATE_S), &evaluation, error) < 0)
        return error->class == ERROR_CANCELLED ? step_stopped(step, error) : -1;
    if (check_error(evaluation.error, build.options.precision, error) < 0)
        return -1;
    return store(&build, &evaluation, error);
}
