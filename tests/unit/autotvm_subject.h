/* SPDX-License-Identifier: Apache-2.0 */
/* autotvm_subject.h: a workload in one of AutoTVM's spaces, and what the tests of all those spaces ask of it. */
#ifndef WARPTUNE_TESTS_AUTOTVM_SUBJECT_H
#define WARPTUNE_TESTS_AUTOTVM_SUBJECT_H

#include <criterion/criterion.h>
#include <string.h>

#include "cuda_on_cpu.h"
#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/base/rng.h"
#include "tophub_records.h"

struct subject {
    const struct template *template;
    struct arena *arena;
    struct target target;
    struct workload *workload;
    struct space *space;
};

static inline struct subject subject_parse(const struct template *template, const char *key) {
    struct subject subject = {.template = template, .arena = arena_new(0)};
    struct error error = {0};
    cr_assert_eq(target_of_arch("sm_90a", &subject.target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, subject.arena, &subject.workload, &error), 0, "%s\n%s", key, error.text);
    return subject;
}

static inline bool subject_serves(const struct template *template, const char *key) {
    struct subject subject = subject_parse(template, key);
    bool serves = template->serves(subject.workload, &subject.target);
    arena_free(subject.arena);
    return serves;
}

static inline struct subject subject_of(const struct template *template, const char *key) {
    struct subject subject = subject_parse(template, key);
    cr_assert(template->serves(subject.workload, &subject.target), "%s", key);
    subject.space = template->space(subject.workload, &subject.target, subject.arena);
    return subject;
}

/* The index of an entity, given as JSON text. */
static inline int64_t subject_index(const struct subject *subject, const char *entity) {
    struct json_object *object;
    struct error error = {0};
    int64_t index;
    cr_assert_eq(json_parse(entity, strlen(entity), &object, &error), 0, "%s", error.text);
    cr_assert_eq(space_index_of_entity(subject->space, object, &index, &error), 0, "%s: %s", entity, error.text);
    json_object_put(object);
    return index;
}

/* NULL when the configuration cannot be, for a reason that is given. */
static inline struct program *subject_render(const struct subject *subject, int64_t index) {
    struct program *program;
    struct error error = {0};
    if (subject->template->render(subject->workload, &subject->target, subject->space, index, subject->arena, &program,
                                  &error) == 0)
        return program;
    cr_assert_str_eq(error.code, "instantiation", "configuration %lld: %s", (long long)index, error.text);
    return NULL;
}

static inline int64_t subject_fallback(const struct subject *subject) {
    int64_t index = subject->template->fallback(subject->workload, &subject->target, subject->space);
    cr_assert(index >= 0 && index < subject->space->size);
    cr_assert_not_null(subject_render(subject, index), "the fallback does not render");
    return index;
}

/* ---- records ---- */

/* The split's first factor, which records write out or give as -1, as -1. */
static inline void hide_first_factors(struct json_object *entity) {
    for (size_t i = 0; i < json_object_array_length(entity); i++) {
        struct json_object *value = json_object_array_get_idx(json_object_array_get_idx(entity, i), 2);
        if (json_object_is_type(value, json_type_array))
            json_object_array_put_idx(value, 0, json_object_new_int64(-1));
    }
}

/* A record's entity has its index, and its index that entity; it renders. `context`: the template. */
static inline void check_record(const struct record *record, void *context) {
    struct subject subject = subject_of(context, record->key);
    struct error error = {0};
    int64_t index;
    cr_assert_eq(space_index_of_entity(subject.space, record->entity, &index, &error), 0, "%s: %s", record->key,
                 error.text);
    cr_assert_eq(index, record->index, "%s: %lld, not %lld", record->key, (long long)index, (long long)record->index);
    struct json_object *entity = space_entity(subject.space, record->index);
    hide_first_factors(entity);
    hide_first_factors(record->entity);
    cr_assert_str_eq(json_object_to_json_string(entity), json_object_to_json_string(record->entity));
    json_object_put(entity);
    cr_assert_not_null(subject_render(&subject, index), "%s", record->key);
    arena_free(subject.arena);
}

/* ---- rendering ---- */

