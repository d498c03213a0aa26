/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cpu_info.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "gpu/device/cpu_compile.h"

enum { DEFAULT_CACHE = 1 << 20, MOST_PROCESSORS = 1024 };

/* Floating-point operations of one core and clock, in FP32: vector units × lanes × 2. */
static const struct {
    const char *arch;
    double flops_per_clock;
} levels[] = {{"x86-64-v4", 64}, {"x86-64-v3", 32}, {"x86-64-v2", 16}, {"armv8-a", 16}};

static const char *host_arch(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return "x86-64-v2";
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
    return wide ? "x86-64-v4" : "x86-64-v3";
#else
    return "armv8-a";
#endif
}

static int processors(void) {
    cpu_set_t *set = CPU_ALLOC(MOST_PROCESSORS);
    size_t size = CPU_ALLOC_SIZE(MOST_PROCESSORS);
    int n = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    CPU_FREE(set);
    return n < 1 ? 1 : n;
}

/* The first value of that name in /proc/cpuinfo, or `otherwise`. */
static void read_cpuinfo(const char *name, const char *otherwise, char *ret, size_t size) {
    char line[512];
    snprintf(ret, size, "%s", otherwise);
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, name, strlen(name)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(ret, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (file)
        fclose(file);
}

/* The highest clock in Hz; where the system does not say, the present one; 0 unknown. */
static double clock_hz(void) {
    char text[64];
    double khz = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");
    if (file && fgets(text, sizeof text, file))
        khz = strtod(text, NULL);
    if (file)
        fclose(file);
    if (khz > 0)
        return khz * 1e3;
    read_cpuinfo("cpu MHz", "0", text, sizeof text);
    return strtod(text, NULL) * 1e6;
}

static double flops_per_clock(const char *arch) {
    for (size_t i = 0; i < ARRAY_COUNT(levels); i++)
        if (strcmp(levels[i].arch, arch) == 0)
            return levels[i].flops_per_clock;
    return 0;
}

static int check_ordinal(int ordinal, struct error *error) {
    if (ordinal == 0)
        return 0;
    return error_set(error, ERROR_NOT_FOUND, "no-such-device", NULL, "There is one CPU device, number 0, and no %d.",
                     ordinal);
}

int cpu_describe(int ordinal, struct device_info *ret, struct error *error) {
    struct device_info info = {.target = {.kind = "cpu"}};
    if (check_ordinal(ordinal, error) < 0 || cpu_compiler_name(info.compiler, sizeof info.compiler, error) < 0)
        return -1;
    snprintf(info.target.arch, sizeof info.target.arch, "%s", host_arch());
    info.target.units = processors();
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    info.target.cache_bytes = cache > 0 ? cache : DEFAULT_CACHE;
    read_cpuinfo("model name", info.target.arch, info.name, sizeof info.name);
    snprintf(info.key, sizeof info.key, "cpu/%s/%s/%d", info.name, info.target.arch, info.target.units);
    info.memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    info.peak_flops = info.target.units * clock_hz() * flops_per_clock(info.target.arch);
    *ret = info;
    return 0;
}

int cpu_state(int ordinal, struct device_state *ret, struct error *error) {
    struct sysinfo system;
    if (check_ordinal(ordinal, error) < 0)
        return -1;
    *ret = device_state_unknown;
    if (sysinfo(&system) == 0)
        ret->memory_used_bytes = (int64_t)(system.totalram - system.freeram - system.bufferram) * system.mem_unit;
    return 0;
}
