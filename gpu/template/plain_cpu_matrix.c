/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products on the CPU: DENSE as dot products along K, four at once; MATMUL as rows that gather B's rows. */
#include <inttypes.h>
#include <stdio.h>

#include "gpu/template/plain_cpu.h"

enum { DOTS = 4, TILE_COLUMNS = 128 };

/* ---- DENSE ---- */

bool serves_dense_cpu(const struct workload *workload) {
    return workload->op == OP_DENSE && plain_floats(workload);
}

/* An item is four outputs of each row. Past the end the last is computed again, and not stored. */
void emit_dense_cpu(struct plain *plain) {
    const struct workload *workload = plain->workload;
    int64_t rows = workload->in[0].shape.dim[0], depth = workload->in[0].shape.dim[1];
    int64_t columns = workload->in[1].shape.dim[0];
    struct buf *source = &plain->source;
    kernel_open(plain, "plain_dense", 0, 3);
    buf_printf(source, "    for (idx item = begin; item < end; item++) {\n    const idx n = item * %d;\n", DOTS);
    for (int i = 0; i < DOTS; i++)
        buf_printf(source, "    const idx w%d = (n + %d < %" PRId64 " ? n + %d : %" PRId64 ") * %" PRId64 ";\n", i, i,
                   columns, i, columns - 1, depth);
    buf_printf(source,
               "    for (idx m = 0; m < %" PRId64 "; m++) {\n    const idx x = m * %" PRId64 ";\n"
               "    float v0 = 0.0f, v1 = 0.0f, v2 = 0.0f, v3 = 0.0f;\n"
               "#pragma omp simd reduction(+:v0, v1, v2, v3)\n"
               "    for (idx k = 0; k < %" PRId64 "; k++) {\n",
               rows, depth, depth);
    for (int i = 0; i < DOTS; i++)
        buf_printf(source, "    v%d += get0(x + k) * get1(w%d + k);\n", i, i);
    buf_puts(source, "    }\n");
    for (int i = 0; i < DOTS; i++) {
        struct coordinates at = {{"m"}};
        char value[16], n[32];
        snprintf(value, sizeof value, "v%d", i);
        snprintf(n, sizeof n, "(n + %d)", i);
        snprintf(at.text[1], sizeof at.text[1], "%s", n);
        buf_printf(source, "    if (n + %d < %" PRId64 ")\n", i, columns);
        put_result(source, workload, &at, value, n);
    }
    buf_puts(source, "    }\n    }\n");
    kernel_close(plain, (columns + DOTS - 1) / DOTS);
}

/* ---- MATMUL ---- */

bool serves_matmul_cpu(const struct workload *workload) {
    return workload->op == OP_MATMUL && plain_floats(workload);
}

/* An item is one row of one matrix of the output. */
void emit_matmul_cpu(struct plain *plain) {
    const struct operand *a = &plain->workload->in[0], *b = &plain->workload->in[1], *out = &plain->workload->out[0];
    int rank = out->shape.rank;
    int64_t columns = out->shape.dim[rank - 1], depth = a->shape.dim[a->shape.rank - 1];
    int64_t tile = columns < TILE_COLUMNS ? columns : TILE_COLUMNS;
    struct buf *source = &plain->source;
    struct coordinates at, left, right;
    struct nest nest = {0};
    coordinates_of(out, &at);
    for (int d = 0; d < rank - 1; d++) {
        if (out->shape.dim[d] != 1)
            nest_add(&nest, at.text[d], out->shape.dim[d]);
    }
    snprintf(at.text[rank - 1], sizeof at.text[0], "(n + j)");
    left = batch_coordinates(a, &at, rank);
    right = batch_coordinates(b, &at, rank);
    snprintf(left.text[a->shape.rank - 1], sizeof left.text[0], "k");
    snprintf(right.text[b->shape.rank - 2], sizeof right.text[0], "k");
    kernel_open(plain, "plain_matmul", 0, 1);
    buf_puts(source, "    for (idx item = begin; item < end; item++) {\n");
    nest_unpack(plain, &nest, "item");
    buf_printf(source,
               "    for (idx n = 0; n < %" PRId64 "; n += %" PRId64 ") {\n"
               "    const idx left = %" PRId64 " - n, width = left < %" PRId64 " ? left : %" PRId64 ";\n"
               "    float acc[%" PRId64 "];\n    for (idx j = 0; j < width; j++) acc[j] = 0.0f;\n"
               "    for (idx k = 0; k < %" PRId64 "; k++) {\n    const float v = get0(",
               columns, tile, columns, tile, tile, tile, depth);
    put_offset(source, a, &left);
    buf_puts(source, ");\n#pragma omp simd\n    for (idx j = 0; j < width; j++) acc[j] += v * get1(");
    put_offset(source, b, &right);
    buf_puts(source, ");\n    }\n#pragma omp simd\n    for (idx j = 0; j < width; j++) put(");
    put_offset(source, out, &at);
    buf_puts(source, ", acc[j]);\n    }\n    }\n");
    kernel_close(plain, nest_count(&nest));
}
