/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/options.h"
#include "service/settings.h"

static int load(struct settings *settings, struct arena *arena, struct error *error, int argc, ...) {
    char *argv[16] = {"serve"};
    va_list args;
    va_start(args, argc);
    for (int i = 1; i <= argc; i++)
        argv[i] = va_arg(args, char *);
    va_end(args);
    return settings_load(settings, argc + 1, argv, arena, error);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

Test(settings, command_line_beats_environment_beats_file_beats_default) {
    struct arena *arena = arena_new(0);
    struct settings settings;
    struct error error = {0};
    char path[] = "/tmp/warptune-settings-XXXXXX";
    close(mkstemp(path));
    write_file(path, "# a comment\n\n  key = from-file \nlog-level = debug\nmax-waiters=7\n");
    setenv("WARPTUNE_CONFIG", path, 1);
    setenv("WARPTUNE_KEY", "from-environment", 1);
    cr_assert_eq(load(&settings, arena, &error, 3, "--key=from-command-line", "--no-worker", "--max-waiters=9"), 0,
                 "%s", error.text);
    cr_assert_str_eq(settings.key, "from-command-line");
    cr_assert_str_eq(settings.log_level, "debug");
    cr_assert_eq(settings.max_waiters, 9);
    cr_assert(settings.no_worker);
    cr_assert_str_eq(settings.listen, "127.0.0.1:8080");
    cr_assert_eq(load(&settings, arena, &error, 0), 0);
    cr_assert_str_eq(settings.key, "from-environment");
    cr_assert_eq(settings.max_waiters, 7);
    unlink(path);
    arena_free(arena);
}

Test(settings, what_is_off_is_named) {
    struct arena *arena = arena_new(0);
    struct settings settings;
    struct error error = {0};
    cr_assert_eq(load(&settings, arena, &error, 2, "--lisen", "x"), -1);
    cr_assert_str_eq(error.field, "--lisen");
    cr_assert_eq(load(&settings, arena, &error, 2, "--max-waiters", "many"), -1);
    cr_assert_str_eq(error.field, "max-waiters");
    cr_assert_eq(load(&settings, arena, &error, 2, "--max-waiters", "0"), -1);
    cr_assert_eq(load(&settings, arena, &error, 1, "--listen"), -1);
    cr_assert_str_eq(error.code, "missing-value");
    cr_assert_eq(load(&settings, arena, &error, 2, "--config", "/nonexistent/file"), -1);
    arena_free(arena);
}

Test(options, values_flags_and_positionals_are_told_apart) {
    struct option_spec specs[] = {{"--input"}, {"-o", "--output"}, {"--help", NULL, true}};
    char *argv[] = {"run", "--input", "a", "module.so", "--input=b", "--help", "-o", "c"};
    const char *positional;
    int count;
    struct error error = {0};
    cr_assert_eq(options_parse(8, argv, specs, 3, &positional, 1, &count, &error), 0, "%s", error.text);
    cr_assert_eq(count, 1);
    cr_assert_str_eq(positional, "module.so");
    cr_assert_eq(specs[0].n_values, 2);
    cr_assert_str_eq(specs[0].values[1], "b");
    cr_assert_str_eq(option_text(&specs[1], "none"), "c");
    cr_assert_eq(specs[2].n_values, 1);
}

Test(options, unknown_missing_and_surplus_are_refused) {
    struct option_spec specs[] = {{"--repeat"}};
    const char *positional;
    int count;
    int64_t number;
    struct error error = {0};
    char *unknown[] = {"run", "--wat"}, *missing[] = {"run", "--repeat"}, *surplus[] = {"run", "a", "b"},
         *bad[] = {"run", "--repeat", "3x"};
    cr_assert_eq(options_parse(2, unknown, specs, 1, &positional, 1, &count, &error), -1);
    cr_assert_eq(options_parse(2, missing, specs, 1, &positional, 1, &count, &error), -1);
    cr_assert_eq(options_parse(3, surplus, specs, 1, &positional, 1, &count, &error), -1);
    cr_assert_eq(options_parse(3, bad, specs, 1, &positional, 1, &count, &error), 0);
    cr_assert_eq(option_number(&specs[0], 1, 10, 5, &number, &error), -1);
    cr_assert_str_eq(error.field, "--repeat");
}
