/* perftest_log.c - perftest (linux-rdma/perftest): ib_write_bw, ib_read_lat and the like, console and --out_json.
 *
 * Bandwidths count the bytes of messages without headers.  The header line names the unit: Gb/sec is 1e9 bits,
 * MiB/sec is 2^20 bytes, and old versions write MB/sec for 2^20 bytes, too.  The file of --out_json does not name
 * its unit, which follows from the message rate.  A peak of 0.00 was not measured (-D, -N).  Latencies of write and
 * send are half a round trip, and those of read and atomic a whole one.  t_typical is the median.  If the buffers
 * are a GPU's, a line before the title says so.  Otherwise they are the host's. */
#include "reports/import/import.h"

#include <math.h>
#include <string.h>

struct perftest_state {
    bool open; /* whether a title was seen */
    bool gpu;  /* lines before the title said that the buffer is a GPU's */
    char *test;
    char *device, *qps, *connection, *depth, *mtu, *link;
    struct import_titles titles;
};

static const struct import_part phases[] = {
    { "RDMA_Write", "put" }, { "RDMA Write", "put" }, { "RDMA_Read", "get" }, { "RDMA Read", "get" },
    { "Atomic", "atomic" },  { "Send", "send" },      { NULL, NULL },
};

static const char *phase_of(const char *test)
{
    const char *phase = import_part_find(phases, test);
    return phase ? phase : "message";
}

/* The columns of tables.  Old versions write MB for 2^20 bytes, too.  If a table has the median of a latency
 * (t_typical) and the mean (t_avg), the median comes first and is used. */
static const struct import_meaning meanings[] = {
    { "BW peak", "[Gb/sec]", IMPORT_NATIVE_PEAK_GBS, 0.125 },
    { "BW peak", "[MiB/sec]", IMPORT_NATIVE_PEAK_GBS, 1048576 / 1e9 },
    { "BW peak", "[MB/sec]", IMPORT_NATIVE_PEAK_GBS, 1048576 / 1e9 },
    { "BW average", "[Gb/sec]", IMPORT_NATIVE_GBS, 0.125 },
    { "BW average", "[MiB/sec]", IMPORT_NATIVE_GBS, 1048576 / 1e9 },
    { "BW average", "[MB/sec]", IMPORT_NATIVE_GBS, 1048576 / 1e9 },
    { "t_min", "[usec]", IMPORT_US_MIN, 1 },
    { "t_max", "[usec]", IMPORT_US_MAX, 1 },
    { "t_typical", "[usec]", IMPORT_US, 1 },
    { "t_avg", "[usec]", IMPORT_US, 1 },
    { NULL, NULL, 0, 0 },
};

/* Takes a line that --use_cuda and similar options print before the title: "cuMemAlloc() of a 131072 bytes GPU
 * buffer". */
static bool gpu_take(struct perftest_state *s, const char *line)
{
    static const char known[] = "initializing CUDA|Listing all CUDA devices|CUDA device |Picking device No.|"
                                "creating CUDA Ctx|making it the current CUDA|cuMemAlloc() of a|"
                                "allocated GPU buffer|deallocating GPU buffer|destroying current CUDA|"
                                "Using ROCm Device|hipMalloc() of a";
    const bool said = import_begins(line, known);
    if (!said || g_str_has_prefix(line, "de")) return said; /* a line that ends a run says nothing about the next run */
    if (s->open) *s = (struct perftest_state){ 0 };
    s->gpu = true;
    return true;
}

/* Reads a title: "RDMA_Write BW Test", "Send Latency Test", "RDMA_Read Bidirectional Post List BW Test". */
static bool title_take(struct perftest_state *s, struct import_log *log, const char *line)
{
    const char *at = line + strspn(line, " ");
    static const char verbs[] = "RDMA_Write |RDMA_Read |RDMA_Write_With_Imm |Send |Send_With_Imm |Atomic ";
    if (!import_begins(at, verbs) || !g_str_has_suffix(at, "Test") || (!strstr(at, "BW") && !strstr(at, "Latency")))
        return false;
    const bool gpu = s->gpu && !s->open;
    *s = (struct perftest_state){ .open = true, .gpu = gpu, .test = import_log_keep(log, at, -1) };
    return true;
}

static bool pair_keep(struct perftest_state *s, struct import_log *log, const char *name, const char *value)
{
    const struct {
        const char *name;
        char **place;
    } kept[] = {
        { "Device", &s->device },  { "Number of qps", &s->qps }, { "Connection type", &s->connection },
        { "TX depth", &s->depth }, { "Mtu", &s->mtu },           { "Link type", &s->link },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(kept); i++)
        if (strcmp(name, kept[i].name) == 0) *kept[i].place = import_log_keep(log, value, -1);
    if (g_str_has_prefix(name, "Use ") && g_str_has_suffix(name, " memory")) s->gpu |= strcmp(value, "OFF") != 0;
    static const char known[] = "Dual-port|Device|Number of qps|Transport type|Connection type|Using SRQ|"
                                "PCIe relax order|Lock-free|ibv_wr* API|Using Enhanced Reorder|TX depth|"
                                "RX depth|Post List|Recv Post List|CQ Moderation|CQE Poll Batch|Mtu|Link type|"
                                "GID index|GID index2|Max inline data|Outstand reads|rdma_cm QPs|"
                                "Use ROCm memory|Use MUSA memory|Data ex. method|TOS|NUMA node|Buffer size|"
                                "DCS num streams|DCS active num streams|Number of data encryption keys|"
                                "Block Size";
    return import_listed(name, known);
}

