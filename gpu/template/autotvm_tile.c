/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/autotvm_tile.h"

#include <string.h>

#include "gpu/template/act.h"

enum { BLOCK_OF_MAPS = 128, MOST_STATIC_SHARED = 48 << 10 };

/* ---- knobs ---- */

struct tile tile_of(const struct space *space, int64_t index, const char *knob) {
    struct tile tile = {.blocks = space_value(space, index, knob, 0),
                        .vthreads = space_value(space, index, knob, 1),
                        .threads = space_value(space, index, knob, 2),
                        .inner = space_value(space, index, knob, 3)};
    tile.sums = tile.vthreads * tile.inner;
    tile.size = tile.sums * tile.threads;
    return tile;
}

int64_t tile_pick(const struct space *space, int knob, int64_t threads, int64_t sums) {
    const struct knob *k = &space->knobs[knob];
    int64_t best = 0, most = 0;
    for (int64_t i = 0; i < k->n_candidates; i++) {
        const int64_t *factors = k->values + i * k->parts;
        int64_t own_sums = factors[1] * factors[3], merit = factors[2] * factors[2] * own_sums;
        if (factors[2] <= threads && own_sums <= sums && merit > most) {
            best = i;
            most = merit;
        }
    }
    return best;
}

int64_t tile_pick_factor(const struct space *space, int knob, int part, int64_t most) {
    const struct knob *k = &space->knobs[knob];
    int64_t best = 0, largest = 0;
    for (int64_t i = 0; i < k->n_candidates; i++) {
        int64_t factor = k->values[i * k->parts + part];
        if (factor <= most && factor > largest) {
            best = i;
            largest = factor;
        }
    }
    return best;
}

void tile_unroll_knobs(struct space *space, const int64_t *most_steps) {
    space_choice(space, "auto_unroll_max_step", most_steps, 3);
    space_choice(space, "unroll_explicit", (const int64_t[]){0, 1}, 2);
}

bool tile_unrolls(const struct space *space, int64_t index, int64_t steps, int64_t reads) {
    return steps <= space_value(space, index, "auto_unroll_max_step", 0) && reads <= TILE_MOST_UNROLLED_READS;
}

/* ---- source ---- */

void define_int(struct buf *source, const char *name, int64_t value) {
    buf_printf(source, "#define %s %lld\n", name, (long long)value);
}

void tile_define(struct buf *source, const char *name, const struct tile *tile) {
    buf_printf(source,
               "#define %s_SIZE %lld\n#define %s_THREADS %lld\n#define %s_SUMS %lld\n"
               "#define %s_AT(thread, j) ((j) / %lld * %lld + (thread) * %lld + (j) %% %lld)\n",
               name, (long long)tile->size, name, (long long)tile->threads, name, (long long)tile->sums, name,
               (long long)tile->inner, (long long)tile->threads * tile->inner, (long long)tile->inner,
               (long long)tile->inner);
}

void define_unroll(struct buf *source, const char *name, bool unrolled) {
    buf_printf(source, "#define %s %s\n", name, unrolled ? "_Pragma(\"unroll\")" : "");
}

void define_unroll_sums(struct buf *source, int64_t sums) {
    buf_printf(source, "#define UNROLL_SUMS _Pragma(\"unroll%s\")\n", sums <= TILE_MOST_UNROLLED_SUMS ? "" : " 1");
}

void define_epilogue(struct buf *source, const struct conv2d_shape *shape) {
    bool bias = shape->bias_in >= 0, residual = shape->residual_in >= 0;
    act_define(source, true, &shape->epilogue, 0);
    buf_printf(source, "#define EPILOGUE_PARAMS%s%s\n", bias ? " , const float *__restrict__ bias" : "",
               residual ? " , const float *__restrict__ residual" : "");
    buf_printf(source, "#define EPILOGUE_ARGS%s%s\n", bias ? " , bias" : "", residual ? " , residual" : "");
    buf_printf(source,
               "static __device__ __forceinline__ float finish(float sum, int i, int channel EPILOGUE_PARAMS) {\n"
               "    return wt_act(sum%s%s);\n"
               "}\n",
               bias ? " + bias[channel]" : "", residual ? " + residual[i]" : "");
}

