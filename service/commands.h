/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h: the verbs of the command line, one file each (cmd_….c). Each gets argv from its own name on, prints what
 * it found to standard output and what went wrong to standard error, and returns the exit status: 0 done, 1 failed,
 * 2 the command line was wrong.
 */
#ifndef WARPTUNE_COMMANDS_H
#define WARPTUNE_COMMANDS_H

#include "service/base/error.h"

int cmd_serve(int argc, char **argv);     /* the HTTP server, with a worker beside it */
int cmd_worker(int argc, char **argv);    /* a worker alone */
int cmd_tune(int argc, char **argv);      /* a client of a server: a network tuned from here */
int cmd_migrate(int argc, char **argv);   /* bring the schema up to date */
int cmd_token(int argc, char **argv);     /* API tokens: made, listed, revoked */
int cmd_project(int argc, char **argv);   /* projects: made, listed */
int cmd_doctor(int argc, char **argv);    /* what this machine has and lacks */
int cmd_bank(int argc, char **argv);      /* compile ahead of any job */
int cmd_sample(int argc, char **argv);    /* write a network with random weights */
int cmd_reference(int argc, char **argv); /* compute a network's expected output on the host */
int cmd_run(int argc, char **argv);       /* load and run a module */
int cmd_child(int argc, char **argv);     /* the child processes of the above; not for people */

/* The exit status of `serve` when another process has the data folder. */
enum { COMMAND_FOLDER_TAKEN = 3 };

/* Prints «warptune VERB: text» to standard error; returns 1, or 2 when the error is about the command line. */
int command_failed(const char *verb, const struct error *error);
/* The same for a command line that makes no sense. Returns 2. */
int command_misused(const char *verb, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
