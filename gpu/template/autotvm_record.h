/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_record.h: one line of AutoTVM's tuning log, record version 0.2, read and written without loss.
 *
 *   {"input": [target, task, args, {}],
 *    "config": {"index": 7, "code_hash": null, "entity": [["tile_f", "sp", [-1, 2, 16, 1]], …]},
 *    "result": [[costs], error_no, all_cost, timestamp], "version": 0.2, "tvm_version": "0.7.dev1"}
 *
 * AutoTVM passes over members that it does not know, so a member of our own ("warptune") may say more about a record.
 * What a line means in our words is autotvm_map.h's affair, whole logs are autotvm_log.h's.
 */
#ifndef WARPTUNE_TEMPLATE_AUTOTVM_RECORD_H
#define WARPTUNE_TEMPLATE_AUTOTVM_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/arena.h"
#include "service/base/buf.h"
#include "service/base/error.h"

struct json_object;

enum {
    AUTOTVM_MAX_LINE = 64 << 10, /* bytes; published ones have about 600 */
    AUTOTVM_MAX_TARGET = 2000,   /* bytes of the target's text */
    AUTOTVM_MAX_NAME = 200,      /* bytes of the task's name and of the version's */
    AUTOTVM_MAX_COSTS = 1000,
    AUTOTVM_MAX_ERROR = 8, /* the largest error_no there is */
};

/* Cost of a failed trial, in seconds. */
#define AUTOTVM_FAILED_S 1e9

/* JSON values are borrowed: from the line's own, which the arena releases, or from whoever makes a record to write. */
struct autotvm_record {
    const char *target; /* "cuda -model=v100" */
    const char *task;   /* "conv2d_nchw.cuda" */
    struct json_object *args;
    struct json_object *kwargs; /* NULL: {} */
    int64_t index;
    const char *code_hash; /* NULL: null */
    struct json_object *entity;
    const double *costs_s; /* at least one */
    int n_costs;
    int error_no;
    double all_cost_s;                /* building and measuring */
    double timestamp_s;               /* since 1970 */
    double version;                   /* 0.2 */
    const char *tvm_version;          /* NULL: not said */
    struct json_object *extra;        /* other members of the line; NULL: none */
    struct json_object *config_extra; /* other members of its config; NULL: none */
};

/*
 * Reads one line, without its end. ERROR_INVALID says what is wrong and has the member at fault as field ("input",
 * "config.index", "result", …); a line of another version is "record-version".
 */
int autotvm_record_parse(const char *line, size_t len, struct arena *arena, struct autotvm_record *ret,
                         struct error *error) MUST_CHECK;
/* One line with its end. Numbers keep their value; a null code_hash stands for one that was left out, too. */
void autotvm_record_write(const struct autotvm_record *record, struct buf *ret);

/* The mean of the costs, by which AutoTVM ranks; AUTOTVM_FAILED_S for a failed trial. */
double autotvm_record_cost(const struct autotvm_record *record);

#endif
