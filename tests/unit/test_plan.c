/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/module/plan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct error error;
static struct arena *arena;

static void open_arena(void) {
    arena = arena_new(0);
}

static void close_arena(void) {
    arena_free(arena);
}

TestSuite(plan, .init = open_arena, .fini = close_arena);

/* ---- a template whose programs use every kind of argument; nothing here is ever compiled ---- */

static bool serves_all(const struct workload *workload, const struct target *target) {
    (void)workload, (void)target;
    return true;
}

static bool serves_dense(const struct workload *workload, const struct target *target) {
    (void)target;
    return workload->op == OP_DENSE;
}

static struct space *four_points(const struct workload *workload, const struct target *target, struct arena *a) {
    static const int64_t values[] = {1, 2, 4, 8};
    struct space *space = space_new(a);
    (void)workload, (void)target;
    space_choice(space, "tile", values, 4);
    return space;
}

static int64_t third(const struct workload *workload, const struct target *target, const struct space *space) {
    (void)workload, (void)target, (void)space;
    return 2;
}

/* One launch from the inputs to the output. */
static int render_simple(const struct workload *workload, const struct target *target, const struct space *space,
                         int64_t index, struct arena *a, struct program **ret, struct error *ret_error) {
    struct program *program = arena_alloc(a, sizeof *program);
    (void)target, (void)space, (void)index, (void)ret_error;
    program->source = "source";
    program->n_run = 1;
    program->run = arena_alloc(a, sizeof *program->run);
    program->run[0] = (struct launch){.entry = "run", .n_args = workload->n_in + 1};
    for (int i = 0; i < workload->n_in; i++)
        program->run[0].args[i] = (struct arg){ARG_IN, i};
    program->run[0].args[workload->n_in] = (struct arg){ARG_OUT, 0};
    *ret = program;
    return 0;
}

/* Packs input 1 into 512 bytes once, then goes through 1,000 bytes of scratch. */
static int render_packed(const struct workload *workload, const struct target *target, const struct space *space,
                         int64_t index, struct arena *a, struct program **ret, struct error *ret_error) {
    static size_t scratch[] = {1000}, prepared[] = {512};
    static struct launch prepare = {.entry = "prepare", .n_args = 2, .args = {{ARG_IN, 1}, {ARG_PREPARED, 0}}};
    static struct launch run[] = {
        {.entry = "first", .n_args = 3, .args = {{ARG_IN, 0}, {ARG_PREPARED, 0}, {ARG_SCRATCH, 0}}},
        {.entry = "second", .n_args = 2, .args = {{ARG_SCRATCH, 0}, {ARG_OUT, 0}}},
    };
    struct program *program = arena_alloc(a, sizeof *program);
    (void)workload, (void)target, (void)space, (void)index, (void)ret_error;
    *program = (struct program){"packed", &prepare, run, 1, 2, scratch, prepared, 1, 1};
    *ret = program;
    return 0;
}

static const struct template packed = {"packed.cpu", 3, "cpu", serves_dense, four_points, third, render_packed};
static const struct template simple = {"simple.cpu", 1, "cpu", serves_all, four_points, third, render_simple};
static const struct template *const templates[] = {&packed, &simple, NULL};

/* ---- graphs ---- */

#define SHAPE(...) (&(struct shape){sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

static const float numbers[4096];

static int constant(struct graph *graph, const struct shape *shape) {
    int value = graph_add_value(graph, "constant", DTYPE_F32, shape);
    graph->values[value].data = numbers + value; /* no two look at the same */
    return value;
}

static int input(struct graph *graph, const struct shape *shape) {
    int value = graph_add_value(graph, "in", DTYPE_F32, shape);
    graph->inputs = graph->inputs ? graph->inputs : arena_array(arena, 8, sizeof(int));
    graph->inputs[graph->n_inputs++] = value;
    return value;
}

static void output(struct graph *graph, int value) {
    graph->outputs = graph->outputs ? graph->outputs : arena_array(arena, 8, sizeof(int));
    graph->outputs[graph->n_outputs++] = value;
}

