/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builder child: renders and compiles. A request is {workload, template ("": the plain one), index, target,
 * cache_dir, tmp_dir, timeout_s}; the answer {error_no, text, path, seconds}.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/measure/code_cache.h"
#include "gpu/measure/instantiate.h"
#include "gpu/measure/measure.h"
#include "gpu/measure/peer.h"
#include "service/base/clock.h"

enum { MOST_LOG = 1 << 20, MOST_TEXT = 1 << 20, MOST_PATH = 400 };

struct request {
    struct workload *workload;
    const char *template, *cache_dir, *tmp_dir;
    int64_t index;
    struct target target;
    double timeout_s;
};

static int read_request(struct json_object *object, struct arena *arena, struct request *ret, struct error *error) {
    const char *key = NULL;
    struct json_object *target = NULL;
    if (json_read_string(object, "workload", JSON_REQUIRED, MOST_TEXT, &key, error) < 0 ||
        json_read_string(object, "template", JSON_REQUIRED, MOST_TEXT, &ret->template, error) < 0 ||
        json_read_int(object, "index", JSON_REQUIRED, INT64_MIN, INT64_MAX, &ret->index, error) < 0 ||
        json_read_string(object, "cache_dir", JSON_REQUIRED, MOST_PATH, &ret->cache_dir, error) < 0 ||
        json_read_string(object, "tmp_dir", JSON_REQUIRED, MOST_PATH + 20, &ret->tmp_dir, error) < 0 ||
        json_read_double(object, "timeout_s", JSON_REQUIRED, 0, 1e9, &ret->timeout_s, error) < 0 ||
        json_read_object(object, "target", JSON_REQUIRED, &target, error) < 0 ||
        target_from_json(target, &ret->target, error) < 0)
        return -1;
    return workload_parse(key, arena, &ret->workload, error);
}

static enum trial_error error_no_of(const struct error *error, const struct target *target) {
    if (error->class == ERROR_INVALID)
        return TRIAL_INSTANTIATION;
    if (error->class == ERROR_TIMEOUT)
        return TRIAL_BUILD_TIMEOUT;
    if (error->class != ERROR_DEVICE || strcmp(error->code, "compile-failed") != 0)
        return TRIAL_UNKNOWN;
    return strcmp(target->kind, "cpu") == 0 ? TRIAL_COMPILE_HOST : TRIAL_COMPILE_DEVICE;
}

static int build(const struct template *const *templates, struct json_object *object, struct arena *arena,
                 struct code_built *ret, enum trial_error *ret_error_no, struct error *error) {
    CLEANUP(buf_release) struct buf log = BUF_INIT(MOST_LOG);
    struct request request = {0};
    struct program *program;
    *ret_error_no = TRIAL_UNKNOWN;
    if (read_request(object, arena, &request, error) < 0)
        return -1;
    setenv("TMPDIR", request.tmp_dir, 1); /* this process has but one thread */
    if (instantiate(templates, request.template, request.workload, &request.target, request.index, arena, &program,
                    error) < 0 ||
        code_build(request.cache_dir, &request.target, program->source, deadline_in_s(request.timeout_s), ret, &log,
                   error) < 0) {
        *ret_error_no = error_no_of(error, &request.target);
        return -1;
    }
    *ret_error_no = TRIAL_OK;
    return 0;
}

static struct json_object *answer(void *data, struct json_object *request, bool *ret_last) {
    (void)ret_last;
    struct arena *arena = arena_new(0);
    struct code_built built = {0};
    enum trial_error error_no;
    struct error error = {0};
    if (build(data, request, arena, &built, &error_no, &error) == 0)
        error.text[0] = '\0';
    struct json_object *reply = json_object_new_object();
    json_add_int(reply, "error_no", error_no);
    json_add_string(reply, "text", error.text);
    json_add_string(reply, "path", built.path);
    json_add_double(reply, "seconds", built.seconds);
    arena_free(arena);
    return reply;
}

int builder_child_main(const struct template *const *templates) {
    return peer_serve(answer, (void *)(uintptr_t)templates);
}
