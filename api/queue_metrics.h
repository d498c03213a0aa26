/* SPDX-License-Identifier: Apache-2.0 */
/* queue_metrics.h: how long work waited before a worker took it, for /metrics. Internal to api/. */
#ifndef WARPTUNE_API_QUEUE_METRICS_H
#define WARPTUNE_API_QUEUE_METRICS_H

#include "service/base/buf.h"
#include "service/store/queue_store.h"

/* A histogram in Prometheus' text format, with the labels work and device. */
void queue_metrics_write(struct buf *out, const struct queue_waits *waits);

#endif
