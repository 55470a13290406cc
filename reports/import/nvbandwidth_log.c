/* nvbandwidth_log.c - nvbandwidth (NVIDIA/nvbandwidth, output.cpp, json_output.cpp): the matrices on the console and
 * those of -j.
 *
 * A matrix has a row for each device (or the host) and a column for each device.  GB is 1e9 bytes.  A device's cell
 * with itself is 0.00 or N/A.  In JSON all cells are strings.  A matrix of latencies has the time of one load in ns. */
#include "reports/import/import.h"

#include <string.h>

struct nvbandwidth_state {
    char *test, *description;
    uint32_t columns;                  /* number of columns of the matrix that is being read; 0: none */
    int32_t column[IMPORT_FIELDS_MAX]; /* the device of each column */
    int64_t device_last;               /* device of the last row; a line whose device is no larger is not a row */
};

static bool unit_known(const char *description)
{
    return g_str_has_suffix(description, "(GB/s)") || g_str_has_suffix(description, "(ns)");
}

static void cell_add(struct import_log *log, const char *test, const char *description, int32_t device, int32_t peer,
                     double value)
{
    if (!(value > 0)) return; /* the cell of a device with itself */
    const bool time = g_str_has_suffix(description, "(ns)");
    struct import_row *row = import_row_add(log, "nvbandwidth", test ? test : "unnamed", time ? "load" : "copy");
    row->rank = device;
    import_row_count(row, IMPORT_PEER, (uint64_t)MAX(peer, 0));
    import_row_number(row, time ? IMPORT_US : IMPORT_NATIVE_GBS, time ? value / 1000 : value);
    import_row_word(row, IMPORT_METRIC, time ? "native_us" : "native_gbs");
    import_row_word(row, IMPORT_COUNTED, description);
}

static bool head_take(struct nvbandwidth_state *s, struct import_log *log, const char *line)
{
    if (g_str_has_prefix(line, "Running ") && g_str_has_suffix(line, ".") && strlen(line) < 120 &&
        !strchr(line + 8, ' ')) {
        s->test = import_log_keep(log, line + 8, (gssize)strlen(line) - 9);
        s->columns = 0;
        return true;
    }
    const bool matrix = strstr(line, "GPU(column)") || strstr(line, "(row)");
    if (!matrix || !unit_known(line)) return false;
    s->description = import_log_keep(log, line, -1);
    s->columns = 0;
    return true;
}

static bool columns_take(struct nvbandwidth_state *s, const char *line)
{
    if (!s->description || s->columns) return false;
    g_auto(GStrv) word = import_words(line, 1);
    uint32_t count = 0;
    for (; word[count]; count++) {
        uint32_t device;
        const char *rest = import_scan(word[count], "%u", &device);
        if (!rest || *rest || device > INT32_MAX) return false;
        s->column[count] = (int32_t)device;
    }
    s->columns = count;
    s->device_last = -1;
    return count > 0;
}

static bool row_take(struct nvbandwidth_state *s, struct import_log *log, const char *line)
{
    if (!s->columns) return false;
    g_auto(GStrv) word = import_words(line, 1);
    const uint32_t count = g_strv_length(word);
    uint32_t device;
    const char *rest = count ? import_scan(word[0], "%u", &device) : NULL;
    if (!rest || *rest || device > INT32_MAX || count > s->columns + 1 || device <= s->device_last) return false;
    s->device_last = device;
    if (count < s->columns + 1) return import_log_skip(log, "line cut short");
    for (uint32_t i = 0; i < s->columns; i++) {
        double value;
        if (import_number_read(word[i + 1], &value))
            cell_add(log, s->test, s->description, (int32_t)device, s->column[i], value);
        else if (strcmp(word[i + 1], "N/A") != 0) import_log_skip(log, "cell that is no number");
    }
    return true;
}

static bool nvbandwidth_line(void *state, struct import_log *log, const char *line)
{
    struct nvbandwidth_state *s = state;
    if (head_take(s, log, line) || columns_take(s, line) || row_take(s, log, line)) return true;
    static const char known[] = "nvbandwidth Version:|Built from Git version:|NOTE: The reported results|"
                                "Performance can vary with|CUDA Runtime Version:|CUDA Driver Version:|"
                                "Driver Version:|Waived:|MPI version:";
    static const char sums[] = "SUM |MIN |MAX |AVG |&&&& PERF ";
    return import_begins(line, known) || (s->test && import_begins(line, sums) && strstr(line, s->test));
}

static void testcase_take(struct import_log *log, const json_t *testcase)
{
    const json_t *matrix = json_object_get(testcase, "bandwidth_matrix");
    const char *name = json_string_value(json_object_get(testcase, "name"));
    const char *description = json_string_value(json_object_get(testcase, "bandwidth_description"));
    const char *status = json_string_value(json_object_get(testcase, "status"));
    if (!json_is_array(matrix) || !description || !unit_known(description)) {
        const bool failed = status && strcmp(status, "Passed") != 0;
        import_log_skip(log, failed ? "nvbandwidth test that did not pass" : "nvbandwidth test without a known matrix");
        return;
    }
    for (size_t i = 0; i < MIN(json_array_size(matrix), 65536); i++) {
        const json_t *line = json_array_get(matrix, i);
        for (size_t k = 0; k < MIN(json_array_size(line), 65536); k++) {
            const json_t *cell = json_array_get(line, k);
            const char *text = json_string_value(cell);
            double value = json_number_value(cell);
            if (text && strcmp(text, "N/A") == 0) continue;
            if (text && !import_number_read(text, &value)) import_log_skip(log, "cell that is no number");
            else cell_add(log, name, description, (int32_t)i, (int32_t)k, value);
        }
    }
}

static bool nvbandwidth_json(struct import_log *log, const json_t *root)
{
    const json_t *cases = json_object_get(json_object_get(root, "nvbandwidth"), "testcases");
    if (!json_is_array(cases)) return false;
    for (size_t i = 0; i < json_array_size(cases); i++) testcase_take(log, json_array_get(cases, i));
    return true;
}

const struct import_reader import_nvbandwidth = {
    .name = "nvbandwidth",
    .state_bytes = sizeof(struct nvbandwidth_state),
    .line = nvbandwidth_line,
    .json = nvbandwidth_json,
};
