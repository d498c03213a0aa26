/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/loop_nest.h"

#include <assert.h>

enum { DATA, KERNEL, OUTPUT, ACCESS_COUNT };

void loop_nest_sum(struct loop_nest *ret) {
    *ret = (struct loop_nest){.n_accesses = ACCESS_COUNT,
                              .accesses = {{.name = "data"}, {.name = "kernel"}, {.name = "output", .writes = true}},
                              .additions = 1,
                              .multiplications = 1};
}

void loop_nest_add(struct loop_nest *nest, int64_t extent, enum loop_kind kind, int64_t data, int64_t kernel,
                   int64_t output) {
    assert(nest->n_loops < NEST_MAX_LOOPS);
    int at = nest->n_loops++;
    nest->loops[at] = (struct nest_loop){extent, kind};
    nest->accesses[DATA].stride[at] = data;
    nest->accesses[KERNEL].stride[at] = kernel;
    nest->accesses[OUTPUT].stride[at] = output;
}
