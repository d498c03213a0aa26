/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h: a fused graph turned into a list of launches over buffers: the network as the runtime executes it.
 *
 * Chooses each value's layout, inserts the copies that change one (ONNX's row-major order at the network's edge), makes
 * a view of a reshape where memory order allows it, renders every node's program, and places activations and scratch
 * in one workspace by their lifetimes, so that values that never live together share memory.
 */
#ifndef WARPTUNE_MODULE_PLAN_H
#define WARPTUNE_MODULE_PLAN_H

#include "gpu/template/template.h"
#include "service/model/graph.h"

/* The configuration chosen for a workload. */
struct plan_choice {
    const char *workload; /* canonical text */
    const char *template;
    int64_t index;
};

struct plan_options {
    struct target target;
    enum layout layout; /* of rank-4 activations */
    const struct template *const *templates;
    const struct plan_choice *choices; /* workloads not listed use their template's fallback */
    int n_choices;
};

/* A distinct program of the network; steps refer to it. */
struct plan_program {
    const char *workload; /* canonical text */
    const struct template *template;
    int64_t index;
    const char *entity; /* the configuration as JSON, see space_entity */
    struct program *program;
    int count; /* nodes that it computes */
};

enum plan_buffer_kind {
    PLAN_WORKSPACE, /* `offset` in the workspace */
    PLAN_CONSTANT,  /* `data` (or one element of it, when splat), stored in the module */
    PLAN_PREPARED,  /* allocated at load, written by prepare launches */
    PLAN_INPUT,     /* network's input `index` */
    PLAN_OUTPUT,    /* network's output `index` */
};

struct plan_buffer {
    enum plan_buffer_kind kind;
    int index;
    size_t bytes, offset;
    const void *data;
    bool splat;
    size_t element_bytes;
};

/* One launch with its buffers, in order of execution. */
struct plan_step {
    int program;                  /* index into plan->programs */
    const struct launch *launch;  /* of that program */
    int buffers[LAUNCH_MAX_ARGS]; /* index into plan->buffers, one an argument; -1: a value */
    const char *node;             /* for people */
};

struct plan_tensor {
    const char *name;
    enum dtype dtype;
    struct shape shape;
};

struct plan {
    struct plan_program *programs;
    struct plan_buffer *buffers;
    struct plan_step *prepare, *run;
    struct plan_tensor *inputs, *outputs;
    int n_programs, n_buffers, n_prepare, n_run, n_inputs, n_outputs;
    size_t workspace_bytes;
};

/*
 * Everything lives in `arena`, constants where the graph has them. ERROR_INVALID when a choice names a template that is
 * not there or a configuration outside its space; ERROR_DEVICE when no template serves a node.
 */
int plan_graph(const struct graph *graph, const struct plan_options *options, struct arena *arena, struct plan **ret,
               struct error *error) MUST_CHECK;

#endif
