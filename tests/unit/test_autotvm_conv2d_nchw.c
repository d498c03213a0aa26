/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AutoTVM's direct convolutions: its published records mean here what they meant there, and the kernels are right.
 * tests/data/tophub_cuda.log: records for conv2d on CUDA as Apache TVM publishes them (Apache-2.0).
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/base/rng.h"
#include "service/model/eval.h"
#include "tests/unit/cuda_fibres.h"
#include "tests/unit/tophub_log.h"

static const struct template *const conv = &autotvm_conv2d_nchw_cuda, *const group = &autotvm_group_conv2d_nchw_cuda;

/* A workload on a target, with its template's space. */
struct subject {
    struct arena *arena;
    struct target target;
    const struct template *template;
    struct workload *workload;
    struct space *space;
};

static struct subject subject_of(const struct template *template, const char *key) {
    struct subject subject = {.arena = arena_new(0), .template = template};
    struct error error = {0};
    cr_assert_eq(target_of_arch("sm_90a", &subject.target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, subject.arena, &subject.workload, &error), 0, "%s\n%s", key, error.text);
    cr_assert(template->serves(subject.workload, &subject.target), "%s", key);
    subject.space = template->space(subject.workload, &subject.target, subject.arena);
    return subject;
}

/* NULL where the configuration cannot be. */
static struct program *try_render(const struct subject *subject, int64_t index, struct error *error) {
    struct program *program;
    if (subject->template->render(subject->workload, &subject->target, subject->space, index, subject->arena, &program,
                                  error) == 0)
        return program;
    cr_assert_str_eq(error->code, "instantiation", "configuration %lld: %s", (long long)index, error->text);
    return NULL;
}

static struct program *render(const struct subject *subject, int64_t index) {
    struct error error = {0};
    struct program *program = try_render(subject, index, &error);
    cr_assert_not_null(program, "configuration %lld: %s", (long long)index, error.text);
    return program;
}

static int64_t fallback(const struct subject *subject) {
    int64_t index = subject->template->fallback(subject->workload, &subject->target, subject->space);
    cr_assert(index >= 0 && index < subject->space->size);
    return index;
}

static int64_t any(const struct subject *subject, struct rng *rng) {
    return (int64_t)rng_below(rng, (uint64_t)subject->space->size);
}

/* ---- published records ---- */

struct record {
    struct json_object *line, *args, *entity;
    const char *template;
    int64_t index;
};

static struct json_object *at(struct json_object *array, size_t i) {
    return json_object_array_get_idx(array, i);
}

static int64_t int_at(struct json_object *array, size_t i) {
    return json_object_get_int64(at(array, i));
}

static struct json_object *field(struct json_object *object, const char *name) {
    struct json_object *value = NULL;
    cr_assert(json_object_object_get_ex(object, name, &value), "no %s", name);
    return value;
}

static struct record parse_record(const char *line) {
    struct record record = {0};
    struct error error = {0};
    cr_assert_eq(json_parse(line, strlen(line), &record.line, &error), 0, "%s", error.text);
    record.template = json_object_get_string(at(field(record.line, "input"), 1));
    record.args = at(field(record.line, "input"), 2);
    record.entity = field(field(record.line, "config"), "entity");
    record.index = json_object_get_int64(field(field(record.line, "config"), "index"));
    return record;
}

/* Calls `use` for every record of conv2d_nchw.cuda whose number `wanted` takes (NULL: all); returns how many. */
static int for_records(bool (*wanted)(int number), void (*use)(const struct record *record)) {
    char path[TOPHUB_MAX_PATH];
    if (!tophub_log(path))
        cr_skip_test("no tuning log");
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    char *line = NULL;
    size_t size = 0;
    int number = 0, used = 0;
    while (getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        struct record record = parse_record(line);
        if (strcmp(record.template, "conv2d_nchw.cuda") == 0 && (!wanted || wanted(number))) {
            use(&record);
            used++;
        }
        number += strcmp(record.template, "conv2d_nchw.cuda") == 0;
        json_object_put(record.line);
    }
    free(line);
    fclose(file);
    return used;
}

