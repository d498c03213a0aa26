/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tophub_log.h: where the published tuning log of AutoTVM's CUDA templates lies: tophub/cuda.log in the shared folder
 * ($WARPTUNE_SHARED, or ../shared). Tests of it are skipped where it is not there.
 */
#ifndef WARPTUNE_TESTS_TOPHUB_LOG_H
#define WARPTUNE_TESTS_TOPHUB_LOG_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TOPHUB_MAX_PATH = 1024 };

/* NULL, with a word on standard error, when it is not there. */
static inline const char *tophub_log(char path[TOPHUB_MAX_PATH]) {
    const char *shared = getenv("WARPTUNE_SHARED");
    snprintf(path, TOPHUB_MAX_PATH, "%s/tophub/cuda.log", shared && *shared ? shared : "../shared");
    if (access(path, R_OK) == 0)
        return path;
    fprintf(stderr, "skipped: there is no tuning log %s (WARPTUNE_SHARED names the folder above tophub)\n", path);
    return NULL;
}

#endif
