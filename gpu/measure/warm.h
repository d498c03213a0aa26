/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warm.h: fills the code cache ahead of time: builder children, as a measurer has them, compile a list of programs side
 * by side. What is in the cache already is left alone, so it may be run at any time, and again after a stop.
 */
#ifndef WARPTUNE_MEASURE_WARM_H
#define WARPTUNE_MEASURE_WARM_H

#include "gpu/template/bank.h"

struct warm_options {
    const char *program; /* the executable that answers `child build`; NULL: this one */
    const char *cache_dir;
    const struct target *target;
    int builders;           /* 0: one for each core */
    double build_timeout_s; /* of one compile */
    void *data;
    void (*progress)(void *data, int n_done, int n); /* after each program; optional */
};

struct warm_result {
    int compiled, hits, failed;
    double compile_s; /* all children's together */
    int64_t bytes;    /* of all programs in the cache */
    char text[1024];  /* what the first failure said; empty when there was none */
};

/* 0 when every program was tried; -1 when children cannot be started or the folder cannot be written. */
int warm_cache(const struct warm_options *options, const struct bank_entry *entries, int n, struct warm_result *ret,
               struct error *error) MUST_CHECK;

#endif
