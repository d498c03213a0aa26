/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring on the CPU device, with a template whose configurations are each broken in their own way. This program is
 * its own children: `test_measure child build` and `child run` serve that template.
 */
#include "gpu/measure/measure.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/measure/instantiate.h"
#include "service/base/file.h"
#include "service/base/sandbox.h"

/* ---- the template ---- */

static const char key[] = "unary(f32:row:1x1000) -> f32:row:1x1000 act=relu";
static const char folder_variable[] = "WARPTUNE_TEST_FOLDER"; /* holds a pipe that nobody writes into */

enum fault {
    GOOD,
    WRONG,
    UNWRITTEN,
    OUT_OF_BOUNDS,
    CHANGES_INPUT,
    ENDLESS,
    CRASHES,
    EXITS,
    PRINTS,
    NO_C,
    COMPILER_HANGS,
    RENDER_HANGS,
    RENDER_REFUSES,
    RENDER_CRASHES,
    COMPILER_CRASHES,
    GOOD_TOO,
    GOOD_TWIN, /* the same source as GOOD */
    NO_C_TWIN,
    STARTS_SLOWLY, /* 0.7 s in its first execution */
    TAKES_LONG,    /* a millisecond an execution */
    HOARDS,        /* maps three quarters of the host's memory */
    FAULTS,
};

#define LOOP(statement) "for (long i = begin; i < end; i++) " statement
#define RELU "y[i] = x[i] > 0 ? x[i] : 0;"

/* The body of void relu(void *const *args, long begin, long end); x and y are the input and the output. */
static const char *const bodies[FAULTS] = {
    [GOOD] = LOOP(RELU),
    [WRONG] = LOOP(RELU) " if (begin <= 123 && 123 < end) y[123] += 1;",
    [UNWRITTEN] = LOOP("if (i != 77) " RELU),
    [OUT_OF_BOUNDS] = LOOP(RELU) " y[1000] = 1;",
    [CHANGES_INPUT] = LOOP(RELU) " if (begin <= 5 && 5 < end) ((float *)x)[5] = 9;",
    [ENDLESS] = "for (volatile int i = 0;; i++) ;",
    [CRASHES] = "*(volatile int *)0 = 1;",
    [EXITS] = "extern void _exit(int); _exit(3);",
    [PRINTS] = "extern int puts(const char *); puts(\"{}\"); " LOOP(RELU),
    [NO_C] = "this is not C",
    [COMPILER_CRASHES] = "/* crash */",
    [GOOD_TOO] = "if (begin < end) " LOOP(RELU),
    [GOOD_TWIN] = LOOP(RELU),
    [NO_C_TWIN] = "this is not C",
    [STARTS_SLOWLY] = "extern int usleep(unsigned); static int n; if (begin == 0 && n++ == 0) usleep(700000); " //
    LOOP(RELU),
    [TAKES_LONG] = "extern int usleep(unsigned); if (begin == 0) usleep(1000); " LOOP(RELU),
    [HOARDS] =
        "void *volatile all = malloc((unsigned long)sysconf(_SC_PHYS_PAGES) / 4 * 3 * sysconf(_SC_PAGESIZE)); " //
        "if (!all) _exit(4); " LOOP(RELU) " free(all);",
};

static bool serves(const struct workload *workload, const struct target *target) {
    (void)target;
    return workload->op == OP_UNARY;
}

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    (void)workload, (void)target;
    int64_t values[FAULTS];
    for (int i = 0; i < FAULTS; i++)
        values[i] = i;
    struct space *space = space_new(arena);
    space_choice(space, "fault", values, FAULTS);
    return space;
}

