/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/module/runtime/image.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The module's file, opened while it is being loaded: later its path may be gone, or be relative to another folder.
 * Written by the constructor and the destructor alone.
 */
static int own_file = -1;

__attribute__((constructor)) static void open_own_file(void) {
    Dl_info info;
    if (dladdr(&own_file, &info) != 0 && info.dli_fname)
        own_file = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
}

__attribute__((destructor)) static void close_own_file(void) {
    if (own_file >= 0)
        close(own_file);
}

int fault_set(struct fault *fault, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    return -1;
}

static int damaged(struct fault *fault, const char *what) {
    return fault_set(fault, "The module file is damaged (%s); write or download it again.", what);
}

static int map_file(struct image *image, struct fault *fault) {
    struct stat st;
    if (own_file < 0 || fstat(own_file, &st) < 0)
        return fault_set(fault, "The module cannot open its own file.");
    if ((uint64_t)st.st_size < sizeof(struct format_footer) + sizeof(struct format_header))
        return damaged(fault, "it is too short");
    image->map_len = (size_t)st.st_size;
    image->map = mmap(NULL, image->map_len, PROT_READ, MAP_PRIVATE, own_file, 0);
    if (image->map == MAP_FAILED) {
        (void)fault_set(fault, "The module's file cannot be mapped into memory: %m.");
        image->map = NULL;
        return -1;
    }
    return 0;
}

/* Where the payload is, and that everything before the constants is as it was written. */
static int check_footer(struct image *image, struct fault *fault) {
    struct format_footer footer;
    size_t end = image->map_len - sizeof footer;
    memcpy(&footer, (const char *)image->map + end, sizeof footer);
    if (memcmp(footer.magic, FORMAT_FOOTER_MAGIC, sizeof footer.magic) != 0)
        return damaged(fault, "its end is missing");
    if (footer.file_bytes != image->map_len)
        return damaged(fault, "its length is not what it says");
    if (footer.payload_offset % FORMAT_PAGE != 0 || footer.front_bytes > end || footer.payload_offset > end ||
        footer.front_bytes < footer.payload_offset + sizeof(struct format_header))
        return damaged(fault, "its parts are not where they should be");
    if (footer.checksum != format_checksum(image->map, footer.front_bytes))
        return damaged(fault, "its checksum is wrong");
    image->payload = (const char *)image->map + footer.payload_offset;
    image->payload_len = end - footer.payload_offset;
    return 0;
}

static bool inside(const struct image *image, uint64_t offset, uint64_t bytes) {
    return offset <= image->payload_len && bytes <= image->payload_len - offset;
}

/* A table's first record, or NULL when it does not fit. */
static const void *table(const struct image *image, const struct format_table *table, size_t record) {
    if (table->offset % 8 != 0 || table->count > INT32_MAX || !inside(image, table->offset, table->count * record))
        return NULL;
    return image->payload + table->offset;
}

static int find_tables(struct image *image, struct fault *fault) {
    const struct format_header *header = image->header = (const void *)image->payload;
    if (memcmp(header->magic, FORMAT_MAGIC, sizeof header->magic) != 0)
        return damaged(fault, "its header is missing");
    if (header->version != FORMAT_VERSION || header->kind > FORMAT_CUDA)
        return fault_set(fault, "The module has format %u, kind %u, which its runtime does not know.", header->version,
                         header->kind);
    image->tensors = table(image, &header->tensors, sizeof *image->tensors);
    image->buffers = table(image, &header->buffers, sizeof *image->buffers);
    image->codes = table(image, &header->codes, sizeof *image->codes);
    image->steps = table(image, &header->steps, sizeof *image->steps);
    image->strings = table(image, &header->strings, 1);
    if (!image->tensors || !image->buffers || !image->codes || !image->steps || !image->strings)
        return damaged(fault, "a table is cut off");
    if (header->strings.count == 0 || image->strings[header->strings.count - 1] != '\0' ||
        header->arch[sizeof header->arch - 1] != '\0')
        return damaged(fault, "a text has no end");
    if (header->n_inputs > header->tensors.count || header->n_prepare > header->steps.count)
        return damaged(fault, "its counts disagree");
    return 0;
}

