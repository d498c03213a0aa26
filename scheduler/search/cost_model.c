/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/cost_model.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xgboost/c_api.h>

/* Below so many rows threads wait for one another longer than they compute. */
enum { CHECK_EVERY = 2, MOST_THREADS = 8, ROWS_A_THREAD = 4000 };

struct cost_model {
    BoosterHandle booster;
    int width;    /* of the rows */
    int *columns; /* of them, those that the trees see, ascending */
    int n_columns;
};

static int failed(struct error *error, const char *what) {
    return error_set(error, ERROR_INTERNAL, "cost-model", NULL, "XGBoost could not %s: %.600s", what,
                     XGBGetLastError());
}

/* A matrix of the model's columns of the rows, with labels and margin when they are given. */
static int make_matrix(const struct cost_model *model, const float *rows, const float *labels, const float *margin,
                       int n, DMatrixHandle *ret, struct error *error) {
    bst_ulong count = (bst_ulong)n, width = (bst_ulong)model->n_columns;
    float *narrow = calloc(count * width, sizeof *narrow);
    if (!narrow)
        abort();
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < width; c++)
            narrow[i * width + c] = rows[i * (size_t)model->width + (size_t)model->columns[c]];
    int rc = XGDMatrixCreateFromMat_omp(narrow, count, width, NAN, ret, 1);
    free(narrow);
    if (rc != 0)
        return failed(error, "take the rows");
    if ((labels && XGDMatrixSetFloatInfo(*ret, "label", labels, count) != 0) ||
        (margin && XGDMatrixSetFloatInfo(*ret, "base_margin", margin, count) != 0)) {
        XGDMatrixFree(*ret);
        return failed(error, "take the labels");
    }
    return 0;
}

/* ---- columns that tell rows apart ---- */

static float *transpose(const float *rows, size_t n, size_t width) {
    float *ret = calloc(n * width, sizeof *ret);
    if (!ret)
        abort();
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            ret[c * n + i] = rows[i * width + c];
    return ret;
}

/* Whether trees may split by column c: it has two values, and no column that the model has is the same. What is not
 * finite is left for XGBoost to refuse. */
static bool tells_apart(const struct cost_model *model, const float *transposed, size_t n, int c) {
    const float *column = transposed + (size_t)c * n;
    size_t i = 1;
    while (i < n && column[i] == column[0])
        i++;
    if (i == n && isfinite(column[0]))
        return false;
    for (int k = 0; k < model->n_columns; k++)
        if (memcmp(transposed + (size_t)model->columns[k] * n, column, n * sizeof *column) == 0)
            return false;
    return true;
}

/*
 * Leaves out the columns that no tree would split by: of one value only, or the same as one before them, which wins
 * every tie. The trees stay what they are, and of a loop nest's features, six in seven go: so does the time.
 */
static void choose_columns(struct cost_model *model, const float *rows, int n) {
    float *transposed = transpose(rows, (size_t)n, (size_t)model->width);
    model->columns = calloc((size_t)model->width, sizeof *model->columns);
    if (!model->columns)
        abort();
    for (int c = 0; c < model->width; c++)
        if (tells_apart(model, transposed, (size_t)n, c))
            model->columns[model->n_columns++] = c;
    /* Rows that are all alike: XGBoost needs a column all the same, and the first is there. */
    if (model->n_columns == 0)
        model->n_columns = 1;
    free(transposed);
}

static int choose_threads(const struct cost_model_options *options, int n_rows) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN), most = cores < MOST_THREADS ? cores : MOST_THREADS;
    long useful = 1 + n_rows / ROWS_A_THREAD;
    return options->n_threads > 0 ? options->n_threads : (int)(useful < most ? useful : most);
}

static int set_parameters(BoosterHandle booster, const struct cost_model_options *options, int n_rows,
                          struct error *error) {
    char threads[16], seed[24];
    snprintf(threads, sizeof threads, "%d", choose_threads(options, n_rows));
    snprintf(seed, sizeof seed, "%u", (unsigned)(options->seed & 0x7fffffff));
    const char *const parameters[][2] = {
        {"objective", options->loss == LOSS_REG ? "reg:squarederror" : "rank:pairwise"},
        {"max_depth", "3"},
        {"eta", "0.3"},
        {"gamma", "0.0001"},
        {"min_child_weight", "1"},
        {"subsample", "1.0"},
        {"lambda", "1"},
        {"alpha", "0"},
        {"verbosity", "0"},
        {"nthread", threads},
        {"seed", seed},
    };
    for (size_t i = 0; i < ARRAY_COUNT(parameters); i++)
        if (XGBoosterSetParam(booster, parameters[i][0], parameters[i][1]) != 0)
            return failed(error, "take a parameter");
    return 0;
}

