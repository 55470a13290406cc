/* probe_smi.c - reads what `nvidia-smi topo -m` prints: a matrix of GPUs and NICs, then affinities and a legend.
 *
 * Columns are separated by tabs or by blanks.  Terminal codes may underline the headings, and three headings contain
 * a blank ("CPU Affinity").  An excerpt may have fewer rows than columns.  NICs are named by their device, or they
 * are called NIC0, NIC1, ..., and a legend gives their names.  A cell is a word of probe_near_name(), NV# for a
 * number of NVLinks, or X for the device itself. */
#include <string.h>

#include "replay/probe/probe.h"

enum { COLUMNS_MAX = 2 * PROBE_DEVICES_MAX };

struct matrix {
    const char *source;
    char *column[COLUMNS_MAX]; /* headings, up to those of the affinities */
    uint32_t column_count, gpu_columns;
    struct probe_host *host;
    uint32_t rows; /* rows of GPUs read so far */
};

static void terminal_codes_strip(char *line)
{
    char *to = line;
    for (const char *from = line; *from;) {
        if (from[0] == '\033' && from[1] == '[') {
            from += 2;
            while (*from && !g_ascii_isalpha(*from)) from++;
            if (*from) from++;
        } else {
            *to++ = *from++;
        }
    }
    *to = 0;
}

/* Cuts off the next word of the line, in place.  Returns NULL at the end of the line. */
static char *word_next(char **rest)
{
    char *word = *rest + strspn(*rest, " \t\r");
    if (!*word) return NULL;
    *rest = word + strcspn(word, " \t\r");
    if (**rest) *(*rest)++ = 0;
    return word;
}

static bool header_read(struct matrix *m, char *line)
{
    char *rest = line, *word;
    while ((word = word_next(&rest)) && m->column_count < COLUMNS_MAX) {
        if (!strcmp(word, "CPU") || !strcmp(word, "NUMA")) break; /* the affinities begin here */
        m->column[m->column_count++] = g_strdup(word);
        m->gpu_columns += g_str_has_prefix(word, "GPU");
    }
    for (uint32_t i = m->gpu_columns; i < m->column_count; i++) {
        struct probe_nic *nic = probe_nic_add(m->host);
        if (nic) nic->name = g_strdup(m->column[i]);
    }
    g_free(m->host->near);
    m->host->near = g_new0(enum probe_near, (gsize)PROBE_DEVICES_MAX * m->host->nic_count + 1);
    return m->gpu_columns > 0;
}

static enum probe_near near_parse(const char *word)
{
    for (enum probe_near near = PROBE_NEAR_C2C; near <= PROBE_NEAR_SYS; near++)
        if (!strcmp(word, probe_near_name(near))) return near;
    return PROBE_NEAR_UNKNOWN;
}

/* Makes the headings of a table that has none.  Columns up to the last one that has an X or a number of NVLinks in
 * any row are GPUs.  Later columns are NICs. */
static void header_make(struct matrix *m, char **line)
{
    uint32_t gpus = 0, columns = 0;
    for (; *line; line++) {
        g_autofree char *copy = g_strdup(*line);
        terminal_codes_strip(copy);
        char *rest = copy, *word = word_next(&rest);
        if (!word || !g_str_has_prefix(word, "GPU")) continue;
        for (uint32_t i = 0; (word = word_next(&rest)) && i < COLUMNS_MAX / 2; i++) {
            const bool of_gpu = !strcmp(word, "X") || g_str_has_prefix(word, "NV");
            if (!of_gpu && near_parse(word) == PROBE_NEAR_UNKNOWN) break;
            if (of_gpu) gpus = MAX(gpus, i + 1);
            columns = MAX(columns, i + 1);
        }
    }
    g_autoptr(GString) header = g_string_new(NULL);
    for (uint32_t i = 0; i < gpus; i++) g_string_append_printf(header, "GPU%u ", i);
    for (uint32_t i = gpus; i < columns; i++) g_string_append_printf(header, "NIC%u ", i - gpus);
    header_read(m, header->str);
}

