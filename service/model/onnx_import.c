/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the messages of a file to a graph: names are resolved, each node is lowered in file order, outputs are bound.
 *
 * Names: a file may define each value once (static single assignment), before it is used. All definitions are sorted
 * by name at the start, so that a double, a missing or a late one is found and named.
 */
#include "service/model/onnx_internal.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BATCH 65536
#define MAX_NODES 20000 /* far beyond real networks; what comes after takes time by their square */
#define DEFAULT_CONSTANT_BYTES ((size_t)2 << 30)
#define MAX_CONSTANT_WORK ((int64_t)1 << 30) /* operations; a few seconds */
#define MAX_ARGUMENTS 65536
#define MAX_ATTRIBUTES 64

/* ---- Names ---- */

enum { FROM_INPUT = -1, FROM_INITIALIZER = -2 };
enum { NOT_YET = -1, NOT_COMPUTED = -2 };

struct symbol {
    const char *name;
    int value;  /* in the graph, NOT_YET defined, or NOT_COMPUTED: an output that its node's lowering does not give */
    int origin; /* the node that defines it, FROM_INPUT or FROM_INITIALIZER */
};

struct names {
    const struct onnx_model *model;
    struct symbol *symbols; /* sorted by name */
    int count;
};

static int compare_symbols(const void *a, const void *b) {
    return strcmp(((const struct symbol *)a)->name, ((const struct symbol *)b)->name);
}

static struct symbol *names_find(const struct names *names, const char *name) {
    struct symbol key = {.name = name};
    if (!names->count)
        return NULL;
    return bsearch(&key, names->symbols, (size_t)names->count, sizeof key, compare_symbols);
}

static const char *text_of(const char *text) {
    return text ? text : "";
}

static const char *node_name(const Onnx__NodeProto *node) {
    if (node->name && *node->name)
        return node->name;
    for (size_t i = 0; i < node->n_output; i++) {
        if (*node->output[i])
            return node->output[i];
    }
    return "without a name";
}

static const char *origin_text(const struct names *names, const struct symbol *symbol, struct arena *arena) {
    if (symbol->origin == FROM_INPUT)
        return "an input of the graph";
    if (symbol->origin == FROM_INITIALIZER)
        return "an initializer";
    return arena_printf(arena, "node %s", node_name(names->model->nodes[symbol->origin]));
}

static void add_symbol(struct names *names, const char *name, int origin) {
    if (*text_of(name))
        names->symbols[names->count++] = (struct symbol){name, NOT_YET, origin};
}

/* Old files list initializers among the inputs too: those are constants, so the input goes. */
static int names_unite(struct names *names, struct importer *importer) {
    int n = 0;
    for (int i = 0; i < names->count; i++) {
        struct symbol *last = n ? &names->symbols[n - 1] : NULL, *next = &names->symbols[i];
        if (!last || strcmp(last->name, next->name) != 0) {
            names->symbols[n++] = *next;
        } else if (last->origin < 0 && next->origin < 0 && last->origin != next->origin) {
            last->origin = FROM_INITIALIZER;
        } else {
            return error_set(importer->error, ERROR_INVALID, "duplicate-value", next->name,
                             "The value %.200s is defined twice: by %.200s and by %.200s.", next->name,
                             origin_text(names, last, importer->arena), origin_text(names, next, importer->arena));
        }
    }
    names->count = n;
    return 0;
}

static int names_build(struct names *names, const struct onnx_model *model, struct importer *importer) {
    size_t total = (size_t)model->n_inputs + (size_t)model->n_initializers;
    for (int i = 0; i < model->n_nodes; i++)
        total += model->nodes[i]->n_output;
    *names = (struct names){model, arena_try_alloc(importer->arena, total * sizeof(struct symbol)), 0};
    if (!names->symbols || total > INT32_MAX / 2)
        return error_set(importer->error, ERROR_LIMIT, "model-too-large", "", "The model defines too many values.");
    for (int i = 0; i < model->n_inputs; i++)
        add_symbol(names, model->inputs[i]->name, FROM_INPUT);
    for (int i = 0; i < model->n_initializers; i++)
        add_symbol(names, model->initializers[i].proto->name, FROM_INITIALIZER);
    for (int i = 0; i < model->n_nodes; i++) {
        for (size_t j = 0; j < model->nodes[i]->n_output; j++)
            add_symbol(names, model->nodes[i]->output[j], i);
    }
    qsort(names->symbols, (size_t)names->count, sizeof(struct symbol), compare_symbols);
    return names_unite(names, importer);
}

/* ---- Initializers and inputs ---- */

