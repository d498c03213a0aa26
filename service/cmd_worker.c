/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "scheduler/worker.h"
#include "service/base/log.h"
#include "service/commands.h"
#include "service/serving.h"
#include "service/systemd.h"

static bool has_stopped(void *data) {
    return worker_stopped(data);
}

int cmd_worker(int argc, char **argv) {
    struct serving serving;
    struct error error;
    struct worker *worker = NULL;
    int status =
        serving_settings(&serving, "worker", "Tunes on this host's devices for a server's database.", argc, argv);
    if (status >= 0)
        return status;
    serving_block_signals();
    struct worker_config config = {.data_dir = serving.settings.data_dir,
                                   .devices = serving.settings.devices,
                                   .key = serving.settings.key,
                                   .builders = (int)serving.settings.builders};
    status = serving_become_user(&serving, &error);
    serving_log_bounds();
    if (status == 0)
        status = serving_open_database(&serving, false, &error);
    config.db = serving.db;
    if (status < 0 || serving_tidy(&serving, &error) < 0 || worker_start(&config, &worker, &error) < 0) {
        status = command_failed("worker", &error);
    } else {
        log_line(LOG_INFO, "working");
        systemd_notify("READY=1\nSTATUS=working");
        status = serving_wait_for_signal(&serving, NULL);
        log_line(LOG_INFO, "stopping");
        worker_ask_stop(worker);
        serving_drain(&serving, has_stopped, worker);
    }
    worker_stop(worker);
    serving_close(&serving);
    return status;
}
