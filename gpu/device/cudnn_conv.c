/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cudnn_conv.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "cudnn ";
static const char *const types[CUDNN_TYPES] = {"no", "f32", "f16"};
static const char *const acts[CUDNN_ACTS] = {"none", "relu", "sigmoid", "tanh", "silu"};

bool cudnn_is_entry(const char *entry) {
    return strncmp(entry, prefix, sizeof prefix - 1) == 0;
}

void cudnn_entry_print(const struct cudnn_conv *conv, int plan, int version, char ret[CUDNN_ENTRY_MAX]) {
    const int *x = conv->x, *w = conv->w, *y = conv->y, *pad = conv->pad;
    snprintf(ret, CUDNN_ENTRY_MAX,
             "%s%d %s %s x=%dx%dx%dx%d w=%dx%dx%dx%d y=%dx%dx%dx%d stride=%dx%d dilation=%dx%d pad=%dx%dx%dx%d "
             "bias=%s residual=%d act=%s:%.9g:%.9g plan=%d",
             prefix, version, types[conv->type], conv->nhwc ? "nhwc" : "nchw", x[0], x[1], x[2], x[3], w[0], w[1], w[2],
             w[3], y[0], y[1], y[2], y[3], conv->stride[0], conv->stride[1], conv->dilation[0], conv->dilation[1],
             pad[0], pad[1], pad[2], pad[3], types[conv->bias], conv->residual, acts[conv->act], (double)conv->slope,
             (double)conv->upper, plan);
}

static int find(const char *const *names, int n, const char *name) {
    int i = 0;
    while (i < n && strcmp(names[i], name) != 0)
        i++;
    return i;
}

static bool all_at_least(const int *values, int n, int least) {
    for (int i = 0; i < n; i++)
        if (values[i] < least)
            return false;
    return true;
}

bool cudnn_entry_parse(const char *entry, struct cudnn_conv *ret, int *ret_plan, int *ret_version) {
    struct cudnn_conv c = {0};
    char type[8], layout[8], bias[8], act[16];
    int *x = c.x, *w = c.w, *y = c.y, *pad = c.pad, residual = 0, plan = -1, version = -1, end = 0;
    if (!cudnn_is_entry(entry))
        return false;
    int n = sscanf(entry + sizeof prefix - 1,
                   "%d %7[a-z0-9] %7[a-z] x=%dx%dx%dx%d w=%dx%dx%dx%d y=%dx%dx%dx%d stride=%dx%d dilation=%dx%d "
                   "pad=%dx%dx%dx%d bias=%7[a-z0-9] residual=%d act=%15[a-z]:%f:%f plan=%d%n",
                   &version, type, layout, &x[0], &x[1], &x[2], &x[3], &w[0], &w[1], &w[2], &w[3], &y[0], &y[1], &y[2],
                   &y[3], &c.stride[0], &c.stride[1], &c.dilation[0], &c.dilation[1], &pad[0], &pad[1], &pad[2],
                   &pad[3], bias, &residual, act, &c.slope, &c.upper, &plan, &end);
    if (n != 29 || entry[sizeof prefix - 1 + (size_t)end] != '\0' || version < 0 || plan < 0)
        return false;
    c.type = (enum cudnn_type)find(types, CUDNN_TYPES, type);
    c.bias = (enum cudnn_type)find(types, CUDNN_TYPES, bias);
    c.act = (enum cudnn_act)find(acts, CUDNN_ACTS, act);
    c.nhwc = strcmp(layout, "nhwc") == 0;
    c.residual = residual == 1;
    *ret = c;
    *ret_plan = plan;
    *ret_version = version;
    return (c.type == CUDNN_F32 || c.type == CUDNN_F16) && (c.nhwc || strcmp(layout, "nchw") == 0) &&
           c.bias < CUDNN_TYPES && c.act < CUDNN_ACTS && (residual == 0 || residual == 1) && all_at_least(x, 4, 1) &&
           all_at_least(w, 4, 1) && all_at_least(y, 4, 1) && all_at_least(c.stride, 2, 1) &&
           all_at_least(c.dilation, 2, 1) && all_at_least(pad, 4, 0);
}

int cudnn_conv_args(const struct cudnn_conv *conv) {
    return 3 + (conv->bias != CUDNN_NOTHING) + conv->residual;
}
