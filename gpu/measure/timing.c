/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a verified candidate takes. The verification's runs give the first estimate of its duration, the first
 * repeat a good one; how often it is executed follows from these, under limits that nothing exceeds.
 */
#include <math.h>
#include <time.h>

#include "gpu/measure/bench_internal.h"
#include "gpu/measure/steady.h"
#include "service/base/clock.h"

enum { MOST_EXECUTIONS = 100000, MOST_ATTEMPTS = 3, FINE_ROUNDS = 8, COARSE_ROUNDS = 64, TOO_LATE = 2 };
/* A repeat may be this much shorter than asked for. */
#define ENOUGH 0.8
/* Of the time that is left, what one repeat may take by the estimate. */
#define REPEAT_SHARE 0.25
#define GUESS_S 0.03
#define ROUND_S 500e-6
/* Times the bound: a first repeat above this is the last; a verifying run above that is the only figure. */
#define CUT_SHORT 1.5
#define HOPELESS 4
/* Verifying runs at least this long are hardly longer than the kernel. */
#define LONG_S 200e-6
/* A reading of the device's state is good for this long. */
#define STATE_NS (NS_PER_S / 50)

static double left_s(int64_t deadline) {
    return (double)(deadline - clock_now_ns()) / NS_PER_S;
}

static double at_least(double value, double least) {
    return value > least ? value : least;
}

/* Executions of one repeat that are asked for, if one takes this long. */
static double wanted_executions(const struct measure_options *options, double execution_s) {
    double wanted = ceil(options->min_repeat_ms / 1e3 / at_least(execution_s, 1e-9));
    wanted = at_least(at_least(wanted, options->number), 1);
    return wanted < MOST_EXECUTIONS ? wanted : MOST_EXECUTIONS;
}

/* For a slow kernel it matters little what the last execution left in the cache: it gets fewer sets, so that a round,
 * which is also the least that is executed before timing, is short. */
static int choose_sets(const struct bench *bench, const struct measure_options *options, double execution_s) {
    double sets = fmin(wanted_executions(options, execution_s), floor(ROUND_S / at_least(execution_s, 1e-9)));
    return sets < 1 ? 1 : sets < bench->n_timed ? (int)sets : bench->n_timed;
}

/* Rounds over all sets in one repeat, as far as executions and time allow; many are a multiple of what is captured. */
static int choose_rounds(const struct measure_options *options, int n_sets, double execution_s, double time_s) {
    double most = fmin(floor((double)MOST_EXECUTIONS / n_sets), time_s / at_least(execution_s * n_sets, 1e-9));
    double rounds = ceil(wanted_executions(options, execution_s) / n_sets);
    double step = rounds > (double)FINE_ROUNDS * COARSE_ROUNDS ? COARSE_ROUNDS : rounds > FINE_ROUNDS ? FINE_ROUNDS : 1;
    rounds = ceil(rounds / step) * step;
    if (rounds > most)
        rounds = most > step ? floor(most / step) * step : most;
    return rounds < 1 ? 1 : (int)rounds;
}

static int choose_repeats(const struct measure_options *options, double repeat_s, double time_s) {
    int n = options->repeat < 1 ? 1 : options->repeat > TRIAL_MAX_COSTS ? TRIAL_MAX_COSTS : options->repeat;
    double fit = time_s / at_least(repeat_s, 1e-9);
    return fit < 1 ? 1 : fit < n ? (int)fit : n;
}

/* Whether a repeat lasted as long, and had as many executions, as was asked for. */
static bool is_enough(const struct measure_options *options, double executions, double seconds) {
    double number = options->number < MOST_EXECUTIONS ? options->number : MOST_EXECUTIONS;
    return seconds * 1e3 >= ENOUGH * options->min_repeat_ms && executions >= ENOUGH * number;
}

/*
 * The first repeat; one that turns out short is done again with more rounds, and was a warm-up. A first guess from the
 * verification fills no more than a little time, in case it is wrong.
 */
