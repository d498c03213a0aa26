/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/autotvm_map.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/json.h"

#define NO_USE(code, field, ...) error_set(error, ERROR_INVALID, code, field, __VA_ARGS__)

/* ---- our own member ---- */

enum { MOST_WORKLOAD = 2000, MOST_KEY = 200, MOST_PROVENANCE = 8 << 10 };

static const char own_name[] = "warptune";

int autotvm_own_read(const struct autotvm_record *record, struct autotvm_own *ret, struct error *error) {
    struct autotvm_own own = {.baseline_s = INFINITY};
    struct json_object *object = NULL;
    size_t len = 0;
    if (record->extra && json_read_object(record->extra, own_name, JSON_OPTIONAL, &object, error) < 0)
        return -1;
    if (object && (json_read_string(object, "workload", JSON_REQUIRED, MOST_WORKLOAD, &own.workload, error) < 0 ||
                   json_read_string(object, "device_key", JSON_REQUIRED, MOST_KEY, &own.device_key, error) < 0 ||
                   json_read_int(object, "version", JSON_REQUIRED, 0, INT32_MAX, &own.version, error) < 0 ||
                   json_read_double(object, "spread_s", JSON_OPTIONAL, 0, 1e9, &own.spread_s, error) < 0 ||
                   json_read_double(object, "baseline_s", JSON_OPTIONAL, 0, 1e9, &own.baseline_s, error) < 0 ||
                   json_read_object(object, "provenance", JSON_OPTIONAL, &own.provenance, error) < 0))
        return -1;
    for (const char *c = own.device_key; c && *c; c++)
        if ((unsigned char)*c < 0x20)
            return NO_USE("bad-device", "device_key", "The record's device_key has control characters.");
    if (own.provenance)
        json_text(own.provenance, &len);
    if (len > MOST_PROVENANCE)
        return NO_USE("too-long", "provenance", "The record's provenance may have at most %d bytes.", MOST_PROVENANCE);
    *ret = own;
    return 0;
}

struct json_object *autotvm_own_make(const struct autotvm_own *own) {
    struct json_object *extra = json_object_new_object(), *object = json_object_new_object();
    json_add_string(object, "workload", own->workload);
    json_add_string(object, "device_key", own->device_key);
    json_add_int(object, "version", own->version);
    json_add_double(object, "spread_s", own->spread_s);
    if (isfinite(own->baseline_s))
        json_add_double(object, "baseline_s", own->baseline_s);
    if (own->provenance)
        json_add(object, "provenance", json_object_get(own->provenance));
    json_add(extra, own_name, object);
    return extra;
}

/* ---- targets ---- */

enum { MOST_KIND = 40, MOST_MODEL = 100, MOST_UNITS = 4096 };

/* The value of an option of a target's text ("-model="), and its length; 0 when it is not there. */
static const char *option_of(const char *target, const char *option, size_t *ret_len) {
    *ret_len = 0;
    for (const char *at = target; (at = strstr(at, option)); at++) {
        if (at != target && at[-1] != ' ')
            continue;
        at += strlen(option);
        *ret_len = strcspn(at, " ");
        return at;
    }
    return "";
}

/* Cut off at `max`, odd characters made dashes. */
static const char *safe_part(const char *text, size_t len, size_t max, struct arena *arena) {
    char *part = arena_strndup(arena, len ? text : "unknown", !len ? 7 : len < max ? len : max);
    for (char *c = part; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '-';
    return part;
}

/* Exactly one slash, where the keys of local devices have three. */
const char *autotvm_device_key(const char *target, struct arena *arena) {
    size_t len;
    const char *model = option_of(target, "-model=", &len);
    const char *kind = safe_part(target, strcspn(target, " "), MOST_KIND, arena);
    return arena_printf(arena, "%s/%s", kind, safe_part(model, len, MOST_MODEL, arena));
}

/* `word`: what the kind is called; `arch` (of that length) may be unknown. */
static int guess_target(const char *word, size_t word_len, const char *arch, size_t arch_len, struct target *ret,
                        struct error *error) {
    static const struct {
        const char *word, *kind, *arch;
    } kinds[] = {{"cuda", "cuda", "sm_80"}, {"llvm", "cpu", "x86-64-v3"}, {"cpu", "cpu", "x86-64-v3"}};
    char name[24];
    snprintf(name, sizeof name, "%.*s", arch_len < sizeof name ? (int)arch_len : 0, arch);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (strlen(kinds[i].word) != word_len || memcmp(kinds[i].word, word, word_len) != 0)
            continue;
        if (target_of_arch(name, ret, error) == 0 && strcmp(ret->kind, kinds[i].kind) == 0)
            return 0;
        return target_of_arch(kinds[i].arch, ret, error);
    }
    return NO_USE("target-not-served", "input", "The target \"%.*s\" is not served; cuda and llvm are.",
                  word_len > MOST_KIND ? MOST_KIND : (int)word_len, word);
}

