/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/autotvm_direct.h"

#include <string.h>

#include "gpu/template/act.h"
#include "gpu/template/autotvm_tile.h"
#include "gpu/template/embed.h"

EMBED(autotvm_direct_text, "gpu/template/autotvm_direct.cu");

#define MAX_SUMS 256           /* a thread has 255 registers */
#define MAX_UNROLLED_READS 512 /* of shared memory: the compiler's time grows with their square */
#define MAX_SHARED (48LL << 10)
#define MAX_STAGE_UNROLL 32 /* loads that are written out: more are in flight than a thread has registers for */
#define MIN_STAGE_UNROLL 4
#define CUT_OFF (1LL << 31)

static const int64_t max_grid[3] = {(1LL << 31) - 1, 65535, 65535}, max_block[3] = {1024, 1024, 64};

/* ---- Shapes and knobs ---- */

/* Whether the rows (columns) that taps reach, in padding too, fit an int. */
static bool window_fits(int64_t out, int64_t stride, int64_t taps, int64_t dilation, int64_t pad) {
    return fits_int(out) && fits_int(stride) && fits_int(taps) && fits_int(dilation) && fits_int(pad) &&
           fits_int((out - 1) * stride) && fits_int((taps - 1) * dilation) &&
           fits_int((out - 1) * stride + (taps - 1) * dilation + pad);
}

bool autotvm_direct_shape(const struct workload *workload, struct conv2d_shape *ret) {
    struct conv2d_shape s;
    if (workload->op != OP_CONV || !conv2d_shape_of(workload, &s) || s.nhwc)
        return false;
    *ret = s;
    return fits_int(s.n * s.c * s.h * s.w) && fits_int(s.n * s.k * s.oh * s.ow) && fits_int(s.k * s.cg * s.kh * s.kw) &&
           window_fits(s.oh, s.sh, s.kh, s.dh, s.pad_h) && window_fits(s.ow, s.sw, s.kw, s.dw, s.pad_w);
}

int64_t autotvm_direct_channels(const struct conv2d_shape *shape) {
    int64_t channels = max_block[2];
    while (shape->kg % channels)
        channels--;
    return channels;
}

static void extents_of(const struct conv2d_shape *s, int64_t ret[AXIS_COUNT]) {
    ret[AXIS_N] = s->n;
    ret[AXIS_G] = s->groups;
    ret[AXIS_F] = s->kg;
    ret[AXIS_Y] = s->oh;
    ret[AXIS_X] = s->ow;
}

void autotvm_direct_add_knobs(const struct direct_kind *kind, const struct conv2d_shape *shape, struct space *space) {
    static const char *const names[AXIS_COUNT] = {"tile_n", "tile_g", "tile_f", "tile_y", "tile_x"};
    static const int64_t steps[] = {0, 512, 1500}, flag[] = {0, 1};
    int64_t extent[AXIS_COUNT];
    extents_of(shape, extent);
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (kind->levels[a] > 1)
            space_split(space, names[a], extent[a], kind->levels[a]);
    }
    space_split(space, "tile_rc", shape->cg, 2);
    space_split(space, "tile_ry", shape->kh, 2);
    space_former_name(space, "tile_rx");
    space_split(space, "tile_rx", shape->kw, 2);
    space_former_name(space, "tile_ry");
    space_choice(space, "auto_unroll_max_step", steps, ARRAY_COUNT(steps));
    space_choice(space, "unroll_explicit", flag, ARRAY_COUNT(flag));
}

/* ---- A configuration ---- */

/* Two numbers below 2^31, their product cut off there. */
static int64_t times(int64_t a, int64_t b) {
    return a * b < CUT_OFF ? a * b : CUT_OFF - 1;
}

/* The factors that a configuration has for the space's knobs, one knob after another. */
struct reader {
    const struct space *space;
    int64_t digit[SPACE_MAX_KNOBS];
    int knob;
};

static const int64_t *next_values(struct reader *reader) {
    const struct knob *knob = &reader->space->knobs[reader->knob];
    return knob->values + reader->digit[reader->knob++] * knob->parts;
}

static void take_tiles(struct autotvm_direct *d, struct reader *reader) {
    int64_t extent[AXIS_COUNT];
    extents_of(&d->shape, extent);
    for (int a = 0; a < AXIS_COUNT; a++) {
        int64_t factor[LEVEL_COUNT] = {extent[a], 1, 1, 1};
        if (d->kind.levels[a] > 1)
            memcpy(factor, next_values(reader), (size_t)d->kind.levels[a] * sizeof *factor);
        d->tile[a] =
            (struct direct_tile){factor[LEVEL_BLOCK], factor[LEVEL_VTHREAD], factor[LEVEL_THREAD], factor[LEVEL_INNER]};
    }
}

/* Values that a thread reads from the staged tiles for one tap of one channel. */
static int64_t reads_of(const struct autotvm_direct *d) {
    int64_t weights = 1, inputs = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        int64_t sums = d->tile[a].vthreads * d->tile[a].inner;
        weights *= a == AXIS_G || a == AXIS_F ? sums : 1;
        inputs *= a == AXIS_F ? 1 : sums;
    }
    return weights + inputs;
}

