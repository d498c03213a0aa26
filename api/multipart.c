/* SPDX-License-Identifier: Apache-2.0 */
#include "api/multipart.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/base/buf.h"

#define MAX_BOUNDARY 70 /* RFC 2046 */
#define MAX_HEADERS 8192

enum state {
    STATE_BOUNDARY, /* in a part (or the preamble), looking for the next boundary */
    STATE_AFTER,    /* behind a boundary: "--" ends it all, a line break begins a part */
    STATE_HEADERS,  /* of a part */
    STATE_DONE,
};

struct multipart {
    char delimiter[MAX_BOUNDARY + 5]; /* "\r\n--" and the boundary */
    size_t delimiter_len;
    char name[64];
    multipart_sink *sink;
    void *data;
    enum state state;
    bool wanted;     /* the part being read is the field */
    bool seen;       /* the field was there */
    struct buf held; /* bytes that may be part of a delimiter, a boundary's tail or headers */
};

/* The value of `key=` in a header's parameters, quoted or not; its length, or 0. */
static size_t parameter(const char *text, const char *key, const char **ret) {
    size_t key_len = strlen(key);
    for (const char *at = text; (at = strchr(at, ';'));) {
        at += 1 + strspn(at + 1, " \t");
        if (strncasecmp(at, key, key_len) != 0 || at[key_len] != '=')
            continue;
        at += key_len + 1;
        if (*at == '"') {
            *ret = at + 1;
            return strcspn(at + 1, "\"");
        }
        *ret = at;
        return strcspn(at, "; \t\r\n");
    }
    return 0;
}

int multipart_new(const char *content_type, const char *name, multipart_sink *sink, void *data, struct multipart **ret,
                  struct error *error) {
    const char *boundary;
    size_t len = parameter(content_type, "boundary", &boundary);
    if (len == 0 || len > MAX_BOUNDARY)
        return error_set(error, ERROR_INVALID, "bad-multipart", "Content-Type",
                         "multipart/form-data needs a boundary of 1 to 70 characters.");
    struct multipart *multipart = calloc(1, sizeof *multipart);
    if (!multipart)
        abort();
    memcpy(multipart->delimiter, "\r\n--", 4);
    memcpy(multipart->delimiter + 4, boundary, len);
    multipart->delimiter_len = len + 4;
    strncpy(multipart->name, name, sizeof multipart->name - 1);
    multipart->sink = sink;
    multipart->data = data;
    buf_init(&multipart->held, 1 << 20);
    /* The first delimiter has no line break before it: pretend that there was one. */
    buf_append(&multipart->held, "\r\n", 2);
    *ret = multipart;
    return 0;
}

static int emit(struct multipart *multipart, const char *bytes, size_t len, struct error *error) {
    return multipart->wanted && len ? multipart->sink(multipart->data, bytes, len, error) : 0;
}

static void drop(struct buf *buf, size_t len) {
    memmove(buf->data, buf->data + len, buf->len - len);
    buf->len -= len;
    buf->data[buf->len] = 0;
}

/* In a part: hands on what cannot belong to a delimiter; true once the delimiter was found. */
static int read_part(struct multipart *multipart, bool *ret_found, struct error *error) {
    struct buf *held = &multipart->held;
    const char *hit = memmem(held->data, held->len, multipart->delimiter, multipart->delimiter_len);
    size_t safe = hit                                     ? (size_t)(hit - held->data)
                  : held->len >= multipart->delimiter_len ? held->len - multipart->delimiter_len + 1
                                                          : 0;
    if (emit(multipart, held->data, safe, error) < 0)
        return -1;
    drop(held, safe + (hit ? multipart->delimiter_len : 0));
    *ret_found = hit != NULL;
    return 0;
}

/* A part's headers say whether it is the field. */
static int read_headers(struct multipart *multipart, char *text, struct error *error) {
    multipart->wanted = false;
    for (char *line = text; line && *line;) {
        char *next = strstr(line, "\r\n");
        if (next) {
            *next = 0;
            next += 2;
        }
        const char *name;
        size_t len = strncasecmp(line, "Content-Disposition:", 20) == 0 ? parameter(line, "name", &name) : 0;
        if (len && len == strlen(multipart->name) && memcmp(name, multipart->name, len) == 0)
            multipart->wanted = true;
        line = next;
    }
    if (multipart->wanted && multipart->seen)
        return error_set(error, ERROR_INVALID, "bad-multipart", multipart->name, "The form has the field `%s` twice.",
                         multipart->name);
    multipart->seen |= multipart->wanted;
    return 0;
}

/* One step of the machine; *ret_more false when it needs more bytes. */
static int step(struct multipart *multipart, bool *ret_more, struct error *error) {
    struct buf *held = &multipart->held;
    *ret_more = true;
    switch (multipart->state) {
    case STATE_BOUNDARY:
        if (read_part(multipart, ret_more, error) < 0)
            return -1;
        if (*ret_more)
            multipart->state = STATE_AFTER;
        return 0;
    case STATE_AFTER:
        if (held->len < 2) {
            *ret_more = false;
        } else if (memcmp(held->data, "--", 2) == 0) {
            multipart->state = STATE_DONE;
        } else if (memcmp(held->data, "\r\n", 2) == 0) {
            multipart->state = STATE_HEADERS;
        } else {
            return error_set(error, ERROR_INVALID, "bad-multipart", NULL,
                             "A multipart boundary is followed by stray bytes.");
        }
        return 0;
    case STATE_HEADERS: {
        /* The line break that ended the boundary is kept, so that a part without headers is found as well. */
        char *end = memmem(held->data, held->len, "\r\n\r\n", 4);
        if (!end && held->len > MAX_HEADERS)
            return error_set(error, ERROR_INVALID, "bad-multipart", NULL, "A part's headers are longer than %d bytes.",
                             MAX_HEADERS);
        *ret_more = end != NULL;
        if (!end)
            return 0;
        *end = 0;
        if (read_headers(multipart, end > held->data ? held->data + 2 : end, error) < 0)
            return -1;
        drop(held, (size_t)(end - held->data) + 4);
        multipart->state = STATE_BOUNDARY;
        return 0;
    }
    case STATE_DONE:
        held->len = 0;
        *ret_more = false;
        return 0;
    }
    return 0;
}

int multipart_add(struct multipart *multipart, const char *bytes, size_t len, struct error *error) {
    while (len) {
        size_t piece = len < 65536 ? len : 65536;
        buf_append(&multipart->held, bytes, piece);
        bytes += piece;
        len -= piece;
        for (bool more = true; more;)
            if (step(multipart, &more, error) < 0)
                return -1;
    }
    return buf_check(&multipart->held, "multipart body", error);
}

int multipart_end(struct multipart *multipart, struct error *error) {
    if (multipart->state != STATE_DONE)
        return error_set(error, ERROR_INVALID, "bad-multipart", NULL,
                         "The multipart body ends before its closing boundary.");
    if (!multipart->seen)
        return error_set(error, ERROR_INVALID, "bad-multipart", multipart->name, "The form has no field `%s`.",
                         multipart->name);
    return 0;
}

void multipart_free(struct multipart *multipart) {
    if (!multipart)
        return;
    buf_release(&multipart->held);
    free(multipart);
}