static bool row_read(struct matrix *m, uint32_t line_number, char *rest, GError **error)
{
    struct probe_gpu *gpu = probe_gpu_add(m->host);
    if (!gpu || m->rows >= m->gpu_columns)
        return error_input(error, "%s:%u: expected at most %u rows of GPUs", m->source, line_number, m->gpu_columns);
    for (uint32_t i = 0; i < m->column_count; i++) {
        const char *word = word_next(&rest);
        const bool link = word && g_str_has_prefix(word, "NV") && g_ascii_isdigit(word[2]);
        const bool self = word && !strcmp(word, "X");
        if (!word || (!link && !self && near_parse(word) == PROBE_NEAR_UNKNOWN) || (self && i != m->rows) ||
            (link && i >= m->gpu_columns))
            return error_input(error, "%s:%u: %s: expected X, NV#, PIX, PXB, PHB, NODE or SYS, found '%s'", m->source,
                               line_number, m->column[i], word ? word : "");
        gpu->nvlink_known = true;
        if (link) gpu->nvlinks = MAX(gpu->nvlinks, (uint32_t)MIN(g_ascii_strtoull(word + 2, NULL, 10), 64));
        if (i >= m->gpu_columns && i - m->gpu_columns < m->host->nic_count)
            m->host->near[m->rows * m->host->nic_count + (i - m->gpu_columns)] = near_parse(word);
    }
    (void)word_next(&rest); /* CPU affinity */
    const char *numa = word_next(&rest);
    if (numa && g_ascii_isdigit(*numa)) gpu->pci.numa = (int32_t)g_ascii_strtoll(numa, NULL, 10);
    m->rows++;
    return true;
}

/* Reads a line of the legend, like "  NIC0: mlx5_0", which names the device of a column. */
static void legend_read(struct matrix *m, const char *line)
{
    while (*line == ' ' || *line == '\t') line++;
    const char *colon = strchr(line, ':');
    if (!g_str_has_prefix(line, "NIC") || !colon) return;
    for (uint32_t i = 0; i < m->host->nic_count; i++) {
        struct probe_nic *nic = &m->host->nic[i];
        if (strlen(nic->name) != (gsize)(colon - line) || strncmp(nic->name, line, strlen(nic->name)) != 0) continue;
        g_free(nic->name);
        nic->name = g_strstrip(g_strdup(colon + 1));
        nic->bond = strstr(nic->name, "bond") != NULL;
        return;
    }
}

struct probe_host *probe_smi_parse(const char *text, const char *source_name, GError **error)
{
    struct matrix m = { .source = source_name, .host = probe_host_new(source_name) };
    g_auto(GStrv) line = g_strsplit(text, "\n", -1);
    bool good = true, headed = true;
    for (uint32_t i = 0; good && line[i]; i++) {
        terminal_codes_strip(line[i]);
        char *rest = line[i], *start = line[i] + strspn(line[i], " \t");
        if (*start == '#' || !*start) continue;
        g_autofree char *second = g_strdup(start + strcspn(start, " \t"));
        if (headed && !m.column_count && g_str_has_prefix(start, "GPU") && g_str_has_prefix(g_strstrip(second), "X")) {
            headed = false;
            header_make(&m, line);
            i--; /* this line is the first row */
        } else if (!m.column_count) {
            good = g_str_has_prefix(start, "GPU") && header_read(&m, start);
            if (!good)
                error_input(error, "%s:%u: expected the headings GPU0 GPU1 ..., found '%.30s'", source_name, i + 1,
                            start);
        } else if (g_str_has_prefix(start, "GPU")) {
            (void)word_next(&rest);
            good = row_read(&m, i + 1, rest, error);
        } else {
            legend_read(&m, line[i]);
        }
    }
    if (good && !m.rows) {
        error_input(error, "%s: expected rows of GPUs, found none", source_name);
        good = false;
    }
    for (uint32_t i = 0; i < m.column_count; i++) g_free(m.column[i]);
    if (good) return m.host;
    probe_host_free(m.host);
    return NULL;
}
