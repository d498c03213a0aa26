/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "api/report_text.h"
#include "service/base/clock.h"

static void put_attribute(struct buf *out, const char *name, const char *text) {
    buf_printf(out, " %s=\"", name);
    put_xml(out, text);
    buf_putc(out, '"');
}

static void put_property(struct buf *out, const char *name, const char *value) {
    buf_puts(out, "      <property");
    put_attribute(out, "name", name);
    put_attribute(out, "value", value);
    buf_puts(out, "/>\n");
}

/* Ends a test's start tag; `why` is its failure, NULL for none; then what is known of it. */
static void put_outcome(struct buf *out, const char *type, const struct buf *why, const struct buf *figures) {
    buf_puts(out, ">\n");
    if (type) {
        buf_puts(out, "      <failure");
        put_attribute(out, "type", type);
        put_attribute(out, "message", buf_str(why));
        buf_puts(out, "/>\n");
    }
    buf_puts(out, "      <system-out>");
    put_xml(out, buf_str(figures));
    buf_puts(out, "</system-out>\n    </testcase>\n");
}

/* "12.3 µs where the reference has 10.1 µs: 1.218×, above the limit of 1.05×" */
static void put_regression(struct buf *out, const struct report *report, double ours_us, double reference_us,
                           double ratio) {
    put_us(out, ours_us);
    buf_puts(out, " where ");
    put_reference(out, &report->reference);
    buf_puts(out, " has ");
    put_us(out, reference_us);
    buf_puts(out, ": ");
    put_ratio(out, ratio);
    buf_printf(out, ", above the limit of %g×", report->reference.limit);
}

static void put_network(struct buf *out, const struct report *report) {
    const struct report_network *network = &report->network;
    struct buf why CLEANUP(buf_release) = BUF_INIT(64 << 10), figures CLEANUP(buf_release) = BUF_INIT(64 << 10);
    bool regression = network->verdict == REPORT_REGRESSION;
    if (regression)
        put_regression(&why, report, network->p50_us, network->reference_p50_us, network->ratio);
    buf_puts(&figures, "p50 ");
    put_us(&figures, network->p50_us);
    buf_puts(&figures, ", p90 ");
    put_us(&figures, network->p90_us);
    buf_puts(&figures, ", p99 ");
    put_us(&figures, network->p99_us);
    buf_puts(&figures, "; untuned p50 ");
    put_us(&figures, network->baseline_p50_us);
    buf_puts(&figures, "; speedup ");
    put_ratio(&figures, network->speedup);
    buf_puts(&figures, "; ");
    put_rate(&figures, network->samples_per_s);
    buf_puts(out, "    <testcase");
    put_attribute(out, "classname", report->model_name);
    buf_printf(out, " name=\"network\" time=\"%.6f\"", isfinite(report->job->elapsed_s) ? report->job->elapsed_s : 0);
    put_outcome(out, regression ? "regression" : NULL, &why, &figures);
}

static void put_figures(struct buf *out, const struct report *report, const struct report_layer *layer) {
    const struct task_row *task = layer->task;
    buf_printf(out, "%s\n", task->workload);
    put_us(out, layer->ours_us);
    buf_puts(out, ", spread ");
    put_us(out, layer->spread_us);
    buf_puts(out, "; untuned ");
    put_us(out, layer->baseline_us);
    buf_puts(out, "; floor ");
    put_us(out, layer->floor_us);
    buf_puts(out, "; speedup ");
    put_ratio(out, layer->speedup);
    if (report->reference.job_id) {
        buf_puts(out, "; reference ");
        put_us(out, layer->reference_us);
        buf_puts(out, ", ratio ");
        put_ratio(out, layer->ratio);
    }
    buf_printf(out, "\n%s %s\ntrials ", task->best_template ? task->best_template : "no template",
               task->best_entity ? task->best_entity : "");
    put_trials(out, task);
    buf_puts(out, "; errors: ");
    put_errors(out, task);
}

static void put_layer(struct buf *out, const struct report *report, const struct report_layer *layer) {
    const struct task_row *task = layer->task;
    struct buf why CLEANUP(buf_release) = BUF_INIT(64 << 10), figures CLEANUP(buf_release) = BUF_INIT(1 << 20);
    const char *type = NULL;
    if (layer->verdict == REPORT_REGRESSION) {
        type = "regression";
        put_regression(&why, report, layer->ours_us, layer->reference_us, layer->ratio);
    } else if (layer->verdict == REPORT_NO_BEST) {
        type = "no_best";
        buf_puts(&why, "Every trial failed: ");
        put_errors(&why, task);
    }
    put_figures(&figures, report, layer);
    buf_puts(out, "    <testcase");
    put_attribute(out, "classname", report->model_name);
    buf_printf(out, " name=\"%d ", task->number + 1);
    put_xml(out, task->name);
    buf_printf(out, "\" time=\"%.6f\"", isfinite(task->search_s) ? task->search_s : 0);
    put_outcome(out, type, &why, &figures);
}

void report_write_junit(struct buf *out, const struct report *report) {
    const struct job_row *job = report->job;
    int tests = 1 + report->n_layers, failures = report->n_regressions + report->n_no_best;
    double elapsed_s = isfinite(job->elapsed_s) ? job->elapsed_s : 0;
    char finished[32];
    clock_format(job->finished_us, finished);
    buf_printf(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<testsuites name=\"warptune\" tests=\"%d\" failures=\"%d\" errors=\"0\" time=\"%.6f\">\n"
               "  <testsuite tests=\"%d\" failures=\"%d\" errors=\"0\" skipped=\"0\" time=\"%.6f\" timestamp=\"%s\"",
               tests, failures, elapsed_s, tests, failures, elapsed_s, finished);
    put_attribute(out, "name", report->model_name);
    put_attribute(out, "hostname", job->device_key);
    buf_puts(out, ">\n    <properties>\n");
    put_property(out, "job_id", job->id);
    put_property(out, "device_key", job->device_key);
    if (report->reference.job_id) {
        struct buf reference CLEANUP(buf_release) = BUF_INIT(1 << 10);
        put_reference(&reference, &report->reference);
        put_property(out, "compared_to", buf_str(&reference));
    }
    buf_puts(out, "    </properties>\n");
    put_network(out, report);
    for (int i = 0; i < report->n_layers; i++)
        put_layer(out, report, &report->layers[i]);
    buf_puts(out, "  </testsuite>\n</testsuites>\n");
}
