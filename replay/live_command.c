/* live_command.c - options of live links, and the start of one process for each rank.
 *
 * Bad options and an output that cannot be written are found before any process starts, because a run may take long. */
#include "replay/live_command.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "sim/command.h"
#include "sim/command_line.h"
#include "sim/new_file.h"
#include "sim/version.h"

GOptionEntry *live_command_entries(struct live_command *c)
{
    c->gid_index = c->rank = c->world_size = -1;
    c->ranks = LIVE_RANKS_NOT_GIVEN;
    c->timeout_s = 60;
    const GOptionEntry entries[] = {
        { "fabric", 0, 0, G_OPTION_ARG_STRING, &c->fabric,
          "Network: shm (the default), verbs or ofi; measure: cuda too", "NAME" },
        { "provider", 0, 0, G_OPTION_ARG_STRING, &c->provider, "ofi: tcp, shm, verbs, efa, cxi (default: best)",
          "NAME" },
        { "device", 0, 0, G_OPTION_ARG_STRING, &c->device, "verbs, ofi: device, or a list for the local ranks",
          "NAME[,NAME]" },
        { "port", 0, 0, G_OPTION_ARG_INT, &c->port, "verbs: port of the device (default: the first active)", "N" },
        { "gid-index", 0, 0, G_OPTION_ARG_INT, &c->gid_index, "verbs: GID (default: chosen)", "N" },
        { "sl", 0, 0, G_OPTION_ARG_INT, &c->service_level, "verbs: service level, 0 to 15", "N" },
        { "traffic-class", 0, 0, G_OPTION_ARG_INT, &c->traffic_class, "verbs: traffic class, 0 to 255", "N" },
        { "signalling", 0, 0, G_OPTION_ARG_STRING, &c->signalling,
          "How signals cross the network: write (the default), atomic or imm", "NAME" },
        { "gpu-memory", 0, 0, G_OPTION_ARG_NONE, &c->gpu_memory, "verbs: heap in GPU memory (dma-buf)", NULL },
        { "timeout", 0, 0, G_OPTION_ARG_INT, &c->timeout_s,
          "End the run after this many seconds without progress (default 60)", "S" },
        { "ranks", 0, 0, G_OPTION_ARG_INT, &c->ranks, "Ranks to fork on this host (replay: as --num-ranks)", "N" },
        { "no-bind", 0, 0, G_OPTION_ARG_NONE, &c->unbound,
          "Let forked ranks run on any CPU (default: pin rank r to CPU r, modulo the number of CPUs)", NULL },
        { "rank", 0, 0, G_OPTION_ARG_INT, &c->rank, "This process is rank N of --world-size, by TCP", "N" },
        { "world-size", 0, 0, G_OPTION_ARG_INT, &c->world_size, "With --rank: number of ranks", "N" },
        { "root", 0, 0, G_OPTION_ARG_STRING, &c->root, "With --rank: address of rank 0", "HOST:PORT" },
        { "secret-file", 0, 0, G_OPTION_ARG_FILENAME, &c->secret_file,
          "With --rank: file with the secret that all ranks share", "FILE" },
        COMMAND_LINE_OUTPUT(&c->output, "Output file of the record (default '-': standard output)"),
        COMMAND_LINE_FORMAT(&c->format, "Format of the record: csv (the default), json or collectivex"),
        { 0 },
    };
    return g_memdup2(entries, sizeof entries);
}

static bool number_check(const char *name, gint value, gint least, gint most, GError **error)
{
    if (value >= least && value <= most) return true;
    return error_input(error, "--%s: expected a whole number from %d to %d, found %d", name, least, most, value);
}

