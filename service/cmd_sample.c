/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "service/base/arena.h"
#include "service/commands.h"
#include "service/model/sample.h"
#include "service/options.h"

static void print_help(void) {
    puts("usage: warptune sample NAME [--batch N] [--seed N] [-o FILE]\n\n"
         "Writes a network with seeded random weights as ONNX, to NAME.onnx unless -o says otherwise.\n\nnetworks:");
    for (const char *const *name = sample_names(); *name; name++)
        printf("  %s\n", *name);
}

int cmd_sample(int argc, char **argv) {
    struct error error;
    enum { BATCH, SEED, OUTPUT, HELP };
    struct option_spec specs[] = {
        [BATCH] = {"--batch"}, [SEED] = {"--seed"}, [OUTPUT] = {"-o", "--output"}, [HELP] = {"--help", "-h", true}};
    const char *name = NULL;
    int n_names;
    if (options_parse(argc, argv, specs, ARRAY_COUNT(specs), &name, 1, &n_names, &error) < 0)
        return command_misused("sample", "%s", error.text);
    if (specs[HELP].n_values) {
        print_help();
        return 0;
    }
    if (!name)
        return command_misused("sample", "Which network?");
    int64_t batch_size, seed_value;
    if (option_number(&specs[BATCH], 0, 65536, 1, &batch_size, &error) < 0 ||
        option_number(&specs[SEED], 0, INT64_MAX, 0, &seed_value, &error) < 0)
        return command_misused("sample", "%s", error.text);
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    const char *path = option_text(&specs[OUTPUT], arena_printf(arena, "%s.onnx", name));
    if (sample_write(name, batch_size, (uint64_t)seed_value, path, &error) < 0)
        return command_failed("sample", &error);
    return 0;
}
