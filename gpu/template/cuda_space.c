/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/cuda_space.h"

#include <stdlib.h>
#include <string.h>

/* Of sm_90; devices with less shared memory say so themselves (target.shared_bytes). */
#define SM_SHARED (228 << 10)
#define SM_THREADS 2048
#define SM_BLOCKS 32
#define BLOCK_SHARED 1024   /* which the driver takes of each block */
#define REGISTERS_AT_ONCE 8 /* a thread gets multiples of */

int cuda_sm(const struct target *target) {
    return strncmp(target->arch, "sm_", 3) == 0 ? (int)strtol(target->arch + 3, NULL, 10) : 0;
}

void cuda_choose_up_to(struct space *space, const char *name, const int64_t *values, int n, int64_t enough) {
    int used = 1;
    while (used < n && values[used - 1] < enough)
        used++;
    space_choice(space, name, values, used);
}

bool cuda_banked(const struct space *space, int64_t index) {
    return space_value(space, index, "shapes", 0) == ARGUMENTS;
}

int64_t cuda_best_estimated(cuda_estimate *estimate, const struct workload *workload, const struct target *target,
                            const struct space *space, int64_t first) {
    int64_t best = first;
    double least = estimate(workload, target, space, first);
    for (int64_t i = first + 1; i < space->size; i++) {
        double seconds = estimate(workload, target, space, i);
        if (seconds < least) {
            least = seconds;
            best = i;
        }
    }
    return best;
}

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t cuda_resident(const struct target *target, int64_t threads, int64_t registers, int64_t shared_bytes) {
    int64_t claimed = ceil_div(registers, REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE * threads;
    int64_t sm_shared = lesser(target->shared_bytes + BLOCK_SHARED, SM_SHARED);
    int64_t blocks = lesser(target->registers / claimed, sm_shared / (shared_bytes + BLOCK_SHARED));
    return lesser(lesser(blocks, SM_THREADS / threads), SM_BLOCKS);
}
