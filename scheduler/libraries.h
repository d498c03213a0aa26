/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.h: whether a job's candidates may rest on a library of NVIDIA's (template.h's `library`), and whether what
 * is known of one holds for the library that is here: cuDNN's plans go by their place in its proposals, which another
 * version orders otherwise.
 */
#ifndef WARPTUNE_SCHEDULER_LIBRARIES_H
#define WARPTUNE_SCHEDULER_LIBRARIES_H

#include "gpu/template/template.h"
#include "scheduler/job_options.h"

struct json_object;

/* The job allows it, the device is a GPU, and this host has cuDNN 9. */
bool libraries_wanted(const struct target *target, const struct job_options *options);
/* Adds to a configuration's provenance the version of the library that its template needs, if it needs one. */
void libraries_note(const struct template *template, struct json_object *provenance);
/* Whether a configuration of this provenance, as text, means here what it meant there. */
bool libraries_same(const struct template *template, const char *provenance);

#endif
