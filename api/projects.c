/* SPDX-License-Identifier: Apache-2.0 */
/*
 * projects.c: teams: made, looked at, changed and removed; and who may see the configurations of one.
 *
 * A server admin may do all of it. An admin of another project sees that project alone, and may change who shares in
 * what it finds, but not its name and quotas.
 */
#include <string.h>

#include "api/auth.h"
#include "api/configs.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/pages.h"
#include "api/server.h"
#include "service/base/json.h"

enum { MOST_PROJECT = 64 << 10, MOST_LIST = 16 << 20, MOST_WITH = 100 };

/* ---- as JSON ---- */

static void write_quota(struct buf *out, const char *name, int64_t quota) {
    write_int_if(out, name, quota, quota != QUOTA_NONE);
}

static void write_project(struct buf *out, const struct project_row *project) {
    write_object(out, NULL);
    write_text(out, "id", project->id);
    write_text(out, "name", project->name);
    write_time(out, "created_at", project->created_us);
    write_object(out, "quotas");
    write_quota(out, "model_bytes", project->quotas.model_bytes);
    write_quota(out, "open_jobs", project->quotas.open_jobs);
    write_quota(out, "gpu_seconds_per_day", project->quotas.gpu_s);
    write_end(out, '}');
    write_object(out, "use");
    write_int(out, "models", project->models);
    write_int(out, "model_bytes", project->model_bytes);
    write_int(out, "open_jobs", project->open_jobs);
    write_fixed(out, "gpu_seconds_today", project->gpu_s);
    write_fixed(out, "device_seconds_today", project->device_s);
    write_end(out, '}');
    write_text(out, "config_visibility", visibility_name(project->configs.visibility));
    write_array(out, "config_shared_with");
    for (int i = 0; i < project->configs.n_with; i++)
        write_text(out, NULL, project->configs.with[i]);
    write_end(out, ']');
    write_end(out, '}');
}

static int answer_project(struct request *request, struct response *ret, int status, const struct project_row *project,
                          struct error *error) {
    struct buf *json = request_buf(request, MOST_PROJECT);
    write_project(json, project);
    return response_written(request, ret, status, json, error);
}

/* ---- what a body says ---- */

/* A number, or null for no limit; what is absent stays. */
static int read_quota(struct json_object *quotas, const char *field, int64_t *ret, struct error *error) {
    struct json_object *value;
    if (json_object_object_get_ex(quotas, field, &value) && !value) {
        *ret = QUOTA_NONE;
        return 0;
    }
    return json_read_int(quotas, field, JSON_OPTIONAL, 0, INT64_C(1) << 53, ret, error);
}

static int read_quotas(struct json_object *body, struct project_quotas *ret, struct error *error) {
    static const char *const fields[] = {"model_bytes", "open_jobs", "gpu_seconds_per_day", NULL};
    struct json_object *quotas = NULL;
    if (json_read_object(body, "quotas", JSON_OPTIONAL, &quotas, error) < 0)
        return -1;
    if (!quotas)
        return 0;
    if (json_only_fields(quotas, fields, error) < 0 || read_quota(quotas, fields[0], &ret->model_bytes, error) < 0 ||
        read_quota(quotas, fields[1], &ret->open_jobs, error) < 0)
        return -1;
    return read_quota(quotas, fields[2], &ret->gpu_s, error);
}

static int read_with(struct request *request, const char *field, struct sharing *ret, struct error *error) {
    struct json_object *names = NULL;
    if (json_read_array(request->json, field, JSON_OPTIONAL, &names, error) < 0)
        return -1;
    if (!names)
        return 0;
    size_t n = json_object_array_length(names);
    if (n > MOST_WITH)
        return error_set(error, ERROR_INVALID, "too-many-projects", field, "'%s' has at most %d projects.", field,
                         MOST_WITH);
    const char **with = arena_array(request->arena, n + 1, sizeof *with);
    for (size_t i = 0; i < n; i++) {
        struct json_object *name = json_object_array_get_idx(names, i);
        if (!json_object_is_type(name, json_type_string))
            return error_set(error, ERROR_INVALID, "wrong-type", field, "'%s' is an array of names of projects.",
                             field);
        with[i] = json_object_get_string(name);
    }
    ret->with = with;
    ret->n_with = (int)n;
    return 0;
}

/* `prefix`: of the fields' names. */
static int read_sharing(struct request *request, const char *prefix, enum json_need need, struct sharing *ret,
                        struct error *error) {
    const char *visibility = NULL, *field = arena_printf(request->arena, "%svisibility", prefix);
    if (json_read_string(request->json, field, need, 20, &visibility, error) < 0 ||
        (visibility && visibility_parse(visibility, &ret->visibility, error) < 0))
        return -1;
    return read_with(request, arena_printf(request->arena, "%sshared_with", prefix), ret, error);
}

