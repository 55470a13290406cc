/* contention.c - reads the operating system's counters of CPU time, see contention.h. */
#include "replay/contention.h"

#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define OTHERS_BUSY 0.05
#define STEAL_BUSY  0.02
#define TAKEN_MOST  0.1 /* share of CPU time above which others disturb a phase; ticks take less than 0.01 */

/* The columns of a "cpu" line of /proc/stat, in ticks. */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, STAT_COLUMNS };

static char *file_of(const char *root, const char *path)
{
    g_autofree char *full = g_strconcat(root, path, NULL);
    char *text = NULL;
    return g_file_get_contents(full, &text, NULL, NULL) ? text : NULL;
}

static bool cpu_line_parse(const char *line, double tick_us, uint32_t *cpu, double *busy_us, double *steal_us)
{
    if (!g_str_has_prefix(line, "cpu") || !g_ascii_isdigit(line[3])) return false;
    g_auto(GStrv) word = g_strsplit(line + 3, " ", -1);
    if (g_strv_length(word) < STAT_COLUMNS) return false;
    double column[STAT_COLUMNS] = { 0 };
    for (int i = 0; i < STAT_COLUMNS && word[i + 1]; i++) column[i] = g_ascii_strtod(word[i + 1], NULL) * tick_us;
    *cpu = (uint32_t)g_ascii_strtoull(word[0], NULL, 10);
    *busy_us = column[USER] + column[NICE] + column[SYSTEM] + column[IRQ] + column[SOFTIRQ];
    *steal_us = column[STEAL];
    return true;
}

static void stat_read(const char *root, const cpu_set_t *cpus, struct contention_reading *r)
{
    g_autofree char *text = file_of(root, "/proc/stat");
    if (!text) return;
    g_auto(GStrv) line = g_strsplit(text, "\n", -1);
    double busy_us = 0, steal_us = 0;
    for (char **l = line; *l; l++) {
        uint32_t cpu;
        double busy, steal;
        if (g_str_has_prefix(*l, "procs_running ")) r->running = g_ascii_strtod(*l + strlen("procs_running "), NULL);
        if (!cpu_line_parse(*l, 1e6 / (double)sysconf(_SC_CLK_TCK), &cpu, &busy, &steal)) continue;
        if (cpus && (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, cpus))) continue;
        busy_us += busy;
        steal_us += steal;
        r->cpus++;
    }
    if (!r->cpus) return;
    r->busy_us = busy_us;
    r->steal_us = steal_us;
}

/* Reads the total of a line like "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234". */
static void pressure_read(const char *root, struct contention_reading *r)
{
    g_autofree char *text = file_of(root, "/proc/pressure/cpu");
    const char *total = text && g_str_has_prefix(text, "some ") ? strstr(text, "total=") : NULL;
    if (total) r->pressure_us = g_ascii_strtod(total + strlen("total="), NULL);
}

static void mhz_read(const char *root, struct contention_reading *r)
{
    for (uint32_t cpu = 0;; cpu++) {
        g_autofree char *path = g_strdup_printf("/sys/devices/system/cpu/cpu%u/cpufreq/scaling_cur_freq", cpu);
        g_autofree char *text = file_of(root, path);
        if (!text) break;
        const double mhz = g_ascii_strtod(text, NULL) / 1e3;
        if (mhz > 0 && !(r->mhz < mhz)) r->mhz = mhz;
    }
    if (!isnan(r->mhz)) return;
    g_autofree char *text = file_of(root, "/proc/cpuinfo");
    for (const char *at = text; at && (at = strstr(at, "cpu MHz")); at++) {
        const char *colon = strchr(at, ':');
        const double mhz = colon ? g_ascii_strtod(colon + 1, NULL) : 0;
        if (mhz > 0 && !(r->mhz < mhz)) r->mhz = mhz;
    }
}

static double clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

void contention_read(const char *root, const cpu_set_t *cpus, struct contention_reading *r)
{
    *r = (struct contention_reading){ .busy_us = NAN, .steal_us = NAN, .pressure_us = NAN, .running = NAN, .mhz = NAN };
    stat_read(root, cpus, r);
    pressure_read(root, r);
    mhz_read(root, r);
    r->wall_us = clock_us(CLOCK_MONOTONIC);
}

struct contention contention_between(const struct contention_reading *from, const struct contention_reading *to,
                                     double own_us)
{
    const double wall_us = to->wall_us - from->wall_us, all_us = wall_us * to->cpus;
    struct contention c = { .others = NAN, .steal = NAN, .pressure = NAN };
    if (all_us > 0) {
        c.others = CLAMP((to->busy_us - from->busy_us - own_us) / all_us, 0, 1);
        c.steal = CLAMP((to->steal_us - from->steal_us) / all_us, 0, 1);
        c.pressure = CLAMP((to->pressure_us - from->pressure_us) / wall_us, 0, 1);
    }
    c.running = fmax(from->running, to->running);
    c.mhz_min = fmin(from->mhz, to->mhz);
    c.mhz_max = fmax(from->mhz, to->mhz);
    return c;
}

