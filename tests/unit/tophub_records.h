/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tophub_records.h: the published records of AutoTVM's CUDA templates (tophub_log.h), each with its workload in our own
 * terms.
 */
#ifndef WARPTUNE_TESTS_TOPHUB_RECORDS_H
#define WARPTUNE_TESTS_TOPHUB_RECORDS_H

#include <criterion/criterion.h>
#include <string.h>

#include "service/base/buf.h"
#include "service/base/file.h"
#include "service/base/json.h"
#include "tophub_log.h"

struct record {
    char key[512]; /* of the workload */
    int64_t index;
    struct json_object *entity; /* borrowed for the call */
};

typedef void record_fn(const struct record *record, void *context);

static inline int64_t record_number(struct json_object *array, int i) {
    return json_object_get_int64(json_object_array_get_idx(array, (size_t)i));
}

/* Of the arguments [data, kernel, strides, pads, dilations, type]; one filter a channel means depthwise. */
static inline void record_key(struct json_object *args, char *ret, size_t size) {
    struct json_object *at[5];
    for (int i = 0; i < 5; i++)
        at[i] = json_object_array_get_idx(args, (size_t)i);
    struct json_object *data = json_object_array_get_idx(at[0], 1), *kernel = json_object_array_get_idx(at[1], 1);
    int64_t x[4], w[4], pad[4], out[2], groups = record_number(kernel, 1) == 1 ? record_number(data, 1) : 1;
    for (int i = 0; i < 4; i++) {
        x[i] = record_number(data, i);
        w[i] = record_number(kernel, i);
        pad[i] = record_number(at[3], i);
    }
    for (int i = 0; i < 2; i++) {
        int64_t window = (w[2 + i] - 1) * record_number(at[4], i) + 1;
        out[i] = (x[2 + i] + pad[i] + pad[2 + i] - window) / record_number(at[2], i) + 1;
    }
    snprintf(ret, size,
             "conv2d(f32:row:%lldx%lldx%lldx%lld, f32:row:%lldx%lldx%lldx%lld) -> f32:row:%lldx%lldx%lldx%lld "
             "{stride=%lldx%lld, dilation=%lldx%lld, pad=%lldx%lldx%lldx%lld, groups=%lld}",
             (long long)x[0], (long long)x[1], (long long)x[2], (long long)x[3], (long long)w[0], (long long)w[1],
             (long long)w[2], (long long)w[3], (long long)x[0], (long long)w[0], (long long)out[0], (long long)out[1],
             (long long)record_number(at[2], 0), (long long)record_number(at[2], 1), (long long)record_number(at[4], 0),
             (long long)record_number(at[4], 1), (long long)pad[0], (long long)pad[1], (long long)pad[2],
             (long long)pad[3], (long long)groups);
}

/* Calls `fn` for a line when it is a record of the template. */
static inline bool record_of_line(const char *line, size_t len, const char *template, record_fn *fn, void *context) {
    struct json_object *object = NULL;
    struct error error = {0};
    cr_assert_eq(json_parse(line, len, &object, &error), 0, "%s", error.text);
    struct json_object *input = json_object_object_get(object, "input");
    struct json_object *config = json_object_object_get(object, "config");
    bool ours = strcmp(json_object_get_string(json_object_array_get_idx(input, 1)), template) == 0;
    if (ours) {
        struct record record = {.index = json_object_get_int64(json_object_object_get(config, "index")),
                                .entity = json_object_object_get(config, "entity")};
        record_key(json_object_array_get_idx(input, 2), record.key, sizeof record.key);
        fn(&record, context);
    }
    json_object_put(object);
    return ours;
}

/* Calls `fn` for each record of the template; returns how many there are. */
static inline int records_of(const char *template, record_fn *fn, void *context) {
    struct buf log CLEANUP(buf_release) = BUF_INIT(0);
    struct error error = {0};
    int n = 0;
    char path[TOPHUB_MAX_PATH];
    if (!tophub_log(path))
        cr_skip_test("no tuning log");
    cr_assert_eq(file_read(path, 1 << 20, &log, &error), 0, "%s", error.text);
    for (const char *line = buf_str(&log); *line; line += strcspn(line, "\n") + 1)
        n += record_of_line(line, strcspn(line, "\n"), template, fn, context);
    return n;
}

#endif
