/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of warptune_module.h: gives every buffer its place, prepares the weights, and runs the network. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/module/runtime/backend.h"

/* All else in the runtime is hidden. */
#pragma GCC visibility push(default)
#include "gpu/module/runtime/warptune_module.h"
#pragma GCC visibility pop

struct warptune_module {
    struct fault fault;
    struct image image;
    const struct backend_class *class;
    struct backend *backend;
    uint64_t *address; /* of each buffer */
    struct call *calls;
    struct port *port; /* inputs, then outputs */
    struct ports ports;
    struct warptune_tensor *tensors;
    int n_inputs, n_outputs;
};

static int out_of_memory(struct warptune_module *module) {
    return fault_set(&module->fault, "There is not enough memory to open the module.");
}

/* ---- placing ---- */

/* Two regions: what is needed as long as the module, and constants that only the preparing steps read. */
struct region {
    uint64_t bytes, address;
};
enum { KEPT, PASSING, REGIONS, ELSEWHERE = REGIONS };

/* Which buffers the network's own steps read. */
static bool *find_read(const struct image *image) {
    bool *read = calloc(image->header->buffers.count + 1, sizeof *read);
    for (uint64_t i = image->header->n_prepare; read && i < image->header->steps.count; i++) {
        for (uint32_t a = 0; a < image->steps[i].n_args; a++)
            if (!(image->steps[i].values >> a & 1))
                read[image->steps[i].args[a]] = true;
    }
    return read;
}

static int region_of(const struct warptune_module *module, const bool *read, uint64_t i) {
    const struct format_buffer *buffer = &module->image.buffers[i];
    if (buffer->kind == FORMAT_WORKSPACE)
        return ELSEWHERE;
    if (buffer->kind != FORMAT_CONSTANT)
        return KEPT;
    if (module->class->constants_in_place && !buffer->splat)
        return ELSEWHERE;
    return read[i] ? KEPT : PASSING;
}

/* Sets each buffer's address to its offset in its region, and the regions' sizes. */
static int measure_regions(struct warptune_module *module, const bool *read, struct region *regions) {
    const struct image *image = &module->image;
    for (uint64_t i = 0; i < image->header->buffers.count; i++) {
        int r = region_of(module, read, i);
        if (r == ELSEWHERE)
            continue;
        module->address[i] = regions[r].bytes;
        regions[r].bytes += (image->buffers[i].bytes + FORMAT_PLACE - 1) / FORMAT_PLACE * FORMAT_PLACE;
        if (regions[r].bytes > (uint64_t)1 << 48)
            return fault_set(&module->fault, "The module asks for more memory than a computer can have.");
    }
    return 0;
}

static int store_constant(struct warptune_module *module, const struct format_buffer *buffer, uint64_t address) {
    const char *data = module->image.payload + buffer->offset;
    if (buffer->splat)
        return module->class->fill(module->backend, address, data, buffer->splat, buffer->bytes);
    return module->class->write(module->backend, address, data, buffer->bytes);
}

static int settle(struct warptune_module *module, const bool *read, const struct region *regions, uint64_t workspace) {
    const struct image *image = &module->image;
    for (uint64_t i = 0; i < image->header->buffers.count; i++) {
        const struct format_buffer *buffer = &image->buffers[i];
        int r = region_of(module, read, i);
        if (buffer->kind == FORMAT_WORKSPACE)
            module->address[i] = workspace + buffer->offset;
        else if (r == ELSEWHERE)
            module->address[i] = (uintptr_t)(image->payload + buffer->offset);
        else
            module->address[i] += regions[r].address;
        if (buffer->kind == FORMAT_CONSTANT && r != ELSEWHERE && store_constant(module, buffer, module->address[i]) < 0)
            return -1;
    }
    return 0;
}

static int place_buffers(struct warptune_module *module, const bool *read, struct region *regions) {
    const struct backend_class *class = module->class;
    uint64_t workspace;
    if (measure_regions(module, read, regions) < 0)
        return -1;
    for (int r = 0; r < REGIONS; r++) {
        if (class->alloc(module->backend, regions[r].bytes, &regions[r].address) < 0)
            return -1;
    }
    if (class->alloc(module->backend, module->image.header->workspace_bytes, &workspace) < 0)
        return -1;
    return settle(module, read, regions, workspace);
}

/* ---- opening ---- */

static int load_codes(struct warptune_module *module) {
    const struct image *image = &module->image;
    for (uint32_t i = 0; i < image->header->codes.count; i++) {
        const struct format_code *code = &image->codes[i];
        if (module->class->load(module->backend, i, image->payload + code->offset, code->bytes) < 0)
            return -1;
    }
    return 0;
}

static int describe_tensors(struct warptune_module *module) {
    const struct image *image = &module->image;
    int n = (int)image->header->tensors.count, n_in = (int)image->header->n_inputs;
    module->tensors = calloc((size_t)n + 1, sizeof *module->tensors);
    module->port = calloc((size_t)n + 1, sizeof *module->port);
    if (!module->tensors || !module->port)
        return out_of_memory(module);
    for (int i = 0; i < n; i++) {
        const struct format_tensor *tensor = &image->tensors[i];
        struct warptune_tensor *out = &module->tensors[i];
        *out = (struct warptune_tensor){.name = image->strings + tensor->name,
                                        .dtype = image->strings + tensor->dtype,
                                        .rank = tensor->rank,
                                        .bytes = tensor->bytes};
        memcpy(out->dim, tensor->dim, sizeof out->dim);
        module->port[i] = (struct port){.address = module->address[tensor->buffer], .bytes = tensor->bytes};
        if (module->class->stage(module->backend, &module->port[i]) < 0)
            return -1;
    }
    module->n_inputs = n_in;
    module->n_outputs = n - n_in;
    module->ports = (struct ports){module->port, module->port + n_in, n_in, n - n_in};
    return 0;
}

