/* step_answer.c - sums up a step's run, see step_answer.h. */
#include "models/step/step_answer.h"

#include <assert.h>
#include <math.h>

const char *step_part_name(enum step_part part)
{
    static const char *const name[STEP_PARTS] = { "compute", "wire", "waiting", "contention", "sms", "host" };
    return name[part];
}

const char *step_late_name(enum step_late late)
{
    static const char *const name[STEP_LATES] = { "more tokens or less full tiles", "a GPU that ran slower",
                                                  "compute kernels that happened to take longer (--jitter)",
                                                  "kernels beside their own", "communication that ended late" };
    return name[late];
}

static const double ROUNDING_US = 1e-6; /* a difference of times below this is a rounding error */

struct late_shares {
    double share[STEP_LATES];
};

struct summing {
    const struct step_run *run;
    const struct schedule *schedule;
    uint32_t ranks, kernels;
    double *last_begin_us;   /* [kernels] of communication: when the last rank began the kernel that
                              * step_run_meeting() returns */
    uint32_t *last_rank;     /* [kernels] the rank that began last */
    struct late_shares *why; /* [kernels] of communication: why its last rank was late; if it needs no other rank, the
                              * shares of the communication before */
    double *slowness;        /* [ranks] time of compute kernels at the rank's clock over that at the nominal one */
    struct step_answer *answer;
    double *awaited_us;               /* [ranks] how long others wait for the rank */
    double from_us, until_us, counts; /* begin and end of the steady layers; how often they count in the whole step */
};

/* How long the simulated time from from_us until until_us is in the whole step: steady layers count `counts` times. */
static double whole_us(const struct summing *s, double from_us, double until_us)
{
    const double steady_us = fmin(until_us, s->until_us) - fmax(from_us, s->from_us);
    return until_us - from_us + (s->counts - 1) * fmax(steady_us, 0);
}

/* How often a simulated kernel that ends at end_us occurs in the whole step. */
static double whole_counts(const struct summing *s, double end_us)
{
    return end_us > s->from_us && end_us <= s->until_us ? s->counts : 1;
}

static bool is_comm(const struct summing *s, uint32_t kernel)
{
    return schedule_kernel(s->schedule, kernel)->op == STEP_COMM;
}

/* Finds for each kernel which rank began its meeting last, and when.  A kernel that needs no other rank has none. */
static void meetings_find(struct summing *s)
{
    for (uint32_t k = 0; k < s->kernels; k++) {
        const uint32_t meeting = step_run_meeting(s->run, k);
        for (uint32_t r = 0; meeting != SCHEDULE_NONE && r < s->ranks; r++) {
            const double begin_us = step_run_span(s->run, r, meeting).begin_us;
            if (r && begin_us <= s->last_begin_us[k]) continue;
            s->last_begin_us[k] = begin_us;
            s->last_rank[k] = r;
        }
    }
}

/* When the kernel waits for the last rank.  A kernel that meets other ranks itself waits from its begin until the last
 * rank begins.  A receive meets them by its send.  The rank's own rows come a fixed time after its send begins: as long
 * as send and receive take alone.  From then on the receive waits, for as long as the last rank's send began after the
 * rank's own send. */
struct wait {
    double from_us, until_us;
};

static struct wait wait_of(const struct summing *s, uint32_t rank, uint32_t kernel)
{
    const struct step_span span = step_run_span(s->run, rank, kernel);
    const uint32_t meeting = step_run_meeting(s->run, kernel);
    double met_us = span.begin_us, flight_us = 0;
    if (meeting == SCHEDULE_NONE) return (struct wait){ span.begin_us, span.begin_us };
    if (meeting != kernel) {
        met_us = step_run_span(s->run, rank, meeting).begin_us;
        flight_us = step_run_alone_us(s->run, rank, meeting) + step_run_alone_us(s->run, rank, kernel);
    }
    const double from_us = fmin(fmax(met_us + flight_us, span.begin_us), span.end_us);
    return (struct wait){ from_us, fmax(fmin(s->last_begin_us[kernel] + flight_us, span.end_us), from_us) };
}

static double waited_us(const struct summing *s, uint32_t rank, uint32_t kernel)
{
    const struct wait w = wait_of(s, rank, kernel);
    return w.until_us - w.from_us;
}

