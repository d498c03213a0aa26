/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "api/job_json.h"
#include "api/json_write.h"
#include "api/report.h"

static void write_network(struct buf *out, const struct report_network *network) {
    write_object(out, "network");
    write_object(out, "latency");
    write_fixed(out, "p50_us", network->p50_us);
    write_fixed(out, "p90_us", network->p90_us);
    write_fixed(out, "p99_us", network->p99_us);
    write_fixed(out, "mean_us", network->mean_us);
    write_end(out, '}');
    write_object(out, "baseline");
    write_fixed(out, "p50_us", network->baseline_p50_us);
    write_fixed(out, "p90_us", network->baseline_p90_us);
    write_fixed(out, "p99_us", network->baseline_p99_us);
    write_end(out, '}');
    write_double(out, "speedup", network->speedup);
    write_int_if(out, "batch", network->batch, network->batch);
    write_fixed(out, "samples_per_s", network->samples_per_s);
    write_double(out, "relative_error", network->relative_error);
    write_fixed(out, "layers_us", network->layers_us);
    write_fixed(out, "layers_baseline_us", network->layers_baseline_us);
    write_fixed(out, "layers_floor_us", network->layers_floor_us);
    write_end(out, '}');
}

static void write_best(struct buf *out, const struct task_row *task) {
    write_text(out, "template", task->best_template);
    write_int_if(out, "index", task->best_index, task->best_template);
    write_raw(out, "knobs", task->best_entity);
}

static void write_layer(struct buf *out, const struct report *report, const struct report_layer *layer) {
    const struct task_row *task = layer->task;
    write_object(out, NULL);
    write_int(out, "number", task->number);
    write_text(out, "workload", task->workload);
    write_text(out, "name", task->name);
    write_int(out, "count", task->count);
    write_int(out, "flops", task->flops);
    write_int(out, "bytes", task->bytes);
    write_fixed(out, "ours_us", layer->ours_us);
    write_fixed(out, "spread_us", layer->spread_us);
    write_fixed(out, "baseline_us", layer->baseline_us);
    write_fixed(out, "floor_us", layer->floor_us);
    write_double(out, "speedup", layer->speedup);
    write_double(out, "floor_ratio", layer->floor_ratio);
    write_double(out, "share", layer->share);
    write_fixed(out, "gflops", isfinite(layer->ours_us) ? (double)task->flops / layer->ours_us / 1e3 : INFINITY);
    write_best(out, task);
    write_int(out, "trials", task->trials_done);
    job_write_errors(out, task);
    write_text(out, "stop_reason", task->stop_reason);
    write_raw(out, "served_by", task->served);
    if (report->reference.job_id) {
        write_fixed(out, "reference_us", layer->reference_us);
        write_double(out, "ratio", layer->ratio);
    }
    write_text(out, "verdict", report_verdict_name(layer->verdict));
    write_end(out, '}');
}

static void write_regressions(struct buf *out, const struct report *report) {
    const struct report_network *network = &report->network;
    write_array(out, "regressions");
    if (network->verdict == REPORT_REGRESSION) {
        write_object(out, NULL);
        write_text(out, "what", "network");
        write_fixed(out, "ours_us", network->p50_us);
        write_fixed(out, "reference_us", network->reference_p50_us);
        write_double(out, "ratio", network->ratio);
        write_end(out, '}');
    }
    for (int i = 0; i < report->n_layers; i++) {
        const struct report_layer *layer = &report->layers[i];
        if (layer->verdict != REPORT_REGRESSION)
            continue;
        write_object(out, NULL);
        write_text(out, "what", "layer");
        write_int(out, "number", layer->task->number);
        write_text(out, "name", layer->task->name);
        write_text(out, "workload", layer->task->workload);
        write_fixed(out, "ours_us", layer->ours_us);
        write_fixed(out, "reference_us", layer->reference_us);
        write_double(out, "ratio", layer->ratio);
        write_end(out, '}');
    }
    write_end(out, ']');
}

static void write_comparison(struct buf *out, const struct report *report) {
    const struct report_reference *reference = &report->reference;
    if (!reference->job_id) {
        write_raw(out, "comparison", NULL);
        return;
    }
    write_object(out, "comparison");
    write_text(out, "job_id", reference->job_id);
    write_int_if(out, "golden", reference->golden, reference->golden);
    write_double(out, "limit", reference->limit);
    write_object(out, "network");
    write_fixed(out, "reference_p50_us", report->network.reference_p50_us);
    write_double(out, "ratio", report->network.ratio);
    write_text(out, "verdict", report_verdict_name(report->network.verdict));
    write_end(out, '}');
    write_double(out, "layers_ratio", reference->layers_ratio);
    write_int(out, "layers_missing", reference->n_missing);
    write_regressions(out, report);
    write_end(out, '}');
}

void report_write_json(struct buf *out, const struct report *report) {
    const struct job_row *job = report->job;
    write_object(out, NULL);
    write_text(out, "job_id", job->id);
    write_text(out, "model_id", job->model_id);
    write_text(out, "model_name", report->model_name);
    write_text(out, "device_key", job->device_key);
    write_time(out, "finished_at", job->finished_us);
    write_int(out, "trials", job->trials_done);
    write_int(out, "layers_without_best", report->n_no_best);
    write_network(out, &report->network);
    write_array(out, "layers");
    for (int i = 0; i < report->n_layers; i++)
        write_layer(out, report, &report->layers[i]);
    write_end(out, ']');
    write_comparison(out, report);
    write_end(out, '}');
}
