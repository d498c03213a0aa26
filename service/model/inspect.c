/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/inspect.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "service/base/child_call.h"
#include "service/base/file.h"
#include "service/base/utf8.h"
#include "service/model/fuse.h"
#include "service/model/onnx_import.h"

#define MOST_PATH 4096
#define MOST_TEXT ((size_t)1 << 20)
#define MOST_NUMBER (INT64_C(1) << 53) /* what JSON carries exactly */
enum { PROCESSOR_S = 60 };

/* ---- the summary as JSON: the child's end ---- */

static void add_number(struct json_object *object, const char *field, int64_t value) {
    json_add_int(object, field, value < MOST_NUMBER ? value : MOST_NUMBER);
}

/* A name out of the model, which may be any bytes. */
static void add_text(struct json_object *object, const char *field, const char *text, struct arena *arena) {
    char *clean = arena_strndup(arena, text ? text : "", MOST_TEXT - 1);
    utf8_scrub(clean);
    json_add_string(object, field, clean);
}

static struct json_object *tensors_to_json(const struct graph *graph, const int *values, int n) {
    struct json_object *array = json_object_new_array();
    for (int i = 0; i < n; i++) {
        const struct value *value = &graph->values[values[i]];
        struct json_object *object = json_object_new_object(), *shape = json_object_new_array();
        add_text(object, "name", value->name, graph->arena);
        json_add_string(object, "dtype", dtype_name(value->dtype));
        for (int d = 0; d < value->shape.rank; d++)
            json_object_array_add(shape, json_object_new_int64(value->shape.dim[d]));
        json_add(object, "shape", shape);
        json_object_array_add(array, object);
    }
    return array;
}

static struct json_object *operators_to_json(const struct graph *graph) {
    struct json_object *array = json_object_new_array();
    int count[OP_COUNT] = {0};
    for (int i = 0; i < graph->n_nodes; i++)
        count[graph->nodes[i].op]++;
    for (int op = 0; op < OP_COUNT; op++) {
        if (!count[op])
            continue;
        struct json_object *object = json_object_new_object();
        json_add_string(object, "name", op_name((enum op)op));
        json_add_int(object, "count", count[op]);
        json_object_array_add(array, object);
    }
    return array;
}

static struct json_object *tasks_to_json(const struct graph *graph, enum layout layout) {
    struct json_object *array = json_object_new_array();
    struct workload_use *uses;
    int n;
    workload_list(graph, layout, graph->arena, &uses, &n);
    for (int i = 0; i < n; i++) {
        struct json_object *object = json_object_new_object();
        json_add_string(object, "workload", uses[i].key);
        add_text(object, "first", uses[i].first, graph->arena);
        json_add_int(object, "count", uses[i].count);
        add_number(object, "flops", workload_flops(uses[i].workload));
        add_number(object, "bytes", workload_bytes(uses[i].workload));
        json_object_array_add(array, object);
    }
    return array;
}

/* Elements of the constants that some node reads; those of one that several read count once. */
static int64_t count_parameters(const struct graph *graph) {
    bool *read = arena_array(graph->arena, (size_t)graph->n_values, sizeof *read);
    int64_t count = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        for (int j = 0; j < graph->nodes[i].n_in; j++)
            read[graph->nodes[i].in[j]] = true;
    }
    for (int i = 0; i < graph->n_values; i++)
        count += read[i] && graph->values[i].data ? shape_count(&graph->values[i].shape) : 0;
    return count;
}

static int64_t count_flops(const struct graph *graph, enum layout layout) {
    int64_t flops = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        int64_t more = workload_flops(workload_of_node(graph, &graph->nodes[i], layout, graph->arena));
        if (__builtin_add_overflow(flops, more, &flops))
            return INT64_MAX;
    }
    return flops;
}

static void summarize(const struct graph *graph, enum layout layout, struct json_object *reply) {
    add_text(reply, "graph_name", graph->name, graph->arena);
    json_add(reply, "inputs", tensors_to_json(graph, graph->inputs, graph->n_inputs));
    json_add(reply, "outputs", tensors_to_json(graph, graph->outputs, graph->n_outputs));
    json_add(reply, "operators", operators_to_json(graph));
    json_add(reply, "tasks", tasks_to_json(graph, layout));
    json_add_int(reply, "source_operators", graph->source_operators);
    add_number(reply, "parameters", count_parameters(graph));
    add_number(reply, "flops", count_flops(graph, layout));
}

