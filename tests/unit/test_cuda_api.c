/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the tables of cuda_api.h against NVIDIA's own headers, where they are. */
#include "gpu/device/cuda_api.h"

#include <criterion/criterion.h>
#include <string.h>

#define PARAMETERS_ARE_OURS(name, version, parameters)                                      \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), unsigned(*) parameters), \
                   #name #version " has other parameters in NVIDIA's header");
#define TEXT(x) #x
/* The name that the header turns a plain one into: what programs compiled against it call. */
#define NAME_IS_OURS(name, version, parameters)                                                             \
    cr_assert(strcmp(TEXT(name), #name #version) == 0 || is_older_on_purpose(#name #version), "%s, not %s", \
              TEXT(name), #name #version);

/* What is the same function under an older name, which drivers before CUDA 12.8 have too. */
__attribute__((unused)) static int is_older_on_purpose(const char *symbol) {
    return strcmp(symbol, "cuEventElapsedTime") == 0;
}

#if __has_include(<cuda.h>)
#include <cuda.h>
CUDA_DRIVER_TABLE(PARAMETERS_ARE_OURS)
_Static_assert(sizeof(CUresult) == sizeof(unsigned) && sizeof(CUuuid) == 16, "sizes");
_Static_assert((int)CUDA_OUT_OF_MEMORY == (int)CUDA_ERROR_OUT_OF_MEMORY, "constant");
_Static_assert((int)CUDA_NO_DEVICE == (int)CUDA_ERROR_NO_DEVICE, "constant");
_Static_assert((int)CUDA_OUT_OF_RESOURCES == (int)CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "constant");
_Static_assert((int)CUDA_CLOCK_RATE == (int)CU_DEVICE_ATTRIBUTE_CLOCK_RATE, "constant");
_Static_assert((int)CUDA_MAX_THREADS_PER_BLOCK == (int)CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "constant");
_Static_assert((int)CUDA_MULTIPROCESSORS == (int)CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "constant");
_Static_assert((int)CUDA_MEMORY_CLOCK_RATE == (int)CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, "constant");
_Static_assert((int)CUDA_MEMORY_BUS_WIDTH == (int)CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, "constant");
_Static_assert((int)CUDA_L2_CACHE_SIZE == (int)CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, "constant");
_Static_assert((int)CUDA_CAPABILITY_MAJOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "constant");
_Static_assert((int)CUDA_CAPABILITY_MINOR == (int)CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "constant");
_Static_assert((int)CUDA_REGISTERS_PER_MULTIPROCESSOR == (int)CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
               "constant");
_Static_assert((int)CUDA_SHARED_PER_BLOCK_OPTIN == (int)CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
               "constant");
_Static_assert((int)CUDA_MAX_DYNAMIC_SHARED == (int)CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "constant");
_Static_assert((int)CUDA_CAPTURE_THREAD_LOCAL == (int)CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "constant");
_Static_assert((int)CUDA_STREAM_NON_BLOCKING == (int)CU_STREAM_NON_BLOCKING, "constant");
_Static_assert((int)CUDA_EARLY == (int)CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, "constant");
_Static_assert(sizeof(struct cuda_attribute) == sizeof(CUlaunchAttribute) &&
                   offsetof(struct cuda_attribute, value) == offsetof(CUlaunchAttribute, value) &&
                   offsetof(CUlaunchAttributeValue, programmaticStreamSerializationAllowed) == 0,
               "layout");
_Static_assert(sizeof(struct cuda_launch_config) == sizeof(CUlaunchConfig) &&
                   offsetof(struct cuda_launch_config, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes) &&
                   offsetof(struct cuda_launch_config, stream) == offsetof(CUlaunchConfig, hStream) &&
                   offsetof(struct cuda_launch_config, attributes) == offsetof(CUlaunchConfig, attrs) &&
                   offsetof(struct cuda_launch_config, n_attributes) == offsetof(CUlaunchConfig, numAttrs),
               "layout");

Test(cuda_api, driver_symbols_are_those_that_the_header_names){CUDA_DRIVER_TABLE(NAME_IS_OURS)}
#endif

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
CUDA_NVRTC_TABLE(PARAMETERS_ARE_OURS)
#endif

#if __has_include(<nvml.h>)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <nvml.h>
    CUDA_NVML_TABLE(PARAMETERS_ARE_OURS)

        Test(cuda_api, nvml_symbols_are_those_that_the_header_names) {
    CUDA_NVML_TABLE(NAME_IS_OURS)
}
#endif

/* Either it opens and every row is filled, or there is a sentence that says why not. */
Test(cuda_api, opening_fills_the_table_or_says_why_not) {
    struct cuda_driver driver = {0};
    char reason[512] = "";
    if (cuda_driver_open(&driver, reason, sizeof reason) == 0)
        cr_assert(driver.cuLaunchKernelEx && driver.cuInit);
    else
        cr_assert(strstr(reason, "libcuda.so.1"), "%s", reason);
    struct cuda_nvml nvml = {0};
    if (cuda_nvml_open(&nvml, reason, sizeof reason) == 0)
        cr_assert(nvml.nvmlDeviceGetMemoryInfo);
    else
        cr_assert(strstr(reason, "libnvidia-ml.so.1"), "%s", reason);
}

Test(cuda_api, a_chosen_nvrtc_is_the_only_one_tried) {
    struct cuda_nvrtc nvrtc;
    char reason[512] = "";
    setenv("WARPTUNE_NVRTC", "/nowhere/libnvrtc.so", 1);
    cr_assert_eq(cuda_nvrtc_open(&nvrtc, NULL, reason, sizeof reason), -1);
    cr_assert(strstr(reason, "/nowhere/libnvrtc.so"), "%s", reason);
}

Test(cuda_api, a_library_without_the_functions_is_too_old) {
    struct cuda_nvrtc nvrtc;
    char reason[512] = "";
    setenv("WARPTUNE_NVRTC", "libm.so.6", 1);
    cr_assert_eq(cuda_nvrtc_open(&nvrtc, NULL, reason, sizeof reason), -1);
    cr_assert(strstr(reason, "nvrtcVersion"), "%s", reason);
}
