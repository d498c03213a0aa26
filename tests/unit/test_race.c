/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>

#include "scheduler/race.h"

enum { BEST, SECOND, BASELINE };

static struct race start(void) {
    struct race race = {.most_rounds = RACE_MOST_ROUNDS};
    race_add(&race, (struct point){0, 11}, false);
    race_add(&race, (struct point){1, 11}, false);
    race_add(&race, (struct point){0, 3}, true);
    return race;
}

/* Runs it to the end: contestant i costs cost[i], and swings around it by swing[i] from round to round. */
static void run(struct race *race, const double *cost, const double *swing) {
    int number[RACE_CONTESTANTS], n;
    while ((n = race_next(race, number)) > 0)
        for (int i = 0; i < n; i++) {
            int rounds = race->contestants[number[i]].rounds;
            race_record(race, number[i], cost[number[i]] + (rounds % 3 - 1) * swing[number[i]]);
        }
}

Test(race, the_fastest_are_kept_in_order) {
    static const double cost[] = {5, 3, INFINITY, 8, 3, 1, 9, 4, 2, 10, 6, 7};
    static const int64_t order[RACE_FASTEST] = {5, 8, 1, 4, 7, 0, 10, 11};
    struct fastest fastest = {0};
    for (int i = 0; i < 12; i++)
        fastest_add(&fastest, &(struct measured){{0, i}, cost[i]});
    cr_assert_eq(fastest.n, RACE_FASTEST);
    for (int i = 0; i < RACE_FASTEST; i++)
        cr_expect_eq(fastest.list[i].point.index, order[i], "place %d", i);
}

Test(race, the_runner_up_enters_and_those_that_may_be_as_fast) {
    static const double cost[] = {1, 1.2, 1.04, 1.06, 1.03};
    struct fastest fastest = {0};
    struct race race = {.most_rounds = RACE_MOST_ROUNDS}, apart = race;
    for (int i = 0; i < 5; i++)
        fastest_add(&fastest, &(struct measured){{0, i}, cost[i]});
    race_add_fastest(&race, &fastest);
    cr_assert_eq(race.n, 3);
    cr_expect_eq(race.contestants[2].point.index, 2);
    fastest = (struct fastest){.list = {{{0, 1}, 1}, {{0, 2}, 7}}, .n = 2};
    race_add_fastest(&apart, &fastest);
    cr_expect_eq(apart.n, 2);
}

/* The best of the search was luck by a fifth, so what it saw a sixth behind may be the best. */
Test(race, where_figures_moved_more_enter_after_the_first_round) {
    static const double searched[] = {1, 1.02, 1.18, 1.3}, real[] = {1.2, 1.1, 1.05, 0};
    struct fastest fastest = {0};
    struct race race = {.most_rounds = RACE_LEAST_ROUNDS};
    int number[RACE_CONTESTANTS], n;
    for (int i = 0; i < 4; i++)
        fastest_add(&fastest, &(struct measured){{0, i}, searched[i]});
    race_add_fastest(&race, &fastest);
    cr_assert_eq(race.n, 2);
    for (int round = 0; (n = race_next(&race, number)) > 0; round++) {
        for (int i = 0; i < n; i++)
            race_record(&race, number[i], real[race.contestants[number[i]].point.index]);
        if (round == 0)
            race_add_fastest(&race, &fastest);
    }
    cr_assert_eq(race.n, 3);
    cr_expect_eq(race.contestants[0].rounds, 4);
    cr_expect_eq(race.contestants[2].rounds, 3);
    cr_expect_eq(race_winner(&race), 2);
}

Test(race, where_they_stayed_nobody_else_enters) {
    struct fastest fastest = {.list = {{{0, 1}, 1}, {{0, 2}, 1.01}, {{0, 3}, 1.06}}, .n = 3};
    struct race race = {.most_rounds = RACE_MOST_ROUNDS};
    race_add_fastest(&race, &fastest);
    race_record(&race, 0, 1.02);
    race_record(&race, 1, INFINITY);
    race_add_fastest(&race, &fastest);
    cr_expect_eq(race.n, 2);
}

