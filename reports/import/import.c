/* import.c - reads a log line by line, or document by document.  It offers each line or document to the readers, and
 * keeps lines that no reader knows.  Knows no program's format; the *_log.c do. */
#include "reports/import/import.h"

#include <string.h>
#include "reports/import/profile.h"
#include "reports/whole_file.h"
#include "sim/error.h"

enum { LOG_BYTES_MAX = 1 << 30, LINE_BYTES_MAX = 1 << 20 };

static const struct import_reader *const readers[] = {
    &import_deepep_v1, &import_deepep_v2, &import_deepxtrace,  &import_nccl_tests, &import_perftest,
    &import_nvshmem,   &import_osu,       &import_nvbandwidth, &import_mori,       &import_collectivex,
};
enum { READERS = sizeof readers / sizeof readers[0] };

/* ---- text ---- */

static void unknown_add(struct import_log *log, const char *line)
{
    log->unknown_count++;
    if (log->unknown->len >= IMPORT_UNKNOWN_SHOWN) return;
    g_autofree char *start = g_strndup(line, IMPORT_UNKNOWN_TEXT), *text = g_utf8_make_valid(start, -1);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    const struct import_unknown unknown = { log->line, import_log_keep(log, g_strstrip(text), -1) };
    g_array_append_val(log->unknown, unknown);
}

/* Offers a line first to the reader that took the previous line, then to all others.  Returns the reader that took
 * it, or -1. */
static int line_offer(void **state, struct import_log *log, const char *line, int last)
{
    if (last >= 0 && readers[last]->line && readers[last]->line(state[last], log, line)) return last;
    for (int i = 0; i < READERS; i++)
        if (i != last && readers[i]->line && readers[i]->line(state[i], log, line)) return i;
    return -1;
}

static void text_read(struct import_log *log, char *text, size_t size_bytes)
{
    void *state[READERS];
    for (int i = 0; i < READERS; i++) state[i] = g_malloc0(MAX(readers[i]->state_bytes, 1));
    int last = -1;
    char *at = text;
    for (char *end = text + size_bytes; at < end;) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t line_bytes = (size_t)((newline ? newline : end) - at);
        log->line++;
        at[line_bytes] = '\0';
        const char *line = line_bytes <= LINE_BYTES_MAX ? import_line_clean(at, line_bytes) : NULL;
        if (!line) import_log_skip(log, "longer than 1 MiB");
        else if (*line) {
            const int taken = line_offer(state, log, line, last);
            if (taken >= 0) last = taken;
            else if (line[strspn(line, "-*=_ ")]) unknown_add(log, line); /* a line of dashes says nothing */
        }
        at += line_bytes + 1;
    }
    log->line_count = log->line;
    for (int i = 0; i < READERS; i++) {
        if (readers[i]->end) readers[i]->end(state[i], log);
        g_free(state[i]);
    }
}

/* ---- JSON ---- */

/* In perftest's JSON, the key `sl` (service level) has no quotes.  Returns the text with quotes around this key, or
 * NULL if the text does not have the key. */
static char *json_repair(const char *text)
{
    if (!strstr(text, "\nsl:")) return NULL;
    g_auto(GStrv) part = g_strsplit(text, "\nsl:", 0);
    return g_strjoinv("\n\"sl\":", part);
}

static bool json_take(struct import_log *log, const json_t *root)
{
    for (int i = 0; i < READERS; i++)
        if (readers[i]->json && readers[i]->json(log, root)) return true;
    return false;
}

static uint32_t lines_count(const char *text, size_t size_bytes)
{
    uint32_t count = 0;
    for (size_t i = 0; i < size_bytes; i++) count += text[i] == '\n';
    return count;
}

/* Reads one document, or several after one another. */
static bool json_read(struct import_log *log, const char *text, size_t size_bytes, GError **error)
{
    size_t at = 0;
    log->line = 1;
    for (;;) {
        const size_t blank = strspn(text + at, " \t\r\n");
        log->line += lines_count(text + at, blank);
        at += blank;
        if (at >= size_bytes) break;
        json_error_t failure;
        json_auto_t *root =
            json_loadb(text + at, size_bytes - at, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &failure);
        if (!root)
            return error_input(error, "%s:%u: expected JSON, found %s", log->source,
                               log->line + (uint32_t)MAX(failure.line, 1) - 1, failure.text);
        if (!json_take(log, root)) unknown_add(log, "a JSON document of none of the known programs");
        const size_t used = (size_t)failure.position;
        log->line += lines_count(text + at, used);
        at += MAX(used, 1);
    }
    log->line_count = log->line;
    return true;
}

struct import_log *import_log_parse(const char *source, char *text, size_t size_bytes, GError **error)
{
    g_autoptr(import_log) log = import_log_new(source);
    const bool json = text[strspn(text, " \t\r\n")] == '{' && strlen(text) == size_bytes;
    bool good = true;
    if (json) {
        g_autofree char *repaired = json_repair(text);
        const char *document = repaired ? repaired : text;
        good = json_read(log, document, strlen(document), error);
    } else {
        text_read(log, text, size_bytes);
    }
    return good ? g_steal_pointer(&log) : NULL;
}

/* The eptwin command that reads this kind of file, if the file describes a machine and not a measurement; else "". */
static const char *advice(const struct import_unknown *first)
{
    static const char *const marks[] = { "<system", "<topology", "# Topology file", "vendid=", "CA '", "GPU0", "==(" };
    for (size_t i = 0; first && i < G_N_ELEMENTS(marks); i++)
        if (strstr(first->text, marks[i])) return "; `eptwin probe` reads what tools say of machines";
    return "";
}

struct import_log *import_log_read(const char *path, GError **error)
{
    size_t size_bytes;
    if (profile_begins(path)) return profile_log_read(path, error);
    g_autofree char *text = whole_file_read(path, LOG_BYTES_MAX, &size_bytes, error);
    if (!text) return NULL;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    struct import_log *log = import_log_parse(name, text, size_bytes, error);
    if (!log || log->rows->len) return log;
    const struct import_unknown *first = log->unknown->len ? (const void *)log->unknown->data : NULL;
    g_autofree char *where = first ? g_strdup_printf(" (line %u: \"%s\")", first->line, first->text) : g_strdup("");
    error_input(error,
                "%s: expected a measurement of DeepEP, DeepXTrace, nccl-tests, perftest, NVSHMEM, OSU, nvbandwidth, "
                "MORI or CollectiveX, found none in %u line%s%s%s",
                name, log->line_count, log->line_count == 1 ? "" : "s", where, advice(first));
    import_log_free(log);
    return NULL;
}
