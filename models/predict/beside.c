/* beside.c - reads --compute for dispatch and combine and gives it to the world, see beside.h. */
#include "models/predict/beside.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "models/step/costs.h"
#include "sim/error.h"
#include "sim/ranges.h"
#include "sim/share.h"
#include "sim/units.h"

enum { ROUNDS = 6 };

static bool refuse(GError **error, const char *option, const char *expected, const char *found)
{
    return error_input(error, "%s: expected %s, found '%s'", option, expected, found);
}

uint32_t beside_rounds(const struct beside *beside) { return beside->read && !beside->wanted ? 1 : ROUNDS; }

/* Reads "8192x7168x4096" or "32x256x7168x4096", with ":fp8" if it is not BF16.  Returns how many numbers the text has;
 * 0 if it does not have this form. */
static uint32_t shape_parse(const char *text, uint32_t number[4], bool *fp8)
{
    g_autofree char *shape = g_strdup(text);
    *fp8 = g_str_has_suffix(shape, ":fp8");
    if (*fp8) shape[strlen(shape) - strlen(":fp8")] = 0;
    g_auto(GStrv) words = g_strsplit(shape, "x", 5);
    uint32_t count = 0;
    for (; words[count] && count < 4; count++) {
        guint64 n;
        if (!g_ascii_string_to_unsigned(words[count], 10, 1, 1 << 24, &n, NULL)) return 0;
        number[count] = (uint32_t)n;
    }
    return words[count] ? 0 : count;
}

/* Sets the load to a GEMM of this cost.  If a grouped GEMM leaves the kernels no SMs, its last blocks wait until its
 * first ones end, and then have the memory to themselves (OCCUPANCY_SHARES, device.h): they count as no load. */
static void gemm_set(const struct step_cost *cost, const struct step_gpu *of, double share, bool waits,
                     struct beside *beside)
{
    const double clock = cost->clock_share, fewer = clock / share + (1 - clock) / fmin(1, share / DEVICE_BYTES_SHARE);
    const double us = waits ? cost->us : cost->us * fewer;
    const double late = waits ? clock + (1 - clock) * DEVICE_BYTES_SHARE : 0;
    const struct costs_options set = { .gpu = of, .clock_ghz = of->clock_ghz };
    beside->load.read_bps = 1e6 * cost->read_bytes / us;
    beside->load.write_bps = 1e6 * cost->write_bytes / us;
    beside->load.bound = clock < 0.5;
    beside->part = 1 / (1 + late);
    beside->slow = 1 / costs_sm_clock(&set, 1, cost->tensor * cost->us / us * beside->part);
}

/* Reads a GEMM that runs repeatedly, at the clock that tables were measured at.  left: it leaves the kernels SMs. */
static bool gemm_load(const char *text, bool grouped, bool left, const struct cluster *cluster, struct beside *beside,
                      GError **error)
{
    const struct cluster_gpu *gpu = &cluster->gpu;
    uint32_t n[4];
    bool fp8;
    if (shape_parse(text, n, &fp8) != (grouped ? 4 : 3))
        return refuse(error, "compute",
                      grouped ? "grouped:EXPERTSxROWSxKxN, perhaps with :fp8" : "gemm:ROWSxKxN, perhaps with :fp8",
                      text);
    g_autofree char *path = share_find(SHARE_TABLES, "compute");
    if (!path) return refuse(error, "compute", "the shipped compute.csv.zst", "none");
    struct step_gpu *of = step_gpu_load(NULL, cluster->name, error);
    struct compute_table *table = of ? compute_table_load(path, error) : NULL;
    if (table) {
        const uint64_t read_bps = gpu->hbm_read_rate_bps ? gpu->hbm_read_rate_bps : gpu->hbm_rate_bps;
        const uint64_t write_bps = gpu->hbm_write_rate_bps ? gpu->hbm_write_rate_bps : gpu->hbm_rate_bps;
        const struct costs_options o = { .gpu = of,
                                         .shipped = table,
                                         .fp8 = fp8,
                                         .read_gbs = (double)read_bps / 8e9,
                                         .write_gbs = (double)write_bps / 8e9,
                                         .sms = gpu->sms };
        const struct step_cost cost = costs_of_gemm(&o, grouped ? n[0] : 0, n[grouped], n[grouped + 1], n[grouped + 2]);
        const double share = beside->load.sms / gpu->sms;
        gemm_set(&cost, of, share, grouped && !left && share < 1, beside);
    }
    compute_table_free(table);
    step_gpu_free(of);
    return table != NULL;
}

bool beside_rate_parse(const char *text, struct pressure_load *load)
{
    static const char l2[] = ":l2";
    static const struct {
        const char *name;
        double reads, writes;
    } kinds[] = { { "read:", 1, 0 }, { "write:", 0, 1 }, { "copy:", 0.5, 0.5 } };
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (!g_str_has_prefix(text, kinds[i].name)) continue;
        g_autofree char *rate = g_strdup(text + strlen(kinds[i].name));
        uint64_t rate_bps;
        load->l2 = g_str_has_suffix(rate, l2);
        if (load->l2) rate[strlen(rate) - strlen(l2)] = 0;
        if (!cluster_parse_rate(rate, &rate_bps) || !rate_bps) return false;
        load->read_bps = kinds[i].reads * (double)rate_bps / 8;
        load->write_bps = kinds[i].writes * (double)rate_bps / 8;
        return true;
    }
    return false;
}

