/* SPDX-License-Identifier: Apache-2.0 */
/* attr.h: the compiler attributes that the project uses, under short names. */
#ifndef WARPTUNE_BASE_ATTR_H
#define WARPTUNE_BASE_ATTR_H

/* The caller must look at the result: a failure may not pass unseen. */
#define MUST_CHECK __attribute__((warn_unused_result))
/* Argument `f` is a printf format, its values start at argument `a`. */
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
/* Runs fn(&variable) when the variable leaves its scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