/* Reads a line of one or two pairs of name and value: " Number of qps   : 1\t\tTransport type : IB". */
static bool pairs_take(struct perftest_state *s, struct import_log *log, const char *line)
{
    bool known = false;
    for (const char *at = line; at && *at;) {
        const char *colon = strchr(at, ':');
        if (!colon) break;
        g_autofree char *name = g_strstrip(g_strndup(at, (size_t)(colon - at)));
        const char *value = colon + 1 + strspn(colon + 1, " \t"), *end = value;
        while (*end && *end != '\t' && !(end[0] == ' ' && end[1] == ' ')) end++;
        g_autofree char *text = g_strstrip(g_strndup(value, (size_t)(end - value)));
        if (!pair_keep(s, log, name, text)) return known;
        known = true;
        at = end + strspn(end, " \t");
    }
    return known;
}

/* Reads the header of a table, whose names may hold single blanks: "BW peak[Gb/sec]", "99% percentile[usec]". */
static bool header_take(struct perftest_state *s, struct import_log *log, const char *line)
{
    const char *at = line + strspn(line, " ");
    if (!g_str_has_prefix(at, "#bytes") || !strstr(at, "#iterations")) return false;
    g_autofree char *text = g_strdup(at);
    static const char *const names[] = { "#iterations", "BW peak",   "BW average", "MsgRate", "t_min",
                                         "t_max",       "t_typical", "t_avg",      "t_stdev", "99% ",
                                         "99.9% ",      "tps",       "CPU_Util",   "#sl" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) { /* each of these begins a column, however many blanks are before
                                                        * it */
        char *found = strstr(text, names[i]);
        if (!found || found == text) continue;
        g_autofree char *head = g_strndup(text, (size_t)(found - text));
        char *parted = g_strconcat(head, "  ", found, NULL);
        g_free(text);
        text = parted;
    }
    g_auto(GStrv) words = import_words(text, 2);
    import_titles_set(&s->titles, log, words);
    return true;
}

static void options_set(struct import_row *row, const struct perftest_state *s)
{
    import_row_word(row, IMPORT_METRIC, "native_gbs");
    import_row_word(row, IMPORT_DEVICE, s->device);
    import_row_word(row, IMPORT_QPS, s->qps);
    import_row_word(row, IMPORT_CONNECTION, s->connection);
    import_row_word(row, IMPORT_TX_DEPTH, s->depth);
    import_row_word(row, IMPORT_LINK, s->link);
    if (s->open) import_row_word(row, IMPORT_MEMORY, s->gpu ? "gpu" : "host");
    if (!s->mtu) return;
    g_autofree char *bytes = g_strndup(s->mtu, strspn(s->mtu, "0123456789"));
    import_row_word(row, IMPORT_MTU, bytes);
}

static void latency_set(struct import_row *row, const char *test)
{
    import_row_word(row, IMPORT_METRIC, "native_us");
    const bool whole = strcmp(phase_of(test), "get") == 0 || strcmp(phase_of(test), "atomic") == 0;
    import_row_word(row, IMPORT_TIMED, whole ? "round trip" : "half a round trip");
}

/* Sets the number that the column stands for.  False: the column's unit is not known. */
static bool value_take(struct import_row *row, const char *title, double value, const char *test)
{
    static const char rate[] = "BW peak|BW average";
    const struct import_meaning *meaning = import_meaning_find(meanings, title);
    if (g_str_has_prefix(title, "#iterations")) import_row_count(row, IMPORT_ITERATIONS, (uint64_t)MIN(value, 1e18));
    if (g_str_has_prefix(title, "t_")) latency_set(row, test);
    if (meaning && isnan(row->number[meaning->number])) import_row_number(row, meaning->number, value * meaning->scale);
    return meaning || (!import_begins(title, rate) && (!g_str_has_prefix(title, "t_") || strstr(title, "[usec]")));
}

