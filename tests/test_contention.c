/* test_contention.c - how busy a host's other processes kept it, read from the host's counters.  Folders stand for
 * hosts. */
#include <glib.h>
#include <glib/gstdio.h>
#include <math.h>
#include <sched.h>
#include <unistd.h>

#include "replay/contention.h"
#include "tests/unit.h"

static void file_write(const char *root, const char *path, const char *text)
{
    g_autofree char *full = g_strconcat(root, path, NULL), *folder = g_path_get_dirname(full);
    CU_ASSERT_EQUAL_FATAL(g_mkdir_with_parents(folder, 0700), 0);
    CU_ASSERT_TRUE_FATAL(g_file_set_contents(full, text, -1, NULL));
}

static void file_remove(const char *root, const char *path)
{
    g_autofree char *full = g_strconcat(root, path, NULL);
    (void)g_unlink(full);
}

static char *host_new(void)
{
    char *root = MADE(g_dir_make_tmp("contention-XXXXXX", NULL));
    file_write(root, "/proc/stat",
               "cpu  500 0 500 9000 0 0 0 0 0 0\n"
               "cpu0 300 0 200 4500 0 0 0 0 0 0\n"
               "cpu1 200 0 300 4500 0 0 0 0 0 0\n"
               "intr 1\nprocs_running 2\n");
    file_write(root, "/proc/pressure/cpu",
               "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n"
               "full avg10=0.00 avg60=0.00 avg300=0.00 total=77\n");
    file_write(root, "/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2400.5\nprocessor\t: 1\ncpu MHz\t\t: 3100.0\n");
    return root;
}

static void host_free(char *root)
{
    static const char *const paths[] = { "/proc/stat", "/proc/pressure/cpu", "/proc/cpuinfo",
                                         "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq" };
    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) file_remove(root, paths[i]);
    static const char *const folders[] = { "/proc/pressure",
                                           "/proc",
                                           "/sys/devices/system/cpu/cpu0/cpufreq",
                                           "/sys/devices/system/cpu/cpu0",
                                           "/sys/devices/system/cpu",
                                           "/sys/devices/system",
                                           "/sys/devices",
                                           "/sys",
                                           "" };
    for (size_t i = 0; i < G_N_ELEMENTS(folders); i++) {
        g_autofree char *full = g_strconcat(root, folders[i], NULL);
        (void)g_rmdir(full);
    }
    g_free(root);
}

