/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/instantiate.h"

#include <inttypes.h>
#include <string.h>

/* CUDA's limits that no device of today differs in. */
static const unsigned most_grid[3] = {0x7fffffff, 65535, 65535};
static const unsigned most_block[3] = {1024, 1024, 64};

#define REFUSE(error, ...) error_set(error, ERROR_INVALID, "instantiation", NULL, __VA_ARGS__)

static int check_args(const struct program *program, const struct workload *workload, const struct launch *launch,
                      struct error *error) {
    const int counts[] = {[ARG_IN] = workload->n_in,
                          [ARG_OUT] = workload->n_out,
                          [ARG_SCRATCH] = program->n_scratch,
                          [ARG_PREPARED] = program->n_prepared};
    if (launch->n_args < 0 || launch->n_args > LAUNCH_MAX_ARGS)
        return REFUSE(error, "The kernel %.64s has %d arguments; there may be %d.", launch->entry, launch->n_args,
                      LAUNCH_MAX_ARGS);
    for (int i = 0; i < launch->n_args; i++) {
        const struct arg *arg = &launch->args[i];
        if (arg->kind == ARG_VALUE)
            continue;
        if ((size_t)arg->kind >= ARRAY_COUNT(counts) || arg->index < 0 || arg->index >= counts[arg->kind])
            return REFUSE(error, "Argument %d of the kernel %.64s is a buffer that there is not.", i, launch->entry);
    }
    return 0;
}

static int check_cuda(const struct target *target, const struct launch *launch, struct error *error) {
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] == 0 || launch->grid[i] > most_grid[i])
            return REFUSE(error, "A grid of %u in dimension %d cannot be launched; there may be 1 to %u blocks.",
                          launch->grid[i], i, most_grid[i]);
        if (launch->block[i] == 0 || launch->block[i] > most_block[i])
            return REFUSE(error, "A block of %u in dimension %d cannot be launched; there may be 1 to %u threads.",
                          launch->block[i], i, most_block[i]);
        threads *= launch->block[i];
    }
    if (threads > (uint64_t)target->max_threads)
        return REFUSE(error, "A block of %" PRIu64 " threads cannot be launched; the device takes %" PRId64 ".",
                      threads, target->max_threads);
    if ((int64_t)launch->shared_bytes > target->shared_bytes)
        return REFUSE(error, "A block needs %u bytes of shared memory; the device has %" PRId64 ".",
                      launch->shared_bytes, target->shared_bytes);
    return 0;
}

static int check_launches(const struct program *program, const struct workload *workload, const struct target *target,
                          const struct launch *launches, int n, struct error *error) {
    bool cuda = strcmp(target->kind, "cuda") == 0;
    for (int i = 0; i < n; i++)
        if (check_args(program, workload, &launches[i], error) < 0 ||
            (cuda && check_cuda(target, &launches[i], error) < 0))
            return -1;
    return 0;
}

int instantiate(const struct template *const *templates, const char *name, const struct workload *workload,
                const struct target *target, int64_t index, struct arena *arena, struct program **ret,
                struct error *error) {
    const struct template *template = *name ? template_find(templates, name) : template_plain(target);
    if (!template)
        return REFUSE(error, "There is no template %.64s.", *name ? name : "for plain kernels");
    if (!template->serves(workload, target))
        return REFUSE(error, "The template %.64s does not serve this workload.", template->name);
    struct space *space = template->space(workload, target, arena);
    struct program *program;
    if (index < 0 || index >= space->size)
        return REFUSE(error, "Configuration %" PRId64 " is not one of the %" PRId64 " of the template %.64s.", index,
                      space->size, template->name);
    if (template->render(workload, target, space, index, arena, &program, error) < 0)
        return -1;
    if (check_launches(program, workload, target, program->prepare, program->n_prepare, error) < 0 ||
        check_launches(program, workload, target, program->run, program->n_run, error) < 0)
        return -1;
    *ret = program;
    return 0;
}