static struct subject subject_of_record(const struct record *record) {
    struct json_object *x = at(at(record->args, 0), 1), *w = at(at(record->args, 1), 1);
    struct json_object *stride = at(record->args, 2), *pad = at(record->args, 3), *dilation = at(record->args, 4);
    long long out[2];
    char key[1024];
    for (size_t i = 0; i < 2; i++) {
        int64_t taps = (int_at(w, 2 + i) - 1) * int_at(dilation, i) + 1;
        out[i] = (int_at(x, 2 + i) + int_at(pad, i) + int_at(pad, i + 2) - taps) / int_at(stride, i) + 1;
    }
    snprintf(key, sizeof key,
             "conv2d(f32:row:%lldx%lldx%lldx%lld, f32:row:%lldx%lldx%lldx%lld) -> f32:row:%lldx%lldx%lldx%lld "
             "{stride=%lldx%lld, dilation=%lldx%lld, pad=%lldx%lldx%lldx%lld, groups=1}",
             (long long)int_at(x, 0), (long long)int_at(x, 1), (long long)int_at(x, 2), (long long)int_at(x, 3),
             (long long)int_at(w, 0), (long long)int_at(w, 1), (long long)int_at(w, 2), (long long)int_at(w, 3),
             (long long)int_at(x, 0), (long long)int_at(w, 0), out[0], out[1], (long long)int_at(stride, 0),
             (long long)int_at(stride, 1), (long long)int_at(dilation, 0), (long long)int_at(dilation, 1),
             (long long)int_at(pad, 0), (long long)int_at(pad, 1), (long long)int_at(pad, 2),
             (long long)int_at(pad, 3));
    const struct template *template = template_find(template_builtin, record->template);
    cr_assert_not_null(template);
    return subject_of(template, key);
}

/* Values are the record's, a first factor perhaps written out there; names too, but for the window's two. */
static void check_row(struct json_object *ours, struct json_object *theirs, const struct knob *knob) {
    const char *name = json_object_get_string(at(theirs, 0));
    cr_assert(strcmp(json_object_get_string(at(ours, 0)), name) == 0 || (knob->former && !strcmp(knob->former, name)));
    cr_assert_str_eq(json_object_get_string(at(ours, 1)), json_object_get_string(at(theirs, 1)));
    struct json_object *a = at(ours, 2), *b = at(theirs, 2);
    if (knob->kind == KNOB_OTHER) {
        cr_assert_eq(json_object_get_int64(a), json_object_get_int64(b));
        return;
    }
    cr_assert_eq(json_object_array_length(a), json_object_array_length(b));
    int64_t rest = knob->extent;
    for (size_t i = 1; i < json_object_array_length(a); i++) {
        cr_assert_eq(int_at(a, i), int_at(b, i));
        rest /= int_at(a, i);
    }
    cr_assert_eq(int_at(a, 0), -1);
    cr_assert(int_at(b, 0) == -1 || int_at(b, 0) == rest);
}

static void check_index_and_entity(const struct record *record) {
    struct subject subject = subject_of_record(record);
    struct error error = {0};
    int64_t index = -1;
    cr_assert_eq(space_index_of_entity(subject.space, record->entity, &index, &error), 0, "%s\n%s", error.text,
                 json_text(record->line, NULL));
    cr_assert_eq(index, record->index, "%lld: %s", (long long)index, json_text(record->line, NULL));
    struct json_object *entity CLEANUP(json_put_p) = space_entity(subject.space, record->index);
    cr_assert_eq(json_object_array_length(entity), json_object_array_length(record->entity));
    for (size_t i = 0; i < json_object_array_length(entity); i++)
        check_row(at(entity, i), at(record->entity, i), &subject.space->knobs[i]);
    arena_free(subject.arena);
}

Test(autotvm_conv2d_nchw, published_records_have_our_indices_and_entities) {
    cr_assert_eq(for_records(NULL, check_index_and_entity), 202);
}

