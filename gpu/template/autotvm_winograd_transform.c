/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/autotvm_winograd_transform.h"

#include <assert.h>
#include <string.h>

#include "gpu/template/act.h"

/* The point a/b; 1/0 is infinity. */
struct point {
    int a, b;
};

static struct point point_of(const struct winograd *winograd, int j) {
    static const struct point points[] = {{0, 1}, {1, 1}, {-1, 1}, {1, 2}, {-2, 1}, {2, 1}, {-1, 2}};
    return j + 1 < winograd->alpha ? points[j] : (struct point){1, 0};
}

/* a^i × b^(degree - i): the term i of a polynomial at the point, all of it times b^degree. */
static double term(struct point p, int i, int degree) {
    double value = 1;
    for (int n = 0; n < degree; n++)
        value *= n < i ? p.a : p.b;
    return value;
}

/* Row j of B': the product of (b x - a) over all points but j, by the powers of x. Returns its value at point j. */
static double make_data_row(struct winograd *winograd, int j) {
    struct point at = point_of(winograd, j);
    double *row = winograd->data[j], value = 1;
    int degree = 0;
    row[0] = 1;
    for (int l = 0; l < winograd->alpha; l++) {
        struct point p = point_of(winograd, l);
        if (l == j)
            continue;
        row[++degree] = 0;
        for (int i = degree; i >= 0; i--)
            row[i] = (i > 0 ? p.b * row[i - 1] : 0) - p.a * row[i];
        value *= p.b * at.a - p.a * at.b;
    }
    return value;
}

void winograd_of(int m, int r, struct winograd *ret) {
    assert(m > 0 && r > 0 && m + r - 1 <= WINOGRAD_MOST_POINTS);
    memset(ret, 0, sizeof *ret);
    ret->m = m;
    ret->r = r;
    ret->alpha = m + r - 1;
    for (int j = 0; j < ret->alpha; j++) {
        struct point p = point_of(ret, j);
        double value = make_data_row(ret, j);
        for (int k = 0; k < r; k++)
            ret->kernel[j][k] = term(p, k, r - 1);
        for (int i = 0; i < m; i++)
            ret->output[i][j] = term(p, i, m - 1) / value;
    }
}

static void define_line(struct buf *source, const char *name, const double (*matrix)[WINOGRAD_MOST_POINTS], int rows,
                        int columns) {
    buf_printf(source, "static __device__ __forceinline__ void %s(const float *x, float *y, int step) {\n", name);
    for (int i = 0; i < rows; i++) {
        const char *before = "";
        buf_printf(source, "    y[%d * step] = ", i);
        for (int j = 0; j < columns; j++) {
            if (matrix[i][j] == 0)
                continue;
            buf_puts(source, before);
            act_float(source, true, matrix[i][j]);
            buf_printf(source, " * x[%d * step]", j);
            before = " + ";
        }
        buf_puts(source, ";\n");
    }
    buf_puts(source, "}\n");
}

void winograd_define(struct buf *source, const struct winograd *winograd) {
    define_line(source, "kernel_line", winograd->kernel, winograd->alpha, winograd->r);
    define_line(source, "data_line", winograd->data, winograd->alpha, winograd->alpha);
    define_line(source, "output_line", winograd->output, winograd->m, winograd->alpha);
}
