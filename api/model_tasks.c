/* SPDX-License-Identifier: Apache-2.0 */
/* model_tasks.c: the workloads of a model under given options, each with the best configurations known for it. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "api/configs.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/server.h"
#include "service/base/clock.h"
#include "service/model/inspect.h"
#include "service/store/blob_store.h"
#include "service/store/config_store.h"
#include "service/store/model_store.h"

enum { INSPECT_S = 120, MOST_TASKS = 64 << 20, MOST_DEVICES = 100 };

static int read_options(const struct request *request, struct inspect_options *ret, struct error *error) {
    const char *precision = request_query(request, "precision"), *layout = request_query(request, "layout");
    if (precision && precision_parse(precision, "bad-query", &ret->precision, error) < 0)
        return -1;
    if (layout && strcmp(layout, "auto") != 0 && strcmp(layout, "nhwc") != 0 && strcmp(layout, "nchw") != 0)
        return error_set(error, ERROR_INVALID, "bad-query", "layout",
                         "'layout' is '%.40s', but must be auto, nhwc or nchw.", layout);
    ret->program = request->api->program;
    ret->layout = layout && strcmp(layout, "nchw") == 0 ? LAYOUT_ROW : LAYOUT_NHWC;
    return request_query_int(request, "batch", 1, 65536, 0, &ret->batch, error);
}

/* A network that gets too large with this batch is wrong input, whatever it gets too much of. */
static int inspect(struct request *request, const char *path, const struct inspect_options *options,
                   struct model_summary **ret, struct error *error) {
    if (model_inspect(path, options, deadline_in_s(INSPECT_S), request->arena, ret, error) == 0)
        return 0;
    if (error->class == ERROR_LIMIT)
        error->class = ERROR_INVALID;
    return -1;
}

static void write_config(struct buf *out, const char *name, const struct config_row *config) {
    write_object(out, name);
    config_write_members(out, config);
    write_end(out, '}');
}

/* `best` on whatever device it is fastest, and `known` on each class of devices. */
static int write_known(struct request *request, struct buf *out, const char *workload, struct error *error) {
    struct config_filter filter = {.viewer = request->project_id, .workload = workload, .limit = MOST_DEVICES};
    struct config_row *configs;
    int n, best = -1;
    bool more;
    if (config_list(request->api->db, &filter, request->arena, &configs, &n, &more, error) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (best < 0 || configs[i].cost_s < configs[best].cost_s)
            best = i;
    if (best < 0)
        write_raw(out, "best", NULL);
    else
        write_config(out, "best", &configs[best]);
    write_array(out, "known");
    for (int i = 0; i < n; i++)
        write_config(out, NULL, &configs[i]);
    write_end(out, ']');
    return 0;
}

static int write_task(struct request *request, struct buf *out, const struct model_task *task, int number,
                      struct error *error) {
    write_object(out, NULL);
    write_int(out, "number", number);
    write_text(out, "workload", task->workload);
    write_text(out, "name", task->first);
    write_int(out, "count", task->count);
    write_int(out, "flops", task->flops);
    write_int(out, "bytes", task->bytes);
    if (write_known(request, out, task->workload, error) < 0)
        return -1;
    write_end(out, '}');
    return 0;
}

int model_tasks(struct request *request, struct response *ret, struct error *error) {
    char path[PATH_MAX];
    struct inspect_options options = {0};
    struct model_row *model;
    struct model_summary *summary;
    const char *cache = arena_printf(request->arena, "%s/blobs", request->api->data_dir);
    if (read_options(request, &options, error) < 0 ||
        model_get(request->api->db, request->params[0], request->arena, &model, error) < 0 ||
        blob_fetch(request->api->db, cache, model->sha256, path, sizeof path, error) < 0 ||
        inspect(request, path, &options, &summary, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_TASKS);
    write_object(json, NULL);
    write_text(json, "model_id", model->id);
    write_text(json, "precision", precision_name(options.precision));
    write_text(json, "layout", options.layout == LAYOUT_ROW ? "nchw" : "nhwc");
    write_int(json, "flops", summary->flops);
    write_array(json, "tasks");
    for (int i = 0; i < summary->n_tasks; i++)
        if (write_task(request, json, &summary->tasks[i], i, error) < 0)
            return -1;
    write_end(json, ']');
    write_end(json, '}');
    return response_written(request, ret, 200, json, error);
}
