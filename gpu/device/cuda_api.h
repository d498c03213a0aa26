/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_api.h: the functions of NVIDIA's driver, NVRTC, NVML and cuDNN that we use, opened at run time.
 *
 * Stands alone (libc and libdl only): the module runtime contains it too. No header of NVIDIA's is needed: each
 * function is one row of a table, X(name, version, parameters), where name##version is the symbol's name and every
 * function returns an unsigned status, 0 for success. tests/unit/test_cuda_api.c holds the rows against the real
 * headers where they are. The tables belong to the caller; an opened library stays mapped until the process ends, so
 * opening again costs little.
 */
#ifndef WARPTUNE_DEVICE_CUDA_API_H
#define WARPTUNE_DEVICE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

/* The same tags as in cuda.h, nvrtc.h and nvml.h. */
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUuuid_st; /* 16 bytes */
struct CUlaunchConfig_st;
struct _nvrtcProgram;
struct nvmlDevice_st;
struct nvmlUtilization_st;
struct nvmlMemory_st;
struct nvmlProcessInfo_v2_st;
struct cudnnContext;

enum {
    /* CUresult */
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NO_DEVICE = 100,
    CUDA_OUT_OF_RESOURCES = 701, /* a launch that asks for more registers, threads or memory than there are */
    /* CUdevice_attribute */
    CUDA_CLOCK_RATE = 13, /* kHz */
    CUDA_MAX_THREADS_PER_BLOCK = 1,
    CUDA_MULTIPROCESSORS = 16,
    CUDA_MEMORY_CLOCK_RATE = 36, /* kHz */
    CUDA_MEMORY_BUS_WIDTH = 37,  /* bits */
    CUDA_L2_CACHE_SIZE = 38,
    CUDA_CAPABILITY_MAJOR = 75,
    CUDA_CAPABILITY_MINOR = 76,
    CUDA_REGISTERS_PER_MULTIPROCESSOR = 82,
    CUDA_SHARED_PER_BLOCK_OPTIN = 97,
    /* CUfunction_attribute */
    CUDA_MAX_THREADS = 0, /* of a block, by the function's registers and its launch bounds */
    CUDA_MAX_DYNAMIC_SHARED = 8,
    /* CUstreamCaptureMode */
    CUDA_CAPTURE_THREAD_LOCAL = 1,
    /* CUlaunchAttributeID */
    CUDA_EARLY = 6, /* programmatic stream serialization */
    /* CUstream_flags */
    CUDA_STREAM_NON_BLOCKING = 1,
    /* a block gets more dynamic shared memory than this only after CUDA_MAX_DYNAMIC_SHARED was set */
    CUDA_SHARED_DEFAULT = 48 * 1024,
};