/* ---- when to stop: recall of the best ---- */

struct ranked {
    float score;
    int row;
};

static int higher_first(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static void rank(const float *scores, int n, struct ranked *ret) {
    for (int i = 0; i < n; i++)
        ret[i] = (struct ranked){scores[i], i};
    qsort(ret, (size_t)n, sizeof *ret, higher_first);
}

/* The mean over k = 1 … plan of the share of the k truly best rows among the k that score best. `place[row]`: the
 * row's true rank. */
static double average_recall(const float *scores, const int *place, int n, int plan, struct ranked *work) {
    double sum = 0;
    int most = plan < n ? plan : n;
    rank(scores, n, work);
    for (int k = 1; k <= most; k++) {
        int hits = 0;
        for (int i = 0; i < k; i++)
            hits += place[work[i].row] < k;
        sum += (double)hits / k;
    }
    return most ? sum / most : 0;
}

static int predict_matrix(BoosterHandle booster, DMatrixHandle matrix, const float **ret, struct error *error) {
    bst_ulong n = 0;
    return XGBoosterPredict(booster, matrix, 0, 0, 0, &n, ret) != 0 ? failed(error, "predict") : 0;
}

static int boost(BoosterHandle booster, DMatrixHandle matrix, const struct cost_model_options *options,
                 const int *place, int n, struct ranked *work, struct error *error) {
    double best = -1;
    for (int round = 0, best_round = 0; round < options->rounds && round - best_round < options->patience; round++) {
        const float *scores;
        if (XGBoosterUpdateOneIter(booster, round, matrix) != 0)
            return failed(error, "train");
        if (round % CHECK_EVERY)
            continue;
        if (predict_matrix(booster, matrix, &scores, error) < 0)
            return -1;
        double recall = average_recall(scores, place, n, options->plan, work);
        if (recall > best) {
            best = recall;
            best_round = round;
        }
    }
    return 0;
}

static int fit(const struct cost_model_options *options, const struct sample_rows *samples, const float *labels,
               struct cost_model *model, struct error *error) {
    DMatrixHandle matrix;
    struct ranked *work = calloc((size_t)samples->n, sizeof *work);
    int *place = calloc((size_t)samples->n, sizeof *place);
    if (!work || !place)
        abort();
    rank(samples->labels, samples->n, work);
    for (int i = 0; i < samples->n; i++)
        place[work[i].row] = i;
    choose_columns(model, samples->rows, samples->n);
    int rc = make_matrix(model, samples->rows, labels, samples->margin, samples->n, &matrix, error);
    if (rc == 0) {
        if (XGBoosterCreate(&matrix, 1, &model->booster) != 0)
            rc = failed(error, "start");
        else if (set_parameters(model->booster, options, samples->n, error) < 0 ||
                 boost(model->booster, matrix, options, place, samples->n, work, error) < 0)
            rc = -1;
        else if (XGBoosterSetParam(model->booster, "nthread", "1") != 0)
            rc = failed(error, "take a parameter");
        XGDMatrixFree(matrix);
    }
    free(work);
    free(place);
    return rc;
}

int cost_model_fit(const struct cost_model_options *options, const struct sample_rows *samples, struct cost_model **ret,
                   struct error *error) {
    struct cost_model *model = calloc(1, sizeof *model);
    float *labels = calloc((size_t)samples->n + 1, sizeof *labels);
    if (!model || !labels)
        abort();
    model->width = samples->width;
    for (int i = 0; i < samples->n; i++)
        labels[i] = options->loss == LOSS_RANK_BINARY ? samples->labels[i] > 0.5F : samples->labels[i];
    int rc = samples->n < 1 ? error_set(error, ERROR_INVALID, "no-samples", NULL, "There are no samples to learn from.")
                            : fit(options, samples, labels, model, error);
    free(labels);
    if (rc < 0) {
        cost_model_free(model);
        return -1;
    }
    *ret = model;
    return 0;
}

int cost_model_predict(struct cost_model *model, const float *rows, const float *margin, int n, float *ret,
                       struct error *error) {
    DMatrixHandle matrix;
    const float *scores;
    if (n == 0)
        return 0;
    if (make_matrix(model, rows, NULL, margin, n, &matrix, error) < 0)
        return -1;
    int rc = predict_matrix(model->booster, matrix, &scores, error);
    if (rc == 0)
        memcpy(ret, scores, (size_t)n * sizeof *ret);
    XGDMatrixFree(matrix);
    return rc;
}

void cost_model_free(struct cost_model *model) {
    if (!model)
        return;
    if (model->booster)
        XGBoosterFree(model->booster);
    free(model->columns);
    free(model);
}
