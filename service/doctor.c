/* SPDX-License-Identifier: Apache-2.0 */
#include "service/doctor.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "gpu/device/cuda_api.h"
#include "gpu/device/cudnn_plan.h"
#include "gpu/device/device.h"
#include "service/base/child.h"
#include "service/base/clock.h"
#include "service/base/sandbox.h"
#include "service/store/cluster.h"

enum { VERSION_TIMEOUT_S = 10, MOST_VERSION = 4096 };

static void found(struct buf *ret, const char *what, const char *format, ...) PRINTF_LIKE(3, 4);
static void found(struct buf *ret, const char *what, const char *format, ...) {
    va_list args;
    va_start(args, format);
    buf_printf(ret, "  found    %-12s ", what);
    buf_vprintf(ret, format, args);
    buf_putc(ret, '\n');
    va_end(args);
}

static void missing(struct buf *ret, const char *what, const char *why, const char *remedy) {
    buf_printf(ret, "  missing  %-12s %s\n           %-12s -> %s\n", what, why, "", remedy);
}

/* The devices of a kind, one a line, with what they can do. */
static int list_devices(struct buf *ret, const struct device_class *class, const char *what, struct error *error) {
    int n = class->count(error);
    for (int i = 0; i < n; i++) {
        struct device_info info;
        struct device_state state;
        if (class->describe(i, &info, error) < 0) {
            missing(ret, what, error->text, "see the driver's own log (dmesg, nvidia-smi)");
            continue;
        }
        found(ret, what, "%s:%d %s, %d units, %.1f GB, about %.1f TFLOP/s in FP32", class->kind, i, info.key,
              info.target.units, (double)info.memory_bytes / 1e9, info.peak_flops / 1e12);
        if (class->state(i, &state, error) == 0 && state.other_processes > 0)
            buf_printf(ret, "           %-12s    %d other processes use it: timings will be off\n", "",
                       state.other_processes);
    }
    return n;
}

static void report_cuda(struct buf *ret) {
    struct error error = {0};
    struct device_info info;
    if (list_devices(ret, &device_cuda, "GPU", &error) == 0)
        missing(ret, "GPU", error.text, "without it the CPU is tuned; in a container, pass the GPU in (--gpus all)");
    else if (device_cuda.describe(0, &info, &error) == 0)
        found(ret, "driver", "%s", info.driver);
}

static void report_nvrtc(struct buf *ret) {
    struct cuda_nvrtc nvrtc;
    const char *path;
    char reason[512];
    int major, minor;
    if (cuda_nvrtc_open(&nvrtc, &path, reason, sizeof reason) < 0)
        missing(ret, "NVRTC", reason,
                "install CUDA's libnvrtc (package cuda-nvrtc-13-0 or the wheel nvidia-cuda-nvrtc), or name the file in "
                "WARPTUNE_NVRTC; only tuning needs it, modules do not");
    else if (nvrtc.nvrtcVersion(&major, &minor) == 0)
        found(ret, "NVRTC", "%d.%d (%s)", major, minor, path);
}

static void report_nvml(struct buf *ret) {
    struct cuda_nvml nvml;
    char reason[512], version[96] = "";
    if (cuda_nvml_open(&nvml, reason, sizeof reason) < 0) {
        missing(ret, "NVML", reason,
                "it comes with the driver (libnvidia-ml1); without it clocks and heat are unknown");
        return;
    }
    if (nvml.nvmlInit() == 0 && nvml.nvmlSystemGetDriverVersion(version, sizeof version) == 0)
        found(ret, "NVML", "driver %s", version);
    else
        missing(ret, "NVML", "the library is here but does not start", "check that the kernel module is loaded");
}

static void report_cudnn(struct buf *ret) {
    char reason[400];
    int version;
    if (cudnn_version(&version, reason, sizeof reason) == 0)
        found(ret, "cuDNN", "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    else
        missing(ret, "cuDNN", reason,
                "optional; install libcudnn9-cuda-13, or name libcudnn.so.9 in WARPTUNE_CUDNN, for its plans to be "
                "candidates");
}

static void report_cpu(struct buf *ret) {
    struct error error = {0};
    struct device_info info;
    if (list_devices(ret, &device_cpu, "CPU", &error) == 0)
        missing(ret, "C compiler", error.text, "apt-get install gcc libc6-dev; only the CPU device needs it");
    else if (device_cpu.describe(0, &info, &error) == 0)
        found(ret, "C compiler", "%s", info.compiler);
}

static void report_postgres(struct buf *ret) {
    CLEANUP(buf_release) struct buf version = BUF_INIT(MOST_VERSION);
    char folder[PATH_MAX], program[PATH_MAX + 16];
    struct error error = {0};
    int status;
    static const char remedy[] = "apt-get install postgresql, name its bin folder in WARPTUNE_PG_BIN, or give "
                                 "WARPTUNE_DATABASE_URL a server elsewhere";
    if (cluster_find_bin(folder, sizeof folder, &error) < 0) {
        missing(ret, "PostgreSQL", error.text, remedy);
        return;
    }
    snprintf(program, sizeof program, "%s/postgres", folder);
    const char *const argv[] = {program, "--version", NULL};
    struct child_options options = {.argv = argv, .stderr_fd = -1};
    if (child_run(&options, NULL, 0, deadline_in_s(VERSION_TIMEOUT_S), &version, &status, &error) < 0 || status != 0)
        missing(ret, "PostgreSQL", "it is here, but `postgres --version` fails", remedy);
    else
        found(ret, "PostgreSQL", "%.*s (%s)", (int)strcspn(buf_str(&version), "\n"), buf_str(&version), folder);
}

/* What children that compile and run kernels are kept from. */
static void report_sandbox(struct buf *ret) {
    if (sandbox_filters())
        found(ret, "seccomp",
              "children that compile or run kernels cannot reach other hosts, other processes or the dangerous parts "
              "of the kernel");
    else
        missing(ret, "seccomp", "this kernel, or what runs this container, takes no filter of system calls",
                "children have limits but no filter; use a kernel with CONFIG_SECCOMP_FILTER, or allow prctl");
    if (sandbox_has_networks())
        found(ret, "namespaces", "children get a network of their own, without interfaces");
    else
        missing(ret, "namespaces", "no network namespace can be made here, as is usual in a container",
                sandbox_filters() ? "nothing: the filter refuses sockets" : "allow user namespaces, or run as root");
}

void doctor_report(struct buf *ret) {
    buf_puts(ret, "To tune on a GPU:\n");
    report_cuda(ret);
    report_nvrtc(ret);
    report_nvml(ret);
    report_cudnn(ret);
    buf_puts(ret, "To tune on the CPU:\n");
    report_cpu(ret);
    buf_puts(ret, "To keep jobs and results:\n");
    report_postgres(ret);
    buf_puts(ret, "To keep compilers and kernels in bounds:\n");
    report_sandbox(ret);
}
