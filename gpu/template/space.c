/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/space.h"

#include <assert.h>
#include <string.h>

#include "service/base/json.h"

struct space *space_new(struct arena *arena) {
    struct space *space = arena_alloc(arena, sizeof *space);
    space->arena = arena;
    space->size = 1;
    return space;
}

static void add_knob(struct space *space, const struct knob *knob) {
    assert(space->n_knobs < SPACE_MAX_KNOBS && knob->n_candidates > 0);
    bool overflow = __builtin_mul_overflow(space->size, knob->n_candidates, &space->size);
    assert(!overflow);
    (void)overflow;
    space->knobs[space->n_knobs++] = *knob;
}

/* ---- Splits ---- */

/* Ascending; *ret_n of them, in the arena. */
static int64_t *divisors_of(int64_t extent, struct arena *arena, int *ret_n) {
    int64_t low[4096], root = 0; /* no number up to 2^40 has more than 6,720 divisors */
    int n_low = 0;
    for (int64_t d = 1; d <= extent / d; d++) {
        if (extent % d == 0) {
            low[n_low++] = d;
            root = d;
        }
    }
    int n = 2 * n_low - (root * root == extent);
    int64_t *divisors = arena_array(arena, (size_t)n, sizeof *divisors);
    for (int i = 0; i < n_low; i++) {
        divisors[i] = low[i];
        divisors[n - 1 - i] = extent / low[i];
    }
    *ret_n = n;
    return divisors;
}

struct split {
    const int64_t *divisors;
    int n_divisors, parts;
    int64_t factors[SPLIT_MAX_PARTS]; /* of the candidate under construction */
    int64_t *out;                     /* NULL: only count */
    int64_t n;
};

/* Chooses factor `part` and those before it; `left` is still to be divided. The last factor changes slowest, the
 * first is what remains: AutoTVM's order. */
static void split_enumerate(struct split *split, int part, int64_t left) {
    if (part == 0) {
        split->factors[0] = left;
        if (split->out)
            memcpy(split->out + split->n * split->parts, split->factors, (size_t)split->parts * sizeof(int64_t));
        split->n++;
        return;
    }
    for (int i = 0; i < split->n_divisors && split->divisors[i] <= left; i++) {
        if (left % split->divisors[i])
            continue;
        split->factors[part] = split->divisors[i];
        split_enumerate(split, part - 1, left / split->divisors[i]);
    }
}

void space_split(struct space *space, const char *name, int64_t extent, int parts) {
    assert(extent > 0 && extent <= (int64_t)1 << 40 && parts > 0 && parts <= SPLIT_MAX_PARTS);
    struct split split = {.parts = parts};
    split.divisors = divisors_of(extent, space->arena, &split.n_divisors);
    split_enumerate(&split, parts - 1, extent);
    split.out = arena_array(space->arena, (size_t)split.n, (size_t)parts * sizeof *split.out);
    split.n = 0;
    split_enumerate(&split, parts - 1, extent);
    add_knob(space, &(struct knob){name, KNOB_SPLIT, extent, parts, split.n, split.out});
}

static const int64_t *copy_values(struct space *space, const int64_t *values, int64_t n) {
    int64_t *copy = arena_array(space->arena, (size_t)n, sizeof *copy);
    memcpy(copy, values, (size_t)n * sizeof *copy);
    return copy;
}

void space_split_list(struct space *space, const char *name, int64_t extent, int parts, const int64_t *factors,
                      int64_t n) {
    assert(parts > 0 && parts <= SPLIT_MAX_PARTS);
    add_knob(space, &(struct knob){name, KNOB_SPLIT, extent, parts, n, copy_values(space, factors, n * parts)});
}

void space_choice(struct space *space, const char *name, const int64_t *values, int64_t n) {
    add_knob(space, &(struct knob){name, KNOB_OTHER, 0, 1, n, copy_values(space, values, n)});
}

void space_former_name(struct space *space, const char *name) {
    space->knobs[space->n_knobs - 1].former = name;
}

/* ---- Indices ---- */

void space_digits(const struct space *space, int64_t index, int64_t ret_digit[SPACE_MAX_KNOBS]) {
    assert(index >= 0 && index < space->size);
    for (int i = 0; i < space->n_knobs; i++) {
        ret_digit[i] = index % space->knobs[i].n_candidates;
        index /= space->knobs[i].n_candidates;
    }
}

int64_t space_index(const struct space *space, const int64_t *digit) {
    int64_t index = 0;
    for (int i = space->n_knobs - 1; i >= 0; i--)
        index = index * space->knobs[i].n_candidates + digit[i];
    return index;
}

int64_t space_value(const struct space *space, int64_t index, const char *knob, int part) {
    int64_t digit[SPACE_MAX_KNOBS];
    int i = 0;
    space_digits(space, index, digit);
    while (i < space->n_knobs && strcmp(space->knobs[i].name, knob) != 0)
        i++;
    assert(i < space->n_knobs && part < space->knobs[i].parts);
    return space->knobs[i].values[digit[i] * space->knobs[i].parts + part];
}

