/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h: how a module file lies on disk, shared by its writer and its runtime.
 *
 *     the runtime, an ELF shared object          0
 *     payload                                    footer.payload_offset, a multiple of 4096
 *         header
 *         tables: tensors, buffers, codes, steps
 *         strings
 *         codes: a shared object or cubin each   aligned to 64
 *         constants                              aligned to 64; the first to 4096
 *     footer                                     the file's last 64 bytes
 *
 * All numbers are little-endian, all offsets count from the payload's begin. One checksum covers everything before the
 * constants, one the constants, so that whatever the runtime acts on was read as it was written; the footer's sizes
 * tell a file that was cut off. Names are offsets into the strings, each ended by a NUL.
 */
#ifndef WARPTUNE_MODULE_FORMAT_H
#define WARPTUNE_MODULE_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FORMAT_MAGIC "WARPTUNE"
#define FORMAT_FOOTER_MAGIC "ENUTPRAW"
#define FORMAT_VERSION 2

enum {
    FORMAT_PAGE = 4096,
    FORMAT_ALIGN = 64,
    FORMAT_PLACE = 256, /* alignment of every buffer in memory */
    FORMAT_MAX_ARGS = 48,
    FORMAT_MAX_RANK = 8,
};

enum format_kind { FORMAT_CPU, FORMAT_CUDA };

enum format_buffer_kind {
    FORMAT_WORKSPACE, /* `offset` in the workspace */
    FORMAT_CONSTANT,  /* `offset` in the payload */
    FORMAT_PREPARED,  /* written once by the steps that prepare */
    FORMAT_INPUT,
    FORMAT_OUTPUT,
    FORMAT_BUFFER_KINDS,
};

struct format_table {
    uint64_t offset, count; /* records; bytes for strings */
};

struct format_header {
    char magic[8];
    uint32_t version, kind;
    char arch[32];
    uint64_t workspace_bytes;
    uint32_t n_inputs, n_prepare; /* of the tensors, the first are inputs; of the steps, the first prepare */
    struct format_table tensors, buffers, codes, steps, strings;
};

struct format_tensor {
    uint32_t name, dtype;
    int32_t rank;
    uint32_t buffer;
    int64_t dim[FORMAT_MAX_RANK];
    uint64_t bytes;
};

struct format_buffer {
    uint32_t kind;
    uint32_t splat; /* constant: bytes of the one element stored for all; 0: all are stored */
    uint64_t bytes, offset;
};

struct format_code {
    uint64_t offset, bytes;
};

struct format_step {
    uint32_t code, entry, node, n_args;
    int64_t items;                             /* CPU */
    uint32_t grid[3], block[3], shared, early; /* CUDA */
    uint64_t values;                           /* bit a: argument a is passed by value */
    uint32_t args[FORMAT_MAX_ARGS];            /* buffers, and values */
};

struct format_footer {
    char magic[8];
    uint64_t file_bytes, payload_offset;
    uint64_t front_bytes; /* from the file's begin to the constants */
    uint64_t checksum;    /* format_checksum of the front */
    uint64_t constants;   /* format_mix of each constant's checksum, in the order of the buffers */
    uint64_t unused[2];
};

_Static_assert(sizeof(struct format_header) == 144 && sizeof(struct format_tensor) == 88 &&
                   sizeof(struct format_buffer) == 24 && sizeof(struct format_code) == 16 &&
                   sizeof(struct format_step) == 256 && sizeof(struct format_footer) == 64,
               "records are laid out alike everywhere");

/* FNV-1a over 8 bytes at a time, the last ones padded with zeros. */
static inline uint64_t format_checksum(const void *data, size_t len) {
    const unsigned char *at = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, at + i, len - i < 8 ? len - i : 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Adds one constant's checksum to that of those before it; the first is added to 0. */
static inline uint64_t format_mix(uint64_t sum, uint64_t checksum) {
    return (sum ^ checksum) * 0x100000001b3u + 1;
}

#endif
