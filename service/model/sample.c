/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/sample.h"

#include <string.h>

#include "service/base/arena.h"
#include "service/base/buf.h"
#include "service/base/rng.h"
#include "service/model/sample_networks.h"
#include "service/model/wire.h"

#define INPUT_CHANNELS 3
#define INPUT_SIZE 224
#define OPSET 17
#define IR_VERSION 8
#define BATCH_MAX 65536

/* Field numbers and enumerators of onnx.proto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2
};
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum {
    ATTR_NAME = 1,
    ATTR_F = 2,
    ATTR_I = 3,
    ATTR_INTS = 8,
    ATTR_TYPE = 20,
    TYPE_FLOAT = 1,
    TYPE_INT = 2,
    TYPE_INTS = 7
};
enum { TENSOR_DIMS = 1, TENSOR_DATA_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW_DATA = 9, DATA_FLOAT = 1 };
enum { INFO_NAME = 1, INFO_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEM_TYPE = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };

struct model {
    const char *name;
    struct net net;
    struct rng *rng;
};

struct tensor_body {
    const struct net_tensor *tensor;
    struct rng *rng;
};

struct info_body {
    const char *name;
    int rank;
    int64_t dim[4]; /* 0: symbolic */
};

/*
 * Two numbers, near enough to normal, of each 64 random bits: the sum of four bytes has mean 510 and deviation
 * 147.8; adding neighbouring bytes of the whole word at once makes it cheap enough for 140 million weights.
 */
static void fill_normal(struct rng *rng, float deviation, float *ret, size_t n) {
    const uint64_t bytes = 0x00ff00ff00ff00ff, halves = 0x0000ffff0000ffff;
    const float scale = deviation / 147.80054F;
    for (size_t i = 0; i < n; i += 2) {
        uint64_t word = rng_next(rng);
        word = (word & bytes) + (word >> 8 & bytes);
        word = (word & halves) + (word >> 16 & halves);
        ret[i] = scale * (float)((int32_t)(word & 0xffff) - 510);
        if (i + 1 < n) {
            ret[i + 1] = scale * (float)((int32_t)(word >> 32) - 510);
        }
    }
}

static void fill_uniform(struct rng *rng, float low, float high, float *ret, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ret[i] = low + (high - low) * (float)rng_unit(rng);
    }
}

static void write_tensor(struct wire *wire, const void *data) {
    const struct tensor_body *body = data;
    const struct net_tensor *tensor = body->tensor;
    uint64_t count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        wire_int(wire, TENSOR_DIMS, tensor->dim[i]);
        count *= (uint64_t)tensor->dim[i];
    }
    wire_int(wire, TENSOR_DATA_TYPE, DATA_FLOAT);
    wire_text(wire, TENSOR_NAME, tensor->name);
    wire_begin_bytes(wire, TENSOR_RAW_DATA, count * sizeof(float));
    while (!wire->sizing && count > 0) {
        float numbers[WIRE_PIECE / sizeof(float)];
        size_t n = count < ARRAY_COUNT(numbers) ? (size_t)count : ARRAY_COUNT(numbers);
        if (tensor->normal) {
            fill_normal(body->rng, tensor->high, numbers, n);
        } else {
            fill_uniform(body->rng, tensor->low, tensor->high, numbers, n);
        }
        memcpy(wire_piece(wire, n * sizeof(float)), numbers, n * sizeof(float)); /* a piece may be unaligned */
        count -= n;
    }
}

static void write_attr(struct wire *wire, const void *data) {
    const struct net_attr *attr = data;
    wire_text(wire, ATTR_NAME, attr->name);
    if (attr->is_float) {
        wire_float(wire, ATTR_F, attr->value);
    } else if (attr->n == 0) {
        wire_int(wire, ATTR_I, attr->ints[0]);
    }
    for (int i = 0; i < attr->n; i++) {
        wire_int(wire, ATTR_INTS, attr->ints[i]);
    }
    wire_int(wire, ATTR_TYPE, attr->is_float ? TYPE_FLOAT : attr->n ? TYPE_INTS : TYPE_INT);
}

