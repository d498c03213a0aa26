/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h: the trace that a request belongs to, by the traceparent header of W3C Trace Context. */
#ifndef WARPTUNE_API_TRACE_H
#define WARPTUNE_API_TRACE_H

#include <stdbool.h>

#define TRACE_ID 33 /* 32 hexadecimal digits and a NUL */

/* The id of the trace; false for a header that is none, of another form, or all zeros. */
bool trace_read(const char *traceparent, char ret[TRACE_ID]);

#endif
