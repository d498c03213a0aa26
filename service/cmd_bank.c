/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/device/device.h"
#include "gpu/measure/warm.h"
#include "service/base/clock.h"
#include "service/commands.h"
#include "service/options.h"
#include "service/settings.h"

#define BUILD_TIMEOUT_S 120

enum { DEVICE, ARCH, DATA_DIR, BUILDERS, LIST, HELP, N_OPTIONS };

static void print_help(void) {
    puts(
        "usage: warptune bank [--device cuda:N | --arch sm_90a] [--data-dir DIR] [--builders N] [--list]\n\n"
        "Compiles the kernels that take shapes as arguments into the data folder's code cache, so that searches among\n"
        "them compile nothing. Without --device: for cuda:0; --arch needs no GPU. --list only counts them.");
}

/* "cuda:1" on this host, or what stands for an architecture. */
static int find_target(const struct option_spec *specs, struct target *ret, struct error *error) {
    const char *arch = option_text(&specs[ARCH], NULL), *device = option_text(&specs[DEVICE], "cuda:0");
    struct device_info info;
    char *end = NULL;
    if (arch)
        return target_of_arch(arch, ret, error);
    long ordinal = strncmp(device, "cuda:", 5) == 0 ? strtol(device + 5, &end, 10) : -1;
    if (ordinal < 0 || ordinal > 1024 || end == device + 5 || *end)
        return error_set(error, ERROR_INVALID, "bad-option", "--device", "--device is cuda:0, cuda:1, …, not '%.40s'.",
                         device);
    const struct device_class *class = device_class_find("cuda");
    if (class->describe((int)ordinal, &info, error) < 0)
        return -1;
    *ret = info.target;
    return 0;
}

static void show_progress(void *data, int n_done, int n) {
    (void)data;
    fprintf(stderr, "\r%d of %d%s", n_done, n, n_done == n ? "\n" : "");
}

static int fill(const struct option_spec *specs, const struct target *target, const struct bank_entry *entries, int n,
                struct arena *arena, struct error *error) {
    struct settings settings;
    struct warm_result result;
    char *none[] = {"bank", NULL};
    int64_t builders;
    if (settings_load(&settings, 1, none, arena, error) < 0 ||
        option_number(&specs[BUILDERS], 0, 256, settings.builders, &builders, error) < 0)
        return -1;
    const char *data_dir = option_text(&specs[DATA_DIR], settings.data_dir);
    struct warm_options options = {.cache_dir = arena_printf(arena, "%s/code", data_dir),
                                   .target = target,
                                   .builders = (int)builders,
                                   .build_timeout_s = BUILD_TIMEOUT_S,
                                   .progress = isatty(STDERR_FILENO) ? show_progress : NULL};
    int64_t begin = clock_now_ns();
    if (warm_cache(&options, entries, n, &result, error) < 0)
        return -1;
    printf("%d programs for %s in %s: %d compiled (%.1f s of compilers), %d there before, %d failed; %.1f MB, %.1f s\n",
           n, target->arch, options.cache_dir, result.compiled, result.compile_s, result.hits, result.failed,
           (double)result.bytes / 1e6, (double)(clock_now_ns() - begin) / NS_PER_S);
    if (result.failed > 0)
        return error_set(error, ERROR_DEVICE, "compile-failed", NULL, "%d programs failed; the first: %.800s",
                         result.failed, result.text);
    return 0;
}

int cmd_bank(int argc, char **argv) {
    struct option_spec specs[N_OPTIONS] = {[DEVICE] = {"--device"},         [ARCH] = {"--arch"},
                                           [DATA_DIR] = {"--data-dir"},     [BUILDERS] = {"--builders"},
                                           [LIST] = {"--list", NULL, true}, [HELP] = {"--help", "-h", true}};
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct bank_entry *entries;
    struct target target;
    struct error error;
    int n, n_positional;
    if (options_parse(argc, argv, specs, N_OPTIONS, NULL, 0, &n_positional, &error) < 0)
        return command_misused("bank", "%s", error.text);
    if (specs[HELP].n_values) {
        print_help();
        return 0;
    }
    if (find_target(specs, &target, &error) < 0)
        return command_failed("bank", &error);
    bank_list(&target, arena, &entries, &n);
    if (specs[LIST].n_values) {
        printf("%d programs for %s\n", n, target.arch);
        return 0;
    }
    return fill(specs, &target, entries, n, arena, &error) < 0 ? command_failed("bank", &error) : 0;
}
