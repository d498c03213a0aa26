/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a model file as nodes, tensors and declarations. ModelProto, GraphProto and initializers are walked by
 * hand, because a weight of a hundred megabytes is to stay where it lies; protobuf-c reads the small messages. What
 * those may take together is bounded by the size of the file.
 */
#include "service/model/onnx_internal.h"

#include <string.h>

#include "service/base/utf8.h"

#define MAX_NODES 200000
#define MAX_TENSORS 200000
#define MAX_DECLARED 4096
#define UNPACK_SLACK ((size_t)256 << 20)

static int malformed(struct error *error, const char *what) {
    return error_set(error, ERROR_INVALID, "malformed-model", "",
                     "This is not an ONNX model: %s is cut off or not valid protobuf.", what);
}

/* ---- Wire format ---- */

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct cursor {
    const uint8_t *at, *end;
};

struct field {
    const uint8_t *start; /* of the tag; it ends where the walk goes on */
    uint32_t number;
    enum wire_type type;
    uint64_t varint;     /* WIRE_VARINT */
    const uint8_t *data; /* WIRE_BYTES */
    size_t len;
};

static int cursor_varint(struct cursor *cursor, uint64_t *ret) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (cursor->at == cursor->end)
            return -1;
        uint8_t byte = *cursor->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return 0;
        }
    }
    return -1;
}

static int cursor_skip(struct cursor *cursor, uint64_t len) {
    if (len > (uint64_t)(cursor->end - cursor->at))
        return -1;
    cursor->at += len;
    return 0;
}

