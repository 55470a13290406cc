/* deepep_v1_log.c - the console output of DeepEP's V1 tests: intranode, internode, low latency.
 *
 * The writers are tests/legacy/test_{intranode,internode,low_latency}.py of deepseek-ai/DeepEP.  Before April 2026 the
 * same tests printed other words, which are read, too.  The numbers mean:
 *
 *     - Normal kernels print logical bandwidths (PROTOCOLS.md 3.1): RDMA counts tokens for each node, including the
 *       rank's own node; NVL counts all rows received, including those of the rank itself.  Their tuning loops run
 *       with a cached handle and without top-k.  An internode time is that of a kernel, without its notify.  An
 *       intranode time is that of the whole call, between two events.
 *     - A tuning line does not say what it tunes.  The next "Best" line does.  If there is none, the last "Best"
 *       dispatch tells it (v1_end()).  Without such a dispatch, the line is left out.
 *     - Low latency counts hidden + scales + 16 bytes for each place of top-k in dispatch, and two bytes a value in
 *       combine, in whatever format the tokens travel.  Ten places of each rank are masked.
 *     - If another profiler keeps the tests from timing kernels, they print a time of 1 s, which is left out. */
#include "reports/import/import.h"

#include <math.h>
#include <string.h>

enum { TUNING_CONFIGS_MAX = 4096, LL_MASKED = 10 };
static const double not_timed_us = 1e6;

static const char counted_normal[] = "logical: local tokens included, metadata not";
static const char counted_ll[] = "all places of top-k, own rank included";
static const char timed_kernel[] = "kernel", timed_call[] = "call between events";

/* What the command line or the [config] line of a run states before its results.  0: not stated. */
struct known {
    uint32_t processes, nodes, tokens, hidden, topk, experts, groups;
    bool groups_stated, nvlink_disabled;
};

struct v1_state {
    struct known said;
    bool command_goes_on;           /* the command's line ended in a backslash */
    GArray *tuning;                 /* struct tuning: lines whose phase is not known yet */
    bool interleaved;               /* the output of two consoles is mixed, so a line's phase is not known */
    struct import_row *dispatch[2]; /* the "Best" rows of FP8 and of BF16 */
    uint32_t ranks_seen;            /* low latency: 1 + the highest rank seen */
    GHashTable *ranks;
    GPtrArray *ll_rows;
};

struct tuning {
    uint32_t line, sms, nvl_chunk, rdma_chunk;
    bool internode, per_call;
    double us, notify_us, rdma_gbs, nvl_gbs;
};

/* Whether the time is none.  If so, the measurement is left out. */
static bool not_timed(struct import_log *log, double us)
{
    return us == not_timed_us && import_log_skip(log, "a time of 1 s exactly: the test did not time its kernels");
}

/* ---- command lines ---- */

static void option_take(const char *line, const char *name, uint32_t *value)
{
    const char *at = strstr(line, name);
    if (!at) return;
    at += strlen(name);
    uint32_t found;
    if ((*at == ' ' || *at == '=') && import_scan(at + 1, " %u", &found)) *value = found;
}

static bool command_take(struct v1_state *s, const char *line)
{
    static const char *const scripts[] = { "test_intranode.py", "test_internode.py", "test_low_latency.py" };
    bool begins = false;
    for (size_t i = 0; i < G_N_ELEMENTS(scripts); i++) begins |= strstr(line, scripts[i]) != NULL;
    if (!begins && !s->command_goes_on) return false;
    struct known *said = &s->said;
    if (begins && !s->command_goes_on) *said = (struct known){ 0 };
    s->command_goes_on = g_str_has_suffix(line, "\\");
    option_take(line, "--num-processes", &said->processes);
    option_take(line, "WORLD_SIZE", &said->nodes);
    option_take(line, "--num-tokens", &said->tokens);
    option_take(line, "--hidden", &said->hidden);
    option_take(line, "--num-topk", &said->topk);
    option_take(line, "--num-experts", &said->experts);
    if (strstr(line, "--num-topk-groups")) {
        said->groups_stated = true;
        option_take(line, "--num-topk-groups", &said->groups);
    }
    said->nvlink_disabled |= strstr(line, "--disable-nvlink") != NULL;
    return true;
}

