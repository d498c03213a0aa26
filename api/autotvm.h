/* SPDX-License-Identifier: Apache-2.0 */
/* autotvm.h: what the database holds, as lines of AutoTVM's record format, version 0.2: trials and configurations. */
#ifndef WARPTUNE_API_AUTOTVM_H
#define WARPTUNE_API_AUTOTVM_H

#include "service/base/buf.h"
#include "service/model/workload.h"
#include "service/store/config_store.h"
#include "service/store/trial_store.h"

/* What the records of one task have in common. */
struct autotvm_task {
    const char *target; /* "cuda -model=nvidia-h200", "llvm" */
    const char *key, *device_key;
    const struct workload *workload;
};

/* `key`: the workload's text. Both texts are borrowed, the rest lives in the arena. */
int autotvm_task_init(struct autotvm_task *ret, const char *device_kind, const char *device_key, const char *key,
                      struct arena *arena, struct error *error) MUST_CHECK;
/* One line with its end, which an import takes back, for what our own member says beside AutoTVM's. A failed trial
 * costs 1e9 s, as there; its error's text has no place in the format. */
void autotvm_write(struct buf *out, const struct autotvm_task *task, const struct trial_row *trial);
/* A configuration as a line that an import takes back as it was: what AutoTVM has no place for is in our own member. */
int autotvm_write_config(struct buf *out, const struct config_row *config, struct error *error) MUST_CHECK;

#endif
