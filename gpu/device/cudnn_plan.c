/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cudnn_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/cudnn_backend.h"

enum { MOST_PLANS = 160, MOST_RESULTS = 128, MOST_KNOBS = 64, MOST_NOTES = 16, TEXT = 256 };

struct proposal {
    void *config;
    void *plan; /* NULL: not built */
    size_t workspace;
    bool compiles;
    char text[TEXT];
};

struct cudnn_plans {
    struct cudnn *cudnn;
    int n_args;
    bool exact; /* f32: tensor cores are not */
    struct dnn_set set;
    struct proposal proposals[MOST_PLANS];
    int n;
};

int dnn_explain(unsigned status, const char *what, char *reason, size_t size) {
    const char *words = status >= 5000   ? "execution failed"
                        : status >= 4000 ? "an internal error"
                        : status >= 3000 ? "not supported"
                        : status >= 2000 ? "a bad parameter"
                                         : "not initialized";
    snprintf(reason, size, "%s: cuDNN says %u (%s).", what, status, words);
    return -1;
}

/* ---- the library ---- */

int cudnn_version(int *ret_version, char *reason, size_t size) {
    enum { MAJOR, MINOR, PATCH, PARTS };
    struct cuda_cudnn api;
    int parts[PARTS];
    if (cuda_cudnn_open(&api, reason, size) < 0)
        return -1;
    for (unsigned i = 0; i < PARTS; i++) {
        unsigned status = api.cudnnGetProperty(i, &parts[i]);
        if (status != 0)
            return dnn_explain(status, "Asking for cuDNN's version", reason, size);
    }
    *ret_version = parts[MAJOR] * 10000 + parts[MINOR] * 100 + parts[PATCH];
    return 0;
}

int cudnn_open(struct cudnn **ret, char *reason, size_t size) {
    struct cudnn *cudnn = calloc(1, sizeof *cudnn);
    if (!cudnn) {
        snprintf(reason, size, "There is not enough memory to open cuDNN.");
        return -1;
    }
    int rc = cuda_cudnn_open(&cudnn->api, reason, size);
    if (rc == 0) {
        unsigned status = cudnn->api.cudnnCreate(&cudnn->handle);
        rc = status == 0 ? 0 : dnn_explain(status, "Opening cuDNN on the GPU", reason, size);
    }
    if (rc == 0)
        *ret = cudnn;
    else
        free(cudnn);
    return rc;
}

void cudnn_close(struct cudnn *cudnn) {
    if (!cudnn)
        return;
    cudnn->api.cudnnDestroy(cudnn->handle);
    free(cudnn);
}

/* ---- what the heuristics propose ---- */

/* The engine of a proposal, the set's; NULL when cuDNN does not say. */
static void *engine_of(struct dnn_set *set, void *config) {
    int64_t n = 0;
    void *engine = dnn_new(set, DNN_BACKEND_ENGINE_DESCRIPTOR, "Making an engine");
    if (!engine || set->api->cudnnBackendGetAttribute(config, DNN_ATTR_ENGINECFG_ENGINE, DNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                                      &n, &engine) != 0)
        return NULL;
    return engine;
}

struct notes {
    unsigned number[MOST_NOTES];
    int64_t n; /* -1: cuDNN does not say */
};

static struct notes notes_of(const struct cuda_cudnn *api, void *engine, unsigned attribute, unsigned type) {
    struct notes notes = {.n = 0};
    if (api->cudnnBackendGetAttribute(engine, attribute, type, MOST_NOTES, &notes.n, notes.number) != 0)
        notes.n = -1;
    return notes;
}

static bool has(const struct notes *notes, unsigned number) {
    for (int64_t i = 0; i < notes->n && i < MOST_NOTES; i++)
        if (notes->number[i] == number)
            return true;
    return false;
}

