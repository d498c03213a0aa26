/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/backoff.h"

#include <math.h>
#include <stdlib.h>

#define LONGEST_S (7 * 86400.0)

int backoff_parse(const char *text, struct backoff *ret, struct error *error) {
    struct backoff backoff = {0};
    for (const char *at = text;; at++) {
        char *end;
        double wait_s = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(wait_s >= 0 && wait_s <= LONGEST_S) || backoff.n == BACKOFF_MOST)
            return error_set(error, ERROR_INVALID, "bad-backoff", NULL,
                             "'%.80s' must be 1 to %d numbers of seconds from 0 to %.0f, separated by commas.", text,
                             BACKOFF_MOST, LONGEST_S);
        backoff.wait_s[backoff.n++] = wait_s;
        if (!*end)
            break;
        at = end;
    }
    *ret = backoff;
    return 0;
}

double backoff_wait_s(const struct backoff *backoff, int failures, double unit) {
    if (failures > backoff->n)
        return INFINITY;
    return backoff->wait_s[failures - 1] * (1 + BACKOFF_JITTER * (2 * unit - 1));
}