static struct import_row *row_new(struct v1_state *s, struct import_log *log, const char *test, const char *kernel,
                                  const char *phase)
{
    struct import_row *row = import_row_add(log, "deepep-v1", test, phase);
    const struct known *said = &s->said;
    import_row_word(row, IMPORT_KERNEL, kernel);
    import_row_count_unless_0(row, IMPORT_NUM_TOKENS, said->tokens);
    import_row_count_unless_0(row, IMPORT_HIDDEN, said->hidden);
    import_row_count_unless_0(row, IMPORT_NUM_TOPK, said->topk);
    import_row_count_unless_0(row, IMPORT_NUM_EXPERTS, said->experts);
    if (said->groups_stated) import_row_count(row, IMPORT_NUM_TOPK_GROUPS, said->groups);
    return row;
}

/* ---- normal kernels ---- */

/* Reads "[config] num_tokens=4096, hidden=7168, num_topk_groups=4, num_topk=8". */
static bool config_take(struct v1_state *s, const char *line)
{
    struct known said = { 0 };
    const char *rest = import_scan(line, "[config] num_tokens=%u, hidden=%u", &said.tokens, &said.hidden);
    if (!rest) return false;
    const char *groups = import_scan(rest, ", num_topk_groups=%u", &said.groups);
    if (!import_scan(groups ? groups : rest, ", num_topk=%u", &said.topk)) return false;
    said.groups_stated = groups != NULL;
    said.processes = s->said.processes;
    said.nodes = s->said.nodes;
    said.experts = s->said.experts;
    s->said = said;
    g_array_set_size(s->tuning, 0);
    s->dispatch[0] = s->dispatch[1] = NULL;
    return true;
}

static bool layout_take(struct v1_state *s, struct import_log *log, const char *line)
{
    double ms;
    if (!import_scan(line, "[layout] Kernel performance: %f ms", &ms)) return false;
    struct import_row *row = row_new(s, log, s->said.groups_stated ? "internode" : "intranode", "normal", "layout");
    if (s->said.groups_stated) {
        if (s->said.nodes) import_row_count(row, IMPORT_NUM_RANKS, s->said.nodes * 8);
        else import_row_word(row, IMPORT_NUM_RANKS, "?");
    } else {
        import_row_count_unless_0(row, IMPORT_NUM_RANKS, s->said.processes);
    }
    import_row_number(row, IMPORT_US, ms * 1000);
    import_row_word(row, IMPORT_CACHED, "false");
    import_row_word(row, IMPORT_TIMED, timed_call);
    return true;
}

/* Reads one time or bandwidth of the text after the chunks.  Returns the text after it, or NULL. */
static const char *tuning_piece(const char *at, struct tuning *t)
{
    double a, b;
    const char *rest;
    if ((rest = import_scan(at, "%f GB/s (RDMA)", &a))) return t->rdma_gbs = a, t->internode = true, rest;
    if ((rest = import_scan(at, "%f GB/s (NVL)", &a))) return t->nvl_gbs = a, rest;
    if ((rest = import_scan(at, "%f + %f us", &a, &b))) return t->notify_us = a, t->us = b, rest;
    if ((rest = import_scan(at, "transmit: %f us", &a))) return t->us = a, rest;
    if ((rest = import_scan(at, "notify: %f us", &a))) return t->notify_us = a, rest;
    if ((rest = import_scan(at, "BW: "))) return rest;
    if ((rest = import_scan(at, "t=%fms", &a))) return t->us = a * 1000, rest;
    static const char *const names[] = { "avg_t: ", "t: ", "" };
    for (int i = 0; i < 3; i++)
        if ((rest = import_scan(at, names[i])) && (rest = import_scan(rest, "%f us", &a))) return t->us = a, rest;
    return NULL;
}

/* Reads "SMs 24, NVL chunk 28, RDMA chunk 24: 44 + 1403 us, 38.19 GB/s (RDMA), 124.92 GB/s (NVL)", in any version's
 * words. */
static bool tuning_parse(const char *at, struct tuning *t)
{
    *t = (struct tuning){ .us = NAN, .notify_us = NAN, .rdma_gbs = NAN, .nvl_gbs = NAN };
    at = import_scan(at, " SMs %u, NVL chunk ", &t->sms);
    if (!at) return false;
    const char *rest = import_scan(at, "default");
    at = rest ? rest : import_scan(at, "%u", &t->nvl_chunk);
    if (!at) return false;
    if ((rest = import_scan(at, ", RDMA chunk %u", &t->rdma_chunk))) at = rest, t->internode = true;
    while (*at) {
        if (*at == ' ' || *at == ',' || *at == ':') at++;
        else if (!(at = tuning_piece(at, t))) return false;
    }
    t->per_call = !t->internode;
    return !isnan(t->nvl_gbs);
}