/* The next field: 1, 0 at the end, -1 when malformed. Groups, long deprecated, are malformed. */
static int cursor_next(struct cursor *cursor, struct field *ret) {
    uint64_t tag, len;
    if (cursor->at == cursor->end)
        return 0;
    ret->start = cursor->at;
    if (cursor_varint(cursor, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return -1;
    ret->number = (uint32_t)(tag >> 3);
    ret->type = (enum wire_type)(tag & 7);
    switch (ret->type) {
    case WIRE_VARINT:
        return cursor_varint(cursor, &ret->varint) ? -1 : 1;
    case WIRE_64:
        return cursor_skip(cursor, 8) ? -1 : 1;
    case WIRE_32:
        return cursor_skip(cursor, 4) ? -1 : 1;
    case WIRE_BYTES:
        if (cursor_varint(cursor, &len))
            return -1;
        ret->data = cursor->at;
        ret->len = (size_t)len;
        return cursor_skip(cursor, len) ? -1 : 1;
    }
    return -1;
}

static struct cursor cursor_of(const void *bytes, size_t len) {
    return (struct cursor){bytes, (const uint8_t *)bytes + len};
}

/* ---- protobuf-c into the arena ---- */

struct unpacker {
    ProtobufCAllocator allocator;
    struct arena *arena;
    size_t left; /* bytes that unpacked messages may still take */
    bool exhausted;
};

static void *unpack_alloc(void *data, size_t size) {
    struct unpacker *unpacker = data;
    void *at = size <= unpacker->left ? arena_try_alloc(unpacker->arena, size) : NULL;
    if (at)
        unpacker->left -= size;
    else
        unpacker->exhausted = true;
    return at;
}

static void unpack_free(void *data, void *pointer) {
    (void)data;
    (void)pointer;
}

static void unpacker_init(struct unpacker *unpacker, struct arena *arena, size_t len) {
    *unpacker = (struct unpacker){{unpack_alloc, unpack_free, unpacker}, arena, 2 * len + UNPACK_SLACK, false};
}

static void *unpack(struct unpacker *unpacker, const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len,
                    struct error *error) {
    void *message = protobuf_c_message_unpack(type, &unpacker->allocator, len, data);
    if (!message && unpacker->exhausted) {
        (void)error_set(error, ERROR_LIMIT, "model-too-large", "",
                        "The model's structure takes more memory than twice its file and 256 MiB.");
    } else if (!message) {
        (void)malformed(error, type->short_name);
    }
    return message;
}

/* ---- Tensors ---- */

enum { TENSOR_RAW_DATA = 9 };

/* The tensor's message without its raw_data, which is left where it lies. NULL when memory is out. */
static uint8_t *without(struct arena *arena, const uint8_t *data, size_t len, const struct field *cut,
                        size_t *ret_len) {
    size_t before = (size_t)(cut->start - data), after = len - before - (size_t)(cut->data + cut->len - cut->start);
    uint8_t *rest = arena_try_alloc(arena, before + after + 1);
    if (!rest)
        return NULL;
    memcpy(rest, data, before);
    memcpy(rest + before, cut->data + cut->len, after);
    *ret_len = before + after;
    return rest;
}

static int read_tensor(struct unpacker *unpacker, const uint8_t *data, size_t len, struct onnx_tensor *ret,
                       struct error *error) {
    struct cursor cursor = cursor_of(data, len);
    struct field field, raw = {0};
    int more, raws = 0;
    while ((more = cursor_next(&cursor, &field)) > 0) {
        if (field.number == TENSOR_RAW_DATA && field.type == WIRE_BYTES) {
            raw = field;
            raws++;
        }
    }
    if (more < 0 || raws > 1)
        return malformed(error, "a tensor");
    *ret = (struct onnx_tensor){0};
    if (raws) {
        data = without(unpacker->arena, data, len, &raw, &len);
        if (!data)
            return error_set(error, ERROR_LIMIT, "out-of-memory", "", "There is not enough memory for the model.");
    }
    ret->proto = unpack(unpacker, &onnx__tensor_proto__descriptor, data, len, error);
    if (!ret->proto)
        return -1;
    if (raws) {
        ret->raw = raw.data;
        ret->raw_len = raw.len;
    }
    return 0;
}

int onnx_read_tensor_message(const void *bytes, size_t len, struct arena *arena, struct onnx_tensor *ret,
                             struct error *error) {
    struct unpacker unpacker;
    unpacker_init(&unpacker, arena, len);
    return read_tensor(&unpacker, bytes, len, ret, error);
}

/* ---- The graph ---- */

enum {
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE_INITIALIZER = 15,
    GRAPH_FIELDS
};

/* The repeated messages of a graph, each with its limit and where it goes. */
struct graph_reader {
    struct unpacker *unpacker;
    struct onnx_model *model;
    struct error *error;
};

static int count_fields(struct cursor cursor, int counts[GRAPH_FIELDS], struct error *error) {
    static const int limits[GRAPH_FIELDS] = {[GRAPH_NODE] = MAX_NODES,
                                             [GRAPH_INITIALIZER] = MAX_TENSORS,
                                             [GRAPH_INPUT] = MAX_TENSORS, /* old files list their weights as inputs */
                                             [GRAPH_OUTPUT] = MAX_DECLARED};
    struct field field;
    int more;
    while ((more = cursor_next(&cursor, &field)) > 0) {
        if (field.number == GRAPH_SPARSE_INITIALIZER)
            return error_set(error, ERROR_INVALID, "unsupported-tensor", "",
                             "The model has sparse initializers, which are not supported; store them densely.");
        if (field.number >= GRAPH_FIELDS || !(limits[field.number] || field.number == GRAPH_NAME))
            continue;
        if (field.type != WIRE_BYTES)
            return malformed(error, "the graph");
        if (limits[field.number] && ++counts[field.number] > limits[field.number])
            return error_set(error, ERROR_LIMIT, "model-too-large", "",
                             "The graph has more than %d nodes, initializers, inputs or outputs.",
                             limits[field.number]);
    }
    return more < 0 ? malformed(error, "the graph") : 0;
}

/* Names go into messages and JSON. */
static void scrub(char *text) {
    if (text)
        utf8_scrub(text);
}

static int read_node(struct graph_reader *reader, const struct field *field) {
    Onnx__NodeProto *node =
        unpack(reader->unpacker, &onnx__node_proto__descriptor, field->data, field->len, reader->error);
    if (!node)
        return -1;
    scrub(node->name);
    scrub(node->op_type);
    scrub(node->domain);
    for (size_t i = 0; i < node->n_input; i++)
        scrub(node->input[i]);
    for (size_t i = 0; i < node->n_output; i++)
        scrub(node->output[i]);
    reader->model->nodes[reader->model->n_nodes++] = node;
    return 0;
}

static int read_declared(struct graph_reader *reader, const struct field *field, Onnx__ValueInfoProto **values,
                         int *count) {
    Onnx__ValueInfoProto *value =
        unpack(reader->unpacker, &onnx__value_info_proto__descriptor, field->data, field->len, reader->error);
    if (!value)
        return -1;
    scrub(value->name);
    values[(*count)++] = value;
    return 0;
}

static int read_initializer(struct graph_reader *reader, const struct field *field) {
    struct onnx_tensor *tensor = &reader->model->initializers[reader->model->n_initializers];
    if (read_tensor(reader->unpacker, field->data, field->len, tensor, reader->error))
        return -1;
    scrub(tensor->proto->name);
    reader->model->n_initializers++;
    return 0;
}

static void read_name(struct graph_reader *reader, const struct field *field) {
    char *name =
        arena_strndup(reader->unpacker->arena, (const char *)field->data, field->len < 1024 ? field->len : 1024);
    utf8_scrub(name);
    reader->model->name = name;
}

static int read_graph_field(struct graph_reader *reader, const struct field *field) {
    struct onnx_model *model = reader->model;
    switch (field->number) {
    case GRAPH_NODE:
        return read_node(reader, field);
    case GRAPH_INPUT:
        return read_declared(reader, field, model->inputs, &model->n_inputs);
    case GRAPH_OUTPUT:
        return read_declared(reader, field, model->outputs, &model->n_outputs);
    case GRAPH_INITIALIZER:
        return read_initializer(reader, field);
    case GRAPH_NAME:
        read_name(reader, field);
        return 0;
    default:
        return 0;
    }
}

static int read_graph(struct graph_reader *reader, const struct field *graph) {
    struct cursor cursor = cursor_of(graph->data, graph->len);
    int counts[GRAPH_FIELDS] = {0};
    if (count_fields(cursor, counts, reader->error))
        return -1;
    struct arena *arena = reader->unpacker->arena;
    struct onnx_model *model = reader->model;
    model->nodes = arena_array(arena, (size_t)counts[GRAPH_NODE], sizeof(*model->nodes));
    model->initializers = arena_array(arena, (size_t)counts[GRAPH_INITIALIZER], sizeof(*model->initializers));
    model->inputs = arena_array(arena, (size_t)counts[GRAPH_INPUT], sizeof(*model->inputs));
    model->outputs = arena_array(arena, (size_t)counts[GRAPH_OUTPUT], sizeof(*model->outputs));
    struct field field;
    int more;
    while ((more = cursor_next(&cursor, &field)) > 0) {
        if (read_graph_field(reader, &field))
            return -1;
    }
    return more < 0 ? malformed(reader->error, "the graph") : 0;
}

/* ---- The model ---- */

enum { MODEL_GRAPH = 7, MODEL_OPSET = 8 };

static int read_opset(struct graph_reader *reader, const struct field *field) {
    Onnx__OperatorSetIdProto *opset =
        unpack(reader->unpacker, &onnx__operator_set_id_proto__descriptor, field->data, field->len, reader->error);
    if (!opset)
        return -1;
    if (opset->domain && *opset->domain && strcmp(opset->domain, "ai.onnx") != 0)
        return 0; /* a node that uses another domain is refused by itself */
    if (!opset->has_version || opset->version < ONNX_MIN_OPSET || opset->version > ONNX_MAX_OPSET)
        return error_set(reader->error, ERROR_INVALID, "unsupported-opset", "",
                         "The model uses opset %lld; opsets %d to %d are supported. Export it again with "
                         "opset_version=17, or convert it with onnx.version_converter.",
                         (long long)opset->version, ONNX_MIN_OPSET, ONNX_MAX_OPSET);
    if (reader->model->opset && reader->model->opset != opset->version)
        return error_set(reader->error, ERROR_INVALID, "unsupported-opset", "",
                         "The model declares two opsets, %d and %lld.", reader->model->opset,
                         (long long)opset->version);
    reader->model->opset = (int)opset->version;
    return 0;
}

int onnx_read_model(const void *bytes, size_t len, struct arena *arena, struct onnx_model *ret, struct error *error) {
    if (len == 0)
        return malformed(error, "the file");
    struct unpacker unpacker;
    unpacker_init(&unpacker, arena, len);
    struct onnx_model model = {.name = ""};
    struct graph_reader reader = {&unpacker, &model, error};
    struct cursor cursor = cursor_of(bytes, len);
    struct field field, graph = {0};
    int more;
    while ((more = cursor_next(&cursor, &field)) > 0) {
        if (field.number == MODEL_OPSET && field.type == WIRE_BYTES && read_opset(&reader, &field))
            return -1;
        if (field.number == MODEL_GRAPH && (field.type != WIRE_BYTES || graph.data))
            return malformed(error, "the graph");
        if (field.number == MODEL_GRAPH)
            graph = field;
    }
    if (more < 0)
        return malformed(error, "the file");
    if (!graph.data)
        return error_set(error, ERROR_INVALID, "malformed-model", "", "This is not an ONNX model: it has no graph.");
    if (!model.opset)
        return error_set(error, ERROR_INVALID, "unsupported-opset", "",
                         "The model does not say which opset it uses (opset_import of the default domain).");
    if (read_graph(&reader, &graph))
        return -1;
    *ret = model;
    return 0;
}
