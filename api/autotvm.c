/* SPDX-License-Identifier: Apache-2.0 */
#include "api/autotvm.h"

#include <ctype.h>
#include <string.h>

#include "api/json_write.h"
#include "gpu/template/autotvm_map.h"
#include "service/base/json.h"

/* "cuda/NVIDIA H200/sm_90a/132" gives "nvidia-h200". */
static const char *model_of(const char *device_key, struct arena *arena) {
    const char *start = strchr(device_key, '/');
    if (!start)
        return "unknown";
    char *model = arena_strndup(arena, start + 1, strcspn(start + 1, "/"));
    for (char *c = model; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
    return model;
}

static const char *target_of(const char *device_kind, const char *device_key, struct arena *arena) {
    return strcmp(device_kind, "cuda") == 0 ? arena_printf(arena, "cuda -model=%s", model_of(device_key, arena))
                                            : "llvm";
}

int autotvm_task_init(struct autotvm_task *ret, const char *device_kind, const char *device_key, const char *key,
                      struct arena *arena, struct error *error) {
    struct workload *workload;
    if (workload_parse(key, arena, &workload, error) < 0)
        return -1;
    *ret = (struct autotvm_task){target_of(device_kind, device_key, arena), key, device_key, workload};
    return 0;
}

static void write_result(struct buf *out, const struct trial_row *trial) {
    write_array(out, "result");
    write_array(out, NULL);
    for (int i = 0; i < trial->n_costs; i++)
        write_double(out, NULL, trial->costs_s[i]);
    if (trial->n_costs == 0)
        write_double(out, NULL, 1e9);
    write_end(out, ']');
    write_int(out, NULL, trial->error_no);
    write_double(out, NULL, trial->build_s + trial->run_s);
    write_double(out, NULL, (double)trial->finished_us / 1e6);
    write_end(out, ']');
}

void autotvm_write(struct buf *out, const struct autotvm_task *task, const struct trial_row *trial) {
    struct json_object *args CLEANUP(json_put_p) = autotvm_args(task->workload, trial->template);
    buf_putc(out, '{');
    write_array(out, "input");
    write_text(out, NULL, task->target);
    write_text(out, NULL, trial->template);
    write_raw(out, NULL, json_text(args, NULL));
    write_raw(out, NULL, "{}");
    write_end(out, ']');
    write_object(out, "config");
    write_int(out, "index", trial->index);
    write_raw(out, "code_hash", NULL);
    write_raw(out, "entity", trial->entity);
    write_end(out, '}');
    write_result(out, trial);
    write_raw(out, "version", "0.2");
    write_text(out, "tvm_version", "warptune-" WARPTUNE_VERSION);
    write_object(out, "warptune");
    write_text(out, "workload", task->key);
    write_text(out, "device_key", task->device_key);
    write_int(out, "version", trial->version);
    write_end(out, '}');
    buf_puts(out, "}\n");
}

/* Of a workload whose text this version does not read any more the arguments are none: its own text says it all. */
static struct json_object *config_args(const struct config_row *config, struct arena *arena) {
    struct workload *workload;
    struct error ignored;
    if (workload_parse(config->workload, arena, &workload, &ignored) < 0)
        return json_object_new_array();
    return autotvm_args(workload, config->template);
}

int autotvm_write_config(struct buf *out, const struct config_row *config, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct json_object *entity CLEANUP(json_put_p) = NULL, *provenance CLEANUP(json_put_p) = NULL;
    if (json_parse(config->entity, strlen(config->entity), &entity, error) < 0 ||
        json_parse(config->provenance, strlen(config->provenance), &provenance, error) < 0)
        return error_prefix(error, "The configuration of %.200s: ", config->workload);
    const char *kind = arena_strndup(arena, config->device_key, strcspn(config->device_key, "/"));
    struct autotvm_own own = {config->workload, config->device_key, config->version,
                              config->spread_s, config->baseline_s, provenance};
    struct json_object *args CLEANUP(json_put_p) = config_args(config, arena);
    struct json_object *extra CLEANUP(json_put_p) = autotvm_own_make(&own);
    struct autotvm_record record = {.target = target_of(kind, config->device_key, arena),
                                    .task = config->template,
                                    .args = args,
                                    .index = config->index,
                                    .entity = entity,
                                    .costs_s = &config->cost_s,
                                    .n_costs = 1,
                                    .timestamp_s = (double)config->updated_us / 1e6,
                                    .version = 0.2,
                                    .tvm_version = "warptune-" WARPTUNE_VERSION,
                                    .extra = extra};
    autotvm_record_write(&record, out);
    return 0;
}