static void tuning_numbers(struct import_row *row, const struct tuning *t)
{
    import_row_number(row, IMPORT_US, t->us);
    import_row_number(row, IMPORT_LOGICAL_RDMA_GBS, t->rdma_gbs);
    import_row_number(row, IMPORT_LOGICAL_NVL_GBS, t->nvl_gbs);
    const double gbs = t->internode ? t->rdma_gbs : t->nvl_gbs;
    if (!isnan(t->us)) import_row_number(row, IMPORT_COUNTED_BYTES, round(gbs * t->us) * 1000);
    import_row_word(row, IMPORT_COUNTED, counted_normal);
    import_row_word(row, IMPORT_TIMED, t->per_call ? timed_call : timed_kernel);
    if (isnan(t->us)) import_row_word(row, IMPORT_METRIC, t->internode ? "logical_rdma_gbs" : "logical_nvl_gbs");
}

/* Sets the sizes of chunks and of rings (the buffers) in the row of a tuning line.  The sizes of rings are constants in
 * the tests. */
static void tuning_options(struct import_row *row, const struct tuning *t, bool combine, uint32_t ranks)
{
    const bool many = ranks == 24 || ranks == 48 || ranks == 96 || ranks == 144 || ranks == 160;
    const uint32_t nvl_buffer = !t->internode ? 256 : many ? 720 : 512;
    import_row_count(row, IMPORT_NUM_SMS, t->sms);
    import_row_word(row, IMPORT_CACHED, "true");
    if (t->nvl_chunk) { /* a line with the default chunk has the default rings, too */
        import_row_count(row, combine ? IMPORT_COMBINE_NVL_CHUNK : IMPORT_NVL_CHUNK, t->nvl_chunk);
        import_row_count(row, combine ? IMPORT_COMBINE_NVL_BUFFER : IMPORT_NVL_BUFFER, nvl_buffer);
    }
    if (t->rdma_chunk) {
        import_row_count(row, combine ? IMPORT_COMBINE_RDMA_CHUNK : IMPORT_RDMA_CHUNK, t->rdma_chunk);
        import_row_count(row, combine ? IMPORT_COMBINE_RDMA_BUFFER : IMPORT_RDMA_BUFFER, 128);
    }
}

static struct import_row *tuning_row(struct v1_state *s, struct import_log *log, const struct tuning *t,
                                     const char *phase, const char *dtype, const char *set)
{
    const bool combine = strcmp(phase, "combine") == 0;
    if (not_timed(log, t->us)) return NULL;
    struct import_row *row = row_new(s, log, t->internode ? "internode" : "intranode", "normal", phase);
    uint32_t ranks = 0;
    if (t->internode) ranks = s->said.nodes * 8; /* the internode test requires 8 processes a node */
    else if (s->said.processes) ranks = s->said.processes;
    if (ranks) import_row_count(row, IMPORT_NUM_RANKS, ranks);
    else if (t->internode) import_row_word(row, IMPORT_NUM_RANKS, "?");
    if (t->internode) import_row_count(row, IMPORT_RANKS_PER_NODE, 8);
    row->line = t->line;
    import_row_word(row, IMPORT_SET, set);
    import_row_word(row, IMPORT_DTYPE, dtype);
    tuning_options(row, t, combine, ranks);
    tuning_numbers(row, t);
    if (isnan(t->notify_us)) return row;
    struct import_row *notify = import_row_copy(row);
    import_row_word(notify, IMPORT_PHASE, combine ? "cached_notify_combine" : "cached_notify_dispatch");
    import_row_word(notify, IMPORT_COUNTED, NULL);
    for (int i = 0; i < IMPORT_NUMBERS; i++) notify->number[i] = NAN;
    import_row_number(notify, IMPORT_US, t->notify_us);
    g_ptr_array_add(log->rows, notify);
    return row;
}

static void word_share(struct import_row *to, const struct import_row *from, enum import_column first,
                       enum import_column last)
{
    for (enum import_column i = first; i <= last; i++)
        if (to != from && from->cell[i]) import_row_word(to, i, from->cell[i]);
}

