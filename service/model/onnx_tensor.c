/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto: data types, the places where its elements may lie, and whole tensor files. */
#include "service/model/onnx_internal.h"

#include <string.h>

#include "service/base/file.h"
#include "service/base/half.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data is little-endian and used in place");

/* TensorProto.DataType, in its order. */
enum { ONNX_FLOAT = 1 };
static const struct data_type {
    const char *name;
    bool supported;
    enum dtype dtype; /* what it becomes */
    enum dtype file;  /* how raw_data holds it */
} data_types[] = {
    {"undefined"},
    {"float", true, DTYPE_F32, DTYPE_F32},
    {"uint8", true, DTYPE_U8, DTYPE_U8},
    {"int8", true, DTYPE_I8, DTYPE_I8},
    {"uint16"},
    {"int16"},
    {"int32", true, DTYPE_I32, DTYPE_I32},
    {"int64", true, DTYPE_I64, DTYPE_I64},
    {"string"},
    {"bool", true, DTYPE_BOOL, DTYPE_BOOL},
    {"float16", true, DTYPE_F32, DTYPE_F16},
    {"double", true, DTYPE_F32, DTYPE_F64},
    {"uint32"},
    {"uint64"},
    {"complex64"},
    {"complex128"},
    {"bfloat16", true, DTYPE_F32, DTYPE_BF16},
    {"float8e4m3fn"},
    {"float8e4m3fnuz"},
    {"float8e5m2"},
    {"float8e5m2fnuz"},
    {"uint4"},
    {"int4"},
};

static const struct data_type *data_type_of(int32_t number, const char *what, struct error *error) {
    bool known = number > 0 && (size_t)number < ARRAY_COUNT(data_types);
    if (known && data_types[number].supported)
        return &data_types[number];
    (void)error_set(error, ERROR_INVALID, "unsupported-data-type", "",
                    "%s has data type %s (number %d), which is not supported; float, float16, bfloat16, double, int8, "
                    "uint8, int32, int64 and bool are.",
                    what, known ? data_types[number].name : "unknown", (int)number);
    return NULL;
}

int onnx_dtype(int32_t number, const char *what, enum dtype *ret, struct error *error) {
    const struct data_type *type = data_type_of(number, what, error);
    if (!type)
        return -1;
    *ret = type->dtype;
    return 0;
}

struct onnx_tensor onnx_tensor_of(Onnx__TensorProto *proto) {
    struct onnx_tensor tensor = {.proto = proto};
    if (proto->has_raw_data) {
        tensor.raw = proto->raw_data.data ? (const void *)proto->raw_data.data : "";
        tensor.raw_len = proto->raw_data.len;
    }
    return tensor;
}

static int tensor_shape(const Onnx__TensorProto *proto, const char *what, struct shape *ret, struct error *error) {
    struct shape shape = {0};
    int64_t count = 1;
    if (proto->n_dims > SHAPE_MAX_RANK)
        return error_set(error, ERROR_LIMIT, "rank-too-large", "", "%s has rank %zu; at most %d is supported.", what,
                         proto->n_dims, SHAPE_MAX_RANK);
    shape.rank = (int)proto->n_dims;
    for (int i = 0; i < shape.rank; i++) {
        shape.dim[i] = proto->dims[i];
        if (shape.dim[i] < 0)
            return error_set(error, ERROR_INVALID, "bad-shape", "", "%s has a negative dimension, %lld.", what,
                             (long long)shape.dim[i]);
        if (__builtin_mul_overflow(count, shape.dim[i], &count) || count > ONNX_MAX_ELEMENTS)
            return error_set(error, ERROR_LIMIT, "tensor-too-large", "",
                             "%s has more than 2^40 elements, the most that is supported.", what);
    }
    *ret = shape;
    return 0;
}

/* ---- Elements ---- */

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Where the elements lie and as what; maybe not aligned. */
struct elements {
    const void *data;
    size_t count;
    enum dtype file;
};

static struct elements typed_elements(const Onnx__TensorProto *proto, const struct data_type *type) {
    switch (type->file) {
    case DTYPE_F32:
        return (struct elements){proto->float_data, proto->n_float_data, DTYPE_F32};
    case DTYPE_F64:
        return (struct elements){proto->double_data, proto->n_double_data, DTYPE_F64};
    case DTYPE_I64:
        return (struct elements){proto->int64_data, proto->n_int64_data, DTYPE_I64};
    default: /* everything narrower, one an int32 */
        return (struct elements){proto->int32_data, proto->n_int32_data, DTYPE_I32};
    }
}

static int find_elements(const struct onnx_tensor *tensor, const struct data_type *type, int64_t count,
                         const char *what, struct elements *ret, struct error *error) {
    if (tensor->raw) {
        size_t size = dtype_size(type->file);
        if (tensor->raw_len != (size_t)count * size)
            return error_set(error, ERROR_INVALID, "bad-tensor", "",
                             "%s holds %zu bytes of raw data; its dimensions and type ask for %lld.", what,
                             tensor->raw_len, (long long)count * (long long)size);
        *ret = (struct elements){tensor->raw, (size_t)count, type->file};
        return 0;
    }
    *ret = typed_elements(tensor->proto, type);
    if (ret->count != (size_t)count)
        return error_set(error, ERROR_INVALID, "bad-tensor", "", "%s holds %zu elements; its dimensions ask for %lld.",
                         what, ret->count, (long long)count);
    return 0;
}

