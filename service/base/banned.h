/* SPDX-License-Identifier: Apache-2.0 */
/*
 * banned.h: functions that nobody may call here: using one is a compile error. Meant to be included before all else
 * (-include service/base/banned.h); the headers that declare them come first, so that only our own uses are hit.
 *
 *     strcpy, strcat, stpcpy, gets     snprintf, memcpy with a checked length, struct buf
 *     sprintf, vsprintf                snprintf, arena_printf, buf_printf
 *     strtok                           strtok_r, strcspn
 *     atoi, atol, atoll, atof          strtol and strtod with their end pointer
 */
#ifndef WARPTUNE_BASE_BANNED_H
#define WARPTUNE_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#pragma GCC poison strcpy strcat stpcpy gets sprintf vsprintf strtok atoi atol atoll atof

#endif
