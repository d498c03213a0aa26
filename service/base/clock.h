/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: time. Deadlines are absolute nanoseconds of the monotonic clock; DEADLINE_NEVER waits for ever. */
#ifndef WARPTUNE_BASE_CLOCK_H
#define WARPTUNE_BASE_CLOCK_H

#include <stdint.h>

#define DEADLINE_NEVER INT64_MAX
#define NS_PER_S 1000000000LL

int64_t clock_now_ns(void);                        /* monotonic */
int64_t clock_wall_us(void);                       /* microseconds since 1970, UTC */
int64_t deadline_in_s(double seconds);             /* now + seconds; never overflows */
int deadline_poll_ms(int64_t deadline);            /* what is left, for poll(): 0 when past, -1 for never */
void clock_format(int64_t wall_us, char text[32]); /* RFC 3339 UTC with milliseconds: 2026-01-02T03:04:05.678Z */

#endif