/* Which of a step's loops are written out: the innermost, then those around it, while the body stays small enough. */
static void choose_unrolling(struct autotvm_direct *d) {
    int64_t steps = d->sums, reads = reads_of(d);
    for (int r = REDUCE_COUNT - 1; r >= 0; r--) {
        steps = times(steps, d->inner[r]);
        int64_t most = MAX_UNROLLED_READS / reads;
        if (steps > d->unroll_steps || most == 0)
            return;
        d->unroll[r] = d->inner[r] < most ? d->inner[r] : most;
        reads *= d->inner[r];
    }
}

static int64_t tile_size(const struct direct_tile *tile) {
    return tile->vthreads * tile->threads * tile->inner;
}

static void derive(struct autotvm_direct *d) {
    const struct conv2d_shape *s = &d->shape;
    d->threads = d->sums = 1;
    for (int i = 0; i < 3; i++)
        d->grid[i] = d->block[i] = 1;
    for (int a = 0; a < AXIS_COUNT; a++) {
        d->grid[d->kind.grid_dim[a]] *= d->tile[a].blocks;
        d->block[d->kind.block_dim[a]] *= d->tile[a].threads;
        d->threads *= d->tile[a].threads;
        d->sums *= d->tile[a].vthreads * d->tile[a].inner;
    }
    d->patch_h = (tile_size(&d->tile[AXIS_Y]) - 1) * s->sh + (d->inner[REDUCE_Y] - 1) * s->dh + 1;
    d->patch_w = (tile_size(&d->tile[AXIS_X]) - 1) * s->sw + (d->inner[REDUCE_X] - 1) * s->dw + 1;
    int64_t channels = times(tile_size(&d->tile[AXIS_G]), d->inner[REDUCE_C]);
    d->patch = times(times(tile_size(&d->tile[AXIS_N]), channels), times(d->patch_h, d->patch_w));
    d->weights = times(times(channels, tile_size(&d->tile[AXIS_F])), times(d->inner[REDUCE_Y], d->inner[REDUCE_X]));
}

struct autotvm_direct autotvm_direct_of(const struct direct_kind *kind, const struct conv2d_shape *shape,
                                        const struct space *space, int64_t index) {
    struct autotvm_direct d = {.shape = *shape, .kind = *kind};
    struct reader reader = {.space = space};
    space_digits(space, index, reader.digit);
    take_tiles(&d, &reader);
    for (int r = 0; r < REDUCE_COUNT; r++) {
        const int64_t *value = next_values(&reader);
        d.outer[r] = value[0];
        d.inner[r] = value[1];
    }
    d.unroll_steps = *next_values(&reader);
    d.unroll_explicit = *next_values(&reader) != 0;
    derive(&d);
    choose_unrolling(&d);
    return d;
}

int autotvm_direct_check(const struct autotvm_direct *d, const struct target *target, struct error *error) {
    if (d->threads > target->max_threads)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld threads in a block: at most %lld can be.",
                         (long long)d->threads, (long long)target->max_threads);
    for (int i = 0; i < 3; i++) {
        if (d->block[i] > max_block[i])
            return error_set(error, ERROR_INVALID, "instantiation", NULL,
                             "%lld threads along %c of a block: at most %lld can be.", (long long)d->block[i], "xyz"[i],
                             (long long)max_block[i]);
        if (d->grid[i] > max_grid[i])
            return error_set(error, ERROR_INVALID, "instantiation", NULL,
                             "%lld blocks along %c of the grid: at most %lld can be.", (long long)d->grid[i], "xyz"[i],
                             (long long)max_grid[i]);
    }
    int64_t shared = (d->patch + d->weights) * (int64_t)sizeof(float);
    if (shared > MAX_SHARED)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "A block takes %lld KB of shared memory or more: at most %lld can be.",
                         (long long)(shared >> 10), MAX_SHARED >> 10);
    if (d->sums > MAX_SUMS)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "A thread has %lld sums, and 255 registers: at most %d can be.", (long long)d->sums, MAX_SUMS);
    return 0;
}

/* ---- Its program ---- */

