/* SPDX-License-Identifier: Apache-2.0 */
/* backoff.h: how long to wait before each next attempt, with jitter, so that many that failed at once come apart. */
#ifndef WARPTUNE_BASE_BACKOFF_H
#define WARPTUNE_BASE_BACKOFF_H

#include "service/base/attr.h"
#include "service/base/error.h"

enum { BACKOFF_MOST = 32 };
#define BACKOFF_JITTER 0.2 /* either way, as part of the wait */

struct backoff {
    int n;
    double wait_s[BACKOFF_MOST]; /* after the first failure, the second, … */
};

/* "5,300,1800": seconds of 0 to a week. ERROR_INVALID "bad-backoff". */
int backoff_parse(const char *text, struct backoff *ret, struct error *error) MUST_CHECK;
/* The wait after so many failures (from 1); INFINITY when there is no next attempt. `unit`: random, in [0, 1). */
double backoff_wait_s(const struct backoff *backoff, int failures, double unit);

#endif
