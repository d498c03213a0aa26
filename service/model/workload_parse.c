/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload's key, read back. The text may be a hostile client's: every count is bounded, every word comes from a
 * table, and a key that is not exactly what workload_key prints is refused, so that one workload has one key.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/model/workload_table.h"

struct cursor {
    const char *start, *at;
    struct error *error;
};

/* "… at byte 17: expected «, » before «…»." The rest of the text is quoted as printable ASCII only. */
static int expected(const struct cursor *cursor, const char *what) {
    char rest[25];
    size_t n = 0;
    for (; n < sizeof(rest) - 1 && cursor->at[n]; n++) {
        rest[n] = cursor->at[n] >= ' ' && cursor->at[n] <= '~' ? cursor->at[n] : '?';
    }
    rest[n] = '\0';
    return error_set(cursor->error, ERROR_INVALID, "bad-workload", "workload",
                     "The workload's text is wrong at byte %zu: expected %s, found \"%s\".",
                     (size_t)(cursor->at - cursor->start), what, rest);
}

static bool accept(struct cursor *cursor, const char *text) {
    size_t len = strlen(text);
    if (strncmp(cursor->at, text, len) != 0) {
        return false;
    }
    cursor->at += len;
    return true;
}

static int expect(struct cursor *cursor, const char *text) {
    char what[64];
    if (accept(cursor, text)) {
        return 0;
    }
    snprintf(what, sizeof(what), "\"%s\"", text);
    return expected(cursor, what);
}

/* Copies the longest run of `allowed` characters; false when there is none, or more than fit. */
static bool take_run(struct cursor *cursor, const char *allowed, char *ret, size_t size) {
    size_t len = strspn(cursor->at, allowed);
    if (len == 0 || len >= size) {
        return false;
    }
    memcpy(ret, cursor->at, len);
    ret[len] = '\0';
    cursor->at += len;
    return true;
}

static bool take_word(struct cursor *cursor, char *ret, size_t size) {
    return take_run(cursor, "abcdefghijklmnopqrstuvwxyz0123456789_-", ret, size);
}

static int take_int(struct cursor *cursor, int64_t *ret) {
    char text[24], *end;
    const char *at = cursor->at;
    if (!take_run(cursor, "-0123456789", text, sizeof(text))) {
        return expected(cursor, "an integer");
    }
    errno = 0;
    *ret = strtoll(text, &end, 10);
    if (errno || *end) {
        cursor->at = at;
        return expected(cursor, "an integer of 64 bits");
    }
    return 0;
}

static int take_double(struct cursor *cursor, double *ret) {
    char text[32], *end;
    const char *at = cursor->at;
    if (!take_run(cursor, "+-.0123456789einfa", text, sizeof(text))) {
        return expected(cursor, "a number");
    }
    *ret = strtod(text, &end);
    if (*end) {
        cursor->at = at;
        return expected(cursor, "a number");
    }
    return 0;
}

static int take_name(struct cursor *cursor, const char *const *names, int64_t *ret) {
    char word[32];
    const char *at = cursor->at;
    if (take_word(cursor, word, sizeof(word))) {
        for (int i = 0; names[i]; i++) {
            if (!strcmp(word, names[i])) {
                *ret = i;
                return 0;
            }
        }
    }
    cursor->at = at;
    return expected(cursor, "one of the names of this attribute");
}

static int take_op(struct cursor *cursor, enum op *ret) {
    char word[32];
    const char *at = cursor->at;
    if (take_word(cursor, word, sizeof(word))) {
        for (int op = 0; op < OP_COUNT; op++) {
            if (!strcmp(word, op_name((enum op)op))) {
                *ret = (enum op)op;
                return 0;
            }
        }
    }
    cursor->at = at;
    return expected(cursor, "the name of an operator");
}

static int take_shape(struct cursor *cursor, struct shape *ret) {
    *ret = (struct shape){0};
    if (accept(cursor, "scalar")) {
        return 0;
    }
    do {
        if (ret->rank == SHAPE_MAX_RANK) {
            return expected(cursor, "at most 8 dimensions");
        }
        if (take_int(cursor, &ret->dim[ret->rank++])) {
            return -1;
        }
    } while (accept(cursor, "x"));
    return 0;
}

static int take_operand(struct cursor *cursor, struct operand *ret) {
    char word[32];
    const char *at = cursor->at;
    if (!take_word(cursor, word, sizeof(word)) || dtype_parse(word, &ret->dtype, cursor->error)) {
        cursor->at = at;
        return expected(cursor, "the name of an element type");
    }
    if (expect(cursor, ":")) {
        return -1;
    }
    if (accept(cursor, "nhwc:")) {
        ret->layout = LAYOUT_NHWC;
    } else if (accept(cursor, "row:")) {
        ret->layout = LAYOUT_ROW;
    } else {
        return expected(cursor, "\"row:\" or \"nhwc:\"");
    }
    return take_shape(cursor, &ret->shape);
}