static void define_shape(struct buf *source, const struct conv2d_shape *s) {
    const struct {
        const char *name;
        int64_t value;
    } macros[] = {
        {"H_", s->h},
        {"W_", s->w},
        {"C_", s->c},
        {"OH_", s->oh},
        {"OW_", s->ow},
        {"K_", s->k},
        {"KH_", s->kh},
        {"KW_", s->kw},
        {"SH_", s->sh},
        {"SW_", s->sw},
        {"DH_", s->dh},
        {"DW_", s->dw},
        {"PAD_H", s->pad_h},
        {"PAD_W", s->pad_w},
        {"CG", s->cg},
        {"KG", s->kg},
        {"CHECK_ROWS", s->pad_h != 0 || (s->oh - 1) * s->sh + (s->kh - 1) * s->dh >= s->h},
        {"CHECK_COLUMNS", s->pad_w != 0 || (s->ow - 1) * s->sw + (s->kw - 1) * s->dw >= s->w},
        {"HAS_BIAS", s->bias_in >= 0},
        {"HAS_RESIDUAL", s->residual_in >= 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(macros); i++)
        define_int(source, macros[i].name, macros[i].value);
    buf_printf(source, "#define EPILOGUE_PARAMS%s%s\n", s->bias_in >= 0 ? " , const float *__restrict__ bias" : "",
               s->residual_in >= 0 ? " , const float *__restrict__ residual" : "");
    buf_printf(source, "#define EPILOGUE_ARGS%s%s\n", s->bias_in >= 0 ? " , bias" : "",
               s->residual_in >= 0 ? " , residual" : "");
}

/* An axis's place on a dimension that it shares with those after it: BLOCK_F as (int)(blockIdx.z / 1 % 8). */
static void define_place(struct buf *source, const char *macro, const char *index, int dim, int64_t faster,
                         int64_t extent) {
    buf_printf(source, "#define %s (int)(%s.%c / %lldu %% %lldu)\n", macro, index, "xyz"[dim], (long long)faster,
               (long long)extent);
}

static void define_axes(struct buf *source, const struct autotvm_direct *d) {
    static const char letters[] = "NGFYX";
    int64_t blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1};
    for (int a = AXIS_COUNT - 1; a >= 0; a--) {
        const struct direct_tile *tile = &d->tile[a];
        char block[] = "BLOCK_?", thread[] = "THREAD_?";
        block[6] = thread[7] = letters[a];
        buf_printf(source, "#define %c_V %lld\n#define %c_T %lld\n#define %c_I %lld\n", letters[a],
                   (long long)tile->vthreads, letters[a], (long long)tile->threads, letters[a], (long long)tile->inner);
        define_place(source, block, "blockIdx", d->kind.grid_dim[a], blocks[d->kind.grid_dim[a]], tile->blocks);
        define_place(source, thread, "threadIdx", d->kind.block_dim[a], threads[d->kind.block_dim[a]], tile->threads);
        blocks[d->kind.grid_dim[a]] *= tile->blocks;
        threads[d->kind.block_dim[a]] *= tile->threads;
    }
    define_int(source, "BLOCK_DIM_X", d->block[0]);
    define_int(source, "BLOCK_DIM_Y", d->block[1]);
    define_int(source, "THREADS", d->threads);
}

/* A loop's pragma: turns to write out, 0 for the compiler's choice. */
static void define_turns(struct buf *source, const char *name, int64_t turns) {
    buf_printf(source, "#define %s", name);
    if (turns > 0)
        buf_printf(source, " _Pragma(\"unroll %lld\")", (long long)turns);
    buf_putc(source, '\n');
}

/*
 * How many of a thread's loads in one step are written out: all when the knobs say so and they are few, else some,
 * since the compiler's own choice has taken it 12 s.
 */
static int64_t unrolled_loads(const struct autotvm_direct *d, int64_t elements) {
    int64_t loads = (elements + d->threads - 1) / d->threads;
    bool all = d->unroll_explicit && loads <= d->unroll_steps && loads <= MAX_STAGE_UNROLL;
    return all || loads < MIN_STAGE_UNROLL ? loads : MIN_STAGE_UNROLL;
}

static void define_sum(struct buf *source, const struct autotvm_direct *d) {
    define_int(source, "RC_I", d->inner[REDUCE_C]);
    define_int(source, "RY_I", d->inner[REDUCE_Y]);
    define_int(source, "RX_I", d->inner[REDUCE_X]);
    define_turns(source, "UNROLL_RC", d->unroll[REDUCE_C]);
    define_turns(source, "UNROLL_RY", d->unroll[REDUCE_Y]);
    define_turns(source, "UNROLL_RX", d->unroll[REDUCE_X]);
    define_turns(source, "UNROLL_STAGE_PATCH", unrolled_loads(d, d->patch));
    define_turns(source, "UNROLL_STAGE_WEIGHTS", unrolled_loads(d, d->weights));
}

int autotvm_direct_render(const struct autotvm_direct *d, const struct target *target, struct arena *arena,
                          struct program **ret, struct error *error) {
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    if (autotvm_direct_check(d, target, error) < 0)
        return -1;
    define_shape(&source, &d->shape);
    define_axes(&source, d);
    define_sum(&source, d);
    act_define(&source, true, &d->shape.epilogue, 0);
    buf_puts(&source, autotvm_direct_text);
    struct launch launch = {.entry = "autotvm_direct"};
    for (int i = 0; i < 3; i++) {
        launch.grid[i] = (unsigned)d->grid[i];
        launch.block[i] = (unsigned)d->block[i];
    }
    conv2d_add_args(&d->shape, &launch);
    launch_add_arg(&launch, ARG_IN, 1);
    return program_of_launch(&source, &launch, arena, ret, error);
}
