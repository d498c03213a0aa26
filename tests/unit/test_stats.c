/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "api/stats.h"

static const struct route *route_of(const char *method, const char *pattern) {
    for (const struct route *route = routes; route->method; route++)
        if (strcmp(route->method, method) == 0 && strcmp(route->pattern, pattern) == 0)
            return route;
    cr_assert_fail("no route %s %s", method, pattern);
    return NULL;
}

static void expect_line(const struct buf *text, const char *line) {
    const char *found = strstr(buf_str(text), line);
    cr_expect(found && found[strlen(line)] == '\n', "%s in:\n%s", line, buf_str(text));
}

Test(stats, answers_are_counted_by_route_and_status) {
    struct stats *stats = stats_new();
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 20);
    stats_add(stats, route_of("GET", "/v1/jobs/{id}"), 200, 0.0004);
    stats_add(stats, route_of("GET", "/v1/jobs/{id}"), 200, 0.002);
    stats_add(stats, route_of("GET", "/v1/jobs/{id}"), 404, 100);
    stats_add(stats, route_of("POST", "/v1/jobs"), 202, 0.02);
    stats_add(stats, NULL, 404, 0.001);
    stats_add(stats, NULL, 999, 0.001);
    stats_write(stats, &text);
    expect_line(&text, "warptune_http_requests_total{method=\"GET\",route=\"/v1/jobs/{id}\",status=\"200\"} 2");
    expect_line(&text, "warptune_http_requests_total{method=\"GET\",route=\"/v1/jobs/{id}\",status=\"404\"} 1");
    expect_line(&text, "warptune_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"202\"} 1");
    expect_line(&text, "warptune_http_requests_total{method=\"none\",route=\"none\",status=\"404\"} 1");
    expect_line(&text, "warptune_http_requests_total{method=\"none\",route=\"none\",status=\"other\"} 1");
    stats_free(stats);
}

Test(stats, times_are_cumulative_and_leave_out_those_who_wait) {
    struct stats *stats = stats_new();
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 20);
    const struct route *route = route_of("GET", "/v1/jobs/{id}");
    stats_add(stats, route, 200, 0.0004);
    stats_add(stats, route, 200, 0.0021);
    stats_add(stats, route, 200, 100);
    stats_add(stats, route, 200, -1);
    stats_write(stats, &text);
#define TIMES "warptune_http_request_seconds"
#define LABELS "method=\"GET\",route=\"/v1/jobs/{id}\""
    expect_line(&text, TIMES "_bucket{" LABELS ",le=\"0.0005\"} 1");
    expect_line(&text, TIMES "_bucket{" LABELS ",le=\"0.001\"} 1");
    expect_line(&text, TIMES "_bucket{" LABELS ",le=\"0.0025\"} 2");
    expect_line(&text, TIMES "_bucket{" LABELS ",le=\"60\"} 2");
    expect_line(&text, TIMES "_bucket{" LABELS ",le=\"+Inf\"} 3");
    expect_line(&text, TIMES "_sum{" LABELS "} 100.002500");
    expect_line(&text, TIMES "_count{" LABELS "} 3");
    stats_free(stats);
}
