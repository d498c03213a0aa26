/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_import.c: how long importing and fusing an ONNX file takes beyond reading it. One JSON line.
 *
 * usage: bench_import MODEL.onnx
 */
#include <stdio.h>
#include <stdlib.h>

#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/model/fuse.h"
#include "service/model/onnx_import.h"

/* Touches every page, so that what follows is not waiting for the disk. */
static double read_seconds(const struct file_map *map) {
    int64_t start = clock_now_ns();
    unsigned sum = 0;
    for (size_t i = 0; i < map->len; i += 64)
        sum += ((const unsigned char *)map->data)[i];
    double seconds = (double)(clock_now_ns() - start) / 1e9;
    return sum == 1 ? seconds + 1e-12 : seconds;
}

int main(int argc, char **argv) {
    struct error error;
    struct file_map map;
    struct graph *graph;
    if (argc != 2 || file_map(argv[1], &map, &error) < 0) {
        fprintf(stderr, "usage: bench_import MODEL.onnx\n");
        return 2;
    }
    double read_s = read_seconds(&map);
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    int64_t start = clock_now_ns();
    if (onnx_import(map.data, map.len, &(struct onnx_options){.batch = 1}, arena, &graph, &error) < 0 ||
        graph_fuse(graph, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    double import_s = (double)(clock_now_ns() - start) / 1e9;
    printf("{\"bench\": \"onnx_import\", \"bytes\": %zu, \"read_s\": %.3f, \"import_s\": %.3f, \"limit_s\": 2.0}\n",
           map.len, read_s, import_s);
    file_unmap(&map);
    return 0;
}
