/* SPDX-License-Identifier: Apache-2.0 */
/* handlers.h: the handlers of all routes, by the file that has them. Internal to api/: routes.c is who calls them. */
#ifndef WARPTUNE_API_HANDLERS_H
#define WARPTUNE_API_HANDLERS_H

#include "api/http.h"

route_handler model_upload, model_page, model_show, model_file, model_remove; /* models.c */
route_handler model_tasks;                                                    /* model_tasks.c */
route_handler job_submit, job_page, job_show;                                 /* jobs.c */
route_handler job_do_cancel, job_do_pause, job_do_resume, job_do_retry;       /* jobs.c */
route_handler job_events, project_events;                                     /* events.c */
route_handler delivery_page, delivery_send_again;                             /* webhooks.c */
route_handler job_log, job_config, job_module;                                /* job_results.c */
route_handler job_records;                                                    /* job_records.c */
route_handler job_report;                                                     /* job_report.c */
route_handler golden_put, golden_show, golden_remove;                         /* golden.c */
route_handler golden_page, golden_diff;                                       /* golden.c */
route_handler config_page, config_lookup, config_export;                      /* configs.c */
route_handler config_import;                                                  /* config_import.c */
route_handler records_clean;                                                  /* records_clean.c */
route_handler project_make, project_page, project_show, project_change;       /* projects.c */
route_handler project_remove, config_set_visibility;                          /* projects.c */
route_handler token_make, token_page, token_remove, identity_show;            /* tokens.c */
route_handler device_page, worker_page;                                       /* devices.c */
route_handler dashboard_show, dashboard_file;                                 /* dashboard.c */
route_handler health_show, readiness_show, metrics_show;                      /* operations.c */
route_handler openapi_show;                                                   /* openapi.c */

#endif
