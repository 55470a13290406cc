/* beside.c - reads --compute for dispatch and combine and gives it to the world, see beside.h. */
#include "models/predict/beside.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "models/step/costs.h"
#include "sim/error.h"
#include "sim/command_line.h"
#include "sim/share.h"
#include "sim/text.h"
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
        if (!text_whole(words[count], 1, 1 << 24, &n)) return 0;
        number[count] = (uint32_t)n;
    }
    return words[count] ? 0 : count;
}

/* The kernels that run in turn, as one. */
static struct step_cost turn_of(const struct turns *turns)
{
    struct step_cost all = { 0 };
    for (uint32_t i = 0; i < turns->count; i++) {
        const struct step_cost *cost = &turns->cost[i];
        all.us += cost->us;
        all.read_bytes += cost->read_bytes;
        all.write_bytes += cost->write_bytes;
        all.clock_share += cost->us * cost->clock_share;
        all.tensor += cost->us * cost->tensor;
    }
    all.clock_share /= all.us;
    all.tensor /= all.us;
    return all;
}

static double longer_on(double share, double clock_share)
{
    return clock_share / share + (1 - clock_share) / fmin(1, share / DEVICE_BYTES_SHARE);
}

/* Sets the load to the GEMMs.  If grouped GEMMs leave the kernels no SMs, their last blocks wait until the first ones
 * end, and then have the memory to themselves (OCCUPANCY_SHARES, device.h): they count as no load. */
static void gemms_set(const struct costs_options *set, double share, bool waits, struct beside *beside)
{
    const struct step_cost cost = turn_of(&beside->turns);
    const double clock = cost.clock_share, us = waits ? cost.us : cost.us * longer_on(share, clock);
    const double late = waits ? clock + (1 - clock) * DEVICE_BYTES_SHARE : 0;
    beside->load.read_bps = 1e6 * cost.read_bytes / us;
    beside->load.write_bps = 1e6 * cost.write_bytes / us;
    beside->load.bound = clock < 0.5;
    beside->part = 1 / (1 + late);
    beside->slow = 1 / costs_sm_clock(set, 1, cost.tensor * cost.us / us * beside->part);
    beside->turns.tensor_clock = costs_sm_clock(set, 1, 1);
    beside->turns.gap_us = set->gpu->gap_us;
}

/* Adds a GEMM that runs at the clock that tables were measured at, on the load's own SMs if it has any. */
static bool gemm_add(const char *text, const struct costs_options *o, double own_share, struct turns *turns,
                     GError **error)
{
    static const char dense[] = "gemm:", grouped[] = "grouped:";
    const bool is_grouped = g_str_has_prefix(text, grouped);
    struct costs_options of = *o;
    uint32_t n[4];
    if (shape_parse(text + strlen(is_grouped ? grouped : dense), n, &of.fp8) != (is_grouped ? 4 : 3))
        return refuse(error, "compute",
                      is_grouped ? "grouped:EXPERTSxROWSxKxN, perhaps with :fp8" : "gemm:ROWSxKxN, perhaps with :fp8",
                      text);
    struct step_cost cost =
        costs_of_gemm(&of, is_grouped ? n[0] : 0, n[is_grouped], n[is_grouped + 1], n[is_grouped + 2]);
    const double longer = longer_on(own_share, cost.clock_share);
    cost.us *= longer;
    cost.tensor /= longer;
    cost.sms = (uint32_t)lround(own_share * o->sms);
    turns->cost[turns->count++] = cost;
    return true;
}

static bool is_gemm(const char *text) { return g_str_has_prefix(text, "gemm:") || g_str_has_prefix(text, "grouped:"); }

/* Reads GEMMs that run in turn, joined by '+'.  left: they leave the kernels SMs. */
static bool gemms_load(const char *text, bool left, const struct cluster *cluster, struct beside *beside,
                       GError **error)
{
    const struct cluster_gpu *gpu = &cluster->gpu;
    g_auto(GStrv) words = g_strsplit(text, "+", -1);
    bool good = g_strv_length(words) <= TURNS_KERNELS_MAX, waits = false;
    for (char **w = words; good && *w; w++) good = is_gemm(*w);
    if (!good) return refuse(error, "compute", "up to four GEMMs, as gemm:ROWSxKxN+gemm:ROWSxKxN", text);
    g_autofree char *path = share_find(SHARE_TABLES, "compute");
    if (!path) return refuse(error, "compute", "the shipped compute.csv.zst", "none");
    struct step_gpu *of = step_gpu_load(NULL, cluster->name, error);
    struct compute_table *table = of ? compute_table_load(path, error) : NULL;
    const uint64_t read_bps = gpu->hbm_read_rate_bps ? gpu->hbm_read_rate_bps : gpu->hbm_rate_bps;
    const uint64_t write_bps = gpu->hbm_write_rate_bps ? gpu->hbm_write_rate_bps : gpu->hbm_rate_bps;
    const struct costs_options o = { .gpu = of,
                                     .shipped = table,
                                     .read_gbs = (double)read_bps / 8e9,
                                     .write_gbs = (double)write_bps / 8e9,
                                     .clock_ghz = of ? of->clock_ghz : 0,
                                     .sms = gpu->sms };
    const double share = beside->load.sms / gpu->sms;
    good = table != NULL;
    for (char **w = words; good && *w; w++) {
        waits |= g_str_has_prefix(*w, "grouped:") && !left && share < 1;
        good = gemm_add(*w, &o, left ? share : 1, &beside->turns, error);
    }
    if (good) gemms_set(&o, left ? 1 : share, waits, beside);
    compute_table_free(table);
    step_gpu_free(of);
    return good;
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
    if (is_gemm(text)) return gemms_load(text, left, cluster, beside, error);
    uint64_t time_ps;
    beside->load.bound = true;
    if (beside_rate_parse(text, &beside->load)) return true;
    if (cluster_parse_time(text, &time_ps) && time_ps) return true; /* a time is a load of arithmetic */
    return refuse(error, "compute",
                  "read:RATE, write:RATE, copy:RATE (as copy:2600GB/s, perhaps with :l2), gemm:ROWSxKxN, "
                  "grouped:EXPERTSxROWSxKxN or a time",
                  text);
}