/* ---- program ---- */

int program_of(const struct buf *source, struct arena *arena, struct program **ret, struct error *error) {
    if (buf_check(source, "the kernel's source", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    program->source = arena_strdup(arena, buf_str(source));
    *ret = program;
    return 0;
}

int program_of_launch(const struct buf *source, const struct launch *launch, struct arena *arena, struct program **ret,
                      struct error *error) {
    if (program_of(source, arena, ret, error) < 0)
        return -1;
    (*ret)->n_run = 1;
    (*ret)->run = arena_array(arena, 1, sizeof *launch);
    (*ret)->run[0] = *launch;
    return 0;
}

struct launch launch_over(const char *entry, int64_t elements) {
    return (struct launch){.entry = entry,
                           .grid = {(unsigned)((elements + BLOCK_OF_MAPS - 1) / BLOCK_OF_MAPS), 1, 1},
                           .block = {BLOCK_OF_MAPS, 1, 1}};
}

void launch_add_arg(struct launch *launch, enum arg_kind kind, int index) {
    launch->args[launch->n_args++] = (struct arg){kind, index};
}

void launch_add_epilogue(struct launch *launch, const struct conv2d_shape *shape) {
    if (shape->bias_in >= 0)
        launch_add_arg(launch, ARG_IN, shape->bias_in);
    if (shape->residual_in >= 0)
        launch_add_arg(launch, ARG_IN, shape->residual_in);
}

int launch_check(const struct launch *launch, int64_t shared_bytes, const struct target *target, struct error *error) {
    static const unsigned most_block[] = {1024, 1024, 64}, most_grid[] = {0x7fffffff, 65535, 65535};
    int64_t threads = (int64_t)launch->block[0] * launch->block[1] * launch->block[2];
    for (int i = 0; i < 3; i++) {
        if (launch->block[i] > most_block[i] || launch->grid[i] > most_grid[i])
            return error_set(error, ERROR_INVALID, "instantiation", NULL,
                             "%u threads a block and %u blocks along %c: %u and %u can be.", launch->block[i],
                             launch->grid[i], "xyz"[i], most_block[i], most_grid[i]);
    }
    if (threads > target->max_threads)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld threads in a block: %lld can be.",
                         (long long)threads, (long long)target->max_threads);
    if (shared_bytes > MOST_STATIC_SHARED)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "A block keeps %lld bytes in shared memory: %d can be.", (long long)shared_bytes,
                         MOST_STATIC_SHARED);
    return 0;
}

bool fits_int(int64_t n) {
    return n < (1LL << 31) - (1 << 20);
}

/* ---- loops ---- */

void nest_begin_staged(struct loop_nest *ret) {
    *ret = (struct loop_nest){.n_accesses = 5,
                              .accesses = {{.name = "data"},
                                           {.name = "kernel"},
                                           {.name = "data.shared"},
                                           {.name = "kernel.shared"},
                                           {.name = "output", .writes = true}},
                              .additions = 1,
                              .multiplications = 1};
}

void nest_loop(struct loop_nest *nest, enum loop_kind kind, int64_t extent, int64_t step, const int64_t *unit) {
    bool blocks = kind == LOOP_BLOCK_X || kind == LOOP_BLOCK_Y || kind == LOOP_BLOCK_Z;
    nest->loops[nest->n_loops] = (struct nest_loop){extent, kind};
    for (int i = 0; i < nest->n_accesses; i++) {
        struct access *access = &nest->accesses[i];
        access->stride[nest->n_loops] = blocks && strstr(access->name, ".shared") ? 0 : unit[i] * step;
    }
    nest->n_loops++;
}
