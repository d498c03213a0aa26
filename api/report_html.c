/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page says everything in tables; a layer's bars repeat its times as lengths, to a scale of its own, for the eye.
 * No script, nothing fetched.
 */
#include <inttypes.h>
#include <math.h>

#include "api/report_text.h"
#include "service/base/clock.h"

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--line:#8886;--ours:#0a7d4f;--base:#8a8f98;--floor:#c77700;--bad:#c22}\n"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}code{overflow-wrap:anywhere}\n"
    "table{border-collapse:collapse}caption{text-align:left;padding:.3rem 0}\n"
    "th,td{border-bottom:1px solid var(--line);padding:.35rem .6rem;text-align:right;vertical-align:top}\n"
    "th[scope=row],.text{text-align:left}.wide{overflow-x:auto}.num{white-space:nowrap}\n"
    ".bars{width:14rem;height:2.4rem;display:block}.ours{fill:var(--ours);background:var(--ours)}\n"
    ".base{fill:var(--base);background:var(--base)}.floor{fill:var(--floor);background:var(--floor)}\n"
    ".bad{color:var(--bad);font-weight:600}.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .8em}\n"
    "</style>\n";

static void put_cell(struct buf *out, void (*put)(struct buf *out, double figure), double figure) {
    buf_puts(out, "<td class=\"num\">");
    put(out, figure);
    buf_puts(out, "</td>");
}

static void put_code(struct buf *out, const char *text) {
    buf_puts(out, "<code>");
    put_xml(out, text);
    buf_puts(out, "</code>");
}

static void put_head(struct buf *out, const struct report *report) {
    char finished[32];
    clock_format(report->job->finished_us, finished);
    buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
    put_xml(out, report->model_name);
    buf_puts(out, ": tuning report</title>\n");
    buf_puts(out, style);
    buf_puts(out, "</head>\n<body>\n<main>\n<h1>");
    put_xml(out, report->model_name);
    buf_puts(out, "</h1>\n<p>On ");
    put_code(out, report->job->device_key);
    buf_printf(out, ", job <code>%s</code>, finished %s after %" PRId64 " trials.</p>\n", report->job->id, finished,
               report->job->trials_done);
    if (report->reference.job_id) {
        buf_printf(out, "<p role=\"status\"%s>", report->n_regressions ? " class=\"bad\"" : "");
        put_summary(out, report);
        buf_puts(out, "</p>\n");
    }
}

static void put_latency(struct buf *out, const char *name, double p50_us, double p90_us, double p99_us) {
    buf_printf(out, "<tr><th scope=\"row\">%s</th>", name);
    put_cell(out, put_us, p50_us);
    put_cell(out, put_us, p90_us);
    put_cell(out, put_us, p99_us);
    buf_puts(out, "</tr>\n");
}

static void put_network(struct buf *out, const struct report *report) {
    const struct report_network *network = &report->network;
    buf_puts(out, "<h2>The network</h2>\n<table>\n<caption>Latency of one run</caption>\n<thead><tr><td></td>"
                  "<th scope=\"col\">p50</th><th scope=\"col\">p90</th><th scope=\"col\">p99</th></tr></thead>\n"
                  "<tbody>\n");
    put_latency(out, "tuned", network->p50_us, network->p90_us, network->p99_us);
    put_latency(out, "untuned", network->baseline_p50_us, network->baseline_p90_us, network->baseline_p99_us);
    if (report->reference.job_id)
        put_latency(out, "reference", network->reference_p50_us, INFINITY, INFINITY);
    buf_puts(out, "</tbody>\n</table>\n<p>Speedup ");
    put_ratio(out, network->speedup);
    buf_puts(out, ", ");
    put_rate(out, network->samples_per_s);
    if (network->batch)
        buf_printf(out, " at batch %" PRId64, network->batch);
    if (isfinite(network->relative_error))
        buf_printf(out, ". The output differs from the reference evaluation by at most %.2g of the largest number",
                   network->relative_error);
    buf_puts(out, ".</p>\n");
}

static void put_bar(struct buf *out, const char *class, int row, double us, double full_us) {
    if (isfinite(us))
        buf_printf(out, "<rect class=\"%s\" y=\"%d\" width=\"%.2f%%\" height=\"10\"/>", class, row * 13,
                   us / full_us * 100);
}

static double larger(double a, double b) {
    return isfinite(b) && b > a ? b : a;
}

