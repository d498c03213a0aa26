/* SPDX-License-Identifier: Apache-2.0 */
/* device_metrics.h: what the workers' last heartbeats told of their devices, for /metrics. Internal to api/. */
#ifndef WARPTUNE_API_DEVICE_METRICS_H
#define WARPTUNE_API_DEVICE_METRICS_H

#include "service/base/buf.h"
#include "service/store/worker_store.h"

/* In Prometheus' text format, each figure with the labels host, pid and device. */
void device_metrics_write(struct buf *out, const struct worker_row *workers, int n);

#endif