static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    (void)workload, (void)target, (void)space;
    return GOOD;
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    (void)workload, (void)target, (void)space;
    static const char frame[] = "%s\nvoid relu(void *const *args, long begin, long end) {\n"
                                "    const float *x = args[0];\n    float *y = args[1];\n    %s\n}\n";
    const char *include = "";
    if (index == RENDER_REFUSES)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "This configuration cannot be.");
    if (index == RENDER_CRASHES)
        raise(SIGKILL);
    while (index == RENDER_HANGS)
        pause();
    if (index == COMPILER_HANGS)
        include = arena_printf(arena, "#include \"%s/pipe\"", getenv(folder_variable));
    if (index == HOARDS)
        include = "#include <stdlib.h>\n#include <unistd.h>";
    struct program *program = arena_alloc(arena, sizeof *program);
    struct launch *launch = arena_alloc(arena, sizeof *launch);
    *launch = (struct launch){.entry = "relu", .n_args = 2, .args = {{ARG_IN, 0}, {ARG_OUT, 0}}, .items = 1000};
    *program = (struct program){
        .source = arena_printf(arena, frame, include, bodies[index] ? bodies[index] : ""), .run = launch, .n_run = 1};
    *ret = program;
    return 0;
}

static const struct template faulty = {"faulty.cpu", 1, "cpu", serves, make_space, fallback, render};
static const struct template *const templates[] = {&faulty, NULL};

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return strcmp(argv[2], "build") == 0 ? builder_child_main(templates) : runner_child_main(templates);
    struct criterion_test_set *tests = criterion_initialize();
    int status = criterion_handle_args(argc, argv, true) ? !criterion_run_all_tests(tests) : 0;
    criterion_finalize(tests);
    return status;
}

/* ---- the fixture ---- */

static char folder[64];
static struct measurer *measurer;
static struct arena *arena;
static struct workload *workload;
static struct measure_options options;

