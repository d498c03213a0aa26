/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.h: whether a project has room for one thing more. Internal to service/store; inside a transaction, which holds
 * the project's row from then on when there is a quota, so that of two at once the second sees the first.
 */
#ifndef WARPTUNE_STORE_QUOTA_H
#define WARPTUNE_STORE_QUOTA_H

#include "service/store/pg.h"

/* For one more job on `device` ("auto", "cpu", "cuda"): ERROR_LIMIT "quota-open-jobs", "quota-gpu-seconds". */
int quota_for_job(struct pg *pg, const char *project_id, const char *device, struct error *error) MUST_CHECK;
/* For a model of so many bytes more: ERROR_LIMIT "quota-model-bytes". */
int quota_for_model(struct pg *pg, const char *project_id, int64_t bytes, struct error *error) MUST_CHECK;

#endif
