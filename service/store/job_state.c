/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "service/store/job_store.h"

static const char *const names[JOB_STATE_COUNT] = {
    [JOB_QUEUED] = "queued",       [JOB_RUNNING] = "running", [JOB_PAUSED] = "paused",
    [JOB_SUCCEEDED] = "succeeded", [JOB_FAILED] = "failed",   [JOB_CANCELLED] = "cancelled",
};

/* From a row's state to a column's. Back from failed and cancelled is a retry. */
static const bool moves[JOB_STATE_COUNT][JOB_STATE_COUNT] = {
    [JOB_QUEUED] = {[JOB_RUNNING] = true, [JOB_PAUSED] = true, [JOB_FAILED] = true, [JOB_CANCELLED] = true},
    [JOB_RUNNING] = {[JOB_PAUSED] = true, [JOB_SUCCEEDED] = true, [JOB_FAILED] = true, [JOB_CANCELLED] = true},
    [JOB_PAUSED] = {[JOB_QUEUED] = true, [JOB_RUNNING] = true, [JOB_FAILED] = true, [JOB_CANCELLED] = true},
    [JOB_FAILED] = {[JOB_QUEUED] = true},
    [JOB_CANCELLED] = {[JOB_QUEUED] = true},
};

const char *job_state_name(enum job_state state) {
    return names[state];
}

int job_state_parse(const char *name, enum job_state *ret, struct error *error) {
    for (int i = 0; i < JOB_STATE_COUNT; i++)
        if (strcmp(names[i], name) == 0) {
            *ret = (enum job_state)i;
            return 0;
        }
    return error_set(error, ERROR_INVALID, "bad-state", "state",
                     "'%.40s' is no state: queued, running, paused, succeeded, failed or cancelled.", name);
}

bool job_state_ended(enum job_state state) {
    return state == JOB_SUCCEEDED || state == JOB_FAILED || state == JOB_CANCELLED;
}

bool job_state_may(enum job_state from, enum job_state to) {
    return moves[from][to];
}
