/* deepxtrace_log.c - matrices of waiting that DeepXTrace's diagnosis logs (antgroup/DeepXTrace,
 * src/deepxtrace/diagnose.py).
 *
 * A header line names the phase, the EP size and what DeepXTrace found abnormal.  Then there is a line in brackets
 * for each rank, with or without "rank=N" before it, with one number for each peer.  Numbers are clock cycles of the
 * GPU (clock64 in the kernels), summed over calls.  They can be compared with each other, but are not times. */
#include "reports/import/import.h"

#include <string.h>

enum { RANKS_MAX = 4096 };

struct matrix_state {
    bool reading;
    const char *phase;
    uint32_t ranks, rows;
};

static void matrix_end(struct matrix_state *s, struct import_log *log)
{
    if (s->reading && s->rows != s->ranks) import_log_skip(log, "matrix cut short: fewer lines than ranks");
    s->reading = false;
}

static bool header_take(struct matrix_state *s, struct import_log *log, const char *line)
{
    const char *at = strstr(line, "Wait Recv Cost Per Token Matrix[src_rank, dst_rank]");
    const char *size = strstr(line, "EPSize: ");
    uint32_t ranks;
    if (!at || !size || !import_scan(size, "EPSize: %u", &ranks) || ranks < 1 || ranks > RANKS_MAX) return false;
    matrix_end(s, log);
    const bool dispatch = at - line >= 9 && strncmp(at - 9, "Dispatch ", 9) == 0;
    const bool combine = at - line >= 8 && strncmp(at - 8, "Combine ", 8) == 0;
    if (!dispatch && !combine) return false;
    *s = (struct matrix_state){ .reading = true, .phase = dispatch ? "dispatch_wait" : "combine_wait", .ranks = ranks };
    const char *found = strstr(line, "diagnose: {"), *end = found ? strchr(found, '}') : NULL;
    if (end) import_log_note(log, "DeepXTrace, %s: %.*s", s->phase, (int)MIN(end - found + 1, 300), found);
    return true;
}

/* Reads a rank's line: "[ 458 436 ...]", alone or after "rank=3 " and a date in brackets. */
static bool row_take(struct matrix_state *s, struct import_log *log, const char *line)
{
    const char *at = strrchr(line, '['), *named = strstr(line, "rank=");
    uint32_t rank = s->rows, count = 0;
    if (!at || line[strlen(line) - 1] != ']' || (named && !import_scan(named, "rank=%u ", &rank))) return false;
    g_auto(GStrv) words = g_strsplit_set(at + 1, " ]", 0);
    g_autofree double *value = g_new(double, RANKS_MAX);
    for (char **word = words; *word; word++) {
        if (!**word) continue;
        if (count == RANKS_MAX || !import_number_read(*word, &value[count])) return false;
        count++;
    }
    if (count != s->ranks || rank >= s->ranks) {
        import_log_skip(log, "matrix line with another number of ranks than EPSize");
        s->rows++;
        return true;
    }
    for (uint32_t peer = 0; peer < count; peer++) {
        struct import_row *row = import_row_add(log, "deepxtrace", "wait matrix", s->phase);
        row->rank = (int32_t)rank;
        import_row_count(row, IMPORT_NUM_RANKS, count);
        import_row_count(row, IMPORT_PEER, peer);
        import_row_number(row, IMPORT_NATIVE_CYCLES, value[peer]);
        import_row_word(row, IMPORT_METRIC, "native_cycles");
        import_row_word(row, IMPORT_COUNTED, "GPU clock cycles waited, [src_rank, dst_rank] as printed");
    }
    s->rows++;
    return true;
}

static bool deepxtrace_line(void *state, struct import_log *log, const char *line)
{
    struct matrix_state *s = state;
    if (header_take(s, log, line)) return true;
    if (!s->reading || s->rows >= s->ranks) return false;
    return row_take(s, log, line);
}

static void deepxtrace_end(void *state, struct import_log *log) { matrix_end(state, log); }

const struct import_reader import_deepxtrace = {
    .name = "deepxtrace",
    .state_bytes = sizeof(struct matrix_state),
    .line = deepxtrace_line,
    .end = deepxtrace_end,
};
