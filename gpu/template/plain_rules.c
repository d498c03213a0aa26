/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/plain.h"

const struct plain_rule plain_rules[] = {
    {serves_map, emit_map}, {serves_concat, emit_concat}, {serves_move, emit_move}, {serves_window, emit_window},
    {NULL, NULL},
};
