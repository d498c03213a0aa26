/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether memory stays flat over many builds and many failed runs: of the parent, the builders and the runner, and on
 * the device.
 *
 *     soak_measure [--kind cuda] [--builds 5000] [--failures 1000] [--hangs 3]
 *
 * Each build is of another source. Of the failures most are wrong answers and device errors or crashes in turn, and a
 * few hang. Prints one JSON object with the first and last level of each, its slope and whether it is flat; exits with
 * 1 when one is not. A plain program, its own children.
 */
#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/measure/measure.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/json.h"

enum { BATCH = 50, NUMBERS = 1000000, MOST_SAMPLES = 4096 };
/* Growth over all samples but the first quarter, in which caches fill, that is still flat. */
#define FLAT_SHARE 0.05
#define FLAT_MB 8

/* ---- the template ---- */

enum fault { GOOD, WRONG, FAILS, HANGS, FAULTS };

static const char key[] = "unary(f32:row:1x1000) -> f32:row:1x1000 act=relu";

static const char *const cuda_bodies[FAULTS] = {
    [GOOD] = "if (i < 1000) y[i] = fmaxf(x[i], 0);",
    [WRONG] = "if (i < 1000) y[i] = fmaxf(x[i], 0) + (i == 5);",
    [FAILS] = "*(volatile int *)16 = i; y[i] = x[i];",
    [HANGS] = "for (volatile int k = 0; k < 2; k = 0) ; y[i] = 0;",
};
static const char *const cpu_bodies[FAULTS] = {
    [GOOD] = "y[i] = x[i] > 0 ? x[i] : 0;",
    [WRONG] = "y[i] = (x[i] > 0 ? x[i] : 0) + (i == 5);",
    [FAILS] = "*(volatile int *)16 = i;",
    [HANGS] = "for (volatile int k = 0; k < 2; k = 0) ;",
};
static const char cuda_frame[] = "static __device__ int number = %lld;\n"
                                 "extern \"C\" __global__ void relu(const float *x, float *y) {\n"
                                 "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (number < 0) return;\n"
                                 "    %s\n}\n";
static const char cpu_frame[] = "int number = %lld;\nvoid relu(void *const *args, long begin, long end) {\n"
                                "    const float *x = args[0]; float *y = args[1];\n"
                                "    for (long i = begin; i < end; i++) { %s }\n}\n";

static bool serves(const struct workload *workload, const struct target *target) {
    (void)target;
    return workload->op == OP_UNARY;
}

/* Index = fault × NUMBERS + number. */
static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    (void)workload, (void)target;
    int64_t *numbers = arena_array(arena, NUMBERS / 1000, sizeof *numbers), faults[FAULTS];
    for (int i = 0; i < NUMBERS / 1000; i++)
        numbers[i] = i;
    for (int i = 0; i < FAULTS; i++)
        faults[i] = i;
    struct space *space = space_new(arena);
    space_choice(space, "low", numbers, NUMBERS / 1000);
    space_choice(space, "high", numbers, NUMBERS / 1000);
    space_choice(space, "fault", faults, FAULTS);
    return space;
}

static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    (void)workload, (void)target, (void)space;
    return 0;
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    (void)workload, (void)space, (void)error;
    bool cuda = strcmp(target->kind, "cuda") == 0;
    const char *body = (cuda ? cuda_bodies : cpu_bodies)[index / NUMBERS % FAULTS];
    struct program *program = arena_alloc(arena, sizeof *program);
    struct launch *launch = arena_alloc(arena, sizeof *launch);
    *launch = (struct launch){.entry = "relu",
                              .n_args = 2,
                              .args = {{ARG_IN, 0}, {ARG_OUT, 0}},
                              .items = 1000,
                              .grid = {4, 1, 1},
                              .block = {256, 1, 1}};
    char *source = cuda ? arena_printf(arena, cuda_frame, (long long)(index % NUMBERS), body)
                        : arena_printf(arena, cpu_frame, (long long)(index % NUMBERS), body);
    *program = (struct program){.source = source, .run = launch, .n_run = 1};
    *ret = program;
    return 0;
}

static const struct template soak_cuda = {"soak.cuda", 1, "cuda", serves, make_space, fallback, render};
static const struct template soak_cpu = {"soak.cpu", 1, "cpu", serves, make_space, fallback, render};
static const struct template *const templates[] = {&soak_cuda, &soak_cpu, NULL};

/* ---- samples ---- */

