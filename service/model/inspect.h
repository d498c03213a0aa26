/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inspect.h: what a model file holds, found out in a limited child, so that a hostile file harms nobody.
 *
 * `warptune child inspect` maps the file, imports and fuses it, and answers with a summary; the caller sees only that.
 * The child may use memory of four times the file and 1 GiB, 60 s of processor time, and no network.
 */
#ifndef WARPTUNE_MODEL_INSPECT_H
#define WARPTUNE_MODEL_INSPECT_H

#include "service/model/graph.h"
#include "service/model/precision.h"
#include "service/model/workload.h"

struct model_tensor {
    const char *name;
    enum dtype dtype;
    struct shape shape;
};

struct model_operator {
    const char *name; /* "conv2d" */
    int count;
};

struct model_task {
    const char *workload; /* canonical text */
    const char *first;    /* name of the first node that has it */
    int count;
    int64_t flops, bytes;
};

struct model_summary {
    const char *graph_name;
    struct model_tensor *inputs, *outputs;
    struct model_operator *operators; /* of the fused graph */
    struct model_task *tasks;
    int n_inputs, n_outputs, n_operators, n_tasks;
    int64_t source_operators; /* nodes of the file */
    int64_t parameters;       /* elements of all constants after fusing */
    int64_t flops;
};

struct inspect_options {
    const char *program; /* the executable that answers `child inspect`; NULL: this one */
    int64_t batch;
    enum precision precision;
    enum layout layout;
};

/*
 * The summary lives in `arena`. Errors are the importer's; a child that died of its limits is ERROR_LIMIT, one
 * that crashed ERROR_INVALID.
 */
int model_inspect(const char *path, const struct inspect_options *options, int64_t deadline, struct arena *arena,
                  struct model_summary **ret, struct error *error) MUST_CHECK;

/* `warptune child inspect`: one request on standard input, one answer on standard output. Exit status. */
int inspect_child_main(void);

#endif
