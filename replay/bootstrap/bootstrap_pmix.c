/* bootstrap_pmix.c - ranks that mpirun or srun started.  PMIx tells each rank its number, the address where rank 0
 * listens, and the secret to join with.  After that, the ranks exchange by TCP.
 *
 * PMIx has exchanges of its own, but with them a waiting rank cannot be asked what it waits for.  This file does not
 * need to know which launcher runs. */
#include "replay/bootstrap/bootstrap_internal.h"

#include <stdlib.h>
#include <string.h>

bool bootstrap_pmix_detected(void)
{
    const char *const tasks = getenv("SLURM_STEP_NUM_TASKS");
    return getenv("PMIX_RANK") || getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK") ||
           (tasks && strcmp(tasks, "1") != 0);
}

#ifdef HAVE_PMIX

#    include <ifaddrs.h>
#    include <limits.h>
#    include <net/if.h>
#    include <netdb.h>
#    include <netinet/in.h>
#    include <pmix.h>
#    include <sys/random.h>
#    include <unistd.h>

/* Rank 0 publishes "SECRET PORT HOST ADDRESS..." under this key. */
#    define ROOT_KEY "eptwin.root"
enum { SECRET_BYTES = 32, SECRET_CHARACTERS = 2 * SECRET_BYTES, ASK_AGAIN_MS = 20 };

struct meeting {
    char secret[SECRET_CHARACTERS + 1];
    pmix_status_t status; /* result of the publication */
};

static bool pmix_fail(GError **error, const char *what, pmix_status_t status)
{
    return error_run(error, "PMIx: %s: %s", what, PMIx_Error_string(status));
}

static void host_name(char *name)
{
    if (gethostname(name, HOST_NAME_MAX + 1) != 0) name[0] = 0;
    name[HOST_NAME_MAX] = 0;
    if (!name[0] || strchr(name, ' ')) g_strlcpy(name, "?", 2);
}

static void secret_make(char *secret)
{
    uint8_t bytes[SECRET_BYTES];
    g_assert(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
    for (int i = 0; i < SECRET_BYTES; i++) g_snprintf(secret + (size_t)2 * i, 3, "%02x", bytes[i]);
}

/* Appends the addresses of this host, in one address family, that other hosts may reach.  A space precedes each. */
static void addresses_add(const struct ifaddrs *all, int family, GString *text)
{
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        const bool usable = i->ifa_addr && i->ifa_flags & IFF_UP && !(i->ifa_flags & IFF_LOOPBACK);
        const socklen_t size_bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        char host[NI_MAXHOST];
        if (!usable || i->ifa_addr->sa_family != family) continue;
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr)) continue;
        if (getnameinfo(i->ifa_addr, size_bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST) == 0)
            g_string_append_printf(text, " %s", host);
    }
}

static void root_listens(void *context, uint16_t port)
{
    struct meeting *const m = context;
    g_autoptr(GString) text = g_string_new(NULL);
    struct ifaddrs *all = NULL;
    char host[HOST_NAME_MAX + 1];
    host_name(host);
    g_string_printf(text, "%s %u %s", m->secret, port, host);
    if (getifaddrs(&all) == 0) {
        addresses_add(all, AF_INET, text);
        addresses_add(all, AF_INET6, text);
        freeifaddrs(all);
    }
    pmix_value_t value = { .type = PMIX_STRING, .data.string = text->str };
    m->status = PMIx_Put(PMIX_GLOBAL, ROOT_KEY, &value);
    if (m->status == PMIX_SUCCESS) m->status = PMIx_Commit();
}

/* Reads the text that rank 0 has published: the secret and a list of addresses.  False if it has another form. */
static bool card_read(const char *card, char *secret, GString *root)
{
    g_auto(GStrv) word = g_strsplit(card, " ", 0);
    char host[HOST_NAME_MAX + 1];
    if (g_strv_length(word) < 3 || strlen(word[0]) != SECRET_CHARACTERS) return false;
    memcpy(secret, word[0], SECRET_CHARACTERS + 1);
    host_name(host);
    if (strcmp(word[2], host) == 0) g_string_append_printf(root, "127.0.0.1:%s [::1]:%s", word[1], word[1]);
    for (uint32_t i = 3; word[i]; i++)
        g_string_append_printf(root, strchr(word[i], ':') ? "%s[%s]:%s" : "%s%s:%s", root->len ? " " : "", word[i],
                               word[1]);
    return root->len > 0;
}