static void check_renders(const struct record *record) {
    struct subject subject = subject_of_record(record);
    (void)render(&subject, record->index);
    arena_free(subject.arena);
}

Test(autotvm_conv2d_nchw, published_records_render) {
    cr_assert_eq(for_records(NULL, check_renders), 202);
}

/* Of 500 points that can be, how many the estimate puts before a published record, which took long searches. */
static int better_than_published[202], n_ranked;

static void rank_estimate(const struct record *record) {
    struct subject subject = subject_of_record(record);
    const struct template *template = subject.template;
    double own = template->estimate(subject.workload, &subject.target, subject.space, record->index);
    int points = 0, better = 0;
    struct rng rng;
    rng_seed(&rng, 11);
    cr_assert(isfinite(own));
    while (points < 500) {
        int64_t index = (int64_t)rng_below(&rng, (uint64_t)subject.space->size);
        double seconds = template->estimate(subject.workload, &subject.target, subject.space, index);
        points += isfinite(seconds);
        better += seconds < own;
    }
    better_than_published[n_ranked++] = better;
    arena_free(subject.arena);
}

static int ascending(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

Test(autotvm_conv2d_nchw, the_estimate_puts_published_records_in_front) {
    cr_assert_eq(for_records(NULL, rank_estimate), 202);
    qsort(better_than_published, 202, sizeof better_than_published[0], ascending);
    cr_expect_lt(better_than_published[101], 25, "half of them are in the first %d of 500", better_than_published[101]);
}

/* ---- spaces ---- */

#define CONV_56                                                            \
    "conv2d(f32:row:1x64x56x56, f32:row:64x64x3x3) -> f32:row:1x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}"
#define CONV_STEM                                                                                        \
    "conv2d(f32:row:2x3x33x35, f32:row:24x3x7x5, f32:row:24, f32:row:2x24x16x13) -> f32:row:2x24x16x13 " \
    "{stride=2x3, dilation=1x1, pad=2x3x2x3, groups=1} bias residual act=clip:0:6"
#define CONV_SPARSE                                                       \
    "conv2d(f32:row:1x2x700x3, f32:row:70x2x129x2) -> f32:row:1x70x13x4 " \
    "{stride=50x1, dilation=3x2, pad=150x2x150x1, groups=1}"
#define GROUP_32                                                            \
    "conv2d(f32:row:4x64x28x28, f32:row:128x2x3x3) -> f32:row:4x128x14x14 " \
    "{stride=2x2, dilation=1x1, pad=1x1x1x1, groups=32}"
#define GROUP_DEPTHWISE                                                            \
    "conv2d(f32:row:3x12x9x8, f32:row:12x1x3x2, f32:row:12) -> f32:row:3x12x5x11 " \
    "{stride=2x1, dilation=1x2, pad=1x3x1x2, groups=12} bias act=relu"

static const struct {
    const struct template *const *template;
    const char *key;
    int loops;
} cases[] = {
    {&conv, CONV_56, 19},   {&conv, CONV_STEM, 19},        {&conv, CONV_SPARSE, 19},
    {&group, GROUP_32, 24}, {&group, GROUP_DEPTHWISE, 24},
};

Test(autotvm_conv2d_nchw, spaces_have_autotvms_knobs_in_its_order) {
    struct subject a = subject_of(conv, CONV_56), b = subject_of(group, GROUP_32);
    cr_assert_eq(a.space->size, 90316800);
    static const char *const names[] = {"tile_n",          "tile_g",  "tile_f",
                                        "tile_y",          "tile_x",  "tile_rc",
                                        "tile_ry",         "tile_rx", "auto_unroll_max_step",
                                        "unroll_explicit", "fuse_yx"};
    static const int64_t extents[] = {4, 32, 4, 14, 14, 2, 3, 3, 0, 0, 0};
    static const int candidates[] = {10, 6, 10, 16, 16, 2, 2, 2, 3, 2, 2};
    cr_assert_eq(b.space->n_knobs, 11);
    for (int i = 0; i < 11; i++) {
        cr_assert_str_eq(b.space->knobs[i].name, names[i]);
        cr_assert_eq(b.space->knobs[i].extent, extents[i], "%s", names[i]);
        cr_assert_eq(b.space->knobs[i].n_candidates, candidates[i], "%s", names[i]);
    }
    arena_free(a.arena);
    arena_free(b.arena);
}

static bool served(const struct template *template, const char *key) {
    struct arena *arena = arena_new(0);
    struct target target;
    struct workload *workload;
    struct error error = {0};
    cr_assert_eq(target_of_arch("sm_90a", &target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s\n%s", key, error.text);
    bool answer = template->serves(workload, &target);
    cr_assert(!answer || template_for(template_builtin, workload, &target) != template, "taken without its name");
    arena_free(arena);
    return answer;
}

Test(autotvm_conv2d_nchw, each_serves_its_own) {
    cr_assert(served(conv, CONV_56));
    cr_assert_not(served(group, CONV_56));
    cr_assert(served(group, GROUP_32));
    cr_assert_not(served(conv, GROUP_32));
    static const char *const others[] = {
        "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3) -> f32:nhwc:1x64x56x56 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
        "conv2d(f16:row:1x64x56x56, f16:row:64x64x3x3) -> f16:row:1x64x56x56 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
        "dense(f32:row:3x75, f32:row:110x75) -> f32:row:3x110",
        "conv2d(f32:row:70000x1x1x1, f32:row:61x1x1x1) -> f32:row:70000x61x1x1 "
        "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        cr_assert_not(served(conv, others[i]), "%s", others[i]);
}

Test(autotvm_conv2d_nchw, the_fallback_is_a_configuration_that_can_be) {
    static const char *const keys[] = {
        "conv2d(f32:row:1x512x7x7, f32:row:512x512x3x3) -> f32:row:1x512x7x7 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
        "conv2d(f32:row:1x3x224x224, f32:row:64x3x7x7) -> f32:row:1x64x112x112 "
        "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1}",
        "conv2d(f32:row:1x1x1x25600, f32:row:514x1x1x512) -> f32:row:1x514x1x201 "
        "{stride=1x128, dilation=1x1, pad=0x256x0x256, groups=1}",
        "conv2d(f32:row:1x1x20000x20000, f32:row:61x1x2x2) -> f32:row:1x61x2x2 "
        "{stride=9999x9999, dilation=9999x9999, pad=0x0x0x0, groups=1}",
        "conv2d(f32:row:60000x1x1x1, f32:row:64x1x1x1) -> f32:row:60000x64x1x1 "
        "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}",
        CONV_56,
        CONV_STEM,
        CONV_SPARSE,
    };
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        struct subject subject = subject_of(conv, keys[i]);
        (void)render(&subject, fallback(&subject));
        arena_free(subject.arena);
    }
    struct subject subject = subject_of(group, GROUP_32);
    const struct launch *launch = render(&subject, fallback(&subject))->run;
    cr_assert_geq(launch->grid[0] * launch->grid[1] * launch->grid[2], (unsigned)subject.target.units);
    cr_assert_geq(launch->block[0] * launch->block[1] * launch->block[2], 32);
    arena_free(subject.arena);
}

/* ---- rendering ---- */

static void check_launch(const struct launch *launch, const struct subject *subject) {
    int64_t threads = (int64_t)launch->block[0] * launch->block[1] * launch->block[2];
    cr_assert(threads > 0 && threads <= subject->target.max_threads && launch->block[2] <= 64);
    cr_assert(launch->grid[0] > 0 && launch->grid[1] > 0 && launch->grid[2] > 0);
    cr_assert(launch->grid[1] <= 65535 && launch->grid[2] <= 65535);
    cr_assert_eq(launch->n_args, subject->workload->n_in + 1);
}

Test(autotvm_conv2d_nchw, any_configuration_renders_or_says_why_not) {
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t k = 0; k < ARRAY_COUNT(cases); k++) {
        struct subject subject = subject_of(*cases[k].template, cases[k].key);
        int rendered = 0;
        for (int i = 0; i < 300; i++) {
            struct error error = {0};
            struct program *program = try_render(&subject, any(&subject, &rng), &error);
            if (program)
                check_launch(program->run, &subject);
            rendered += program != NULL;
        }
        cr_assert_gt(rendered, 5, "%s", cases[k].key);
        arena_free(subject.arena);
    }
}

static int64_t index_of(const struct subject *subject, const char *entity_text) {
    struct json_object *entity CLEANUP(json_put_p) = NULL;
    struct error error = {0};
    int64_t index = -1;
    cr_assert_eq(json_parse(entity_text, strlen(entity_text), &entity, &error), 0, "%s", error.text);
    cr_assert_eq(space_index_of_entity(subject->space, entity, &index, &error), 0, "%s", error.text);
    return index;
}

#define ENTITY(f, y, x, rc)                                                                                  \
    "[[\"tile_f\",\"sp\"," f "],[\"tile_y\",\"sp\"," y "],[\"tile_x\",\"sp\"," x "],[\"tile_rc\",\"sp\"," rc \
    "],[\"tile_ry\",\"sp\",[-1,3]],[\"tile_rx\",\"sp\",[-1,3]],[\"auto_unroll_max_step\",\"ot\",512],"       \
    "[\"unroll_explicit\",\"ot\",0]]"

Test(autotvm_conv2d_nchw, what_cannot_be_is_refused_with_its_reason) {
    static const struct {
        const char *entity, *reason;
    } refused[] = {
        {ENTITY("[-1,1,32,1]", "[-1,1,2,1]", "[-1,1,28,1]", "[-1,1]"), "threads in a block"},
        {ENTITY("[-1,1,64,1]", "[-1,1,56,1]", "[-1,1,1,1]", "[-1,1]"), "threads in a block"},
        {ENTITY("[-1,1,64,1]", "[-1,1,1,1]", "[-1,1,1,1]", "[-1,64]"), "shared memory"},
        {ENTITY("[-1,1,1,32]", "[-1,8,1,1]", "[-1,2,4,1]", "[-1,1]"), "512 sums"},
    };
    struct subject subject = subject_of(conv, CONV_56);
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        struct error error = {0};
        cr_assert_null(try_render(&subject, index_of(&subject, refused[i].entity), &error));
        cr_assert(strstr(error.text, refused[i].reason), "%s", error.text);
    }
    (void)render(&subject, index_of(&subject, ENTITY("[-1,1,32,1]", "[-1,1,1,1]", "[-1,1,28,1]", "[-1,1]")));
    arena_free(subject.arena);

    subject = subject_of(conv, "conv2d(f32:row:1x1x1x1, f32:row:1024x1x1x1) -> f32:row:1x1024x1x1 "
                               "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}");
    struct error error = {0};
    int64_t digit[SPACE_MAX_KNOBS] = {0};
    while (subject.space->knobs[0].values[digit[0] * 4 + 2] != 128)
        digit[0]++;
    cr_assert_null(try_render(&subject, space_index(subject.space, digit), &error));
    cr_assert(strstr(error.text, "128 threads along z"), "%s", error.text);
    arena_free(subject.arena);
}

/* ---- loops ---- */

/* How far the loops move an operand in all: from its first element to its last, where it has no others. */
static int64_t reach(const struct loop_nest *nest, const char *access) {
    int64_t sum = 0;
    int i = 0;
    while (strcmp(nest->accesses[i].name, access) != 0)
        i++;
    for (int l = 0; l < nest->n_loops; l++)
        sum += (nest->loops[l].extent - 1) * nest->accesses[i].stride[l];
    return sum;
}

Test(autotvm_conv2d_nchw, the_loops_cover_the_work_whatever_the_configuration) {
    struct rng rng;
    rng_seed(&rng, 2);
    for (size_t k = 0; k < ARRAY_COUNT(cases); k++) {
        struct subject subject = subject_of(*cases[k].template, cases[k].key);
        const struct workload *w = subject.workload;
        for (int i = 0; i < 50; i++) {
            struct loop_nest nest;
            int64_t executions = 1;
            subject.template->nest(w, &subject.target, subject.space, any(&subject, &rng), &nest);
            cr_assert_eq(nest.n_loops, cases[k].loops);
            cr_assert_eq(nest.n_accesses, 5);
            for (int l = 0; l < nest.n_loops; l++)
                executions *= nest.loops[l].extent;
            cr_assert_eq(2 * executions, workload_flops(w));
            cr_assert_eq(reach(&nest, "output"), shape_count(&w->out[0].shape) - 1);
            cr_assert_eq(reach(&nest, "kernel"), shape_count(&w->in[1].shape) - 1);
        }
        arena_free(subject.arena);
    }
}

/* ---- compiling ---- */

/* A section of a cubin. */
static const Elf64_Shdr *section_of(const struct buf *code, const char *name) {
    const Elf64_Ehdr *elf = (const void *)code->data;
    const Elf64_Shdr *headers = (const void *)(code->data + elf->e_shoff);
    const char *names = code->data + headers[elf->e_shstrndx].sh_offset;
    for (int i = 0; i < elf->e_shnum; i++) {
        if (strcmp(names + headers[i].sh_name, name) == 0)
            return &headers[i];
    }
    cr_assert_fail("the cubin has no section %s", name);
    return NULL;
}

enum { REGISTERS = 0x2f, FRAME = 0x11 };

/* What the cubin says of its one kernel: each attribute is a format, a kind, a size, then a symbol and the value. */
static unsigned attribute(const struct buf *code, unsigned char kind) {
    const Elf64_Shdr *info = section_of(code, ".nv.info");
    const unsigned char *data = (const void *)(code->data + info->sh_offset);
    for (size_t i = 0; i + 12 <= info->sh_size; i += 4 + data[i + 2]) {
        cr_assert_eq(data[i], 4, "an attribute of another format");
        if (data[i + 1] == kind)
            return data[i + 8] | (unsigned)data[i + 9] << 8;
    }
    cr_assert_fail("the cubin does not say %#x", kind);
    return 0;
}

/* Both tiles are in the shared memory that was counted (the driver has 1 KB, too), registers let the block be launched,
 * and the sums are in them: nothing is in a frame in memory. */
static void check_resources(const struct subject *subject, int64_t index, const struct buf *code) {
    struct loop_nest nest;
    subject->template->nest(subject->workload, &subject->target, subject->space, index, &nest);
    size_t staged = (size_t)(reach(&nest, "data.shared") + reach(&nest, "kernel.shared") + 2) * sizeof(float);
    size_t shared = section_of(code, ".nv.shared.autotvm_direct")->sh_size;
    cr_assert(shared >= staged && shared <= staged + 1024 + 16, "%zu bytes for %zu", shared, staged);
    const unsigned *block = render(subject, index)->run->block;
    unsigned registers = attribute(code, REGISTERS);
    cr_assert(registers > 0 && registers * block[0] * block[1] * block[2] <= 65536, "%u registers", registers);
    cr_assert_eq(attribute(code, FRAME), 0);
}

static bool compile(const struct subject *subject, int64_t index) {
    struct buf code CLEANUP(buf_release) = BUF_INIT(1 << 26), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct error error = {0};
    struct program *program = render(subject, index);
    int rc = device_cuda.compile(&subject->target, program->source, deadline_in_s(60), &code, &log, &error);
    if (rc < 0 && strcmp(error.code, "no-nvrtc") == 0)
        cr_skip_test("NVRTC is not here to compile with");
    cr_assert_eq(rc, 0, "configuration %lld: %s", (long long)index, error.text);
    check_resources(subject, index, &code);
    return true;
}

static void compile_record(const struct record *record) {
    struct subject subject = subject_of_record(record);
    compile(&subject, record->index);
    arena_free(subject.arena);
}

static bool every_fortieth(int number) {
    return number % 40 == 7;
}

Test(autotvm_conv2d_nchw, published_records_compile) {
    cr_assert_eq(for_records(every_fortieth, compile_record), 5);
}

Test(autotvm_conv2d_nchw, fallbacks_compile) {
    for (size_t k = 1; k < ARRAY_COUNT(cases); k++) {
        struct subject subject = subject_of(*cases[k].template, cases[k].key);
        compile(&subject, fallback(&subject));
        arena_free(subject.arena);
    }
}

/* ---- running ---- */

enum { GUARD = 64 };

/* NaN before and after, so that what is read there shows. */
static float *guarded(struct arena *arena, int64_t count) {
    float *data = arena_array(arena, (size_t)count + 2 * GUARD, sizeof *data);
    for (int64_t i = 0; i < count + 2 * GUARD; i++)
        data[i] = NAN;
    return data + GUARD;
}

/* Small integers, whose sums FP32 holds exactly. */
static float *fill(struct arena *arena, struct rng *rng, const struct operand *operand) {
    int64_t count = shape_count(&operand->shape);
    float *data = guarded(arena, count);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)rng_below(rng, 9) - 4;
    return data;
}