static bool numbers_check(const struct live_command *c, GError **error)
{
    return number_check("port", c->port, 0, 255, error) && number_check("gid-index", c->gid_index, -1, 255, error) &&
           number_check("sl", c->service_level, 0, 15, error) &&
           number_check("traffic-class", c->traffic_class, 0, 255, error) &&
           number_check("timeout", c->timeout_s, 1, 3600, error) &&
           (c->ranks == LIVE_RANKS_NOT_GIVEN || number_check("ranks", c->ranks, 1, 1024, error));
}

static bool joining_check(const struct live_command *c, GError **error)
{
    const bool any = c->rank >= 0 || c->world_size >= 0 || c->root || c->secret_file;
    if (!any) return true;
    if (c->rank < 0 || c->world_size < 1 || !c->root || !c->secret_file)
        return error_input(error, "--rank, --world-size, --root, --secret-file: expected all four, found only some");
    if (c->ranks != LIVE_RANKS_NOT_GIVEN && c->ranks != c->world_size)
        return error_input(error, "--ranks: expected --world-size's %d or nothing, found %d", c->world_size, c->ranks);
    return number_check("world-size", c->world_size, 1, UINT16_MAX, error) &&
           number_check("rank", c->rank, 0, c->world_size - 1, error);
}

/* Returns the index of the value in choices ("a|b|c").  -1 and *error if it is not one of them. */
static int choice_find(const char *name, const char *choices, const char *value, GError **error)
{
    g_auto(GStrv) choice = g_strsplit(choices, "|", 0);
    int found = value ? -1 : 0;
    for (int i = 0; found < 0 && choice[i]; i++)
        if (strcmp(choice[i], value) == 0) found = i;
    g_autofree char *list = g_strjoinv(", ", choice);
    if (found < 0) error_input(error, "--%s: expected one of %s, found '%s'", name, list, value);
    return found;
}

bool live_command_output_check(struct live_command *c, GError **error)
{
    return numbers_check(c, error) && record_format_parse(c->format ? c->format : "csv", &c->record_format, error) &&
           (!c->output || new_file_possible(c->output, error));
}

/* Refuses options of another fabric. */
static bool fabric_options_check(const struct live_command *c, GError **error)
{
    const char *const found = c->fabric ? c->fabric : "shm";
    const bool verbs = strcmp(found, "verbs") == 0, ofi = strcmp(found, "ofi") == 0;
    const char *const of_verbs = c->port             ? "port"
                                 : c->gid_index >= 0 ? "gid-index"
                                 : c->service_level  ? "sl"
                                 : c->traffic_class  ? "traffic-class"
                                 : c->gpu_memory     ? "gpu-memory"
                                                     : NULL;
    if (of_verbs && !verbs) return error_input(error, "--%s: expected --fabric verbs, found %s", of_verbs, found);
    if (c->provider && !ofi) return error_input(error, "--provider: expected --fabric ofi, found %s", found);
    if (c->device && !verbs && !ofi)
        return error_input(error, "--device: expected --fabric verbs or ofi, found %s", found);
    return true;
}

bool live_command_check(struct live_command *c, GError **error)
{
    if (!numbers_check(c, error) || !joining_check(c, error)) return false;
    const int fabric = choice_find("fabric", "shm|verbs|ofi", c->fabric, error);
    if (fabric < 0) return false;
    const int signalling = choice_find("signalling", "write|atomic|imm", c->signalling, error);
    if (signalling < 0) return false;
    if (!record_format_parse(c->format ? c->format : "csv", &c->record_format, error)) return false;
    if (!fabric_options_check(c, error)) return false;
    if (c->output && !new_file_possible(c->output, error)) return false;
    live_options_init(&c->live);
    c->live.fabric = c->fabric ? c->fabric : "shm";
    c->live.provider = c->provider;
    c->live.device = c->device;
    c->live.port = (uint32_t)c->port;
    c->live.gid_index = c->gid_index;
    c->live.service_level = (uint32_t)c->service_level;
    c->live.traffic_class = (uint32_t)c->traffic_class;
    c->live.signalling = (enum live_signalling)signalling;
    c->live.timeout_ms = (uint32_t)c->timeout_s * 1000;
    c->live.gpu_memory = c->gpu_memory;
    return true;
}