static int make_calls(struct warptune_module *module) {
    const struct image *image = &module->image;
    module->calls = calloc(image->header->steps.count + 1, sizeof *module->calls);
    if (!module->calls)
        return out_of_memory(module);
    for (uint64_t i = 0; i < image->header->steps.count; i++) {
        const struct format_step *step = &image->steps[i];
        struct call *call = &module->calls[i];
        *call = (struct call){.code = step->code,
                              .entry = image->strings + step->entry,
                              .node = image->strings + step->node,
                              .items = step->items,
                              .shared = step->shared,
                              .early = step->early,
                              .n_args = (int)step->n_args};
        memcpy(call->grid, step->grid, sizeof call->grid);
        memcpy(call->block, step->block, sizeof call->block);
        for (uint32_t a = 0; a < step->n_args; a++)
            call->args[a] = step->values >> a & 1 ? step->args[a] : module->address[step->args[a]];
    }
    return 0;
}

static int start(struct warptune_module *module, const bool *read) {
    const struct format_header *header = module->image.header;
    struct region regions[REGIONS] = {{0, 0}};
    int n_prepare = (int)header->n_prepare, n = (int)header->steps.count;
    if (load_codes(module) < 0 || place_buffers(module, read, regions) < 0 || make_calls(module) < 0 ||
        describe_tensors(module) < 0 || module->class->prepare(module->backend, module->calls, n_prepare) < 0)
        return -1;
    module->class->free(module->backend, regions[PASSING].address);
    image_drop_pages(&module->image); /* weights are mostly prepared by now, or on the device */
    return module->class->bind(module->backend, module->calls + n_prepare, n - n_prepare);
}

static int open_module(struct warptune_module *module, int ordinal) {
    if (image_open(&module->image, &module->fault) < 0)
        return -1;
    const struct format_header *header = module->image.header;
    module->class = header->kind == FORMAT_CUDA ? &backend_cuda : &backend_cpu;
    struct backend_options options = {
        .ordinal = ordinal, .arch = header->arch, .n_codes = (uint32_t)header->codes.count, .fault = &module->fault};
    if (module->class->open(&options, &module->backend) < 0)
        return -1;
    bool *read = find_read(&module->image);
    module->address = calloc(header->buffers.count + 1, sizeof *module->address);
    int rc = read && module->address ? start(module, read) : out_of_memory(module);
    free(read);
    return rc;
}

static void release(struct warptune_module *module) {
    if (!module)
        return;
    if (module->class)
        module->class->close(module->backend);
    image_close(&module->image);
    free(module->address);
    free(module->calls);
    free(module->port);
    free(module->tensors);
    free(module);
}

struct warptune_module *warptune_module_open(int ordinal, char *error, size_t error_size) {
    struct warptune_module *module = calloc(1, sizeof *module);
    if (!module) {
        snprintf(error, error_size, "There is not enough memory to open the module.");
        return NULL;
    }
    if (open_module(module, ordinal) == 0)
        return module;
    snprintf(error, error_size, "%s", module->fault.text);
    release(module);
    return NULL;
}

/* ---- running ---- */

int warptune_module_inputs(struct warptune_module *module, const struct warptune_tensor **ret) {
    *ret = module->tensors;
    return module->n_inputs;
}

int warptune_module_outputs(struct warptune_module *module, const struct warptune_tensor **ret) {
    *ret = module->tensors + module->n_inputs;
    return module->n_outputs;
}

static int check_index(struct warptune_module *module, const char *what, int index, int count, size_t bytes) {
    const struct warptune_tensor *tensors = module->tensors + (strcmp(what, "input") == 0 ? 0 : module->n_inputs);
    if (index < 0 || index >= count)
        return fault_set(&module->fault, "There is no %s %d; the module has %d.", what, index, count);
    if (bytes != tensors[index].bytes)
        return fault_set(&module->fault, "%s %d, %s, has %zu bytes, not %zu.", what, index, tensors[index].name,
                         tensors[index].bytes, bytes);
    return 0;
}

int warptune_module_set_input(struct warptune_module *module, int index, const void *data, size_t bytes) {
    if (check_index(module, "input", index, module->n_inputs, bytes) < 0)
        return -1;
    memcpy(module->ports.in[index].host, data, bytes);
    module->ports.in[index].fresh = true;
    return 0;
}

int warptune_module_run(struct warptune_module *module) {
    return module->class->run(module->backend, &module->ports);
}

int warptune_module_get_output(struct warptune_module *module, int index, void *data, size_t bytes) {
    if (check_index(module, "output", index, module->n_outputs, bytes) < 0)
        return -1;
    memcpy(data, module->ports.out[index].host, bytes);
    return 0;
}

int warptune_module_time(struct warptune_module *module, int count, double *seconds) {
    if (count < 0)
        return fault_set(&module->fault, "The network cannot run %d times.", count);
    return module->class->time(module->backend, &module->ports, count, seconds);
}

const char *warptune_module_error(struct warptune_module *module) {
    return module->fault.text;
}

void warptune_module_close(struct warptune_module *module) {
    release(module);
}