/* A node of one or two inputs (the second -1 when there is none); its result. */
static int node(struct graph *graph, enum op op, const struct shape *shape, int a, int b) {
    int value = graph_add_value(graph, op_name(op), DTYPE_F32, shape);
    struct node *n = graph_add_node(graph, op, op_name(op), b < 0 ? 1 : 2, 1);
    n->in[0] = a;
    if (b >= 0)
        n->in[1] = b;
    n->out[0] = value;
    if (op == OP_UNARY)
        n->epilogue.act = ACT_RELU;
    return value;
}

static struct plan_options options_of(enum layout layout) {
    struct plan_options options = {.layout = layout, .templates = templates};
    cr_assert_eq(target_of_arch("x86-64-v3", &options.target, &error), 0);
    return options;
}

static struct plan *plan_with(const struct graph *graph, const struct plan_options *options) {
    struct plan *plan;
    cr_assert_eq(plan_graph(graph, options, arena, &plan, &error), 0, "%s", error.text);
    return plan;
}

static struct plan *plan_in(const struct graph *graph, enum layout layout) {
    struct plan_options options = options_of(layout);
    return plan_with(graph, &options);
}

static int count_steps(const struct plan *plan, enum op op) {
    int count = 0;
    for (int i = 0; i < plan->n_run; i++)
        count += strncmp(plan->programs[plan->run[i].program].workload, op_name(op), strlen(op_name(op))) == 0;
    return count;
}

/* The last argument of a step, and what it is. */
static const struct plan_buffer *result(const struct plan *plan, int step) {
    return &plan->buffers[plan->run[step].buffers[plan->run[step].launch->n_args - 1]];
}

/* ---- layouts and views ---- */

Test(plan, an_image_is_brought_into_its_layout_at_the_edges_of_the_network) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(1, 3, 8, 8));
    output(graph, node(graph, OP_UNARY, SHAPE(1, 3, 8, 8), x, -1));
    struct plan *rows = plan_in(graph, LAYOUT_ROW);
    cr_assert_eq(rows->n_run, 1);
    cr_assert_eq(result(rows, 0)->kind, PLAN_OUTPUT);
    struct plan *plan = plan_in(graph, LAYOUT_NHWC);
    cr_assert_eq(plan->n_run, 3);
    cr_assert_str_eq(plan->programs[plan->run[0].program].workload, "copy(f32:row:1x3x8x8) -> f32:nhwc:1x3x8x8");
    cr_assert_str_eq(plan->programs[plan->run[2].program].workload, "copy(f32:nhwc:1x3x8x8) -> f32:row:1x3x8x8");
    cr_assert_eq(plan->buffers[plan->run[0].buffers[0]].kind, PLAN_INPUT);
    cr_assert_eq(result(plan, 2)->kind, PLAN_OUTPUT);
}

Test(plan, a_cast_at_the_edge_changes_the_layout_too) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(1, 3, 8, 8)), a = node(graph, OP_CAST, SHAPE(1, 3, 8, 8), x, -1);
    int b = node(graph, OP_UNARY, SHAPE(1, 3, 8, 8), a, -1);
    graph->values[a].dtype = graph->values[b].dtype = DTYPE_F16;
    output(graph, node(graph, OP_CAST, SHAPE(1, 3, 8, 8), b, -1));
    struct plan *plan = plan_in(graph, LAYOUT_NHWC);
    cr_assert_eq(plan->n_run, 3);
    cr_assert_str_eq(plan->programs[plan->run[0].program].workload, "cast(f32:row:1x3x8x8) -> f16:nhwc:1x3x8x8");
    cr_assert_str_eq(plan->programs[plan->run[2].program].workload, "cast(f16:nhwc:1x3x8x8) -> f32:row:1x3x8x8");
    cr_assert_eq(plan->buffers[plan->run[0].buffers[0]].kind, PLAN_INPUT);
    cr_assert_eq(result(plan, 2)->kind, PLAN_OUTPUT);
}

/* What others read too lies as the others read it. */
Test(plan, a_cast_beside_other_readers_reads_what_they_read) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(1, 3, 8, 8)), a = node(graph, OP_CAST, SHAPE(1, 3, 8, 8), x, -1);
    output(graph, node(graph, OP_UNARY, SHAPE(1, 3, 8, 8), x, -1));
    output(graph, node(graph, OP_BINARY, SHAPE(1, 3, 8, 8), a, a));
    struct plan *plan = plan_in(graph, LAYOUT_NHWC);
    cr_assert_eq(count_steps(plan, OP_COPY), 3);
    cr_assert_str_eq(plan->programs[plan->run[1].program].workload, "cast(f32:nhwc:1x3x8x8) -> f32:nhwc:1x3x8x8");
}