enum level { PARENT, BUILDERS, RUNNER, DEVICE, LEVELS };
static const char *const level_names[LEVELS] = {"parent_mb", "builder_mb", "runner_mb", "device_mb"};

struct series {
    double mb[LEVELS][MOST_SAMPLES]; /* NAN: not there when it was sampled */
    int n;
};

/* Resident memory of a process, without what it only maps; NAN when it is gone. */
static double resident_mb(const char *pid) {
    char path[64];
    long total, resident, shared;
    snprintf(path, sizeof path, "/proc/%.20s/statm", pid);
    FILE *file = fopen(path, "re");
    bool ok = file && fscanf(file, "%ld %ld %ld", &total, &resident, &shared) == 3;
    if (file)
        fclose(file);
    return ok ? (double)(resident - shared) * (double)sysconf(_SC_PAGESIZE) / 1e6 : NAN;
}

/* PARENT, BUILDERS or RUNNER by a process's arguments, when we are its parent; LEVELS for any other. */
static enum level level_of(const char *pid) {
    char path[64], text[512] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    const char *after = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    bool ours = after && sscanf(after, ") %*c %d", &parent) == 1 && parent == getpid();
    if (file)
        fclose(file);
    if (!ours)
        return LEVELS;
    snprintf(path, sizeof path, "/proc/%.20s/cmdline", pid);
    file = fopen(path, "re");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[len] = '\0';
    const char *role = len > 4 ? text + len - 1 : text;
    while (role > text && role[-1] != '\0')
        role--;
    return strcmp(role, "build") == 0 ? BUILDERS : strcmp(role, "run") == 0 ? RUNNER : LEVELS;
}

static void take_sample(struct series *series, int64_t device_bytes) {
    double sum[LEVELS] = {0};
    int count[LEVELS] = {0};
    if (series->n == MOST_SAMPLES)
        return;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        enum level level = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? level_of(entry->d_name) : LEVELS;
        double mb = level == LEVELS ? NAN : resident_mb(entry->d_name);
        if (isnan(mb))
            continue;
        sum[level] += mb;
        count[level]++;
    }
    if (proc)
        closedir(proc);
    sum[PARENT] = resident_mb("self");
    sum[DEVICE] = device_bytes > 0 ? (double)device_bytes / 1e6 : NAN;
    count[PARENT] = count[DEVICE] = 1;
    for (int l = 0; l < LEVELS; l++)
        series->mb[l][series->n] = count[l] > 0 ? sum[l] / count[l] : NAN;
    series->n++;
}

/* Adds {first, last, slope} of a level to the object; whether it is flat. Slope: MB a sample, by least squares. */
static bool judge(const struct series *series, enum level level, struct json_object *object) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0, first = NAN, last = NAN;
    for (int i = series->n / 4; i < series->n; i++) {
        double mb = series->mb[level][i];
        if (isnan(mb))
            continue;
        first = isnan(first) ? mb : first;
        last = mb;
        n++, x += i, y += mb, xx += (double)i * i, xy += i * mb;
    }
    double spread = n * xx - x * x, slope = spread > 0 ? (n * xy - x * y) / spread : 0;
    double growth = slope * (series->n - series->n / 4.0), mean = n > 0 ? y / n : 0;
    bool flat = growth < FLAT_MB || growth < FLAT_SHARE * mean;
    struct json_object *entry = json_object_new_object();
    json_add_double(entry, "first", first);
    json_add_double(entry, "last", last);
    json_add_double(entry, "slope_per_sample", slope);
    json_add_bool(entry, "flat", flat);
    json_add(object, level_names[level], entry);
    return flat;
}

/* ---- the soak ---- */

struct settings {
    const char *kind;
    int builds, failures, hangs;
};

struct soak {
    struct measurer *measurer;
    const struct workload *workload;
    const struct template *template;
    int counts[TRIAL_ERROR_COUNT];
    int64_t next; /* number of the next source */
};

static int run_batch(struct soak *soak, const enum fault *faults, int n, struct series *series, struct error *error) {
    struct trial trials[BATCH];
    struct measure_options options = measure_defaults;
    options.min_repeat_ms = 0.1;
    options.timeout_s = 2;
    for (int i = 0; i < n; i++)
        trials[i] = (struct trial){.template = soak->template, .index = faults[i] * NUMBERS + soak->next++ % NUMBERS};
    if (measurer_run(soak->measurer, soak->workload, &options, trials, n, NULL, error) < 0)
        return -1;
    int64_t device_bytes = -1;
    for (int i = 0; i < n; i++) {
        soak->counts[trials[i].error_no]++;
        if (trials[i].error_no == TRIAL_OK)
            device_bytes = trials[i].state.memory_used_bytes;
    }
    take_sample(series, strcmp(soak->template->device, "cuda") == 0 ? device_bytes : -1);
    return 0;
}