/* ---- the child ---- */

static int inspect_file(const char *path, const struct inspect_options *asked, struct json_object *reply,
                        struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct onnx_options options = {.batch = asked->batch};
    struct precision_loss loss;
    struct graph *graph;
    struct file_map map;
    if (file_map(path, &map, error) < 0)
        return -1;
    int rc = onnx_import(map.data, map.len, &options, arena, &graph, error);
    if (rc == 0)
        rc = graph_fuse(graph, error);
    if (rc == 0)
        rc = graph_set_precision(graph, asked->precision, &loss, error);
    if (rc == 0)
        summarize(graph, asked->layout, reply);
    file_unmap(&map);
    return rc;
}

static int answer(void *data, struct json_object *request, struct json_object *reply, struct error *error) {
    const char *path;
    struct inspect_options asked = {0};
    int64_t precision, layout;
    (void)data;
    if (json_read_string(request, "model", JSON_REQUIRED, MOST_PATH, &path, error) < 0 ||
        json_read_int(request, "batch", JSON_REQUIRED, 0, INT32_MAX, &asked.batch, error) < 0 ||
        json_read_int(request, "precision", JSON_REQUIRED, 0, PRECISION_COUNT - 1, &precision, error) < 0 ||
        json_read_int(request, "layout", JSON_REQUIRED, LAYOUT_ROW, LAYOUT_NHWC, &layout, error) < 0)
        return -1;
    asked.precision = (enum precision)precision;
    asked.layout = (enum layout)layout;
    return inspect_file(path, &asked, reply, error);
}

int inspect_child_main(void) {
    return child_answer(answer, NULL);
}

/* ---- the summary out of JSON: the parent's end ---- */

/* One array of records: how many, and each read by its function. */
struct records {
    const char *field;
    size_t size;
    int (*read)(struct json_object *object, struct arena *arena, void *ret, struct error *error);
};

static int copy_text(struct json_object *object, const char *field, struct arena *arena, const char **ret,
                     struct error *error) {
    const char *text;
    if (json_read_string(object, field, JSON_REQUIRED, MOST_TEXT, &text, error) < 0)
        return -1;
    *ret = arena_strdup(arena, text);
    return 0;
}

static int read_count(struct json_object *object, int *ret, struct error *error) {
    int64_t count;
    if (json_read_int(object, "count", JSON_REQUIRED, 0, INT32_MAX, &count, error) < 0)
        return -1;
    *ret = (int)count;
    return 0;
}

static int read_tensor(struct json_object *object, struct arena *arena, void *ret, struct error *error) {
    struct model_tensor *tensor = ret;
    struct json_object *shape;
    const char *dtype;
    if (copy_text(object, "name", arena, &tensor->name, error) < 0 ||
        json_read_string(object, "dtype", JSON_REQUIRED, 16, &dtype, error) < 0 ||
        dtype_parse(dtype, &tensor->dtype, error) < 0 ||
        json_read_array(object, "shape", JSON_REQUIRED, &shape, error) < 0)
        return -1;
    size_t rank = json_object_array_length(shape);
    if (rank > SHAPE_MAX_RANK)
        return error_set(error, ERROR_INVALID, "bad-shape", "shape", "A tensor has %zu dimensions.", rank);
    tensor->shape.rank = (int)rank;
    for (size_t d = 0; d < rank; d++)
        tensor->shape.dim[d] = json_object_get_int64(json_object_array_get_idx(shape, d));
    return 0;
}

static int read_operator(struct json_object *object, struct arena *arena, void *ret, struct error *error) {
    struct model_operator *operator= ret;
    if (copy_text(object, "name", arena, &operator->name, error) < 0)
        return -1;
    return read_count(object, &operator->count, error);
}

static int read_task(struct json_object *object, struct arena *arena, void *ret, struct error *error) {
    struct model_task *task = ret;
    if (copy_text(object, "workload", arena, &task->workload, error) < 0 ||
        copy_text(object, "first", arena, &task->first, error) < 0 || read_count(object, &task->count, error) < 0 ||
        json_read_int(object, "flops", JSON_REQUIRED, 0, MOST_NUMBER, &task->flops, error) < 0)
        return -1;
    return json_read_int(object, "bytes", JSON_REQUIRED, 0, MOST_NUMBER, &task->bytes, error);
}

