/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h: the payload of the module's own file, mapped read-only and checked: every offset, count and index in its
 * tables lies within bounds, so that nothing else has to look.
 */
#ifndef WARPTUNE_MODULE_IMAGE_H
#define WARPTUNE_MODULE_IMAGE_H

#include "gpu/module/runtime/fault.h"
#include "gpu/module/runtime/format.h"

struct image {
    void *map; /* of the whole file */
    size_t map_len;
    const char *payload;
    size_t payload_len; /* to the footer */
    const struct format_header *header;
    const struct format_tensor *tensors;
    const struct format_buffer *buffers;
    const struct format_code *codes;
    const struct format_step *steps;
    const char *strings;
};

int image_open(struct image *ret, struct fault *fault);
/* Gives the memory of what was read so far back to the system; what is read again comes from the file's cache. */
void image_drop_pages(struct image *image);
void image_close(struct image *image);

#endif
