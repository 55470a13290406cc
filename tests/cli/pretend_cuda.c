/* pretend_cuda.c - a library that answers as NVIDIA's driver does, without a GPU.  measure_pretend.sh uses it.
 *
 * PRETEND_GPUS, PRETEND_CAPABILITY and PRETEND_ALONE (GPUs do not reach each other) choose the GPUs that it pretends to
 * have.  PRETEND_FAIL names a function and how often it works before it fails: "cuLaunchKernelEx 3".  Memory is the
 * process's own, reserved and hardly touched.  A kernel of the loaded text "runs" at once, and each of its warps
 * reports 10 rows in 1,000 cycles and 500 ns.  A library that is built with -DPRETEND_OLD lacks a function. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FAILED = 719, NOT_FOUND = 500, TOUCHED_BYTES = 1 << 20 };

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : otherwise;
}

static int outcome(const char *function)
{
    static long left = -1;
    const char *fail = getenv("PRETEND_FAIL");
    const size_t length = strlen(function);
    if (!fail || strncmp(fail, function, length) != 0 || fail[length] != ' ') return 0;
    if (left < 0) left = strtol(fail + length, NULL, 10);
    return left-- == 0 ? FAILED : 0;
}
#define DONE return outcome(__func__)

#define ONE(type, name) \
    int name(type a) \
    { \
        (void)a; \
        DONE; \
    }
#define TWO(name, type, other) \
    int name(type a, other b) \
    { \
        (void)a; \
        (void)b; \
        DONE; \
    }
ONE(unsigned, cuInit)
ONE(int, cuDevicePrimaryCtxRelease_v2)
ONE(void *, cuCtxSetCurrent)
ONE(void *, cuModuleUnload)
ONE(uint64_t, cuMemFree_v2)
ONE(void *, cuStreamDestroy_v2)
ONE(void *, cuStreamSynchronize)
ONE(void *, cuEventDestroy_v2)
TWO(cuCtxEnablePeerAccess, void *, unsigned)
TWO(cuEventRecord, void *, void *)

int cuCtxSynchronize(void) { DONE; }
int cuFuncSetAttribute(void *function, int attribute, int value)
{
    (void)function;
    (void)attribute;
    (void)value;
    DONE;
}

int cuGetErrorName(int result, const char **name)
{
    *name = result == FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_NOT_FOUND";
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    DONE;
}
int cuDeviceGetCount(int *count)
{
    *count = setting("PRETEND_GPUS", 1);
    DONE;
}
int cuDeviceGet(int *device, int index)
{
    *device = index;
    DONE;
}

int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Pretended GPU %d", device);
    DONE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 75   ? setting("PRETEND_CAPABILITY", 9)
             : attribute == 16 ? 132
             : attribute == 38 ? 50 << 20
             : attribute == 97 ? 232448
                               : 0;
    DONE;
}

int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer && !setting("PRETEND_ALONE", 0);
    DONE;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)(intptr_t)(device + 1);
    DONE;
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *option, void **value)
{
    (void)options;
    (void)option;
    (void)value;
    *module = (void *)(intptr_t)image;
    DONE;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    *function = strstr(module, entry);
    return *function ? 0 : NOT_FOUND;
}

int cuMemAlloc_v2(uint64_t *address, size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *address = (uint64_t)(uintptr_t)memory;
    DONE;
}

int cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    (void)flags;
    *memory = calloc(1, size);
    DONE;
}
int cuMemFreeHost(void *memory)
{
    free(memory);
    DONE;
}

int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags)
{
    (void)flags;
    *address = (uint64_t)(uintptr_t)memory;
    DONE;
}

/* Large areas are only reserved, so nothing is written to them. */
int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t size)
{
    if (size <= TOUCHED_BYTES) memset((void *)(uintptr_t)address, value, size);
    DONE;
}

int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t size)
{
    if (size <= TOUCHED_BYTES) memcpy((void *)(uintptr_t)target, source, size);
    DONE;
}

int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t size)
{
    memcpy(target, (const void *)(uintptr_t)source, size);
    DONE;
}

int cuMemcpyDtoD_v2(uint64_t target, uint64_t source, size_t size)
{
    (void)target;
    (void)source;
    (void)size;
    DONE;
}
int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t size, void *stream)
{
    (void)stream;
    return cuMemcpyDtoD_v2(target, source, size);
}
static int stream_word(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    (void)stream;
    (void)address;
    (void)value;
    (void)flags;
    DONE;
}
int cuStreamWriteValue32_v2(void *s, uint64_t a, uint32_t v, unsigned f) { return stream_word(s, a, v, f); }
int cuStreamWaitValue32_v2(void *s, uint64_t a, uint32_t v, unsigned f) { return stream_word(s, a, v, f); }
int cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    *stream = malloc(1);
    free(*stream);
    DONE;
}
int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    *event = (void *)1;
    DONE;
}
int cuEventElapsedTime(float *ms, void *from, void *to)
{
    (void)from;
    (void)to;
    *ms = 0.128f;
    DONE;
}

#ifndef PRETEND_OLD
int cuLaunchKernelEx(const unsigned *launch, void *function, void **parameters, void **extra)
{
    const uint32_t warps = launch[0] * ((launch[3] + 31) / 32);
    uint64_t(*left)[4] = *(uint64_t(**)[4])parameters[0]; /* the first argument is where the kernel writes its
                                                           * results */
    (void)extra;
    (void)function;
    if (!left) DONE; /* a kernel that writes no results */
    for (uint32_t i = 0; i < warps; i++) {
        left[i][0] = 1000;
        left[i][1] = 1500;
        left[i][2] = 1000;
        left[i][3] = 10;
    }
    DONE;
}
#endif