static int read_records(struct json_object *reply, const struct records *records, struct arena *arena, void **ret,
                        int *ret_n, struct error *error) {
    struct json_object *array;
    if (json_read_array(reply, records->field, JSON_REQUIRED, &array, error) < 0)
        return -1;
    size_t n = json_object_array_length(array);
    char *data = arena_array(arena, n, records->size);
    for (size_t i = 0; i < n; i++) {
        if (records->read(json_object_array_get_idx(array, i), arena, data + i * records->size, error) < 0)
            return -1;
    }
    *ret = data;
    *ret_n = (int)n;
    return 0;
}

static int summary_from_json(struct json_object *reply, struct arena *arena, struct model_summary **ret,
                             struct error *error) {
    static const struct records tensors_in = {"inputs", sizeof(struct model_tensor), read_tensor},
                                tensors_out = {"outputs", sizeof(struct model_tensor), read_tensor},
                                operators = {"operators", sizeof(struct model_operator), read_operator},
                                tasks = {"tasks", sizeof(struct model_task), read_task};
    struct model_summary *summary = arena_alloc(arena, sizeof *summary);
    void *in, *out, *ops, *work;
    if (copy_text(reply, "graph_name", arena, &summary->graph_name, error) < 0 ||
        read_records(reply, &tensors_in, arena, &in, &summary->n_inputs, error) < 0 ||
        read_records(reply, &tensors_out, arena, &out, &summary->n_outputs, error) < 0 ||
        read_records(reply, &operators, arena, &ops, &summary->n_operators, error) < 0 ||
        read_records(reply, &tasks, arena, &work, &summary->n_tasks, error) < 0 ||
        json_read_int(reply, "source_operators", JSON_REQUIRED, 0, MOST_NUMBER, &summary->source_operators, error) <
            0 ||
        json_read_int(reply, "parameters", JSON_REQUIRED, 0, MOST_NUMBER, &summary->parameters, error) < 0 ||
        json_read_int(reply, "flops", JSON_REQUIRED, 0, MOST_NUMBER, &summary->flops, error) < 0)
        return -1;
    summary->inputs = in;
    summary->outputs = out;
    summary->operators = ops;
    summary->tasks = work;
    *ret = summary;
    return 0;
}

/* ---- the parent ---- */

/* What a child died of that gave no answer: an allocation that fails aborts, a stack that is too deep faults. */
static int explain_death(int status, struct error *error) {
    switch (WIFSIGNALED(status) ? WTERMSIG(status) : 0) {
    case 0:
        return error_prefix(error, "Reading the model: ");
    case SIGXCPU:
    case SIGKILL:
        return error_set(error, ERROR_LIMIT, "model-too-large", NULL,
                         "The model takes more than %d seconds of processor time to read.", PROCESSOR_S);
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
        return error_set(
            error, ERROR_INVALID, "unreadable-model", NULL,
            "The model cannot be read: its reader crashed (signal %d), as on a file that nests too deeply.",
            WTERMSIG(status));
    default:
        return error_set(error, ERROR_LIMIT, "model-too-large", NULL,
                         "The model takes more memory to read than four times its size and 1 GiB.");
    }
}

/* The sanitizers map far more than they use: then there is no limit to set. */
static int64_t memory_limit(int64_t file_bytes) {
#ifdef __SANITIZE_ADDRESS__
    (void)file_bytes;
    return 0;
#else
    return 4 * file_bytes + (INT64_C(1) << 30);
#endif
}

int model_inspect(const char *path, const struct inspect_options *options, int64_t deadline, struct arena *arena,
                  struct model_summary **ret, struct error *error) {
    struct json_object *request CLEANUP(json_put_p) = json_object_new_object();
    struct json_object *reply CLEANUP(json_put_p) = NULL;
    struct stat st;
    if (stat(path, &st) < 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-file", NULL, "Cannot open %.400s: %m.", path);
    struct child_call call = {.program = options->program,
                              .role = "inspect",
                              .memory_bytes = memory_limit(st.st_size),
                              .cpu_s = PROCESSOR_S,
                              .no_network = true,
                              .sandbox = SANDBOX_STRICT};
    int status = -1;
    json_add_string(request, "model", path);
    json_add_int(request, "batch", options->batch);
    json_add_int(request, "precision", options->precision);
    json_add_int(request, "layout", options->layout);
    if (child_call(&call, request, deadline, &reply, &status, error) < 0)
        return status == -1 ? -1 : explain_death(status, error);
    return summary_from_json(reply, arena, ret, error);
}