Test(race, a_clear_one_takes_three_rounds) {
    struct race race = start();
    run(&race, (const double[]){1, 1.5, 3}, (const double[]){0.1, 0.1, 0.1});
    for (int i = 0; i < 3; i++)
        cr_expect_eq(race.contestants[i].rounds, 3);
    cr_expect_eq(race_winner(&race), BEST);
    cr_expect_eq(contestant_median(&race.contestants[BEST]), 1);
    cr_expect_float_eq(contestant_spread(&race.contestants[BEST]), 0.1, 1e-12);
}

Test(race, those_within_reach_of_the_leader_run_on) {
    struct race race = start();
    run(&race, (const double[]){1.05, 1, 3}, (const double[]){0.1, 0.1, 0.1});
    cr_expect_eq(race.contestants[BEST].rounds, RACE_MOST_ROUNDS);
    cr_expect_eq(race.contestants[SECOND].rounds, RACE_MOST_ROUNDS);
    cr_expect_eq(race.contestants[BASELINE].rounds, 3);
    cr_expect_eq(race_winner(&race), SECOND);
}

Test(race, between_equals_nothing_needs_deciding) {
    struct race race = start();
    run(&race, (const double[]){1, 1.001, 3}, (const double[]){0.1, 0.1, 0.1});
    cr_expect_eq(race.contestants[BEST].rounds, 3);
}

Test(race, it_ends_at_the_rounds_allowed) {
    struct race race = start();
    race.most_rounds = 5;
    run(&race, (const double[]){1, 1.05, 1.06}, (const double[]){0.1, 0.1, 0.1});
    for (int i = 0; i < 3; i++)
        cr_expect_eq(race.contestants[i].rounds, 5);
}

Test(race, each_round_begins_with_another) {
    struct race race = start();
    int number[RACE_CONTESTANTS];
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(race_next(&race, number), 3);
        cr_expect_eq(number[0], round);
        for (int i = 0; i < 3; i++)
            race_record(&race, i, 1 + i);
    }
}

Test(race, the_baseline_wins_unless_it_is_slower_by_more_than_the_spread) {
    struct race race = start();
    run(&race, (const double[]){1, 1.2, 1.05}, (const double[]){0.02, 0.01, 0.1});
    cr_expect_eq(race_winner(&race), BASELINE);
    race = start();
    run(&race, (const double[]){1, 1.2, 1.05}, (const double[]){0.02, 0.01, 0.04});
    cr_expect_eq(race_winner(&race), BEST);
}

Test(race, who_fails_does_not_win) {
    struct race race = start();
    run(&race, (const double[]){INFINITY, 2, 3}, (const double[]){0, 0.1, 0.1});
    cr_expect_eq(race_winner(&race), SECOND);
    race = start();
    run(&race, (const double[]){INFINITY, INFINITY, 3}, (const double[]){0, 0, 0.1});
    cr_expect_eq(race_winner(&race), BASELINE);
    race = start();
    run(&race, (const double[]){2, INFINITY, INFINITY}, (const double[]){0.1, 0, 0});
    cr_expect_eq(race_winner(&race), BEST);
    race = start();
    run(&race, (const double[]){INFINITY, INFINITY, INFINITY}, (const double[]){0, 0, 0});
    cr_expect_eq(race_winner(&race), -1);
}

Test(race, one_point_runs_once_a_round) {
    struct race race = {.most_rounds = RACE_MOST_ROUNDS};
    race_add(&race, (struct point){0, 3}, false);
    race_add(&race, (struct point){0, 3}, true);
    cr_assert_eq(race.n, 1);
    cr_expect_eq(race_baseline(&race), 0);
    run(&race, (const double[]){2}, (const double[]){0.5});
    cr_expect_eq(race.contestants[0].rounds, 3);
    cr_expect_eq(race_winner(&race), 0);
    cr_expect_eq(contestant_spread(&race.contestants[0]), 0.5);
}

Test(race, of_nobody_is_won_by_nobody) {
    struct race race = {.most_rounds = RACE_MOST_ROUNDS};
    int number[RACE_CONTESTANTS];
    cr_expect_eq(race_next(&race, number), 0);
    cr_expect_eq(race_winner(&race), -1);
    cr_expect_eq(race_baseline(&race), -1);
}