/* ---- exposed time ---- */

/* From at_us on, one kernel more (change 1) or one less (change -1) counts for the part. */
struct edge {
    double at_us;
    int part, change;
};

static int edges_compare(gconstpointer a, gconstpointer b)
{
    const double x = ((const struct edge *)a)->at_us, y = ((const struct edge *)b)->at_us;
    return x < y ? -1 : x > y;
}

static void part_add(GArray *edges, double from_us, double to_us, enum step_part part)
{
    const struct edge both[] = { { from_us, (int)part, 1 }, { to_us, (int)part, -1 } };
    if (to_us > from_us) g_array_append_vals(edges, both, 2);
}

/* Divides a communication kernel's time.  First it waits for SMs, and then for the last rank.  Then it moves bytes,
 * for as long as it takes alone.  A receive moves bytes before it waits, too.  What remains is contention. */
static void comm_parts_add(const struct summing *s, GArray *edges, uint32_t rank, uint32_t kernel)
{
    const struct step_span span = step_run_span(s->run, rank, kernel);
    const struct wait w = wait_of(s, rank, kernel);
    const double left_us = fmax(step_run_alone_us(s->run, rank, kernel) - (w.from_us - span.begin_us), 0);
    const double alone_us = fmin(w.until_us + left_us, span.end_us);
    part_add(edges, span.ready_us, span.begin_us, PART_SMS);
    part_add(edges, span.begin_us, w.from_us, PART_WIRE);
    part_add(edges, w.from_us, w.until_us, PART_WAITING);
    part_add(edges, w.until_us, alone_us, PART_WIRE);
    part_add(edges, alone_us, span.end_us, PART_CONTENTION);
}

/* Divides the rank's time, up to end_us, among the parts, and adds it to the answer.  Compute hides communication.
 * If several communication kernels run, one that moves bytes hides one that waits. */
static void rank_parts_count(const struct summing *s, uint32_t rank, double end_us)
{
    static const enum step_part order[] = { PART_COMPUTE, PART_WIRE, PART_CONTENTION, PART_WAITING, PART_SMS };
    g_autoptr(GArray) edges = g_array_new(FALSE, FALSE, sizeof(struct edge));
    struct step_answer *a = s->answer;
    int active[STEP_PARTS] = { 0 };
    double at_us = 0;
    for (uint32_t k = 0; k < s->kernels; k++) {
        const struct step_span span = step_run_span(s->run, rank, k);
        const uint32_t meeting = step_run_meeting(s->run, k);
        if (meeting != SCHEDULE_NONE && meeting != k) /* a receive: bytes that came between its send and its begin
                                                       * were hidden */
            a->hidden_us += whole_counts(s, span.end_us) *
                            fmax(step_run_alone_us(s->run, rank, k) - (span.end_us - span.begin_us), 0) / s->ranks;
        if (is_comm(s, k)) comm_parts_add(s, edges, rank, k);
        else part_add(edges, span.begin_us, span.end_us, PART_COMPUTE);
    }
    g_array_sort(edges, edges_compare);
    for (guint i = 0; i <= edges->len; i++) {
        const struct edge *e = i < edges->len ? &g_array_index(edges, struct edge, i) : NULL;
        const double until_us = e ? e->at_us : end_us;
        enum step_part part = PART_HOST;
        for (int p = (int)G_N_ELEMENTS(order) - 1; p >= 0; p--)
            if (active[order[p]]) part = order[p];
        const double us = whole_us(s, at_us, until_us) / s->ranks;
        a->part_us[part] += us;
        if (part == PART_COMPUTE && active[PART_WIRE] + active[PART_CONTENTION] > 0) a->hidden_us += us;
        if (e) active[e->part] += e->change;
        at_us = until_us;
    }
}

/* ---- which ranks are waited for, and why they are late ---- */

/* Whether a compute kernel ran on the rank during the communication kernel. */
static bool is_beside(const struct summing *s, uint32_t rank, uint32_t kernel)
{
    const struct step_span own = step_run_span(s->run, rank, kernel);
    for (uint32_t k = 0; k < s->kernels; k++) {
        const struct step_span span = step_run_span(s->run, rank, k);
        if (!is_comm(s, k) && span.begin_us < own.end_us && span.end_us > own.begin_us) return true;
    }
    return false;
}

