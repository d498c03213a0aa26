/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/graph.h"

#include <criterion/criterion.h>
#include <string.h>

/* x → first → a → second → b, and a → idle → c, which nobody reads. The output is b. */
static struct graph *chain(struct arena *arena) {
    struct graph *graph = graph_new(arena);
    struct shape shape = {1, {4}};
    static const char *const names[] = {"x", "a", "b", "c"};
    static const int wires[][2] = {{0, 1}, {1, 2}, {1, 3}};
    static const char *const nodes[] = {"first", "second", "idle"};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(graph_add_value(graph, names[i], DTYPE_F32, &shape), i);
    for (int i = 0; i < 3; i++) {
        struct node *node = graph_add_node(graph, OP_UNARY, nodes[i], 1, 1);
        node->in[0] = wires[i][0];
        node->out[0] = wires[i][1];
    }
    graph->inputs = arena_array(arena, 1, sizeof *graph->inputs);
    graph->outputs = arena_array(arena, 1, sizeof *graph->outputs);
    graph->n_inputs = graph->n_outputs = 1;
    graph->outputs[0] = 2;
    return graph;
}

Test(graph, knows_who_computes_and_who_reads_a_value) {
    struct arena *arena = arena_new(0);
    struct graph *graph = chain(arena);
    cr_assert_eq(graph_producer(graph, 0), -1);
    cr_assert_eq(graph_producer(graph, 2), 1);
    cr_assert_eq(graph_uses(graph, 0), 1);
    cr_assert_eq(graph_uses(graph, 1), 2);
    cr_assert_eq(graph_uses(graph, 2), 1, "the graph's output counts");
    cr_assert_eq(graph_uses(graph, 3), 0);
    arena_free(arena);
}

Test(graph, prune_drops_what_nobody_reads_and_what_only_that_read) {
    struct arena *arena = arena_new(0);
    struct graph *graph = chain(arena);
    graph_prune(graph);
    cr_assert_eq(graph->n_nodes, 2);
    cr_assert_str_eq(graph->nodes[0].name, "first");
    cr_assert_str_eq(graph->nodes[1].name, "second");
    graph->outputs[0] = 0; /* the input itself */
    graph_prune(graph);
    cr_assert_eq(graph->n_nodes, 0);
    arena_free(arena);
}

Test(graph, grows_and_keeps_what_it_has) {
    struct arena *arena = arena_new(0);
    struct graph *graph = graph_new(arena);
    struct shape shape = {2, {1, 2}};
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(graph_add_value(graph, "v", DTYPE_I64, &(struct shape){1, {i}}), i);
        graph_add_node(graph, OP_COPY, "n", i % 3, 1)->out[0] = i;
    }
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(graph->values[i].shape.dim[0], i);
        cr_assert_eq(graph->nodes[i].n_in, i % 3);
        cr_assert_eq(graph->nodes[i].out[0], i);
    }
    cr_assert_eq(shape_count(&shape), 2);
    arena_free(arena);
}

Test(graph, shapes_are_equal_in_rank_and_dimensions_only) {
    struct shape a = {2, {3, 4, 99}}, b = {2, {3, 4, 7}}, c = {3, {3, 4, 99}}, scalar = {0};
    cr_assert(shape_equal(&a, &b));
    cr_assert_not(shape_equal(&a, &c));
    cr_assert(shape_equal(&scalar, &scalar));
    cr_assert_eq(shape_count(&a), 12);
    cr_assert_eq(shape_count(&scalar), 1);
}

Test(graph, every_dtype_parses_from_its_name) {
    struct error error;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype;
        cr_assert_eq(dtype_parse(dtype_name((enum dtype)i), &dtype, &error), 0);
        cr_assert_eq((int)dtype, i);
        cr_assert_gt(dtype_size(dtype), 0);
    }
    enum dtype dtype = DTYPE_I8;
    cr_assert_eq(dtype_parse("f33", &dtype, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert_not_null(strstr(error.text, "f33"));
    cr_assert_eq((int)dtype, DTYPE_I8);
}

Test(graph, every_operator_has_a_name_of_its_own) {
    for (int i = 0; i < OP_COUNT; i++) {
        for (int j = 0; j < i; j++)
            cr_assert_str_neq(op_name((enum op)i), op_name((enum op)j));
    }
}
