/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builder child: renders and compiles. Two requests, both with {workload, target, cache_dir, tmp_dir} and
 * items: [[template ("": the plain one), index], …]:
 *   {do: "render"}: for each item in turn the answer {error_no, text, path, hit}: where the code of its source belongs,
 *       and whether it is there
 *   {do: "compile", timeout_s}: of the one item; the answer {begun} when it is about to, then {error_no, text, seconds}
 * An answer with {no_room: true} is not about the item: the disk is full.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/measure/code_cache.h"
#include "gpu/measure/instantiate.h"
#include "gpu/measure/measure.h"
#include "gpu/measure/peer.h"
#include "service/base/clock.h"
#include "service/base/file.h"

enum { MOST_LOG = 1 << 20, MOST_TEXT = 1 << 20, MOST_PATH = 400, NICENESS = 5 };

struct request {
    struct workload *workload;
    const char *cache_dir;
    struct target target;
    struct json_object *items;
};

/* Also moves the compiler's temporary files where the measurer wants them. */
static int read_request(struct json_object *object, struct arena *arena, struct request *ret, struct error *error) {
    const char *key = NULL, *tmp_dir = NULL;
    struct json_object *target = NULL;
    if (json_read_string(object, "workload", JSON_REQUIRED, MOST_TEXT, &key, error) < 0 ||
        json_read_string(object, "cache_dir", JSON_REQUIRED, MOST_PATH, &ret->cache_dir, error) < 0 ||
        json_read_string(object, "tmp_dir", JSON_REQUIRED, MOST_PATH + 20, &tmp_dir, error) < 0 ||
        json_read_array(object, "items", JSON_REQUIRED, &ret->items, error) < 0 ||
        json_read_object(object, "target", JSON_REQUIRED, &target, error) < 0 ||
        target_from_json(target, &ret->target, error) < 0 || workload_parse(key, arena, &ret->workload, error) < 0)
        return -1;
    setenv("TMPDIR", tmp_dir, 1); /* this process has but one thread */
    return 0;
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

static void answer(struct peer_client *client, enum trial_error error_no, const struct error *error,
                   const struct code_built *built) {
    struct json_object *reply = json_object_new_object();
    json_add_int(reply, "error_no", error_no);
    json_add_string(reply, "text", error_no == TRIAL_OK ? "" : error->text);
    json_add_string(reply, "path", built->path);
    json_add_bool(reply, "hit", built->hit);
    json_add_double(reply, "seconds", built->seconds);
    json_add_bool(reply, "no_room", error_no != TRIAL_OK && strcmp(error->code, DISK_FULL) == 0);
    peer_answer(client, reply);
}

static int render(const struct template *const *templates, const struct request *request, size_t item,
                  struct arena *arena, struct program **ret, struct error *error) {
    struct json_object *pair = json_object_array_get_idx(request->items, item);
    if (!json_object_is_type(pair, json_type_array) || json_object_array_length(pair) != 2)
        return error_set(error, ERROR_INTERNAL, "bad-request", "items", "The request names no configuration.");
    const char *name = json_object_get_string(json_object_array_get_idx(pair, 0));
    int64_t index = json_object_get_int64(json_object_array_get_idx(pair, 1));
    return instantiate(templates, name ? name : "", request->workload, &request->target, index, arena, ret, error);
}

static void serve_render(const struct template *const *templates, const struct request *request,
                         struct peer_client *client) {
    size_t n = json_object_array_length(request->items);
    for (size_t i = 0; i < n; i++) {
        struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
        struct program *program;
        struct code_built built = {0};
        struct error error = {0};
        int rc = render(templates, request, i, arena, &program, &error);
        if (rc == 0)
            rc = code_find(request->cache_dir, &request->target, program->source, &built, &error);
        answer(client, rc == 0 ? TRIAL_OK : error_no_of(&error, &request->target), &error, &built);
    }
}

static void serve_compile(const struct template *const *templates, const struct request *request, double timeout_s,
                          struct arena *arena, struct peer_client *client) {
    CLEANUP(buf_release) struct buf log = BUF_INIT(MOST_LOG);
    struct program *program;
    struct code_built built = {0};
    struct error error = {0};
    struct json_object *begun = json_object_new_object();
    int rc = render(templates, request, 0, arena, &program, &error);
    if (rc == 0) /* which also loads the compiler: what follows is the compile alone */
        rc = code_find(request->cache_dir, &request->target, program->source, &built, &error);
    json_add_bool(begun, "begun", true);
    peer_answer(client, begun);
    if (rc == 0)
        rc = code_build(request->cache_dir, &request->target, program->source, deadline_in_s(timeout_s), &built, &log,
                        &error);
    answer(client, rc == 0 ? TRIAL_OK : error_no_of(&error, &request->target), &error, &built);
}

static void serve(void *data, struct json_object *object, struct peer_client *client) {
    const struct template *const *templates = data;
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct request request = {0};
    struct error error = {0};
    const char *what = NULL;
    double timeout_s = 0;
    if (read_request(object, arena, &request, &error) < 0 ||
        json_read_string(object, "do", JSON_REQUIRED, MOST_TEXT, &what, &error) < 0 ||
        json_read_double(object, "timeout_s", JSON_OPTIONAL, 0, 1e9, &timeout_s, &error) < 0) {
        peer_retire(client); /* no answer that the parent waits for can be given */
        return;
    }
    if (strcmp(what, "compile") == 0)
        serve_compile(templates, &request, timeout_s, arena, client);
    else
        serve_render(templates, &request, client);
}

int builder_child_main(const struct template *const *templates) {
    (void)!nice(NICENESS); /* the runner, which keeps a device busy, and its parent go first */
    return peer_serve(serve, (void *)(uintptr_t)templates);
}