/* Adds by how much a compute kernel took longer on rank `late` than in the mean of all ranks, in four respects: its
 * work, and the time that the rank's GPU, jitter and other kernels on this GPU add. */
static void compute_excess_add(const struct summing *s, uint32_t k, uint32_t late, double more_us[STEP_LATES])
{
    for (uint32_t r = 0; r < s->ranks; r++) {
        const struct step_span span = step_run_span(s->run, r, k);
        const double share = (r == late) - 1.0 / s->ranks, alone_us = step_run_alone_us(s->run, r, k);
        const double clocked_us = step_run_clocked_us(s->run, r, k), own_us = step_run_own_us(s->run, r, k);
        more_us[LATE_TOKENS] += share * alone_us;
        more_us[LATE_CLOCK] += share * (clocked_us - alone_us);
        more_us[LATE_JITTER] += share * (own_us - clocked_us);
        more_us[LATE_BESIDE] += share * (span.end_us - span.begin_us - own_us);
    }
}

/* Adds `us` to the reason, but at most *left_us, and takes it from *left_us. */
static void part_take(double more_us[STEP_LATES], enum step_late reason, double us, double *left_us)
{
    const double part_us = fmax(fmin(us, *left_us), 0);
    more_us[reason] += part_us;
    *left_us -= part_us;
}

/* Adds by how much a communication kernel took longer on rank `late` than in the mean of all ranks.  Waiting for other
 * ranks does not count.  More rows explain time in proportion to the rows, and a slower GPU in proportion to its
 * slowness.  Compute kernels beside it explain by how much it takes longer than alone.  What is left counts as
 * LATE_ARRIVAL, because the rank's links and peers differ. */
static void comm_excess_add(const struct summing *s, uint32_t k, uint32_t late, double more_us[STEP_LATES])
{
    double left_us = 0, alone_us = 0, beside_us = 0, rows = 0, slowness = 0;
    for (uint32_t r = 0; r < s->ranks; r++) {
        const struct step_span span = step_run_span(s->run, r, k);
        const double share = (r == late) - 1.0 / s->ranks, own_us = step_run_alone_us(s->run, r, k);
        const double took_us = span.end_us - span.begin_us - waited_us(s, r, k);
        left_us += share * took_us;
        beside_us += share * fmax(took_us - own_us, 0);
        alone_us += own_us / s->ranks;
        rows += step_run_rows(s->run, r, k) / s->ranks;
        slowness += s->slowness[r] / s->ranks;
    }
    if (left_us <= 0) return;
    if (rows > 0) part_take(more_us, LATE_TOKENS, alone_us * (step_run_rows(s->run, late, k) / rows - 1), &left_us);
    part_take(more_us, LATE_CLOCK, alone_us * (s->slowness[late] / slowness - 1), &left_us);
    if (is_beside(s, late, k)) part_take(more_us, LATE_BESIDE, beside_us, &left_us);
    more_us[LATE_ARRIVAL] += left_us;
}

/* Divides the reasons why rank `late` was late for the kernel into shares.  Counts by how much the compute kernels just
 * before took longer on the rank than in the mean, and likewise the communication kernels before those.  Each is a
 * share of how much later than the mean the rank began.  What is left is lateness from earlier: it has the shares of
 * the lateness for that earlier communication, or is LATE_ARRIVAL if there was none. */
static void late_divide(const struct summing *s, uint32_t kernel, uint32_t late)
{
    double more_us[STEP_LATES] = { 0 }, later_us = 0, sum_us = 0;
    uint32_t k = step_run_meeting(s->run, kernel);
    struct late_shares *why = &s->why[kernel];
    for (uint32_t r = 0; r < s->ranks; r++)
        later_us += ((r == late) - 1.0 / s->ranks) * step_run_span(s->run, r, k).begin_us;
    while (k > 0 && is_comm(s, k - 1)) k--; /* skips the phases right before the kernel */
    while (k > 0 && !is_comm(s, k - 1)) compute_excess_add(s, --k, late, more_us);
    const struct late_shares *before = k > 0 ? &s->why[k - 1] : NULL;
    while (k > 0 && is_comm(s, k - 1)) comm_excess_add(s, --k, late, more_us);
    for (int i = 0; i < STEP_LATES; i++) sum_us += more_us[i] = more_us[i] > ROUNDING_US ? more_us[i] : 0;
    const double all_us = fmax(fmax(later_us, sum_us), ROUNDING_US), rest = 1 - sum_us / all_us;
    for (int i = 0; i < STEP_LATES; i++)
        why->share[i] = more_us[i] / all_us + rest * (before ? before->share[i] : i == LATE_ARRIVAL);
}

