/* nccl_tests_log.c - nccl-tests (NVIDIA/nccl-tests, src/util.cu): the table on the console and the file of -J.
 *
 * time is the time of one operation in us. algbw is the size over the time. busbw is algbw times a factor, which makes
 * it the bandwidth that each link must have.  The factor is 2(n-1)/n for all_reduce, (n-1)/n for all_gather,
 * reduce_scatter, alltoall, gather and scatter, else 1.  The size of alltoall, all_gather and reduce_scatter is the
 * whole buffer of a rank, its own share included. */
#include "reports/import/import.h"

#include <math.h>
#include <string.h>

enum { HEADER_FIRST = 5 }; /* size, count, type, redop, root */

/* The numbers of one operation's row, for the operation in place or out of place. */
struct side {
    double number[IMPORT_NUMBERS];
};

static const struct import_meaning meanings[] = { { "time", NULL, IMPORT_US, 1 },
                                                  { "cputime", NULL, IMPORT_US, 1 },
                                                  { "algbw", NULL, IMPORT_NATIVE_GBS, 1 },
                                                  { "busbw", NULL, IMPORT_NATIVE_BUS_GBS, 1 },
                                                  { "i_min", NULL, IMPORT_US_MIN, 1 },
                                                  { "i_max", NULL, IMPORT_US_MAX, 1 },
                                                  { NULL, NULL, 0, 0 } };

struct nccl_state {
    char *test, *run, *hosts;
    uint32_t ranks, hosts_count;
    struct import_titles titles;
    bool cpu_time;
};

static const char *phase_of(const char *test)
{
    static const char *const names[] = {
        "alltoallv", "alltoall", "all_reduce", "all_gather", "reduce_scatter", "sendrecv",
        "broadcast", "reduce",   "gather",     "scatter",    "hypercube",
    };
    for (size_t i = 0; test && i < G_N_ELEMENTS(names); i++)
        if (strstr(test, names[i])) return names[i];
    return "collective";
}

static bool whole_buffer(const char *phase)
{
    return strcmp(phase, "alltoall") == 0 || strcmp(phase, "all_gather") == 0 || strcmp(phase, "reduce_scatter") == 0;
}

/* Sets the number of ranks to the number of devices listed.  If the bandwidths give another number, the list was cut.
 * The number is then left unstated, and a note says so. */
static void ranks_set(struct import_row *row, struct import_log *log, const char *phase, uint32_t listed,
                      uint32_t hosts, const struct side *side)
{
    const uint32_t fits = whole_buffer(phase)
                              ? import_bus_ranks(side->number[IMPORT_NATIVE_GBS], side->number[IMPORT_NATIVE_BUS_GBS])
                              : 0;
    if (fits && listed && fits != listed) {
        import_log_note(log, "nccl-tests: %u devices are listed, but busbw is that of %u ranks: the list is cut",
                        listed, fits);
        return;
    }
    if (!listed) return;
    import_row_count(row, IMPORT_NUM_RANKS, listed);
    if (hosts && listed % hosts == 0) import_row_count(row, IMPORT_RANKS_PER_NODE, listed / hosts);
}

static struct import_row *side_add(struct import_log *log, const char *test, const struct side *side, bool in_place)
{
    if (!(side->number[IMPORT_US] > 0)) {
        import_log_skip(log, "a time of 0 or no number: not measured");
        return NULL;
    }
    const char *phase = phase_of(test);
    struct import_row *row = import_row_add(log, "nccl-tests", test ? test : "unnamed", phase);
    import_row_word(row, IMPORT_METRIC, "native_gbs");
    import_row_word(row, IMPORT_IN_PLACE, in_place ? "true" : "false");
    for (size_t i = 0; i < G_N_ELEMENTS(meanings) - 1; i++)
        import_row_number(row, meanings[i].number, side->number[meanings[i].number]);
    import_row_word(row, IMPORT_COUNTED,
                    whole_buffer(phase) ? "algbw: a rank's whole buffer, own share included" : "algbw: the message");
    return row;
}

/* ---- the console ---- */

static void state_clear(struct nccl_state *s)
{
    g_free(s->hosts);
    *s = (struct nccl_state){ 0 };
}