enum { SECRET_BYTES_MAX = 4096, SECRET_BYTES_WISE = 16 };

/* Reads the whole file, up to SECRET_BYTES_MAX, and drops the line ends at its end.  The file may be a pipe. */
static bool secret_read(const char *path, uint8_t *bytes, size_t *size_bytes, struct stat *status, GError **error)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    *size_bytes = 0;
    if (fd >= 0 && fstat(fd, status) == 0) {
        while ((n = read(fd, bytes + *size_bytes, SECRET_BYTES_MAX + 1 - *size_bytes)) > 0) *size_bytes += (size_t)n;
    }
    if (n < 0)
        error_input(error, "--secret-file: %s: expected a file that can be read, found: %s", path, g_strerror(errno));
    if (fd >= 0) close(fd);
    if (n < 0) return false;
    if (*size_bytes > SECRET_BYTES_MAX)
        return error_input(error, "--secret-file: %s: expected at most %d bytes, found more", path, SECRET_BYTES_MAX);
    while (*size_bytes && (bytes[*size_bytes - 1] == '\n' || bytes[*size_bytes - 1] == '\r')) --*size_bytes;
    if (*size_bytes) return true;
    return error_input(error, "--secret-file: %s: expected a line of text, found none", path);
}

static void secret_warn(const struct live_command *c, size_t size_bytes, const struct stat *status)
{
    if (size_bytes < SECRET_BYTES_WISE)
        fprintf(stderr, "eptwin %s: warning: --secret-file: %s: %zu bytes can be guessed: expected %d or more\n",
                c->name, c->secret_file, size_bytes, SECRET_BYTES_WISE);
    if (S_ISREG(status->st_mode) && status->st_mode & (S_IROTH | S_IWOTH))
        fprintf(stderr,
                "eptwin %s: warning: --secret-file: %s: everybody on this host can read or write it: expected mode "
                "0600, found %04o\n",
                c->name, c->secret_file, (unsigned)status->st_mode & 07777);
}

static struct bootstrap *tcp_join(const struct live_command *c, GError **error)
{
    uint8_t secret[SECRET_BYTES_MAX + 1];
    size_t secret_bytes;
    struct stat status;
    if (!secret_read(c->secret_file, secret, &secret_bytes, &status, error)) return NULL;
    secret_warn(c, secret_bytes, &status);
    const struct bootstrap_tcp_options options = {
        .rank = (uint32_t)c->rank,
        .rank_count = (uint32_t)c->world_size,
        .root = c->root,
        .secret = { secret, secret_bytes },
        .timeout_ms = c->live.timeout_ms,
    };
    return bootstrap_tcp_new(&options, error);
}

bool live_command_join(struct live_command *c, GError **error)
{
    if (c->rank >= 0) c->bootstrap = tcp_join(c, error);
    else if (bootstrap_pmix_detected()) c->bootstrap = bootstrap_pmix_new(c->live.timeout_ms, error);
    else return true;
    return c->bootstrap != NULL;
}

int live_command_fail(const struct live_command *c, GError *error) { return command_line_fail(c->name, error); }

struct rank_call {
    const struct live_command *command;
    bool (*rank_main)(struct bootstrap *b, void *context, GError **error);
    void *context;
};

/* Returns the message, without the beginning "rank N: " if N is this rank, because the reader is told the rank
 * anyway. */
static const char *reason_text(const struct bootstrap *b, const GError *error)
{
    char own[24];
    g_snprintf(own, sizeof own, "rank %u: ", b->rank);
    return error->message + (g_str_has_prefix(error->message, own) ? strlen(own) : 0);
}

