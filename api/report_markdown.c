/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "api/report_text.h"

static void put_title(struct buf *out, const struct report *report) {
    buf_puts(out, "### ");
    put_markdown_code(out, report->model_name);
    buf_puts(out, " on ");
    put_markdown_code(out, report->job->device_key);
    buf_puts(out, "\n\n");
    if (report->reference.job_id) {
        buf_puts(out, report->n_regressions ? ":x: " : ":white_check_mark: ");
        put_summary(out, report);
        buf_puts(out, "\n\n");
    }
    if (report->n_no_best)
        buf_printf(out, ":warning: %d of %d layers without a kernel that worked: they run on the plain one.\n\n",
                   report->n_no_best, report->n_layers);
}

static void put_network(struct buf *out, const struct report *report) {
    const struct report_network *network = &report->network;
    buf_puts(out, "| network | p50 | p90 | p99 |\n| --- | ---: | ---: | ---: |\n| tuned | ");
    put_us(out, network->p50_us);
    buf_puts(out, " | ");
    put_us(out, network->p90_us);
    buf_puts(out, " | ");
    put_us(out, network->p99_us);
    buf_puts(out, " |\n| untuned | ");
    put_us(out, network->baseline_p50_us);
    buf_puts(out, " | ");
    put_us(out, network->baseline_p90_us);
    buf_puts(out, " | ");
    put_us(out, network->baseline_p99_us);
    buf_puts(out, " |\n");
    if (report->reference.job_id) {
        buf_puts(out, "| reference | ");
        put_us(out, network->reference_p50_us);
        buf_puts(out, " | | |\n");
    }
    buf_puts(out, "\nSpeedup ");
    put_ratio(out, network->speedup);
    buf_puts(out, ", ");
    put_rate(out, network->samples_per_s);
    if (isfinite(network->relative_error))
        buf_printf(out, ", largest error %.2g of the largest output", network->relative_error);
    buf_puts(out, ".\n\n");
}

static void put_verdict(struct buf *out, const struct report_layer *layer) {
    if (layer->verdict == REPORT_REGRESSION)
        buf_puts(out, ":x: ");
    put_ratio(out, layer->ratio);
}

static void put_layer(struct buf *out, const struct report *report, const struct report_layer *layer) {
    const struct task_row *task = layer->task;
    buf_printf(out, "| %d | ", task->number + 1);
    put_markdown_code(out, task->name);
    buf_printf(out, " ×%d | ", task->count);
    put_us(out, layer->ours_us);
    if (isfinite(layer->spread_us))
        buf_puts(out, " ± ");
    if (isfinite(layer->spread_us))
        put_us(out, layer->spread_us);
    buf_puts(out, " | ");
    put_us(out, layer->baseline_us);
    buf_puts(out, " | ");
    put_us(out, layer->floor_us);
    buf_puts(out, " | ");
    put_ratio(out, layer->speedup);
    buf_puts(out, " | ");
    if (report->reference.job_id) {
        put_us(out, layer->reference_us);
        buf_puts(out, " | ");
        put_verdict(out, layer);
        buf_puts(out, " | ");
    }
    if (task->best_template)
        put_markdown_code(out, task->best_template);
    else
        buf_puts(out, ":warning: every trial failed");
    buf_puts(out, " | ");
    put_trials(out, task);
    buf_puts(out, " |\n");
}

static void put_layers(struct buf *out, const struct report *report) {
    bool compared = report->reference.job_id != NULL;
    buf_printf(out, "| | layer | tuned | untuned | floor | speedup |%s template | trials |\n",
               compared ? " reference | ratio |" : "");
    buf_printf(out, "| ---: | --- | ---: | ---: | ---: | ---: |%s --- | ---: |\n", compared ? " ---: | ---: |" : "");
    for (int i = 0; i < report->n_layers; i++)
        put_layer(out, report, &report->layers[i]);
}

void report_write_markdown(struct buf *out, const struct report *report) {
    put_title(out, report);
    put_network(out, report);
    buf_printf(out, "<details%s><summary>%d layers</summary>\n\n",
               report->n_regressions || report->n_no_best ? " open" : "", report->n_layers);
    put_layers(out, report);
    buf_printf(out, "\n</details>\n\nJob `%s`, %lld trials.\n", report->job->id, (long long)report->job->trials_done);
}