static int import_initializers(struct importer *importer, const struct onnx_model *model, struct names *names) {
    for (int i = 0; i < model->n_initializers; i++) {
        const char *name = text_of(model->initializers[i].proto->name);
        struct symbol *symbol = names_find(names, name);
        struct value value;
        if (!symbol)
            return error_set(importer->error, ERROR_INVALID, "bad-tensor", "", "Initializer %d has no name.", i);
        const char *what = arena_printf(importer->arena, "Initializer %.200s", name);
        if (onnx_tensor_value(&model->initializers[i], what, importer->arena, &value, importer->error))
            return -1;
        symbol->value = graph_add_value(importer->graph, name, value.dtype, &value.shape);
        importer->graph->values[symbol->value].data = value.data;
    }
    return 0;
}

static int bad_input(const struct importer *importer, const char *name, const char *text) {
    return error_set(importer->error, ERROR_INVALID, "unsupported-input", name, "Input %.200s %s", name, text);
}

static int input_dim(struct importer *importer, const char *name, int i, int rank,
                     const Onnx__TensorShapeProto__Dimension *dim, int64_t asked_batch, int64_t *ret) {
    struct arena *arena = importer->arena;
    if (!dim->has_dim_value && i > 0)
        return bad_input(importer, name,
                         arena_printf(arena,
                                      "has no fixed size in dimension %d (%.100s); only dimension 0, the batch, may be "
                                      "symbolic. Export the model with fixed sizes.",
                                      i, dim->dim_param ? dim->dim_param : "unknown"));
    *ret = dim->has_dim_value ? dim->dim_value : importer->batch;
    if (*ret < 1)
        return bad_input(
            importer, name,
            arena_printf(arena, "has size %lld in dimension %d; a size is at least 1.", (long long)*ret, i));
    if (i == 0 && rank > 1 && asked_batch > 0 && *ret != asked_batch)
        return bad_input(importer, name,
                         arena_printf(arena,
                                      "has a fixed batch of %lld, not the %lld asked for; leave the batch out, or "
                                      "export the model with a symbolic batch.",
                                      (long long)*ret, (long long)asked_batch));
    return 0;
}

static int input_type(struct importer *importer, const Onnx__ValueInfoProto *input, int64_t asked_batch,
                      enum dtype *ret_dtype, struct shape *ret_shape) {
    const Onnx__TypeProto__Tensor *type = input->type ? input->type->tensor_type : NULL;
    struct arena *arena = importer->arena;
    if (!type)
        return bad_input(importer, input->name, "is not a tensor; only tensors are supported.");
    if (!type->shape)
        return bad_input(importer, input->name, "has no shape; export the model with one.");
    if (type->shape->n_dim > SHAPE_MAX_RANK)
        return bad_input(
            importer, input->name,
            arena_printf(arena, "has rank %zu; at most %d is supported.", type->shape->n_dim, SHAPE_MAX_RANK));
    if (onnx_dtype(type->elem_type, arena_printf(arena, "Input %.200s", input->name), ret_dtype, importer->error))
        return -1;
    ret_shape->rank = (int)type->shape->n_dim;
    int64_t count = 1;
    for (int i = 0; i < ret_shape->rank; i++) {
        if (input_dim(importer, input->name, i, ret_shape->rank, type->shape->dim[i], asked_batch, &ret_shape->dim[i]))
            return -1;
        if (__builtin_mul_overflow(count, ret_shape->dim[i], &count) || count > ONNX_MAX_ELEMENTS)
            return error_set(importer->error, ERROR_LIMIT, "tensor-too-large", input->name,
                             "Input %.200s has more than 2^40 elements, the most that is supported.", input->name);
    }
    return 0;
}

static int import_inputs(struct importer *importer, const struct onnx_model *model, struct names *names,
                         int64_t asked_batch) {
    struct graph *graph = importer->graph;
    graph->inputs = arena_array(importer->arena, (size_t)model->n_inputs, sizeof *graph->inputs);
    for (int i = 0; i < model->n_inputs; i++) {
        struct symbol *symbol = names_find(names, text_of(model->inputs[i]->name));
        enum dtype dtype;
        struct shape shape = {0};
        if (!symbol)
            return error_set(importer->error, ERROR_INVALID, "unsupported-input", "", "Input %d has no name.", i);
        if (symbol->origin == FROM_INITIALIZER)
            continue;
        if (input_type(importer, model->inputs[i], asked_batch, &dtype, &shape))
            return -1;
        symbol->value = graph_add_value(graph, symbol->name, dtype, &shape);
        graph->inputs[graph->n_inputs++] = symbol->value;
    }
    if (!graph->n_inputs)
        return error_set(importer->error, ERROR_INVALID, "unsupported-input", "",
                         "The graph has no input, so there is nothing to compute.");
    return 0;
}

/* ---- Nodes ---- */