static inline void check_launches(const struct subject *subject, const struct program *program,
                                  const struct launch *launches, int n) {
    for (int i = 0; i < n; i++) {
        const struct launch *launch = &launches[i];
        int64_t threads = (int64_t)launch->block[0] * launch->block[1] * launch->block[2];
        cr_assert(strstr(program->source, launch->entry), "there is no kernel %s", launch->entry);
        cr_assert(threads > 0 && threads <= subject->target.max_threads && launch->block[2] <= 64);
        cr_assert(launch->grid[0] > 0 && launch->grid[1] > 0 && launch->grid[2] > 0);
        cr_assert(launch->grid[1] <= 65535 && launch->grid[2] <= 65535);
    }
}

/* Of `n` random configurations, each renders or says why not, all have loops of one shape; at least one renders. */
static inline void check_random_configurations(const struct subject *subject, int n) {
    struct loop_nest first, other;
    struct rng rng;
    int rendered = 0;
    rng_seed(&rng, 7);
    subject->template->nest(subject->workload, &subject->target, subject->space, 0, &first);
    for (int i = 0; i < n; i++) {
        int64_t index = (int64_t)rng_below(&rng, (uint64_t)subject->space->size);
        struct program *program = subject_render(subject, index);
        if (program)
            check_launches(subject, program, program->run, program->n_run);
        rendered += program != NULL;
        subject->template->nest(subject->workload, &subject->target, subject->space, index, &other);
        cr_assert_eq(other.n_loops, first.n_loops);
        cr_assert_eq(other.n_accesses, first.n_accesses);
    }
    cr_assert_gt(rendered, 0);
}

/* Executions of the innermost statement. */
static inline int64_t nest_steps(const struct subject *subject, int64_t index) {
    struct loop_nest nest;
    int64_t steps = 1;
    subject->template->nest(subject->workload, &subject->target, subject->space, index, &nest);
    for (int i = 0; i < nest.n_loops; i++)
        steps *= nest.loops[i].extent;
    return steps;
}

/* The farthest element that the innermost statement touches of an access. */
static inline int64_t nest_reach(const struct subject *subject, int64_t index, int access) {
    struct loop_nest nest;
    int64_t reach = 0;
    subject->template->nest(subject->workload, &subject->target, subject->space, index, &nest);
    for (int i = 0; i < nest.n_loops; i++)
        reach += (nest.loops[i].extent - 1) * nest.accesses[access].stride[i];
    return reach;
}

/* ---- compiling and running ---- */

static inline void subject_compile(const struct subject *subject, int64_t index) {
    struct program *program = subject_render(subject, index);
    struct buf code CLEANUP(buf_release) = BUF_INIT(1 << 26), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct error error = {0};
    cr_assert_not_null(program);
    int rc = device_cuda.compile(&subject->target, program->source, deadline_in_s(60), &code, &log, &error);
    if (rc < 0 && strcmp(error.code, "no-nvrtc") == 0)
        cr_skip_test("NVRTC is not here to compile with");
    cr_assert_eq(rc, 0, "configuration %lld: %s", (long long)index, error.text);
    cr_assert_gt(code.len, 0);
}

/* On the CPU: the fallback and `n` random configurations of up to `threads` threads a block. */
static inline void subject_run(const struct subject *subject, int n, unsigned threads) {
    struct rng rng;
    rng_seed(&rng, 11);
    host_check(subject->template, subject->workload, &subject->target, subject->space, subject_fallback(subject));
    for (int tries = 0; n > 0 && tries < 1000; tries++) {
        int64_t index = (int64_t)rng_below(&rng, (uint64_t)subject->space->size);
        struct program *program = subject_render(subject, index);
        const struct launch *main = program ? &program->run[program->n_run > 1 ? 1 : 0] : NULL;
        if (!main || main->block[0] * main->block[1] * main->block[2] > threads ||
            main->grid[0] * main->grid[1] * main->grid[2] > 1000)
            continue;
        host_check(subject->template, subject->workload, &subject->target, subject->space, index);
        n--;
    }
    cr_assert_eq(n, 0, "too few configurations of at most %u threads", threads);
}

#endif