static void slowness_find(struct summing *s)
{
    for (uint32_t r = 0; r < s->ranks; r++) {
        double clocked_us = 0, alone_us = 0;
        for (uint32_t k = 0; k < s->kernels; k++) {
            if (is_comm(s, k)) continue;
            clocked_us += step_run_clocked_us(s->run, r, k);
            alone_us += step_run_alone_us(s->run, r, k);
        }
        s->slowness[r] = alone_us > 0 ? clocked_us / alone_us : 1;
    }
}

static void waits_count(const struct summing *s)
{
    struct step_answer *a = s->answer;
    struct late_shares latest = { .share[LATE_ARRIVAL] = 1 };
    double all_us = 0;
    for (uint32_t k = 0; k < s->kernels; k++) {
        if (!is_comm(s, k)) continue;
        double us = 0;
        if (step_run_meeting(s->run, k) != SCHEDULE_NONE) late_divide(s, k, s->last_rank[k]);
        else s->why[k] = latest;
        latest = s->why[k];
        for (uint32_t r = 0; r < s->ranks; r++)
            us += whole_counts(s, step_run_span(s->run, r, k).end_us) * waited_us(s, r, k);
        if (us <= 0) continue;
        for (int i = 0; i < STEP_LATES; i++) a->late_us[i] += s->why[k].share[i] * us / s->ranks;
        s->awaited_us[s->last_rank[k]] += us;
        all_us += us;
    }
    for (uint32_t r = 0; r < s->ranks; r++)
        if (s->awaited_us[r] > s->awaited_us[a->awaited]) a->awaited = r;
    /* Rounding may make one rank's waiting larger than that for all. */
    a->awaited_pct = all_us > 0 ? fmin(100 * s->awaited_us[a->awaited] / all_us, 100) : 0;
}

/* ---- by op ---- */

static void line_add(const struct summing *s, uint32_t what)
{
    struct step_line line = { .name = step_run_what_name(s->run, what), .least_us = INFINITY };
    for (uint32_t k = 0; k < s->kernels; k++) {
        if (step_run_what(s->run, k) != what) continue;
        line.kernels++;
        for (uint32_t r = 0; r < s->ranks; r++) {
            const struct step_span span = step_run_span(s->run, r, k);
            const double us = span.end_us - span.begin_us;
            line.mean_us += us / s->ranks;
            line.alone_us += step_run_alone_us(s->run, r, k) / s->ranks;
            line.least_us = fmin(line.least_us, us);
            line.most_us = fmax(line.most_us, us);
            if (is_comm(s, k)) line.waiting_us += waited_us(s, r, k) / s->ranks;
            if (!*line.source) g_strlcpy(line.source, step_run_cost(s->run, r, k)->source, sizeof line.source);
        }
    }
    if (!line.kernels) return;
    line.mean_us /= line.kernels;
    line.alone_us /= line.kernels;
    line.waiting_us /= line.kernels;
    g_array_append_val(s->answer->lines, line);
}

/* ---- the whole step ---- */

/* The first layer with experts. */
static uint32_t first_layer(const struct summing *s)
{
    uint32_t k = 0;
    while (!is_comm(s, k)) k++;
    return schedule_kernel(s->schedule, k)->layer;
}

/* For layers with experts, sets end_us[layer] to when the last rank ended the layer's last communication kernel.
 * Returns the number of these layers.  end_us has room for `most`. */