/* Gets the text that rank 0 publishes.  Asks repeatedly, because the launcher answers at once even if the text has
 * not been published yet. */
static bool root_find(const pmix_proc_t *self, uint32_t timeout_ms, char *secret, GString *root, GError **error)
{
    const uint64_t deadline_ms = bootstrap_now_ms() + timeout_ms;
    pmix_proc_t first = *self;
    pmix_status_t status;
    int limit_s = 1;
    pmix_info_t limit;
    first.rank = 0;
    PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &limit_s, PMIX_INT);
    for (;;) {
        pmix_value_t *value = NULL;
        status = PMIx_Get(&first, ROOT_KEY, &limit, 1, &value);
        const bool read =
            status == PMIX_SUCCESS && value->type == PMIX_STRING && card_read(value->data.string, secret, root);
        if (value) PMIX_VALUE_RELEASE(value);
        if (read) return true;
        if (bootstrap_now_ms() >= deadline_ms) break;
        g_usleep(ASK_AGAIN_MS * 1000);
    }
    return error_run(error, "rank 0 did not say within %u ms where it listens: PMIx: %s", timeout_ms,
                     PMIx_Error_string(status));
}

static void launched_end(void) { PMIx_Finalize(NULL, 0); }

/* The number of processes of this job. */
static bool job_size(const pmix_proc_t *self, uint32_t *rank_count, GError **error)
{
    pmix_proc_t job = *self;
    pmix_value_t *value = NULL;
    job.rank = PMIX_RANK_WILDCARD;
    const pmix_status_t status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS) return pmix_fail(error, "cannot learn the number of ranks", status);
    *rank_count = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return true;
}

static struct bootstrap *launched_join(const pmix_proc_t *self, uint32_t rank_count, uint32_t timeout_ms,
                                       GError **error)
{
    g_autoptr(GString) root = g_string_new(self->rank == 0 ? "[::]:0 0.0.0.0:0" : NULL);
    struct meeting m = { .status = PMIX_SUCCESS };
    if (self->rank == 0) secret_make(m.secret);
    else if (!root_find(self, timeout_ms, m.secret, root, error)) return launched_end(), NULL;
    const struct bootstrap_tcp_options options = {
        .rank = self->rank,
        .rank_count = rank_count,
        .root = root->str,
        .secret = { m.secret, SECRET_CHARACTERS },
        .timeout_ms = timeout_ms,
        .name = "pmix",
        .listens = root_listens,
        .end = launched_end,
        .context = &m,
    };
    struct bootstrap *const b = bootstrap_tcp_new(&options, error);
    if (b || m.status == PMIX_SUCCESS) return b;
    if (error) g_clear_error(error);
    return pmix_fail(error, "cannot tell where rank 0 listens", m.status), NULL;
}

struct bootstrap *bootstrap_pmix_new(uint32_t timeout_ms, GError **error)
{
    pmix_proc_t self;
    uint32_t rank_count = 0;
    if (!getenv("PMIX_RANK"))
        return error_null(error, "no PMIx here: expected to be started by mpirun of Open MPI or by srun --mpi=pmix");
    const pmix_status_t status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS) return pmix_fail(error, "cannot start", status), NULL;
    if (!job_size(&self, &rank_count, error)) return launched_end(), NULL;
    return launched_join(&self, rank_count, timeout_ms, error);
}

#else

struct bootstrap *bootstrap_pmix_new(uint32_t timeout_ms, GError **error)
{
    (void)timeout_ms;
    return error_null(error, "started by mpirun or srun, but this eptwin was built without PMIx (libpmix-dev); --rank, "
                             "--world-size and --root work without it");
}

#endif
