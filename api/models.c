/* SPDX-License-Identifier: Apache-2.0 */
/* models.c: uploaded networks. What a file holds is found out in a limited child before anything of it is kept. */
#include <string.h>

#include "api/files.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/pages.h"
#include "api/server.h"
#include "service/base/clock.h"
#include "service/base/utf8.h"
#include "service/model/inspect.h"
#include "service/store/blob_store.h"
#include "service/store/model_store.h"

enum { MOST_NAME = 200, MOST_SUMMARY = 32 << 20, MOST_LIST = 256 << 20, INSPECT_S = 120, MOST_TRIES = 3 };

/* ---- as JSON ---- */

static void write_model(struct buf *out, const struct model_row *model) {
    write_object(out, NULL);
    write_text(out, "id", model->id);
    write_text(out, "name", model->name);
    write_text(out, "sha256", model->sha256);
    write_int(out, "bytes", model->bytes);
    write_time(out, "created_at", model->created_us);
    write_members(out, model->summary);
    write_end(out, '}');
}

static int answer_model(struct request *request, struct response *ret, int status, const struct model_row *model,
                        struct error *error) {
    struct buf *json = request_buf(request, MOST_SUMMARY);
    write_model(json, model);
    return response_written(request, ret, status, json, error);
}

static void write_tensors(struct buf *out, const char *name, const struct model_tensor *tensors, int n) {
    write_array(out, name);
    for (int i = 0; i < n; i++) {
        write_object(out, NULL);
        write_text(out, "name", tensors[i].name);
        write_text(out, "dtype", dtype_name(tensors[i].dtype));
        write_array(out, "shape");
        for (int d = 0; d < tensors[i].shape.rank; d++)
            write_int(out, NULL, tensors[i].shape.dim[d]);
        write_end(out, ']');
        write_end(out, '}');
    }
    write_end(out, ']');
}

static void write_operators(struct buf *out, const struct model_summary *summary) {
    write_array(out, "operators");
    for (int i = 0; i < summary->n_operators; i++) {
        write_object(out, NULL);
        write_text(out, "name", summary->operators[i].name);
        write_int(out, "count", summary->operators[i].count);
        write_end(out, '}');
    }
    write_end(out, ']');
}

static void write_tasks(struct buf *out, const struct model_summary *summary) {
    write_array(out, "tasks");
    for (int i = 0; i < summary->n_tasks; i++) {
        const struct model_task *task = &summary->tasks[i];
        write_object(out, NULL);
        write_text(out, "workload", task->workload);
        write_text(out, "name", task->first);
        write_int(out, "count", task->count);
        write_int(out, "flops", task->flops);
        write_int(out, "bytes", task->bytes);
        write_end(out, '}');
    }
    write_end(out, ']');
}

static void write_summary(struct buf *out, const struct model_summary *summary) {
    write_object(out, NULL);
    write_text(out, "graph_name", summary->graph_name);
    write_tensors(out, "inputs", summary->inputs, summary->n_inputs);
    write_tensors(out, "outputs", summary->outputs, summary->n_outputs);
    write_operators(out, summary);
    write_int(out, "source_operators", summary->source_operators);
    write_int(out, "parameters", summary->parameters);
    write_int(out, "flops", summary->flops);
    write_tasks(out, summary);
    write_end(out, '}');
}

/* ---- upload ---- */

static int read_name(const struct request *request, const char **ret, struct error *error) {
    const char *name = request_query(request, "name");
    size_t len = name ? strlen(name) : 0;
    int characters = 0;
    for (size_t at = 0, n; at < len; at += n, characters++) {
        n = utf8_sequence(name + at, len - at);
        if (n == 0 || (unsigned char)name[at] < 0x20)
            return error_set(error, ERROR_INVALID, "bad-query", "name", "A model's name is printable UTF-8 text.");
    }
    if (name && (characters == 0 || characters > MOST_NAME))
        return error_set(error, ERROR_INVALID, "bad-query", "name", "A model's name has 1 to %d characters.",
                         MOST_NAME);
    *ret = name ? name : "model";
    return 0;
}

