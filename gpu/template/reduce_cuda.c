/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_cuda.c: the space of reduce.cu: elements of a load, threads of a line and of a block, and whether the shape is
 * in the source or in the arguments. Serves reductions and softmax in FP16 and FP32 along dimensions that are
 * neighbours in memory, and pools whose one window is the image.
 */
#include <math.h>

#include "gpu/template/builtin.h"
#include "gpu/template/cuda_space.h"
#include "gpu/template/embed.h"
#include "gpu/template/kernel_shape.h"
#include "gpu/template/plain.h"

EMBED(reduce_source, "gpu/template/reduce.cu");

#define EARLY_SM 90
#define MOST_HELD 4 /* vectors of a thread */
#define MAX_SHARED (48 << 10)

enum kind { MEAN, MAXIMUM, SUM, SOFTMAX, LOG_SOFTMAX };

/* A configuration, with what follows from it. */
struct reduce {
    enum kind kind;
    bool half, constants, early;
    int64_t a, length, b;              /* the tensor in memory */
    int64_t vec, ways, lines, threads; /* lines: of a block; vectors of them, unless along */
    int64_t all_lines, each;           /* likewise of the tensor; vectors of a thread */
    int64_t held, shared_bytes;
};

/* ---- workloads ---- */

/* A pool of one window that is the whole image. */
static bool is_global(const struct workload *workload) {
    const struct pool_attr *pool = &workload->attr.pool;
    bool whole = true;
    for (int i = 0; i < 2; i++)
        whole = whole && pool->kernel[i] == workload->in[0].shape.dim[2 + i] && pool->dilation[i] == 1 &&
                pool->pad[i] == 0 && pool->pad[2 + i] == 0 && workload->out[0].shape.dim[2 + i] == 1;
    return whole;
}

/* Which operator it is, and along which dimensions it goes; 0: none that is served. */
static int64_t axes_of(const struct workload *workload, enum kind *ret) {
    switch (workload->op) {
    case OP_REDUCE:
        *ret = workload->attr.reduce.kind == REDUCE_MEAN  ? MEAN
               : workload->attr.reduce.kind == REDUCE_MAX ? MAXIMUM
                                                          : SUM;
        return workload->attr.reduce.axes;
    case OP_SOFTMAX:
        *ret = workload->attr.softmax.log ? LOG_SOFTMAX : SOFTMAX;
        return (int64_t)1 << workload->attr.softmax.axis;
    case OP_POOL:
        *ret = workload->attr.pool.kind == POOL_MAX ? MAXIMUM : MEAN;
        return is_global(workload) ? 3 << 2 : 0;
    default:
        return 0;
    }
}

/* The lines' dimensions as one, with at most one on either side, in the order of memory of x and of the result. */
static bool take_lines(const struct lines *lines, struct reduce *ret) {
    const struct map *map = &lines->map;
    int along = 0;
    while (along < map->rank && !lines->reduced[along])
        along++;
    if (along > 1 || along == map->rank || map->rank - along > 2 ||
        (map->rank - along == 2 && lines->reduced[along + 1]))
        return false;
    ret->a = along ? map->dim[0] : 1;
    ret->length = map->dim[along];
    ret->b = along + 1 < map->rank ? map->dim[along + 1] : 1;
    int64_t line = ret->kind >= SOFTMAX ? ret->length * ret->b : ret->b;
    return (along == 0 || map->stride[1][0] == line) && (along + 1 == map->rank || map->stride[1][along + 1] == 1) &&
           map->stride[1][along] == (ret->kind >= SOFTMAX ? ret->b : 0);
}

static bool reduce_shape(const struct workload *workload, struct reduce *ret) {
    struct lines lines;
    *ret = (struct reduce){0};
    enum dtype dtype = workload->out[0].dtype;
    int64_t axes = axes_of(workload, &ret->kind);
    if (axes == 0 || (dtype != DTYPE_F16 && dtype != DTYPE_F32) || workload->in[0].dtype != dtype ||
        shape_count(&workload->in[0].shape) == 0 || shape_count(&workload->in[0].shape) >= 1LL << 30)
        return false;
    ret->half = dtype == DTYPE_F16;
    lines_of(workload, axes, &lines);
    return take_lines(&lines, ret);
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct reduce it;
    (void)target;
    return reduce_shape(workload, &it);
}

/* ---- the space ---- */

static bool is_along(const struct reduce *it) {
    return it->b == 1;
}