static uint32_t layer_ends(const struct summing *s, double *end_us, uint32_t most)
{
    const uint32_t first = first_layer(s);
    uint32_t layers = 0;
    for (uint32_t k = 0; k < s->kernels; k++) {
        const struct schedule_kernel *kernel = schedule_kernel(s->schedule, k);
        if (!is_comm(s, k)) continue;
        const uint32_t layer = kernel->layer - first;
        assert(layer < most);
        if (layer >= layers) layers = layer + 1;
        for (uint32_t r = 0; r < s->ranks; r++) end_us[layer] = fmax(end_us[layer], step_run_span(s->run, r, k).end_us);
    }
    return layers;
}

/* When the last rank ended the kernels before the layers with experts. */
static double before_layers_us(const struct summing *s)
{
    double end_us = 0;
    for (uint32_t k = 0; k < s->kernels && !is_comm(s, k); k++)
        for (uint32_t r = 0; r < s->ranks && schedule_kernel(s->schedule, k)->layer < first_layer(s); r++)
            end_us = fmax(end_us, step_run_span(s->run, r, k).end_us);
    return end_us;
}

/* Student's t: the mean of so many values lies within as many of its standard errors in 9 of 10 cases. */
static double t90(uint32_t values)
{
    static const double t[] = { 6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81 };
    return t[MIN(values - 2, (uint32_t)G_N_ELEMENTS(t) - 1)];
}

/* The error in us of the time of `rest` layers that were not simulated, each of which counts as the mean of the steady
 * layers.  If layers have routings of their own, the simulated ones are a sample of all layers, and the sum of the
 * others has a smaller error in 9 of 10 cases.  If all layers have one routing, their times settle.  Then the error of
 * a layer is half of the difference between the last two quarters of the simulated layers.  With fewer than four
 * layers, it is found as for layers with routings of their own.  NAN: one steady layer does not tell. */
static double repeated_error_us(const struct summing *s, const double *layer_end_us, uint32_t last, bool alike,
                                uint32_t rest)
{
    const uint32_t n = s->answer->simulated, steady = s->answer->steady, quarter = n / 4;
    if (alike && quarter) {
        const double later_us = (layer_end_us[last] - layer_end_us[last - quarter]) / quarter;
        const double before_us = (layer_end_us[last - quarter] - layer_end_us[last - 2 * quarter]) / quarter;
        return rest * fabs(later_us - before_us) / 2;
    }
    if (steady < 2) return NAN;
    double squares = 0;
    for (uint32_t l = last - steady + 1; l <= last; l++)
        squares += pow(layer_end_us[l] - layer_end_us[l - 1] - s->answer->layer_us, 2);
    return t90(steady) * sqrt(squares / (steady - 1) * rest * (1 + (double)rest / steady));
}

/* Finds the steady layers and the step's time.  Of one or two simulated layers, the last is steady.  Of more layers,
 * the last is not steady, because no next layer or other batch hides any of it.  If they have the same routing, half
 * of them are steady: those just before the last.  If routings differ, all layers but the first and the last are
 * steady. */
static void total_find(struct summing *s, double end_us)
{
    struct step_answer *a = s->answer;
    g_autofree double *layer_end_us = g_new0(double, s->kernels + 1);
    const uint32_t n = layer_ends(s, layer_end_us, s->kernels + 1);
    const uint32_t rest = a->layers > n ? a->layers - n : 0;
    const bool alike = step_run_loads(s->run) == 1;
    const uint32_t last = n > 2 ? n - 2 : n - 1, steady = alike || n < 3 ? MAX(n / 2, 1) : n - 2;
    a->simulated = n;
    a->steady = steady;
    s->from_us = n > 1 ? layer_end_us[last - steady] : before_layers_us(s);
    s->until_us = layer_end_us[last];
    s->counts = 1 + (double)rest / steady;
    a->layer_us = (s->until_us - s->from_us) / steady;
    a->total_us = whole_us(s, 0, end_us);
    if (rest) a->steady_error_pct = 100 * repeated_error_us(s, layer_end_us, last, alike, rest) / a->total_us;
}

/* ---- kernels that ran at the same time ---- */

enum { RANKS_SHOWN = 4, LAYERS_SHOWN = 2 };

static const char *kernel_name(const struct summing *s, uint32_t kernel)
{
    return step_run_what_name(s->run, step_run_what(s->run, kernel));
}