static void write_node(struct wire *wire, const void *data) {
    const struct net_node *node = data;
    for (int i = 0; i < node->n_in; i++) {
        wire_text(wire, NODE_INPUT, node->in[i]);
    }
    wire_text(wire, NODE_OUTPUT, node->out);
    wire_text(wire, NODE_NAME, node->name);
    wire_text(wire, NODE_OP_TYPE, node->op);
    for (int i = 0; i < node->n_attrs; i++) {
        wire_message(wire, NODE_ATTRIBUTE, write_attr, &node->attrs[i]);
    }
}

static void write_dim(struct wire *wire, const void *data) {
    const int64_t *dim = data;
    if (*dim) {
        wire_int(wire, DIM_VALUE, *dim);
    } else {
        wire_text(wire, DIM_PARAM, "N");
    }
}

static void write_shape(struct wire *wire, const void *data) {
    const struct info_body *info = data;
    for (int i = 0; i < info->rank; i++) {
        wire_message(wire, SHAPE_DIM, write_dim, &info->dim[i]);
    }
}

static void write_tensor_type(struct wire *wire, const void *data) {
    wire_int(wire, TENSOR_ELEM_TYPE, DATA_FLOAT);
    wire_message(wire, TENSOR_SHAPE, write_shape, data);
}

static void write_type(struct wire *wire, const void *data) {
    wire_message(wire, TYPE_TENSOR, write_tensor_type, data);
}

static void write_info(struct wire *wire, const void *data) {
    const struct info_body *info = data;
    wire_text(wire, INFO_NAME, info->name);
    wire_message(wire, INFO_TYPE, write_type, info);
}

static void write_graph(struct wire *wire, const void *data) {
    const struct model *model = data;
    const struct net *net = &model->net;
    const struct info_body input = {"input", 4, {net->batch, INPUT_CHANNELS, INPUT_SIZE, INPUT_SIZE}};
    const struct info_body output = {"output", 2, {net->batch, SAMPLE_CLASSES}};
    for (int i = 0; i < net->n_nodes; i++) {
        wire_message(wire, GRAPH_NODE, write_node, &net->nodes[i]);
    }
    wire_text(wire, GRAPH_NAME, model->name);
    for (int i = 0; i < net->n_tensors; i++) {
        wire_message(wire, GRAPH_INITIALIZER, write_tensor, &(struct tensor_body){&net->tensors[i], model->rng});
    }
    wire_message(wire, GRAPH_INPUT, write_info, &input);
    wire_message(wire, GRAPH_OUTPUT, write_info, &output);
}

static void write_opset(struct wire *wire, const void *data) {
    (void)data;
    wire_text(wire, OPSET_DOMAIN, "");
    wire_int(wire, OPSET_VERSION, OPSET);
}

static const struct sample_network *find(const char *name, struct error *error) {
    struct buf names CLEANUP(buf_release) = BUF_INIT(1024);
    for (const struct sample_network *network = sample_networks; network->name; network++) {
        if (!strcmp(network->name, name)) {
            return network;
        }
        buf_printf(&names, "%s%s", names.len ? ", " : "", network->name);
    }
    error_set(error, ERROR_INVALID, "unknown-network", "name", "There is no network of this name; there are: %s.",
              buf_str(&names));
    return NULL;
}

const char *const *sample_names(void) {
    return sample_network_names;
}

int sample_write(const char *name, int64_t batch, uint64_t seed, const char *path, struct error *error) {
    const struct sample_network *network = find(name, error);
    struct wire wire;
    struct rng rng;
    if (!network) {
        return -1;
    }
    if (batch < 0 || batch > BATCH_MAX) {
        return error_set(error, ERROR_INVALID, "bad-batch", "batch", "The batch is %lld; it must lie between 0 and %d.",
                         (long long)batch, BATCH_MAX);
    }
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct model model = {name, {.arena = arena, .batch = batch, .bn_epsilon = 1e-5F}, &rng};
    network->build(&model.net, net_input(INPUT_CHANNELS, INPUT_SIZE, INPUT_SIZE), network->spec);
    model.net.nodes[model.net.n_nodes - 1].out = "output";
    rng_seed(&rng, seed);
    if (wire_open(&wire, path, error)) {
        return -1;
    }
    wire_int(&wire, MODEL_IR_VERSION, IR_VERSION);
    wire_text(&wire, MODEL_PRODUCER, "warptune");
    wire_message(&wire, MODEL_GRAPH, write_graph, &model);
    wire_message(&wire, MODEL_OPSET, write_opset, NULL);
    return wire_close(&wire, path, error);
}
