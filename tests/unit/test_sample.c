/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/base/file.h"
#include "service/model/fuse.h"
#include "service/model/onnx_import.h"
#include "service/model/sample.h"
#include "service/model/workload.h"

/* Trainable parameters as published, for networks small enough to write in a test. */
static const struct {
    const char *name;
    int64_t parameters;
} networks[] = {
    {"resnet-18", 11689512},     {"resnet-34", 21797672},   {"resnet-50", 25557032},
    {"resnet-101", 44549160},    {"mobilenet-v2", 3504872}, {"squeezenet-1.0", 1248424},
    {"squeezenet-1.1", 1235496}, {"densenet-121", 7978856}, {"googlenet", 6624904},
};

struct folder {
    char path[64];
};

static struct folder folder_new(void) {
    struct folder folder = {"/tmp/warptune-sample-XXXXXX"};
    cr_assert(mkdtemp(folder.path));
    return folder;
}

static void folder_remove(struct folder *folder) {
    struct error error;
    cr_assert_eq(file_remove_tree(folder->path, &error), 0, "%s", error.text);
}

static const char *written(struct arena *arena, const struct folder *folder, const char *name, int64_t batch,
                           uint64_t seed) {
    const char *path = arena_printf(arena, "%s/%s-%d-%d.onnx", folder->path, name, (int)batch, (int)seed);
    struct error error;
    cr_assert_eq(sample_write(name, batch, seed, path, &error), 0, "%s", error.text);
    return path;
}

static bool same_bytes(const char *a, const char *b) {
    struct file_map left, right;
    struct error error;
    cr_assert_eq(file_map(a, &left, &error), 0, "%s", error.text);
    cr_assert_eq(file_map(b, &right, &error), 0, "%s", error.text);
    bool same = left.len == right.len && !memcmp(left.data, right.data, left.len);
    file_unmap(&left);
    file_unmap(&right);
    return same;
}

static struct graph *imported(struct arena *arena, const char *path, int64_t batch, struct file_map *ret_map) {
    const struct onnx_options options = {.batch = batch};
    struct graph *graph;
    struct error error;
    cr_assert_eq(file_map(path, ret_map, &error), 0, "%s", error.text);
    cr_assert_eq(onnx_import(ret_map->data, ret_map->len, &options, arena, &graph, &error), 0, "%s: %s", path,
                 error.text);
    return graph;
}

Test(sample, the_same_seed_writes_the_same_bytes_and_another_does_not) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct folder folder CLEANUP(folder_remove) = folder_new();
    const char *first = written(arena, &folder, "squeezenet-1.1", 1, 5);
    const char *again = arena_printf(arena, "%s.again", first);
    struct error error;
    cr_assert_eq(sample_write("squeezenet-1.1", 1, 5, again, &error), 0, "%s", error.text);
    cr_assert(same_bytes(first, again));
    cr_assert_not(same_bytes(first, written(arena, &folder, "squeezenet-1.1", 1, 6)));
}

Test(sample, networks_have_their_published_number_of_parameters) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct folder folder CLEANUP(folder_remove) = folder_new();
    for (size_t i = 0; i < ARRAY_COUNT(networks); i++) {
        struct file_map map;
        struct error error;
        const char *path = written(arena, &folder, networks[i].name, 1, 1);
        cr_assert_eq(file_map(path, &map, &error), 0, "%s", error.text);
        /* Beside them are names, and batch norms' running statistics: two numbers a channel, 1% at most. */
        int64_t bytes = (int64_t)map.len, least = 4 * networks[i].parameters;
        cr_assert(bytes > least && bytes < least + least / 50 + 200000, "%s has %lld bytes, %lld are parameters",
                  networks[i].name, (long long)bytes, (long long)least);
        file_unmap(&map);
        cr_assert_eq(unlink(path), 0);
    }
}

Test(sample, every_network_is_imported_and_fuses_to_what_a_device_can_tune) {
    for (size_t i = 0; i < ARRAY_COUNT(networks); i++) {
        struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
        struct folder folder CLEANUP(folder_remove) = folder_new();
        struct file_map map;
        struct error error;
        struct workload_use *uses;
        int n_uses;
        struct graph *graph = imported(arena, written(arena, &folder, networks[i].name, 2, 1), 0, &map);
        cr_assert_eq(graph->n_inputs, 1);
        cr_assert_eq(graph->n_outputs, 1);
        cr_assert_str_eq(graph->values[graph->inputs[0]].name, "input");
        cr_assert_str_eq(graph->values[graph->outputs[0]].name, "output");
        cr_assert(shape_equal(&graph->values[graph->inputs[0]].shape, &(struct shape){4, {2, 3, 224, 224}}));
        cr_assert(shape_equal(&graph->values[graph->outputs[0]].shape, &(struct shape){2, {2, 1000}}));
        cr_assert_eq(graph_fuse(graph, &error), 0, "%s", error.text);
        workload_list(graph, LAYOUT_NHWC, arena, &uses, &n_uses);
        cr_assert(n_uses > 5, "%s has only %d tasks", networks[i].name, n_uses);
        file_unmap(&map);
    }
}

Test(sample, resnet_18_fuses_to_20_convolutions_a_pool_a_mean_and_a_dense_layer) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct folder folder CLEANUP(folder_remove) = folder_new();
    struct file_map map;
    struct error error;
    int count[OP_COUNT] = {0};
    struct graph *graph = imported(arena, written(arena, &folder, "resnet-18", 0, 1), 4, &map);
    cr_assert_eq(graph->values[graph->inputs[0]].shape.dim[0], 4, "the symbolic batch is the one asked for");
    cr_assert_eq(graph_fuse(graph, &error), 0, "%s", error.text);
    for (int i = 0; i < graph->n_nodes; i++) {
        count[graph->nodes[i].op]++;
    }
    cr_assert_eq(count[OP_CONV], 20);
    cr_assert_eq(count[OP_POOL], 1);
    cr_assert_eq(count[OP_REDUCE], 1);
    cr_assert_eq(count[OP_DENSE], 1);
    cr_assert_eq(graph->n_nodes - count[OP_RESHAPE], 23);
    file_unmap(&map);
}

Test(sample, an_unknown_name_lists_the_names_there_are) {
    struct error error;
    cr_assert_eq(sample_write("resnet-19", 1, 1, "/nonexistent/x", &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    for (const char *const *name = sample_names(); *name; name++) {
        cr_assert(strstr(error.text, *name), "%s is not in: %s", *name, error.text);
    }
}

Test(sample, a_path_that_cannot_be_written_is_an_error) {
    struct error error;
    cr_assert_eq(sample_write("resnet-18", 1, 1, "/nonexistent/x.onnx", &error), -1);
    cr_assert_eq(error.class, ERROR_IO);
    cr_assert_eq(sample_write("resnet-18", 1, 1, "/dev/full", &error), -1);
    cr_assert_eq(error.class, ERROR_IO);
    cr_assert_eq(access("/dev/full", F_OK), 0);
}

Test(sample, a_negative_batch_is_refused) {
    struct error error;
    cr_assert_eq(sample_write("resnet-18", -1, 1, "/nonexistent/x.onnx", &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
}
