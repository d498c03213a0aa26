/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_check.h: what the tests of CUDA templates without tensor cores share: a workload on a target, its rendering,
 * its kernels run on the host (cuda_warps.h) and held against the evaluator, and what NVRTC makes of them.
 *
 * A test defines WARPS_LAUNCHES, then includes this, then names its templates in each call.
 */
#ifndef WARPTUNE_TESTS_CUDA_CHECK_H
#define WARPTUNE_TESTS_CUDA_CHECK_H

/*
 * The instructions that these kernels have beyond the emulator's. What the kernel ahead writes is NaNs until a thread
 * awaits it.
 */
#define WARPS_MORE                                                                                            \
    "extern \"C\" float logf(float);\n"                                                                       \
    "static inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }\n"               \
    "static inline int __float_as_int(float value) { int bits; memcpy(&bits, &value, 4); return bits; }\n"    \
    "static inline uint4 load_stream(const void *from) {\n"                                                   \
    "    if ((uintptr_t)from % 16 != 0) wrong(\"loads from no multiple of 16\");\n"                           \
    "    return *(const uint4 *)from;\n}\n"                                                                   \
    "static inline float load_one(unsigned from) {\n"                                                         \
    "    float value; memcpy(&value, shared_at(now->block, from, 4), 4); return value;\n}\n"                  \
    "static inline float load_of_rank(unsigned from, int rank) {\n"                                           \
    "    if (threads[rank * now->block->meeting.size].done) wrong(\"reads of a CTA that may have ended\");\n" \
    "    float value; memcpy(&value, shared_at(&blocks[rank], from, 4), 4); return value;\n}\n"               \
    "static inline float exchange(float value, int bit) {\n"                                                  \
    "    struct lane own = {}; memcpy(&own.address, &value, 4);\n"                                            \
    "    const struct lane *lanes = show(own);\n"                                                             \
    "    memcpy(&value, &lanes[(now->number ^ bit) % 32].address, 4); return value;\n}\n"                     \
    "static void *hidden; static const void *hidden_data; static size_t hidden_bytes;\n"                      \
    "extern \"C\" void set_hidden(void *to, const void *data, size_t bytes) {\n"                              \
    "    hidden = to, hidden_data = data, hidden_bytes = bytes;\n}\n"                                         \
    "static inline void await_previous(int &) {\n"                                                            \
    "    if (hidden_data) memcpy(hidden, hidden_data, hidden_bytes);\n    hidden_data = 0;\n}\n"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu/device/device.h"
#include "gpu/measure/numbers.h"
#include "gpu/template/builtin.h"
#include "service/base/rng.h"
#include "service/model/eval.h"
#include "tests/unit/cubin_info.h"
#include "tests/unit/cuda_warps.h"

/* A workload on a target, with a template's space. */
struct subject {
    const struct template *template;
    struct arena *arena;
    struct target target;
    struct workload *workload;
    struct space *space;
};

static inline bool served(const struct template *template, const char *key, const char *arch) {
    struct arena *arena = arena_new(0);
    struct target target;
    struct workload *workload;
    struct error error = {0};
    cr_assert_eq(target_of_arch(arch, &target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s\n%s", key, error.text);
    bool serves = template->serves(workload, &target);
    arena_free(arena);
    return serves;
}

static inline struct subject subject_of(const struct template *template, const char *key, const char *arch) {
    struct subject subject = {.template = template, .arena = arena_new(0)};
    struct error error = {0};
    cr_assert_eq(target_of_arch(arch, &subject.target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, subject.arena, &subject.workload, &error), 0, "%s\n%s", key, error.text);
    cr_assert(template->serves(subject.workload, &subject.target), "%s", key);
    subject.space = template->space(subject.workload, &subject.target, subject.arena);
    return subject;
}

static inline char *describe(const struct subject *subject, int64_t index) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 16);
    buf_printf(&text, "%s, configuration %lld:", subject->target.arch, (long long)index);
    for (int k = 0; k < subject->space->n_knobs; k++)
        buf_printf(&text, " %s %lld", subject->space->knobs[k].name,
                   (long long)space_value(subject->space, index, subject->space->knobs[k].name, 0));
    buf_puts(&text, " of ");
    workload_key(subject->workload, &text);
    return arena_strdup(subject->arena, buf_str(&text));
}

