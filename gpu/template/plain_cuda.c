/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.cuda: every operator on CUDA, and the reference for its tuned templates. Mostly one thread for an element of
 * the output; dense layers take a warp for an output, long reductions and softmax as many threads as a line deserves.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "gpu/template/builtin.h"
#include "gpu/template/plain.h"

/* ---- DENSE: a warp an output ---- */

static bool serves_dense(const struct workload *workload) {
    return workload->op == OP_DENSE && plain_floats(workload);
}

static void emit_dense(struct plain *plain) {
    const struct workload *workload = plain->workload;
    int64_t rows = workload->in[0].shape.dim[0], depth = workload->in[0].shape.dim[1];
    int64_t columns = workload->in[1].shape.dim[0], warps = CUDA_THREADS / 32;
    const struct coordinates at = {{"m", "n"}};
    kernel_open(plain, "plain_dense", 0, 3);
    buf_printf(&plain->source,
               "    const idx warp = (idx)blockIdx.x * %" PRId64 " + (idx)(threadIdx.x / 32);\n"
               "    if (warp >= %" PRId64 ") return;\n"
               "    const idx m = warp / %" PRId64 ", n = warp %% %" PRId64 ", lane = threadIdx.x %% 32;\n"
               "    float v = 0.0f;\n#pragma unroll 4\n"
               "    for (idx k = lane; k < %" PRId64 "; k += 32) v += get0(m * %" PRId64 " + k) * get1(n * %" PRId64
               " + k);\n"
               "    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);\n"
               "    if (lane == 0)\n",
               warps, rows * columns, columns, columns, depth, depth, depth);
    put_result(&plain->source, workload, &at, "v", "n");
    kernel_close(plain, (rows * columns + warps - 1) / warps);
}

/* ---- Lines: reductions and softmax ---- */

/*
 * A block does some lines, each with as many threads. Neighbouring threads have neighbouring elements of a line or
 * neighbouring lines, whichever are neighbours in memory.
 */
struct team {
    struct lines lines;
    int n, threads; /* lines of a block; threads of a line: both together CUDA_THREADS */
};

static void team_of(const struct workload *workload, int64_t axes, struct team *ret) {
    lines_of(workload, axes, &ret->lines);
    if (ret->lines.count <= 32)
        ret->n = CUDA_THREADS;
    else if (ret->lines.across)
        ret->n = 32;
    else
        ret->n = ret->lines.count <= 1024 ? CUDA_THREADS / 32 : 1;
    ret->threads = CUDA_THREADS / ret->n;
}

static int64_t blocks_of(const struct team *team) {
    return (nest_count(&team->lines.kept) + team->n - 1) / team->n;
}

/* `line`, `lane`: this thread's in the block; the kept variables, clamped to the last line, of which `stores` is 0. */
static void put_place(struct plain *plain, const struct team *team) {
    int64_t n = nest_count(&team->lines.kept);
    buf_printf(&plain->source,
               team->lines.across ? "    const int line = threadIdx.x %% %d, lane = threadIdx.x / %d;\n"
                                  : "    const int lane = threadIdx.x %% %d, line = threadIdx.x / %d;\n",
               team->lines.across ? team->n : team->threads, team->lines.across ? team->n : team->threads);
    buf_printf(&plain->source,
               "    const idx given = (idx)blockIdx.x * %d + line;\n"
               "    const int stores = given < %" PRId64 ";\n"
               "    const idx number = stores ? given : %" PRId64 ";\n",
               team->n, n, n - 1);
    nest_unpack(plain, &team->lines.kept, "number");
}

/* A loop of this thread over its elements of the line: `at` is the element's offset in x, with `to` that in out. */
static void put_elements(struct plain *plain, const struct team *team, const char *statement) {
    struct buf *source = &plain->source;
    buf_printf(source, "    for (idx a = lane; a < %" PRId64 "; a += %d) {\n", team->lines.count, team->threads);
    nest_unpack(plain, &team->lines.along, "a");
    buf_puts(source, "    const idx at = ");
    map_put_offset(source, &team->lines.map, 0, "m");
    buf_puts(source, ", to = ");
    map_put_offset(source, &team->lines.map, 1, "m");
    buf_printf(source, ";\n    %s\n    }\n", statement);
}

