/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h: what children that read, compile and run what users sent may not ask of the kernel.
 *
 * A list of what is refused, not of what is allowed: compilers and drivers use much of the kernel, and more with each
 * version. Refused (EPERM) are sockets to other hosts, looking into other processes, mounting, namespaces, keys, BPF,
 * io_uring (which would open sockets past the filter), modules, clocks and the like. As root, all capabilities go but
 * the one to reach files; nothing started later gains any (no_new_privs). The limits on resources are child.h's.
 */
#ifndef WARPTUNE_BASE_SANDBOX_H
#define WARPTUNE_BASE_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/base/attr.h"

enum sandbox {
    SANDBOX_NONE,
    SANDBOX_DRIVER, /* for a device's driver, which may talk to its daemons and to the kernel: sockets within this host
                     * stay */
    SANDBOX_STRICT, /* no sockets at all */
};

/* Makes the filters, which takes memory. Before sandbox_enter in a child of this process; again does nothing. */
void sandbox_prepare(void);
/*
 * For good, with all that is started later. -1 with errno. Makes system calls only: safe between fork and exec. Where
 * the kernel has no filters it does the rest.
 */
int sandbox_enter(enum sandbox sandbox) MUST_CHECK;

/* Whether children are filtered here. */
bool sandbox_filters(void);
/* Whether a child may get a network of its own, without interfaces; starts a process to see. */
bool sandbox_has_networks(void);
/* The limit of a child's addresses, or 0, none, in a program with the address sanitizer, which maps terabytes. */
int64_t sandbox_memory(int64_t bytes);
/* The same, of half the host's memory: for a child that computes there, so that absurd sizes fail by themselves. */
int64_t sandbox_half_memory(void);

#endif