#define CUDA_DRIVER_TABLE(X)                                                                              \
    X(cuGetErrorName, , (unsigned, const char **))                                                        \
    X(cuGetErrorString, , (unsigned, const char **))                                                      \
    X(cuInit, , (unsigned))                                                                               \
    X(cuDriverGetVersion, , (int *))                                                                      \
    X(cuDeviceGetCount, , (int *))                                                                        \
    X(cuDeviceGet, , (int *, int))                                                                        \
    X(cuDeviceGetName, , (char *, int, int))                                                              \
    X(cuDeviceGetUuid, _v2, (struct CUuuid_st *, int))                                                    \
    X(cuDeviceGetAttribute, , (int *, unsigned, int))                                                     \
    X(cuDeviceTotalMem, _v2, (size_t *, int))                                                             \
    X(cuDevicePrimaryCtxRetain, , (struct CUctx_st **, int))                                              \
    X(cuDevicePrimaryCtxRelease, _v2, (int))                                                              \
    X(cuCtxSetCurrent, , (struct CUctx_st *))                                                             \
    X(cuModuleLoadData, , (struct CUmod_st **, const void *))                                             \
    X(cuModuleUnload, , (struct CUmod_st *))                                                              \
    X(cuModuleGetFunction, , (struct CUfunc_st **, struct CUmod_st *, const char *))                      \
    X(cuFuncGetAttribute, , (int *, unsigned, struct CUfunc_st *))                                        \
    X(cuFuncSetAttribute, , (struct CUfunc_st *, unsigned, int))                                          \
    X(cuMemAlloc, _v2, (unsigned long long *, size_t))                                                    \
    X(cuMemFree, _v2, (unsigned long long))                                                               \
    X(cuMemHostAlloc, , (void **, size_t, unsigned))                                                      \
    X(cuMemFreeHost, , (void *))                                                                          \
    X(cuMemcpyHtoDAsync, _v2, (unsigned long long, const void *, size_t, struct CUstream_st *))           \
    X(cuMemcpyDtoHAsync, _v2, (void *, unsigned long long, size_t, struct CUstream_st *))                 \
    X(cuMemcpyDtoDAsync, _v2, (unsigned long long, unsigned long long, size_t, struct CUstream_st *))     \
    X(cuMemsetD32Async, , (unsigned long long, unsigned, size_t, struct CUstream_st *))                   \
    X(cuStreamCreate, , (struct CUstream_st **, unsigned))                                                \
    X(cuStreamDestroy, _v2, (struct CUstream_st *))                                                       \
    X(cuStreamSynchronize, , (struct CUstream_st *))                                                      \
    X(cuStreamBeginCapture, _v2, (struct CUstream_st *, unsigned))                                        \
    X(cuStreamEndCapture, , (struct CUstream_st *, struct CUgraph_st **))                                 \
    X(cuGraphInstantiateWithFlags, , (struct CUgraphExec_st **, struct CUgraph_st *, unsigned long long)) \
    X(cuGraphLaunch, , (struct CUgraphExec_st *, struct CUstream_st *))                                   \
    X(cuGraphExecDestroy, , (struct CUgraphExec_st *))                                                    \
    X(cuGraphDestroy, , (struct CUgraph_st *))                                                            \
    X(cuEventCreate, , (struct CUevent_st **, unsigned))                                                  \
    X(cuEventRecord, , (struct CUevent_st *, struct CUstream_st *))                                       \
    X(cuEventSynchronize, , (struct CUevent_st *))                                                        \
    X(cuEventElapsedTime, , (float *, struct CUevent_st *, struct CUevent_st *))                          \
    X(cuEventDestroy, _v2, (struct CUevent_st *))                                                         \
    X(cuLaunchKernelEx, , (const struct CUlaunchConfig_st *, struct CUfunc_st *, void **, void **))

#define CUDA_NVRTC_TABLE(X)                                                                                 \
    X(nvrtcVersion, , (int *, int *))                                                                       \
    X(nvrtcCreateProgram, ,                                                                                 \
      (struct _nvrtcProgram **, const char *, const char *, int, const char *const *, const char *const *)) \
    X(nvrtcDestroyProgram, , (struct _nvrtcProgram **))                                                     \
    X(nvrtcCompileProgram, , (struct _nvrtcProgram *, int, const char *const *))                            \
    X(nvrtcGetCUBINSize, , (struct _nvrtcProgram *, size_t *))                                              \
    X(nvrtcGetCUBIN, , (struct _nvrtcProgram *, char *))                                                    \
    X(nvrtcGetProgramLogSize, , (struct _nvrtcProgram *, size_t *))                                         \
    X(nvrtcGetProgramLog, , (struct _nvrtcProgram *, char *))

