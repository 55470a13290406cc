/* cuda_driver.h - NVIDIA's driver, opened at run time.  The parts of its interface that the benchmarks need are
 * declared here, so that neither building nor running needs a CUDA toolkit.
 *
 * Types and numbers are those of the driver's public interface (CUDA 12 and later).  There is one driver a process. */
#ifndef REPLAY_CUDA_DRIVER_H
#define REPLAY_CUDA_DRIVER_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/error.h"

typedef int cuda_result;
typedef struct cuda_context *cuda_context;
typedef struct cuda_module *cuda_module;
typedef struct cuda_function *cuda_function;
typedef struct cuda_stream *cuda_stream;
typedef struct cuda_event *cuda_event;

enum cuda_attribute {
    CUDA_SMS = 16,
    CUDA_L2_BYTES = 38,
    CUDA_CAPABILITY_MAJOR = 75,
    CUDA_SHARED_MOST = 97,
};
enum { CUDA_FUNCTION_SHARED_MOST = 8 };
enum { CUDA_LAUNCH_COOPERATIVE = 2, CUDA_LAUNCH_CLUSTER = 4, CUDA_LAUNCH_EARLY = 6 };
enum { CUDA_JIT_ERRORS = 5, CUDA_JIT_ERRORS_BYTES = 6 };

struct cuda_launch_attribute {
    int id, pad;
    union {
        int cooperative, early;
        unsigned cluster[3];
        char all[64];
    } value;
};
struct cuda_launch {
    unsigned grid[3], block[3], shared_bytes;
    cuda_stream stream;
    struct cuda_launch_attribute *attributes;
    unsigned attribute_count;
};
_Static_assert(sizeof(struct cuda_launch_attribute) == 72, "the driver's layout");
_Static_assert(offsetof(struct cuda_launch, stream) == 32 && sizeof(struct cuda_launch) == 56, "the driver's layout");

/* The driver's functions: name in the driver, name in struct cuda_driver, parameters.  Addresses in a GPU's memory are
 * uint64_t. */
#define CUDA_FUNCTIONS(X) \
    X(cuInit, init, (unsigned flags)) \
    X(cuGetErrorName, error_name, (cuda_result result, const char **name)) \
    X(cuDriverGetVersion, version, (int *version)) \
    X(cuDeviceGetCount, count, (int *count)) \
    X(cuDeviceGet, device, (int *device, int index)) \
    X(cuDeviceGetName, name, (char *name, int name_size, int device)) \
    X(cuDeviceGetAttribute, attribute, (int *value, int attribute, int device)) \
    X(cuDeviceCanAccessPeer, can_access_peer, (int *can, int device, int peer)) \
    X(cuDevicePrimaryCtxRetain, context_retain, (cuda_context * context, int device)) \
    X(cuDevicePrimaryCtxRelease_v2, context_release, (int device)) \
    X(cuCtxSetCurrent, context_set, (cuda_context context)) \
    X(cuCtxEnablePeerAccess, peer_enable, (cuda_context peer, unsigned flags)) \
    X(cuModuleLoadDataEx, module_load, \
      (cuda_module * module, const void *image, unsigned options, int *option, void **value)) \
    X(cuModuleUnload, module_unload, (cuda_module module)) \
    X(cuModuleGetFunction, function, (cuda_function * function, cuda_module module, const char *name)) \
    X(cuFuncSetAttribute, function_set, (cuda_function function, int attribute, int value)) \
    X(cuMemAlloc_v2, alloc, (uint64_t * address, size_t size_bytes)) \
    X(cuMemFree_v2, free, (uint64_t address)) \
    X(cuMemHostAlloc, host_alloc, (void **memory, size_t size_bytes, unsigned flags)) \
    X(cuMemHostGetDevicePointer_v2, host_address, (uint64_t * address, void *memory, unsigned flags)) \
    X(cuMemFreeHost, host_free, (void *memory)) \
    X(cuMemsetD8_v2, set, (uint64_t address, unsigned char value, size_t size_bytes)) \
    X(cuMemcpyHtoD_v2, upload, (uint64_t target, const void *source, size_t size_bytes)) \
    X(cuMemcpyDtoH_v2, download, (void *target, uint64_t source, size_t size_bytes)) \
    X(cuMemcpyDtoD_v2, copy, (uint64_t target, uint64_t source, size_t size_bytes)) \
    X(cuMemcpyDtoDAsync_v2, copy_stream, (uint64_t target, uint64_t source, size_t size_bytes, cuda_stream stream)) \
    X(cuStreamWriteValue32_v2, stream_write, (cuda_stream stream, uint64_t address, uint32_t value, unsigned flags)) \
    X(cuStreamWaitValue32_v2, stream_await, (cuda_stream stream, uint64_t address, uint32_t value, unsigned flags)) \
    X(cuStreamCreate, stream_create, (cuda_stream * stream, unsigned flags)) \
    X(cuStreamDestroy_v2, stream_destroy, (cuda_stream stream)) \
    X(cuStreamSynchronize, stream_wait, (cuda_stream stream)) \
    X(cuCtxSynchronize, wait, (void)) \
    X(cuEventCreate, event_create, (cuda_event * event, unsigned flags)) \
    X(cuEventDestroy_v2, event_destroy, (cuda_event event)) \
    X(cuEventRecord, event_record, (cuda_event event, cuda_stream stream)) \
    X(cuEventElapsedTime, event_elapsed, (float *ms, cuda_event from, cuda_event to)) \
    X(cuLaunchKernelEx, launch, \
      (const struct cuda_launch *launch, cuda_function function, void **parameters, void **extra))

struct cuda_driver {
    void *library;
#define CUDA_MEMBER(symbol, member, parameters) cuda_result(*member) parameters;
    CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
};

/* Opens libcuda.so.1 and starts it.  False and *error (one line) if the library is missing, is too old or
 * sees no GPU.  After a failure there is nothing to close. */
bool cuda_driver_open(struct cuda_driver *driver, GError **error);
void cuda_driver_close(struct cuda_driver *driver);

/* Returns whether result is 0.  Otherwise sets *error to the name of the call and the driver's name of the failure. */
bool cuda_driver_check(const struct cuda_driver *driver, cuda_result result, const char *call, GError **error);

#endif
