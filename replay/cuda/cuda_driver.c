/* cuda_driver.c - opens NVIDIA's driver library and finds its functions by name. */
#include "replay/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

static const char cuda_library_name[] = "libcuda.so.1";

static const struct {
    const char *symbol, *member;
    size_t place;
} functions[] = {
#define CUDA_ENTRY(name, member, parameters) { #name, #member, offsetof(struct cuda_driver, member) },
    CUDA_FUNCTIONS(CUDA_ENTRY)
#undef CUDA_ENTRY
};

static bool functions_find(struct cuda_driver *driver, GError **error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(functions); i++) {
        void *found = dlsym(driver->library, functions[i].symbol);
        if (!found)
            return error_run(error, "%s: expected a driver with %s (CUDA 12 or later), found none", cuda_library_name,
                             functions[i].symbol);
        memcpy((char *)driver + functions[i].place, &found, sizeof found); /* ISO C does not convert function
                                                                            * pointers to object pointers */
    }
    return true;
}

bool cuda_driver_open(struct cuda_driver *driver, GError **error)
{
    *driver = (struct cuda_driver){ .library = dlopen(cuda_library_name, RTLD_NOW | RTLD_LOCAL) };
    if (!driver->library)
        return error_run(error, "--fabric cuda: expected NVIDIA's driver (%s), found none", cuda_library_name);
    int count = 0;
    /* Modules are loaded at once.  If they were loaded at a kernel's first launch, the launch would wait for running
     * kernels, which may themselves wait for that kernel. */
    g_setenv("CUDA_MODULE_LOADING", "EAGER", TRUE);
    bool fine = functions_find(driver, error);
    if (fine && (driver->init(0) != 0 || driver->count(&count) != 0 || count == 0)) {
        error_run(error, "--fabric cuda: expected a GPU that NVIDIA's driver sees, found none");
        fine = false;
    }
    if (!fine) cuda_driver_close(driver);
    return fine;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    dlclose(driver->library);
    driver->library = NULL;
}

bool cuda_driver_check(const struct cuda_driver *driver, cuda_result result, const char *call, GError **error)
{
    const char *name = NULL;
    if (result == 0) return true;
    for (size_t i = 0; i < G_N_ELEMENTS(functions); i++)
        if (strcmp(functions[i].member, call) == 0) call = functions[i].symbol;
    if (driver->error_name(result, &name) != 0 || !name) name = "an error without a name";
    return error_run(error, "%s: %s (%d)", call, name, result);
}