/* A file that takes too much to read is wrong input, whatever it takes too much of. */
static int inspect(struct request *request, struct buf *ret_summary, struct error *error) {
    struct inspect_options options = {.program = request->api->program, .layout = LAYOUT_NHWC};
    struct model_summary *summary;
    if (model_inspect(request->upload.path, &options, deadline_in_s(INSPECT_S), request->arena, &summary, error) < 0) {
        if (error->class == ERROR_LIMIT)
            error->class = ERROR_INVALID;
        return -1;
    }
    write_summary(ret_summary, summary);
    return buf_check(ret_summary, "the model's summary", error);
}

/* The blob may be deleted between its storing and the model's row, together with another model of the same bytes. */
static int store(struct request *request, const struct model_new *model, struct model_row **ret, bool *ret_created,
                 struct error *error) {
    int status = -1;
    for (int tries = 0; status < 0 && tries < MOST_TRIES; tries++) {
        char sha256[SHA256_HEX];
        int64_t bytes;
        if (blob_put_file(request->api->db, request->upload.path, sha256, &bytes, error) < 0)
            return -1;
        status = model_create(request->api->db, model, request->arena, ret, ret_created, error);
        if (status < 0 && strcmp(error->code, "blob-missing") != 0)
            return -1;
    }
    return status;
}

static int keep_new(struct request *request, const char *name, struct model_row **ret, bool *ret_created,
                    struct error *error) {
    struct buf *summary = request_buf(request, MOST_SUMMARY);
    if (model_check_room(request->api->db, request->project_id, request->upload.bytes, error) < 0 ||
        inspect(request, summary, error) < 0)
        return -1;
    struct model_new model = {.project_id = request->project_id,
                              .name = name,
                              .sha256 = request->upload.sha256,
                              .bytes = request->upload.bytes,
                              .summary = buf_str(summary)};
    if (store(request, &model, ret, ret_created, error) < 0)
        return -1;
    const char *cache = arena_printf(request->arena, "%s/blobs", request->api->data_dir);
    struct error ignored; /* it is only a cache */
    if (blob_cache_adopt(cache, model.sha256, request->upload.path, &ignored) == 0)
        request->upload.path = NULL;
    return 0;
}

int model_upload(struct request *request, struct response *ret, struct error *error) {
    const char *name = NULL;
    struct model_row *model;
    bool created = false;
    if (read_name(request, &name, error) < 0)
        return -1;
    if (model_find(request->api->db, request->project_id, request->upload.sha256, request->arena, &model, error) < 0 &&
        (error->class != ERROR_NOT_FOUND || keep_new(request, name, &model, &created, error) < 0))
        return -1;
    response_header(request, ret, "Location", arena_printf(request->arena, "/v1/models/%s", model->id));
    return answer_model(request, ret, created ? 201 : 200, model, error);
}

/* ---- the rest ---- */

int model_page(struct request *request, struct response *ret, struct error *error) {
    struct model_row *models;
    const char *cursor;
    int limit, n;
    bool more;
    if (page_read(request, &cursor, &limit, error) < 0 ||
        model_list(request->api->db, request->project_id, cursor, limit, request->arena, &models, &n, &more, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_LIST);
    write_object(json, NULL);
    write_array(json, "models");
    for (int i = 0; i < n; i++)
        write_model(json, &models[i]);
    return response_page(request, ret, json, more ? models[n - 1].id : NULL, error);
}

int model_show(struct request *request, struct response *ret, struct error *error) {
    struct model_row *model;
    if (model_get(request->api->db, request->params[0], request->arena, &model, error) < 0)
        return -1;
    return answer_model(request, ret, 200, model, error);
}

int model_file(struct request *request, struct response *ret, struct error *error) {
    struct model_row *model;
    if (model_get(request->api->db, request->params[0], request->arena, &model, error) < 0)
        return -1;
    size_t len = strlen(model->name);
    bool named = len > 5 && strcmp(model->name + len - 5, ".onnx") == 0;
    const char *file_name = named ? model->name : arena_printf(request->arena, "%s.onnx", model->name);
    return response_blob(request, ret, model->sha256, "application/octet-stream", file_name, error);
}

int model_remove(struct request *request, struct response *ret, struct error *error) {
    if (model_delete(request->api->db, request->params[0], error) < 0)
        return -1;
    response_text(request, ret, 204, NULL, "", 0);
    return 0;
}
