/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudnn_backend.h: what cudnn_graph.c and cudnn_plan.c share: the library, its numbers, and its descriptors.
 *
 * The names are those of cudnn_graph.h, without their CUDNN_ and with DNN_; tests/unit/test_cudnn.c holds them against
 * NVIDIA's header where it is.
 */
#ifndef WARPTUNE_DEVICE_CUDNN_BACKEND_H
#define WARPTUNE_DEVICE_CUDNN_BACKEND_H

#include <stdbool.h>

#include "gpu/device/cudnn_plan.h"

#define DNN_NUMBERS(X)                                      \
    X(DATA_FLOAT, 0)                                        \
    X(DATA_HALF, 2)                                         \
    X(CROSS_CORRELATION, 1)                                 \
    X(POINTWISE_ADD, 0)                                     \
    X(POINTWISE_RELU_FWD, 100)                              \
    X(POINTWISE_TANH_FWD, 101)                              \
    X(POINTWISE_SIGMOID_FWD, 102)                           \
    X(POINTWISE_SWISH_FWD, 106)                             \
    X(ATTR_POINTWISE_MODE, 0)                               \
    X(ATTR_POINTWISE_MATH_PREC, 1)                          \
    X(ATTR_POINTWISE_RELU_UPPER_CLIP, 4)                    \
    X(ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 5)              \
    X(ATTR_CONVOLUTION_COMP_TYPE, 100)                      \
    X(ATTR_CONVOLUTION_CONV_MODE, 101)                      \
    X(ATTR_CONVOLUTION_DILATIONS, 102)                      \
    X(ATTR_CONVOLUTION_FILTER_STRIDES, 103)                 \
    X(ATTR_CONVOLUTION_POST_PADDINGS, 104)                  \
    X(ATTR_CONVOLUTION_PRE_PADDINGS, 105)                   \
    X(ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                   \
    X(ATTR_ENGINEHEUR_MODE, 200)                            \
    X(ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                 \
    X(ATTR_ENGINEHEUR_RESULTS, 202)                         \
    X(ATTR_ENGINECFG_ENGINE, 300)                           \
    X(ATTR_ENGINECFG_KNOB_CHOICES, 302)                     \
    X(ATTR_EXECUTION_PLAN_HANDLE, 400)                      \
    X(ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)               \
    X(ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)              \
    X(ATTR_KNOB_CHOICE_KNOB_TYPE, 600)                      \
    X(ATTR_KNOB_CHOICE_KNOB_VALUE, 601)                     \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)        \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)         \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)    \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)            \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)            \
    X(ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)            \
    X(ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 750)          \
    X(ATTR_OPERATION_POINTWISE_XDESC, 751)                  \
    X(ATTR_OPERATION_POINTWISE_BDESC, 752)                  \
    X(ATTR_OPERATION_POINTWISE_YDESC, 753)                  \
    X(ATTR_OPERATIONGRAPH_HANDLE, 800)                      \
    X(ATTR_OPERATIONGRAPH_OPS, 801)                         \
    X(ATTR_TENSOR_BYTE_ALIGNMENT, 900)                      \
    X(ATTR_TENSOR_DATA_TYPE, 901)                           \
    X(ATTR_TENSOR_DIMENSIONS, 902)                          \
    X(ATTR_TENSOR_STRIDES, 903)                             \
    X(ATTR_TENSOR_UNIQUE_ID, 906)                           \
    X(ATTR_TENSOR_IS_VIRTUAL, 907)                          \
    X(ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                   \
    X(ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                \
    X(ATTR_VARIANT_PACK_WORKSPACE, 1003)                    \
    X(ATTR_ENGINE_GLOBAL_INDEX, 1301)                       \
    X(ATTR_ENGINE_BEHAVIOR_NOTE, 1305)                      \
    X(ATTR_ENGINE_NUMERICAL_NOTE, 1303)                     \
    X(TYPE_HANDLE, 0)                                       \
    X(TYPE_DATA_TYPE, 1)                                    \
    X(TYPE_BOOLEAN, 2)                                      \
    X(TYPE_INT64, 3)                                        \
    X(TYPE_FLOAT, 4)                                        \
    X(TYPE_DOUBLE, 5)                                       \
    X(TYPE_VOID_PTR, 6)                                     \
    X(TYPE_CONVOLUTION_MODE, 7)                             \
    X(TYPE_HEUR_MODE, 8)                                    \
    X(TYPE_KNOB_TYPE, 9)                                    \
    X(TYPE_NUMERICAL_NOTE, 11)                              \
    X(TYPE_POINTWISE_MODE, 14)                              \
    X(TYPE_BEHAVIOR_NOTE, 19)                               \
    X(BEHAVIOR_NOTE_RUNTIME_COMPILATION, 0)                 \
    X(TYPE_BACKEND_DESCRIPTOR, 15)                          \
    X(BACKEND_POINTWISE_DESCRIPTOR, 0)                      \
    X(BACKEND_CONVOLUTION_DESCRIPTOR, 1)                    \
    X(BACKEND_ENGINE_DESCRIPTOR, 2)                         \
    X(BACKEND_ENGINECFG_DESCRIPTOR, 3)                      \
    X(BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                     \
    X(BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                 \
    X(BACKEND_KNOB_CHOICE_DESCRIPTOR, 7)                    \
    X(BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10) \
    X(BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 13)           \
    X(BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                \
    X(BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                  \
    X(BACKEND_TENSOR_DESCRIPTOR, 17)                        \
    X(NUMERICAL_NOTE_TENSOR_CORE, 0)                        \
    X(NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                \
    X(NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2)        \
    X(HEUR_MODE_A, 3)                                       \
    X(HEUR_MODE_B, 1)                                       \
    X(HEUR_MODE_FALLBACK, 2)

#define DNN_NUMBER(name, value) DNN_##name = (value),
enum { DNN_NUMBERS(DNN_NUMBER) };
#undef DNN_NUMBER

struct cudnn {
    struct cuda_cudnn api;
    struct cudnnContext *handle;
};

/* Descriptors that go together; the first failure is kept, and all that follows does nothing. */
enum { DNN_MOST = 1024 };
struct dnn_set {
    const struct cuda_cudnn *api;
    void *items[DNN_MOST];
    int n;
    unsigned status;  /* 0 while nothing failed */
    const char *what; /* that failed */
};

void *dnn_new(struct dnn_set *set, unsigned kind, const char *what);
void dnn_put(struct dnn_set *set, void *item, unsigned attribute, unsigned type, int64_t n, const void *values);
void dnn_put_item(struct dnn_set *set, void *item, unsigned attribute, void *value);
void dnn_finish(struct dnn_set *set, void *item, const char *what);
void dnn_free(struct dnn_set *set); /* the last made first */
/* «what: cuDNN says 3000 (not supported).» for a status other than 0. */
int dnn_explain(unsigned status, const char *what, char *reason, size_t size);

/* The tensors' numbers in a variant pack are those of the launch's arguments. */
void *dnn_graph(struct dnn_set *set, const struct cudnn *cudnn, const struct cudnn_conv *conv);

#endif
