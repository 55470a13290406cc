/* record.h - the result record that simulate, replay and measure write and that compare reads.
 *
 * A record is a list of "# key: value" lines (version, seed, every option, cluster, trace, machine) and rows
 * phase,rank,metric,value,unit.  CSV has exactly this form, and JSON has equal content.  Kinds of bandwidths never
 * mix: see the metrics in reports/README.md.
 *
 * Keys, phases, metrics, words and units are one line of UTF-8.  (Control characters become spaces, and white space
 * around the text is removed.)  phase and metric are not empty, and an empty word becomes "-".  A value that is not
 * finite means "not known".  Rows stay in place until record_free(). */
#ifndef REPORTS_RECORD_H
#define REPORTS_RECORD_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The header line that lists the keys of the record's case, divided by spaces.  Records that differ in one of these
 * keys are of different cases.  A record of measure has no such line, and no case. */
#define RECORD_CASE_KEYS "case-keys"
/* The header line that lists those keys of the case that describe the work.  Two predictions of equal work can be
 * compared, whatever their other keys are. */
#define RECORD_WORK_KEYS "work-keys"

enum { RECORD_NUMBER_MAX = 32 }; /* bytes of a number as text */
enum { RECORD_ALL = -1 };        /* the rank of rows for all ranks, whose value is mostly the mean */

enum record_format { RECORD_CSV, RECORD_JSON, RECORD_COLLECTIVEX };

struct record_row {
    char *phase;
    int32_t rank; /* RECORD_ALL or a rank */
    char *metric;
    double value;                   /* the value as a number; NAN for a word */
    char *word;                     /* the value as a word; NULL for a number */
    char *unit;                     /* "": none */
    char number[RECORD_NUMBER_MAX]; /* for record_row_text() */
};

struct record;

struct record *record_new(void);
void record_free(struct record *record);
typedef struct record record;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(record, record_free)

/* Sets a header key and replaces its former value.  Keys stay in the order in which they were first set. */
void record_set(struct record *record, const char *key, const char *format, ...) G_GNUC_PRINTF(3, 4);
const char *record_get(const struct record *record, const char *key); /* NULL when absent */
uint32_t record_key_count(const struct record *record);
const char *record_key(const struct record *record, uint32_t index); /* in the order of first setting */

void record_add(struct record *record, const char *phase, int32_t rank, const char *metric, double value,
                const char *unit);
void record_add_text(struct record *record, const char *phase, int32_t rank, const char *metric, const char *text);

/* Adds a row whose value is a list of numbers with four digits, divided by blanks. */
void record_add_list(struct record *record, const char *phase, int32_t rank, const char *metric, const double *values,
                     uint32_t count);
/* The numbers of a row that record_add_list() added; *count gets how many they are.  NULL if the row's value is no
 * list.  The caller frees them. */
double *record_row_list(const struct record_row *row, uint32_t *count);

/* Rows, in the order in which they were added. */
uint32_t record_row_count(const struct record *record);
const struct record_row *record_row(const struct record *record, uint32_t index);
/* The value as text: a word, or the shortest decimal that reads back as the number. */
const char *record_row_text(const struct record_row *row);
/* First row that matches, or NULL. */
const struct record_row *record_find(const struct record *record, const char *phase, int32_t rank, const char *metric);
/* The value of that row; NAN: there is none. */
double record_value(const struct record *record, const char *phase, int32_t rank, const char *metric);

/* The shortest decimal text that reads back as value; "nan" for a value that is not finite. */
void record_number_format(char text[RECORD_NUMBER_MAX], double value);
/* Whether text is a decimal number with a finite value, which *value gets. */
bool record_number_parse(const char *text, double *value);
/* Whether the header has no kind, or one that eptwin writes (simulate, replay, measure, import, step).  If not, *error
 * has the file's name. */
bool record_kind_check(const struct record *record, const char *name, GError **error);
/* Appends a field of a CSV line, quoted if necessary. */
void record_csv_field_append(GString *out, const char *field);
/* Appends text as a JSON string with its quotes. */
void record_json_string_append(GString *out, const char *text);

/* "csv", "json" or "collectivex" (reports/record_forms.h), as --format takes them. */
bool record_format_parse(const char *name, enum record_format *format, GError **error);
/* Takes only "csv" and "json", for tables that are not a case. */
bool record_table_format_parse(const char *name, enum record_format *format, GError **error);

/* Writes the record to path ("-": standard output), whole or not at all (sim/new_file.h). */
bool record_write(const struct record *record, const char *path, enum record_format format, GError **error);
/* Reads CSV or JSON, which the first character tells apart.  "-": standard input.  NULL and *error on failure. */
struct record *record_read(const char *path, GError **error);
/* Reads text in memory (a NUL stands at its end); source names it in messages. */
struct record *record_parse(const char *source, const char *text, size_t size_bytes, GError **error);

#endif