int64_t space_neighbour(const struct space *space, int64_t index, struct rng *rng) {
    int64_t digit[SPACE_MAX_KNOBS], neighbours = 0;
    space_digits(space, index, digit);
    for (int i = 0; i < space->n_knobs; i++)
        neighbours += space->knobs[i].n_candidates - 1;
    if (neighbours == 0)
        return index;
    int64_t pick = (int64_t)rng_below(rng, (uint64_t)neighbours);
    int i = 0;
    while (pick >= space->knobs[i].n_candidates - 1)
        pick -= space->knobs[i++].n_candidates - 1;
    digit[i] = pick + (pick >= digit[i]); /* the candidates other than the present one */
    return space_index(space, digit);
}

/* ---- Entities ---- */

struct json_object *space_entity(const struct space *space, int64_t index) {
    struct json_object *entity = json_object_new_array();
    int64_t digit[SPACE_MAX_KNOBS];
    space_digits(space, index, digit);
    for (int i = 0; i < space->n_knobs; i++) {
        const struct knob *knob = &space->knobs[i];
        const int64_t *values = knob->values + digit[i] * knob->parts;
        struct json_object *row = json_object_new_array(), *value = json_object_new_int64(values[0]);
        if (knob->kind == KNOB_SPLIT) {
            json_object_put(value);
            value = json_object_new_array();
            for (int part = 0; part < knob->parts; part++)
                json_object_array_add(value, json_object_new_int64(part ? values[part] : -1));
        }
        json_object_array_add(row, json_object_new_string(knob->name));
        json_object_array_add(row, json_object_new_string(knob->kind == KNOB_SPLIT ? "sp" : "ot"));
        json_object_array_add(row, value);
        json_object_array_add(entity, row);
    }
    return entity;
}

static bool is_array_of(struct json_object *value, size_t n) {
    return json_object_is_type(value, json_type_array) && json_object_array_length(value) == n;
}

static bool is_string(struct json_object *value, const char *text) {
    return json_object_is_type(value, json_type_string) && strcmp(json_object_get_string(value), text) == 0;
}

static bool is_int(struct json_object *value, int64_t number) {
    return json_object_is_type(value, json_type_int) && json_object_get_int64(value) == number;
}

/* A split's first factor may be written out or, as AutoTVM does now, -1. */
static bool value_fits(const struct knob *knob, const int64_t *values, struct json_object *value) {
    if (knob->kind == KNOB_OTHER)
        return is_int(value, values[0]);
    for (int part = 0; part < knob->parts; part++) {
        struct json_object *factor = json_object_array_get_idx(value, (size_t)part);
        if (!is_int(factor, values[part]) && !(part == 0 && is_int(factor, -1)))
            return false;
    }
    return true;
}

static bool row_has_name(struct json_object *row, const char *name) {
    return is_array_of(row, 3) && is_string(json_object_array_get_idx(row, 0), name);
}

/* The entity's row for knob `i`, or NULL. What stands at the knob's own place under either of its names is it. */
static struct json_object *find_row(const struct knob *knob, int i, struct json_object *entity) {
    struct json_object *row = json_object_array_get_idx(entity, (size_t)i);
    if (row_has_name(row, knob->name) || (knob->former && row_has_name(row, knob->former)))
        return row;
    for (size_t j = 0; j < json_object_array_length(entity); j++) {
        row = json_object_array_get_idx(entity, j);
        if (row_has_name(row, knob->name))
            return row;
    }
    return NULL;
}

/* The candidate that the entity's row for knob `i` names, or -1. */
static int64_t find_candidate(const struct knob *knob, int i, struct json_object *entity) {
    const char *kind = knob->kind == KNOB_SPLIT ? "sp" : "ot";
    struct json_object *row = find_row(knob, i, entity);
    if (!row)
        return -1;
    struct json_object *value = json_object_array_get_idx(row, 2);
    if (!is_string(json_object_array_get_idx(row, 1), kind) ||
        (knob->kind == KNOB_SPLIT && !is_array_of(value, (size_t)knob->parts)))
        return -1;
    for (int64_t c = 0; c < knob->n_candidates; c++) {
        if (value_fits(knob, knob->values + c * knob->parts, value))
            return c;
    }
    return -1;
}

int space_index_of_entity(const struct space *space, struct json_object *entity, int64_t *ret, struct error *error) {
    int64_t digit[SPACE_MAX_KNOBS] = {0};
    if (!is_array_of(entity, (size_t)space->n_knobs))
        return error_set(error, ERROR_INVALID, "bad-entity", "entity",
                         "The configuration is not a list of the space's %d knobs, each [name, kind, value].",
                         space->n_knobs);
    for (int i = 0; i < space->n_knobs; i++) {
        digit[i] = find_candidate(&space->knobs[i], i, entity);
        if (digit[i] < 0)
            return error_set(error, ERROR_INVALID, "bad-entity", space->knobs[i].name,
                             "The configuration has no value for the knob %s that is one of its %lld candidates.",
                             space->knobs[i].name, (long long)space->knobs[i].n_candidates);
    }
    *ret = space_index(space, digit);
    return 0;
}
