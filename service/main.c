/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "service/commands.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; /* NULL: not for people */
};

static const struct command commands[] = {
    {"serve", cmd_serve, "the HTTP server, with a worker beside it"},
    {"worker", cmd_worker, "a worker alone, for a server's database on this or another host"},
    {"tune", cmd_tune, "tune a network on a server: upload, submit, follow, download"},
    {"migrate", cmd_migrate, "bring the database's schema up to date"},
    {"token", cmd_token, "make, list and revoke the API tokens of a project"},
    {"project", cmd_project, "make and list projects"},
    {"doctor", cmd_doctor, "say what of CUDA, NVRTC, cuDNN, compiler and PostgreSQL is found here"},
    {"bank", cmd_bank, "compile the kernels that serve every shape, ahead of any job"},
    {"sample", cmd_sample, "write a well-known network with random weights as ONNX"},
    {"reference", cmd_reference, "compute a network's expected output with plain loops on the host"},
    {"run", cmd_run, "load a compiled module, run it, compare and time it"},
    {"child", cmd_child, NULL},
};

int command_failed(const char *verb, const struct error *error) {
    fprintf(stderr, "warptune %s: %s\n", verb, error->text);
    return 1;
}

int command_misused(const char *verb, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "warptune %s: ", verb);
    vfprintf(stderr, format, args);
    fprintf(stderr, " See `warptune %s --help`.\n", verb);
    va_end(args);
    return 2;
}

static void print_help(FILE *to) {
    fputs("Warptune tunes convolutional networks for the GPU, or CPU, that they will run on.\n\n"
          "usage: warptune VERB [options]     (`warptune VERB --help` tells more)\n\n",
          to);
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++)
        if (commands[i].summary)
            fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
}

int main(int argc, char **argv) {
    /* A peer that went away is an error of the write that found it, not the end of the process. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("warptune " WARPTUNE_VERSION);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++)
        if (strcmp(commands[i].name, argv[1]) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "warptune: there is no verb '%s'; `warptune --help` lists them.\n", argv[1]);
    return 2;
}