static const float *expect(const struct workload *w, float *const *in, struct arena *arena) {
    struct graph *graph = graph_new(arena);
    struct node *node = graph_add_node(graph, w->op, "node", w->n_in, 1);
    struct value out;
    struct error error = {0};
    node->attr = w->attr;
    node->epilogue = w->epilogue;
    for (int i = 0; i < w->n_in; i++) {
        node->in[i] = graph_add_value(graph, "x", DTYPE_F32, &w->in[i].shape);
        graph->values[node->in[i]].data = in[i];
    }
    node->out[0] = graph_add_value(graph, "y", DTYPE_F32, &w->out[0].shape);
    cr_assert_eq(eval_node(graph, node, arena, &out, &error), 0, "%s", error.text);
    return out.data;
}

static void check_result(const struct subject *subject, int64_t index, struct rng *rng) {
    const struct workload *w = subject->workload;
    struct program *program = render(subject, index);
    float *in[4] = {0};
    int64_t count = shape_count(&w->out[0].shape);
    for (int i = 0; i < w->n_in; i++)
        in[i] = fill(subject->arena, rng, &w->in[i]);
    float *out = guarded(subject->arena, count);
    cuda_fibres_run(program, in, out, subject->arena);
    const float *right = expect(w, in, subject->arena);
    for (int64_t i = 0; i < count; i++)
        cr_assert(out[i] == right[i], "output %lld is %g, not %g, in configuration %lld", (long long)i, (double)out[i],
                  (double)right[i], (long long)index);
    for (int i = 0; i < GUARD; i++)
        cr_assert(isnan(out[-1 - i]) && isnan(out[count + i]), "written beyond the output");
}

/* A configuration that can be, of so few threads that they can take turns. */
static int64_t any_small(const struct subject *subject, struct rng *rng) {
    for (;;) {
        int64_t index = any(subject, rng);
        struct error error = {0};
        struct program *program = try_render(subject, index, &error);
        if (program && program->run->block[0] * program->run->block[1] * program->run->block[2] <= 256)
            return index;
    }
}

static void check_case(int number, int configurations) {
    struct rng rng;
    rng_seed(&rng, (uint64_t)number);
    struct subject subject = subject_of(*cases[number].template, cases[number].key);
    check_result(&subject, fallback(&subject), &rng);
    for (int i = 0; i < configurations; i++)
        check_result(&subject, any_small(&subject, &rng), &rng);
    arena_free(subject.arena);
}

Test(autotvm_conv2d_nchw, equals_the_reference_with_strides_and_an_epilogue) {
    check_case(1, 2);
}

Test(autotvm_conv2d_nchw, equals_the_reference_with_dilation_and_one_sided_padding) {
    check_case(2, 1);
}

Test(autotvm_conv2d_nchw, equals_the_reference_with_groups) {
    check_case(4, 3);
}