/* A key has its kind first, and the architecture and the number of units last. */
int autotvm_target(const char *device_key, struct target *ret, struct error *error) {
    const char *end = strrchr(device_key, '/'), *arch = end ? end : device_key;
    while (arch > device_key && arch[-1] != '/')
        arch--;
    if (guess_target(device_key, strcspn(device_key, "/"), arch, end ? (size_t)(end - arch) : 0, ret, error) < 0)
        return -1;
    long units = end ? strtol(end + 1, NULL, 10) : 0;
    if (units > 0 && units <= MOST_UNITS)
        ret->units = (int)units;
    return 0;
}

static int read_target(const struct autotvm_record *record, const struct autotvm_own *own, struct target *ret,
                       struct error *error) {
    size_t len;
    const char *arch = option_of(record->target, "-arch=", &len);
    if (own->device_key)
        return autotvm_target(own->device_key, ret, error);
    return guess_target(record->target, strcspn(record->target, " "), arch, len, ret, error);
}

/* ---- mapping ---- */

struct autotvm_mapper {
    const struct template *const *templates;
    struct arena *arena;    /* of what follows */
    struct autotvm_fit fit; /* of the last record; `task` NULL: none is remembered */
};

struct autotvm_mapper *autotvm_mapper_new(const struct template *const *templates) {
    struct autotvm_mapper *mapper = calloc(1, sizeof *mapper);
    if (!mapper)
        abort();
    mapper->templates = templates;
    return mapper;
}

void autotvm_mapper_free(struct autotvm_mapper *mapper) {
    if (!mapper)
        return;
    arena_free(mapper->arena);
    free(mapper);
}

/* Larger ones cannot be tuned, and their spaces might take minutes to list or have more points than an index counts. */
static int check_size(const struct workload *workload, struct error *error) {
    for (int i = 0; i < workload->n_in + workload->n_out; i++) {
        const struct shape *shape =
            i < workload->n_in ? &workload->in[i].shape : &workload->out[i - workload->n_in].shape;
        bool fits = shape_count(shape) <= (int64_t)1 << 31;
        for (int d = 0; d < shape->rank; d++)
            fits = fits && shape->dim[d] <= 1 << 20;
        if (!fits)
            return NO_USE("workload-too-large", "input",
                          "The record's workload has a dimension above 2^20, or a tensor of more than 2^31 elements.");
    }
    return 0;
}

static int read_workload(const struct autotvm_record *record, const struct autotvm_own *own, struct arena *arena,
                         struct workload **ret, struct error *error) {
    struct workload *workload;
    if ((own->workload ? workload_parse(own->workload, arena, &workload, error)
                       : autotvm_workload(record->task, record->args, arena, &workload, error)) < 0 ||
        check_size(workload, error) < 0)
        return -1;
    *ret = workload;
    return 0;
}

static int find_template(const struct autotvm_mapper *mapper, const struct autotvm_record *record,
                         const struct workload *workload, const struct target *target, const struct template **ret,
                         struct error *error) {
    const struct template *template = template_find(mapper->templates, record->task);
    if (!template)
        return NO_USE("unknown-template", "input", "There is no template of the name %.100s.", record->task);
    if (strcmp(template->device, target->kind) != 0)
        return NO_USE("other-device", "input", "The template %.100s is for %s, but the record's target is \"%.100s\".",
                      record->task, template->device, record->target);
    if (!template->serves(workload, target))
        return NO_USE("workload-not-served", "input", "The template %.100s does not serve the record's workload.",
                      record->task);
    *ret = template;
    return 0;
}

