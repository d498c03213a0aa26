/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "service/model/narrow.h"

enum { MOST_SOURCE = 64 << 20, ITEM_POINTS = 4096, MOST_BLOCKS = 0x7fffffff };

/* Sums and products of indices below this stay within an int. */
#define NARROW ((int64_t)1 << 29)

/* ---- Types ---- */

static const char *const types[] = {
    [DTYPE_F32] = "float",  [DTYPE_F16] = "unsigned short", [DTYPE_BF16] = "unsigned short",
    [DTYPE_F64] = "double", [DTYPE_I8] = "signed char",     [DTYPE_U8] = "unsigned char",
    [DTYPE_I32] = "int",    [DTYPE_I64] = "long long",      [DTYPE_BOOL] = "unsigned char",
};
_Static_assert(ARRAY_COUNT(types) == DTYPE_COUNT, "each dtype has a C type");

const char *plain_type(enum dtype dtype) {
    return types[dtype];
}

bool plain_all(const struct workload *workload, enum dtype dtype) {
    bool all = workload->out[0].dtype == dtype;
    for (int i = 0; i < workload->n_in; i++)
        all = all && workload->in[i].dtype == dtype;
    return all;
}

static bool is_float(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype_is_narrow(dtype);
}

bool plain_floats(const struct workload *workload) {
    bool floats = is_float(workload->out[0].dtype);
    for (int i = 0; i < workload->n_in; i++)
        floats = floats && is_float(workload->in[i].dtype);
    return floats;
}