/* Adds what the rank runs between these times.  Of a kernel that runs longer, only that part. */
static void rank_show(struct summing *s, uint32_t rank, double from_us, double until_us)
{
    for (uint32_t k = 0; k < s->kernels; k++) {
        const struct step_span span = step_run_span(s->run, rank, k);
        if (span.end_us <= from_us || span.begin_us >= until_us) continue;
        const double met_us = span.begin_us + waited_us(s, rank, k);
        const struct step_shown shown = { .rank = rank,
                                          .name = kernel_name(s, k),
                                          .stream = schedule_kernel(s->schedule, k)->stream,
                                          .begin_us = fmax(span.begin_us, from_us) - from_us,
                                          .met_us = fmin(fmax(met_us, from_us), until_us) - from_us,
                                          .end_us = fmin(span.end_us, until_us) - from_us };
        g_array_append_val(s->answer->shown, shown);
    }
}

/* Adds the kernels to show: those of the awaited rank, and of ranks at even distances from it, while any of these ranks
 * runs a kernel of the last layers with experts. */
static void ranks_show(struct summing *s)
{
    uint32_t rank[RANKS_SHOWN], ranks = 0, last = 0;
    double from_us = INFINITY, until_us = 0;
    for (uint32_t k = 0; k < s->kernels; k++)
        if (is_comm(s, k)) last = MAX(last, schedule_kernel(s->schedule, k)->layer);
    for (uint32_t i = 0; i < RANKS_SHOWN; i++) {
        rank[ranks] = (uint32_t)((s->answer->awaited + (uint64_t)i * s->ranks / RANKS_SHOWN) % s->ranks);
        ranks += !ranks || rank[ranks] != rank[ranks - 1];
    }
    for (uint32_t k = 0; k < s->kernels; k++) {
        const uint32_t layer = schedule_kernel(s->schedule, k)->layer;
        if (layer > last || layer + LAYERS_SHOWN <= last) continue;
        for (uint32_t i = 0; i < ranks; i++) {
            from_us = fmin(from_us, step_run_span(s->run, rank[i], k).begin_us);
            until_us = fmax(until_us, step_run_span(s->run, rank[i], k).end_us);
        }
    }
    for (uint32_t i = 0; i < ranks; i++) rank_show(s, rank[i], from_us, until_us);
}

struct step_answer *step_answer_new(const struct step_run *run, uint32_t layers)
{
    struct step_answer *a = g_new0(struct step_answer, 1);
    const struct schedule *schedule = step_run_schedule(run);
    struct summing s = {
        .run = run, .schedule = schedule, .ranks = step_run_ranks(run), .kernels = schedule->kernels->len, .answer = a
    };
    double end_us = 0;
    s.last_begin_us = g_new0(double, s.kernels + 1);
    s.last_rank = g_new0(uint32_t, s.kernels + 1);
    s.why = g_new0(struct late_shares, s.kernels + 1);
    s.awaited_us = g_new0(double, s.ranks);
    s.slowness = g_new0(double, s.ranks);
    a->layers = layers;
    a->lines = g_array_new(FALSE, TRUE, sizeof(struct step_line));
    a->shown = g_array_new(FALSE, FALSE, sizeof(struct step_shown));
    for (uint32_t k = 0; k < s.kernels; k++)
        for (uint32_t r = 0; r < s.ranks; r++) end_us = fmax(end_us, step_run_span(run, r, k).end_us);
    meetings_find(&s);
    total_find(&s, end_us);
    for (uint32_t r = 0; r < s.ranks; r++) rank_parts_count(&s, r, end_us);
    slowness_find(&s);
    waits_count(&s);
    for (uint32_t what = 0; what < step_run_whats(run); what++) line_add(&s, what);
    ranks_show(&s);
    g_free(s.last_begin_us);
    g_free(s.last_rank);
    g_free(s.why);
    g_free(s.awaited_us);
    g_free(s.slowness);
    return a;
}

void step_answer_free(struct step_answer *answer)
{
    if (!answer) return;
    g_array_free(answer->lines, TRUE);
    g_array_free(answer->shown, TRUE);
    g_free(answer);
}

double step_answer_waited_us(const struct step_answer *a)
{
    double us = 0;
    for (int i = 0; i < STEP_LATES; i++) us += a->late_us[i];
    return us;
}
