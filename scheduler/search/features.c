/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/features.h"

#include <math.h>
#include <string.h>

enum {
    LOOP_FEATURES = 4 + LOOP_KIND_COUNT + 3, /* extent, nesting, products above and below; kind; operations */
    ACCESS_FEATURES = 6,                     /* stride, touched, count, reuse; the same two among threads */
    CURVE_SAMPLES = 20,
};

/* Magnitudes of all sizes on one scale, the sign kept. */
static float magnitude(double x) {
    return (float)(x < 0 ? -log2(1 - x) : log2(1 + x));
}

static bool is_thread(enum loop_kind kind) {
    return kind == LOOP_THREAD_X || kind == LOOP_THREAD_Y || kind == LOOP_THREAD_Z;
}

static void nest_of(const struct domain *domain, int64_t index, struct loop_nest *ret) {
    memset(ret, 0, sizeof *ret);
    domain->template->nest(domain->workload, domain->target, domain->space, index, ret);
}

static int knob_count(const struct space *space) {
    int n = 0;
    for (int k = 0; k < space->n_knobs; k++)
        n += space->knobs[k].parts;
    return n;
}

static void write_knobs(const struct space *space, int64_t index, float *ret) {
    int64_t digit[SPACE_MAX_KNOBS];
    space_digits(space, index, digit);
    for (int k = 0; k < space->n_knobs; k++) {
        const struct knob *knob = &space->knobs[k];
        for (int part = 0; part < knob->parts; part++)
            *ret++ = magnitude((double)knob->values[digit[k] * knob->parts + part]);
    }
}

/* How an access looks from a loop: elements it touches in all iterations of that loop and those inside it, and how
 * often each is touched. */
struct view {
    double touched, reuse, thread_count, thread_reuse;
};

static void look(const struct loop_nest *nest, const struct access *access, struct view *ret) {
    struct view view = {1, 1, 1, 1};
    for (int l = nest->n_loops - 1; l >= 0; l--) {
        double extent = (double)nest->loops[l].extent;
        bool moves = access->stride[l] != 0, thread = is_thread(nest->loops[l].kind);
        view.touched *= moves ? extent : 1;
        view.reuse *= moves ? 1 : extent;
        view.thread_count *= thread && moves ? extent : 1;
        view.thread_reuse *= thread && !moves ? extent : 1;
        ret[l] = view;
    }
}

static int itervar_count(const struct loop_nest *nest) {
    return nest->n_loops * (LOOP_FEATURES + nest->n_accesses * ACCESS_FEATURES);
}

static void write_itervars(const struct loop_nest *nest, float *ret) {
    struct view views[NEST_MAX_ACCESSES][NEST_MAX_LOOPS];
    double below[NEST_MAX_LOOPS + 1] = {0}, above = 1;
    below[nest->n_loops] = 1;
    for (int l = nest->n_loops - 1; l >= 0; l--)
        below[l] = below[l + 1] * (double)nest->loops[l].extent;
    for (int a = 0; a < nest->n_accesses; a++)
        look(nest, &nest->accesses[a], views[a]);
    for (int l = 0; l < nest->n_loops; l++) {
        const struct nest_loop *loop = &nest->loops[l];
        above *= (double)loop->extent;
        *ret++ = magnitude((double)loop->extent);
        *ret++ = (float)l;
        *ret++ = magnitude(above);
        *ret++ = magnitude(below[l]);
        for (int kind = 0; kind < LOOP_KIND_COUNT; kind++)
            *ret++ = loop->kind == (enum loop_kind)kind;
        *ret++ = magnitude(nest->additions * below[l]);
        *ret++ = magnitude(nest->multiplications * below[l]);
        *ret++ = magnitude(nest->divisions * below[l]);
        for (int a = 0; a < nest->n_accesses; a++) {
            const struct view *view = &views[a][l];
            *ret++ = magnitude((double)nest->accesses[a].stride[l]);
            *ret++ = magnitude(view->touched);
            *ret++ = magnitude(below[l] / view->touched);
            *ret++ = magnitude(view->reuse);
            *ret++ = magnitude(view->thread_count);
            *ret++ = magnitude(view->thread_reuse);
        }
    }
}

/* Of each access, the reuse at the levels where it has touched 2^i elements, and what it touched at a reuse of 2^i. */
static void write_curves(const struct loop_nest *nest, float *ret) {
    for (int a = 0; a < nest->n_accesses; a++) {
        struct view view[NEST_MAX_LOOPS];
        look(nest, &nest->accesses[a], view);
        for (int i = 0; i < CURVE_SAMPLES; i++) {
            double reuse = 1, touched = 1;
            for (int l = 0; l < nest->n_loops; l++) {
                if (view[l].touched <= ldexp(1, i))
                    reuse = fmax(reuse, view[l].reuse);
                if (view[l].reuse <= ldexp(1, i))
                    touched = fmax(touched, view[l].touched);
            }
            *ret++ = magnitude(reuse);
            *ret++ = magnitude(touched);
        }
    }
}

int features_count(const struct domain *domain, enum feature_kind kind) {
    struct loop_nest nest;
    if (kind == FEATURE_KNOB || !domain->template->nest)
        return knob_count(domain->space);
    nest_of(domain, 0, &nest);
    return kind == FEATURE_ITERVAR ? itervar_count(&nest) : nest.n_accesses * CURVE_SAMPLES * 2;
}

void features_write(const struct domain *domain, int64_t index, enum feature_kind kind, float *ret) {
    struct loop_nest nest;
    if (kind == FEATURE_KNOB || !domain->template->nest) {
        write_knobs(domain->space, index, ret);
        return;
    }
    nest_of(domain, index, &nest);
    if (kind == FEATURE_ITERVAR)
        write_itervars(&nest, ret);
    else
        write_curves(&nest, ret);
}