void plain_double(struct buf *text, double value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.17g", value);
    buf_printf(text, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

/* ---- Kernels ---- */

static void put_parameters(struct plain *plain, const char *entry, const struct kernel_arg *args, int n) {
    struct buf *source = &plain->source;
    const char *restrict_word = plain->cuda ? "__restrict__" : "restrict";
    if (plain->cuda)
        buf_printf(source, "extern \"C\" __global__ void __launch_bounds__(%d) %s(", CUDA_THREADS, entry);
    else
        buf_printf(source, "void %s(void *const *args, int64_t begin, int64_t end) {\n", entry);
    for (int i = 0; i < n; i++) {
        const char *constant = args[i].written ? "" : "const ";
        const char *type = plain_type(args[i].dtype);
        if (plain->cuda)
            buf_printf(source, "%s%s%s *%s %s", i ? ", " : "", constant, type, restrict_word, args[i].name);
        else
            buf_printf(source, "    %s%s *%s %s = args[%d];\n", constant, type, restrict_word, args[i].name, i);
    }
    if (plain->cuda)
        buf_puts(source, ") {\n");
}

void kernel_open_with(struct plain *plain, const char *entry, const struct kernel_arg *args, int n) {
    struct launch *launch = &plain->launches[plain->n_launches];
    *launch = (struct launch){.entry = arena_strdup(plain->arena, entry), .n_args = n};
    for (int i = 0; i < n; i++)
        launch->args[i] = args[i].arg;
    put_parameters(plain, entry, args, n);
}

void kernel_open(struct plain *plain, const char *entry, int first, int last) {
    static const char *const names[] = {"in0", "in1", "in2", "in3"};
    struct kernel_arg args[ARRAY_COUNT(names) + 1];
    int n = 0;
    for (int i = first; i <= last && i < plain->workload->n_in; i++, n++)
        args[n] = (struct kernel_arg){{ARG_IN, i}, plain->workload->in[i].dtype, names[i]};
    args[n++] = (struct kernel_arg){{ARG_OUT, 0}, plain->workload->out[0].dtype, "out", true};
    kernel_open_with(plain, entry, args, n);
}

void kernel_close(struct plain *plain, int64_t items_or_blocks) {
    struct launch *launch = &plain->launches[plain->n_launches++];
    buf_puts(&plain->source, "}\n");
    if (!plain->cuda) {
        launch->items = items_or_blocks;
        return;
    }
    plain->refused |= items_or_blocks > MOST_BLOCKS;
    launch->grid[0] = (unsigned)items_or_blocks;
    launch->grid[1] = launch->grid[2] = 1;
    launch->block[0] = CUDA_THREADS;
    launch->block[1] = launch->block[2] = 1;
}

void kernel_prepares(struct plain *plain, size_t bytes) {
    plain->prepare = plain->launches[--plain->n_launches];
    plain->prepared_bytes = bytes;
}

/* ---- Coordinates ---- */

void coordinates_of(const struct operand *operand, struct coordinates *ret) {
    for (int i = 0; i < operand->shape.rank; i++)
        snprintf(ret->text[i], sizeof ret->text[i], operand->shape.dim[i] == 1 ? "0" : "o%d", i);
}

static void put_term(struct buf *text, const char *factor, int64_t stride, bool *first) {
    buf_printf(text, stride == 1 ? "%s%s" : "%s%s * %" PRId64, *first ? "" : " + ", factor, stride);
    *first = false;
}

void put_offset(struct buf *text, const struct operand *operand, const struct coordinates *at) {
    int64_t stride[SHAPE_MAX_RANK];
    bool first = true;
    operand_strides(operand, stride);
    for (int i = 0; i < operand->shape.rank; i++) {
        if (operand->shape.dim[i] != 1 && strcmp(at->text[i], "0") != 0)
            put_term(text, at->text[i], stride[i], &first);
    }
    buf_puts(text, first ? "0" : "");
}

/* ---- Nests ---- */

void nest_add(struct nest *nest, const char *var, int64_t dim) {
    nest->dim[nest->rank] = dim;
    snprintf(nest->var[nest->rank], sizeof nest->var[0], "%s", var);
    nest->rank++;
}

void nest_of(const struct operand *operand, struct nest *ret) {
    static const int orders[][4] = {[LAYOUT_ROW] = {0, 1, 2, 3}, [LAYOUT_NHWC] = {0, 2, 3, 1}};
    *ret = (struct nest){0};
    for (int i = 0; i < operand->shape.rank; i++) {
        int d = i < 4 ? orders[operand->layout][i] : i;
        char var[16];
        snprintf(var, sizeof var, "o%d", d);
        if (operand->shape.dim[d] != 1)
            nest_add(ret, var, operand->shape.dim[d]);
    }
}

int64_t nest_count(const struct nest *nest) {
    int64_t count = 1;
    for (int i = 0; i < nest->rank; i++)
        count *= nest->dim[i];
    return count;
}

void nest_unpack(struct plain *plain, const struct nest *nest, const char *number) {
    struct buf *source = &plain->source;
    if (nest->rank == 0)
        return;
    buf_printf(source, "    idx rest_%s = %s;\n", nest->var[0], number);
    for (int i = nest->rank - 1; i > 0; i--)
        buf_printf(source, "    const idx %s = rest_%s %% %" PRId64 "; rest_%s /= %" PRId64 ";\n", nest->var[i],
                   nest->var[0], nest->dim[i], nest->var[0], nest->dim[i]);
    buf_printf(source, "    const idx %s = rest_%s;\n", nest->var[0], nest->var[0]);
}

static void nest_cuda(struct plain *plain, const struct nest *nest, const char *body) {
    int64_t count = nest_count(nest);
    buf_printf(&plain->source,
               "    const idx point = (idx)blockIdx.x * %d + (idx)threadIdx.x;\n"
               "    if (point >= %" PRId64 ") return;\n",
               CUDA_THREADS, count);
    nest_unpack(plain, nest, "point");
    buf_puts(&plain->source, body);
    kernel_close(plain, (count + CUDA_THREADS - 1) / CUDA_THREADS);
}

/* Loops `from`, `from` + 1, … in full. A short innermost loop is unrolled, so the one around it is vectorised. */
static void put_loops(struct plain *plain, const struct nest *nest, int from, int64_t chunk) {
    int last = nest->rank - 1;
    int simd = last > from && nest->dim[last] < 8 ? last - 1 : last;
    for (int i = from; i < nest->rank; i++) {
        const char *var = nest->var[i];
        bool part = i == from && chunk < nest->dim[i];
        buf_puts(&plain->source, nest->simd && i == simd ? "#pragma omp simd\n" : "");
        if (part)
            buf_printf(&plain->source, "    for (idx %s = low; %s < high; %s++)\n", var, var, var);
        else
            buf_printf(&plain->source, "    for (idx %s = 0; %s < %" PRId64 "; %s++)\n", var, var, nest->dim[i], var);
    }
}

/* Inner dimensions are loops of an item, one is cut into chunks, the outer ones are unpacked from the item. */
static void nest_cpu(struct plain *plain, const struct nest *nest, const char *body) {
    struct buf *source = &plain->source;
    struct nest outer = *nest;
    int64_t inner = 1, chunk = 1, parts = 1;
    outer.rank = nest->rank ? nest->rank - 1 : 0;
    while (outer.rank > 0 && inner * nest->dim[outer.rank] < ITEM_POINTS)
        inner *= nest->dim[outer.rank--];
    if (nest->rank) {
        int64_t dim = nest->dim[outer.rank];
        chunk = (ITEM_POINTS + inner - 1) / inner;
        chunk = chunk < dim ? chunk : dim;
        parts = (dim + chunk - 1) / chunk;
    }
    buf_puts(source, "    for (idx item = begin; item < end; item++) {\n");
    if (parts > 1)
        buf_printf(source,
                   "    const idx low = item %% %" PRId64 " * %" PRId64 ", stop = low + %" PRId64 ";\n"
                   "    const idx high = stop < %" PRId64 " ? stop : %" PRId64 ", block = item / %" PRId64 ";\n",
                   parts, chunk, chunk, nest->dim[outer.rank], nest->dim[outer.rank], parts);
    nest_unpack(plain, &outer, parts > 1 ? "block" : "item");
    put_loops(plain, nest, outer.rank, chunk);
    buf_printf(source, "    {\n%s    }\n    }\n", body);
    kernel_close(plain, nest_count(&outer) * parts);
}

void nest_emit(struct plain *plain, const char *entry, int first, int last, const struct nest *nest, const char *body) {
    kernel_open(plain, entry, first, last);
    (plain->cuda ? nest_cuda : nest_cpu)(plain, nest, body);
}

void nest_emit_with(struct plain *plain, const char *entry, const struct kernel_arg *args, int n,
                    const struct nest *nest, const char *body) {
    kernel_open_with(plain, entry, args, n);
    (plain->cuda ? nest_cuda : nest_cpu)(plain, nest, body);
}

/* ---- Strided maps ---- */

void map_init(struct map *map, const struct shape *box, int operands) {
    *map = (struct map){.rank = box->rank, .operands = operands};
    for (int d = 0; d < box->rank; d++)
        map->dim[d] = box->dim[d];
}

void map_operand(struct map *map, int i, const struct operand *operand) {
    int64_t stride[SHAPE_MAX_RANK];
    int lead = map->rank - operand->shape.rank;
    operand_strides(operand, stride);
    for (int d = lead; d < map->rank; d++)
        map->stride[i][d] = operand->shape.dim[d - lead] == 1 ? 0 : stride[d - lead];
}

static void map_move(struct map *map, int *classes, int to, int from) {
    map->dim[to] = map->dim[from];
    for (int i = 0; i < map->operands; i++)
        map->stride[i][to] = map->stride[i][from];
    if (classes)
        classes[to] = classes[from];
}

static void map_swap(struct map *map, int *classes, int a, int b) {
    struct map old = *map;
    int class = classes ? classes[a] : 0;
    map_move(map, classes, a, b);
    map->dim[b] = old.dim[a];
    for (int i = 0; i < map->operands; i++)
        map->stride[i][b] = old.stride[i][a];
    if (classes)
        classes[b] = class;
}

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

static bool mergeable(const struct map *map, const int *classes, int outer, int inner) {
    bool ok = !classes || classes[outer] == classes[inner];
    for (int i = 0; i < map->operands; i++)
        ok = ok && map->stride[i][outer] == map->stride[i][inner] * map->dim[inner];
    return ok;
}

void map_simplify(struct map *map, int *classes) {
    int n = 0;
    for (int d = 0; d < map->rank; d++) {
        if (map->dim[d] != 1)
            map_move(map, classes, n++, d);
    }
    map->rank = n;
    for (int d = 1; d < n; d++) {
        for (int e = d; e > 0 && magnitude(map->stride[0][e]) > magnitude(map->stride[0][e - 1]); e--)
            map_swap(map, classes, e, e - 1);
    }
    for (int d = n - 1; d > 0; d--) {
        if (!mergeable(map, classes, d - 1, d))
            continue;
        map->dim[d] *= map->dim[d - 1];
        for (int e = d - 1; e < map->rank - 1; e++)
            map_move(map, classes, e, e + 1);
        map->rank--;
    }
}

void map_nest(const struct map *map, const char *prefix, struct nest *ret) {
    *ret = (struct nest){0};
    for (int d = 0; d < map->rank; d++) {
        char var[16];
        snprintf(var, sizeof var, "%.4s%d", prefix, d);
        nest_add(ret, var, map->dim[d]);
    }
}

void map_put_offset(struct buf *text, const struct map *map, int operand, const char *prefix) {
    bool first = true;
    char var[16];
    if (map->offset[operand]) {
        buf_printf(text, "%" PRId64, map->offset[operand]);
        first = false;
    }
    for (int d = 0; d < map->rank; d++) {
        snprintf(var, sizeof var, "%s%d", prefix, d);
        if (map->stride[operand][d])
            put_term(text, var, map->stride[operand][d], &first);
    }
    buf_puts(text, first ? "0" : "");
}

/* ---- Epilogues ---- */

void put_result(struct buf *text, const struct workload *workload, const struct coordinates *at, const char *value,
                const char *k) {
    buf_puts(text, "    put(");
    put_offset(text, &workload->out[0], at);
    buf_printf(text, ", wt_act(%s", value);
    if (workload->epilogue.bias)
        buf_printf(text, " + get2(%s)", k);
    if (workload->epilogue.residual) {
        int i = workload->n_in - 1;
        buf_printf(text, " + get%d(", i);
        put_offset(text, &workload->in[i], at);
        buf_putc(text, ')');
    }
    buf_puts(text, "));\n");
}

/* ---- The template's functions ---- */

static const struct plain_rule *find_rule(const struct plain_rule *rules, const struct workload *workload) {
    for (; rules->serves; rules++) {
        if (rules->serves(workload))
            return rules;
    }
    return NULL;
}

static const struct plain_rule *rule_for(const struct plain_rule *rules, const struct workload *workload) {
    const struct plain_rule *rule = find_rule(rules, workload);
    return rule ? rule : find_rule(plain_rules, workload);
}

bool plain_serves(const struct plain_rule *rules, const struct workload *workload) {
    return rule_for(rules, workload) != NULL;
}

struct space *plain_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    (void)workload, (void)target;
    return space_new(arena);
}

int64_t plain_fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    (void)workload, (void)target, (void)space;
    return 0;
}

