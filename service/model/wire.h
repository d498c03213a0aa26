/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h: protobuf's wire format, streamed to a file.
 *
 * A message is written by a function of its own, which runs twice: once to learn the message's length, which comes
 * first on the wire, and once to write it; so a file of any size needs one small buffer. Errors are kept until
 * wire_close asks. Used by one thread.
 */
#ifndef WARPTUNE_MODEL_WIRE_H
#define WARPTUNE_MODEL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/base/error.h"

struct wire {
    bool sizing;    /* only counts */
    uint64_t bytes; /* written or counted so far */
    int fd;
    unsigned char *buffer;
    size_t used;
    int failed; /* errno of the first write that failed */
};

int wire_open(struct wire *wire, const char *path, struct error *error) MUST_CHECK;
/* Flushes and closes. On an error, the file (if it is a regular one) is removed. */
int wire_close(struct wire *wire, const char *path, struct error *error) MUST_CHECK;

void wire_int(struct wire *wire, int field, int64_t value);
void wire_float(struct wire *wire, int field, float value);
void wire_text(struct wire *wire, int field, const char *text);
void wire_message(struct wire *wire, int field, void (*body)(struct wire *wire, const void *data), const void *data);
/* Tag and length of `len` bytes, which wire_piece gives afterwards (in sizing they are counted here, none are given).
 */
void wire_begin_bytes(struct wire *wire, int field, uint64_t len);
/* Room for `size` bytes (at most WIRE_PIECE) that the caller fills before the next call. Not in sizing. */
#define WIRE_PIECE ((size_t)1 << 16)
void *wire_piece(struct wire *wire, size_t size);

#endif
