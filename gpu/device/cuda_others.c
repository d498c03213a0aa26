/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cuda_others.h"

#include <stdbool.h>

static bool has(const struct pid_list *list, unsigned pid) {
    for (int i = 0; i < list->n; i++)
        if (list->pid[i] == pid)
            return true;
    return false;
}

struct pid_list own_processes(const struct pid_list *before, const struct pid_list *after, unsigned self) {
    struct pid_list own = {0};
    if (before->n < 0 || after->n < 0)
        return (struct pid_list){.n = -1};
    for (int i = 0; i < after->n; i++)
        if (!has(before, after->pid[i]))
            own.pid[own.n++] = after->pid[i];
    return has(&own, self) ? (struct pid_list){1, {self}} : own;
}

int count_others(const struct pid_list *now, const struct pid_list *own) {
    int others = 0;
    if (now->n < 0 || own->n < 0)
        return -1;
    for (int i = 0; i < now->n; i++)
        others += !has(own, now->pid[i]);
    return others;
}
