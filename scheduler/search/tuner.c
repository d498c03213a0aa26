/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/tuner.h"

#include <math.h>
#include <string.h>

static const struct tuner_class *const classes[] = {&tuner_auto, &tuner_xgb,    &tuner_xgb_rank,
                                                    &tuner_ga,   &tuner_random, &tuner_gridsearch};

int tuner_find(const char *name, const struct tuner_class **ret, struct error *error) {
    for (size_t i = 0; i < ARRAY_COUNT(classes); i++) {
        if (strcmp(classes[i]->name, name) == 0) {
            *ret = classes[i];
            return 0;
        }
    }
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < ARRAY_COUNT(classes); i++) {
        size_t len = strlen(classes[i]->name);
        if (used + len + 3 > sizeof names)
            break;
        memcpy(names + used, i ? ", " : "", i ? 2 : 0);
        used += i ? 2 : 0;
        memcpy(names + used, classes[i]->name, len + 1);
        used += len;
    }
    return error_set(error, ERROR_INVALID, "unknown-tuner", "tuner.name",
                     "There is no tuner '%.40s'. Choose one of: %s.", name, names);
}

const char *feature_name(enum feature_kind kind) {
    static const char *const names[] = {
        [FEATURE_ITERVAR] = "itervar", [FEATURE_KNOB] = "knob", [FEATURE_CURVE] = "curve"};
    return names[kind];
}

const char *loss_name(enum loss_kind loss) {
    static const char *const names[] = {[LOSS_REG] = "reg", [LOSS_RANK] = "rank", [LOSS_RANK_BINARY] = "rank-binary"};
    return names[loss];
}

int past_task_best(const struct past_task *past) {
    int best = -1;
    for (int i = 0; i < past->n; i++)
        if (isfinite(past->cost_s[i]) && (best < 0 || past->cost_s[i] < past->cost_s[best]))
            best = i;
    return best;
}

float past_task_score(const struct past_task *past, int best, int i) {
    return best >= 0 && isfinite(past->cost_s[i]) ? (float)(past->cost_s[best] / past->cost_s[i]) : 0;
}