/* Positions in a padded input along dimension i. */
static int64_t window_reach(const struct workload *workload, int i) {
    const struct conv_attr *conv = &workload->attr.conv;
    const struct pool_attr *pool = &workload->attr.pool;
    int64_t out = workload->out[0].shape.dim[2 + i], in = workload->in[0].shape.dim[2 + i];
    if (workload->op == OP_POOL)
        return out * pool->stride[i] + pool->kernel[i] * pool->dilation[i] + magnitude(pool->pad[i]);
    return (out + in) * conv->stride[i] + workload->in[1].shape.dim[2 + i] * conv->dilation[i] +
           magnitude(conv->pad[i]);
}

/* Does an index need 64 bits? */
static bool is_wide(const struct workload *workload) {
    bool wide = shape_count(&workload->out[0].shape) >= NARROW;
    for (int i = 0; i < workload->n_in; i++)
        wide |= shape_count(&workload->in[i].shape) >= NARROW;
    for (int i = 0; i < workload->in[0].shape.rank && workload->op == OP_PAD; i++)
        wide |= magnitude(workload->attr.pad.before[i]) >= NARROW;
    bool window = workload->op == OP_CONV || workload->op == OP_CONV_TRANSPOSE || workload->op == OP_POOL;
    return wide || (window && (window_reach(workload, 0) >= NARROW || window_reach(workload, 1) >= NARROW));
}