/* Into what the project is already, or is by default. */
static int read_project(struct request *request, enum json_need need, struct project_new *ret, struct error *error) {
    static const char *const fields[] = {"name", "quotas", "config_visibility", "config_shared_with", NULL};
    if (json_only_fields(request->json, fields, error) < 0 ||
        json_read_string(request->json, "name", need, PROJECT_NAME - 1, &ret->name, error) < 0 ||
        read_quotas(request->json, &ret->quotas, error) < 0)
        return -1;
    return read_sharing(request, "config_", JSON_OPTIONAL, &ret->configs, error);
}

/* ---- handlers ---- */

static int for_server_admins(const struct request *request, struct error *error) {
    if (auth_is_server_admin(request))
        return 0;
    return error_set(error, ERROR_AUTH, "server-admin-only", NULL,
                     "This takes a token of scope `admin` of the project `default`.");
}

/* To others than the project itself and server admins it is not there. */
static int get_visible(struct request *request, struct project_row **ret, struct error *error) {
    const char *id = request->params[0];
    if (!auth_is_server_admin(request) && strcmp(id, project_or_default(request->project_id)) != 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-project", NULL, "There is no project %.64s.", id);
    return project_get(request->api->db, id, request->arena, ret, error);
}

int project_make(struct request *request, struct response *ret, struct error *error) {
    struct project_new wanted = {.quotas = {QUOTA_NONE, QUOTA_NONE, QUOTA_NONE}, .configs.visibility = VISIBLE_PUBLIC};
    struct project_row *project;
    if (for_server_admins(request, error) < 0 || read_project(request, JSON_REQUIRED, &wanted, error) < 0 ||
        project_create(request->api->db, &wanted, request->arena, &project, error) < 0)
        return -1;
    response_header(request, ret, "Location", arena_printf(request->arena, "/v1/projects/%s", project->id));
    return answer_project(request, ret, 201, project, error);
}

int project_page(struct request *request, struct response *ret, struct error *error) {
    struct project_row *projects;
    const char *cursor;
    int limit, n = 1;
    bool more = false;
    if (page_read(request, &cursor, &limit, error) < 0)
        return -1;
    int status = auth_is_server_admin(request)
                     ? project_list(request->api->db, cursor, limit, request->arena, &projects, &n, &more, error)
                     : project_get(request->api->db, request->project_id, request->arena, &projects, error);
    if (status < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_LIST);
    write_object(json, NULL);
    write_array(json, "projects");
    for (int i = 0; i < n; i++)
        write_project(json, &projects[i]);
    return response_page(request, ret, json, more ? projects[n - 1].id : NULL, error);
}

int project_show(struct request *request, struct response *ret, struct error *error) {
    struct project_row *project;
    if (get_visible(request, &project, error) < 0)
        return -1;
    return answer_project(request, ret, 200, project, error);
}

int project_change(struct request *request, struct response *ret, struct error *error) {
    struct project_row *project;
    struct json_object *ignored;
    if (get_visible(request, &project, error) < 0)
        return -1;
    struct project_new wanted = {project->name, project->quotas, project->configs};
    if (read_project(request, JSON_OPTIONAL, &wanted, error) < 0)
        return -1;
    bool theirs = json_object_object_get_ex(request->json, "name", &ignored) ||
                  json_object_object_get_ex(request->json, "quotas", &ignored);
    if ((theirs && for_server_admins(request, error) < 0) ||
        project_update(request->api->db, project->id, &wanted, error) < 0)
        return -1;
    return project_show(request, ret, error);
}

int project_remove(struct request *request, struct response *ret, struct error *error) {
    struct project_row *project;
    int64_t everything;
    if (request_query_int(request, "everything", 0, 1, 0, &everything, error) < 0 ||
        get_visible(request, &project, error) < 0 || for_server_admins(request, error) < 0)
        return -1;
    int status = project_delete(request->api->db, project->id, everything, error);
    auth_forget(request->api->auth); /* its tokens were revoked, whatever else went wrong */
    if (status < 0)
        return -1;
    response_text(request, ret, 204, NULL, "", 0);
    return 0;
}

int config_set_visibility(struct request *request, struct response *ret, struct error *error) {
    static const char *const fields[] = {"visibility", "shared_with", "workload", "device", NULL};
    struct config_filter filter = {0};
    struct sharing sharing = {.visibility = VISIBLE_PRIVATE};
    int64_t changed;
    if (json_only_fields(request->json, fields, error) < 0 ||
        read_sharing(request, "", JSON_REQUIRED, &sharing, error) < 0 ||
        json_read_string(request->json, "workload", JSON_OPTIONAL, CONFIG_MAX_WORKLOAD, &filter.workload, error) < 0 ||
        json_read_string(request->json, "device", JSON_OPTIONAL, CONFIG_MAX_DEVICE_KEY, &filter.device_key, error) <
            0 ||
        config_share(request->api->db, request->project_id, &filter, &sharing, &changed, error) < 0)
        return -1;
    struct json_object *answer = json_object_new_object();
    json_add_int(answer, "changed", changed);
    response_json(request, ret, 200, answer);
    return 0;
}
