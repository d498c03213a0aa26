/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/json_scan.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/buf.h"
#include "service/base/utf8.h"

/* A key of an object that is still open: its unescaped bytes are in scan.names. */
struct key {
    size_t offset, len;
};

/* `names` and `keys` are stacks: an object takes off what it put on. */
struct scan {
    const char *start, *at, *end;
    int depth;
    struct buf names;
    struct key *keys;
    size_t key_count, key_cap;
    struct error *error;
};

static int scan_value(struct scan *scan);

/* Refuses the text at `where`, whose line and column (in bytes, from 1) go in front of the reason. */
static int refuse(struct scan *scan, const char *where, const char *code, const char *field, const char *reason) {
    size_t line = 1;
    const char *line_start = scan->start;
    for (const char *p = scan->start; p < where; p++)
        if (*p == '\n') {
            line++;
            line_start = p + 1;
        }
    return error_set(scan->error, ERROR_INVALID, code, field, "The JSON text is refused at line %zu, column %zu: %s.",
                     line, (size_t)(where - line_start) + 1, reason);
}

static int refuse_syntax(struct scan *scan, const char *reason) {
    if (scan->at == scan->end)
        reason = "the text ends too early";
    return refuse(scan, scan->at, "invalid-json", NULL, reason);
}

static int out_of_memory(struct scan *scan) {
    return error_set(scan->error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory to read the JSON.");
}

/* The next byte, or -1 at the end. No byte of the text is negative here. */
static int peek(const struct scan *scan) {
    return scan->at < scan->end ? (unsigned char)*scan->at : -1;
}

static bool take(struct scan *scan, char c) {
    if (peek(scan) != (unsigned char)c)
        return false;
    scan->at++;
    return true;
}

static void skip_space(struct scan *scan) {
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r'))
        scan->at++;
}

static size_t skip_digits(struct scan *scan) {
    const char *from = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
    return (size_t)(scan->at - from);
}

/* The four digits after \u. */
static int scan_hex4(struct scan *scan, uint32_t *ret) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, scan->at++) {
        int c = peek(scan), lower = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint32_t)(c - '0');
        else if (c > 0 && lower >= 'a' && lower <= 'f')
            value = value << 4 | (uint32_t)(lower - 'a' + 10);
        else
            return refuse_syntax(scan, "\\u needs four hexadecimal digits");
    }
    *ret = value;
    return 0;
}

static void append_utf8(struct buf *out, uint32_t c) {
    char bytes[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6)
        bytes[i] = (char)(0x80 | (c & 0x3F));
    bytes[0] = (char)(lead[n] | c);
    buf_append(out, bytes, n);
}

