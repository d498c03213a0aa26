/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/search/cost_model.h"
#include "service/base/rng.h"

enum { N = 400, WIDTH = 6 };

/* Rows whose worth is a smooth function of three of the six columns. */
static void make_rows(float *rows, float *labels, uint64_t seed) {
    struct rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < N; i++) {
        float *row = rows + (size_t)i * WIDTH;
        for (int c = 0; c < WIDTH; c++)
            row[c] = (float)rng_unit(&rng);
        labels[i] = (float)exp(-3 * fabs(row[0] - 0.7) - 2 * fabs(row[1] - 0.2) - row[2]);
    }
}

static double share_of_ordered_pairs(const float *scores, const float *labels) {
    int right = 0, all = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++)
            if (fabsf(labels[i] - labels[j]) > 0.05F) {
                right += (scores[i] > scores[j]) == (labels[i] > labels[j]);
                all++;
            }
    return (double)right / all;
}

Test(cost_model, orders_rows_it_has_not_seen_with_every_loss) {
    static float rows[N * WIDTH], labels[N], unseen[N * WIDTH], truth[N], scores[N];
    make_rows(rows, labels, 1);
    make_rows(unseen, truth, 2);
    static const struct {
        enum loss_kind loss;
        double least;
    } cases[] = {{LOSS_REG, 0.9}, {LOSS_RANK, 0.9}, {LOSS_RANK_BINARY, 0.75}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct cost_model_options options = {
            .loss = cases[i].loss, .rounds = 200, .patience = 20, .plan = 64, .n_threads = 1};
        struct cost_model *model;
        struct error error;
        cr_assert_eq(cost_model_fit(&options, &(struct sample_rows){rows, labels, NULL, N, WIDTH}, &model, &error), 0,
                     "%s: %s", loss_name(cases[i].loss), error.text);
        cr_assert_eq(cost_model_predict(model, unseen, NULL, N, scores, &error), 0, "%s", error.text);
        double share = share_of_ordered_pairs(scores, truth);
        cr_assert_gt(share, cases[i].least, "%s orders %.3f of the pairs", loss_name(cases[i].loss), share);
        cost_model_free(model);
    }
}

Test(cost_model, starts_from_a_margin) {
    static float rows[N * WIDTH], labels[N], margin[N], with[N], without[N];
    struct cost_model_options options = {.loss = LOSS_REG, .rounds = 4, .patience = 4, .plan = 64, .n_threads = 1};
    struct cost_model *model;
    struct error error;
    make_rows(rows, labels, 3);
    for (int i = 0; i < N; i++)
        margin[i] = 0.25F;
    cr_assert_eq(cost_model_fit(&options, &(struct sample_rows){rows, labels, margin, N, WIDTH}, &model, &error), 0);
    cr_assert_eq(cost_model_predict(model, rows, margin, N, with, &error), 0);
    memset(margin, 0, sizeof margin);
    cr_assert_eq(cost_model_predict(model, rows, margin, N, without, &error), 0);
    for (int i = 0; i < N; i++)
        cr_assert_float_eq(with[i] - without[i], 0.25F, 1e-4);
    cost_model_free(model);
}

static void fit_and_predict(const float *rows, const float *labels, const float *unseen, int width, float *scores) {
    struct cost_model_options options = {.loss = LOSS_REG, .rounds = 40, .patience = 20, .plan = 64, .n_threads = 1};
    struct cost_model *model;
    struct error error;
    cr_assert_eq(cost_model_fit(&options, &(struct sample_rows){rows, labels, NULL, N, width}, &model, &error), 0, "%s",
                 error.text);
    cr_assert_eq(cost_model_predict(model, unseen, NULL, N, scores, &error), 0, "%s", error.text);
    cost_model_free(model);
}

/* Columns that say nothing where it learns may say anything later. */
Test(cost_model, columns_that_tell_nothing_new_change_no_score) {
    enum { WIDE = 2 * WIDTH + 1 };
    static float rows[N * WIDTH], labels[N], unseen[N * WIDTH], truth[N], wide[N * WIDE], wide_unseen[N * WIDE];
    static float plain[N], scores[N];
    make_rows(rows, labels, 4);
    make_rows(unseen, truth, 5);
    for (int i = 0; i < N; i++) {
        float *row = wide + (size_t)i * WIDE, *unseen_row = wide_unseen + (size_t)i * WIDE;
        row[0] = 3;
        unseen_row[0] = (float)i;
        for (int c = 0; c < WIDTH; c++) {
            row[1 + 2 * c] = row[2 + 2 * c] = rows[i * WIDTH + c];
            unseen_row[1 + 2 * c] = unseen[i * WIDTH + c];
            unseen_row[2 + 2 * c] = (float)-i;
        }
    }
    fit_and_predict(rows, labels, unseen, WIDTH, plain);
    fit_and_predict(wide, labels, wide_unseen, WIDE, scores);
    cr_assert_eq(memcmp(plain, scores, sizeof plain), 0);
    cr_assert_gt(share_of_ordered_pairs(plain, truth), 0.9);
}

Test(cost_model, rows_all_alike_score_alike) {
    static float rows[N * WIDTH], labels[N], scores[N];
    for (int i = 0; i < N; i++)
        labels[i] = 0.5F;
    fit_and_predict(rows, labels, rows, WIDTH, scores);
    for (int i = 0; i < N; i++)
        cr_assert_float_eq(scores[i], 0.5F, 1e-3);
}

Test(cost_model, says_what_it_cannot_learn_from) {
    float row[WIDTH] = {0, 1, 2, INFINITY, 4, 5}, label = 1;
    struct cost_model_options options = {.loss = LOSS_REG, .rounds = 4, .patience = 4, .plan = 64, .n_threads = 1};
    struct cost_model *model;
    struct error error;
    cr_assert_eq(cost_model_fit(&options, &(struct sample_rows){row, &label, NULL, 0, WIDTH}, &model, &error), -1);
    cr_assert_str_eq(error.code, "no-samples");
    cr_assert_eq(cost_model_fit(&options, &(struct sample_rows){row, &label, NULL, 1, WIDTH}, &model, &error), -1);
    cr_assert_str_eq(error.code, "cost-model");
}