static int64_t neighbours(const struct reduce *it) {
    return is_along(it) ? it->length : it->b;
}

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t all[] = {8, 4, 2, 1}, ways[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024},
                         threads[] = {64, 128, 256, 512, 1024}, shapes[] = {ARGUMENTS, CONSTANTS};
    struct reduce it;
    struct space *space = space_new(arena);
    int64_t vec[ARRAY_COUNT(all)], n = 0;
    int used = 1;
    reduce_shape(workload, &it);
    (void)target;
    for (size_t i = it.half ? 0 : 1; i < ARRAY_COUNT(all); i++)
        if (neighbours(&it) % all[i] == 0)
            vec[n++] = all[i];
    space_choice(space, "vec", vec, n);
    while (used < (int)ARRAY_COUNT(ways) && ways[used - 1] < it.length)
        used++;
    space_choice(space, "ways", ways, used);
    space_choice(space, "threads", threads, ARRAY_COUNT(threads));
    space_choice(space, "shapes", shapes, ARRAY_COUNT(shapes));
    return space;
}

static struct reduce reduce_of(const struct workload *workload, const struct target *target, const struct space *space,
                               int64_t index) {
    struct reduce t;
    reduce_shape(workload, &t);
    t.vec = space_value(space, index, "vec", 0);
    t.ways = space_value(space, index, "ways", 0);
    t.threads = space_value(space, index, "threads", 0);
    t.constants = space_value(space, index, "shapes", 0) == CONSTANTS;
    t.early = cuda_sm(target) >= EARLY_SM;
    t.lines = t.threads / t.ways;
    t.all_lines = is_along(&t) ? t.a : t.a * t.b / t.vec;
    t.each = ceil_div(is_along(&t) ? t.length / t.vec : t.length, t.ways);
    t.held = t.kind >= SOFTMAX && t.each <= MOST_HELD ? t.each : 0;
    int64_t words = is_along(&t) ? t.lines * ceil_div(t.ways, 32) : t.ways * t.vec * t.lines;
    t.shared_bytes = words * 4 * (t.kind >= SOFTMAX ? 2 : 1);
    return t;
}

static int check(const struct reduce *t, const struct target *target, struct error *error) {
    if (t->lines == 0 || t->threads > target->max_threads)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A block of %lld threads has no %lld.",
                         (long long)t->threads, (long long)t->ways);
    if (!is_along(t) && t->kind < SOFTMAX && t->ways > 1 && t->ways < t->vec)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld threads cannot finish %lld lines.",
                         (long long)t->ways, (long long)t->vec);
    if (t->shared_bytes > MAX_SHARED || t->shared_bytes > target->shared_bytes)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A block needs %lld bytes of shared memory.",
                         (long long)t->shared_bytes);
    return 0;
}

/* ---- what is known without compiling ---- */

#define HERTZ 1.75e9
#define ROUND_CYCLES 900.0 /* of a round of blocks: a wait for L2, the stores */
#define LOAD_CYCLES 600.0  /* each further group of loads */
#define AT_ONCE 4
#define WHOLE_BYTES 64.0
#define EARLY_EDGE_S 0.7e-6
#define LATE_EDGE_S 1.0e-6
#define CACHE_BYTES_A_SECOND 6e12
#define MEMORY_BYTES_A_SECOND 4.2e12

/* The ways of the loads, one after the other, what memory sends, what is issued, and the joins. */
static double estimate(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index) {
    struct reduce t = reduce_of(workload, target, space, index);
    struct error ignored;
    if (check(&t, target, &ignored) < 0)
        return INFINITY;
    double softmax = t.kind >= SOFTMAX ? 2 : 1, passes = softmax > 1 && !t.held ? 3 : 1;
    int64_t blocks = ceil_div(t.all_lines, t.lines), most = ceil_div(blocks, target->units);
    int64_t room = 2048 / t.threads;
    double bytes = (double)workload_bytes(workload), loads = (double)t.each;
    double memory = bytes / (bytes < (double)target->cache_bytes ? CACHE_BYTES_A_SECOND : MEMORY_BYTES_A_SECOND);
    double busy = fmin((double)blocks / target->units, 1);
    /* Of a line of the cache, what a block's neighbours take of it: the rest is sent in vain. */
    double row = (double)(is_along(&t) ? t.ways * t.vec : t.lines * t.vec) * (t.half ? 2 : 4);
    memory *= fmax(WHOLE_BYTES / row, 1);
    double vector = loads * (8 + (double)t.vec * (t.kind >= SOFTMAX ? 14 : t.half ? 2 : 1));
    double issue = (double)most * (double)t.threads / 128 * (vector + 60) / HERTZ;
    double ways = ceil(loads / AT_ONCE) - 1, chain = ROUND_CYCLES + ways * LOAD_CYCLES * passes;
    double join = t.ways == 1    ? 0
                  : is_along(&t) ? 30 * log2(fmin((double)t.ways, 32)) + (t.ways > 32 ? 60 + (double)t.ways / 8 : 0)
                  : t.kind >= SOFTMAX ? 80 + 4 * (double)(t.ways * t.vec)
                                      : 80 + 4 * (double)t.ways;
    double rounds = (double)ceil_div(most, room);
    return (t.early ? EARLY_EDGE_S : LATE_EDGE_S) + rounds * (chain + join * softmax) / HERTZ +
           fmax(memory / busy, issue) + (t.constants ? 0 : 0.02e-6);
}