/* Whether the cluster says how its GPUs' memory behaves under a load. */
static bool memory_check(const struct cluster *cluster, GError **error)
{
    return pressure_known(&cluster->gpu) ||
           error_input(error, "compute: expected [contention] in %s, which says what loads wait for, found none",
                       cluster->path);
}

static bool sms_parse(const char *text, uint32_t kernel_sms, uint32_t all, double *sms, GError **error)
{
    g_auto(ranges) range = { 0 };
    *sms = all > kernel_sms ? all - kernel_sms : 0;
    if (text && !ranges_parse(text, all, all, &range))
        return refuse(error, "compute-sms", "A:B within the GPU's SMs", text);
    if (text) *sms = range.count;
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
    if (!c->compute) return !c->compute_sms || error_input(error, "compute-sms: needs compute");
    if (c->kernel && !g_strv_contains(kernels, c->kernel)) return true;
    if (!sms_parse(c->compute_sms, kernel_sms, cluster->gpu.sms, &beside->load.sms, error) ||
        !load_parse(c->compute, c->compute_sms != NULL, cluster, beside, error) || !memory_check(cluster, error))
        return false;
    beside->turns.comm_sms = kernel_sms;
    beside->turns.sms = c->compute_sms ? kernel_sms + (uint32_t)beside->load.sms : cluster->gpu.sms;
    /* Blocks of the load, which runs already, take a pair each as long as there are pairs. */
    beside->load.paired = 2 * fmax(0, cluster->gpu.sms / 2 - beside->load.sms) < kernel_sms;
    beside->load.flight_bytes = PRESSURE_FLIGHT_BYTES;
    beside->wanted = true;
    return true;
}

void beside_solve(struct beside *beside, const struct cluster *cluster, uint32_t phase)
{
    if (!beside->wanted) return;
    assert(phase < BESIDE_PHASES_MAX);
    struct beside_phase *p = &beside->phase[phase];
    p->pressure = pressure_solve(&cluster->gpu, &p->own, &beside->load, 1, &p->rate);
    if (!beside->turns.count) return;
    p->pressure.load_ps = (uint64_t)(beside->part * (double)p->pressure.load_ps);
    p->pressure.near_ps = (uint64_t)(beside->part * (double)p->pressure.near_ps);
    p->pressure.store_ps = (uint64_t)(beside->part * (double)p->pressure.store_ps);
}

/* Takes the mean demand of the ranks; half of it counts as reads, half as writes.  The geometric mean with the previous
 * round converges better than the last round alone. */
void beside_learn(struct beside *beside, uint32_t phase, const struct world_result *result, uint32_t ranks)
{
    double bytes = 0, time_ps = 0;
    if (!beside->wanted) return;
    for (uint32_t r = 0; r < ranks; r++) {
        bytes += (double)result[r].use[WORLD_HBM].bytes;
        time_ps += (double)result[r].time_ps;
    }
    struct pressure_load *own = &beside->phase[phase].own;
    const double bps = time_ps > 0 ? bytes / time_ps * 1e12 / 2 : 0;
    own->read_bps = own->read_bps > 0 ? sqrt(own->read_bps * bps) : bps;
    own->write_bps = own->read_bps;
    beside->phase[phase].us = units_us((uint64_t)time_ps) / ranks;
}

double beside_slowdown(const struct beside *beside, uint32_t phase, double slowdown[TURNS_KERNELS_MAX])
{
    const struct beside_phase *p = &beside->phase[phase];
    double us[TURNS_KERNELS_MAX], all_us = 0, alone_us = 0;
    if (!beside->wanted || beside->load.l2) return NAN;
    if (!beside->turns.count) return 1 / p->rate;
    struct turns turns = beside->turns;
    turns.comm_us = p->us;
    turns.rate = p->rate;
    turns_run(&turns, us);
    for (uint32_t i = 0; i < turns.count; i++) {
        slowdown[i] = us[i] / turns.cost[i].us;
        all_us += us[i];
        alone_us += turns.cost[i].us;
    }
    return all_us / alone_us;
}
