/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child_call.h: one function call in a limited child process: a JSON object in, a JSON object or an error out.
 *
 * The child runs, answers once and ends; errors pass through whole. Both ends are here.
 */
#ifndef WARPTUNE_BASE_CHILD_CALL_H
#define WARPTUNE_BASE_CHILD_CALL_H

#include "service/base/child.h"
#include "service/base/json.h"

/* ---- the parent's end ---- */

struct child_call {
    const char *program;  /* NULL: this one */
    const char *role;     /* runs `program child ROLE` */
    int64_t memory_bytes; /* limits as in child.h; 0 for none */
    int cpu_s;
    bool no_network;
    enum sandbox sandbox;
    bool (*stop)(void *data); /* asked twice a second; true: ERROR_CANCELLED. Optional */
    void *data;
};

/*
 * *ret_answer is the caller's. The child's own error comes back as it was set there. When it dies without an answer,
 * the error is ERROR_IO "child-died" with how in its text, and *ret_status is waitpid's; otherwise that is untouched.
 * The child is gone when this returns.
 */
int child_call(const struct child_call *call, struct json_object *request, int64_t deadline,
               struct json_object **ret_answer, int *ret_status, struct error *error) MUST_CHECK;

/* ---- the child's end ---- */

/*
 * Receives the request, calls answer(data, request, reply, error), which fills `reply` and returns 0, or -1 with an
 * error, and sends what came out. What the process prints meanwhile goes to standard error. Returns the exit status.
 */
int child_answer(int (*answer)(void *data, struct json_object *request, struct json_object *reply, struct error *error),
                 void *data);

#endif