static unsigned math_of(const struct workload *workload) {
    if (workload->op == OP_SOFTMAX || workload->op == OP_LRN)
        return MATH_EXP | MATH_LOG;
    return workload->op == OP_BINARY && workload->attr.binary.kind == BINARY_POW ? MATH_POW : 0;
}

static struct program *program_of(struct plain *plain) {
    struct program *program = arena_alloc(plain->arena, sizeof *program);
    program->source = arena_strdup(plain->arena, buf_str(&plain->source));
    program->run = plain->launches;
    program->n_run = plain->n_launches;
    if (plain->prepared_bytes) {
        program->prepare = arena_alloc(plain->arena, sizeof *program->prepare);
        *program->prepare = plain->prepare;
        program->n_prepare = 1;
        program->prepared_bytes = arena_alloc(plain->arena, sizeof *program->prepared_bytes);
        program->prepared_bytes[0] = plain->prepared_bytes;
        program->n_prepared = 1;
    }
    return program;
}

void plain_begin(struct plain *plain, bool cuda, const struct workload *workload, struct arena *arena) {
    *plain = (struct plain){.workload = workload, .arena = arena, .cuda = cuda, .source = BUF_INIT(MOST_SOURCE)};
    int launches = workload->n_in + 2; /* one an input (CONCAT), or a preparing one and the run */
    plain->launches = arena_array(arena, (size_t)launches, sizeof *plain->launches);
    buf_puts(&plain->source, cuda ? "" : "#include <stdint.h>\n");
    buf_printf(&plain->source, "typedef %s idx;\n", !cuda ? "int64_t" : is_wide(workload) ? "long long" : "int");
    act_define(&plain->source, cuda, &workload->epilogue, math_of(workload));
    plain_define_access(&plain->source, cuda, workload);
}

int plain_end(struct plain *plain, struct program **ret, struct error *error) {
    int result = buf_check(&plain->source, "a kernel's source", error);
    if (!result && plain->refused)
        result = error_set(error, ERROR_INVALID, "instantiation", "workload",
                           "The output is too large for one launch on CUDA.");
    if (!result)
        *ret = program_of(plain);
    buf_release(&plain->source);
    return result;
}

int plain_render(const struct plain_rule *rules, bool cuda, const struct workload *workload, struct arena *arena,
                 struct program **ret, struct error *error) {
    const struct plain_rule *rule = rule_for(rules, workload);
    struct plain plain;
    if (!rule)
        return error_set(error, ERROR_INVALID, "instantiation", "workload",
                         "The plain template does not compute %s on these data types.", op_name(workload->op));
    plain_begin(&plain, cuda, workload, arena);
    rule->emit(&plain);
    return plain_end(&plain, ret, error);
}
