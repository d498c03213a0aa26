/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_SIZE (4 * WIRE_PIECE)

enum wire_type { WIRE_VARINT = 0, WIRE_LENGTH = 2, WIRE_32 = 5 };

int wire_open(struct wire *wire, const char *path, struct error *error) {
    *wire = (struct wire){.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (wire->fd < 0) {
        return error_set(error, ERROR_IO, "open", "", "%s cannot be written: %s.", path, strerror(errno));
    }
    wire->buffer = malloc(BUFFER_SIZE);
    if (!wire->buffer) {
        abort();
    }
    return 0;
}

static void flush(struct wire *wire) {
    for (size_t at = 0; at < wire->used && !wire->failed;) {
        ssize_t n = write(wire->fd, wire->buffer + at, wire->used - at);
        if (n >= 0) {
            at += (size_t)n;
        } else if (errno != EINTR) {
            wire->failed = errno;
        }
    }
    wire->used = 0;
}

int wire_close(struct wire *wire, const char *path, struct error *error) {
    struct stat status;
    flush(wire);
    bool regular = fstat(wire->fd, &status) == 0 && S_ISREG(status.st_mode);
    if (close(wire->fd) && !wire->failed) {
        wire->failed = errno;
    }
    free(wire->buffer);
    if (!wire->failed) {
        return 0;
    }
    if (regular) {
        unlink(path);
    }
    return error_set(error, ERROR_IO, "write", "", "%s was not written: %s.", path, strerror(wire->failed));
}

void *wire_piece(struct wire *wire, size_t size) {
    if (BUFFER_SIZE - wire->used < size) {
        flush(wire);
    }
    void *piece = wire->buffer + wire->used;
    wire->used += size;
    wire->bytes += size;
    return piece;
}

/* At most WIRE_PIECE bytes. */
static void put(struct wire *wire, const void *data, size_t len) {
    if (wire->sizing) {
        wire->bytes += len;
    } else {
        memcpy(wire_piece(wire, len), data, len);
    }
}

static void put_varint(struct wire *wire, uint64_t value) {
    unsigned char digits[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) {
        digits[n++] = (unsigned char)(value | 0x80);
    }
    digits[n++] = (unsigned char)value;
    put(wire, digits, n);
}

static void put_tag(struct wire *wire, int field, enum wire_type type) {
    put_varint(wire, (uint64_t)field << 3 | type);
}

void wire_int(struct wire *wire, int field, int64_t value) {
    put_tag(wire, field, WIRE_VARINT);
    put_varint(wire, (uint64_t)value);
}

void wire_float(struct wire *wire, int field, float value) {
    put_tag(wire, field, WIRE_32);
    put(wire, &value, sizeof(value));
}

void wire_text(struct wire *wire, int field, const char *text) {
    put_tag(wire, field, WIRE_LENGTH);
    put_varint(wire, strlen(text));
    put(wire, text, strlen(text));
}

void wire_message(struct wire *wire, int field, void (*body)(struct wire *wire, const void *data), const void *data) {
    struct wire sizing = {.sizing = true};
    body(&sizing, data);
    put_tag(wire, field, WIRE_LENGTH);
    put_varint(wire, sizing.bytes);
    if (wire->sizing) {
        wire->bytes += sizing.bytes;
    } else {
        body(wire, data);
    }
}

void wire_begin_bytes(struct wire *wire, int field, uint64_t len) {
    put_tag(wire, field, WIRE_LENGTH);
    put_varint(wire, len);
    if (wire->sizing) {
        wire->bytes += len;
    }
}