static bool load_parse(const char *text, bool left, const struct cluster *cluster, struct beside *beside,
                       GError **error)
{
    if (g_str_has_prefix(text, "gemm:")) return gemm_load(text + strlen("gemm:"), false, left, cluster, beside, error);
    if (g_str_has_prefix(text, "grouped:"))
        return gemm_load(text + strlen("grouped:"), true, left, cluster, beside, error);
    uint64_t time_ps;
    beside->load.bound = true;
    if (beside_rate_parse(text, &beside->load)) return true;
    if (cluster_parse_time(text, &time_ps) && time_ps) return true; /* a time is a load of arithmetic */
    return refuse(error, "compute",
                  "read:RATE, write:RATE, copy:RATE (as copy:2600GB/s, perhaps with :l2), gemm:ROWSxKxN, "
                  "grouped:EXPERTSxROWSxKxN or a time",
                  text);
}

/* Whether the cluster says how its GPUs' memory, or their L2, behaves under the load. */
static bool memory_check(const struct cluster *cluster, const struct pressure_load *load, GError **error)
{
    const struct cluster_gpu *gpu = &cluster->gpu;
    const bool hbm = pressure_known(gpu);
    if (hbm && (!load->l2 || (gpu->l2_sms_rate_bps && gpu->l2_queue_ps))) return true;
    return error_input(error, "compute: expected %s in [gpu] of %s, which says what loads wait for, found none",
                       hbm ? "l2-sms-rate and l2-queue" : "hbm-queue", cluster->path);
}

static bool sms_parse(const char *text, uint32_t kernel_sms, uint32_t all, double *sms, GError **error)
{
    struct ranges range = { 0 };
    *sms = all > kernel_sms ? all - kernel_sms : 0;
    if (text && !ranges_parse(text, all, all, &range))
        return refuse(error, "compute-sms", "A:B within the GPU's SMs", text);
    if (text) *sms = range.count;
    ranges_free(&range);
    if (*sms > 0 && *sms + kernel_sms <= all) return true;
    g_autofree char *expected =
        text ? g_strdup_printf("some of the %u SMs of the GPU that the kernels' %u leave", all, kernel_sms)
             : g_strdup_printf("less than the GPU's %u SMs, so that --compute has some", all);
    g_autofree char *found = g_strdup_printf("%u", kernel_sms);
    return refuse(error, text ? "compute-sms" : "num-sms", expected, text ? text : found);
}

bool beside_parse(const struct case_options *c, const struct cluster *cluster, uint32_t kernel_sms,
                  struct beside *beside, GError **error)
{
    static const char *const kernels[] = { "ll", "normal", "v2", NULL };
    if (beside->read) return true;
    beside->read = true;
    if (!c->compute || (c->kernel && !g_strv_contains(kernels, c->kernel))) return true;
    if (!sms_parse(c->compute_sms, kernel_sms, cluster->gpu.sms, &beside->load.sms, error) ||
        !load_parse(c->compute, c->compute_sms != NULL, cluster, beside, error) ||
        !memory_check(cluster, &beside->load, error))
        return false;
    /* Blocks of the load, which runs already, take a pair each as long as there are pairs. */
    beside->load.paired = 2 * fmax(0, cluster->gpu.sms / 2 - beside->load.sms) < kernel_sms;
    beside->load.flight_bytes = PRESSURE_FLIGHT_BYTES;
    beside->wanted = true;
    return true;
}

double beside_set(const struct beside *beside, const struct cluster *cluster, struct world *world, uint32_t ranks,
                  uint32_t phase)
{
    double rate;
    if (!beside->wanted) return NAN;
    assert(phase < BESIDE_PHASES_MAX);
    struct pressure c = pressure_solve(&cluster->gpu, &beside->own[phase], &beside->load, 1, &rate);
    if (beside->part > 0) {
        c.load_ps = (uint64_t)(beside->part * (double)c.load_ps);
        c.near_ps = (uint64_t)(beside->part * (double)c.near_ps);
        c.store_ps = (uint64_t)(beside->part * (double)c.store_ps);
    }
    for (uint32_t r = 0; r < ranks; r++) world_pressure_set(world, r, &c);
    return beside->part > 0 || beside->load.l2 ? NAN : rate;
}

/* Takes the mean demand of the ranks; half of it counts as reads, half as writes.  The geometric mean with the previous
 * round converges better than the last round alone. */
void beside_learn(struct beside *beside, uint32_t phase, const struct world_result *result, uint32_t ranks)
{
    double bytes = 0, time_ps = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        bytes += (double)result[r].use[WORLD_HBM].bytes;
        time_ps += (double)result[r].time_ps;
    }
    struct pressure_load *own = &beside->own[phase];
    const double bps = time_ps > 0 ? bytes / time_ps * 1e12 / 2 : 0;
    own->read_bps = own->read_bps > 0 ? sqrt(own->read_bps * bps) : bps;
    own->write_bps = own->read_bps;
}
