#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the migrations of a folder, NNNN_name.sql in order, as the C text of service/store/migrations.h's list.
# Their numbers must be 1, 2, 3, … without gaps.
#
# usage: embed.sh FOLDER >migrations.c
set -eu

cat <<'END'
/* SPDX-License-Identifier: Apache-2.0 */
/* Made from the .sql files by migrations/embed.sh. */
#include "service/store/migrations.h"

const struct migration migrations[] = {
END
count=0
for file in "$1"/[0-9][0-9][0-9][0-9]_*.sql; do
    count=$((count + 1))
    name=$(basename "$file" .sql)
    case $name in
        "$(printf '%04d' "$count")"_*) ;;
        *) echo "embed.sh: $file: expected number $(printf '%04d' "$count")" >&2; exit 1 ;;
    esac
    printf '    {%d, "%s",\n' "$count" "$name"
    sed 's/[\\"]/\\&/g; s/.*/     "&\\n"/' "$file"
    echo '    },'
done
cat <<END
};
const int migrations_count = $count;
END
