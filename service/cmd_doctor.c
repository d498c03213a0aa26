/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "service/commands.h"
#include "service/doctor.h"

int cmd_doctor(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        puts("usage: warptune doctor\n\nSays what of CUDA, NVRTC, NVML, cuDNN, compiler and PostgreSQL is found on "
             "this machine, and what to do\n"
             "about what is missing.");
        return 0;
    }
    struct buf report CLEANUP(buf_release) = BUF_INIT(1 << 20);
    doctor_report(&report);
    fputs(buf_str(&report), stdout);
    return 0;
}
