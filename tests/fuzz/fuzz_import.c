/* fuzz_import.c - libFuzzer target of the readers of other programs' logs.  Whatever the bytes are, rows must be whole,
 * merge, and be writable. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/import/import_table.h"

static void row_check(const struct import_row *row)
{
    if (!row->cell[IMPORT_TOOL] || !row->cell[IMPORT_PHASE] || row->rank < IMPORT_NO_RANK) abort();
    bool measured = false;
    for (int i = 0; i < IMPORT_NUMBERS; i++) {
        if (!isnan(row->number[i]) && !(isfinite(row->number[i]) && row->number[i] > 0)) abort();
        measured |= i != IMPORT_COUNTED_BYTES && !isnan(row->number[i]);
    }
    /* A row with peers or of a kernel may lack a time: a matrix has cells of 0, and a printed time may round to
     * 0.00. */
    if (!measured && !row->cell[IMPORT_PEER] && !row->cell[IMPORT_KERNEL]) abort();
    for (int i = 0; i < IMPORT_COLUMNS; i++)
        if (row->cell[i] && !g_utf8_validate(row->cell[i], -1, NULL)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    g_autofree char *text = g_malloc(size_bytes + 1);
    memcpy(text, data, size_bytes);
    text[size_bytes] = '\0';
    g_autoptr(GError) error = NULL;
    g_autoptr(import_log) log = import_log_parse("fuzz", text, size_bytes, &error);
    if (!log != (error != NULL)) abort(); /* either a log or an error */
    if (log) {
        const struct import_given given[] = { { "num-ranks", "16" }, { "cluster", "h800-cx7" } };
        for (guint i = 0; i < log->rows->len; i++) row_check(g_ptr_array_index(log->rows, i));
        g_autoptr(GString) out = g_string_new(NULL);
        import_rows_fill(log->rows, given, 2, out);
        g_autoptr(GPtrArray) merged = import_rows_merge(log->rows);
        if (merged->len > log->rows->len) abort();
        g_autoptr(GPtrArray) cases = import_cases(merged);
        import_table_append(merged, given, 2, out);
        import_summary_append(log, merged, out);
        import_cases_append(cases, out);
    }
    return 0;
}
