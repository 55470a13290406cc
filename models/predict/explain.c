/* explain.c - splits the time of communication kernels; see explain.h.  Knows profiles and predicted times, no
 * cluster. */
#include "models/predict/explain.h"

#include <stdlib.h>
#include <string.h>
#include "sim/error.h"
#include "sim/stats.h"

const char *explain_part_name(enum explain_part part)
{
    static const char *const names[] = { "wire", "waiting", "contention", "imbalance", "launch", "unknown" };
    return names[part];
}

const char *explain_beside_name(enum explain_beside beside)
{
    static const char *const names[] = { "copies", "grouped GEMMs", "GEMMs and attention", "other kernels" };
    return names[beside];
}

/* The largest factors by which dispatch and combine (8 to 32 SMs) took longer beside each kind of kernel.  The other
 * kernel ran for more than 0.6 of their time, on two H100s and on one node.  The measured kinds are a copy, a grouped
 * GEMM of 32 experts and a GEMM of 8192^3.  Other kernels (element by element) were not measured, so the grouped GEMM's
 * factor is used for them. */
static const double slowdown[2][BESIDES] = { { 3.50, 1.52, 1.36, 1.52 }, { 2.74, 1.75, 1.42, 1.75 } };

static enum explain_beside beside_of(const struct profile *profile, const struct profile_kernel *kernel)
{
    static const char *const gemms[] = { "gemm", "nvjet", "cutlass", "xmma", "cublas", "flash", "fmha", "attn", "mla" };
    if (kernel->kind == PROFILE_COPY) return BESIDE_COPY;
    g_autofree char *name = g_ascii_strdown(g_ptr_array_index(profile->names, kernel->name), -1);
    if (strstr(name, "grouped") && strstr(name, "gemm")) return BESIDE_GROUPED_GEMM;
    for (size_t i = 0; i < G_N_ELEMENTS(gemms); i++)
        if (strstr(name, gemms[i])) return BESIDE_GEMM;
    return strstr(name, "copy") ? BESIDE_COPY : BESIDE_OTHER;
}

static const struct profile_kernel *kernel_of(const struct explain_rank *r, uint32_t index)
{
    return &g_array_index(r->profile->kernels, struct profile_kernel, index);
}

static const struct profile_call *call_of(const struct explain_rank *r, uint32_t index)
{
    return &g_array_index(r->calls, struct profile_call, index);
}

static const struct explain_rank *rank_of(const struct explain *e, uint32_t index)
{
    return &g_array_index(e->ranks, struct explain_rank, index);
}

static bool has_prefix_of(const char *phase, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (g_str_has_prefix(phase, *prefixes)) return true;
    return false;
}

/* Whether the phase is a barrier, which moves almost no data and ends when the last rank comes. */
static bool phase_is_barrier(const char *phase)
{
    return has_prefix_of(phase, (const char *const[]){ "notify", "cached_notify", "barrier", NULL });
}

/* Whether the phase's kernels end only after other ranks have begun theirs. */
static bool phase_meets(const char *phase)
{
    return !has_prefix_of(phase, (const char *const[]){ "layout", "clean", "dispatch_copy", "combine_reduce",
                                                        "dispatch_send", "combine_send", NULL });
}

/* ---- ranks ---- */

