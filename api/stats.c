/* SPDX-License-Identifier: Apache-2.0 */
#include "api/stats.h"

#include <stdatomic.h>
#include <stdlib.h>

static const unsigned short statuses[] = {200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405, 406, 408, 409,
                                          410, 411, 412, 413, 415, 416, 422, 429, 500, 502, 503, 504, 0 /* others */};
static const double bounds_s[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60};

struct row {
    atomic_ullong answers[ARRAY_COUNT(statuses)];
    atomic_ullong buckets[ARRAY_COUNT(bounds_s) + 1]; /* the last: longer than all bounds */
    atomic_ullong sum_us;
};

struct stats {
    size_t n_routes;
    struct row rows[]; /* one a route, and one for what matches none */
};

struct stats *stats_new(void) {
    size_t n = 0;
    while (routes[n].method)
        n++;
    struct stats *stats = calloc(1, sizeof *stats + (n + 1) * sizeof stats->rows[0]);
    if (!stats)
        abort();
    stats->n_routes = n;
    return stats;
}

void stats_free(struct stats *stats) {
    free(stats);
}

static void count(atomic_ullong *counter, unsigned long long by) {
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

void stats_add(struct stats *stats, const struct route *route, unsigned status, double seconds) {
    struct row *row = &stats->rows[route ? (size_t)(route - routes) : stats->n_routes];
    size_t i = 0, bucket = 0;
    while (statuses[i] && statuses[i] != status)
        i++;
    count(&row->answers[i], 1);
    if (seconds < 0)
        return;
    while (bucket < ARRAY_COUNT(bounds_s) && seconds > bounds_s[bucket])
        bucket++;
    count(&row->buckets[bucket], 1);
    count(&row->sum_us, (unsigned long long)(seconds * 1e6));
}

/* The labels that every line about a route begins with. */
static void put_labels(const struct stats *stats, size_t i, struct buf *out) {
    bool known = i < stats->n_routes;
    buf_printf(out, "{method=\"%s\",route=\"%s\"", known ? routes[i].method : "none",
               known ? routes[i].pattern : "none");
}

static void write_answers(struct stats *stats, size_t i, struct buf *out) {
    for (size_t s = 0; s < ARRAY_COUNT(statuses); s++) {
        unsigned long long n = atomic_load(&stats->rows[i].answers[s]);
        if (n == 0)
            continue;
        buf_puts(out, "warptune_http_requests_total");
        put_labels(stats, i, out);
        if (statuses[s])
            buf_printf(out, ",status=\"%d\"} %llu\n", statuses[s], n);
        else
            buf_printf(out, ",status=\"other\"} %llu\n", n);
    }
}

static void write_times(struct stats *stats, size_t i, struct buf *out) {
    struct row *row = &stats->rows[i];
    unsigned long long total = 0, sum_us = atomic_load(&row->sum_us), buckets[ARRAY_COUNT(row->buckets)];
    for (size_t b = 0; b < ARRAY_COUNT(buckets); b++)
        total += buckets[b] = atomic_load(&row->buckets[b]);
    if (total == 0)
        return;
    unsigned long long so_far = 0;
    for (size_t b = 0; b < ARRAY_COUNT(buckets); b++) {
        so_far += buckets[b];
        buf_puts(out, "warptune_http_request_seconds_bucket");
        put_labels(stats, i, out);
        if (b < ARRAY_COUNT(bounds_s))
            buf_printf(out, ",le=\"%g\"} %llu\n", bounds_s[b], so_far);
        else
            buf_printf(out, ",le=\"+Inf\"} %llu\n", so_far);
    }
    buf_puts(out, "warptune_http_request_seconds_sum");
    put_labels(stats, i, out);
    buf_printf(out, "} %llu.%06llu\nwarptune_http_request_seconds_count", sum_us / 1000000, sum_us % 1000000);
    put_labels(stats, i, out);
    buf_printf(out, "} %llu\n", total);
}

void stats_write(struct stats *stats, struct buf *out) {
    buf_puts(out, "# HELP warptune_http_requests_total Requests answered, by route and status.\n"
                  "# TYPE warptune_http_requests_total counter\n");
    for (size_t i = 0; i <= stats->n_routes; i++)
        write_answers(stats, i, out);
    buf_puts(out, "# HELP warptune_http_request_seconds From a request's first line until its answer begins; requests "
                  "that waited because they asked to are left out.\n"
                  "# TYPE warptune_http_request_seconds histogram\n");
    for (size_t i = 0; i <= stats->n_routes; i++)
        write_times(stats, i, out);
}