static inline struct program *render(const struct subject *subject, int64_t index) {
    struct program *program;
    struct error error = {0};
    if (subject->template->render(subject->workload, &subject->target, subject->space, index, subject->arena, &program,
                                  &error) == 0)
        return program;
    cr_assert_str_eq(error.code, "instantiation", "%s: %s", describe(subject, index), error.text);
    return NULL;
}

static inline double estimate(const struct subject *subject, int64_t index) {
    return subject->template->estimate(subject->workload, &subject->target, subject->space, index);
}

static inline int64_t fallback(const struct subject *subject) {
    int64_t index = subject->template->fallback(subject->workload, &subject->target, subject->space);
    cr_assert(index >= 0 && index < subject->space->size);
    return index;
}

/* A random configuration that can be. */
static inline int64_t random_index(const struct subject *subject, struct rng *rng) {
    int64_t index;
    cr_assert(isfinite(estimate(subject, fallback(subject))), "no configuration can be");
    do
        index = (int64_t)rng_below(rng, (uint64_t)subject->space->size);
    while (isinf(estimate(subject, index)));
    return index;
}

/* `index` with another value of a knob. */
static inline int64_t with_knob(const struct subject *subject, int64_t index, const char *name, int64_t value) {
    int64_t digit[SPACE_MAX_KNOBS];
    space_digits(subject->space, index, digit);
    for (int k = 0; k < subject->space->n_knobs; k++) {
        const struct knob *knob = &subject->space->knobs[k];
        for (int64_t c = 0; strcmp(knob->name, name) == 0 && c < knob->n_candidates; c++)
            if (knob->values[c] == value) {
                digit[k] = c;
                return space_index(subject->space, digit);
            }
    }
    cr_assert_fail("%s cannot be %lld", name, (long long)value);
    return -1;
}

/* ---- rendering ---- */

static inline void check_launch(const struct launch *launch, const struct subject *subject,
                                const struct program *program) {
    int64_t threads = (int64_t)launch->block[0] * launch->block[1] * launch->block[2];
    cr_assert(strstr(program->source, launch->entry), "there is no kernel %s", launch->entry);
    cr_assert(threads > 0 && threads <= subject->target.max_threads, "%lld threads", (long long)threads);
    cr_assert(launch->grid[0] > 0 && launch->grid[1] > 0 && launch->grid[2] > 0);
    cr_assert(launch->grid[1] <= 65535 && launch->grid[2] <= 65535);
    cr_assert_leq(launch->shared_bytes, subject->target.shared_bytes);
    cr_assert_eq(launch->early, strtol(subject->target.arch + 3, NULL, 10) >= 90);
}

/* Renders all, or says why not; the estimate knows which cannot; the fallback is the best with constants. */
static inline void check_space(const struct template *template, const char *key, const char *arch) {
    struct subject subject = subject_of(template, key, arch);
    double best = estimate(&subject, fallback(&subject));
    int rendered = 0;
    cr_assert_leq(subject.space->size, 3000);
    for (int64_t i = 0; i < subject.space->size; i++) {
        double seconds = estimate(&subject, i);
        struct program *program = render(&subject, i);
        cr_assert(isinf(seconds) || (seconds > 1e-6 && seconds < 1e-2), "%g", seconds);
        cr_assert_eq(program != NULL, (bool)isfinite(seconds), "%s", describe(&subject, i));
        cr_assert(i < subject.space->size / 2 || seconds >= best);
        for (int j = 0; program && j < program->n_run; j++)
            check_launch(&program->run[j], &subject, program);
        rendered += program != NULL;
    }
    cr_assert_geq(rendered * 4, subject.space->size, "%d of %lld configurations of %s", rendered,
                  (long long)subject.space->size, key);
    arena_free(subject.arena);
}

/* The loops multiply to the workload's, or a little more; `work`: how often the innermost statement runs. */
static inline void check_nest(const struct template *template, const char *key, const char *arch, double work) {
    struct subject subject = subject_of(template, key, arch);
    struct loop_nest first, nest;
    template->nest(subject.workload, &subject.target, subject.space, 0, &first);
    for (int64_t i = 0; i < subject.space->size; i += 3) {
        double done = 1;
        template->nest(subject.workload, &subject.target, subject.space, i, &nest);
        cr_assert_eq(nest.n_loops, first.n_loops);
        for (int l = 0; l < nest.n_loops; l++) {
            cr_assert_gt(nest.loops[l].extent, 0);
            cr_assert_eq(nest.loops[l].kind, first.loops[l].kind);
            done *= (double)nest.loops[l].extent;
        }
        cr_assert(isinf(estimate(&subject, i)) || done >= work, "%g, not %g: %s", done, work, describe(&subject, i));
    }
    arena_free(subject.arena);
}