static void start(void) {
    char path[96];
    struct error error = {0};
    unsetenv("BXFI_MAP"); /* or the children take themselves for Criterion's */
    snprintf(folder, sizeof folder, "/tmp/warptune-test-XXXXXX");
    cr_assert(mkdtemp(folder));
    setenv(folder_variable, folder, 1);
    snprintf(path, sizeof path, "%s/pipe", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/cache", folder);
    struct measurer_config config = {.kind = "cpu", .cache_dir = path, .builders = 2, .templates = templates};
    cr_assert_eq(measurer_new(&config, &measurer, &error), 0, "%s", error.text);
    arena = arena_new(0);
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s", error.text);
    options = measure_defaults;
    options.min_repeat_ms = 0.1;
    options.timeout_s = 5;
}

/* Killed compilers leave nothing behind: the cache has folders of two digits alone. */
static void expect_clean(const char *cache) {
    DIR *dir = opendir(cache);
    cr_assert(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        cr_assert_leq(strlen(entry->d_name), 2, "%s", entry->d_name);
    closedir(dir);
}

static void stop(void) {
    char path[96];
    struct error error = {0};
    measurer_free(measurer);
    snprintf(path, sizeof path, "%s/cache", folder);
    expect_clean(path);
    arena_free(arena);
    cr_assert_eq(file_remove_tree(folder, &error), 0, "%s", error.text);
}

TestSuite(measure, .init = start, .fini = stop);

static void measure(struct trial *trials, const enum fault *faults, int n, const struct measure_callbacks *callbacks) {
    struct error error = {0};
    for (int i = 0; i < n; i++)
        trials[i] = (struct trial){.template = &faulty, .index = faults[i]};
    cr_assert_eq(measurer_run(measurer, workload, &options, trials, n, callbacks, &error), 0, "%s", error.text);
}

static void expect_good(const struct trial *trial) {
    cr_assert_eq(trial->error_no, TRIAL_OK, "%s", trial->error_text);
    cr_assert_str_eq(trial->error_text, "");
    cr_assert_eq(trial->n_costs, options.repeat);
    cr_assert_gt(trial_cost(trial), 0);
    cr_assert_lt(trial_cost(trial), 1);
    cr_assert_gt(trial->finished_us, 0);
    cr_assert_gt(trial->run_s, 0);
}

/* A faulty configuration between two good ones ends with its own number and words, and they are measured. */
static void expect_fault(enum fault fault, enum trial_error error_no, const char *words) {
    struct trial trials[3];
    measure(trials, (enum fault[]){GOOD, fault, GOOD_TOO}, 3, NULL);
    expect_good(&trials[0]);
    expect_good(&trials[2]);
    cr_assert_eq(trials[1].error_no, error_no, "%s", trials[1].error_text);
    cr_assert(strstr(trials[1].error_text, words), "%s", trials[1].error_text);
    cr_assert_eq(trials[1].n_costs, 0);
    cr_assert_eq(trial_cost(&trials[1]), 1e9);
}

/* ---- faults ---- */

Test(measure, a_wrong_element_is_named) {
    expect_fault(WRONG, TRIAL_WRONG_ANSWER, "element [0, 123]");
}

Test(measure, an_element_that_is_not_written_is_found) {
    expect_fault(UNWRITTEN, TRIAL_WRONG_ANSWER, "element [0, 77]");
}

Test(measure, writing_past_the_output_is_found) {
    expect_fault(OUT_OF_BOUNDS, TRIAL_WRONG_ANSWER, "outside of output 0: the canary at byte 4000");
}

Test(measure, changing_an_input_is_found) {
    expect_fault(CHANGES_INPUT, TRIAL_WRONG_ANSWER, "changed its input 0");
}

Test(measure, a_kernel_that_does_not_end_is_killed) {
    options.timeout_s = 1;
    expect_fault(ENDLESS, TRIAL_RUN_TIMEOUT, "1 s");
}

Test(measure, a_kernel_that_crashes_ends_its_process_alone) {
    expect_fault(CRASHES, TRIAL_RUNTIME, "The process that ran the kernel ");
}

Test(measure, a_kernel_that_exits_ends_its_process_alone) {
    expect_fault(EXITS, TRIAL_RUNTIME, "exited with status 3");
}

/* The address sanitizer maps more than the host has. */
Test(measure, a_process_that_runs_kernels_cannot_take_all_memory) {
    if (sandbox_half_memory() == 0)
        cr_skip_test("no limit under the address sanitizer");
    expect_fault(HOARDS, TRIAL_RUNTIME, "exited with status 4");
}

Test(measure, a_kernel_may_print) {
    struct trial trials[2];
    measure(trials, (enum fault[]){PRINTS, GOOD}, 2, NULL);
    expect_good(&trials[0]);
    expect_good(&trials[1]);
}

Test(measure, what_does_not_compile_comes_with_the_compilers_words) {
    expect_fault(NO_C, TRIAL_COMPILE_HOST, "error");
}

Test(measure, a_compiler_that_does_not_end_is_killed) {
    options.build_timeout_s = 1;
    expect_fault(COMPILER_HANGS, TRIAL_BUILD_TIMEOUT, "did not end in time");
}

Test(measure, a_template_that_does_not_end_is_killed) {
    options.build_timeout_s = 1;
    expect_fault(RENDER_HANGS, TRIAL_BUILD_TIMEOUT, "did not end within 1 s");
}

Test(measure, a_configuration_that_cannot_be_is_an_instantiation_error) {
    expect_fault(RENDER_REFUSES, TRIAL_INSTANTIATION, "This configuration cannot be.");
    expect_fault(FAULTS, TRIAL_INSTANTIATION, "not one of the");
}

Test(measure, a_compiler_process_that_dies_is_a_compile_error) {
    expect_fault(RENDER_CRASHES, TRIAL_COMPILE_HOST, "The compiler process was killed by signal 9");
}

/* A compiler of ours: does what the script says to the source in $source, then what the real one does. */
static void use_compiler(const char *script) {
    static const char frame[] = "#!/bin/sh\nsource=$(cat)\n%s\nprintf '%%s\\n' \"$source\" | exec cc \"$@\"\n";
    char path[96];
    struct error error = {0};
    struct buf text = BUF_INIT(4096);
    buf_printf(&text, frame, script);
    snprintf(path, sizeof path, "%s/compiler", folder);
    cr_assert_eq(file_write(path, text.data, text.len, &error), 0, "%s", error.text);
    cr_assert_eq(chmod(path, 0700), 0);
    buf_release(&text);
    setenv("WARPTUNE_CC", path, 1);
}

Test(measure, a_compiler_that_crashes_is_a_compile_error) {
    use_compiler("case $source in *crash*) kill -SEGV $$;; esac");
    expect_fault(COMPILER_CRASHES, TRIAL_COMPILE_HOST, "killed by signal 11");
    unsetenv("WARPTUNE_CC");
}

Test(measure, many_faults_in_one_batch_each_get_their_own_number) {
    static const enum fault faults[] = {CRASHES, NO_C, GOOD, EXITS, WRONG, GOOD_TOO, RENDER_REFUSES, CRASHES, GOOD};
    static const enum trial_error expected[] = {4, 2, 0, 4, 5, 0, 1, 4, 0};
    enum { N = ARRAY_COUNT(faults) };
    struct trial trials[N];
    measure(trials, faults, N, NULL);
    for (int i = 0; i < N; i++)
        cr_assert_eq(trials[i].error_no, expected[i], "trial %d: %s", i, trials[i].error_text);
}

/* ---- the course of things ---- */

Test(measure, code_that_is_there_costs_no_build) {
    struct trial trial;
    measure(&trial, (enum fault[]){GOOD}, 1, NULL);
    cr_assert_gt(trial.build_s, 0);
    measure(&trial, (enum fault[]){GOOD}, 1, NULL);
    cr_assert_eq(trial.build_s, 0);
    expect_good(&trial);
}

Test(measure, another_workload_is_measured_by_the_same_children) {
    struct trial trial = {.template = &faulty, .index = WRONG};
    struct error error = {0};
    measure(&trial, (enum fault[]){GOOD}, 1, NULL);
    expect_good(&trial);
    cr_assert_eq(workload_parse("unary(f32:row:10x100) -> f32:row:10x100 act=relu", arena, &workload, &error), 0);
    measure(&trial, (enum fault[]){GOOD}, 1, NULL);
    expect_good(&trial);
}

Test(measure, a_number_of_executions_can_be_asked_for) {
    struct trial trial;
    options.number = 3;
    options.repeat = 5;
    options.min_repeat_ms = 0;
    measure(&trial, (enum fault[]){GOOD}, 1, NULL);
    expect_good(&trial);
}

Test(measure, no_number_is_too_large) {
    struct trial trial;
    options.number = INT32_MAX;
    options.min_repeat_ms = 1e9;
    options.repeat = 1;
    options.timeout_s = 5;
    measure(&trial, (enum fault[]){GOOD}, 1, NULL);
    expect_good(&trial);
}

/* ---- what is known of a trial ---- */

static struct trial measure_bound(enum fault fault, double bound_s) {
    struct trial trial = {.template = &faulty, .index = fault, .bound_s = bound_s};
    struct error error = {0};
    cr_assert_eq(measurer_run(measurer, workload, &options, &trial, 1, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(trial.error_no, TRIAL_OK, "%s", trial.error_text);
    return trial;
}

Test(measure, what_is_far_above_its_bound_is_not_repeated) {
    struct trial cut = measure_bound(GOOD, 1e-12), whole = measure_bound(GOOD, 1), free = measure_bound(GOOD, 0);
    cr_assert_eq(cut.flags, TRIAL_CUT_SHORT);
    cr_assert_eq(cut.n_costs, 1);
    cr_assert_gt(trial_cost(&cut), 0);
    cr_assert_eq(whole.flags, 0);
    cr_assert_eq(whole.n_costs, options.repeat);
    cr_assert_eq(free.flags, 0);
    cr_assert_eq(free.n_costs, options.repeat);
}

Test(measure, a_hopeless_one_is_not_timed_at_all) {
    struct trial trial = measure_bound(TAKES_LONG, 1e-5);
    cr_assert_eq(trial.flags, TRIAL_CUT_SHORT);
    cr_assert_eq(trial.n_costs, 1);
    cr_assert_gt(trial_cost(&trial), 1e-3);
    cr_assert_lt(trial.time_s, 1e-3);
    cr_assert_gt(trial.verify_s, 2e-3);
}

Test(measure, the_cpu_tells_no_clock_and_disturbs_nothing) {
    struct trial trial = measure_bound(GOOD, 0);
    cr_assert_eq(trial.flags, 0);
    cr_assert_eq(trial.again, 0);
    cr_assert_eq(trial.state.sm_clock_mhz, -1);
    cr_assert_eq(trial.state.throttle_reasons, -1);
    cr_assert_eq(trial.state.other_processes, -1);
    cr_assert_gt(trial.load_s, 0);
    cr_assert_float_eq(trial.run_s, trial.load_s + trial.verify_s + trial.time_s, 1e-9);
}

Test(measure, what_was_not_run_has_no_state) {
    struct trial trial;
    measure(&trial, (enum fault[]){NO_C}, 1, NULL);
    cr_assert_eq(trial.state.memory_used_bytes, -1);
    cr_assert_eq(trial.run_s, 0);
}

/* ---- waiting ---- */

Test(measure, the_same_source_is_compiled_once) {
    struct trial trials[5];
    int compiled = 0;
    measure(trials, (enum fault[]){GOOD, GOOD_TWIN, GOOD, GOOD_TWIN, GOOD_TWIN}, 5, NULL);
    for (int i = 0; i < 5; i++) {
        expect_good(&trials[i]);
        compiled += trials[i].build_s > 0;
    }
    cr_assert_eq(compiled, 1);
}

Test(measure, the_same_source_fails_for_all) {
    struct trial trials[3];
    measure(trials, (enum fault[]){NO_C, NO_C_TWIN, GOOD}, 3, NULL);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(trials[i].error_no, TRIAL_COMPILE_HOST);
        cr_assert(strstr(trials[i].error_text, "error"));
    }
    expect_good(&trials[2]);
}

Test(measure, renders_behind_one_that_does_not_end_are_not_lost) {
    struct trial trials[6];
    options.build_timeout_s = 1;
    measure(trials, (enum fault[]){RENDER_HANGS, RENDER_CRASHES, RENDER_REFUSES, RENDER_CRASHES, GOOD, GOOD_TOO}, 6,
            NULL);
    static const enum trial_error expected[] = {TRIAL_BUILD_TIMEOUT, TRIAL_COMPILE_HOST, TRIAL_INSTANTIATION,
                                                TRIAL_COMPILE_HOST,  TRIAL_OK,           TRIAL_OK};
    for (int i = 0; i < 6; i++)
        cr_assert_eq(trials[i].error_no, expected[i], "trial %d: %s", i, trials[i].error_text);
}

/* Three compiles by one builder, the plain kernel's among them, take longer than one may. */
Test(measure, waiting_for_a_builder_counts_toward_no_timeout) {
    struct measurer *other;
    struct trial trials[2];
    struct error error = {0};
    struct measurer_config config = {.kind = "cpu", .cache_dir = folder, .builders = 1, .templates = templates};
    static const enum fault faults[] = {GOOD, GOOD_TOO};
    use_compiler("sleep 0.6");
    options.build_timeout_s = 1.5;
    for (int i = 0; i < 2; i++)
        trials[i] = (struct trial){.template = &faulty, .index = faults[i]};
    cr_assert_eq(measurer_new(&config, &other, &error), 0, "%s", error.text);
    cr_assert_eq(measurer_run(other, workload, &options, trials, 2, NULL, &error), 0, "%s", error.text);
    for (int i = 0; i < 2; i++) {
        expect_good(&trials[i]);
        cr_assert_geq(trials[i].build_s, 0.6);
    }
    measurer_free(other);
    unsetenv("WARPTUNE_CC");
}

/* The next trial is sent while one runs, and its time begins with its own run. */
Test(measure, waiting_for_the_runner_counts_toward_no_timeout) {
    struct trial trials[2];
    options.timeout_s = 1.2;
    measure(trials, (enum fault[]){STARTS_SLOWLY, STARTS_SLOWLY}, 2, NULL);
    for (int i = 0; i < 2; i++) {
        expect_good(&trials[i]);
        cr_assert_geq(trials[i].run_s, 0.7);
    }
}

Test(measure, a_trial_told_ahead_survives_the_end_of_the_one_before) {
    static const enum fault faults[] = {CRASHES, GOOD, OUT_OF_BOUNDS, GOOD, EXITS, GOOD_TOO};
    static const enum trial_error expected[] = {TRIAL_RUNTIME, TRIAL_OK,      TRIAL_WRONG_ANSWER,
                                                TRIAL_OK,      TRIAL_RUNTIME, TRIAL_OK};
    struct trial trials[6];
    measure(trials, faults, 6, NULL);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(trials[i].error_no, expected[i], "trial %d: %s", i, trials[i].error_text);
}

Test(measure, there_is_a_pause_between_trials_when_asked_for) {
    struct trial trials[3];
    options.cooldown_s = 0.1;
    measure(trials, (enum fault[]){GOOD, GOOD_TOO, GOOD}, 3, NULL);
    for (int i = 0; i < 3; i++)
        expect_good(&trials[i]);
    cr_assert_geq(trials[1].finished_us - trials[0].finished_us, 100000);
    cr_assert_geq(trials[2].finished_us - trials[1].finished_us, 100000);
}

Test(measure, nothing_to_measure_is_no_error) {
    measure(NULL, NULL, 0, NULL);
}

struct seen {
    int ended, stop_after;
};

static void count_done(void *data, struct trial *trial) {
    struct seen *seen = data;
    cr_assert_gt(trial->finished_us, 0);
    seen->ended++;
}

static bool enough(void *data) {
    const struct seen *seen = data;
    return seen->ended >= seen->stop_after;
}

Test(measure, each_trial_is_told_once) {
    struct trial trials[3];
    struct seen seen = {0, 100};
    measure(trials, (enum fault[]){GOOD, WRONG, GOOD_TOO}, 3, &(struct measure_callbacks){&seen, count_done, enough});
    cr_assert_eq(seen.ended, 3);
}

Test(measure, a_stop_ends_it_soon_and_the_rest_stays_unmeasured) {
    struct trial trials[3];
    struct seen seen = {0, 1};
    struct error error = {0};
    options.timeout_s = 60;
    for (int i = 0; i < 3; i++)
        trials[i] = (struct trial){.template = &faulty, .index = i == 0 ? GOOD : ENDLESS};
    struct measure_callbacks callbacks = {&seen, count_done, enough};
    cr_assert_eq(measurer_run(measurer, workload, &options, trials, 3, &callbacks, &error), -1);
    cr_assert_eq(error.class, ERROR_CANCELLED);
    cr_assert_eq(seen.ended, 1);
    expect_good(&trials[0]);
    cr_assert_eq(trials[1].finished_us, 0);
    measure(trials, (enum fault[]){GOOD}, 1, NULL); /* and it can go on */
    expect_good(&trials[0]);
}

Test(measure, a_program_that_is_no_child_of_ours_is_an_error_of_the_whole) {
    struct measurer *other;
    struct trial trial = {.template = &faulty, .index = GOOD};
    struct error error = {0};
    struct measurer_config config = {
        .program = "/bin/false", .kind = "cpu", .cache_dir = folder, .builders = 1, .templates = templates};
    cr_assert_eq(measurer_new(&config, &other, &error), 0, "%s", error.text);
    cr_assert_eq(measurer_run(other, workload, &options, &trial, 1, NULL, &error), -1);
    cr_assert_neq(error.class, ERROR_CANCELLED);
    measurer_free(other);
}

Test(measure, an_unknown_kind_of_device_is_refused) {
    struct measurer *other;
    struct error error = {0};
    struct measurer_config config = {.kind = "tpu", .cache_dir = folder, .templates = templates};
    cr_assert_eq(measurer_new(&config, &other, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    measurer_free(NULL);
}

/* ---- without children ---- */

Test(trial, its_cost_is_the_median) {
    struct trial trial = {.costs_s = {3, 1, 2}, .n_costs = 3};
    cr_assert_eq(trial_cost(&trial), 2);
    trial.costs_s[3] = 4;
    trial.n_costs = 4;
    cr_assert_eq(trial_cost(&trial), 2.5);
    trial.error_no = TRIAL_RUNTIME;
    cr_assert_eq(trial_cost(&trial), 1e9);
}

Test(trial, each_error_has_a_name) {
    for (int i = 0; i < TRIAL_ERROR_COUNT; i++)
        cr_assert(trial_error_name((enum trial_error)i)[0]);
    cr_assert_str_eq(trial_error_name(TRIAL_WRONG_ANSWER), "wrong_answer");
}

/* A CUDA template that renders the launch which the test is about. */
static struct launch wanted;

static int render_wanted(const struct workload *w, const struct target *target, const struct space *space,
                         int64_t index, struct arena *into, struct program **ret, struct error *error) {
    (void)w, (void)target, (void)space, (void)index, (void)error;
    *ret = arena_alloc(into, sizeof **ret);
    **ret = (struct program){.source = "", .run = &wanted, .n_run = 1};
    return 0;
}

static const struct template gpu_template = {"wanted.cuda", 1, "cuda", serves, make_space, fallback, render_wanted};

static void expect_launch(struct launch launch, const char *refusal) {
    static const struct template *const list[] = {&gpu_template, NULL};
    struct arena *memory = arena_new(0);
    struct workload *relu;
    struct target target;
    struct program *program;
    struct error error = {0};
    cr_assert_eq(target_of_arch("sm_90a", &target, &error), 0);
    cr_assert_eq(workload_parse(key, memory, &relu, &error), 0);
    wanted = launch;
    int rc = instantiate(list, "wanted.cuda", relu, &target, 0, memory, &program, &error);
    cr_assert_eq(rc, refusal ? -1 : 0, "%s", error.text);
    if (refusal) {
        cr_assert_eq(error.class, ERROR_INVALID);
        cr_assert(strstr(error.text, refusal), "%s", error.text);
    }
    arena_free(memory);
}

Test(instantiate, what_the_device_cannot_launch_is_refused_before_it_is_built) {
    expect_launch((struct launch){"f", 0, {{0}}, 0, {1, 1, 1}, {256, 1, 1}, 200 << 10}, NULL);
    expect_launch((struct launch){"f", 0, {{0}}, 0, {1, 1, 1}, {256, 1, 1}, 300 << 10}, "shared memory");
    expect_launch((struct launch){"f", 0, {{0}}, 0, {1, 1, 1}, {1024, 2, 1}, 0}, "2048 threads");
    expect_launch((struct launch){"f", 0, {{0}}, 0, {1, 1, 1}, {1, 1, 128}, 0}, "block of 128");
    expect_launch((struct launch){"f", 0, {{0}}, 0, {1, 70000, 1}, {32, 1, 1}, 0}, "grid of 70000");
    expect_launch((struct launch){"f", 0, {{0}}, 0, {0, 1, 1}, {32, 1, 1}, 0}, "grid of 0");
    expect_launch((struct launch){"f", 1, {{ARG_OUT, 1}}, 0, {1, 1, 1}, {32, 1, 1}, 0}, "Argument 0");
    expect_launch((struct launch){"f", 49, {{0}}, 0, {1, 1, 1}, {32, 1, 1}, 0}, "49 arguments");
}
