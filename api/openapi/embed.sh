#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the pieces of the OpenAPI document, FOLDER/*.json, as the C text of api/openapi.h's list.
#
# usage: embed.sh FOLDER >openapi_pieces.c
set -eu

cat <<'END'
/* SPDX-License-Identifier: Apache-2.0 */
/* Made from the .json files by api/openapi/embed.sh. */
#include "api/openapi.h"

const struct openapi_piece openapi_pieces[] = {
END
for file in "$1"/*.json; do
    printf '    {"%s",\n' "$file"
    sed 's/[\\"]/\\&/g; s/.*/     "&\\n"/' "$file"
    echo '    },'
done
cat <<'END'
    {0},
};
END
