/* SPDX-License-Identifier: Apache-2.0 */
/* migrations.h: the files of migrations/ as C text, in order; build/gen/migrations.c is made by migrations/embed.sh. */
#ifndef WARPTUNE_STORE_MIGRATIONS_H
#define WARPTUNE_STORE_MIGRATIONS_H

struct migration {
    int version;      /* 1, 2, … without gaps */
    const char *name; /* "0001_blobs" */
    const char *sql;
};

extern const struct migration migrations[];
extern const int migrations_count;

#endif
