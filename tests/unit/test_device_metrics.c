/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "api/device_metrics.h"

static void expect_line(const struct buf *text, const char *line) {
    const char *found = strstr(buf_str(text), line);
    cr_expect(found && found[strlen(line)] == '\n', "%s in:\n%s", line, buf_str(text));
}

Test(device_metrics, each_figure_that_is_told_has_a_line) {
    struct worker_device devices[] = {
        {.kind = "cuda",
         .ordinal = 1,
         .state = "{\"temperature_c\": 41, \"utilization_percent\": 97}",
         .counters = "{\"trials\": [7, 1, 0, 2, 0, 0, 3, 0, 0], \"busy_s\": 12.5}"},
        {.kind = "cpu", .ordinal = 0, .state = NULL, .counters = "{\"trials\": \"no\", \"busy_s\": null}"},
        {.kind = "cpu", .ordinal = 1, .state = "no JSON", .counters = NULL}};
    struct worker_row workers[] = {{.host = "a\"b", .pid = 12, .devices = devices, .n_devices = 2},
                                   {.host = "c", .pid = 1, .devices = devices + 2, .n_devices = 1}};
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 20);
    device_metrics_write(&text, workers, 2);
    expect_line(&text, "warptune_workers 2");
    expect_line(&text, "warptune_trials_total{host=\"a\\\"b\",pid=\"12\",device=\"cuda:1\",result=\"none\"} 7");
    expect_line(&text,
                "warptune_trials_total{host=\"a\\\"b\",pid=\"12\",device=\"cuda:1\",result=\"compile_device\"} 2");
    expect_line(&text,
                "warptune_trials_total{host=\"a\\\"b\",pid=\"12\",device=\"cuda:1\",result=\"build_timeout\"} 3");
    expect_line(&text, "warptune_device_busy_seconds_total{host=\"a\\\"b\",pid=\"12\",device=\"cuda:1\"} 12.5");
    expect_line(&text, "warptune_device_temperature_celsius{host=\"a\\\"b\",pid=\"12\",device=\"cuda:1\"} 41");
    cr_expect_null(strstr(buf_str(&text), "device=\"cpu:0\""));
    cr_expect_null(strstr(buf_str(&text), "host=\"c\""));
    cr_expect_null(strstr(buf_str(&text), "power_watts{"));
}

Test(device_metrics, without_workers_the_figures_are_described) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 20);
    device_metrics_write(&text, NULL, 0);
    expect_line(&text, "warptune_workers 0");
    expect_line(&text, "# TYPE warptune_trials_total counter");
}
