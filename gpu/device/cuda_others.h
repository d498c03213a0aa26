/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_others.h: which of the processes on a GPU are not ours.
 *
 * NVML may call processes by the host's numbers while we live in a container with numbers of its own, so getpid()
 * cannot be trusted to be in its list. What can: our own entry appears when our context does.
 */
#ifndef WARPTUNE_DEVICE_CUDA_OTHERS_H
#define WARPTUNE_DEVICE_CUDA_OTHERS_H

enum { MOST_PROCESSES = 64 };

struct pid_list {
    int n; /* -1: not known */
    unsigned pid[MOST_PROCESSES];
};

/*
 * Our own entries: `self` alone when it appeared between the lists; else all that appeared, for some of them is ours
 * under a foreign number. One that started in the same moment is then taken for ours, which hides it; the contrary, to
 * take ourselves for another, would make every measurement look disturbed.
 */
struct pid_list own_processes(const struct pid_list *before, const struct pid_list *after, unsigned self);
/* How many of `now` are not in `own`; -1 when either is not known. */
int count_others(const struct pid_list *now, const struct pid_list *own);

#endif
