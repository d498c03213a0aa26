/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether `auto` finds in few trials what AutoTVM's `xgb` finds in many: both search the same tasks from nothing, each
 * names its winner as a job does, by a race of its fastest, then the winners are measured in turn. One JSON object a
 * task, and one with the worst ratio; on standard error, after how long each search and each task ended.
 *
 *     bench_search [--kind cuda] [--template NAME] [--first 0] [--tasks 6] [--few 100] [--many 2000] [--seed 1]
 *
 * Both races come after both searches, one straight after the other: a device whose speed drifts while the second
 * search compiles for minutes would otherwise let each winner be named under conditions of its own.
 *
 * --template: the one template that both search (AutoTVM's are by name, and theirs are tasks in NCHW); without it each
 * searches what it would in a job. A ratio above 1: auto's winner is slower. A plain program, its own children.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/domains.h"
#include "scheduler/race.h"
#include "scheduler/search/search.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/json.h"

enum { MOST_BATCH = 64, ROUNDS = 7, RACE_REPEAT_MS = 20 };

#define CONV(layout, c, h, k, r, s, oh, p)                                                                           \
    "conv2d(f32:" layout ":1x" #c "x" #h "x" #h ", f32:row:" #k "x" #c "x" #r "x" #r ", f32:row:" #k                 \
    ") -> f32:" layout ":1x" #k "x" #oh "x" #oh " {stride=" #s "x" #s ", dilation=1x1, pad=" #p "x" #p "x" #p "x" #p \
    ", groups=1} bias act=relu"
#define TASKS(layout)                                                                       \
    {                                                                                       \
        CONV(layout, 64, 56, 64, 3, 1, 56, 1), CONV(layout, 128, 28, 128, 3, 1, 28, 1),     \
            CONV(layout, 256, 14, 256, 3, 1, 14, 1), CONV(layout, 512, 7, 512, 3, 1, 7, 1), \
            CONV(layout, 64, 56, 128, 1, 2, 28, 0), CONV(layout, 256, 14, 512, 1, 2, 7, 0), \
            CONV(layout, 3, 224, 64, 7, 2, 112, 3), CONV(layout, 64, 56, 128, 3, 2, 28, 1)  \
    }
static const char *const channels_last[] = TASKS("nhwc"), *const channels_first[] = TASKS("row");

struct settings {
    const char *kind, *template;
    int64_t first, tasks, few, many, seed;
};

/* One tuner's search of a task. */
struct run {
    const struct tuner_class *tuner;
    int64_t trials;
    struct fastest fastest;
    struct point best;
    double seconds;
    int64_t done, failed, compiled;
    int contestants;
    double race_s[ROUNDS];
};

static bool read_settings(int argc, char **argv, struct settings *ret) {
    *ret = (struct settings){"cuda", "", 0, 6, 100, 2000, 1};
    const struct {
        const char *option;
        const char **text;
        int64_t *number;
    } options[] = {{"--kind", &ret->kind, NULL},   {"--template", &ret->template, NULL}, {"--first", NULL, &ret->first},
                   {"--tasks", NULL, &ret->tasks}, {"--few", NULL, &ret->few},           {"--many", NULL, &ret->many},
                   {"--seed", NULL, &ret->seed}};
    for (int i = 1; i < argc; i += 2) {
        size_t at = 0;
        while (at < ARRAY_COUNT(options) && strcmp(argv[i], options[at].option) != 0)
            at++;
        if (at == ARRAY_COUNT(options) || i + 1 == argc)
            return false;
        if (options[at].text)
            *options[at].text = argv[i + 1];
        else
            *options[at].number = strtoll(argv[i + 1], NULL, 10);
    }
    int64_t known = (int64_t)ARRAY_COUNT(channels_last);
    return ret->first >= 0 && ret->first < known && ret->tasks > 0 && ret->tasks <= known - ret->first &&
           ret->few > 0 && ret->many > 0 && device_class_find(ret->kind);
}

static int run_batch(struct measurer *measurer, const struct domain *domains, struct search *search,
                     const struct point *point, int n, struct run *run, struct error *error) {
    struct trial trials[MOST_BATCH];
    double best_s = search_progress(search)->best_s;
    for (int i = 0; i < n; i++)
        trials[i] = (struct trial){.template = domains[point[i].domain].template,
                                   .index = point[i].index,
                                   .bound_s = isfinite(best_s) ? best_s : 0};
    if (measurer_run(measurer, domains[0].workload, &measure_defaults, trials, n, NULL, error) < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        run->failed += trials[i].error_no != TRIAL_OK;
        run->compiled += trials[i].build_s > 0;
        double cost_s = trials[i].error_no ? INFINITY : trial_cost(&trials[i]);
        fastest_add(&run->fastest, &(struct measured){point[i], cost_s});
        search_record(search, point[i], trials[i].error_no, cost_s);
    }
    return 0;
}

static int run_search(struct measurer *measurer, const struct domain *domains, int n_domains, int64_t seed,
                      struct run *run, struct error *error) {
    const struct domain *first = &domains[0];
    struct search_options options = {
        .tuner = run->tuner,
        .tuner_options = {.domains = domains, .n_domains = n_domains, .seed = (uint64_t)seed, .loss = LOSS_REG},
        .trials = run->trials,
        .fallback = first->template->fallback(first->workload, first->target, first->space)};
    struct search *search = search_new(&options);
    struct point point[MOST_BATCH];
    int64_t begin = clock_now_ns();
    int n, rc = 0;
    while (rc == 0 && (n = search_next(search, point, MOST_BATCH / 2)) > 0)
        rc = run_batch(measurer, domains, search, point, n, run, error);
    run->seconds = (double)(clock_now_ns() - begin) / NS_PER_S;
    run->done = search_progress(search)->done;
    fprintf(stderr, "  %s: %d trials in %.1f s\n", run->tuner->name, (int)run->done, run->seconds);
    search_free(search);
    return rc;
}

static int measure_long(struct measurer *measurer, const struct domain *domains, struct point point, double *ret,
                        struct error *error) {
    struct measure_options options = measure_defaults;
    struct trial trial = {.template = domains[point.domain].template, .index = point.index};
    options.min_repeat_ms = RACE_REPEAT_MS;
    if (measurer_run(measurer, domains[0].workload, &options, &trial, 1, NULL, error) < 0)
        return -1;
    *ret = trial.error_no ? INFINITY : trial_cost(&trial);
    return 0;
}

/* The winner of a run, index -1 when nothing ran. */
static int choose(struct measurer *measurer, const struct domain *domains, struct run *run, struct error *error) {
    struct race race = {.most_rounds = RACE_MOST_ROUNDS};
    int number[RACE_CONTESTANTS], n;
    double cost_s;
    race_add_fastest(&race, &run->fastest);
    for (int round = 0; (n = race_next(&race, number)) > 0; round++) {
        for (int i = 0; i < n; i++) {
            if (measure_long(measurer, domains, race.contestants[number[i]].point, &cost_s, error) < 0)
                return -1;
            race_record(&race, number[i], cost_s);
        }
        if (round == 0)
            race_add_fastest(&race, &run->fastest);
    }
    run->contestants = race.n;
    int winner = race_winner(&race);
    run->best = winner >= 0 ? race.contestants[winner].point : (struct point){0, -1};
    return 0;
}

/* Both winners in turn, the first of each round another. */
static int compare(struct measurer *measurer, const struct domain *domains, struct run run[2], struct error *error) {
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++) {
            struct run *contestant = &run[(round + i) % 2];
            if (measure_long(measurer, domains, contestant->best, &contestant->race_s[round], error) < 0)
                return -1;
        }
    return 0;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static struct json_object *run_json(const struct run *run, const struct domain *domains) {
    struct json_object *object = json_object_new_object();
    const struct domain *domain = &domains[run->best.domain];
    json_add_double(object, "us", run->race_s[ROUNDS / 2] * 1e6);
    json_add_int(object, "trials", run->done);
    json_add_int(object, "failed", run->failed);
    json_add_int(object, "compiled", run->compiled);
    json_add_int(object, "contestants", run->contestants);
    json_add_double(object, "seconds", run->seconds);
    json_add_string(object, "template", domain->template->name);
    json_add(object, "best", space_entity(domain->space, run->best.index));
    return object;
}

/* The ratio of one task; NAN when a search found nothing. */
static int bench_task(struct measurer *measurer, const struct settings *settings, const char *key, double *ret,
                      struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct run run[2] = {{.tuner = &tuner_auto, .trials = settings->few},
                         {.tuner = &tuner_xgb, .trials = settings->many}};
    struct workload *workload;
    struct domain *domains;
    int n_domains;
    *ret = NAN;
    if (workload_parse(key, arena, &workload, error) < 0 ||
        domains_of(workload, &measurer_device(measurer)->target, settings->template, false, arena, &domains, &n_domains,
                   error) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        if (run_search(measurer, domains, n_domains, settings->seed, &run[i], error) < 0)
            return -1;
    for (int i = 0; i < 2; i++)
        if (choose(measurer, domains, &run[i], error) < 0)
            return -1;
    if (run[0].best.index < 0 || run[1].best.index < 0)
        return 0;
    if (compare(measurer, domains, run, error) < 0)
        return -1;
    *ret = median(run[0].race_s) / median(run[1].race_s);
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(object, "bench", "auto_beside_xgb");
    json_add_string(object, "workload", key);
    json_add_double(object, "ratio", *ret);
    json_add_int(object, "points", domains_points(domains, n_domains, &tuner_xgb));
    json_add(object, "auto", run_json(&run[0], domains));
    json_add(object, "xgb", run_json(&run[1], domains));
    puts(json_text(object, NULL));
    fflush(stdout);
    return 0;
}

static int bench(const struct settings *settings, const char *folder, struct error *error) {
    const char *const *keys = strncmp(settings->template, "conv2d_nchw", 11) == 0 ? channels_first : channels_last;
    struct measurer_config config = {.kind = settings->kind, .cache_dir = folder, .templates = template_builtin};
    struct measurer *measurer;
    double worst = 0, ratio;
    int within = 0, rc = 0;
    if (measurer_new(&config, &measurer, error) < 0)
        return -1;
    for (int64_t t = settings->first; rc == 0 && t < settings->first + settings->tasks; t++) {
        int64_t begin = clock_now_ns();
        rc = bench_task(measurer, settings, keys[t], &ratio, error);
        fprintf(stderr, "task %d: %.1f s\n", (int)t, (double)(clock_now_ns() - begin) / NS_PER_S);
        worst = ratio > worst ? ratio : worst;
        within += ratio <= 1.05;
    }
    if (rc == 0)
        printf("{\"bench\": \"auto_beside_xgb\", \"device\": \"%s\", \"tasks\": %d, \"within_5_percent\": %d, "
               "\"worst\": %.3f, \"wanted\": 1.05}\n",
               measurer_device(measurer)->key, (int)settings->tasks, within, worst);
    measurer_free(measurer);
    return rc;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/warptune-bench-XXXXXX";
    struct settings settings;
    struct error error = {0}, ignored;
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return strcmp(argv[2], "build") == 0 ? builder_child_main(template_builtin)
                                             : runner_child_main(template_builtin);
    if (!read_settings(argc, argv, &settings)) {
        fputs("usage: bench_search [--kind cpu|cuda] [--template NAME] [--first N] [--tasks N] [--few N] [--many N] "
              "[--seed N]\n",
              stderr);
        return 2;
    }
    if (device_class_find(settings.kind)->count(&error) == 0) {
        printf("{\"skipped\": \"%s\"}\n", error.code);
        return 0;
    }
    int rc = mkdtemp(folder) ? bench(&settings, folder, &error) : -1;
    if (rc < 0)
        fprintf(stderr, "bench_search: %s\n", error.text);
    (void)!file_remove_tree(folder, &ignored);
    return rc < 0;
}
