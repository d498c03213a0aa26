/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_show.h: what `warptune tune` shows of a job: a line on standard output for each thing that happened, and on a
 * terminal one that the next replaces for how a search gets on. Text of a server is shown without control characters.
 * Used by one thread.
 */
#ifndef WARPTUNE_TUNE_SHOW_H
#define WARPTUNE_TUNE_SHOW_H

#include <stdbool.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct json_object;

struct tune_show {
    bool on_terminal; /* else no line replaces another: there would be too many */
    bool line_open;   /* the last one is to be replaced */
    char end[24];     /* the state that the job ended in; empty before */
};

/* A line that stays; one that was open gives way. */
void tune_show_line(struct tune_show *show, const char *format, ...) PRINTF_LIKE(2, 3);
/* The open line stays as it is: what is written next begins below. */
void tune_show_close_line(struct tune_show *show);
/* An event of the job, as an event_reader hands it over; `show` is a struct tune_show. False at the last one. */
bool tune_show_event(void *show, const char *name, const char *data);
/* What came of the job that ended, as GET /v1/jobs/{id} has it; when it is not a success, that is the error. */
int tune_show_end(struct tune_show *show, struct json_object *job, struct error *error) MUST_CHECK;

/* On standard error, after an interruption: the job goes on at a server, and how to follow or cancel it. */
void tune_show_left(const char *job, const char *server, bool with_token);
/* The same of a server that ended with us. `devices`: as they were asked for; NULL: they were not. */
void tune_show_kept(const char *job, const char *data_dir, const char *devices);

#endif
