/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_cache.h: compiled code by the hash of its source, options and compiler, as files in a folder.
 *
 * Files are written whole through a rename, so any number of processes share one folder. A file is the code (an ELF
 * image, which says itself where it ends) followed by the SHA-256 of it in hex; damaged or missing files are compiled
 * again.
 */
#ifndef WARPTUNE_MEASURE_CODE_CACHE_H
#define WARPTUNE_MEASURE_CODE_CACHE_H

#include <stdbool.h>

#include "gpu/device/device.h"

struct code_built {
    char path[512]; /* the code's file */
    bool hit;       /* it was there already */
    double seconds; /* spent compiling */
};

/* Where the code of this source is or would be kept, and in ->hit whether it is there. Thread-safe. */
int code_find(const char *cache_dir, const struct target *target, const char *source, struct code_built *ret,
              struct error *error) MUST_CHECK;
/* Thread-safe. ret_log: what the compiler printed (empty on a hit). Errors as device_class->compile's. */
int code_build(const char *cache_dir, const struct target *target, const char *source, int64_t deadline,
               struct code_built *ret, struct buf *ret_log, struct error *error) MUST_CHECK;

#endif
