/* SPDX-License-Identifier: Apache-2.0 */
/* tuner_state.h: what tuners keep in their state, as JSON and back: generators, lists of indices and of numbers. */
#ifndef WARPTUNE_SEARCH_TUNER_STATE_H
#define WARPTUNE_SEARCH_TUNER_STATE_H

#include "service/base/json.h"
#include "service/base/rng.h"

void state_add_rng(struct json_object *state, const struct rng *rng);
int state_read_rng(struct json_object *state, struct rng *ret, struct error *error) MUST_CHECK;
void state_add_list(struct json_object *state, const char *field, const int64_t *list, int n);
/* At most `most` numbers in [0, below). */
int state_read_list(struct json_object *state, const char *field, int64_t below, int64_t *ret, int most, int *ret_n,
                    struct error *error) MUST_CHECK;

#endif