/* Reads "#  Rank  0 Group  0 Pid 2380613 on    Node1 device  0 [0000:4e:00] NVIDIA H100 80GB HBM3". */
static bool device_take(struct nccl_state *s, const char *line)
{
    uint32_t rank, group, pid;
    const char *at = import_scan(line, "# Rank %u Group %u Pid %u on ", &rank, &group, &pid);
    if (!at) at = import_scan(line, "# Rank %u Pid %u on ", &rank, &pid);
    if (!at) return false;
    g_autofree char *host = g_strndup(at, strcspn(at, " "));
    g_autofree char *marked = g_strdup_printf("\n%s\n", host);
    if (!s->hosts || !strstr(s->hosts, marked)) {
        g_autofree char *before = s->hosts;
        s->hosts = g_strconcat(before ? before : "", marked, NULL);
        s->hosts_count++;
    }
    s->ranks++;
    return true;
}

static bool header_take(struct nccl_state *s, struct import_log *log, const char *line)
{
    g_auto(GStrv) words = import_words(line + 1, 1);
    const uint32_t count = g_strv_length(words);
    static const char *const first[HEADER_FIRST] = { "size", "count", "type", "redop", "root" };
    if (count < HEADER_FIRST + 3) return false;
    for (int i = 0; i < HEADER_FIRST; i++)
        if (strcmp(words[i], first[i]) != 0) return false;
    import_titles_set(&s->titles, log, words);
    s->cpu_time = strcmp(words[HEADER_FIRST], "cputime") == 0;
    return true;
}

/* Reads comments: the table's head, the hosts of ranks, and others, which are skipped. */
static bool comment_take(struct nccl_state *s, struct import_log *log, const char *line)
{
    const char *rest;
    if (g_str_has_prefix(line, "# nccl-tests version")) {
        state_clear(s);
        return true;
    }
    if ((rest = import_scan(line, "# Collective test starting: "))) {
        const bool version = s->run != NULL;
        if (version) state_clear(s);
        s->test = import_log_keep(log, rest, (gssize)strcspn(rest, " "));
        return true;
    }
    if (import_scan(line, "# nThread")) {
        g_autofree char *run = g_strdup(line + 1);
        s->run = import_log_keep(log, g_strstrip(run), -1);
        return true;
    }
    if (device_take(s, line) || header_take(s, log, line)) return true;
    double wrong;
    if (import_scan(line, "# Out of bounds values : %f", &wrong)) {
        s->titles.count = 0;
        if (wrong > 0) import_log_note(log, "nccl-tests: %.0f values were wrong: the data did not arrive whole", wrong);
        return true;
    }
    static const char known[] = "# Using devices|# Avg bus bandwidth|# Collective test concluded|"
                                "# Blocking Enabled|# Parallel Init|# Per-Iteration Report|# GPU memory usage|"
                                "# Writing JSON|#        (B)";
    return import_begins(line, known) || strcmp(line, "#") == 0 || (s->titles.count && strstr(line, "(B)")) ||
           strstr(line, "out-of-place");
}

/* Reads the numbers of one side of a row, from word `at` on.  A row may have fewer words than there are columns: it may
 * lack the header's timestamp, or be cut. */
static struct side side_read(const struct nccl_state *s, char **word, uint32_t count, uint32_t at, uint32_t *next)
{
    struct side side;
    for (int k = 0; k < IMPORT_NUMBERS; k++) side.number[k] = NAN;
    uint32_t i = at;
    for (; i < s->titles.count; i++) {
        const struct import_meaning *meaning = import_meaning_find(meanings, s->titles.title[i]);
        if (i > at && meaning && meaning->number == IMPORT_US) break;
        double value;
        if (i < count && meaning && import_number_read(word[i], &value)) side.number[meaning->number] = value;
    }
    *next = i;
    return side;
}

