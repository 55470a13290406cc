/* fuzz_record.c - libFuzzer target of result records.  A record that is read from CSV or JSON must be written and read
 * back unchanged, and must not crash comparison, report or fit. */
#include <glib.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reports/fit_cluster.h"
#include "reports/record.h"
#include "reports/report.h"

static void written_and_read(const struct record *record, enum record_format format)
{
    char *texts[2];
    const struct record *from = record;
    struct record *again = NULL;
    for (int i = 0; i < 2; i++) {
        const int fd = memfd_create("record", 0);
        char path[32];
        g_snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (!record_write(from, path, format, NULL)) abort();
        if (!g_file_get_contents(path, &texts[i], NULL, NULL)) abort();
        if (i == 0) again = record_parse("fuzz", texts[0], strlen(texts[0]), NULL);
        if (!again || record_row_count(again) != record_row_count(record)) abort();
        from = again;
        close(fd);
    }
    if (strcmp(texts[0], texts[1]) != 0) abort();
    g_free(texts[0]);
    g_free(texts[1]);
    record_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    g_autofree char *text = g_malloc(size_bytes + 1);
    memcpy(text, data, size_bytes);
    text[size_bytes] = '\0';
    GError *error = NULL;
    struct record *record = record_parse("fuzz", text, size_bytes, &error);
    if (!record != (error != NULL)) abort();
    if (record) {
        written_and_read(record, RECORD_CSV);
        written_and_read(record, RECORD_JSON);
        const struct record *const both[] = { record, record };
        const char *const paths[] = { "a", "b" };
        GPtrArray *cases = report_cases_new(both, paths, 2);
        g_string_free(report_html(cases, NULL, NULL, "fuzz"), TRUE);
        g_string_free(report_text(cases, 80), TRUE);
        g_ptr_array_unref(cases);
        g_free(fit_cluster_text(record, "fuzz", NULL, NULL, NULL));
        g_autoptr(GString) doubts = g_string_new(NULL);
        g_free(fit_gpu_text(record, "fuzz", NULL, "h200", doubts, NULL));
    }
    g_clear_error(&error);
    record_free(record);
    struct sweep_table *table = sweep_table_parse("fuzz", text, NULL);
    if (table) {
        g_autoptr(GString) section = g_string_new(NULL);
        report_sweep(table, true, section);
    }
    sweep_table_free(table);
    return 0;
}
