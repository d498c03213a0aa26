/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/clock.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

enum { US_PER_S = 1000000, NS_PER_MS = 1000000 };

int64_t clock_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_wall_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

int64_t deadline_in_s(double seconds) {
    int64_t now = clock_now_ns();
    double ns = seconds * (double)NS_PER_S;
    if (!(ns > 0)) /* negative, or not a number */
        return now;
    return ns >= (double)(INT64_MAX - now) ? DEADLINE_NEVER : now + (int64_t)ns;
}

int deadline_poll_ms(int64_t deadline) {
    if (deadline == DEADLINE_NEVER)
        return -1;
    int64_t now = clock_now_ns();
    if (deadline <= now)
        return 0;
    int64_t ms = (deadline - now - 1) / NS_PER_MS + 1; /* rounded up: never awake before the deadline */
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

void clock_format(int64_t wall_us, char text[32]) {
    int64_t us = wall_us % US_PER_S;
    time_t s = wall_us / US_PER_S;
    if (us < 0) {
        us += US_PER_S;
        s--;
    }
    struct tm tm = {0};
    gmtime_r(&s, &tm);
    size_t n = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, 32 - n, ".%03dZ", (int)(us / 1000));
}
