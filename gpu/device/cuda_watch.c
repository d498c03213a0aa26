/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cuda_watch.h"

#include <unistd.h>

#include "service/base/clock.h"

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2, NVML_SENSOR_GPU = 0 };
#define FULL_EVERY_NS (NS_PER_S / 4)

/* NVML's own layouts. */
struct nvmlUtilization_st {
    unsigned gpu, memory; /* percent */
};
struct nvmlMemory_st {
    unsigned long long total, free, used;
};
struct nvmlProcessInfo_v2_st {
    unsigned pid;
    unsigned long long used_memory;
    unsigned gpu_instance, compute_instance;
};

static struct pid_list list_processes(const struct cuda_watch *watch) {
    struct nvmlProcessInfo_v2_st info[MOST_PROCESSES];
    unsigned n = MOST_PROCESSES;
    if (watch->nvml.nvmlDeviceGetComputeRunningProcesses(watch->gpu, &n, info) != 0)
        return (struct pid_list){.n = -1};
    struct pid_list list = {0};
    for (unsigned i = 0; i < n && i < MOST_PROCESSES; i++)
        list.pid[list.n++] = info[i].pid;
    return list;
}

void cuda_watch_open(struct cuda_watch *watch, const char *uuid) {
    char reason[512];
    *watch = (struct cuda_watch){.last = device_state_unknown};
    if (cuda_nvml_open(&watch->nvml, reason, sizeof reason) < 0 || watch->nvml.nvmlInit() != 0)
        return;
    watch->started = true;
    if (watch->nvml.nvmlDeviceGetHandleByUUID(uuid, &watch->gpu) != 0)
        watch->gpu = NULL;
    if (watch->gpu)
        watch->before = list_processes(watch);
}

void cuda_watch_close(struct cuda_watch *watch) {
    if (watch->started)
        watch->nvml.nvmlShutdown();
    *watch = (struct cuda_watch){.last = device_state_unknown};
}

static void read_quick(struct cuda_watch *watch) {
    const struct cuda_nvml *nvml = &watch->nvml;
    struct device_state *state = &watch->last;
    unsigned value;
    unsigned long long reasons;
    state->sm_clock_mhz = nvml->nvmlDeviceGetClockInfo(watch->gpu, NVML_CLOCK_SM, &value) == 0 ? (int)value : -1;
    state->memory_clock_mhz =
        nvml->nvmlDeviceGetClockInfo(watch->gpu, NVML_CLOCK_MEMORY, &value) == 0 ? (int)value : -1;
    state->temperature_c = nvml->nvmlDeviceGetTemperature(watch->gpu, NVML_SENSOR_GPU, &value) == 0 ? (int)value : -1;
    state->throttle_reasons =
        nvml->nvmlDeviceGetCurrentClocksThrottleReasons(watch->gpu, &reasons) == 0 ? (int)(reasons & INT32_MAX) : -1;
}

static void read_slow(struct cuda_watch *watch) {
    const struct cuda_nvml *nvml = &watch->nvml;
    struct device_state *state = &watch->last;
    unsigned value;
    struct nvmlUtilization_st utilization;
    struct nvmlMemory_st memory;
    state->power_w = nvml->nvmlDeviceGetPowerUsage(watch->gpu, &value) == 0 ? (int)(value / 1000) : -1;
    state->utilization_percent =
        nvml->nvmlDeviceGetUtilizationRates(watch->gpu, &utilization) == 0 ? (int)utilization.gpu : -1;
    state->memory_used_bytes = nvml->nvmlDeviceGetMemoryInfo(watch->gpu, &memory) == 0 ? (int64_t)memory.used : -1;
    struct pid_list now = list_processes(watch);
    if (!watch->knows_own) {
        watch->own = own_processes(&watch->before, &now, (unsigned)getpid());
        watch->knows_own = true;
    }
    state->other_processes = count_others(&now, &watch->own);
}

void cuda_watch_read(struct cuda_watch *watch, bool fresh, struct device_state *ret) {
    int64_t now = clock_now_ns();
    if (watch->gpu) {
        read_quick(watch);
        if (fresh || watch->full_at_ns == 0 || now - watch->full_at_ns > FULL_EVERY_NS) {
            read_slow(watch);
            watch->full_at_ns = now;
        }
    }
    *ret = watch->last;
}