static float read_float(const struct elements *from, enum dtype meaning, size_t i) {
    uint16_t half;
    int32_t wide;
    double real;
    switch (from->file) {
    case DTYPE_F64:
        memcpy(&real, (const char *)from->data + i * 8, 8);
        return (float)real;
    case DTYPE_F32:
        memcpy(&wide, (const char *)from->data + i * 4, 4);
        return float_of_bits((uint32_t)wide);
    case DTYPE_I32: /* a half in an int32 */
        memcpy(&wide, (const char *)from->data + i * 4, 4);
        half = (uint16_t)wide;
        break;
    default:
        memcpy(&half, (const char *)from->data + i * 2, 2);
        break;
    }
    return meaning == DTYPE_BF16 ? float_of_bits((uint32_t)half << 16) : half_to_float(half);
}

/* Elements as `type->dtype` into `ret`. */
static void convert(const struct elements *from, const struct data_type *type, void *ret) {
    size_t size = dtype_size(type->dtype);
    if (from->file == type->dtype) {
        if (from->count)
            memcpy(ret, from->data, from->count * size);
    } else if (type->dtype == DTYPE_F32) {
        for (size_t i = 0; i < from->count; i++)
            ((float *)ret)[i] = read_float(from, type->file, i);
    } else { /* bytes in int32s */
        for (size_t i = 0; i < from->count; i++)
            ((uint8_t *)ret)[i] = (uint8_t)((const int32_t *)from->data)[i];
    }
}

int onnx_tensor_value(const struct onnx_tensor *tensor, const char *what, struct arena *arena, struct value *ret,
                      struct error *error) {
    const Onnx__TensorProto *proto = tensor->proto;
    if (proto->n_external_data || proto->data_location)
        return error_set(error, ERROR_INVALID, "external-data", "",
                         "%s keeps its data in another file, which is not supported; save the model as one file.",
                         what);
    if (proto->has_segment)
        return error_set(error, ERROR_INVALID, "unsupported-tensor", "",
                         "%s is a segment of a tensor, which is not supported.", what);
    const struct data_type *type = data_type_of(proto->data_type, what, error);
    struct value value = {0};
    struct elements elements = {0};
    if (!type || tensor_shape(proto, what, &value.shape, error) ||
        find_elements(tensor, type, shape_count(&value.shape), what, &elements, error))
        return -1;
    value.dtype = type->dtype;
    value.data = elements.data;
    size_t size = dtype_size(value.dtype);
    if (elements.file != value.dtype || (uintptr_t)elements.data % size || !elements.count) {
        void *copy = arena_try_alloc(arena, elements.count * size);
        if (!copy)
            return error_set(error, ERROR_LIMIT, "out-of-memory", "", "There is not enough memory for %s.", what);
        convert(&elements, type, copy);
        value.data = copy;
    }
    *ret = value;
    return 0;
}

/* ---- Tensor files ---- */

static int value_to_float(struct value *value, struct arena *arena, struct error *error) {
    size_t count = (size_t)shape_count(&value->shape);
    float *data = arena_try_alloc(arena, count * sizeof *data);
    if (!data)
        return error_set(error, ERROR_LIMIT, "out-of-memory", "", "There is not enough memory for the tensor.");
    for (size_t i = 0; i < count; i++) {
        switch (value->dtype) {
        case DTYPE_I64:
            data[i] = (float)((const int64_t *)value->data)[i];
            break;
        case DTYPE_I32:
            data[i] = (float)((const int32_t *)value->data)[i];
            break;
        case DTYPE_I8:
            data[i] = (float)((const int8_t *)value->data)[i];
            break;
        case DTYPE_U8:
        case DTYPE_BOOL:
            data[i] = (float)((const uint8_t *)value->data)[i];
            break;
        default:
            data[i] = ((const float *)value->data)[i];
            break;
        }
    }
    value->dtype = DTYPE_F32;
    value->data = data;
    return 0;
}

static int read_tensor_map(const struct file_map *map, const char *path, struct arena *arena, struct value *ret,
                           struct error *error) {
    struct onnx_tensor tensor;
    struct value value;
    if (map->len == 0)
        return error_set(error, ERROR_INVALID, "malformed-tensor", "", "The file %s is empty.", path);
    if (onnx_read_tensor_message(map->data, map->len, arena, &tensor, error) ||
        onnx_tensor_value(&tensor, "The tensor", arena, &value, error) || value_to_float(&value, arena, error))
        return error_prefix(error, "%s: ", path);
    value.name = arena_strdup(arena, tensor.proto->name ? tensor.proto->name : "");
    *ret = value;
    return 0;
}

int onnx_read_tensor(const char *path, struct arena *arena, struct value *ret, struct error *error) {
    struct file_map map;
    if (file_map(path, &map, error))
        return -1;
    int result = read_tensor_map(&map, path, arena, ret, error);
    file_unmap(&map);
    return result;
}

int onnx_write_tensor(const char *path, const char *name, const struct shape *shape, const float *data,
                      struct error *error) {
    struct shape dims = *shape;
    Onnx__TensorProto proto = ONNX__TENSOR_PROTO__INIT;
    proto.n_dims = (size_t)dims.rank;
    proto.dims = dims.dim;
    proto.has_data_type = 1;
    proto.data_type = ONNX_FLOAT;
    proto.name = (char *)(uintptr_t)name;
    proto.has_raw_data = 1;
    proto.raw_data.len = (size_t)shape_count(&dims) * sizeof *data;
    proto.raw_data.data = (uint8_t *)(uintptr_t)data;
    size_t size = onnx__tensor_proto__get_packed_size(&proto);
    struct buf buf = BUF_INIT(size + 1);
    uint8_t *room = buf_reserve(&buf, size);
    if (!room)
        return error_set(error, ERROR_LIMIT, "out-of-memory", "", "There is not enough memory to write %s.", path);
    buf.len = onnx__tensor_proto__pack(&proto, room);
    int result = file_write(path, buf.data, buf.len, error);
    buf_release(&buf);
    return result;
}