/* Binds this process to the CPU with number rank, modulo the number of CPUs.  If ranks outnumber the CPUs,
 * Linux moves unbound ranks, and a rank's times depend on which ranks share its CPU.  A bound rank shares its CPU with
 * the same ranks in each run.  A failure is ignored. */
static void rank_bind(uint32_t rank)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) (void)live_cpu_bind(&cpus, rank);
}

/* Runs a rank's main function, and returns its exit status.  If a forked rank failed, the parent reports it once, and
 * forked ranks that only learned of the failure report nothing.  A joined rank reports any failure, another rank's too.
 */
static int rank_call_run(struct bootstrap *b, void *context)
{
    const struct rank_call *call = context;
    GError *error = NULL;
    if (!call->command->bootstrap && !call->command->unbound) rank_bind(b->rank);
    if (call->rank_main(b, call->context, &error)) return EXIT_OK;
    if (g_error_matches(error, LIVE_ERROR, LIVE_PEER_FAILED)) (void)bootstrap_barrier(b, NULL);
    else if (!g_error_matches(error, BOOTSTRAP_ERROR, BOOTSTRAP_PEER_FAILED)) bootstrap_abort(b, reason_text(b, error));
    if (call->command->bootstrap) return live_command_fail(call->command, error);
    const int status = error_status(error);
    g_error_free(error);
    return status;
}

int live_command_run(struct live_command *c, uint32_t rank_count,
                     bool (*rank_main)(struct bootstrap *b, void *context, GError **error), void *context)
{
    struct rank_call call = { c, rank_main, context };
    cpu_set_t cpus;
    c->cpus = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) : 1;
    if (c->bootstrap) return rank_call_run(c->bootstrap, &call);
    g_assert(getrandom(&c->live.family, sizeof c->live.family, 0) == sizeof c->live.family);
    const int status = bootstrap_fork_run(rank_count, c->live.timeout_ms, rank_call_run, &call);
    link_ofi_clean(&c->live);
    return status;
}

/* The processor's name as Linux reports it. */
static char *processor_name(void)
{
    g_autofree char *text = NULL;
    char *name = NULL;
    if (g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL)) {
        const char *line = strstr(text, "model name");
        const char *start = line ? strchr(line, ':') : NULL;
        if (start) name = g_strndup(start + 1, strcspn(start + 1, "\n"));
    }
    return name ? g_strstrip(name) : g_strdup("unknown processor");
}

void live_command_note(struct live_command *c, const struct live_world *world)
{
    g_strlcpy(c->nvlink_carrier, live_world_nvlink_carrier(world), sizeof c->nvlink_carrier);
    g_strlcpy(c->network_carrier, live_world_network_carrier(world), sizeof c->network_carrier);
}

void live_command_record_machine(const struct live_command *c, struct record *record)
{
    struct utsname system;
    if (uname(&system) != 0) memset(&system, 0, sizeof system);
    g_autofree char *processor = processor_name();
    record_set(record, "version", "%s", eptwin_version());
    record_set(record, "kind", "%s", c->name);
    record_set(record, "machine", "%s, %u CPUs, %s %s", processor, c->cpus, system.sysname, system.release);
    record_set(record, "cpus", "%u", c->cpus);
}

void live_command_record(const struct live_command *c, const struct bootstrap *b, struct record *record)
{
    live_command_record_machine(c, record);
    record_set(record, "bootstrap", "%s", b->ops->name);
    if (strcmp(b->ops->name, "fork") == 0) record_set(record, "bound", "%s", c->unbound ? "false" : "true");
    record_set(record, "fabric", "%s", c->live.fabric);
    if (c->live.provider) record_set(record, "provider", "%s", c->live.provider);
    if (c->live.device) record_set(record, "device", "%s", c->live.device);
    record_set(record, "nvlink-carrier", "%s", c->nvlink_carrier);
    record_set(record, "network-carrier", "%s", c->network_carrier);
    record_set(record, "signalling", "%s", c->signalling ? c->signalling : "write");
}