/* Whether it reckons in what was asked for. */
static bool is_precise(const struct cudnn_plans *plans, void *engine) {
    const struct notes notes =
        notes_of(plans->set.api, engine, DNN_ATTR_ENGINE_NUMERICAL_NOTE, DNN_TYPE_NUMERICAL_NOTE);
    return notes.n >= 0 && !has(&notes, DNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) &&
           !has(&notes, DNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
           !(plans->exact && has(&notes, DNN_NUMERICAL_NOTE_TENSOR_CORE));
}

static bool compiles(const struct cudnn_plans *plans, void *engine) {
    const struct notes notes = notes_of(plans->set.api, engine, DNN_ATTR_ENGINE_BEHAVIOR_NOTE, DNN_TYPE_BEHAVIOR_NOTE);
    return has(&notes, DNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

/* cuDNN's numbers for knobs, as cudnnBackendKnobType_t names them. */
static const char *const knob_names[] = {
    [1] = "swizzle",      [2] = "tile_size",    [4] = "edge",        [5] = "kblock",      [11] = "multiply",
    [12] = "split_k_buf", [13] = "tile_k",      [14] = "stages",     [15] = "reduction",  [16] = "cta_split_k",
    [17] = "split_k_slc", [18] = "idx_mode",    [23] = "specfilt",   [24] = "kernel_cfg", [25] = "workspace",
    [26] = "tile_cga",    [27] = "tile_cga_m",  [28] = "tile_cga_n", [29] = "block_size", [30] = "occupancy",
    [33] = "split_cols",  [34] = "tile_rows",   [35] = "tile_cols",  [36] = "load_size",  [37] = "cta_count",
    [38] = "stream_k",    [39] = "split_p_slc", [40] = "tile_m",     [41] = "tile_n",     [42] = "warp_spec",
    [43] = "swap_ab"};
enum { KNOB_NAMES = sizeof knob_names / sizeof knob_names[0] };

static int print_knob(const struct cuda_cudnn *api, void *choice, char *text, size_t size) {
    unsigned type = 0;
    int64_t value = 0, n = 0;
    if (api->cudnnBackendGetAttribute(choice, DNN_ATTR_KNOB_CHOICE_KNOB_TYPE, DNN_TYPE_KNOB_TYPE, 1, &n, &type) != 0 ||
        api->cudnnBackendGetAttribute(choice, DNN_ATTR_KNOB_CHOICE_KNOB_VALUE, DNN_TYPE_INT64, 1, &n, &value) != 0)
        return 0;
    if (type < KNOB_NAMES && knob_names[type])
        return snprintf(text, size, " %s=%lld", knob_names[type], (long long)value);
    return snprintf(text, size, " k%u=%lld", type, (long long)value);
}

static void describe(const struct cuda_cudnn *api, void *config, void *engine, char text[TEXT]) {
    void *choices[MOST_KNOBS];
    int64_t index = -1, n = 0, filled = 0;
    api->cudnnBackendGetAttribute(engine, DNN_ATTR_ENGINE_GLOBAL_INDEX, DNN_TYPE_INT64, 1, &n, &index);
    int at = snprintf(text, TEXT, "engine=%lld", (long long)index), made = 0;
    while (made < MOST_KNOBS &&
           api->cudnnBackendCreateDescriptor(DNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &choices[made]) == 0)
        made++;
    if (api->cudnnBackendGetAttribute(config, DNN_ATTR_ENGINECFG_KNOB_CHOICES, DNN_TYPE_BACKEND_DESCRIPTOR, made,
                                      &filled, choices) != 0)
        filled = 0;
    for (int64_t i = 0; i < filled && i < made && at < TEXT; i++)
        at += print_knob(api, choices[i], text + at, (size_t)(TEXT - at));
    while (made > 0)
        api->cudnnBackendDestroyDescriptor(choices[--made]);
}

static bool is_known(const struct cudnn_plans *plans, const char *text) {
    for (int i = 0; i < plans->n; i++)
        if (strcmp(plans->proposals[i].text, text) == 0)
            return true;
    return false;
}

static void keep(struct cudnn_plans *plans, void *config) {
    void *engine = engine_of(&plans->set, config);
    struct proposal proposal = {.config = config};
    if (!engine || plans->n == MOST_PLANS || !is_precise(plans, engine))
        return;
    describe(plans->set.api, config, engine, proposal.text);
    proposal.compiles = compiles(plans, engine);
    if (!is_known(plans, proposal.text))
        plans->proposals[plans->n++] = proposal;
}

/* What one mode proposes; a mode that proposes nothing is no failure. */
static void ask(struct cudnn_plans *plans, void *graph, unsigned mode) {
    struct dnn_set *set = &plans->set;
    void *heuristics = dnn_new(set, DNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "Making heuristics"), *results[MOST_RESULTS];
    int64_t most = 0, n = 0;
    dnn_put_item(set, heuristics, DNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    dnn_put(set, heuristics, DNN_ATTR_ENGINEHEUR_MODE, DNN_TYPE_HEUR_MODE, 1, &mode);
    if (set->status != 0 || set->api->cudnnBackendFinalize(heuristics) != 0 ||
        set->api->cudnnBackendGetAttribute(heuristics, DNN_ATTR_ENGINEHEUR_RESULTS, DNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                           &most, NULL) != 0)
        return;
    most = most < MOST_RESULTS ? most : MOST_RESULTS;
    for (int64_t i = 0; i < most; i++)
        results[i] = dnn_new(set, DNN_BACKEND_ENGINECFG_DESCRIPTOR, "Making room for proposals");
    if (set->status != 0 || most == 0 ||
        set->api->cudnnBackendGetAttribute(heuristics, DNN_ATTR_ENGINEHEUR_RESULTS, DNN_TYPE_BACKEND_DESCRIPTOR, most,
                                           &n, results) != 0)
        return;
    for (int64_t i = 0; i < n && i < most; i++)
        keep(plans, results[i]);
}

int cudnn_plans_new(struct cudnn *cudnn, const struct cudnn_conv *conv, struct cudnn_plans **ret, char *reason,
                    size_t size) {
    static const unsigned modes[] = {DNN_HEUR_MODE_A, DNN_HEUR_MODE_B, DNN_HEUR_MODE_FALLBACK};
    struct cudnn_plans *plans = calloc(1, sizeof *plans);
    if (!plans) {
        snprintf(reason, size, "There is not enough memory for cuDNN's plans.");
        return -1;
    }
    plans->cudnn = cudnn;
    plans->n_args = cudnn_conv_args(conv);
    plans->exact = conv->type == CUDNN_F32;
    plans->set.api = &cudnn->api;
    void *graph = dnn_graph(&plans->set, cudnn, conv);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        ask(plans, graph, modes[i]);
    if (plans->set.status != 0) {
        dnn_explain(plans->set.status, plans->set.what, reason, size);
        cudnn_plans_free(plans);
        return -1;
    }
    *ret = plans;
    return 0;
}

void cudnn_plans_free(struct cudnn_plans *plans) {
    if (!plans)
        return;
    dnn_free(&plans->set);
    free(plans);
}

int cudnn_plans_count(const struct cudnn_plans *plans) {
    return plans->n;
}

const char *cudnn_plans_text(const struct cudnn_plans *plans, int index) {
    return plans->proposals[index].text;
}

bool cudnn_plans_compiles(const struct cudnn_plans *plans, int index) {
    return plans->proposals[index].compiles;
}

/* ---- plans ---- */

int cudnn_plans_build(struct cudnn_plans *plans, int index, char *reason, size_t size) {
    struct dnn_set *set = &plans->set;
    int64_t workspace = 0, n = 0;
    if (index < 0 || index >= plans->n) {
        snprintf(reason, size, "cuDNN proposes %d plans for this convolution, and no number %d.", plans->n, index);
        return -1;
    }
    struct proposal *proposal = &plans->proposals[index];
    if (proposal->plan)
        return 0;
    void *plan = dnn_new(set, DNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "Making a plan");
    dnn_put(set, plan, DNN_ATTR_EXECUTION_PLAN_HANDLE, DNN_TYPE_HANDLE, 1, &plans->cudnn->handle);
    dnn_put_item(set, plan, DNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal->config);
    dnn_finish(set, plan, "Finishing a plan");
    unsigned status = set->status;
    if (status == 0)
        status = set->api->cudnnBackendGetAttribute(plan, DNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, DNN_TYPE_INT64, 1, &n,
                                                    &workspace);
    set->status = 0; /* the next one may do better */
    if (status != 0)
        return dnn_explain(status, proposal->text, reason, size);
    proposal->plan = plan;
    proposal->workspace = workspace > 0 ? (size_t)workspace : 0;
    return 0;
}

size_t cudnn_plans_workspace(const struct cudnn_plans *plans, int index) {
    return plans->proposals[index].workspace;
}

int cudnn_plans_run(const struct cudnn_plans *plans, int index, struct cudnn *with, const uint64_t *args,
                    uint64_t workspace, struct CUstream_st *stream, char *reason, size_t size) {
    struct dnn_set set = {.api = plans->set.api};
    const struct proposal *proposal = &plans->proposals[index];
    int64_t ids[CUDNN_MAX_ARGS];
    void *pointers[CUDNN_MAX_ARGS], *room = (void *)(uintptr_t)workspace;
    for (int i = 0; i < plans->n_args; i++) {
        ids[i] = i;
        pointers[i] = (void *)(uintptr_t)args[i];
    }
    void *pack = dnn_new(&set, DNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "Making a variant pack");
    dnn_put(&set, pack, DNN_ATTR_VARIANT_PACK_UNIQUE_IDS, DNN_TYPE_INT64, plans->n_args, ids);
    dnn_put(&set, pack, DNN_ATTR_VARIANT_PACK_DATA_POINTERS, DNN_TYPE_VOID_PTR, plans->n_args, pointers);
    dnn_put(&set, pack, DNN_ATTR_VARIANT_PACK_WORKSPACE, DNN_TYPE_VOID_PTR, 1, &room);
    dnn_finish(&set, pack, proposal->text);
    unsigned status = set.status;
    if (status == 0)
        status = set.api->cudnnSetStream(with->handle, stream);
    if (status == 0)
        status = set.api->cudnnBackendExecute(with->handle, proposal->plan, pack);
    dnn_free(&set);
    return status == 0 ? 0 : dnn_explain(status, proposal->text, reason, size);
}