/* Makes rows of the tuning lines so far, whose phase is now known.  Leaves them out if two consoles are mixed. */
static void tuning_settle(struct v1_state *s, struct import_log *log, const char *phase, const char *dtype)
{
    for (guint i = 0; i < s->tuning->len; i++) {
        const struct tuning *t = &g_array_index(s->tuning, struct tuning, i);
        for (guint k = 0; k < i && !s->interleaved; k++) {
            const struct tuning *other = &g_array_index(s->tuning, struct tuning, k);
            s->interleaved =
                t->sms == other->sms && t->nvl_chunk == other->nvl_chunk && t->rdma_chunk == other->rdma_chunk;
        }
    }
    for (guint i = 0; i < s->tuning->len; i++) {
        const struct tuning *t = &g_array_index(s->tuning, struct tuning, i);
        if (s->interleaved) import_log_skip(log, "tuning line of one of several consoles: of which phase is not said");
        else tuning_row(s, log, t, phase, dtype, "tuning");
    }
    g_array_set_size(s->tuning, 0);
}

/* Gives the "Best" rows of dispatch and of combine each other's options, which makes them one case.  A run's combine
 * returns what its first dispatch sent, which is the FP8 dispatch if there is one. */
static void best_combine_join(struct v1_state *s, const struct import_log *log, const struct import_row *combine)
{
    const struct import_row *dispatch = s->dispatch[0] ? s->dispatch[0] : s->dispatch[1];
    if (!dispatch || strcmp(dispatch->cell[IMPORT_TEST], combine->cell[IMPORT_TEST]) != 0) return;
    for (guint i = 0; i < log->rows->len; i++) { /* a line has two rows: the kernel and its notify */
        struct import_row *row = g_ptr_array_index(log->rows, i);
        if (row->line != dispatch->line && row->line != combine->line) continue;
        word_share(row, dispatch, IMPORT_NVL_CHUNK, IMPORT_RDMA_BUFFER);
        word_share(row, dispatch, IMPORT_DTYPE, IMPORT_DTYPE);
        word_share(row, combine, IMPORT_COMBINE_NVL_CHUNK, IMPORT_COMBINE_RDMA_BUFFER);
    }
}

static bool best_take(struct v1_state *s, struct import_log *log, const char *at)
{
    static const char *const dtypes[] = { "fp8", "bf16" };
    const char *rest = NULL;
    int kind = 0;
    if ((rest = import_scan(at, " Best dispatch (FP8): "))) kind = 0;
    else if ((rest = import_scan(at, " Best dispatch (BF16): "))) kind = 1;
    else if ((rest = import_scan(at, " Best combine: "))) kind = 2;
    struct tuning t;
    if (!rest || !tuning_parse(rest, &t)) return false;
    t.line = log->line;
    const char *phase = kind == 2 ? "combine" : "dispatch", *dtype = kind == 2 ? NULL : dtypes[kind];
    tuning_settle(s, log, phase, dtype);
    struct import_row *row = tuning_row(s, log, &t, phase, dtype, "best");
    if (row && kind == 2) best_combine_join(s, log, row);
    if (row && kind != 2) s->dispatch[kind] = row;
    if (kind == 2) s->dispatch[0] = s->dispatch[1] = NULL;
    return true;
}

static bool tuning_take(struct v1_state *s, struct import_log *log, const char *line)
{
    const char *at = strstr(line, "[tuning]");
    if (!at) return false;
    at += strlen("[tuning]");
    if (best_take(s, log, at)) return true;
    struct tuning t;
    if (!tuning_parse(at, &t) || s->tuning->len >= TUNING_CONFIGS_MAX) return false;
    t.line = log->line;
    g_array_append_val(s->tuning, t);
    return true;
}

/* ---- low latency ---- */

static struct import_row *ll_row(struct v1_state *s, struct import_log *log, uint32_t rank, const char *phase,
                                 double us, double gbs, bool hook)
{
    if (not_timed(log, us)) return NULL;
    struct import_row *row = row_new(s, log, "low_latency", "ll", phase);
    row->rank = (int32_t)MIN(rank, 65534);
    import_row_count(row, IMPORT_MASKED_PLACES, LL_MASKED);
    import_row_word(row, IMPORT_HOOK, hook ? "true" : NULL);
    if (s->said.nvlink_disabled) import_row_word(row, IMPORT_DISABLE_NVLINK, "true");
    import_row_word(row, IMPORT_TIMED, timed_kernel);
    import_row_number(row, IMPORT_US, us);
    if (gbs > 0) {
        import_row_number(row, IMPORT_LOGICAL_RDMA_GBS, gbs);
        import_row_number(row, IMPORT_COUNTED_BYTES, round(gbs * us) * 1000);
        import_row_word(row, IMPORT_COUNTED, counted_ll);
    }
    g_hash_table_add(s->ranks, GUINT_TO_POINTER(rank));
    s->ranks_seen = MAX(s->ranks_seen, rank + 1);
    g_ptr_array_add(s->ll_rows, row);
    return row;
}