bool contention_busy(const struct contention *c) { return c->others > OTHERS_BUSY || c->steal > STEAL_BUSY; }

static void share_record(struct record *record, const char *key, double share)
{
    if (isnan(share)) record_set(record, key, "unknown");
    else record_set(record, key, "%.1f", 100 * share);
}

void contention_record(const struct contention *c, struct record *record)
{
    record_set(record, "busy", "%s", contention_busy(c) ? "yes" : isnan(c->others) ? "unknown" : "no");
    share_record(record, "cpu-others-pct", c->others);
    share_record(record, "cpu-steal-pct", c->steal);
    share_record(record, "cpu-pressure-pct", c->pressure);
    if (isnan(c->running)) record_set(record, "run-queue", "unknown");
    else record_set(record, "run-queue", "%.0f", c->running);
    if (isnan(c->mhz_min)) record_set(record, "cpu-mhz", "unknown");
    else record_set(record, "cpu-mhz", "%.0f to %.0f", c->mhz_min, c->mhz_max);
}

/* Whether other processes disturbed the ranks first, first + step, ..., which share `cpus` CPUs. */
static bool group_disturbed(const struct contention_effort *effort, uint32_t ranks, uint32_t first, uint32_t step,
                            uint32_t cpus)
{
    double wall_us = 0, cpu_us = 0;
    for (uint32_t r = first; r < ranks; r += step) {
        if (effort[r].slept) return false;
        wall_us = fmax(wall_us, effort[r].wall_us);
        cpu_us += effort[r].cpu_us;
    }
    return wall_us > 0 && cpu_us < (1 - TAKEN_MOST) * wall_us * cpus;
}

bool contention_disturbed(const struct contention_effort *effort, uint32_t ranks, uint32_t cpus, bool bound)
{
    const uint32_t used = MIN(MAX(cpus, 1), ranks);
    if (!bound) return group_disturbed(effort, ranks, 0, 1, used);
    for (uint32_t cpu = 0; cpu < used; cpu++)
        if (group_disturbed(effort, ranks, cpu, used, 1)) return true;
    return false;
}

/* What a rank tells the others about its host: the CPUs that this rank may use, and the CPU time that it has used.
 * From these, each rank learns the CPUs and the CPU time of all ranks of its host. */
struct rank_place {
    char host[HOST_NAME_MAX + 1];
    cpu_set_t cpus;
    double own_us;
};

static bool places_gather(struct bootstrap *b, struct rank_place *mine, struct rank_place *all, GError **error)
{
    (void)gethostname(mine->host, HOST_NAME_MAX);
    if (sched_getaffinity(0, sizeof mine->cpus, &mine->cpus) != 0) CPU_ZERO(&mine->cpus);
    return bootstrap_allgather(b, mine, sizeof *mine, all, error);
}

bool contention_begin(struct bootstrap *b, struct contention_watch *watch, GError **error)
{
    struct rank_place mine = { .own_us = 0 };
    g_autofree struct rank_place *all = g_new0(struct rank_place, b->rank_count);
    if (!places_gather(b, &mine, all, error)) return false;
    CPU_ZERO(&watch->cpus);
    for (uint32_t r = 0; r < b->rank_count; r++)
        if (strcmp(all[r].host, mine.host) == 0) CPU_OR(&watch->cpus, &watch->cpus, &all[r].cpus);
    contention_read("", &watch->cpus, &watch->from);
    watch->own_us = contention_process_us();
    return true;
}

bool contention_end(struct bootstrap *b, const struct contention_watch *watch, struct contention *worst, GError **error)
{
    struct contention_reading to;
    struct rank_place mine = { .own_us = contention_process_us() - watch->own_us };
    g_autofree struct rank_place *all = g_new0(struct rank_place, b->rank_count);
    g_autofree struct contention *found = g_new0(struct contention, b->rank_count);
    contention_read("", &watch->cpus, &to);
    if (!places_gather(b, &mine, all, error)) return false;
    double host_us = 0;
    for (uint32_t r = 0; r < b->rank_count; r++)
        if (strcmp(all[r].host, mine.host) == 0) host_us += all[r].own_us;
    const struct contention here = contention_between(&watch->from, &to, host_us);
    if (!bootstrap_allgather(b, &here, sizeof here, found, error)) return false;
    *worst = found[0];
    for (uint32_t r = 1; r < b->rank_count; r++)
        if (found[r].others + found[r].steal > worst->others + worst->steal) *worst = found[r];
    return true;
}

double contention_thread_us(void) { return clock_us(CLOCK_THREAD_CPUTIME_ID); }

double contention_process_us(void) { return clock_us(CLOCK_PROCESS_CPUTIME_ID); }

uint64_t contention_thread_sleeps(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nvcsw : 0;
}