static const struct onnx_op *const op_tables[] = {onnx_ops_conv,  onnx_ops_math,     onnx_ops_reduce, onnx_ops_shape,
                                                  onnx_ops_slice, onnx_ops_constant, onnx_ops_resize};

/* ERROR_INVALID also when the operator is known, but not in this opset. */
static int find_op(const struct importer *importer, const Onnx__NodeProto *node, const struct onnx_op **ret) {
    const char *name = text_of(node->op_type), *domain = text_of(node->domain), *label = node_name(node);
    bool other = *domain && strcmp(domain, "ai.onnx") != 0, known = false;
    for (size_t t = 0; t < ARRAY_COUNT(op_tables) && !other; t++) {
        for (const struct onnx_op *op = op_tables[t]; op->name; op++) {
            if (strcmp(op->name, name) != 0)
                continue;
            known = true;
            if (importer->opset >= op->since && importer->opset <= op->until) {
                *ret = op;
                return 0;
            }
        }
    }
    if (known)
        return error_set(importer->error, ERROR_INVALID, "unsupported-operator", label,
                         "Node %.200s (%.100s): the operator does not exist in opset %d, which the model uses.", label,
                         name, importer->opset);
    return error_set(importer->error, ERROR_INVALID, "unsupported-operator", label,
                     "Node %.200s (%.100s%s%.100s): the operator is not supported.", label, name,
                     other ? " of domain " : "", other ? domain : "");
}

static int resolve(struct importer *importer, const struct names *names, const char *reader, const char *name,
                   int *ret) {
    const struct symbol *symbol = names_find(names, name);
    if (!symbol)
        return error_set(importer->error, ERROR_INVALID, "undefined-value", reader,
                         "%.200s reads the value %.200s, which nothing defines.", reader, name);
    if (symbol->value == NOT_YET)
        return error_set(importer->error, ERROR_INVALID, "undefined-value", reader,
                         "%.200s reads the value %.200s before %.200s defines it: the nodes form a cycle or are not in "
                         "topological order.",
                         reader, name, origin_text(names, symbol, importer->arena));
    if (symbol->value == NOT_COMPUTED)
        return error_set(importer->error, ERROR_INVALID, "unsupported-node", reader,
                         "%.200s reads the value %.200s, a second output of %.200s, which is not supported.", reader,
                         name, origin_text(names, symbol, importer->arena));
    *ret = symbol->value;
    return 0;
}

static int check_call(const struct onnx_call *call) {
    const struct onnx_op *op = call->op;
    const Onnx__NodeProto *node = call->proto;
    int n_in = (int)node->n_input;
    if (call->n_in < op->min_in || call->n_in > op->max_in)
        return onnx_bad(call, "it has %d inputs; the operator takes %d to %d in opset %d.", n_in, op->min_in,
                        op->max_in, call->importer->opset);
    for (int i = 0; i < op->min_in; i++) {
        if (call->in[i] < 0)
            return onnx_bad(call, "input %d is missing.", i);
    }
    if (call->n_out < 1 || call->n_out > op->max_out)
        return onnx_bad(call, "it has %d outputs; the operator has 1 to %d.", call->n_out, op->max_out);
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (node->attribute[i]->ref_attr_name && *node->attribute[i]->ref_attr_name)
            return onnx_bad(call, "its attribute %s refers to a function's, which is not supported.",
                            text_of(node->attribute[i]->name));
    }
    return 0;
}

/* Every attribute must have been understood; what nobody looked at could change the result. */
static int check_attributes(const struct onnx_call *call) {
    for (size_t i = 0; i < call->proto->n_attribute; i++) {
        if (!(call->attr_read >> i & 1))
            return onnx_bad(call, "its attribute %s is not known in opset %d, or given twice.",
                            text_of(call->proto->attribute[i]->name), call->importer->opset);
    }
    return 0;
}

static int bind_outputs(const struct onnx_call *call, const struct names *names, int first_value) {
    struct graph *graph = call->importer->graph;
    for (int i = 0; i < call->n_out; i++) {
        const char *name = call->proto->output[i];
        struct symbol *symbol = *name ? names_find(names, name) : NULL;
        if (!symbol)
            continue;
        symbol->value = call->out[i] < 0 ? NOT_COMPUTED : call->out[i];
        if (symbol->value >= first_value)
            graph->values[symbol->value].name = name;
    }
    return 0;
}

