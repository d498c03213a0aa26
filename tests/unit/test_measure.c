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
    GOOD_TOO,
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
    [GOOD_TOO] = "if (begin < end) " LOOP(RELU),
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
    expect_launch((struct launch){"f", 17, {{0}}, 0, {1, 1, 1}, {32, 1, 1}, 0}, "17 arguments");
}
