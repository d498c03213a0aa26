/* SPDX-License-Identifier: Apache-2.0 */
/* module.tar in the ustar format: members of known length, padded to 512 bytes, two empty blocks at the end. */
#include <stdio.h>
#include <string.h>

#include "gpu/module/module_output.h"
#include "gpu/module/module_write.h"
#include "gpu/module/runtime/warptune_module.h" /* a change of it rebuilds this file, which embeds it */
#include "service/base/file.h"

__asm__(".section .rodata\n"
        "module_header:\n"
        ".incbin \"gpu/module/runtime/warptune_module.h\"\n"
        "module_header_end:\n"
        ".previous\n");
extern const char module_header[] __attribute__((visibility("hidden")));
extern const char module_header_end[] __attribute__((visibility("hidden")));

enum { BLOCK = 512 };
#define MOST_MEMBER ((uint64_t)1 << 33) /* 11 octal digits */

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a header is a block");

struct tar {
    int fd;
    struct error *error;
};

static int begin_member(struct tar *tar, const char *name, uint64_t size) {
    struct ustar header = {.mode = "0000644", .uid = "0000000", .gid = "0000000", .mtime = "00000000000"};
    unsigned sum = 0;
    if (size >= MOST_MEMBER)
        return error_set(tar->error, ERROR_LIMIT, "too-large", NULL,
                         "%s is larger than the 8 GiB that a tar file takes.", name);
    snprintf(header.name, sizeof header.name, "%s", name);
    snprintf(header.size, sizeof header.size, "%011llo", (unsigned long long)size);
    header.type = '0';
    memcpy(header.magic, "ustar", 6);
    memcpy(header.version, "00", 2);
    memset(header.checksum, ' ', sizeof header.checksum);
    for (size_t i = 0; i < sizeof header; i++)
        sum += ((const unsigned char *)&header)[i];
    snprintf(header.checksum, sizeof header.checksum, "%06o", sum);
    return file_write_all(tar->fd, &header, sizeof header, tar->error);
}

static int end_member(struct tar *tar, uint64_t size) {
    static const char zeros[BLOCK];
    return size % BLOCK == 0 ? 0 : file_write_all(tar->fd, zeros, BLOCK - size % BLOCK, tar->error);
}

static int add_bytes(struct tar *tar, const char *name, const void *data, size_t len) {
    if (begin_member(tar, name, len) < 0 || file_write_all(tar->fd, data, len, tar->error) < 0)
        return -1;
    return end_member(tar, len);
}

static int add_module(struct tar *tar, const struct module_file *file) {
    size_t len = module_file_bytes(file);
    if (begin_member(tar, "module.so", len) < 0 || module_file_stream(file, tar->fd, tar->error) < 0)
        return -1;
    return end_member(tar, len);
}

static int add_kernel(struct tar *tar, const struct module_image *image, int program) {
    const char *source = image->plan->programs[program].program->source;
    struct file_map map;
    char name[100];
    if (file_map(image->codes[program], &map, tar->error) < 0)
        return -1;
    module_code_name(image, program, name);
    int rc = add_bytes(tar, name, map.data, map.len);
    file_unmap(&map);
    if (rc < 0)
        return -1;
    module_source_name(image, program, name);
    return add_bytes(tar, name, source, strlen(source));
}

static int add_weights(struct tar *tar, const struct plan *plan) {
    char name[100];
    for (int i = 0; i < plan->n_buffers; i++) {
        const struct plan_buffer *buffer = &plan->buffers[i];
        if (buffer->kind != PLAN_CONSTANT)
            continue;
        module_weight_name(i, name);
        if (add_bytes(tar, name, buffer->data, buffer->splat ? buffer->element_bytes : buffer->bytes) < 0)
            return -1;
    }
    return 0;
}

static int add_all(struct tar *tar, const struct module_image *image, const struct module_file *file,
                   const struct buf *manifest) {
    static const char end[2 * BLOCK];
    size_t header_bytes = (size_t)((uintptr_t)module_header_end - (uintptr_t)module_header);
    if (add_bytes(tar, "manifest.json", manifest->data, manifest->len) < 0 || add_module(tar, file) < 0 ||
        add_bytes(tar, "warptune_module.h", module_header, header_bytes) < 0)
        return -1;
    for (int i = 0; i < image->plan->n_programs; i++) {
        if (add_kernel(tar, image, i) < 0)
            return -1;
    }
    if (add_weights(tar, image->plan) < 0)
        return -1;
    return file_write_all(tar->fd, end, sizeof end, tar->error);
}

int module_write_tar(const struct module_image *image, const struct module_file *file, const struct buf *manifest,
                     const char *path, struct error *error) {
    struct module_output output;
    if (module_output_open(path, &output, error) < 0)
        return -1;
    struct tar tar = {output.fd, error};
    return module_output_close(&output, add_all(&tar, image, file, manifest), error);
}