static int import_node(struct importer *importer, const struct names *names, const Onnx__NodeProto *node) {
    struct onnx_call call = {.importer = importer, .proto = node, .name = node_name(node)};
    if (find_op(importer, node, &call.op))
        return -1;
    if (node->n_input > MAX_ARGUMENTS || node->n_output > MAX_ARGUMENTS || node->n_attribute > MAX_ATTRIBUTES)
        return onnx_fail(&call, ERROR_LIMIT, "model-too-large", "it has too many inputs, outputs or attributes.");
    call.n_in = (int)node->n_input;
    call.n_out = (int)node->n_output;
    while (call.n_in > 0 && !*node->input[call.n_in - 1])
        call.n_in--;
    while (call.n_out > 0 && !*node->output[call.n_out - 1])
        call.n_out--;
    call.in = arena_array(importer->arena, (size_t)call.n_in, sizeof *call.in);
    call.out = arena_array(importer->arena, (size_t)call.n_out, sizeof *call.out);
    const char *reader = arena_printf(importer->arena, "Node %.200s (%s)", call.name, call.op->name);
    for (int i = 0; i < call.n_in; i++) {
        call.in[i] = -1;
        if (*node->input[i] && resolve(importer, names, reader, node->input[i], &call.in[i]))
            return -1;
    }
    for (int i = 0; i < call.n_out; i++)
        call.out[i] = -1;
    int first_value = importer->graph->n_values;
    if (check_call(&call) || call.op->lower(&call) || check_attributes(&call))
        return -1;
    return bind_outputs(&call, names, first_value);
}

/* ---- Outputs ---- */

/* An output is always computed by a node and listed once: an input, a constant or a second mention is copied. */
static int own_output(struct importer *importer, int value, const char *name) {
    struct graph *graph = importer->graph;
    bool shared = graph->values[value].data != NULL;
    for (int i = 0; i < graph->n_inputs; i++)
        shared |= graph->inputs[i] == value;
    for (int i = 0; i < graph->n_outputs; i++)
        shared |= graph->outputs[i] == value;
    if (!shared) {
        graph->values[value].name = name;
        return value;
    }
    struct shape shape = graph->values[value].shape;
    int copy = graph_add_value(graph, name, graph->values[value].dtype, &shape);
    struct node *node = graph_add_node(graph, OP_RESHAPE, name, 1, 1);
    node->in[0] = value;
    node->out[0] = copy;
    return copy;
}

static int import_outputs(struct importer *importer, const struct onnx_model *model, const struct names *names) {
    struct graph *graph = importer->graph;
    graph->outputs = arena_array(importer->arena, (size_t)model->n_outputs, sizeof *graph->outputs);
    for (int i = 0; i < model->n_outputs; i++) {
        const char *name = text_of(model->outputs[i]->name);
        const char *reader = arena_printf(importer->arena, "Output %d of the graph", i);
        int value;
        if (resolve(importer, names, reader, name, &value))
            return -1;
        struct onnx_call none = {.importer = importer, .name = name, .op = &(struct onnx_op){.name = "output"}};
        if (onnx_check_shape(&none, &graph->values[value].shape, false))
            return -1;
        graph->outputs[graph->n_outputs] = own_output(importer, value, name);
        graph->n_outputs++;
    }
    if (!graph->n_outputs)
        return error_set(importer->error, ERROR_INVALID, "unsupported-output", "",
                         "The graph has no output, so there is nothing to compute.");
    return 0;
}

int onnx_import(const void *bytes, size_t len, const struct onnx_options *options, struct arena *arena,
                struct graph **ret, struct error *error) {
    int64_t batch = options ? options->batch : 0;
    size_t constant_bytes = options ? options->constant_bytes : 0;
    if (batch < 0 || batch > MAX_BATCH)
        return error_set(error, ERROR_INVALID, "bad-batch", "batch", "The batch is %lld; it must lie between 1 and %d.",
                         (long long)batch, MAX_BATCH);
    struct onnx_model model;
    if (onnx_read_model(bytes, len, arena, &model, error))
        return -1;
    struct importer importer = {.arena = arena,
                                .graph = graph_new(arena),
                                .error = error,
                                .opset = model.opset,
                                .batch = batch ? batch : 1,
                                .constant_left = constant_bytes ? constant_bytes : DEFAULT_CONSTANT_BYTES,
                                .work_left = MAX_CONSTANT_WORK};
    struct names names;
    if (model.n_nodes > MAX_NODES)
        return error_set(error, ERROR_LIMIT, "too-many-nodes", NULL, "The network has %d nodes; at most %d are taken.",
                         (int)model.n_nodes, MAX_NODES);
    importer.graph->name = model.name;
    importer.graph->source_operators = model.n_nodes;
    if (names_build(&names, &model, &importer) || import_initializers(&importer, &model, &names) ||
        import_inputs(&importer, &model, &names, batch))
        return -1;
    for (int i = 0; i < model.n_nodes; i++) {
        if (import_node(&importer, &names, model.nodes[i]))
            return -1;
    }
    if (import_outputs(&importer, &model, &names))
        return -1;
    graph_prune(importer.graph);
    *ret = importer.graph;
    return 0;
}