/* Joins `acc` of a line's threads, through shared memory. Each call needs the same `share` free: it ends in step. */
static void put_join(struct plain *plain, const struct team *team, bool max) {
    if (team->threads == 1)
        return;
    buf_printf(&plain->source,
               "    share[lane][line] = acc;\n    __syncthreads();\n"
               "    for (int step = %d; step > 0; step /= 2) {\n"
               "    if (lane < step) { const auto v = share[lane + step][line], u = share[lane][line]; "
               "share[lane][line] = %s; }\n"
               "    __syncthreads();\n    }\n"
               "    acc = share[0][line];\n    __syncthreads();\n",
               team->threads / 2, max ? "v > u ? v : u" : "u + v");
}

static void put_share(struct plain *plain, const struct team *team, const char *type) {
    if (team->threads > 1)
        buf_printf(&plain->source, "    __shared__ %s share[%d][%d];\n", type, team->threads, team->n);
}

static void emit_reduce(struct plain *plain) {
    struct buf *source = &plain->source;
    bool max = plain->workload->attr.reduce.kind == REDUCE_MAX;
    const char *type = reduce_type(plain->workload);
    struct team team;
    team_of(plain->workload, plain->workload->attr.reduce.axes, &team);
    kernel_open(plain, "plain_reduce", 0, 0);
    put_share(plain, &team, type);
    put_place(plain, &team);
    buf_printf(source, "    %s acc = ", type);
    put_reduce_start(plain);
    buf_puts(source, ";\n");
    put_elements(plain, &team, max ? "if (get0(at) > acc) acc = get0(at); (void)to;" : "acc += get0(at); (void)to;");
    put_join(plain, &team, max);
    buf_puts(source, "    if (stores && lane == 0) put(");
    map_put_offset(source, &team.lines.map, 1, "m");
    buf_puts(source, ", acc");
    if (plain->workload->attr.reduce.kind == REDUCE_MEAN) {
        buf_puts(source, " / ");
        act_float(source, true, (double)team.lines.count);
    }
    buf_puts(source, ");\n");
    kernel_close(plain, blocks_of(&team));
}

static void emit_softmax(struct plain *plain) {
    struct buf *source = &plain->source;
    bool log = plain->workload->attr.softmax.log;
    struct team team;
    team_of(plain->workload, (int64_t)1 << plain->workload->attr.softmax.axis, &team);
    kernel_open(plain, "plain_softmax", 0, 0);
    put_share(plain, &team, "float");
    put_place(plain, &team);
    buf_puts(source, "    float acc = ");
    act_float(source, true, -INFINITY);
    buf_puts(source, ";\n");
    put_elements(plain, &team, "if (get0(at) > acc) acc = get0(at); (void)to;");
    put_join(plain, &team, true);
    buf_puts(source, "    const float top = acc;\n    acc = 0.0f;\n");
    put_elements(plain, &team, "acc += wt_exp(get0(at) - top); (void)to;");
    put_join(plain, &team, false);
    buf_puts(source, log ? "    const float shift = top + wt_log(acc);\n" : "    const float scale = 1.0f / acc;\n");
    put_elements(plain, &team,
                 log ? "if (stores) put(to, get0(at) - shift);"
                     : "if (stores) put(to, wt_exp(get0(at) - top) * scale);");
    kernel_close(plain, blocks_of(&team));
}

/* ---- The template ---- */

static const struct plain_rule rules[] = {
    {serves_dense, emit_dense}, {serves_reduce, emit_reduce}, {serves_softmax, emit_softmax}, {NULL, NULL}};

static bool serves(const struct workload *workload, const struct target *target) {
    (void)target;
    return plain_serves(rules, workload);
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    (void)target, (void)space, (void)index;
    return plain_render(rules, true, workload, arena, ret, error);
}

const struct template plain_cuda = {
    .name = "plain.cuda",
    .version = 1,
    .device = "cuda",
    .serves = serves,
    .space = plain_space,
    .fallback = plain_fallback,
    .render = render,
    .dtypes = ~0U,
};