/* ---- arithmetic, on the host ---- */

/* Between logical order and an operand's own. */
static inline void reorder(const struct operand *operand, const void *from, void *to, bool to_memory) {
    int64_t stride[SHAPE_MAX_RANK], count = shape_count(&operand->shape);
    size_t size = dtype_size(operand->dtype);
    operand_strides(operand, stride);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0;
        for (int d = operand->shape.rank - 1; d >= 0; d--) {
            at += rest % operand->shape.dim[d] * stride[d];
            rest /= operand->shape.dim[d];
        }
        int64_t source = to_memory ? i : at, target = to_memory ? at : i;
        memcpy((char *)to + (size_t)target * size, (const char *)from + (size_t)source * size, size);
    }
}

/* What the evaluator makes of the inputs, in the output's order. */
static inline const void *expected_of(const struct workload *w, void *const *in, struct arena *arena) {
    struct graph *graph = graph_new(arena);
    struct node *node = graph_add_node(graph, w->op, "node", w->n_in, 1);
    struct value result;
    struct error error = {0};
    node->attr = w->attr;
    node->epilogue = w->epilogue;
    for (int i = 0; i < w->n_in; i++) {
        void *logical = arena_alloc(arena, operand_bytes(&w->in[i]));
        reorder(&w->in[i], in[i], logical, false);
        node->in[i] = graph_add_value(graph, "in", w->in[i].dtype, &w->in[i].shape);
        graph->values[node->in[i]].data = logical;
    }
    node->out[0] = graph_add_value(graph, "out", w->out[0].dtype, &w->out[0].shape);
    cr_assert_eq(eval_node(graph, node, arena, &result, &error), 0, "%s", error.text);
    void *memory = arena_alloc(arena, operand_bytes(&w->out[0]));
    reorder(&w->out[0], result.data, memory, true);
    return memory;
}

/*
 * Buffers between two pages that cannot be touched. The room before and behind (there: less than 128 bytes) is full of
 * NaNs, which nothing may overwrite.
 */
enum { PAGE = 4096, ALIGNED = 128 };

static inline size_t up_to(size_t bytes, size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

static inline void *new_buffer(size_t bytes) {
    size_t room = up_to(bytes + 1, PAGE);
    unsigned char *pages = mmap(NULL, room + 2 * (size_t)PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)pages, MAP_FAILED);
    cr_assert_eq(mprotect(pages + PAGE, room, PROT_READ | PROT_WRITE), 0);
    memset(pages + PAGE, 0xff, room);
    return pages + PAGE + room - up_to(bytes, ALIGNED);
}

static inline void check_margins(const void *buffer, size_t bytes, const char *what) {
    const unsigned char *data = buffer;
    for (size_t i = 1; i <= (uintptr_t)data % PAGE; i++)
        cr_assert_eq(*(data - i), 0xff, "%s: a write before a buffer", what);
    for (size_t i = bytes; i < up_to(bytes, ALIGNED); i++)
        cr_assert_eq(data[i], 0xff, "%s: a write behind a buffer", what);
}

/* The inputs are hidden from the run's first kernel until it awaits what is ahead, where it begins early. */
static inline void hide(const struct warps_code *code, const struct program *program, void *x, size_t bytes,
                        struct arena *arena) {
    void (*set)(void *, const void *, size_t) =
        (void (*)(void *, const void *, size_t))dlsym(code->library, "set_hidden");
    cr_assert_not_null(set);
    if (!program->run[0].early)
        return;
    void *copy = arena_alloc(arena, bytes);
    memcpy(copy, x, bytes);
    memset(x, 0xff, bytes);
    set(x, copy, bytes);
}