static void put_bars(struct buf *out, const struct report_layer *layer) {
    double full_us = larger(larger(larger(0, layer->ours_us), layer->baseline_us), layer->floor_us);
    buf_puts(out, "<td>");
    if (full_us > 0) {
        buf_puts(out, "<svg class=\"bars\" role=\"img\" aria-label=\"tuned ");
        put_us(out, layer->ours_us);
        buf_puts(out, ", untuned ");
        put_us(out, layer->baseline_us);
        buf_puts(out, ", floor ");
        put_us(out, layer->floor_us);
        buf_puts(out, "\">");
        put_bar(out, "ours", 0, layer->ours_us, full_us);
        put_bar(out, "base", 1, layer->baseline_us, full_us);
        put_bar(out, "floor", 2, layer->floor_us, full_us);
        buf_puts(out, "</svg>");
    }
    buf_puts(out, "</td>");
}

static void put_best(struct buf *out, const struct task_row *task) {
    buf_puts(out, "<td class=\"text\">");
    if (task->best_template) {
        buf_puts(out, "<details><summary>");
        put_xml(out, task->best_template);
        buf_puts(out, "</summary>");
        put_code(out, task->best_entity);
        buf_puts(out, "</details>");
    } else {
        buf_puts(out, "<span class=\"bad\">every trial failed</span>");
    }
    buf_puts(out, "</td><td>");
    put_trials(out, task);
    buf_puts(out, "</td><td class=\"text\">");
    put_errors(out, task);
    buf_puts(out, "</td>");
}

static void put_comparison(struct buf *out, const struct report_layer *layer) {
    put_cell(out, put_us, layer->reference_us);
    buf_printf(out, "<td class=\"num%s\">", layer->verdict == REPORT_REGRESSION ? " bad" : "");
    put_ratio(out, layer->ratio);
    if (layer->verdict == REPORT_REGRESSION)
        buf_puts(out, " regression");
    buf_puts(out, "</td>");
}

static void put_layer(struct buf *out, const struct report *report, const struct report_layer *layer) {
    const struct task_row *task = layer->task;
    buf_puts(out, "<tr><th scope=\"row\"><details><summary>");
    put_xml(out, task->name);
    buf_puts(out, "</summary>");
    put_code(out, task->workload);
    buf_printf(out, "</details></th><td>%d</td>", task->count);
    put_bars(out, layer);
    put_cell(out, put_us, layer->ours_us);
    put_cell(out, put_us, layer->spread_us);
    put_cell(out, put_us, layer->baseline_us);
    put_cell(out, put_us, layer->floor_us);
    put_cell(out, put_ratio, layer->speedup);
    put_cell(out, put_percent, layer->share);
    if (report->reference.job_id)
        put_comparison(out, layer);
    put_best(out, task);
    buf_puts(out, "</tr>\n");
}

static void put_layers(struct buf *out, const struct report *report) {
    static const char *const columns[] = {"calls", "bars", "tuned", "spread", "untuned", "floor", "speedup", "share"};
    buf_puts(out,
             "<h2>Layers</h2>\n<p>Bars:<span class=\"key ours\"></span>tuned<span class=\"key base\"></span>untuned"
             "<span class=\"key floor\"></span>floor, below which no kernel can be; each layer to its own scale."
             "</p>\n<div class=\"wide\" role=\"region\" aria-label=\"Layers\" tabindex=\"0\">\n<table>\n"
             "<caption>Time of one call of each distinct workload</caption>\n<thead><tr>"
             "<th scope=\"col\" class=\"text\">layer</th>");
    for (size_t i = 0; i < ARRAY_COUNT(columns); i++)
        buf_printf(out, "<th scope=\"col\">%s</th>", columns[i]);
    if (report->reference.job_id)
        buf_puts(out, "<th scope=\"col\">reference</th><th scope=\"col\">ratio</th>");
    buf_puts(out, "<th scope=\"col\" class=\"text\">template</th><th scope=\"col\">trials</th>"
                  "<th scope=\"col\" class=\"text\">errors</th></tr></thead>\n<tbody>\n");
    for (int i = 0; i < report->n_layers; i++)
        put_layer(out, report, &report->layers[i]);
    buf_puts(out, "</tbody>\n</table>\n</div>\n");
}

void report_write_html(struct buf *out, const struct report *report) {
    put_head(out, report);
    put_network(out, report);
    put_layers(out, report);
    buf_puts(out, "</main>\n</body>\n</html>\n");
}