/* The last of each batch is good, so that a runner is there to be looked at. */
static int run_all(struct soak *soak, const struct settings *settings, struct series *builds, struct series *failures,
                   struct error *error) {
    enum fault faults[BATCH] = {GOOD};
    for (int done = 0; done < settings->builds; done += BATCH)
        if (run_batch(soak, faults, settings->builds - done < BATCH ? settings->builds - done : BATCH, builds, error) <
            0)
            return -1;
    int hangs = settings->hangs;
    for (int done = 0; done < settings->failures;) {
        int n = 0;
        for (; n < BATCH / 5 && done < settings->failures; n++, done++)
            faults[n] = hangs-- > 0 ? HANGS : done % 2 ? WRONG : FAILS;
        faults[n++] = GOOD;
        if (run_batch(soak, faults, n, failures, error) < 0)
            return -1;
    }
    return 0;
}

static bool report(const struct soak *soak, const struct series *builds, const struct series *failures,
                   double seconds) {
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object(), *errors = json_object_new_object(),
                               *first = json_object_new_object(), *second = json_object_new_object();
    bool flat = true;
    for (int l = 0; l < LEVELS; l++) {
        flat &= judge(builds, (enum level)l, first);
        flat &= judge(failures, (enum level)l, second);
    }
    for (int i = 0; i < TRIAL_ERROR_COUNT; i++)
        json_add_int(errors, trial_error_name((enum trial_error)i), soak->counts[i]);
    json_add_string(object, "device", measurer_device(soak->measurer)->key);
    json_add_double(object, "seconds", seconds);
    json_add(object, "trials", errors);
    json_add(object, "over_builds", first);
    json_add(object, "over_failures", second);
    json_add_bool(object, "flat", flat);
    puts(json_text(object, NULL));
    return flat;
}

static int soak_all(const struct settings *settings, const char *folder, bool *ret_flat, struct error *error) {
    static struct series builds, failures;
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct workload *workload;
    struct soak soak = {.template = strcmp(settings->kind, "cuda") == 0 ? &soak_cuda : &soak_cpu};
    struct measurer_config config = {.kind = settings->kind, .cache_dir = folder, .templates = templates};
    int64_t begin = clock_now_ns();
    if (workload_parse(key, arena, &workload, error) < 0 || measurer_new(&config, &soak.measurer, error) < 0)
        return -1;
    soak.workload = workload;
    int rc = run_all(&soak, settings, &builds, &failures, error);
    if (rc == 0)
        *ret_flat = report(&soak, &builds, &failures, (double)(clock_now_ns() - begin) / NS_PER_S);
    measurer_free(soak.measurer);
    return rc;
}

static bool read_settings(int argc, char **argv, struct settings *ret) {
    *ret = (struct settings){"cuda", 5000, 1000, 3};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--kind") == 0)
            ret->kind = argv[i + 1];
        else if (strcmp(argv[i], "--builds") == 0)
            ret->builds = (int)strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--failures") == 0)
            ret->failures = (int)strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--hangs") == 0)
            ret->hangs = (int)strtol(argv[i + 1], NULL, 10);
        else
            return false;
    }
    return argc % 2 == 1 && ret->builds >= 0 && ret->failures >= 0 && device_class_find(ret->kind);
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/warptune-soak-XXXXXX";
    struct settings settings;
    struct error error = {0}, ignored;
    bool flat = false;
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return strcmp(argv[2], "build") == 0 ? builder_child_main(templates) : runner_child_main(templates);
    if (!read_settings(argc, argv, &settings)) {
        fputs("usage: soak_measure [--kind cpu|cuda] [--builds N] [--failures N] [--hangs N]\n", stderr);
        return 2;
    }
    if (device_class_find(settings.kind)->count(&error) == 0) {
        printf("{\"skipped\": \"%s\"}\n", error.code);
        return 0;
    }
    int rc = mkdtemp(folder) ? soak_all(&settings, folder, &flat, &error) : -1;
    if (rc < 0)
        fprintf(stderr, "soak_measure: %s\n", error.text);
    (void)!file_remove_tree(folder, &ignored);
    return rc < 0 || !flat;
}
