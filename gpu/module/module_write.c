/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/module/module_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/cudnn_conv.h"
#include "gpu/module/module_output.h"
#include "gpu/module/runtime/format.h"
#include "service/base/file.h"

_Static_assert((int)FORMAT_MAX_ARGS == (int)LAUNCH_MAX_ARGS && (int)FORMAT_MAX_RANK == (int)SHAPE_MAX_RANK,
               "a module holds what a plan does");

#define MOST_FRONT ((size_t)2 << 30)

/* The runtime, which the Makefile builds first and names; other tools that read this file need no such name. */
#ifndef MODULE_RUNTIME_PATH
#define MODULE_RUNTIME_PATH "warptune_module.so"
#endif
__asm__(".section .rodata\n"
        ".balign 16\n"
        "module_runtime:\n"
        ".incbin \"" MODULE_RUNTIME_PATH "\"\n"
        "module_runtime_end:\n"
        ".previous\n");
extern const char module_runtime[] __attribute__((visibility("hidden")));
extern const char module_runtime_end[] __attribute__((visibility("hidden")));

static size_t runtime_bytes(void) {
    return (size_t)((uintptr_t)module_runtime_end - (uintptr_t)module_runtime);
}

struct module_file {
    const struct plan *plan;
    struct buf front; /* the runtime, header, tables, strings, codes */
    struct format_footer footer;
    const struct format_buffer *buffers; /* with the offsets of constants */
};

static uint64_t align(uint64_t at, uint64_t to) {
    return (at + to - 1) / to * to;
}

/* ---- strings and codes ---- */

/* What is under construction. */
struct draft {
    const struct module_image *image;
    struct arena *arena;
    struct error *error;
    struct buf strings;
    struct format_header header;
    struct format_tensor *tensors;
    struct format_buffer *buffers;
    struct format_code *codes;
    struct format_step *steps;
    struct file_map *code_maps;
    uint32_t *code_of; /* by program */
    uint32_t n_codes;
    uint64_t end; /* of what has its place, from the payload's begin */
};

static uint32_t add_string(struct draft *draft, const char *text) {
    size_t at = draft->strings.len;
    buf_append(&draft->strings, text ? text : "", (text ? strlen(text) : 0) + 1);
    return (uint32_t)at;
}

/* Programs whose code lies in the same file share it. */
static int map_codes(struct draft *draft) {
    const struct module_image *image = draft->image;
    const int n = image->plan->n_programs;
    draft->code_of = arena_array(draft->arena, (size_t)n, sizeof *draft->code_of);
    draft->code_maps = arena_array(draft->arena, (size_t)n, sizeof *draft->code_maps);
    for (int i = 0; i < n; i++) {
        int same = 0;
        while (strcmp(image->codes[same], image->codes[i]) != 0)
            same++;
        if (same < i) {
            draft->code_of[i] = draft->code_of[same];
            continue;
        }
        if (file_map(image->codes[i], &draft->code_maps[draft->n_codes], draft->error) < 0)
            return -1;
        draft->code_of[i] = draft->n_codes++;
    }
    return 0;
}

/* ---- tables ---- */

static void fill_tensors(struct draft *draft) {
    const struct plan *plan = draft->image->plan;
    const int n = plan->n_inputs + plan->n_outputs;
    draft->tensors = arena_array(draft->arena, (size_t)n, sizeof *draft->tensors);
    for (int b = 0; b < plan->n_buffers; b++) {
        const struct plan_buffer *buffer = &plan->buffers[b];
        bool in = buffer->kind == PLAN_INPUT;
        if (!in && buffer->kind != PLAN_OUTPUT)
            continue;
        const struct plan_tensor *from = in ? &plan->inputs[buffer->index] : &plan->outputs[buffer->index];
        struct format_tensor *to = &draft->tensors[in ? buffer->index : plan->n_inputs + buffer->index];
        to->name = add_string(draft, from->name);
        to->dtype = add_string(draft, dtype_name(from->dtype));
        to->rank = from->shape.rank;
        to->buffer = (uint32_t)b;
        to->bytes = buffer->bytes;
        for (int d = 0; d < from->shape.rank; d++)
            to->dim[d] = from->shape.dim[d];
    }
    draft->header.tensors.count = (uint64_t)n;
    draft->header.n_inputs = (uint32_t)plan->n_inputs;
}