static int time_first(const struct candidate *candidate, const struct measure_options *options, int n_sets,
                      int64_t deadline, int *ret_rounds, double *ret_seconds, struct error *error) {
    double guess_s = fmin(GUESS_S, left_s(deadline) * REPEAT_SHARE), seconds = 0;
    int rounds = choose_rounds(options, n_sets, candidate->estimate_s, guess_s);
    for (int attempt = 1;; attempt++) {
        if (candidate_time(candidate, n_sets, rounds, 1, &seconds, error) < 0)
            return -1;
        double executions = (double)rounds * n_sets;
        int better = choose_rounds(options, n_sets, seconds / executions, left_s(deadline) * REPEAT_SHARE);
        if (better <= rounds || attempt == MOST_ATTEMPTS || is_enough(options, executions, seconds))
            break;
        rounds = better;
    }
    *ret_rounds = rounds;
    *ret_seconds = seconds;
    return 0;
}

static int time_once(struct candidate *candidate, const struct measure_options *options, double bound_s,
                     int64_t deadline, struct bench_result *result, struct error *error) {
    int n_sets = choose_sets(candidate->bench, options, candidate->estimate_s), rounds = 0;
    double seconds[TRIAL_MAX_COSTS];
    if (candidate_prepare(candidate, n_sets, error) < 0 ||
        time_first(candidate, options, n_sets, deadline, &rounds, seconds, error) < 0)
        return -1;
    double executions = (double)rounds * n_sets;
    int n = choose_repeats(options, seconds[0], left_s(deadline));
    result->flags &= ~(unsigned)TRIAL_CUT_SHORT;
    if (n > 1 && bound_s > 0 && seconds[0] / executions > CUT_SHORT * bound_s) {
        result->flags |= TRIAL_CUT_SHORT;
        n = 1;
    }
    if (n > 1 && candidate_time(candidate, n_sets, rounds, n - 1, seconds + 1, error) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        result->costs_s[i] = seconds[i] / executions;
    result->n_costs = n;
    return 0;
}

/* What the device says, or said a moment ago. */
static struct device_state read_state(struct bench *bench, bool fresh, bool recent_will_do) {
    int64_t now = clock_now_ns();
    if (recent_will_do && bench->state_at_ns > 0 && now - bench->state_at_ns < STATE_NS)
        return bench->state;
    bench->class->watch(bench->device, fresh, &bench->state);
    bench->state_at_ns = now;
    steady_note(bench->steady, &bench->state);
    return bench->state;
}

static void pause_for(double seconds) {
    struct timespec time = {0, (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

/* Whether verifying has shown it to be so slow that nothing more need be known. */
static bool is_hopeless(const struct candidate *candidate, double bound_s) {
    return bound_s > 0 && candidate->estimate_s > LONG_S && candidate->estimate_s > HOPELESS * bound_s;
}

int time_candidate(struct candidate *candidate, const struct measure_options *options, double bound_s, int64_t deadline,
                   struct bench_result *result, struct error *error) {
    struct bench *bench = candidate->bench;
    if (is_hopeless(candidate, bound_s)) {
        result->costs_s[0] = candidate->estimate_s;
        result->n_costs = 1;
        result->flags = TRIAL_CUT_SHORT;
        result->state = read_state(bench, false, true);
        return 0;
    }
    for (int patience = steady_patience(bench->steady);; patience--) {
        int64_t begin = clock_now_ns();
        struct device_state before = read_state(bench, result->again > 0, result->again == 0);
        if (time_once(candidate, options, bound_s, deadline, result, error) < 0)
            return -1;
        result->state = read_state(bench, false, false);
        unsigned disturbed = steady_judge(&before, &result->state, bench->steady->top_clock_mhz);
        double took_s = (double)(clock_now_ns() - begin) / NS_PER_S;
        bench->steady->restless = disturbed != 0;
        if (disturbed == 0)
            return 0;
        if (patience == 0 || left_s(deadline) < TOO_LATE * took_s) {
            result->flags |= disturbed;
            return 0;
        }
        pause_for(steady_pause_s(++result->again));
    }
}