/* After «\u»: one code point, for a high surrogate with the \u of its low one. */
static int scan_code_point(struct scan *scan, struct buf *out) {
    const char *where = scan->at - 2;
    uint32_t c, low;
    if (scan_hex4(scan, &c) < 0)
        return -1;
    if (c == 0)
        return refuse(scan, where, "invalid-json", NULL, "\\u0000 is not allowed in a string");
    if (c >= 0xD800 && c <= 0xDFFF) {
        if (c >= 0xDC00 || !take(scan, '\\') || !take(scan, 'u'))
            return refuse(scan, where, "invalid-json", NULL, "half of a surrogate pair stands alone");
        if (scan_hex4(scan, &low) < 0)
            return -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return refuse(scan, where, "invalid-json", NULL, "half of a surrogate pair stands alone");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    if (out)
        append_utf8(out, c);
    return 0;
}

/* After a backslash. */
static int scan_escape(struct scan *scan, struct buf *out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    int c = peek(scan);
    if (take(scan, 'u'))
        return scan_code_point(scan, out);
    const char *name = c > 0 ? strchr(names, c) : NULL;
    if (!name)
        return refuse_syntax(scan, "no such escape exists");
    scan->at++;
    if (out)
        buf_putc(out, values[name - names]);
    return 0;
}

/* A string, its unescaped bytes into `out` unless that is NULL. */
static int scan_string(struct scan *scan, struct buf *out) {
    if (!take(scan, '"'))
        return refuse_syntax(scan, "a string in double quotes is expected");
    for (;;) {
        const char *from = scan->at;
        int c = peek(scan);
        if (take(scan, '"'))
            return 0;
        if (take(scan, '\\')) {
            if (scan_escape(scan, out) < 0)
                return -1;
            continue;
        }
        if (c < 0x20)
            return refuse_syntax(scan, "a control character in a string must be escaped");
        size_t n = utf8_sequence(from, (size_t)(scan->end - from));
        if (n == 0)
            return refuse(scan, from, "invalid-json", NULL, "the text is not valid UTF-8");
        if (out)
            buf_append(out, from, n);
        scan->at += n;
    }
}

/* Grammar was checked by the caller; [from, scan->at) is the number. */
static int check_number(struct scan *scan, const char *from, bool whole) {
    char number[JSON_MAX_NUMBER + 1];
    size_t len = (size_t)(scan->at - from);
    if (len > JSON_MAX_NUMBER)
        return refuse(scan, from, "number-too-long", NULL, "a number may have at most 128 characters");
    memcpy(number, from, len);
    number[len] = '\0';
    if (!whole)
        return isfinite(strtod(number, NULL))
                   ? 0
                   : refuse(scan, from, "number-out-of-range", NULL, "the number is too large for a double");
    long long value = strtoll(number, NULL, 10); /* saturates */
    if (value > 1LL << 53 || value < -(1LL << 53))
        return refuse(scan, from, "number-out-of-range", NULL,
                      "an integer must lie within -9007199254740992 and 9007199254740992");
    return 0;
}

static int scan_number(struct scan *scan) {
    const char *from = scan->at;
    bool whole = true;
    take(scan, '-');
    if (!take(scan, '0') && skip_digits(scan) == 0)
        return refuse_syntax(scan, "a value is expected");
    if (take(scan, '.')) {
        whole = false;
        if (skip_digits(scan) == 0)
            return refuse_syntax(scan, "a digit is expected after the decimal point");
    }
    if (take(scan, 'e') || take(scan, 'E')) {
        whole = false;
        if (!take(scan, '+'))
            take(scan, '-');
        if (skip_digits(scan) == 0)
            return refuse_syntax(scan, "a digit is expected in the exponent");
    }
    return check_number(scan, from, whole);
}

static int scan_word(struct scan *scan, const char *word) {
    for (const char *w = word; *w; w++)
        if (!take(scan, *w))
            return refuse_syntax(scan, "a value is expected");
    return 0;
}

static int compare_keys(const void *left, const void *right, void *scan) {
    const struct key *a = left, *b = right;
    const char *names = buf_str(&((const struct scan *)scan)->names);
    size_t n = a->len < b->len ? a->len : b->len;
    int order = memcmp(names + a->offset, names + b->offset, n);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* The keys from `first` on are those of the object that ends here. Sorting needs no hash that could be attacked. */
static int check_keys(struct scan *scan, size_t first) {
    struct key *keys = scan->keys + first;
    size_t count = scan->key_count - first;
    if (count < 2)
        return 0;
    qsort_r(keys, count, sizeof *keys, compare_keys, scan);
    for (size_t i = 1; i < count; i++) {
        if (compare_keys(&keys[i - 1], &keys[i], scan) != 0)
            continue;
        struct buf name = BUF_INIT(sizeof scan->error->field - 1);
        buf_append(&name, buf_str(&scan->names) + keys[i].offset, keys[i].len);
        refuse(scan, scan->at, "duplicate-key", buf_str(&name), "the object that ends here has a key twice");
        buf_release(&name);
        return -1;
    }
    return 0;
}

static int scan_key(struct scan *scan) {
    size_t offset = scan->names.len;
    if (scan_string(scan, &scan->names) < 0)
        return -1;
    if (scan->names.overflowed)
        return out_of_memory(scan);
    if (scan->key_count == scan->key_cap) {
        size_t cap = scan->key_cap ? scan->key_cap * 2 : 64;
        struct key *keys = reallocarray(scan->keys, cap, sizeof *keys);
        if (!keys)
            return out_of_memory(scan);
        scan->keys = keys;
        scan->key_cap = cap;
    }
    scan->keys[scan->key_count++] = (struct key){offset, scan->names.len - offset};
    return 0;
}

static int scan_member(struct scan *scan) {
    if (peek(scan) != '"')
        return refuse_syntax(scan, "a key in double quotes is expected");
    if (scan_key(scan) < 0)
        return -1;
    skip_space(scan);
    if (!take(scan, ':'))
        return refuse_syntax(scan, "a colon is expected after a key");
    return scan_value(scan);
}

static int scan_object(struct scan *scan) {
    size_t first_key = scan->key_count, first_name = scan->names.len;
    skip_space(scan);
    if (take(scan, '}'))
        return 0;
    do {
        skip_space(scan);
        if (scan_member(scan) < 0)
            return -1;
    } while (take(scan, ','));
    if (peek(scan) != '}')
        return refuse_syntax(scan, "a comma or } is expected");
    if (check_keys(scan, first_key) < 0)
        return -1;
    scan->at++;
    scan->key_count = first_key;
    scan->names.len = first_name;
    return 0;
}

static int scan_array(struct scan *scan) {
    skip_space(scan);
    if (take(scan, ']'))
        return 0;
    do
        if (scan_value(scan) < 0)
            return -1;
    while (take(scan, ','));
    return take(scan, ']') ? 0 : refuse_syntax(scan, "a comma or ] is expected");
}

static int scan_nested(struct scan *scan, int (*inner)(struct scan *scan)) {
    if (scan->depth == JSON_MAX_DEPTH)
        return refuse(scan, scan->at, "json-too-deep", NULL, "arrays and objects may be nested at most 32 deep");
    scan->at++;
    scan->depth++;
    int rc = inner(scan);
    scan->depth--;
    return rc;
}

/* A value and the white space around it. Recursion ends at JSON_MAX_DEPTH. */
static int scan_value(struct scan *scan) {
    skip_space(scan);
    int rc;
    switch (peek(scan)) {
    case '{':
        rc = scan_nested(scan, scan_object);
        break;
    case '[':
        rc = scan_nested(scan, scan_array);
        break;
    case '"':
        rc = scan_string(scan, NULL);
        break;
    case 't':
        rc = scan_word(scan, "true");
        break;
    case 'f':
        rc = scan_word(scan, "false");
        break;
    case 'n':
        rc = scan_word(scan, "null");
        break;
    default:
        rc = scan_number(scan);
    }
    if (rc == 0)
        skip_space(scan);
    return rc;
}

int json_scan(const char *text, size_t len, struct error *error) {
    text = len > 0 ? text : "";
    struct scan scan = {.start = text, .at = text, .end = text + len, .error = error, .names = BUF_INIT(len)};
    int rc = scan_value(&scan);
    if (rc == 0 && scan.at < scan.end)
        rc = refuse(&scan, scan.at, "invalid-json", NULL, "nothing may follow the value");
    buf_release(&scan.names);
    free(scan.keys);
    return rc;
}