Test(plan, no_copy_is_made_where_both_orders_are_the_same) {
    struct graph *graph = graph_new(arena);
    int one = input(graph, SHAPE(2, 1, 8, 8)), pixel = input(graph, SHAPE(2, 7, 1, 1));
    output(graph, node(graph, OP_UNARY, SHAPE(2, 1, 8, 8), one, -1));
    output(graph, node(graph, OP_UNARY, SHAPE(2, 7, 1, 1), pixel, -1));
    cr_assert_eq(plan_in(graph, LAYOUT_NHWC)->n_run, 2);
}

Test(plan, a_reshape_is_a_view_where_memory_order_is_logical_order) {
    const struct shape *shapes[] = {SHAPE(2, 4, 3, 3), SHAPE(2, 36, 1, 1), SHAPE(2, 1, 6, 6)};
    for (int i = 0; i < 3; i++) {
        struct graph *graph = graph_new(arena);
        int x = node(graph, OP_UNARY, shapes[i], input(graph, shapes[i]), -1);
        int flat = node(graph, OP_RESHAPE, SHAPE(2, 36), x, -1);
        output(graph, node(graph, OP_UNARY, SHAPE(2, 36), flat, -1));
        cr_assert_eq(count_steps(plan_in(graph, LAYOUT_ROW), OP_RESHAPE), 0);
        cr_assert_eq(count_steps(plan_in(graph, LAYOUT_NHWC), OP_RESHAPE), i == 0);
    }
}

Test(plan, an_input_that_nobody_reads_takes_no_step) {
    struct graph *graph = graph_new(arena);
    input(graph, SHAPE(1, 3, 8, 8));
    output(graph, node(graph, OP_UNARY, SHAPE(4), input(graph, SHAPE(4)), -1));
    struct plan *plan = plan_in(graph, LAYOUT_NHWC);
    cr_assert_eq(plan->n_inputs, 2);
    cr_assert_eq(plan->n_run, 1);
}

/* ---- outputs ---- */

Test(plan, an_input_or_a_constant_as_output_is_copied) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(1, 3, 2, 2)), c = constant(graph, SHAPE(1, 3, 2, 2));
    output(graph, x);
    output(graph, c);
    output(graph, node(graph, OP_RESHAPE, SHAPE(1, 12), c, -1));
    struct plan *plan = plan_in(graph, LAYOUT_NHWC);
    cr_assert_eq(count_steps(plan, OP_COPY), 3);
    for (int i = 0; i < 3; i++)
        cr_assert(result(plan, i)->kind == PLAN_OUTPUT && result(plan, i)->index == i);
}

Test(plan, an_output_that_is_read_again_is_computed_in_place) {
    struct graph *graph = graph_new(arena);
    int a = node(graph, OP_UNARY, SHAPE(9), input(graph, SHAPE(9)), -1);
    int b = node(graph, OP_UNARY, SHAPE(9), a, -1);
    output(graph, a);
    output(graph, b);
    struct plan *plan = plan_in(graph, LAYOUT_ROW);
    cr_assert_eq(plan->n_run, 2);
    cr_assert_eq(plan->workspace_bytes, 0);
    cr_assert_eq(plan->run[1].buffers[0], plan->run[0].buffers[1]);
}

Test(plan, a_value_that_is_an_output_twice_is_copied_once) {
    struct graph *graph = graph_new(arena);
    int a = node(graph, OP_UNARY, SHAPE(9), input(graph, SHAPE(9)), -1);
    output(graph, a);
    output(graph, a);
    output(graph, node(graph, OP_RESHAPE, SHAPE(3, 3), a, -1));
    struct plan *plan = plan_in(graph, LAYOUT_ROW);
    cr_assert_eq(plan->n_run, 3);
    cr_assert_eq(count_steps(plan, OP_COPY), 2);
}

/* ---- the workspace ---- */