/* Makes the mapper remember the record's task. */
static int remember(struct autotvm_mapper *mapper, const struct autotvm_record *record, const struct autotvm_own *own,
                    const char *task, struct error *error) {
    struct arena *arena = arena_new(0);
    struct target *target = arena_alloc(arena, sizeof *target);
    struct workload *workload = NULL;
    struct autotvm_fit fit = {.target = target, .task = arena_strdup(arena, task)};
    struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 20);
    arena_free(mapper->arena);
    mapper->arena = arena;
    mapper->fit.task = NULL;
    if (read_target(record, own, target, error) < 0 || read_workload(record, own, arena, &workload, error) < 0 ||
        find_template(mapper, record, workload, target, &fit.template, error) < 0)
        return -1;
    workload_key(workload, &key);
    fit.workload = workload;
    fit.key = arena_strdup(arena, buf_str(&key));
    fit.space = fit.template->space(workload, target, arena);
    mapper->fit = fit;
    return 0;
}

static int find_task(struct autotvm_mapper *mapper, const struct autotvm_record *record, const struct autotvm_own *own,
                     struct error *error) {
    struct buf task CLEANUP(buf_release) = BUF_INIT(4 * AUTOTVM_MAX_LINE);
    buf_printf(&task, "%s\n%s\n%s\n%s\n%s", record->target, record->task, json_text(record->args, NULL),
               own->workload ? own->workload : "", own->device_key ? own->device_key : "");
    if (mapper->fit.task && strcmp(mapper->fit.task, buf_str(&task)) == 0)
        return 0;
    return remember(mapper, record, own, buf_str(&task), error);
}

/* ---- entities ---- */

static const char *knob_at(struct json_object *entity, int i) {
    struct json_object *row = json_object_array_get_idx(entity, (size_t)i);
    if (!json_object_is_type(row, json_type_array) || json_object_array_length(row) != 3 ||
        !json_object_is_type(json_object_array_get_idx(row, 0), json_type_string))
        return "";
    return json_object_get_string(json_object_array_get_idx(row, 0));
}

/* Position of the window knobs where their names stand the other way round than in the space; -1: nowhere. */
static int swapped_window(const struct space *space, struct json_object *entity) {
    int at = -1;
    if ((int)json_object_array_length(entity) != space->n_knobs)
        return -1;
    for (int i = 0; i < space->n_knobs; i++) {
        if (strcmp(knob_at(entity, i), space->knobs[i].name) == 0)
            continue;
        if (at >= 0 || i + 1 == space->n_knobs || strcmp(space->knobs[i].name, "tile_ry") != 0 ||
            strcmp(space->knobs[i + 1].name, "tile_rx") != 0 || strcmp(knob_at(entity, i), "tile_rx") != 0 ||
            strcmp(knob_at(entity, i + 1), "tile_ry") != 0)
            return -1;
        at = i++;
    }
    return at;
}

/*
 * AutoTVM named the knobs of the window's height and width the wrong way round in its early days (the height always
 * comes first): such an entity is read by position. Caller releases.
 */
static struct json_object *by_position(const struct space *space, struct json_object *entity) {
    int at = swapped_window(space, entity);
    if (at < 0)
        return json_object_get(entity);
    struct json_object *renamed = json_object_new_array();
    for (int i = 0; i < space->n_knobs; i++) {
        struct json_object *row = json_object_array_get_idx(entity, (size_t)i), *copy = json_object_new_array();
        for (size_t part = 0; part < json_object_array_length(row); part++)
            json_object_array_add(copy, part ? json_object_get(json_object_array_get_idx(row, part))
                                             : json_object_new_string(space->knobs[i].name));
        json_object_array_add(renamed, copy);
    }
    return renamed;
}

static int find_index(const struct autotvm_record *record, const struct space *space, int64_t *ret,
                      struct error *error) {
    struct json_object *entity CLEANUP(json_put_p) = by_position(space, record->entity);
    int64_t index;
    if (space_index_of_entity(space, entity, &index, error) < 0)
        return -1;
    if (index != record->index)
        return NO_USE("index-mismatch", "config",
                      "The record's index is %lld, but its entity is that of index %lld in a space of %lld.",
                      (long long)record->index, (long long)index, (long long)space->size);
    *ret = index;
    return 0;
}

int autotvm_map(struct autotvm_mapper *mapper, const struct autotvm_record *record, struct autotvm_fit *ret,
                struct error *error) {
    struct autotvm_own own;
    if (autotvm_own_read(record, &own, error) < 0 || find_task(mapper, record, &own, error) < 0)
        return -1;
    struct autotvm_fit fit = mapper->fit;
    if (own.workload && own.version != fit.template->version)
        return NO_USE("other-version", "version",
                      "The record is of version %lld of the template %s, which is at version %d now.",
                      (long long)own.version, record->task, fit.template->version);
    if (find_index(record, fit.space, &fit.index, error) < 0)
        return -1;
    *ret = fit;
    return 0;
}