static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    return cuda_best_estimated(estimate, workload, target, space, space->size / 2);
}

/* The loads of the first pass, each into its line's sum. */
static void nest_of_loads(const struct workload *workload, const struct target *target, const struct space *space,
                          int64_t index, struct loop_nest *ret) {
    struct reduce t = reduce_of(workload, target, space, index);
    bool along = is_along(&t);
    int64_t lines = t.lines ? t.lines : 1, next = along ? t.length : t.vec, result = along ? 1 : t.vec;
    loop_nest_sum(ret);
    loop_nest_add(ret, ceil_div(t.all_lines, lines), LOOP_BLOCK_X, lines * next, 0, lines * result);
    loop_nest_add(ret, lines, LOOP_THREAD_Y, next, 0, result);
    loop_nest_add(ret, t.ways, LOOP_THREAD_X, along ? t.vec : t.b, 0, 0);
    loop_nest_add(ret, t.each, LOOP_SERIAL, t.ways * (along ? t.vec : t.b), 0, 0);
    loop_nest_add(ret, t.vec, LOOP_VECTORIZED, 1, 0, along ? 0 : 1);
    ret->multiplications = 0;
}

/* ---- rendering ---- */

static void define(struct buf *source, const char *name, int64_t value) {
    buf_printf(source, "#define %s %lld\n", name, (long long)value);
}

static void put_source(struct buf *source, const struct reduce *t, const struct kernel_shape *shape) {
    static const struct epilogue none = {.act = ACT_NONE};
    kernel_shape_define(shape, t->constants, source);
    define(source, "HALF", t->half);
    define(source, "VEC", t->vec);
    define(source, "ALONG", is_along(t));
    define(source, "WAYS", t->ways);
    define(source, "LINES", t->lines);
    define(source, "HELD", t->held);
    define(source, "KIND", t->kind);
    define(source, "EARLY", t->early);
    define(source, "CONSTANTS", t->constants);
    if (t->kind >= SOFTMAX)
        act_define(source, true, &none, MATH_EXP | MATH_LOG);
    buf_puts(source, reduce_source);
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct reduce t = reduce_of(workload, target, space, index);
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct kernel_shape shape = {.n = 0};
    if (check(&t, target, error) < 0)
        return -1;
    kernel_shape_add(&shape, "lines", t.all_lines);
    kernel_shape_add(&shape, "length", t.length);
    kernel_shape_add_divisor(&shape, "vectors", ceil_div(t.b, t.vec));
    put_source(&source, &t, &shape);
    if (buf_check(&source, "the kernel's source", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    struct launch *run = arena_array(arena, 1, sizeof *run);
    *run = (struct launch){.entry = "reduce",
                           .n_args = 2,
                           .args = {{ARG_IN, 0}, {ARG_OUT, 0}},
                           .grid = {(unsigned)ceil_div(t.all_lines, t.lines), 1, 1},
                           .block = {(unsigned)t.threads, 1, 1},
                           .shared_bytes = (unsigned)t.shared_bytes,
                           .early = t.early};
    kernel_shape_pass(&shape, t.constants, run);
    *program = (struct program){.source = arena_strdup(arena, buf_str(&source)), .run = run, .n_run = 1};
    *ret = program;
    return 0;
}

const struct template reduce_cuda = {
    .name = "reduce.cuda",
    .version = 1,
    .device = "cuda",
    .serves = serves,
    .space = make_space,
    .fallback = fallback,
    .render = render,
    .dtypes = DTYPE_BIT(DTYPE_F32) | DTYPE_BIT(DTYPE_F16),
    .estimate = estimate,
    .nest = nest_of_loads,
    .banked = cuda_banked,
};