/* Reads the times of send and receive: "12.30 + 20.10", "32.40 = 12.30 + 20.10", or in old versions only the sum. */
static const char *send_recv_scan(const char *at, double *send, double *recv)
{
    double first;
    const char *rest = import_scan(at, "%f", &first);
    if (!rest) return NULL;
    const char *parts = import_scan(rest, " = %f + %f us", send, recv);
    if (parts) return parts;
    *send = first;
    if ((parts = import_scan(rest, " + %f us", recv))) return parts;
    *recv = NAN;
    return import_scan(rest, " us");
}

static bool ll_hook_take(struct v1_state *s, struct import_log *log, uint32_t rank, const char *at)
{
    double time[4];
    at = import_scan(at, "Dispatch send/recv time: ");
    at = at ? send_recv_scan(at, &time[0], &time[1]) : NULL;
    at = at ? import_scan(at, " | Combine send/recv time: ") : NULL;
    at = at ? send_recv_scan(at, &time[2], &time[3]) : NULL;
    if (!at) return false;
    static const char *const names[4] = { "dispatch_send", "dispatch_recv", "combine_send", "combine_recv" };
    for (int i = 0; i < 4; i += 2) {
        if (isnan(time[i + 1])) {
            ll_row(s, log, rank, i ? "combine_send+combine_recv" : "dispatch_send+dispatch_recv", time[i], 0, true);
            continue;
        }
        ll_row(s, log, rank, names[i], time[i], 0, true);
        ll_row(s, log, rank, names[i + 1], time[i + 1], 0, true);
    }
    return true;
}

static bool ll_take(struct v1_state *s, struct import_log *log, const char *line)
{
    const char *at = strstr(line, "[rank ");
    uint32_t rank;
    if (!at || !(at = import_scan(at, "[rank %u] ", &rank))) return false;
    double gbs, us, least, most, combine_gbs, combine_us;
    if (import_scan(at, "Dispatch + combine bandwidth: %f GB/s, avg_t=%f us, min_t=%f us, max_t=%f us", &gbs, &us,
                    &least, &most)) {
        struct import_row *row = ll_row(s, log, rank, "dispatch+combine", us, gbs, false);
        if (!row) return true;
        import_row_number(row, IMPORT_US_MIN, least);
        import_row_number(row, IMPORT_US_MAX, most);
        import_row_word(row, IMPORT_TIMED, timed_call);
        return true;
    }
    if (import_scan(at, "Dispatch bandwidth: %f GB/s, avg_t=%f us | Combine bandwidth: %f GB/s, avg_t=%f us", &gbs, &us,
                    &combine_gbs, &combine_us)) {
        ll_row(s, log, rank, "dispatch", us, gbs, false);
        ll_row(s, log, rank, "combine", combine_us, combine_gbs, false);
        return true;
    }
    return ll_hook_take(s, log, rank, at);
}

/* Sets the number of ranks in low latency's rows to the one that the command gives, if the log has no higher rank.
 * Without a command, the ranks seen must be 0 to N-1, with N above 1.  The number is then N, and a note is added,
 * because a console shows only the ranks of its node.  In all other cases the number is "?". */
static void ll_ranks_settle(struct v1_state *s, struct import_log *log)
{
    if (!s->ll_rows->len) return;
    const uint32_t told = s->said.processes ? s->said.processes * MAX(s->said.nodes, 1) : s->said.nodes * 8;
    const uint32_t seen = g_hash_table_size(s->ranks);
    const bool complete = told >= s->ranks_seen || (!told && seen == s->ranks_seen && seen > 1);
    const uint32_t ranks = told ? told : seen;
    for (guint i = 0; i < s->ll_rows->len; i++) {
        struct import_row *row = g_ptr_array_index(s->ll_rows, i);
        if (complete) import_row_count(row, IMPORT_NUM_RANKS, ranks);
        else import_row_word(row, IMPORT_NUM_RANKS, "?");
    }
    if (complete && !told)
        import_log_note(log,
                        "low latency: num-ranks %u because ranks 0 to %u are in the log; a console of one node shows "
                        "only its own: then give --num-ranks",
                        ranks, ranks - 1);
    g_ptr_array_set_size(s->ll_rows, 0);
    g_hash_table_remove_all(s->ranks);
    s->ranks_seen = 0;
}