#define CUDA_NVML_TABLE(X)                                                                         \
    X(nvmlInit, _v2, (void))                                                                       \
    X(nvmlShutdown, , (void))                                                                      \
    X(nvmlSystemGetDriverVersion, , (char *, unsigned))                                            \
    X(nvmlDeviceGetHandleByUUID, , (const char *, struct nvmlDevice_st **))                        \
    X(nvmlDeviceGetClockInfo, , (struct nvmlDevice_st *, unsigned, unsigned *))                    \
    X(nvmlDeviceGetTemperature, , (struct nvmlDevice_st *, unsigned, unsigned *))                  \
    X(nvmlDeviceGetPowerUsage, , (struct nvmlDevice_st *, unsigned *))                             \
    X(nvmlDeviceGetCurrentClocksThrottleReasons, , (struct nvmlDevice_st *, unsigned long long *)) \
    X(nvmlDeviceGetUtilizationRates, , (struct nvmlDevice_st *, struct nvmlUtilization_st *))      \
    X(nvmlDeviceGetMemoryInfo, , (struct nvmlDevice_st *, struct nvmlMemory_st *))                 \
    X(nvmlDeviceGetComputeRunningProcesses, _v3, (struct nvmlDevice_st *, unsigned *, struct nvmlProcessInfo_v2_st *))

/* A descriptor is a void *. */
#define CUDA_CUDNN_TABLE(X)                                                                 \
    X(cudnnGetProperty, , (unsigned, int *))                                                \
    X(cudnnCreate, , (struct cudnnContext **))                                              \
    X(cudnnDestroy, , (struct cudnnContext *))                                              \
    X(cudnnSetStream, , (struct cudnnContext *, struct CUstream_st *))                      \
    X(cudnnBackendCreateDescriptor, , (unsigned, void **))                                  \
    X(cudnnBackendDestroyDescriptor, , (void *))                                            \
    X(cudnnBackendFinalize, , (void *))                                                     \
    X(cudnnBackendSetAttribute, , (void *, unsigned, unsigned, int64_t, const void *))      \
    X(cudnnBackendGetAttribute, , (void *, unsigned, unsigned, int64_t, int64_t *, void *)) \
    X(cudnnBackendExecute, , (struct cudnnContext *, void *, void *))

#define CUDA_MEMBER(name, version, parameters) unsigned(*name) parameters;
struct cuda_driver {
    CUDA_DRIVER_TABLE(CUDA_MEMBER)
};
struct cuda_nvrtc {
    CUDA_NVRTC_TABLE(CUDA_MEMBER)
};
struct cuda_nvml {
    CUDA_NVML_TABLE(CUDA_MEMBER)
};
struct cuda_cudnn {
    CUDA_CUDNN_TABLE(CUDA_MEMBER)
};
#undef CUDA_MEMBER

/*
 * Each fills a table; 0, or -1 with the reason, a whole sentence, in reason[0…size). ret_path, when not NULL, gets the
 * name under which the library was found. NVRTC is $WARPTUNE_NVRTC when that is set, cuDNN $WARPTUNE_CUDNN.
 */
int cuda_driver_open(struct cuda_driver *ret, char *reason, size_t size);
int cuda_nvrtc_open(struct cuda_nvrtc *ret, const char **ret_path, char *reason, size_t size);
int cuda_nvml_open(struct cuda_nvml *ret, char *reason, size_t size);
int cuda_cudnn_open(struct cuda_cudnn *ret, char *reason, size_t size);

/* What cuLaunchKernelEx takes, as CUDA 11.8 and later lay it out. */
struct cuda_attribute {
    unsigned id, pad;
    union {
        int allowed;
        char all[64];
    } value;
};
struct cuda_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    struct CUstream_st *stream;
    struct cuda_attribute *attributes;
    unsigned n_attributes;
};

/* Launches a kernel; `early`: it may begin before the one ahead of it in the stream has ended. */
unsigned cuda_launch_kernel(const struct cuda_driver *driver, struct CUfunc_st *function, const unsigned grid[3],
                            const unsigned block[3], unsigned shared_bytes, int early, struct CUstream_st *stream,
                            void **args);

/* «what: CUDA_ERROR_… (its explanation)» for a status other than 0. */
void cuda_explain(const struct cuda_driver *driver, unsigned status, const char *what, char *text, size_t size);

#endif
