/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h: what the plain templates' parts share: a program under construction, its kernels, and loop nests.
 *
 * An operator writes C that computes one element from its coordinates; a nest runs it for every point of a box: on
 * CUDA one thread a point, on the CPU in loops over runs of some thousand points, an item each. Elements are visited
 * in the output's memory order. In the C text, `in0`, `in1`, … are the inputs, `out` is the output, and `idx` is an
 * integer that holds every index and offset. What computes reads floats with get0(at), get1(at), … and stores one with
 * put(at, value), whether the operand is f32, f16 or bf16; what only moves elements uses in0[at] and out[at]. Private
 * to plain*.c.
 */
#ifndef WARPTUNE_TEMPLATE_PLAIN_H
#define WARPTUNE_TEMPLATE_PLAIN_H

#include "gpu/template/act.h"
#include "gpu/template/template.h"

#define CUDA_THREADS 256

/* A program under construction. */
struct plain {
    const struct workload *workload;
    struct arena *arena;
    bool cuda;
    bool refused; /* cannot be launched: too many blocks */
    struct buf source;
    struct launch *launches; /* of the run, in order */
    int n_launches;
    struct launch prepare; /* at most one */
    size_t prepared_bytes; /* written by it; 0: there is none */
};

/* How one group of operators is computed on one kind of device, a row of a table. */
struct plain_rule {
    bool (*serves)(const struct workload *workload);
    void (*emit)(struct plain *plain);
};

/* Rules for both kinds of device; together they serve all that the CPU's and CUDA's own do not. */
extern const struct plain_rule plain_rules[]; /* ends with NULLs */

/* What both templates share; `rules` are tried before plain_rules. */
bool plain_serves(const struct plain_rule *rules, const struct workload *workload);
struct space *plain_space(const struct workload *workload, const struct target *target, struct arena *arena);
int64_t plain_fallback(const struct workload *workload, const struct target *target, const struct space *space);
int plain_render(const struct plain_rule *rules, bool cuda, const struct workload *workload, struct arena *arena,
                 struct program **ret, struct error *error) MUST_CHECK;

/* A program under construction: opens its source with `idx`, wt_act, get0 and put; ends with what was opened released.
 */
void plain_begin(struct plain *plain, bool cuda, const struct workload *workload, struct arena *arena);
int plain_end(struct plain *plain, struct program **ret, struct error *error) MUST_CHECK;

/* ---- types ---- */

/* Are all operands of this type? */
bool plain_all(const struct workload *workload, enum dtype dtype);
/* Is each of them f32, f16 or bf16? Then it may be computed with, in f32. */
bool plain_floats(const struct workload *workload);
const char *plain_type(enum dtype dtype); /* "float"; f16 and bf16 as they lie: "unsigned short" */
/* Appends get0, … and put for a workload's operands, and the conversions that they need. */
void plain_define_access(struct buf *source, bool cuda, const struct workload *workload);
/* Appends a double constant. */
void plain_double(struct buf *text, double value);

/* ---- kernels ---- */

struct kernel_arg {
    struct arg arg;
    enum dtype dtype;
    const char *name;
    bool written;
};

/*
 * Opens a kernel with the inputs `first` … `last` (those that the workload has) and the output as parameters, or
 * with those listed; the source text that follows is its body.
 */
void kernel_open(struct plain *plain, const char *entry, int first, int last);
void kernel_open_with(struct plain *plain, const char *entry, const struct kernel_arg *args, int n);
/* Closes it: on the CPU it has `items`, on CUDA `blocks` of CUDA_THREADS. */
void kernel_close(struct plain *plain, int64_t items_or_blocks);
/* Makes the kernel just closed the one that prepares `bytes`. */
void kernel_prepares(struct plain *plain, size_t bytes);

/* ---- coordinates ---- */

/* The C text of each logical coordinate of an element: a variable, or "0" along dimensions of 1. */
struct coordinates {
    char text[SHAPE_MAX_RANK][64];
};

/* o0, o1, … */
void coordinates_of(const struct operand *operand, struct coordinates *ret);
/* Appends the offset of the element with these coordinates: "o0 * 64 + o1"; "0" for the first. */
void put_offset(struct buf *text, const struct operand *operand, const struct coordinates *at);

/* ---- nests ---- */