Test(plan, values_that_never_live_together_share_memory) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(1000));
    for (int i = 0; i < 10; i++)
        x = node(graph, OP_UNARY, SHAPE(1000), x, -1);
    output(graph, x);
    cr_assert_eq(plan_in(graph, LAYOUT_ROW)->workspace_bytes, 2 * 4096);
}

/* First and last step that touch a buffer. */
static void lifetime(const struct plan *plan, int buffer, int *first, int *last) {
    *first = plan->n_run;
    *last = -1;
    for (int i = 0; i < plan->n_run; i++) {
        for (int a = 0; a < plan->run[i].launch->n_args; a++) {
            if (plan->run[i].buffers[a] != buffer)
                continue;
            *first = *first < i ? *first : i;
            *last = i;
        }
    }
}

static bool share(const struct plan_buffer *a, const struct plan_buffer *b) {
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Sums of earlier results, at random: some live long. */
Test(plan, values_that_live_together_lie_apart_and_aligned) {
    struct graph *graph = graph_new(arena);
    struct rng rng;
    int values[64] = {input(graph, SHAPE(7, 11))};
    rng_seed(&rng, 3);
    for (int i = 1; i < 64; i++) {
        int a = values[rng_below(&rng, (uint64_t)i)], b = values[i - 1];
        values[i] = node(graph, i % 5 ? OP_BINARY : OP_DENSE, SHAPE((int64_t)rng_below(&rng, 30) + 1, 11), b, a);
    }
    output(graph, values[63]);
    struct plan *plan = plan_in(graph, LAYOUT_NHWC);
    for (int i = 0; i < plan->n_buffers; i++) {
        int first, last, other_first, other_last;
        if (plan->buffers[i].kind != PLAN_WORKSPACE)
            continue;
        lifetime(plan, i, &first, &last);
        cr_assert_eq(plan->buffers[i].offset % 256, 0);
        cr_assert_leq(plan->buffers[i].offset + plan->buffers[i].bytes, plan->workspace_bytes);
        for (int j = 0; j < i; j++) {
            lifetime(plan, j, &other_first, &other_last);
            if (plan->buffers[j].kind == PLAN_WORKSPACE && first <= other_last && other_first <= last)
                cr_assert_not(share(&plan->buffers[i], &plan->buffers[j]), "buffers %d and %d", i, j);
        }
    }
}

/* ---- programs and choices ---- */

Test(plan, equal_workloads_share_a_program) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(5));
    for (int i = 0; i < 3; i++)
        x = node(graph, OP_UNARY, SHAPE(5), x, -1);
    output(graph, x);
    struct plan *plan = plan_in(graph, LAYOUT_ROW);
    cr_assert_eq(plan->n_programs, 1);
    cr_assert_eq(plan->programs[0].count, 3);
    cr_assert_eq(plan->programs[0].index, 2, "the fallback");
    cr_assert_str_eq(plan->programs[0].entity, "[[\"tile\",\"ot\",4]]");
}

static struct graph *one_dense(void) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(1, 8));
    output(graph, node(graph, OP_DENSE, SHAPE(1, 4), x, constant(graph, SHAPE(4, 8))));
    return graph;
}

static struct plan_choice choice_for(const struct graph *graph, const char *template, int64_t index) {
    struct workload *workload = workload_of_node(graph, &graph->nodes[0], LAYOUT_ROW, arena);
    struct buf key = BUF_INIT(1 << 16);
    workload_key(workload, &key);
    struct plan_choice choice = {arena_strdup(arena, buf_str(&key)), template, index};
    buf_release(&key);
    return choice;
}

Test(plan, the_chosen_configuration_is_used) {
    struct graph *graph = one_dense();
    struct plan_choice choice = choice_for(graph, "simple.cpu", 1);
    struct plan_options options = options_of(LAYOUT_ROW);
    cr_assert_str_eq(plan_with(graph, &options)->programs[0].template->name, "packed.cpu");
    options.choices = &choice;
    options.n_choices = 1;
    struct plan *plan = plan_with(graph, &options);
    cr_assert_str_eq(plan->programs[0].template->name, "simple.cpu");
    cr_assert_eq(plan->programs[0].index, 1);
}