TEST("counters of a host")
{
    char *root = host_new();
    struct contention_reading r;
    contention_read(root, NULL, &r);
    const double tick_us = 1e6 / (double)sysconf(_SC_CLK_TCK);
    CU_ASSERT_EQUAL(r.cpus, 2);
    CU_ASSERT_DOUBLE_EQUAL(r.busy_us, 1000 * tick_us, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(r.steal_us, 0, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(r.pressure_us, 1000, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(r.running, 2, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(r.mhz, 2400.5, 1e-6);
    file_write(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1800000\n");
    contention_read(root, NULL, &r);
    CU_ASSERT_DOUBLE_EQUAL(r.mhz, 1800, 1e-6);
    host_free(root);
}

/* Returns the contention of two CPUs within one second, in which the ranks used 1.5 s of CPU time. */
static struct contention between(double busy_s, double steal_s)
{
    const struct contention_reading from = { .cpus = 2, .running = 3, .mhz = 2000 };
    const struct contention_reading to = { .wall_us = 1e6,
                                           .busy_us = busy_s * 1e6,
                                           .steal_us = steal_s * 1e6,
                                           .pressure_us = 0.5e6,
                                           .running = 1,
                                           .mhz = 3000,
                                           .cpus = 2 };
    return contention_between(&from, &to, 1.5e6);
}

TEST("shares between two readings")
{
    const struct contention quiet = between(1.52, 0), others = between(1.9, 0), stolen = between(1.5, 0.1);
    CU_ASSERT_DOUBLE_EQUAL(quiet.others, 0.01, 1e-9);
    CU_ASSERT_FALSE(contention_busy(&quiet));
    CU_ASSERT_DOUBLE_EQUAL(others.others, 0.2, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(others.pressure, 0.5, 1e-9);
    CU_ASSERT_TRUE(contention_busy(&others));
    CU_ASSERT_DOUBLE_EQUAL(stolen.steal, 0.05, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(stolen.others, 0, 1e-9);
    CU_ASSERT_TRUE(contention_busy(&stolen));
    CU_ASSERT_DOUBLE_EQUAL(others.running, 3, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(others.mhz_min, 2000, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(others.mhz_max, 3000, 1e-9);
}

/* One kernel has no pressure counters, and one host has the /proc of another system.  Values that are not known must
 * not be claimed. */
TEST("counters that are not there")
{
    char *root = host_new();
    struct contention_reading from, to;
    file_remove(root, "/proc/pressure/cpu");
    contention_read(root, NULL, &from);
    CU_ASSERT_TRUE(isnan(from.pressure_us));
    CU_ASSERT_FALSE(isnan(from.busy_us));
    file_write(root, "/proc/stat", "cpu 1 2\ncpu0 1 2 3\nprocs_running");
    file_remove(root, "/proc/cpuinfo");
    contention_read(root, NULL, &from);
    contention_read(root, NULL, &to);
    CU_ASSERT_EQUAL(from.cpus, 0);
    const struct contention c = contention_between(&from, &to, 0);
    CU_ASSERT_TRUE(isnan(c.others) && isnan(c.steal) && isnan(c.pressure) && isnan(c.mhz_min));
    CU_ASSERT_FALSE(contention_busy(&c));
    g_autoptr(record) record = record_new();
    contention_record(&c, record);
    CU_ASSERT_STRING_EQUAL(record_get(record, "busy"), "unknown");
    CU_ASSERT_STRING_EQUAL(record_get(record, "cpu-others-pct"), "unknown");
    host_free(root);
}

TEST("header lines")
{
    const struct contention c = between(1.9, 0.02);
    g_autoptr(record) record = record_new();
    contention_record(&c, record);
    CU_ASSERT_STRING_EQUAL(record_get(record, "busy"), "yes");
    CU_ASSERT_STRING_EQUAL(record_get(record, "cpu-others-pct"), "20.0");
    CU_ASSERT_STRING_EQUAL(record_get(record, "cpu-steal-pct"), "1.0");
    CU_ASSERT_STRING_EQUAL(record_get(record, "cpu-pressure-pct"), "50.0");
    CU_ASSERT_STRING_EQUAL(record_get(record, "run-queue"), "3");
    CU_ASSERT_STRING_EQUAL(record_get(record, "cpu-mhz"), "2000 to 3000");
}

/* Only the CPUs asked for are read. */
TEST("some of the CPUs")
{
    char *root = host_new();
    cpu_set_t second;
    CPU_ZERO(&second);
    CPU_SET(1, &second);
    struct contention_reading r;
    contention_read(root, &second, &r);
    CU_ASSERT_EQUAL(r.cpus, 1);
    CU_ASSERT_DOUBLE_EQUAL(r.busy_us, 500 * 1e6 / (double)sysconf(_SC_CLK_TCK), 1e-6);
    host_free(root);
}

/* The number-th CPU of the set, modulo the size of the set. */
static int cpu_of(const cpu_set_t *set, uint32_t number)
{
    int cpu = -1;
    for (uint32_t left = number % (uint32_t)CPU_COUNT(set) + 1; left; left -= CPU_ISSET(++cpu, set) != 0) {}
    return cpu;
}

/* Each of the two ranks is bound to a CPU of its own, and watches both CPUs, because the CPU time of both is
 * subtracted. */
static int rank_watches(struct bootstrap *b, void *context)
{
    const cpu_set_t *whole = context;
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(cpu_of(whole, b->rank), &mine);
    if (sched_setaffinity(0, sizeof mine, &mine) != 0) return 2;
    struct contention_watch watch;
    struct contention c;
    if (!contention_begin(b, &watch, NULL) || !contention_end(b, &watch, &c, NULL)) return 3;
    const uint32_t cpus = (uint32_t)MIN(CPU_COUNT(whole), 2);
    if ((uint32_t)CPU_COUNT(&watch.cpus) != cpus || watch.from.cpus != cpus) return 4;
    return CPU_ISSET(cpu_of(whole, 0), &watch.cpus) && CPU_ISSET(cpu_of(whole, 1), &watch.cpus) ? 0 : 5;
}

TEST("ranks bound to CPUs of their own")
{
    cpu_set_t whole;
    CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof whole, &whole), 0);
    CU_ASSERT_EQUAL(bootstrap_fork_run(2, 20000, rank_watches, &whole), 0);
}

/* This thread works, then sleeps.  The counters must show both. */
TEST("time of a thread")
{
    const double before_us = contention_thread_us();
    volatile double sum = 0;
    while (contention_thread_us() < before_us + 2000) sum += 1;
    CU_ASSERT(sum > 0 && contention_process_us() >= 2000);
    const uint64_t slept = contention_thread_sleeps();
    g_usleep(1000);
    CU_ASSERT(contention_thread_sleeps() > slept);
}

/* Ranks keep their CPUs busy.  Then one of them does not get its CPU. */
TEST("disturbed phases")
{
    struct contention_effort effort[4];
    for (uint32_t r = 0; r < 4; r++) effort[r] = (struct contention_effort){ .wall_us = 100, .cpu_us = 99 };
    CU_ASSERT_FALSE(contention_disturbed(effort, 4, 8, true));
    effort[2].cpu_us = 80;
    CU_ASSERT_TRUE(contention_disturbed(effort, 4, 8, true));
    /* The rank sleeps, so its CPU may be idle. */
    effort[2].slept = true;
    CU_ASSERT_FALSE(contention_disturbed(effort, 4, 8, true));
    /* Two CPUs serve four ranks: ranks 0 and 2 share one, 1 and 3 the other. */
    for (uint32_t r = 0; r < 4; r++)
        effort[r] = (struct contention_effort){ .wall_us = 100, .cpu_us = r < 2 ? 70 : 29 };
    CU_ASSERT_FALSE(contention_disturbed(effort, 4, 2, true));
    effort[3].cpu_us = 10;
    CU_ASSERT_TRUE(contention_disturbed(effort, 4, 2, true));
    /* Ranks that are bound to no CPU used 179 of 200 us. */
    CU_ASSERT_TRUE(contention_disturbed(effort, 4, 2, false));
    effort[3].cpu_us = 25;
    CU_ASSERT_FALSE(contention_disturbed(effort, 4, 2, false));
}
