/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "service/commands.h"
#include "service/serving.h"
#include "service/store/migrate.h"

int cmd_migrate(int argc, char **argv) {
    struct serving serving;
    struct error error;
    int version = 0;
    int status = serving_settings(&serving, "migrate", "Brings the schema of a database up to date.", argc, argv);
    if (status >= 0)
        return status;
    serving_block_signals();
    if (serving_become_user(&serving, &error) < 0 || serving_open_database(&serving, true, &error) < 0 ||
        migrate_version(serving.db, &version, &error) < 0)
        status = command_failed("migrate", &error);
    else
        status = 0;
    if (status == 0)
        printf("schema version %d\n", version);
    serving_close(&serving);
    return status;
}
