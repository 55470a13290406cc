/* ofi_library.c - libfabric itself, loaded when a link first needs it.
 *
 * libfabric's providers have constructors that sleep (0.2 s with Debian's 1.17) and install signal handlers.  A
 * program linked with libfabric would pay for that at every start, whatever it does.  Only the five functions of
 * struct ofi_library are looked up.  All other calls go through tables of functions in libfabric's objects.
 *
 * The signal handlers of PSM (libinfinipath) write a *.btr file and call exit().  exit() may wait for ever for a
 * lock that the interrupted call holds.  So signals are held back while a library may be loaded, and then their
 * earlier handling is restored.  If a signal kills a rank, the signal is then reported as the cause. */
#ifdef HAVE_OFI
#    include "replay/links/ofi.h"

#    include <dlfcn.h>

static struct ofi_library library;
static GMutex signals_lock; /* held by the thread that loads a library; otherwise another thread could save a handler
                             * that the library has just installed, as if it were the earlier one */

void ofi_signals_hold(struct ofi_signals *s)
{
    sigset_t all;
    g_mutex_lock(&signals_lock);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &s->mask);
    for (int number = 1; number < NSIG; number++) s->known[number] = !sigaction(number, NULL, &s->action[number]);
}

void ofi_signals_release(const struct ofi_signals *s)
{
    for (int number = 1; number < NSIG; number++)
        if (s->known[number]) (void)sigaction(number, &s->action[number], NULL); /* fails for SIGKILL and SIGSTOP */
    pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
    g_mutex_unlock(&signals_lock);
}

static const char *ofi_library_fill(void)
{
    void *const handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *place;
    } symbols[] = {
        { "fi_getinfo", &library.getinfo }, { "fi_dupinfo", &library.dupinfo },   { "fi_freeinfo", &library.freeinfo },
        { "fi_fabric", &library.fabric },   { "fi_strerror", &library.strerror },
    };
    if (!handle) return dlerror();
    for (size_t i = 0; i < G_N_ELEMENTS(symbols); i++) {
        void *const symbol = dlsym(handle, symbols[i].name);
        if (!symbol) return dlerror();
        *(void **)symbols[i].place = symbol; /* POSIX shows this cast for dlsym() */
    }
    return NULL;
}

const struct ofi_library *ofi_library_load(GError **error)
{
    static gsize loaded;
    static char *failure;
    if (g_once_init_enter(&loaded)) {
        struct ofi_signals signals;
        ofi_signals_hold(&signals);
        failure = g_strdup(ofi_library_fill());
        ofi_signals_release(&signals);
        g_once_init_leave(&loaded, 1);
    }
    if (!failure) return &library;
    return error_run(error, "--fabric ofi: expected libfabric (package libfabric1), found: %s", failure), NULL;
}

#endif
