/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c: the table of all routes; the router and the answers to wrong methods come from it. */
#include "api/handlers.h"

const struct route routes[] = {
    {"POST", "/v1/models", model_upload, BODY_UPLOAD, RUN_SLOW, "name", "Upload a network as ONNX"},
    {"GET", "/v1/models", model_page, BODY_NONE, RUN_QUICK, "cursor limit", "List models, newest first"},
    {"GET", "/v1/models/{id}", model_show, BODY_NONE, RUN_QUICK, NULL, "One model"},
    {"DELETE", "/v1/models/{id}", model_remove, BODY_NONE, RUN_SLOW, NULL, "Delete a model that no open job uses"},
    {"GET", "/v1/models/{id}/file", model_file, BODY_NONE, RUN_SLOW, NULL, "The bytes of a model"},
    {"GET", "/v1/models/{id}/tasks", model_tasks, BODY_NONE, RUN_SLOW, "precision batch layout",
     "The workloads of a model, with the best configurations known"},
    {"POST", "/v1/jobs", job_submit, BODY_JSON, RUN_QUICK, NULL, "Submit a tuning job"},
    {"GET", "/v1/jobs", job_page, BODY_NONE, RUN_QUICK, "state model_id label cursor limit", "List jobs, newest first"},
    {"GET", "/v1/jobs/{id}", job_show, BODY_NONE, RUN_QUICK, "wait", "One job; `wait` holds the answer until it ends"},
    {"POST", "/v1/jobs/{id}/cancel", job_do_cancel, BODY_NONE, RUN_QUICK, NULL, "Cancel a job"},
    {"POST", "/v1/jobs/{id}/pause", job_do_pause, BODY_NONE, RUN_QUICK, NULL, "Pause a job"},
    {"POST", "/v1/jobs/{id}/resume", job_do_resume, BODY_NONE, RUN_QUICK, NULL, "Resume a paused job"},
    {"POST", "/v1/jobs/{id}/retry", job_do_retry, BODY_NONE, RUN_QUICK, NULL,
     "Take up a failed or cancelled job again"},
    {"GET", "/v1/jobs/{id}/events", job_events, BODY_NONE, RUN_QUICK, "after",
     "What happens to a job, as server-sent events"},
    {"GET", "/v1/jobs/{id}/log", job_log, BODY_NONE, RUN_SLOW, NULL, "The log of a job as text"},
    {"GET", "/v1/jobs/{id}/records", job_records, BODY_NONE, RUN_SLOW, "format",
     "Every trial of a job, one JSON text a line"},
    {"GET", "/v1/jobs/{id}/config", job_config, BODY_NONE, RUN_SLOW, NULL, "The best configuration of each workload"},
    {"GET", "/v1/jobs/{id}/module", job_module, BODY_NONE, RUN_SLOW, "format", "The compiled module"},
    {"GET", "/v1/devices", device_page, BODY_NONE, RUN_QUICK, NULL, "What can measure, and what it is doing"},
    {"GET", "/v1/workers", worker_page, BODY_NONE, RUN_QUICK, NULL, "The workers with their devices"},
    {"GET", "/healthz", health_show, BODY_NONE, RUN_HERE, NULL, "Whether the process answers"},
    {"GET", "/readyz", readiness_show, BODY_NONE, RUN_QUICK, NULL, "Whether the database and its schema are ready"},
    {"GET", "/metrics", metrics_show, BODY_NONE, RUN_QUICK, NULL, "Figures for Prometheus"},
    {NULL},
};
