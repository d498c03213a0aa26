/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "service/commands.h"
#include "service/options.h"
#include "service/serving.h"
#include "service/store/project_store.h"

enum { MODEL_BYTES, OPEN_JOBS, GPU_SECONDS, DATA_DIR, DATABASE_URL, HELP, N_OPTIONS };

static void print_help(void) {
    puts(
        "usage: warptune project create NAME [--model-bytes N] [--open-jobs N] [--gpu-seconds N]\n"
        "       warptune project list\n\n"
        "The projects of the database (--database-url URL, or the private one in --data-dir DIR, whether or not a\n"
        "server runs on it). What a project may have: bytes of models, jobs that have not ended, seconds of GPUs in a\n"
        "day of UTC; without the option as much as it likes.");
}

static int create(struct serving *serving, const char *name, const struct project_quotas *quotas, struct error *error) {
    struct project_new wanted = {.name = name, .quotas = *quotas, .configs.visibility = VISIBLE_PUBLIC};
    struct project_row *project;
    if (project_create(serving->db, &wanted, serving->arena, &project, error) < 0)
        return -1;
    puts(project->id);
    return 0;
}

static void print_quota(const char *name, double used, int64_t quota) {
    if (quota == QUOTA_NONE)
        printf("  %.0f %s", used, name);
    else
        printf("  %.0f/%lld %s", used, (long long)quota, name);
}

static int list(struct serving *serving, struct error *error) {
    const char *after = NULL;
    for (bool more = true; more;) {
        struct project_row *projects;
        int n;
        if (project_list(serving->db, after, 1000, serving->arena, &projects, &n, &more, error) < 0)
            return -1;
        for (int i = 0; i < n; i++) {
            const struct project_row *project = &projects[i];
            printf("%s  %-20s", project->id, project->name);
            print_quota("open jobs", (double)project->open_jobs, project->quotas.open_jobs);
            print_quota("bytes of models", (double)project->model_bytes, project->quotas.model_bytes);
            print_quota("GPU seconds today", project->gpu_s, project->quotas.gpu_s);
            putchar('\n');
            after = project->id;
        }
    }
    return 0;
}

static int run(struct serving *serving, const char *name, const struct option_spec *specs, struct error *error) {
    struct project_quotas quotas;
    int64_t most = INT64_C(1) << 53;
    if (option_number(&specs[MODEL_BYTES], 0, most, QUOTA_NONE, &quotas.model_bytes, error) < 0 ||
        option_number(&specs[OPEN_JOBS], 0, most, QUOTA_NONE, &quotas.open_jobs, error) < 0 ||
        option_number(&specs[GPU_SECONDS], 0, most, QUOTA_NONE, &quotas.gpu_s, error) < 0 ||
        serving_open_beside(serving, option_text(&specs[DATA_DIR], NULL), option_text(&specs[DATABASE_URL], NULL),
                            error) < 0)
        return -1;
    return name ? create(serving, name, &quotas, error) : list(serving, error);
}

int cmd_project(int argc, char **argv) {
    struct option_spec specs[N_OPTIONS] = {
        [MODEL_BYTES] = {"--model-bytes"}, [OPEN_JOBS] = {"--open-jobs"},       [GPU_SECONDS] = {"--gpu-seconds"},
        [DATA_DIR] = {"--data-dir"},       [DATABASE_URL] = {"--database-url"}, [HELP] = {"--help", "-h", true}};
    const char *words[2] = {NULL, NULL};
    struct serving serving = {0};
    struct error error;
    int n_words;
    if (options_parse(argc, argv, specs, N_OPTIONS, words, 2, &n_words, &error) < 0)
        return command_misused("project", "%s", error.text);
    if (specs[HELP].n_values) {
        print_help();
        return 0;
    }
    bool creates = n_words == 2 && strcmp(words[0], "create") == 0;
    if (!creates && !(n_words == 1 && strcmp(words[0], "list") == 0))
        return command_misused("project", "Is it create NAME, or list?");
    int status = run(&serving, creates ? words[1] : NULL, specs, &error) < 0 ? command_failed("project", &error) : 0;
    serving_close(&serving);
    return status;
}
