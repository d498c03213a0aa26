/* SPDX-License-Identifier: Apache-2.0 */
#include "api/queue_metrics.h"

#define NAME "warptune_queue_wait_seconds"

static void put_labels(struct buf *out, const char *suffix, const struct queue_wait *wait) {
    buf_printf(out, NAME "%s{work=\"%s\",device=\"%s\"", suffix, work_kind_name(wait->kind), wait->device_kind);
}

static void put_buckets(struct buf *out, const struct queue_waits *waits, const struct queue_wait *wait) {
    long long so_far = 0;
    for (int i = 0; i < waits->n_bounds; i++) {
        so_far += wait->counts[i];
        put_labels(out, "_bucket", wait);
        buf_printf(out, ",le=\"%g\"} %lld\n", waits->bounds_s[i], so_far);
    }
    so_far += wait->counts[waits->n_bounds];
    put_labels(out, "_bucket", wait);
    buf_printf(out, ",le=\"+Inf\"} %lld\n", so_far);
    put_labels(out, "_sum", wait);
    buf_printf(out, "} %.6f\n", wait->total_s);
    put_labels(out, "_count", wait);
    buf_printf(out, "} %lld\n", so_far);
}

void queue_metrics_write(struct buf *out, const struct queue_waits *waits) {
    buf_puts(out, "# HELP " NAME " From when work was queued, or its job resumed, until a worker first took it. The "
                  "database adds it up for all servers and workers: each server tells the same, so take one, or the "
                  "max.\n# TYPE " NAME " histogram\n");
    for (int i = 0; i < waits->n; i++)
        put_buckets(out, waits, &waits->of[i]);
}
