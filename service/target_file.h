/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_file.h: whether a download can be put where it shall go, asked before the work whose result it is: a job of
 * hours must not be lost to a typo.
 */
#ifndef WARPTUNE_TARGET_FILE_H
#define WARPTUNE_TARGET_FILE_H

#include "service/base/attr.h"
#include "service/base/error.h"

/*
 * Makes a file beside `file`, as client_download does, and removes it; `file` itself is not touched. The error names
 * the option, the file and what to do about it.
 */
int target_file_check(const char *option, const char *file, struct error *error) MUST_CHECK;

#endif
