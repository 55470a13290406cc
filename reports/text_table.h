/* text_table.h - a table of words for a terminal.  Each column is as wide as its widest cell, and is aligned left or
 * right. */
#ifndef REPORTS_TEXT_TABLE_H
#define REPORTS_TEXT_TABLE_H

#include <glib.h>

struct text_table;

/* Makes a table.  format: a letter for each column, 'l' or 'r' for the alignment of its cells.  titles: as many
 * strings, which become the first row. */
struct text_table *text_table_new(const char *format, const char *const *titles);
void text_table_free(struct text_table *table);
typedef struct text_table text_table;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(text_table, text_table_free)

/* Adds the next cell.  Cells come row by row. */
void text_table_cell(struct text_table *table, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Leaves out columns whose cells are all "?".  Returns how many columns are left. */
guint text_table_known_keep(struct text_table *table);
/* Appends the table as lines, with two spaces between columns and a rule below the titles. */
void text_table_append(const struct text_table *table, GString *out);

#endif
