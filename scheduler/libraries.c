/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/libraries.h"

#include <string.h>

#include "gpu/device/cudnn_plan.h"
#include "service/base/json.h"

static const char field[] = "cudnn_version";

/* Of the cuDNN here; 0: there is none. */
static int version_here(void) {
    char reason[256];
    int version;
    return cudnn_version(&version, reason, sizeof reason) == 0 ? version : 0;
}

bool libraries_wanted(const struct target *target, const struct job_options *options) {
    return options->allow_cudnn && strcmp(target->kind, "cuda") == 0 && version_here() != 0;
}

void libraries_note(const struct template *template, struct json_object *provenance) {
    if (template->library)
        json_add_int(provenance, field, version_here());
}

bool libraries_same(const struct template *template, const char *provenance) {
    struct json_object *object CLEANUP(json_put_p) = NULL;
    struct error ignored;
    int64_t version = 0;
    if (!template->library)
        return true;
    return json_parse(provenance, strlen(provenance), &object, &ignored) == 0 &&
           json_read_int(object, field, JSON_REQUIRED, 1, INT32_MAX, &version, &ignored) == 0 &&
           version == version_here();
}
