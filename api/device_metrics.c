/* SPDX-License-Identifier: Apache-2.0 */
#include "api/device_metrics.h"

#include <string.h>

#include "gpu/measure/measure.h"
#include "service/base/json.h"

enum { MOST_DEVICES = 1024 };

/* A device with what it told, parsed; NULL where it told nothing. */
struct told {
    const struct worker_row *worker;
    const struct worker_device *device;
    struct json_object *state, *counters;
};

static struct json_object *parse(const char *text) {
    struct json_object *object = NULL;
    struct error ignored; /* a worker of another version may tell other things */
    return text && json_parse(text, strlen(text), &object, &ignored) == 0 ? object : NULL;
}

static int parse_all(const struct worker_row *workers, int n, struct told *ret) {
    int count = 0;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < workers[i].n_devices && count < MOST_DEVICES; d++) {
            const struct worker_device *device = &workers[i].devices[d];
            ret[count++] = (struct told){&workers[i], device, parse(device->state), parse(device->counters)};
        }
    return count;
}

static void describe(struct buf *out, const char *name, const char *type, const char *help) {
    buf_printf(out, "# HELP warptune_%s %s\n# TYPE warptune_%s %s\n", name, help, name, type);
}

static void put_value(struct buf *out, const char *text) {
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            buf_putc(out, '\\');
        buf_putc(out, *c == '\n' ? ' ' : *c);
    }
}

/* The name and the labels, up to where one more could follow. */
static void put_labels(struct buf *out, const char *name, const struct told *told) {
    buf_printf(out, "warptune_%s{host=\"", name);
    put_value(out, told->worker->host);
    buf_printf(out, "\",pid=\"%lld\",device=\"", (long long)told->worker->pid);
    put_value(out, told->device->kind);
    buf_printf(out, ":%d\"", told->device->ordinal);
}

static bool is_number(struct json_object *value) {
    return json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
}

/* One figure of every device that tells it. */
static void put_figure(struct buf *out, const struct told *told, int n, const char *name, const char *field,
                       bool counter) {
    for (int i = 0; i < n; i++) {
        struct json_object *value, *object = counter ? told[i].counters : told[i].state;
        if (!object || !json_object_object_get_ex(object, field, &value) || !is_number(value))
            continue;
        put_labels(out, name, &told[i]);
        buf_printf(out, "} %.10g\n", json_object_get_double(value));
    }
}

static void put_trials(struct buf *out, const struct told *told, int n) {
    describe(out, "trials_total", "counter", "Trials that a worker has recorded since it started, by result.");
    for (int i = 0; i < n; i++) {
        struct json_object *trials;
        if (!told[i].counters || !json_object_object_get_ex(told[i].counters, "trials", &trials) ||
            !json_object_is_type(trials, json_type_array))
            continue;
        for (size_t e = 0; e < json_object_array_length(trials) && e < TRIAL_ERROR_COUNT; e++) {
            put_labels(out, "trials_total", &told[i]);
            buf_printf(out, ",result=\"%s\"} %lld\n", trial_error_name((enum trial_error)e),
                       (long long)json_object_get_int64(json_object_array_get_idx(trials, e)));
        }
    }
}

void device_metrics_write(struct buf *out, const struct worker_row *workers, int n_workers) {
    static const struct {
        const char *field, *name, *help;
    } gauges[] = {
        {"utilization_percent", "device_utilization_percent", "Time in which the device computed, as it says itself."},
        {"temperature_c", "device_temperature_celsius", "Of the device."},
        {"power_w", "device_power_watts", "Drawn by the device."},
        {"sm_clock_mhz", "device_sm_clock_mhz", "Of the multiprocessors."},
        {"memory_used_bytes", "device_memory_used_bytes", "By all processes."},
    };
    struct told told[MOST_DEVICES];
    int n = parse_all(workers, n_workers, told);
    describe(out, "workers", "gauge", "Workers that were heard of lately.");
    buf_printf(out, "warptune_workers %d\n", n_workers);
    put_trials(out, told, n);
    describe(out, "device_busy_seconds_total", "counter", "In which a worker had work for the device.");
    put_figure(out, told, n, "device_busy_seconds_total", "busy_s", true);
    for (size_t g = 0; g < ARRAY_COUNT(gauges); g++) {
        describe(out, gauges[g].name, "gauge", gauges[g].help);
        put_figure(out, told, n, gauges[g].name, gauges[g].field, false);
    }
    for (int i = 0; i < n; i++) {
        json_object_put(told[i].state);
        json_object_put(told[i].counters);
    }
}
