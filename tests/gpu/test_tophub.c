/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every published record of a tuning log, built and run on the GPU: each must map to its workload and configuration,
 * give the plain kernel's answer and be timed.
 *
 *     test_tophub [LOG]            default tophub/cuda.log in the shared folder ($WARPTUNE_SHARED, or ../shared)
 *
 * The records are spread over a few processes of this program (`test_tophub part LOG I OF`), which measure side by
 * side: correctness is at stake here, not time. Without a GPU it says so and succeeds.
 */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/measure/measure.h"
#include "gpu/template/autotvm_log.h"
#include "gpu/template/autotvm_map.h"
#include "service/base/file.h"
#include "tests/unit/tophub_log.h"

extern char **environ;

enum { PARTS = 8, MOST_LOG = 16 << 20 };

struct part {
    long number, of;
    struct measurer *measurer;
    struct autotvm_mapper *mapper;
    int64_t seen;
    int passed, failed;
};

static void report(struct part *part, const struct autotvm_line *line, const struct autotvm_fit *fit,
                   const char *failure, double cost_s) {
    part->passed += !failure;
    part->failed += failure != NULL;
    if (failure)
        printf("not ok - line %lld, %s: %s\n", (long long)line->number, fit ? fit->key : "not mapped", failure);
    else
        printf("ok - line %lld: %.2f us\n", (long long)line->number, cost_s * 1e6);
    fflush(stdout);
}

static int measure_record(void *data, const struct autotvm_line *line, const struct autotvm_record *record,
                          struct error *error) {
    struct part *part = data;
    struct autotvm_fit fit;
    if (part->seen++ % part->of != part->number)
        return 0;
    if (autotvm_map(part->mapper, record, &fit, error) < 0) {
        report(part, line, NULL, error->text, 0);
        return 0;
    }
    struct trial trial = {.template = fit.template, .index = fit.index};
    if (measurer_run(part->measurer, fit.workload, &measure_defaults, &trial, 1, NULL, error) < 0)
        report(part, line, &fit, error->text, 0);
    else
        report(part, line, &fit, trial.error_no ? trial.error_text : NULL, trial_cost(&trial));
    return 0;
}

static int run_part(const char *path, long number, long of) {
    CLEANUP(buf_release) struct buf log = BUF_INIT(MOST_LOG);
    struct error error;
    struct autotvm_log counts;
    char cache[] = "/tmp/warptune-tophub.XXXXXX";
    struct arena *arena = arena_new(0);
    struct part part = {.number = number, .of = of, .mapper = autotvm_mapper_new(template_builtin)};
    struct measurer_config config = {
        .kind = "cuda", .cache_dir = mkdtemp(cache), .builders = 2, .templates = template_builtin};
    if (!config.cache_dir || file_read(path, MOST_LOG, &log, &error) < 0 ||
        measurer_new(&config, &part.measurer, &error) < 0 ||
        autotvm_log_each(buf_str(&log), log.len, measure_record, &part, arena, &counts, &error) < 0) {
        printf("not ok - part %ld: %s\n", number, config.cache_dir ? error.text : strerror(errno));
        part.failed++;
    }
    measurer_free(part.measurer);
    autotvm_mapper_free(part.mapper);
    arena_free(arena);
    if (config.cache_dir && file_remove_tree(cache, &error) < 0)
        printf("# %s\n", error.text);
    printf("%d passed, %d failed\n", part.passed, part.failed);
    return part.failed > 0 || part.passed == 0;
}

static int run_all(const char *program, const char *path) {
    pid_t pids[PARTS];
    int bad = 0;
    for (int i = 0; i < PARTS; i++) {
        char number[8], of[8];
        snprintf(number, sizeof number, "%d", i);
        snprintf(of, sizeof of, "%d", PARTS);
        char *const argv[] = {(char *)(uintptr_t)program, "part", (char *)(uintptr_t)path, number, of, NULL};
        if (posix_spawn(&pids[i], "/proc/self/exe", NULL, NULL, argv, environ) != 0)
            pids[i] = -1;
    }
    for (int i = 0; i < PARTS; i++) {
        int status = 1;
        if (pids[i] < 0 || waitpid(pids[i], &status, 0) < 0 || status != 0)
            bad++;
    }
    printf("%d parts passed, %d failed\n", PARTS - bad, bad);
    return bad > 0;
}

int main(int argc, char **argv) {
    struct error error;
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return strcmp(argv[2], "build") == 0 ? builder_child_main(template_builtin)
                                             : runner_child_main(template_builtin);
    if (argc == 5 && strcmp(argv[1], "part") == 0)
        return run_part(argv[2], strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10));
    if (device_cuda.count(&error) == 0) {
        printf("# skipped: %s\n0 passed, 0 failed\n", error.text);
        return 0;
    }
    char path[TOPHUB_MAX_PATH];
    const char *log = argc > 1 ? argv[1] : tophub_log(path);
    return log ? run_all(argv[0], log) : 0;
}