static gint rank_order(gconstpointer a, gconstpointer b)
{
    const struct explain_rank *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void rank_add(struct explain *e, struct profile *profile, int32_t rank)
{
    struct explain_rank r = { .profile = profile, .calls = profile_calls(profile), .rank = rank };
    r.reach_ns = g_new(int64_t, profile->kernels->len);
    int64_t reach = INT64_MIN;
    for (guint i = 0; i < profile->kernels->len; i++)
        r.reach_ns[i] = reach = MAX(reach, g_array_index(profile->kernels, struct profile_kernel, i).end_ns);
    const struct profile_case c = profile_case_of(profile, r.calls, NULL);
    e->numbers = MAX(e->numbers, (uint32_t)rank + 1);
    e->world = MAX(e->world, MAX(c.ranks, (uint32_t)rank + 1));
    g_array_append_val(e->ranks, r);
}

static void rank_clear(gpointer data)
{
    struct explain_rank *r = data;
    g_array_unref(r->calls);
    g_free(r->reach_ns);
    profile_free(r->profile);
}

/* The call of another rank that meets `call`: the call of the same phase with the same number (`layer`).  The search
 * begins at index `near` of the other rank's calls.  NULL: there is no such call. */
static const struct profile_call *call_matched(const struct explain_rank *other, const struct profile_call *call,
                                               uint32_t near)
{
    const uint32_t count = other->calls->len;
    for (uint32_t distance = 0; distance < count; distance++)
        for (int side = 0; side < 2; side++) {
            const uint32_t at = side ? near - distance : near + distance;
            if (at >= count || (side && !distance)) continue;
            const struct profile_call *found = call_of(other, at);
            if (found->layer == call->layer && strcmp(found->phase, call->phase) == 0) return found;
        }
    return NULL;
}

/* Aligns ranks' clocks by the ends of kernels that meet.  A rank's offset is the median of how much later the first
 * rank's kernels ended. */
static void clocks_align(struct explain *e)
{
    const struct explain_rank *first = rank_of(e, 0);
    double longest = 0;
    g_autofree double *duration = g_new(double, first->calls->len);
    for (guint i = 0; i < first->calls->len; i++) {
        const struct profile_kernel *kernel = kernel_of(first, call_of(first, i)->index);
        duration[i] = (double)(kernel->end_ns - kernel->begin_ns);
    }
    const double typical = stats_median(duration, first->calls->len);
    for (guint r = 1; r < e->ranks->len; r++) {
        struct explain_rank *rank = &g_array_index(e->ranks, struct explain_rank, r);
        g_autoptr(GArray) apart = g_array_new(FALSE, FALSE, sizeof(double));
        for (guint i = 0; i < first->calls->len; i++) {
            const struct profile_call *call = call_of(first, i), *other = call_matched(rank, call, i);
            if (!other || !phase_meets(call->phase)) continue;
            const double ns = (double)(kernel_of(first, call->index)->end_ns - kernel_of(rank, other->index)->end_ns);
            g_array_append_val(apart, ns);
        }
        if (!apart->len) continue;
        rank->offset_ns = (int64_t)stats_median((const double *)(const void *)apart->data, apart->len);
        longest = MAX(longest, (double)llabs(rank->offset_ns));
    }
    /* Clocks that agree within a kernel's time are not corrected: differences as small as that come from the ends of
     * kernels. */
    e->aligned = longest > typical;
    for (guint r = 0; r < e->ranks->len && !e->aligned; r++)
        g_array_index(e->ranks, struct explain_rank, r).offset_ns = 0;
}

struct explain *explain_new(GPtrArray *profiles, GError **error)
{
    struct explain *e = g_new0(struct explain, 1);
    e->ranks = g_array_new(FALSE, TRUE, sizeof(struct explain_rank));
    g_array_set_clear_func(e->ranks, rank_clear);
    e->calls = g_array_new(FALSE, TRUE, sizeof(struct explain_call));
    bool numbered = true, good = true;
    uint32_t calls = 0;
    g_ptr_array_set_free_func(profiles, NULL); /* the ranks own the profiles */
    for (guint i = 0; i < profiles->len; i++)
        numbered = numbered && ((struct profile *)g_ptr_array_index(profiles, i))->rank >= 0;
    for (guint i = 0; i < profiles->len; i++) {
        struct profile *profile = g_ptr_array_index(profiles, i);
        rank_add(e, profile, numbered ? profile->rank : (int32_t)i);
        calls += rank_of(e, i)->calls->len;
    }
    g_array_sort(e->ranks, rank_order);
    for (guint r = 1; good && r < e->ranks->len; r++) {
        if (rank_of(e, r)->rank != rank_of(e, r - 1)->rank) continue;
        good = error_input(error, "%s: distributedInfo: expected another rank, found rank %d again",
                           rank_of(e, r)->profile->source, rank_of(e, r)->rank);
    }
    if (good && !calls)
        good = error_input(
            error, "%s: expected communication kernels (of DeepEP, NCCL, ...), found none among %u kernels and copies",
            rank_of(e, 0)->profile->source, rank_of(e, 0)->profile->kernels->len);
    if (good && rank_of(e, 0)->calls->len) clocks_align(e);
    if (good) return e;
    explain_free(e);
    return NULL;
}

bool explain_ranks_set(struct explain *e, uint32_t ranks, GError **error)
{
    e->world = ranks;
    if (e->ranks->len <= ranks) return true;
    return error_input(error, "--num-ranks: expected at least the %u ranks of the profiles, found %u", e->ranks->len,
                       ranks);
}

void explain_free(struct explain *e)
{
    if (!e) return;
    g_array_unref(e->ranks);
    g_array_unref(e->calls);
    g_free(e);
}

/* ---- one call ---- */

/* Returns how much later than this rank the last rank came to the call; *late gets that rank. */
static double late_find(const struct explain *e, const struct explain_call *c, int32_t *late)
{
    const struct explain_rank *own = rank_of(e, c->rank);
    const struct profile_call *call = call_of(own, c->call);
    const int64_t begin = kernel_of(own, call->index)->begin_ns + own->offset_ns;
    int64_t most = 0;
    *late = -1;
    for (guint r = 0; r < e->ranks->len; r++) {
        const struct explain_rank *other = rank_of(e, r);
        const struct profile_call *matched = r == c->rank ? NULL : call_matched(other, call, c->call);
        if (!matched) continue;
        const int64_t after = kernel_of(other, matched->index)->begin_ns + other->offset_ns - begin;
        if (after <= most) continue;
        most = after;
        *late = (int32_t)r;
    }
    return (double)most / 1e3;
}

/* Divides the time between the previous call and this one into time with other kernels and time without any.  False:
 * there is no previous call. */
static bool before_call(const struct explain_rank *r, uint32_t index, double *work_us, double *idle_us)
{
    if (index == 0) return false;
    const uint32_t last = call_of(r, index)->index, first = call_of(r, index - 1)->index;
    int64_t from = kernel_of(r, first)->end_ns, work = 0;
    const int64_t start = from, end = kernel_of(r, last)->begin_ns;
    for (uint32_t k = first + 1; k < last; k++) {
        const struct profile_kernel *kernel = kernel_of(r, k);
        const int64_t begin = MAX(kernel->begin_ns, from), until = MIN(kernel->end_ns, end);
        if (until <= begin) continue;
        work += until - begin;
        from = until;
    }
    *work_us = (double)work / 1e3;
    *idle_us = (double)MAX(end - start - work, 0) / 1e3;
    return true;
}

/* Why rank `late` was late for the call: whether it had more work or more idle time before it than the other ranks. */
static enum explain_late late_why(const struct explain *e, const struct profile_call *call, uint32_t near,
                                  uint32_t late)
{
    g_autoptr(GArray) work = g_array_new(FALSE, FALSE, sizeof(double)),
                      idle = g_array_new(FALSE, FALSE, sizeof(double));
    double late_work = 0, late_idle = 0, w, i;
    for (guint r = 0; r < e->ranks->len; r++) {
        const struct explain_rank *rank = rank_of(e, r);
        const struct profile_call *matched = call_matched(rank, call, near);
        if (!matched || !before_call(rank, (uint32_t)(matched - call_of(rank, 0)), &w, &i)) continue;
        if (r == late) {
            late_work = w;
            late_idle = i;
        } else {
            g_array_append_val(work, w);
            g_array_append_val(idle, i);
        }
    }
    if (!work->len) return LATE_UNSEEN;
    const double more_work = late_work - stats_median((const double *)(const void *)work->data, work->len);
    const double more_idle = late_idle - stats_median((const double *)(const void *)idle->data, idle->len);
    return more_work <= 0 && more_idle <= 0 ? LATE_UNSEEN : more_work > more_idle ? LATE_WORK : LATE_IDLE;
}

/* Sets us[] to how long other kernels ran during this one, by kind.  The sum is at most this kernel's time. */
static void overlap_sum(const struct explain_rank *r, const struct profile_call *call, double us[BESIDES])
{
    const struct profile_kernel *own = kernel_of(r, call->index);
    double left = (double)(own->end_ns - own->begin_ns) / 1e3;
    memset(us, 0, BESIDES * sizeof *us);
    for (uint32_t k = call->index; k-- > 0 && r->reach_ns[k] > own->begin_ns;) {
        const struct profile_kernel *kernel = kernel_of(r, k);
        const double both = (double)(MIN(kernel->end_ns, own->end_ns) - own->begin_ns) / 1e3;
        if (both <= 0 || profile_phase_of(g_ptr_array_index(r->profile->names, kernel->name)).library) continue;
        us[beside_of(r->profile, kernel)] += MIN(both, left);
        left -= MIN(both, left);
    }
    for (uint32_t k = call->index + 1; k < r->profile->kernels->len; k++) {
        const struct profile_kernel *kernel = kernel_of(r, k);
        if (kernel->begin_ns >= own->end_ns) break;
        const double both = (double)(MIN(kernel->end_ns, own->end_ns) - kernel->begin_ns) / 1e3;
        if (profile_phase_of(g_ptr_array_index(r->profile->names, kernel->name)).library) continue;
        us[beside_of(r->profile, kernel)] += MIN(both, left);
        left -= MIN(both, left);
    }
}

static double contention_most(const struct explain_rank *r, const struct profile_call *call, struct explain_call *c)
{
    double beside[BESIDES], most = 0;
    overlap_sum(r, call, beside);
    for (int b = 0; b < BESIDES; b++) {
        most += beside[b] * (1 - 1 / slowdown[strstr(call->phase, "combine") != NULL][b]);
        if (beside[b] <= c->beside_us) continue;
        c->beside_us = beside[b];
        c->beside = (enum explain_beside)b;
    }
    return most;
}

/* The gap before the kernel in which the GPU was idle, if the host launched the kernel only after the previous one's
 * end, or if the profile lacks the time of the launch. */
static double launch_gap(const struct explain_rank *r, const struct profile_call *call)
{
    const struct profile_kernel *kernel = kernel_of(r, call->index);
    if (call->index == 0) return 0;
    const int64_t busy_until = r->reach_ns[call->index - 1], idle = kernel->begin_ns - busy_until;
    if (idle <= 0 || (kernel->launch_ns != PROFILE_NO_LAUNCH && kernel->launch_ns <= busy_until)) return 0;
    return (double)idle / 1e3;
}

static double predicted_us(const struct record *record, const char *phase, int32_t rank)
{
    const struct record_row *row = record ? record_find(record, phase, rank, "time_us") : NULL;
    if (record && !row) row = record_find(record, phase, RECORD_ALL, "time_us");
    return row ? row->value : -1;
}

/* Gives `part` up to `most` us of the remaining time *rest, and takes them from *rest. */
static void part_take(struct explain_call *c, enum explain_part part, double *rest, double most)
{
    const double us = MIN(*rest, MAX(most, 0));
    c->us[part] += us;
    *rest -= us;
}

/* if a kernel has at least this many calls, the shortest one stands for the wire */
enum { SHORTEST_CALLS = 4 };

struct shortest {
    double us;
    uint32_t count;
};

/* The shortest call of each kernel that is not predicted, by the kernel's name.  It stands for the wire, though a
 * longer call may have moved more: the calls' sizes are not read. */
static GHashTable *shortest_calls(const struct explain *e)
{
    GHashTable *of = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
    for (guint r = 0; r < e->ranks->len; r++) {
        const struct explain_rank *rank = rank_of(e, r);
        for (guint i = 0; i < rank->calls->len; i++) {
            const struct profile_kernel *kernel = kernel_of(rank, call_of(rank, i)->index);
            char *const name = g_ptr_array_index(rank->profile->names, kernel->name);
            const double us = (double)(kernel->end_ns - kernel->begin_ns) / 1e3;
            if (profile_phase_is(&call_of(rank, i)->is, e->kernel)) continue;
            struct shortest *known = g_hash_table_lookup(of, name);
            if (!known) {
                known = g_new0(struct shortest, 1);
                known->us = us;
                g_hash_table_insert(of, name, known);
            }
            known->us = MIN(known->us, us);
            known->count++;
        }
    }
    return of;
}

static double shortest_us(GHashTable *shortest, const char *name)
{
    const struct shortest *s = g_hash_table_lookup(shortest, name);
    return s && s->count >= SHORTEST_CALLS ? s->us : -1;
}

static void call_split(const struct explain *e, const struct explain_wire *w, GHashTable *shortest,
                       struct explain_call *c)
{
    const struct explain_rank *own = rank_of(e, c->rank);
    const struct profile_call *call = call_of(own, c->call);
    const struct profile_kernel *kernel = kernel_of(own, call->index);
    const struct record *wire = call->is.cached && w->cached ? w->cached : w->plain;
    const bool known = profile_phase_is(&call->is, e->kernel);
    double wire_us = known ? predicted_us(wire, call->phase, own->rank)
                           : shortest_us(shortest, g_ptr_array_index(own->profile->names, kernel->name));
    double rest = (double)(kernel->end_ns - kernel->begin_ns) / 1e3;
    int32_t late;
    const double late_us = phase_meets(call->phase) ? late_find(e, c, &late) : (late = -1, 0);
    if (wire_us < 0 && known) wire_us = predicted_us(w->cached, call->phase, own->rank);
    c->late_rank = -1;
    c->us[EXPLAIN_LAUNCH] = launch_gap(own, call);
    c->beyond_us = MAX(wire_us - rest, 0);
    part_take(c, EXPLAIN_WIRE, &rest, wire_us);
    part_take(c, EXPLAIN_WAITING, &rest, late_us);
    if (late >= 0 && c->us[EXPLAIN_WAITING] > 0) {
        c->late_rank = rank_of(e, (uint32_t)late)->rank;
        c->why = late_why(e, call, c->call, (uint32_t)late);
    }
    if (w->loaded && known && wire_us >= 0)
        part_take(c, EXPLAIN_IMBALANCE, &rest,
                  predicted_us(w->loaded[call->layer % w->layers], call->phase, own->rank) - wire_us);
    const double contention = contention_most(own, call, c);
    const bool unseen = e->ranks->len < e->world;
    const bool low_latency = profile_phase_is(&call->is, "ll") || profile_phase_is(&call->is, "nccl-ll");
    /* A rank that was not recorded may have come last to a barrier.  So the rest of a barrier's time is waiting,
     * whatever ran at the same time. */
    if (unseen && phase_is_barrier(call->phase)) part_take(c, EXPLAIN_WAITING, &rest, rest);
    if (wire_us >= 0) part_take(c, EXPLAIN_CONTENTION, &rest, contention);
    /* No barrier precedes low-latency kernels, so a rank that was not recorded may have come late. */
    if (unseen && low_latency && wire_us >= 0 && phase_meets(call->phase)) part_take(c, EXPLAIN_WAITING, &rest, rest);
    c->us[EXPLAIN_UNKNOWN] = rest;
}

void explain_split(struct explain *e, const struct explain_wire *wire)
{
    g_autoptr(GHashTable) shortest = shortest_calls(e);
    g_array_set_size(e->calls, 0);
    for (guint r = 0; r < e->ranks->len; r++)
        for (guint i = 0; i < rank_of(e, r)->calls->len; i++) {
            struct explain_call call = { .rank = r, .call = i };
            call_split(e, wire, shortest, &call);
            g_array_append_val(e->calls, call);
        }
}

/* ---- sums ---- */

double explain_sum(const struct explain *e, const char *phase, int64_t layer, int64_t rank, double us[EXPLAIN_PARTS])
{
    double all = 0;
    memset(us, 0, EXPLAIN_PARTS * sizeof *us);
    for (guint i = 0; i < e->calls->len; i++) {
        const struct explain_call *c = &g_array_index(e->calls, struct explain_call, i);
        const struct explain_rank *r = rank_of(e, c->rank);
        const struct profile_call *call = call_of(r, c->call);
        if ((phase && strcmp(phase, call->phase)) || (layer >= 0 && call->layer != layer) ||
            (rank >= 0 && r->rank != rank))
            continue;
        for (int p = 0; p < EXPLAIN_PARTS; p++) {
            us[p] += c->us[p];
            all += c->us[p];
        }
    }
    return all;
}

GPtrArray *explain_phases(const struct explain *e)
{
    GPtrArray *phases = g_ptr_array_new();
    for (guint r = 0; r < e->ranks->len; r++)
        for (guint i = 0; i < rank_of(e, r)->calls->len; i++) {
            const char *phase = call_of(rank_of(e, r), i)->phase;
            if (!g_ptr_array_find_with_equal_func(phases, phase, g_str_equal, NULL))
                g_ptr_array_add(phases, (gpointer)phase);
        }
    return phases;
}

double *explain_waited_for(const struct explain *e, double why_us[LATES])
{
    double *us = g_new0(double, e->numbers);
    for (int w = 0; w < LATES; w++) why_us[w] = 0;
    for (guint i = 0; i < e->calls->len; i++) {
        const struct explain_call *c = &g_array_index(e->calls, struct explain_call, i);
        if (c->late_rank < 0) continue;
        us[c->late_rank] += c->us[EXPLAIN_WAITING];
        why_us[c->why] += c->us[EXPLAIN_WAITING];
    }
    return us;
}