/* Adds a note if the bytes that combine counted do not fit the row's options, or the test's defaults for options that
 * the row lacks.  Tokens times top-k, without the masked places, give the expected number of places. */
static void ll_counted_check(struct import_log *log)
{
    for (guint i = 0; i < log->rows->len; i++) {
        const struct import_row *row = g_ptr_array_index(log->rows, i);
        if (strcmp(row->cell[IMPORT_TOOL], "deepep-v1") != 0 || g_strcmp0(row->cell[IMPORT_KERNEL], "ll") != 0 ||
            strcmp(row->cell[IMPORT_PHASE], "combine") != 0 || !(row->number[IMPORT_COUNTED_BYTES] > 0))
            continue;
        double value[3] = { 7168, 128, 8 }; /* defaults of the test */
        static const enum import_column column[3] = { IMPORT_HIDDEN, IMPORT_NUM_TOKENS, IMPORT_NUM_TOPK };
        for (int k = 0; k < 3; k++)
            if (row->cell[column[k]]) import_number_read(row->cell[column[k]], &value[k]);
        const double places = row->number[IMPORT_COUNTED_BYTES] / (2 * value[0]);
        const double expected = value[1] * value[2] - LL_MASKED;
        const double digits = 0.006 / row->number[IMPORT_LOGICAL_RDMA_GBS]; /* two decimals are printed */
        if (fabs(places / expected - 1) <= 0.02 + digits) continue;
        import_log_note(log,
                        "low latency: combine counted %.0f rows of %.0f bytes, which %.0f tokens x %.0f are not: give "
                        "--num-tokens, --hidden and --num-topk of the run",
                        places, 2 * value[0], value[1], value[2]);
        return;
    }
}

/* ---- the reader ---- */

/* Whether the line belongs to these tests, but holds no measurement. */
static bool other_take(const char *line)
{
    static const char begins[] =
        "[testing] Running with |Allocating buffer size: |Testing with seed |ref_hash=|passed| passed";
    return import_begins(line, begins) || (strstr(line, "NVSHMEM_HCA_LIST") && g_str_has_prefix(line, "rank "));
}

static bool v1_line(void *state, struct import_log *log, const char *line)
{
    struct v1_state *s = state;
    if (!s->tuning) {
        s->tuning = g_array_new(FALSE, FALSE, sizeof(struct tuning));
        s->ranks = g_hash_table_new(NULL, NULL);
        s->ll_rows = g_ptr_array_new();
    }
    const bool begins = strstr(line, "test_low_latency.py") && !s->command_goes_on;
    if (begins) ll_ranks_settle(s, log);
    return command_take(s, line) || config_take(s, line) || layout_take(s, log, line) || tuning_take(s, log, line) ||
           ll_take(s, log, line) || other_take(line);
}

/* Ends the log.  If tuning lines have no "Best" line after them, the order tells their phase: after the BF16 dispatch
 * comes combine, and after the FP8 dispatch comes the BF16 dispatch.  Without an earlier dispatch the phase is not
 * known, and the lines are left out. */
static void v1_end(void *state, struct import_log *log)
{
    struct v1_state *s = state;
    if (!s->tuning) return;
    if (s->dispatch[1]) tuning_settle(s, log, "combine", NULL);
    else if (s->dispatch[0]) tuning_settle(s, log, "dispatch", "bf16");
    for (guint i = 0; i < s->tuning->len; i++)
        import_log_skip(log, "tuning line without a \"Best\" line behind it: of which phase is not said");
    ll_ranks_settle(s, log);
    ll_counted_check(log);
    g_array_unref(s->tuning);
    g_hash_table_destroy(s->ranks);
    g_ptr_array_unref(s->ll_rows);
}

const struct import_reader import_deepep_v1 = {
    .name = "deepep-v1",
    .state_bytes = sizeof(struct v1_state),
    .line = v1_line,
    .end = v1_end,
};
