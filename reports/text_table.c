/* text_table.c - lays out a table of words.  Does not know their meaning.
 *
 * Control characters, which could control a terminal, become question marks. */
#include "reports/text_table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

struct text_table {
    char *format;
    GPtrArray *cells; /* strings, row by row; the titles first */
    guint columns;
};

static char *text_table_word(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return text;
}

struct text_table *text_table_new(const char *format, const char *const *titles)
{
    struct text_table *table = g_new0(struct text_table, 1);
    table->format = g_strdup(format);
    table->columns = (guint)strlen(format);
    table->cells = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < table->columns; i++) g_ptr_array_add(table->cells, g_strdup(titles[i]));
    return table;
}

void text_table_free(struct text_table *table)
{
    if (!table) return;
    g_ptr_array_free(table->cells, TRUE);
    g_free(table->format);
    g_free(table);
}

void text_table_cell(struct text_table *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_ptr_array_add(table->cells, text_table_word(g_strdup_vprintf(format, arguments)));
    va_end(arguments);
}

guint text_table_known_keep(struct text_table *table)
{
    for (guint c = table->columns; c-- > 0;) {
        bool known = false;
        for (guint i = table->columns + c; i < table->cells->len; i += table->columns)
            known |= strcmp(g_ptr_array_index(table->cells, i), "?") != 0;
        if (known) continue;
        for (guint row = table->cells->len / table->columns; row-- > 0;)
            g_ptr_array_remove_index(table->cells, row * table->columns + c);
        memmove(table->format + c, table->format + c + 1, strlen(table->format + c));
        table->columns--;
    }
    return table->columns;
}

static void text_table_spaces_append(GString *out, glong count)
{
    for (glong i = 0; i < count; i++) g_string_append_c(out, ' ');
}

void text_table_append(const struct text_table *table, GString *out)
{
    assert(table->cells->len % table->columns == 0);
    g_autofree glong *width = g_new0(glong, table->columns);
    for (guint i = 0; i < table->cells->len; i++) {
        const glong length = g_utf8_strlen(g_ptr_array_index(table->cells, i), -1);
        width[i % table->columns] = MAX(width[i % table->columns], length);
    }
    for (guint i = 0; i < table->cells->len; i++) {
        const guint column = i % table->columns;
        const char *cell = g_ptr_array_index(table->cells, i);
        const glong space = width[column] - g_utf8_strlen(cell, -1);
        if (column) text_table_spaces_append(out, 2);
        if (table->format[column] == 'r') text_table_spaces_append(out, space);
        g_string_append(out, cell);
        if (table->format[column] != 'r') text_table_spaces_append(out, space);
        if (column + 1 < table->columns) continue;
        while (out->len && out->str[out->len - 1] == ' ') g_string_truncate(out, out->len - 1);
        g_string_append_c(out, '\n');
        if (i + 1 != table->columns) continue;
        for (guint c = 0; c < table->columns; c++) {
            if (c) text_table_spaces_append(out, 2);
            for (glong k = 0; k < width[c]; k++) g_string_append_c(out, '-');
        }
        g_string_append_c(out, '\n');
    }
}
