/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/onnx_window.h"

/* A list attribute with one number for each spatial dimension, `each` of them; absent: unchanged. */
static int read_list(struct onnx_call *call, const char *name, int spatial, int64_t min, int64_t ret[2]) {
    int64_t list[2];
    int count;
    if (onnx_attr_ints(call, name, 2, list, &count))
        return -1;
    if (count >= 0 && count != spatial)
        return onnx_bad(call, "its attribute %s lists %d numbers; its input has %d spatial dimensions.", name, count,
                        spatial);
    for (int i = 0; i < count; i++) {
        if (list[i] < min || list[i] > ONNX_MAX_WINDOW)
            return onnx_bad(call, "its attribute %s holds %lld; it must lie between %lld and %d.", name,
                            (long long)list[i], (long long)min, ONNX_MAX_WINDOW);
        ret[2 - spatial + i] = list[i];
    }
    return 0;
}

static int read_pads(struct onnx_call *call, struct window *window) {
    int64_t list[4];
    int count, spatial = window->spatial;
    if (onnx_attr_ints(call, "pads", 4, list, &count))
        return -1;
    if (count >= 0 && count != 2 * spatial)
        return onnx_bad(call, "its attribute pads lists %d numbers; its input has %d spatial dimensions.", count,
                        spatial);
    for (int i = 0; i < count; i++) {
        if (list[i] < 0 || list[i] > ONNX_MAX_WINDOW)
            return onnx_bad(call, "its attribute pads holds %lld; a pad must lie between 0 and %d.", (long long)list[i],
                            ONNX_MAX_WINDOW);
        if (list[i] && window->auto_pad != AUTO_PAD_NOTSET)
            return onnx_bad(call, "it has both pads and auto_pad; only one of them is supported.");
        int end = i >= spatial;
        window->pad[2 * end + 2 - spatial + (i - end * spatial)] = list[i];
    }
    return 0;
}

int window_read(struct onnx_call *call, int spatial, struct window *ret) {
    static const char *const auto_pads[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL};
    struct window window = {.spatial = spatial, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    int auto_pad = 0;
    if (spatial < 1 || spatial > 2)
        return onnx_bad(call, "its input has rank %d; 3 and 4 (one and two spatial dimensions) are supported.",
                        spatial + 2);
    if (onnx_attr_choice(call, "auto_pad", auto_pads, "NOTSET", &auto_pad))
        return -1;
    window.auto_pad = (enum auto_pad)auto_pad;
    if (read_list(call, "kernel_shape", spatial, 1, window.kernel) ||
        read_list(call, "strides", spatial, 1, window.stride) || read_pads(call, &window))
        return -1;
    *ret = window;
    return 0;
}

int window_read_dilations(struct onnx_call *call, struct window *window) {
    return read_list(call, "dilations", window->spatial, 1, window->dilation);
}

int window_read_list(struct onnx_call *call, const char *name, int spatial, int64_t min, int64_t ret[2]) {
    return read_list(call, name, spatial, min, ret);
}

int64_t window_extent(const struct window *window, int i) {
    return (window->kernel[i] - 1) * window->dilation[i] + 1;
}

void window_split_pad(struct window *window, int i, int64_t total, bool more_at_end) {
    int64_t less = total / 2, more = total - less;
    window->pad[i] = more_at_end ? less : more;
    window->pad[2 + i] = more_at_end ? more : less;
}

int window_count(const struct onnx_call *call, struct window *window, int i, int64_t in, bool ceil_mode, int64_t *ret) {
    int64_t stride = window->stride[i], extent = window_extent(window, i);
    if (window->auto_pad == AUTO_PAD_SAME_UPPER || window->auto_pad == AUTO_PAD_SAME_LOWER) {
        int64_t count = (in + stride - 1) / stride, total = (count - 1) * stride + extent - in;
        window_split_pad(window, i, total > 0 ? total : 0, window->auto_pad == AUTO_PAD_SAME_UPPER);
        *ret = count;
        return 0;
    }
    int64_t padded = in + window->pad[i] + window->pad[2 + i], room = padded - extent;
    if (room < 0)
        return onnx_bad(call, "its kernel spans %lld along the %s, but its padded input only has %lld.",
                        (long long)extent, i ? "width" : "height", (long long)padded);
    int64_t count = room / stride + 1;
    /* One more that sticks out, but only if it starts before the padding at the end. */
    if (ceil_mode && room % stride && count * stride < in + window->pad[i])
        count++;
    *ret = count;
    return 0;
}

int window_to_image(struct onnx_call *call, int value, int *ret) {
    const struct shape *x = &call->importer->graph->values[value].shape;
    struct shape image = *x;
    if (x->rank == 3)
        image = (struct shape){4, {x->dim[0], x->dim[1], 1, x->dim[2]}};
    return onnx_emit_reshape(call, value, &image, ret);
}

int window_from_image(struct onnx_call *call, int value, int spatial, int *ret) {
    const struct shape *x = &call->importer->graph->values[value].shape;
    struct shape flat = *x;
    if (spatial == 1)
        flat = (struct shape){3, {x->dim[0], x->dim[1], x->dim[3]}};
    return onnx_emit_reshape(call, value, &flat, ret);
}