static bool row_take(struct nccl_state *s, struct import_log *log, const char *line)
{
    if (!s->titles.count || !g_ascii_isdigit(line[strspn(line, " ")])) return false;
    g_auto(GStrv) word = import_words(line, 1);
    const uint32_t count = g_strv_length(word);
    double size, elements;
    if (count < HEADER_FIRST + 3 || !import_number_read(word[0], &size) || !import_number_read(word[1], &elements) ||
        g_ascii_isdigit(*word[2]))
        return false;
    uint32_t at = HEADER_FIRST;
    for (int place = 0; place < 2 && at < s->titles.count; place++) {
        const uint32_t start = at;
        const struct side side = side_read(s, word, count, at, &at);
        if (count < start + 3) {
            import_log_skip(log, "line cut short");
            continue;
        }
        struct import_row *row = side_add(log, s->test, &side, place);
        if (!row) continue;
        ranks_set(row, log, row->cell[IMPORT_PHASE], s->ranks, s->hosts_count, &side);
        import_row_size(row, size);
        import_row_word(row, IMPORT_VALUE_TYPE, word[2]);
        import_row_word(row, IMPORT_OPERATOR, word[3]);
        import_row_word(row, IMPORT_RUN_OPTIONS, s->run);
        import_row_word(row, IMPORT_TIMED, s->cpu_time ? "call, by the CPU" : "operation, mean of iterations");
    }
    return true;
}

static bool nccl_line(void *state, struct import_log *log, const char *line)
{
    struct nccl_state *s = state;
    return *line == '#' ? comment_take(s, log, line) : row_take(s, log, line);
}

static void nccl_end(void *state, struct import_log *log)
{
    (void)log;
    state_clear(state);
}

/* ---- the file of -J ---- */

static void json_side_add(struct import_log *log, const char *test, const json_t *result, bool in_place, uint32_t ranks,
                          uint32_t hosts)
{
    const json_t *object = json_object_get(result, in_place ? "in_place" : "out_of_place");
    const json_t *iterations = json_object_get(result, in_place ? "in_place_per_iter" : "out_of_place_per_iter");
    if (!json_is_object(object)) return;
    const bool cpu = json_object_get(object, "cpu_time") != NULL;
    const struct side side = {
        .number = { [IMPORT_US] = import_json_number(object, cpu ? "cpu_time" : "time"),
                    [IMPORT_US_MIN] = import_json_number(iterations, "min_us"),
                    [IMPORT_US_MAX] = import_json_number(iterations, "max_us"),
                    [IMPORT_NATIVE_GBS] = import_json_number(object, "alg_bw"),
                    [IMPORT_NATIVE_BUS_GBS] = import_json_number(object, "bus_bw") },
    };
    if (import_json_number(object, "nwrong") > 0)
        import_log_note(log, "nccl-tests: values were wrong: the data did not arrive whole");
    struct import_row *row = side_add(log, test, &side, in_place);
    if (!row) return;
    const double size = import_json_number(result, "size");
    ranks_set(row, log, row->cell[IMPORT_PHASE], ranks, hosts, &side);
    import_row_size(row, size);
    import_row_word(row, IMPORT_VALUE_TYPE, json_string_value(json_object_get(result, "type")));
    import_row_word(row, IMPORT_OPERATOR, json_string_value(json_object_get(result, "redop")));
    import_row_word(row, IMPORT_TIMED, cpu ? "call, by the CPU" : "operation, mean of iterations");
}

static uint32_t hosts_count(const json_t *devices)
{
    g_autoptr(GHashTable) hosts = g_hash_table_new(g_str_hash, g_str_equal);
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(devices, i), "hostname"));
        if (name) g_hash_table_add(hosts, (gpointer)name);
    }
    return g_hash_table_size(hosts);
}

static bool nccl_json(struct import_log *log, const json_t *root)
{
    const json_t *results = json_object_get(root, "results"), *config = json_object_get(root, "config");
    if (!json_object_get(root, "nccl_version") || !json_is_array(results)) return false;
    const json_t *devices = json_object_get(config, "devices");
    if (!devices) devices = json_object_get(root, "devices");
    const char *program = json_string_value(json_array_get(json_object_get(root, "args"), 0));
    const char *slash = program ? strrchr(program, '/') : NULL;
    const char *test = slash ? slash + 1 : program;
    const uint32_t ranks = (uint32_t)json_array_size(devices), hosts = hosts_count(devices);
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *result = json_array_get(results, i);
        json_side_add(log, test, result, false, ranks, hosts);
        json_side_add(log, test, result, true, ranks, hosts);
    }
    return true;
}

const struct import_reader import_nccl_tests = {
    .name = "nccl-tests",
    .state_bytes = sizeof(struct nccl_state),
    .line = nccl_line,
    .end = nccl_end,
    .json = nccl_json,
};
