/* osu_log.c - OSU Micro-Benchmarks: point to point, one-sided and collective tables, "# OSU MPI... Test v7.5".
 *
 * MB/s is 1e6 bytes a second.  Latencies of collectives are means over ranks.  The size is that of a message; in an
 * alltoall a rank sends such a message to each other rank.  Latencies of pairs are half a round trip. */
#include "reports/import/import.h"

#include <string.h>

struct osu_state {
    char *test, *memory;
    struct import_titles titles;
    double size_last; /* size of the last row; a line whose size is no larger is not a row */
};

static const struct import_part phases[] = { { "All-to-All", "alltoall" },
                                             { "Alltoall", "alltoall" },
                                             { "Allgather", "all_gather" },
                                             { "Allreduce", "all_reduce" },
                                             { "Reduce_scatter", "reduce_scatter" },
                                             { "Broadcast", "broadcast" },
                                             { "Put", "put" },
                                             { "Get", "get" },
                                             { "Barrier", "barrier" },
                                             { "Bandwidth", "send" },
                                             { "Latency", "send" },
                                             { "", "operation" },
                                             { NULL, NULL } };

static const struct import_meaning meanings[] = { { "Bandwidth (MB/s)", "", IMPORT_NATIVE_GBS, 1e-3 },
                                                  { "MB/s", NULL, IMPORT_NATIVE_GBS, 1e-3 },
                                                  { "Avg Lat", "(us)", IMPORT_US, 1 },
                                                  { "Latency", "(us)", IMPORT_US, 1 },
                                                  { "Overall", "(us)", IMPORT_US, 1 },
                                                  { "Min Lat", "(us)", IMPORT_US_MIN, 1 },
                                                  { "Max Lat", "(us)", IMPORT_US_MAX, 1 },
                                                  { NULL, NULL, 0, 0 } };

static bool header_take(struct osu_state *s, struct import_log *log, const char *line)
{
    static const char known[] = "# Size |# Avg Latency(us)|# Overall(us)";
    if (!s->test || !import_begins(line, known)) return false;
    s->size_last = -1;
    g_auto(GStrv) words = import_words(line + 1, 2);
    import_titles_set(&s->titles, log, words);
    return true;
}

static bool comment_take(struct osu_state *s, struct import_log *log, const char *line)
{
    if (g_str_has_prefix(line, "# OSU ")) {
        *s = (struct osu_state){ .test = import_log_keep(log, line + 2, -1) };
        return true;
    }
    if (header_take(s, log, line)) return true;
    if (!s->test) return false;
    if (strstr(line, "Buffer on ") || strstr(line, "Memory on ")) {
        s->memory = import_log_keep(log, line + 1 + strspn(line + 1, " "), -1);
        return true;
    }
    static const char known[] = "# Datatype:|# Window creation:|# Synchronization:|# Overall =|# [ pairs:|"
                                "# Using |# MPI_Init|# Allocate";
    return import_begins(line, known);
}

static bool row_take(struct osu_state *s, struct import_log *log, const char *line)
{
    const char *at = line + strspn(line, " ");
    if (!s->titles.count || !g_ascii_isdigit(*at)) return false;
    g_auto(GStrv) word = import_words(line, 1);
    const uint32_t count = g_strv_length(word);
    const bool sized = strcmp(s->titles.title[0], "Size") == 0;
    double first;
    if (count > s->titles.count || !import_number_read(word[0], &first) || (sized && first <= s->size_last))
        return false;
    s->size_last = first;
    if (count < (sized ? 2u : 1u)) return import_log_skip(log, "line cut short");
    struct import_row *row = import_row_add(log, "osu", s->test, import_part_find(phases, s->test));
    import_row_word(row, IMPORT_MEMORY, s->memory);
    if (sized) {
        import_row_size(row, first);
        const bool each = strcmp(import_part_find(phases, s->test), "alltoall") == 0;
        import_row_word(row, IMPORT_COUNTED, each ? "of a rank for each other" : "of a message");
    }
    bool bad_data = false;
    for (uint32_t i = sized; i < count; i++) {
        double value;
        const struct import_meaning *meaning = import_meaning_find(meanings, s->titles.title[i]);
        if (!import_number_read(word[i], &value)) bad_data |= strcmp(word[i], "Fail") == 0;
        else if (meaning) import_row_number(row, meaning->number, value * meaning->scale);
        else if (strcmp(s->titles.title[i], "Iterations") == 0)
            import_row_count(row, IMPORT_ITERATIONS, (uint64_t)MIN(value, 1e18));
    }
    if (bad_data) import_log_note(log, "OSU: validation failed: the data did not arrive whole");
    const bool rate = row->number[IMPORT_NATIVE_GBS] > 0;
    import_row_word(row, IMPORT_METRIC, rate ? "native_gbs" : "native_us");
    if (rate || row->number[IMPORT_US] > 0) return true;
    return import_row_drop(log, row, "line without a latency or bandwidth of a known unit");
}

static bool osu_line(void *state, struct import_log *log, const char *line)
{
    struct osu_state *s = state;
    return *line == '#' ? comment_take(s, log, line) : row_take(s, log, line);
}

const struct import_reader import_osu = {
    .name = "osu",
    .state_bytes = sizeof(struct osu_state),
    .line = osu_line,
};