struct nest {
    int rank; /* without dimensions of 1 */
    int64_t dim[SHAPE_MAX_RANK];
    char var[SHAPE_MAX_RANK][16];
    bool simd; /* the body has no loop: worth vectorising */
};

/* The coordinates of an operand in its memory order, as coordinates_of names them. */
void nest_of(const struct operand *operand, struct nest *ret);
void nest_add(struct nest *nest, const char *var, int64_t dim);
/* One kernel that runs `body`, C statements, for every point. */
void nest_emit(struct plain *plain, const char *entry, int first, int last, const struct nest *nest, const char *body);
void nest_emit_with(struct plain *plain, const char *entry, const struct kernel_arg *args, int n,
                    const struct nest *nest, const char *body);
/* Inside an open kernel: gives each variable of the nest its value from a running number. */
void nest_unpack(struct plain *plain, const struct nest *nest, const char *number);
int64_t nest_count(const struct nest *nest);

/* ---- strided maps ---- */

/*
 * A box walked by several operands at once, each with its own stride along each dimension, and its offset at the
 * origin. Dimensions are in the order of the first operand's memory; those that all operands walk alike are merged.
 */
#define MAP_OPERANDS 4
struct map {
    int rank, operands;
    int64_t dim[SHAPE_MAX_RANK];
    int64_t stride[MAP_OPERANDS][SHAPE_MAX_RANK];
    int64_t offset[MAP_OPERANDS];
};

void map_init(struct map *map, const struct shape *box, int operands);
/* Operand `i` walks along the box's dimensions; where it has 1 or no dimension, it stands still. */
void map_operand(struct map *map, int i, const struct operand *operand);
/* Drops dimensions of 1, sorts by operand 0's strides, merges. `classes`: only dimensions of one class merge; or NULL;
 * it moves with them. */
void map_simplify(struct map *map, int *classes);
/* The box as a nest with variables PREFIX0, PREFIX1, … */
void map_nest(const struct map *map, const char *prefix, struct nest *ret);
void map_put_offset(struct buf *text, const struct map *map, int operand, const char *prefix);

/* ---- lines: what a reduction or a softmax goes along ---- */

/* The input's dimensions in memory order, told apart by whether the line runs along them. */
struct lines {
    struct map map; /* operand 0: x, 1: out */
    int reduced[SHAPE_MAX_RANK];
    struct nest kept, along; /* variables m0, m1, … */
    int64_t count;           /* elements of a line */
    bool across;             /* neighbours in memory belong to different lines */
};

/* `axes`: bit i set: along dimension i. */
void lines_of(const struct workload *workload, int64_t axes, struct lines *ret);
bool serves_reduce(const struct workload *workload);
bool serves_softmax(const struct workload *workload);
/* The type of a sum, and what a sum or a maximum starts from. */
const char *reduce_type(const struct workload *workload);
void put_reduce_start(struct plain *plain);

/* ---- epilogues ---- */

/* Appends "put(…, wt_act(VALUE + bias + residual));" for the element at these coordinates; `k`: its channel. */
void put_result(struct buf *text, const struct workload *workload, const struct coordinates *at, const char *value,
                const char *k);

/* ---- operators by coordinates (plain_rules.c lists them) ---- */

bool serves_map(const struct workload *workload); /* UNARY, BINARY, AFFINE, TRANSPOSE, SLICE, CAST, … */
void emit_map(struct plain *plain);
bool serves_concat(const struct workload *workload);
void emit_concat(struct plain *plain);
bool serves_move(const struct workload *workload); /* RESHAPE, PAD, RESIZE, GATHER */
void emit_move(struct plain *plain);
bool serves_window(const struct workload *workload); /* CONV, CONV_TRANSPOSE, POOL, LRN, MATMUL */
void emit_window(struct plain *plain);

/* One dimension of a sliding window. */
struct window {
    int64_t in, taps, stride, pad, dilation;
};

/* NAME0 to NAME1 - 1 become the taps that meet the input at output coordinate `at`, NAME_from the first one's place. */
void put_tap_range(struct buf *text, const struct window *window, const char *at, char name);
struct window pool_window(const struct workload *workload, int i);
/* After both ranges of a pool, r and s: `count` becomes what an average is divided by. */
void put_average(struct buf *text, const struct workload *workload);

/* MATMUL: an operand's coordinates, its batch dimensions broadcast to the output's, which has `rank`. */
struct coordinates batch_coordinates(const struct operand *operand, const struct coordinates *out, int rank);

#endif