/* Commas ahead of the next ')' bound the number of inputs before anything is allocated for them. */
static int take_inputs(struct cursor *cursor, struct arena *arena, struct workload *workload) {
    int commas = 0;
    for (const char *c = cursor->at; *c && *c != ')'; c++) {
        commas += *c == ',';
    }
    if (commas >= WORKLOAD_MAX_IN) {
        return expected(cursor, "at most 4096 inputs");
    }
    workload->in = arena_array(arena, (size_t)commas + 1, sizeof(*workload->in));
    do {
        if (take_operand(cursor, &workload->in[workload->n_in++])) {
            return -1;
        }
    } while (accept(cursor, ", "));
    return 0;
}

static int take_field(struct cursor *cursor, const struct attr_field *field, struct workload *workload) {
    char *data = (char *)&workload->attr + field->offset;
    if (expect(cursor, field->name) || expect(cursor, "=")) {
        return -1;
    }
    for (int i = 0; i < attr_field_count(field, workload); i++, data += 8) {
        if (i && expect(cursor, "x")) {
            return -1;
        }
        int rc = field->type == FIELD_DOUBLE ? take_double(cursor, (double *)(void *)data)
                 : field->names              ? take_name(cursor, field->names, (int64_t *)(void *)data)
                                             : take_int(cursor, (int64_t *)(void *)data);
        if (rc) {
            return -1;
        }
    }
    return 0;
}

static int take_fields(struct cursor *cursor, struct workload *workload) {
    const struct attr_field *fields = workload_ops[workload->op].fields;
    for (const struct attr_field *field = fields; field->name; field++) {
        if (expect(cursor, field == fields ? " {" : ", ") || take_field(cursor, field, workload)) {
            return -1;
        }
    }
    return fields->name ? expect(cursor, "}") : 0;
}

static int take_act(struct cursor *cursor, struct epilogue *epilogue) {
    char word[32];
    const char *at = cursor->at;
    int act = ACT_COUNT;
    if (take_word(cursor, word, sizeof(word))) {
        for (act = ACT_NONE + 1; act < ACT_COUNT && strcmp(word, workload_acts[act].name) != 0; act++) {
        }
    }
    if (act == ACT_COUNT) {
        cursor->at = at;
        return expected(cursor, "the name of an activation");
    }
    epilogue->act = (enum act)act;
    double *params[] = {&epilogue->alpha, &epilogue->beta};
    for (int i = 0; i < workload_acts[act].n_params; i++) {
        if (expect(cursor, ":") || take_double(cursor, params[i])) {
            return -1;
        }
    }
    return 0;
}

static int take_workload(struct cursor *cursor, struct arena *arena, struct workload *workload) {
    workload->out = arena_array(arena, 1, sizeof(*workload->out));
    workload->n_out = 1;
    if (take_op(cursor, &workload->op) || expect(cursor, "(") || take_inputs(cursor, arena, workload) ||
        expect(cursor, ") -> ") || take_operand(cursor, &workload->out[0]) || take_fields(cursor, workload)) {
        return -1;
    }
    workload->epilogue.bias = accept(cursor, " bias");
    workload->epilogue.residual = accept(cursor, " residual");
    if (accept(cursor, " act=") && take_act(cursor, &workload->epilogue)) {
        return -1;
    }
    workload->tf32 = accept(cursor, " math=tf32");
    return *cursor->at ? expected(cursor, "the end") : 0;
}

/* Other spellings of the same numbers ("01", "1.0", "+6") are no keys. */
static int check_canonical(const struct workload *workload, const char *key, struct error *error) {
    struct buf canonical CLEANUP(buf_release) = BUF_INIT(2 * WORKLOAD_MAX_KEY);
    workload_key(workload, &canonical);
    if (buf_check(&canonical, "the workload's key", error)) {
        return -1;
    }
    if (strcmp(buf_str(&canonical), key) != 0) {
        return error_set(error, ERROR_INVALID, "bad-workload", "workload",
                         "The workload's text is not in its canonical form, which is: %.600s", buf_str(&canonical));
    }
    return 0;
}

int workload_parse(const char *key, struct arena *arena, struct workload **ret, struct error *error) {
    struct cursor cursor = {key, key, error};
    struct workload *workload = arena_alloc(arena, sizeof(*workload));
    if (strnlen(key, WORKLOAD_MAX_KEY + 1) > WORKLOAD_MAX_KEY) {
        return error_set(error, ERROR_INVALID, "bad-workload", "workload",
                         "The workload's text is longer than %zu bytes.", WORKLOAD_MAX_KEY);
    }
    if (take_workload(&cursor, arena, workload) || workload_check(workload, error) ||
        check_canonical(workload, key, error)) {
        return -1;
    }
    *ret = workload;
    return 0;
}