static bool row_take(struct perftest_state *s, struct import_log *log, const char *line)
{
    if (!s->titles.count || !g_ascii_isdigit(line[strspn(line, " ")])) return false;
    g_auto(GStrv) word = import_words(line, 1);
    const uint32_t count = g_strv_length(word);
    double value[IMPORT_FIELDS_MAX];
    for (uint32_t i = 0; i < count; i++)
        if (!import_number_read(word[i], &value[i])) return false;
    if (count < 3 || count > s->titles.count) return false;
    if (count < MIN(s->titles.count, 4)) return import_log_skip(log, "line cut short");
    struct import_row *row = import_row_add(log, "perftest", s->test ? s->test : "unnamed", phase_of(s->test));
    options_set(row, s);
    import_row_size(row, value[0]);
    import_row_word(row, IMPORT_COUNTED, "bytes of messages, no headers");
    bool unit = true;
    for (uint32_t i = 1; i < count; i++) unit = value_take(row, s->titles.title[i], value[i], s->test) && unit;
    if (unit && (row->number[IMPORT_NATIVE_GBS] > 0 || row->number[IMPORT_US] > 0)) return true;
    return import_row_drop(log, row, unit ? "0.00: not measured" : "unit of a column not known");
}

static bool perftest_line(void *state, struct import_log *log, const char *line)
{
    struct perftest_state *s = state;
    if (title_take(s, log, line) || gpu_take(s, line) || header_take(s, log, line)) return true;
    if (g_str_has_prefix(line, "Conflicting CPU frequency values")) {
        import_log_note(log, "perftest: the CPU's frequency was not steady: times by its cycle counter may be off");
        return true;
    }
    if (!s->open && !s->titles.count) return false;
    if (row_take(s, log, line) || pairs_take(s, log, line)) return true;
    const char *at = line + strspn(line, " ");
    if (g_str_has_prefix(at, "-----")) {
        s->titles.count = 0; /* this is the rule below a table */
        return true;
    }
    static const char known[] = "local address:|remote address:|GID:|*****|* Waiting for client|WARNING:";
    return import_begins(at, known);
}

/* ---- --out_json ---- */

/* Sets the bandwidths.  The file does not name their unit, which is one of two.  The message rate (in millions a
 * second) times the size is the bandwidth.  So the unit is used whose bandwidth agrees with this product.  False:
 * neither agrees, or a number is missing. */
static bool json_bandwidth(struct import_row *row, struct import_log *log, const json_t *results)
{
    const double average = import_json_number(results, "BW_average"), peak = import_json_number(results, "BW_peak");
    const double gbs = import_json_number(results, "MsgRate") * import_json_number(results, "MsgSize") / 1e3;
    if (!(average > 0) || !(gbs > 0)) return false;
    const double units[] = { 0.125, 1048576 / 1e9 };
    for (int i = 0; i < 2; i++) {
        const double digits = 0.01 / average + 1e-6 / import_json_number(results, "MsgRate");
        if (fabs(average * units[i] / gbs - 1) > 0.01 + digits) continue;
        import_row_number(row, IMPORT_NATIVE_GBS, average * units[i]);
        import_row_number(row, IMPORT_NATIVE_PEAK_GBS, peak * units[i]);
        return true;
    }
    import_log_note(log, "perftest JSON: bandwidth and message rate fit neither Gb/s nor MiB/s");
    return false;
}

static bool perftest_json(struct import_log *log, const json_t *root)
{
    const json_t *info = json_object_get(root, "test_info"), *results = json_object_get(root, "results");
    const char *test = json_string_value(json_object_get(info, "test"));
    if (!test || !json_is_object(results)) return false;
    struct import_row *row = import_row_add(log, "perftest", test, phase_of(test));
    import_row_word(row, IMPORT_METRIC, "native_gbs");
    import_json_word(row, IMPORT_DEVICE, info, "Device");
    import_json_word(row, IMPORT_QPS, info, "Number_of_qps");
    import_json_word(row, IMPORT_CONNECTION, info, "Connection_type");
    import_json_word(row, IMPORT_TX_DEPTH, info, "TX_depth");
    import_json_word(row, IMPORT_MTU, info, "Mtu");
    import_json_word(row, IMPORT_LINK, info, "Link_type");
    import_json_word(row, IMPORT_ITERATIONS, results, "n_iterations");
    import_json_word(row, IMPORT_SIZE, results, "MsgSize");
    import_row_number(row, IMPORT_COUNTED_BYTES, import_json_number(results, "MsgSize"));
    import_row_word(row, IMPORT_COUNTED, "bytes of messages, no headers");
    bool good = true;
    if (json_object_get(results, "t_avg")) {
        const double typical = import_json_number(results, "t_typical");
        latency_set(row, test);
        import_row_number(row, IMPORT_US, isnan(typical) ? import_json_number(results, "t_avg") : typical);
        import_row_number(row, IMPORT_US_MIN, import_json_number(results, "t_min"));
        import_row_number(row, IMPORT_US_MAX, import_json_number(results, "t_max"));
        good = row->number[IMPORT_US] > 0;
    } else {
        good = json_bandwidth(row, log, results);
    }
    if (good) return true;
    return import_row_drop(log, row, "perftest JSON without a bandwidth whose unit is known, or a latency");
}

const struct import_reader import_perftest = {
    .name = "perftest",
    .state_bytes = sizeof(struct perftest_state),
    .line = perftest_line,
    .json = perftest_json,
};