static void fill_buffers(struct draft *draft) {
    static const enum format_buffer_kind kinds[] = {[PLAN_WORKSPACE] = FORMAT_WORKSPACE,
                                                    [PLAN_CONSTANT] = FORMAT_CONSTANT,
                                                    [PLAN_PREPARED] = FORMAT_PREPARED,
                                                    [PLAN_INPUT] = FORMAT_INPUT,
                                                    [PLAN_OUTPUT] = FORMAT_OUTPUT};
    const struct plan *plan = draft->image->plan;
    draft->buffers = arena_array(draft->arena, (size_t)plan->n_buffers, sizeof *draft->buffers);
    for (int i = 0; i < plan->n_buffers; i++) {
        const struct plan_buffer *from = &plan->buffers[i];
        draft->buffers[i] = (struct format_buffer){.kind = kinds[from->kind],
                                                   .splat = from->splat ? (uint32_t)from->element_bytes : 0,
                                                   .bytes = from->bytes,
                                                   .offset = from->offset};
    }
    draft->header.buffers.count = (uint64_t)plan->n_buffers;
}

/* A plan of cuDNN's is one of the version that is here. */
static uint32_t add_entry(struct draft *draft, const char *entry) {
    struct cudnn_conv conv;
    char pinned[CUDNN_ENTRY_MAX];
    int plan, version;
    if (!cudnn_entry_parse(entry, &conv, &plan, &version))
        return add_string(draft, entry);
    cudnn_entry_print(&conv, plan, draft->image->cudnn_version, pinned);
    return add_string(draft, pinned);
}

static void fill_step(struct draft *draft, const struct plan_step *from, struct format_step *to) {
    const struct launch *launch = from->launch;
    to->code = draft->code_of[from->program];
    to->entry = add_entry(draft, launch->entry);
    to->node = add_string(draft, from->node);
    to->n_args = (uint32_t)launch->n_args;
    to->items = launch->items;
    to->shared = launch->shared_bytes;
    to->early = launch->early;
    memcpy(to->grid, launch->grid, sizeof to->grid);
    memcpy(to->block, launch->block, sizeof to->block);
    for (int i = 0; i < launch->n_args; i++) {
        bool value = launch->args[i].kind == ARG_VALUE;
        to->values |= (uint64_t)value << i;
        to->args[i] = (uint32_t)(value ? launch->args[i].index : from->buffers[i]);
    }
}

static void fill_steps(struct draft *draft) {
    const struct plan *plan = draft->image->plan;
    const int n = plan->n_prepare + plan->n_run;
    draft->steps = arena_array(draft->arena, (size_t)n, sizeof *draft->steps);
    for (int i = 0; i < n; i++)
        fill_step(draft, i < plan->n_prepare ? &plan->prepare[i] : &plan->run[i - plan->n_prepare], &draft->steps[i]);
    draft->header.steps.count = (uint64_t)n;
    draft->header.n_prepare = (uint32_t)plan->n_prepare;
}

/* ---- places ---- */

static void place_table(struct draft *draft, struct format_table *table, size_t record) {
    table->offset = align(draft->end, 8);
    draft->end = table->offset + table->count * record;
}

static void place_codes(struct draft *draft) {
    for (uint32_t i = 0; i < draft->n_codes; i++) {
        draft->codes[i].offset = align(draft->end, FORMAT_ALIGN);
        draft->codes[i].bytes = draft->code_maps[i].len;
        draft->end = draft->codes[i].offset + draft->codes[i].bytes;
    }
}

/* A constant is stored whole, or, when all of its elements are alike, by one of them. */
static size_t stored_bytes(const struct format_buffer *buffer) {
    return buffer->splat ? buffer->splat : buffer->bytes;
}

static void place_constants(struct draft *draft) {
    draft->end = align(draft->end, FORMAT_PAGE);
    for (uint64_t i = 0; i < draft->header.buffers.count; i++) {
        struct format_buffer *buffer = &draft->buffers[i];
        if (buffer->kind != FORMAT_CONSTANT)
            continue;
        buffer->offset = align(draft->end, FORMAT_ALIGN);
        draft->end = buffer->offset + stored_bytes(buffer);
    }
}

static void place(struct draft *draft, struct format_footer *footer) {
    struct format_header *header = &draft->header;
    memcpy(header->magic, FORMAT_MAGIC, sizeof header->magic);
    header->version = FORMAT_VERSION;
    header->kind = strcmp(draft->image->target.kind, "cuda") == 0 ? FORMAT_CUDA : FORMAT_CPU;
    snprintf(header->arch, sizeof header->arch, "%s", draft->image->target.arch);
    header->workspace_bytes = draft->image->plan->workspace_bytes;
    header->codes.count = draft->n_codes;
    header->strings.count = draft->strings.len;
    draft->end = sizeof *header;
    place_table(draft, &header->tensors, sizeof *draft->tensors);
    place_table(draft, &header->buffers, sizeof *draft->buffers);
    place_table(draft, &header->codes, sizeof *draft->codes);
    place_table(draft, &header->steps, sizeof *draft->steps);
    place_table(draft, &header->strings, 1);
    place_codes(draft);
    memcpy(footer->magic, FORMAT_FOOTER_MAGIC, sizeof footer->magic);
    footer->payload_offset = align(runtime_bytes(), FORMAT_PAGE);
    footer->front_bytes = footer->payload_offset + draft->end;
    place_constants(draft);
    footer->file_bytes = align(footer->payload_offset + draft->end, FORMAT_ALIGN) + sizeof *footer;
}

