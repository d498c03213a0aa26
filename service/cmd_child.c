/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gpu/measure/measure.h"
#include "gpu/module/module_compile.h"
#include "gpu/module/module_run.h"
#include "service/commands.h"
#include "service/model/inspect.h"

int cmd_child(int argc, char **argv) {
    const char *role = argc > 1 ? argv[1] : "";
    if (strcmp(role, "inspect") == 0)
        return inspect_child_main();
    if (strcmp(role, "build") == 0)
        return builder_child_main(template_builtin);
    if (strcmp(role, "run") == 0)
        return runner_child_main(template_builtin);
    if (strcmp(role, "compile") == 0)
        return compile_child_main(template_builtin);
    if (strcmp(role, "evaluate") == 0)
        return evaluate_child_main();
    return command_misused("child", "It is started by the server and the worker, with one role.");
}
