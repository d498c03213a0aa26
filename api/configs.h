/* SPDX-License-Identifier: Apache-2.0 */
/* configs.h: a shared configuration as clients see it. Internal to api/. */
#ifndef WARPTUNE_API_CONFIGS_H
#define WARPTUNE_API_CONFIGS_H

#include "api/http.h"
#include "gpu/device/target.h"
#include "service/store/config_store.h"

/* Its members, but for the workload, into the object that is open. */
void config_write_members(struct buf *out, const struct config_row *config);
/* The query parameter `device`, a class of devices; NULL when absent. */
int config_read_device(const struct request *request, const char **ret, struct error *error) MUST_CHECK;
/* What to render for on its devices; ERROR_INVALID when it is no class of devices. */
int config_device_target(const char *device, struct target *ret, struct error *error) MUST_CHECK;

#endif