static inline void execute(const struct warps_code *code, const struct subject *subject, const struct program *program,
                           enum numbers kind, const char *what) {
    const struct workload *w = subject->workload;
    struct arena *arena = arena_new(0);
    void *memory[ARG_VALUE][8] = {{NULL}};
    char text[512];
    for (int i = 0; i < w->n_in; i++) {
        memory[ARG_IN][i] = new_buffer(operand_bytes(&w->in[i]));
        numbers_fill(w, i, kind, memory[ARG_IN][i]);
    }
    const void *expected = expected_of(w, memory[ARG_IN], arena);
    memory[ARG_OUT][0] = new_buffer(operand_bytes(&w->out[0]));
    for (int i = 0; i < program->n_prepared; i++)
        memory[ARG_PREPARED][i] = new_buffer(program->prepared_bytes[i]);
    for (int i = 0; i < program->n_prepare; i++)
        warps_launch(code, &program->prepare[i], memory);
    hide(code, program, memory[ARG_IN][0], operand_bytes(&w->in[0]), arena);
    for (int i = 0; i < program->n_run; i++)
        warps_launch(code, &program->run[i], memory);
    bool agree = numbers_agree(&w->out[0], kind, memory[ARG_OUT][0], expected, text, sizeof text);
    cr_assert(agree, "%s, numbers of kind %d: %s", what, (int)kind, text);
    check_margins(memory[ARG_OUT][0], operand_bytes(&w->out[0]), what);
    for (int i = 0; i < program->n_prepared; i++)
        check_margins(memory[ARG_PREPARED][i], program->prepared_bytes[i], what);
    arena_free(arena);
}

/* One configuration, on both kinds of numbers. */
static inline void check_on_host(const struct subject *subject, int64_t index) {
    struct program *program = render(subject, index);
    struct warps_code code;
    cr_assert_not_null(program, "%s", describe(subject, index));
    if (!warps_compile(program, &code))
        cr_skip_test("clang is not here to compile with");
    for (int kind = 0; kind < NUMBERS_KINDS; kind++)
        execute(&code, subject, program, (enum numbers)kind, describe(subject, index));
    dlclose(code.library);
}

static inline int64_t pick(struct rng *rng, const int64_t *list, size_t n) {
    return list[rng_below(rng, n)];
}

#define PICK(rng, ...) \
    pick(rng, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* A random workload, from a seed, and a random configuration of it. */
static inline void check_random(const struct template *template, void (*random_key)(struct rng *, struct buf *),
                                uint64_t seed, const char *arch) {
    struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 16);
    struct rng rng;
    rng_seed(&rng, seed);
    random_key(&rng, &key);
    struct subject subject = subject_of(template, buf_str(&key), arch);
    check_on_host(&subject, random_index(&subject, &rng));
    arena_free(subject.arena);
}

/* ---- compiling ---- */

/* What was compiled has the parameters that the launch passes: pointers and 32-bit values, each in its place. */
static inline void check_params(const struct buf *code, const struct launch *launch) {
    int bytes[CUBIN_MOST_PARAMS];
    cr_assert_eq(cubin_params(code, launch->entry, bytes), launch->n_args, "%s", launch->entry);
    for (int i = 0; i < launch->n_args; i++)
        cr_assert_eq(bytes[i], launch->args[i].kind == ARG_VALUE ? 4 : 8, "argument %d of %s", i, launch->entry);
}

/* Without a word of NVRTC's, without spilling, and in registers for as many threads as the kernel has. */
static inline void compile(const struct subject *subject, int64_t index) {
    struct program *program = render(subject, index);
    struct buf code CLEANUP(buf_release) = BUF_INIT(1 << 26), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct error error = {0};
    cr_assert_not_null(program);
    int rc = device_cuda.compile(&subject->target, program->source, deadline_in_s(60), &code, &log, &error);
    if (rc < 0 && strcmp(error.code, "no-nvrtc") == 0)
        cr_skip_test("NVRTC is not here to compile with");
    cr_assert_eq(rc, 0, "%s: %s", describe(subject, index), error.text);
    cr_assert_str_empty(buf_str(&log));
    struct cubin_info info = cubin_info_of(&code);
    cr_assert(info.registers >= 8 && info.registers * (int64_t)program->run[0].block[0] <= subject->target.registers,
              "%d registers: %s", info.registers, describe(subject, index));
    cr_assert_eq(info.frame, 0, "%s spills %d bytes", describe(subject, index), info.frame);
    for (int i = 0; i < program->n_prepare; i++)
        check_params(&code, &program->prepare[i]);
    for (int i = 0; i < program->n_run; i++)
        check_params(&code, &program->run[i]);
}

/* The fallback, and a random configuration with the shape in the arguments. */
static inline void compile_for(const struct template *template, const char *arch, const char *key) {
    struct subject subject = subject_of(template, key, arch);
    struct rng rng;
    rng_seed(&rng, 9);
    compile(&subject, fallback(&subject));
    compile(&subject, with_knob(&subject, random_index(&subject, &rng), "shapes", 0));
    arena_free(subject.arena);
}

#endif
