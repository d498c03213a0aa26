/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_write.h: a plan and its compiled kernels as files: module.so, which runs, and module.tar, which can also be
 * read by people. What a module consists of is runtime/format.h's affair; constants are streamed from where the plan
 * has them, so that writing takes no memory of their size.
 */
#ifndef WARPTUNE_MODULE_MODULE_WRITE_H
#define WARPTUNE_MODULE_MODULE_WRITE_H

#include "gpu/module/plan.h"
#include "service/base/sha256.h"
#include "service/model/precision.h"

struct module_image {
    const struct plan *plan;
    struct target target;
    enum precision precision;
    struct precision_loss loss; /* of converting the constants */
    enum layout layout;
    const char *graph_name;
    char model_sha256[SHA256_HEX];
    int cudnn_version;        /* that the plans in it were chosen with; 0: there is none in it */
    const char *const *codes; /* for each program, the file that holds its compiled code; some may be the same */
};

/* module.so laid out: all but the constants in memory. */
struct module_file;

/* Lives in `arena`, as the image must. */
int module_file_new(const struct module_image *image, struct arena *arena, struct module_file **ret,
                    struct error *error) MUST_CHECK;
size_t module_file_bytes(const struct module_file *file);
/* Writes it to a descriptor. */
int module_file_stream(const struct module_file *file, int fd, struct error *error) MUST_CHECK;

/* The manifest as JSON text. */
void module_manifest(const struct module_image *image, size_t so_bytes, struct buf *ret);

/* Both write to a temporary name beside `path`, then rename: whole or not at all. */
int module_write_so(const struct module_file *file, const char *path, struct error *error) MUST_CHECK;
int module_write_tar(const struct module_image *image, const struct module_file *file, const struct buf *manifest,
                     const char *path, struct error *error) MUST_CHECK;

/* "kernels/007-conv2d.so", "kernels/007.c": where the tar has a program's code and source; "weights/012.bin". */
void module_code_name(const struct module_image *image, int program, char ret_name[100]);
void module_source_name(const struct module_image *image, int program, char ret_name[100]);
void module_weight_name(int buffer, char ret_name[100]);

#endif
