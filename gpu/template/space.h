/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.h: a search space: knobs, each with its list of candidates, and their product.
 *
 * A configuration's index is a mixed-radix number whose first-declared knob is the fastest digit, and `split` knobs
 * enumerate as AutoTVM's do, so that the index and the entity of one of its records agree both ways. A knob's entity is
 * [name, "sp", [-1, a, b, …]] for a split and [name, "ot", value] for another. Entities are read by the knobs' names,
 * in any order; where an older AutoTVM had another name for the knob at the same place, the place decides.
 */
#ifndef WARPTUNE_TEMPLATE_SPACE_H
#define WARPTUNE_TEMPLATE_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/arena.h"
#include "service/base/error.h"
#include "service/base/rng.h"

struct json_object;

enum knob_kind { KNOB_SPLIT, KNOB_OTHER };

#define SPLIT_MAX_PARTS 4
#define SPACE_MAX_KNOBS 24

struct knob {
    const char *name;
    enum knob_kind kind;
    int64_t extent;        /* split: what is divided */
    int parts;             /* split: how many factors a candidate has; other: 1 */
    int64_t n_candidates;  /* at least 1 */
    const int64_t *values; /* n_candidates × parts; a split's first factor is the quotient that remains */
    const char *former;    /* its name in older records, or NULL */
};

struct space {
    struct arena *arena;
    struct knob knobs[SPACE_MAX_KNOBS];
    int n_knobs;
    int64_t size; /* product of the candidates */
};

struct space *space_new(struct arena *arena);
/* All (parts-1)-tuples of divisors whose product divides the extent, in AutoTVM's order. */
void space_split(struct space *space, const char *name, int64_t extent, int parts);
/* A split limited to the listed candidates (each `parts` factors), for templates that filter. */
void space_split_list(struct space *space, const char *name, int64_t extent, int parts, const int64_t *factors,
                      int64_t n);
void space_choice(struct space *space, const char *name, const int64_t *values, int64_t n);
/* Another name under which records may have the knob that was added last, at its place. */
void space_former_name(struct space *space, const char *name);

/* Digits (one a knob) of an index in [0, size), and back. */
void space_digits(const struct space *space, int64_t index, int64_t ret_digit[SPACE_MAX_KNOBS]);
int64_t space_index(const struct space *space, const int64_t *digit);
/* The knob's value in a configuration: factor `part` of a split, or the choice (part 0). The knob must exist. */
int64_t space_value(const struct space *space, int64_t index, const char *knob, int part);
/* A different configuration that differs in one knob, uniformly. `index` itself when the space has one point. */
int64_t space_neighbour(const struct space *space, int64_t index, struct rng *rng);

/* [["tile_f","sp",[-1,2,16,1]],["unroll","ot",512]] and back; ERROR_INVALID names the knob that does not fit. */
struct json_object *space_entity(const struct space *space, int64_t index); /* caller releases */
int space_index_of_entity(const struct space *space, struct json_object *entity, int64_t *ret,
                          struct error *error) MUST_CHECK;

#endif