/* ---- the front, in memory ---- */

static void put_at(struct buf *front, uint64_t at, const void *data, size_t len) {
    if (at > front->len && buf_reserve(front, at - front->len))
        front->len = at;
    buf_append(front, data, len);
}

static int build_front(struct draft *draft, struct module_file *file) {
    const struct format_header *header = &draft->header;
    struct buf *front = &file->front;
    uint64_t payload = file->footer.payload_offset;
    put_at(front, 0, module_runtime, runtime_bytes());
    put_at(front, payload, header, sizeof *header);
    put_at(front, payload + header->tensors.offset, draft->tensors, header->tensors.count * sizeof *draft->tensors);
    put_at(front, payload + header->buffers.offset, draft->buffers, header->buffers.count * sizeof *draft->buffers);
    put_at(front, payload + header->codes.offset, draft->codes, header->codes.count * sizeof *draft->codes);
    put_at(front, payload + header->steps.offset, draft->steps, header->steps.count * sizeof *draft->steps);
    put_at(front, payload + header->strings.offset, draft->strings.data, draft->strings.len);
    for (uint32_t i = 0; i < draft->n_codes; i++)
        put_at(front, payload + draft->codes[i].offset, draft->code_maps[i].data, draft->codes[i].bytes);
    if (buf_check(front, "The module's code", draft->error) < 0)
        return -1;
    file->footer.checksum = format_checksum(front->data, front->len);
    return 0;
}

static int build(struct draft *draft, struct module_file *file) {
    buf_putc(&draft->strings, '\0');
    if (map_codes(draft) < 0)
        return -1;
    draft->codes = arena_array(draft->arena, draft->n_codes, sizeof *draft->codes);
    fill_tensors(draft);
    fill_buffers(draft);
    fill_steps(draft);
    if (buf_check(&draft->strings, "The module's table of names", draft->error) < 0)
        return -1;
    place(draft, &file->footer);
    file->buffers = draft->buffers;
    return build_front(draft, file);
}

static void release_front(void *data) {
    buf_release(data);
}

int module_file_new(const struct module_image *image, struct arena *arena, struct module_file **ret,
                    struct error *error) {
    struct module_file *file = arena_alloc(arena, sizeof *file);
    struct draft draft = {.image = image, .arena = arena, .error = error, .strings = BUF_INIT(1u << 30)};
    file->plan = image->plan;
    buf_init(&file->front, MOST_FRONT);
    arena_defer(arena, release_front, &file->front);
    int rc = build(&draft, file);
    for (uint32_t i = 0; i < draft.n_codes; i++)
        file_unmap(&draft.code_maps[i]);
    buf_release(&draft.strings);
    if (rc == 0)
        *ret = file;
    return rc;
}

/* ---- writing ---- */

size_t module_file_bytes(const struct module_file *file) {
    return file->footer.file_bytes;
}

static int pad_to(int fd, uint64_t *at, uint64_t to, struct error *error) {
    static const char zeros[FORMAT_PAGE];
    while (*at < to) {
        size_t n = to - *at < sizeof zeros ? to - *at : sizeof zeros;
        if (file_write_all(fd, zeros, n, error) < 0)
            return -1;
        *at += n;
    }
    return 0;
}

int module_file_stream(const struct module_file *file, int fd, struct error *error) {
    struct format_footer footer = file->footer;
    uint64_t at = file->front.len;
    if (file_write_all(fd, file->front.data, file->front.len, error) < 0)
        return -1;
    for (int i = 0; i < file->plan->n_buffers; i++) {
        const struct format_buffer *buffer = &file->buffers[i];
        if (buffer->kind != FORMAT_CONSTANT)
            continue;
        if (pad_to(fd, &at, footer.payload_offset + buffer->offset, error) < 0 ||
            file_write_all(fd, file->plan->buffers[i].data, stored_bytes(buffer), error) < 0)
            return -1;
        footer.constants =
            format_mix(footer.constants, format_checksum(file->plan->buffers[i].data, stored_bytes(buffer)));
        at += stored_bytes(buffer);
    }
    if (pad_to(fd, &at, footer.file_bytes - sizeof footer, error) < 0)
        return -1;
    return file_write_all(fd, &footer, sizeof footer, error);
}

int module_write_so(const struct module_file *file, const char *path, struct error *error) {
    struct module_output output;
    if (module_output_open(path, &output, error) < 0)
        return -1;
    return module_output_close(&output, module_file_stream(file, output.fd, error), error);
}