Test(plan, a_choice_that_does_not_serve_leaves_the_fallback) {
    struct graph *graph = graph_new(arena);
    output(graph, node(graph, OP_UNARY, SHAPE(5), input(graph, SHAPE(5)), -1));
    struct plan_choice choice = choice_for(graph, "packed.cpu", 0);
    struct plan_options options = options_of(LAYOUT_ROW);
    options.choices = &choice;
    options.n_choices = 1;
    cr_assert_str_eq(plan_with(graph, &options)->programs[0].template->name, "simple.cpu");
}

Test(plan, a_choice_that_cannot_be_is_an_error) {
    struct graph *graph = one_dense();
    const struct plan_choice choices[] = {choice_for(graph, "no.such", 0), choice_for(graph, "simple.cpu", 4)};
    for (int i = 0; i < 2; i++) {
        struct plan_options options = options_of(LAYOUT_ROW);
        struct plan *plan;
        options.choices = &choices[i];
        options.n_choices = 1;
        cr_assert_eq(plan_graph(graph, &options, arena, &plan, &error), -1);
        cr_assert_eq(error.class, ERROR_INVALID);
        cr_assert_str_eq(error.code, i ? "bad-index" : "unknown-template");
    }
}

Test(plan, a_node_that_no_template_serves_is_an_error_that_names_it) {
    static const struct template *const only[] = {&packed, NULL};
    struct graph *graph = graph_new(arena);
    struct plan *plan;
    output(graph, node(graph, OP_UNARY, SHAPE(5), input(graph, SHAPE(5)), -1));
    struct plan_options options = options_of(LAYOUT_ROW);
    options.templates = only;
    cr_assert_eq(plan_graph(graph, &options, arena, &plan, &error), -1);
    cr_assert_eq(error.class, ERROR_DEVICE);
    cr_assert_str_eq(error.field, "unary");
}

/* ---- weights ---- */

/* Two layers of the same shape; `shared`: over the same weights. */
static struct plan *two_layers(bool shared) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(1, 8)), w = constant(graph, SHAPE(8, 8));
    x = node(graph, OP_DENSE, SHAPE(1, 8), x, w);
    output(graph, node(graph, OP_DENSE, SHAPE(1, 8), x, shared ? w : constant(graph, SHAPE(8, 8))));
    return plan_in(graph, LAYOUT_ROW);
}

Test(plan, weights_are_prepared_once_for_each_set_of_them) {
    for (int shared = 0; shared < 2; shared++) {
        struct plan *plan = two_layers(shared);
        int prepared = 0;
        for (int i = 0; i < plan->n_buffers; i++)
            prepared += plan->buffers[i].kind == PLAN_PREPARED && plan->buffers[i].bytes == 512;
        cr_assert_eq(plan->n_programs, 1);
        cr_assert_eq(plan->n_prepare, shared ? 1 : 2);
        cr_assert_eq(prepared, shared ? 1 : 2);
        cr_assert_eq(plan->n_run, 4);
    }
}

Test(plan, weights_that_are_not_constant_are_prepared_in_every_run) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(1, 8)), w = input(graph, SHAPE(8, 8));
    output(graph, node(graph, OP_DENSE, SHAPE(1, 8), x, w));
    struct plan *plan = plan_in(graph, LAYOUT_ROW);
    cr_assert_eq(plan->n_prepare, 0);
    cr_assert_eq(plan->n_run, 3);
    cr_assert_str_eq(plan->run[0].launch->entry, "prepare");
    cr_assert_eq(plan->buffers[plan->run[0].buffers[1]].kind, PLAN_WORKSPACE);
}

Test(plan, a_constant_that_two_nodes_read_is_stored_once) {
    struct graph *graph = graph_new(arena);
    int x = input(graph, SHAPE(6)), c = constant(graph, SHAPE(6)), constants = 0;
    int again = constant(graph, SHAPE(6));
    graph->values[again].data = graph->values[c].data;
    x = node(graph, OP_BINARY, SHAPE(6), x, c);
    output(graph, node(graph, OP_BINARY, SHAPE(6), x, again));
    struct plan *plan = plan_in(graph, LAYOUT_ROW);
    for (int i = 0; i < plan->n_buffers; i++)
        constants += plan->buffers[i].kind == PLAN_CONSTANT;
    cr_assert_eq(constants, 1);
}