static bool tensor_fits(const struct image *image, uint64_t i) {
    const struct format_tensor *tensor = &image->tensors[i];
    const struct format_header *header = image->header;
    uint32_t kind = i < header->n_inputs ? FORMAT_INPUT : FORMAT_OUTPUT;
    return tensor->name < header->strings.count && tensor->dtype < header->strings.count && tensor->rank >= 0 &&
           tensor->rank <= FORMAT_MAX_RANK && tensor->buffer < header->buffers.count &&
           image->buffers[tensor->buffer].kind == kind && image->buffers[tensor->buffer].bytes == tensor->bytes;
}

static bool buffer_fits(const struct image *image, uint64_t i) {
    const struct format_buffer *buffer = &image->buffers[i];
    uint64_t room = image->header->workspace_bytes;
    if (buffer->kind >= FORMAT_BUFFER_KINDS || buffer->bytes > (uint64_t)1 << 48)
        return false;
    if (buffer->kind == FORMAT_WORKSPACE)
        return buffer->offset % FORMAT_PLACE == 0 && buffer->offset <= room && buffer->bytes <= room - buffer->offset;
    if (buffer->kind != FORMAT_CONSTANT)
        return true;
    return buffer->splat <= 8 && buffer->offset % FORMAT_ALIGN == 0 &&
           inside(image, buffer->offset, buffer->splat ? buffer->splat : buffer->bytes);
}

static bool code_fits(const struct image *image, uint64_t i) {
    return image->codes[i].offset % FORMAT_ALIGN == 0 && inside(image, image->codes[i].offset, image->codes[i].bytes);
}

static bool step_fits(const struct image *image, uint64_t i) {
    const struct format_step *step = &image->steps[i];
    const struct format_header *header = image->header;
    if (step->code >= header->codes.count || step->entry >= header->strings.count ||
        step->node >= header->strings.count || step->n_args > FORMAT_MAX_ARGS || step->items < 0)
        return false;
    for (uint32_t a = 0; a < step->n_args; a++) {
        if (!(step->values >> a & 1) && step->args[a] >= header->buffers.count)
            return false;
    }
    return true;
}

static int check_records(const struct image *image, struct fault *fault) {
    const struct format_header *header = image->header;
    const struct {
        uint64_t count;
        bool (*fits)(const struct image *image, uint64_t i);
        const char *what;
    } rules[] = {{header->buffers.count, buffer_fits, "a buffer is out of place"},
                 {header->tensors.count, tensor_fits, "an input or output is out of place"},
                 {header->codes.count, code_fits, "a kernel's code is out of place"},
                 {header->steps.count, step_fits, "a step is out of place"}};
    if (header->workspace_bytes > (uint64_t)1 << 48)
        return damaged(fault, "its workspace has no sensible size");
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        for (uint64_t i = 0; i < rules[r].count; i++) {
            if (!rules[r].fits(image, i))
                return damaged(fault, rules[r].what);
        }
    }
    return 0;
}

/* A module whose weights changed would run, and be wrong without a word. */
static int check_constants(const struct image *image, struct fault *fault) {
    struct format_footer footer;
    uint64_t sum = 0;
    memcpy(&footer, (const char *)image->map + image->map_len - sizeof footer, sizeof footer);
    for (uint64_t i = 0; i < image->header->buffers.count; i++) {
        const struct format_buffer *buffer = &image->buffers[i];
        if (buffer->kind == FORMAT_CONSTANT)
            sum = format_mix(
                sum, format_checksum(image->payload + buffer->offset, buffer->splat ? buffer->splat : buffer->bytes));
    }
    return sum == footer.constants ? 0 : damaged(fault, "its weights are not as they were written");
}

int image_open(struct image *ret, struct fault *fault) {
    *ret = (struct image){0};
    if (map_file(ret, fault) < 0 || check_footer(ret, fault) < 0 || find_tables(ret, fault) < 0 ||
        check_records(ret, fault) < 0 || check_constants(ret, fault) < 0) {
        image_close(ret);
        return -1;
    }
    return 0;
}

void image_drop_pages(struct image *image) {
    (void)madvise(image->map, image->map_len, MADV_DONTNEED);
}

void image_close(struct image *image) {
    if (image->map)
        munmap(image->map, image->map_len);
    *image = (struct image){0};
}
