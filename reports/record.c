/* record.c - the result record in memory, and as CSV and JSON text.
 *
 * A number's text is the shortest that reads back as the same double, wherever it came from.  So a record that is
 * written here, read and written again has the same bytes.  A value that is not finite is "not known": the word nan
 * in CSV, null in JSON, NAN in memory.  Words are one line of UTF-8, and characters that would break the line are
 * replaced when the word is set.  libcsv reads CSV, and jansson reads JSON.  This file writes both, so that numbers get
 * their shortest text.  Does not know the meaning of the metrics. */
#include "reports/record.h"

#include <assert.h>
#include <csv.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "reports/record_forms.h"
#include "reports/whole_file.h"
#include "sim/error.h"

enum {
    RECORD_FILE_BYTES_MAX = 256 * 1024 * 1024,
    RECORD_FIELD_BYTES_MAX = 65536,
    RECORD_KEYS_MAX = 4096,
    RECORD_FIELDS = 5,
};

static const char record_columns[] = "phase,rank,metric,value,unit";

struct record_header {
    char *key, *value;
};

struct record {
    GArray *headers;     /* struct record_header, in the order of first setting */
    GPtrArray *rows;     /* struct record_row, in the order in which they were added */
    GHashTable *index;   /* (phase, rank, metric) -> the first such row */
    GStringChunk *words; /* the rows' strings; names are stored once */
};

static guint record_key_hash(gconstpointer key)
{
    const struct record_row *row = key;
    return (g_str_hash(row->phase) * 31u + (guint)row->rank) * 31u + g_str_hash(row->metric);
}

static gboolean record_key_equal(gconstpointer a, gconstpointer b)
{
    const struct record_row *x = a, *y = b;
    return x->rank == y->rank && strcmp(x->phase, y->phase) == 0 && strcmp(x->metric, y->metric) == 0;
}

struct record *record_new(void)
{
    struct record *record = g_new0(struct record, 1);
    record->headers = g_array_new(FALSE, FALSE, sizeof(struct record_header));
    record->rows = g_ptr_array_new_with_free_func(g_free);
    record->index = g_hash_table_new(record_key_hash, record_key_equal);
    record->words = g_string_chunk_new(4096);
    return record;
}

void record_free(struct record *record)
{
    if (!record) return;
    for (guint i = 0; i < record->headers->len; i++) {
        g_free(g_array_index(record->headers, struct record_header, i).key);
        g_free(g_array_index(record->headers, struct record_header, i).value);
    }
    g_array_free(record->headers, TRUE);
    g_hash_table_destroy(record->index);
    g_ptr_array_free(record->rows, TRUE);
    g_string_chunk_free(record->words);
    g_free(record);
}

/* The text as one line of UTF-8 without white space around it. */
static char *record_word_clean(const char *text)
{
    char *word = g_utf8_make_valid(text, -1);
    for (char *c = word; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    return g_strstrip(word);
}

static struct record_header *record_header_find(const struct record *record, const char *key)
{
    for (guint i = 0; i < record->headers->len; i++) {
        struct record_header *header = &g_array_index(record->headers, struct record_header, i);
        if (strcmp(header->key, key) == 0) return header;
    }
    return NULL;
}

static bool record_key_valid(const char *key)
{
    if (*key == '\0' || *key == ' ' || strlen(key) > 128 || key[strlen(key) - 1] == ' ') return false;
    for (const char *c = key; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == ':') return false;
    return true;
}

static void record_value_set(struct record *record, const char *key, const char *value)
{
    struct record_header *header = record_header_find(record, key);
    if (header) {
        g_free(header->value);
        header->value = record_word_clean(value);
    } else {
        const struct record_header added = { g_strdup(key), record_word_clean(value) };
        g_array_append_val(record->headers, added);
    }
}

void record_set(struct record *record, const char *key, const char *format, ...)
{
    assert(record_key_valid(key));
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *value = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    record_value_set(record, key, value);
}

const char *record_get(const struct record *record, const char *key)
{
    const struct record_header *header = record_header_find(record, key);
    return header ? header->value : NULL;
}

bool record_kind_check(const struct record *record, const char *name, GError **error)
{
    static const char *const kinds[] = { "simulate", "replay", "measure", "import", "step", NULL };
    const char *kind = record_get(record, "kind");
    if (!kind || g_strv_contains(kinds, kind)) return true;
    return error_input(error, "%s: header kind: expected simulate, replay, measure, import or step, found '%.40s'",
                       name, kind);
}

uint32_t record_key_count(const struct record *record) { return record->headers->len; }

const char *record_key(const struct record *record, uint32_t index)
{
    assert(index < record->headers->len);
    return g_array_index(record->headers, struct record_header, index).key;
}

/* Adds a row.  word NULL: its value is a number.  The strings must be clean: one line of UTF-8 without white space
 * around them. */
static void record_row_append(struct record *record, const char *phase, int32_t rank, const char *metric,
                              const char *word, double value, const char *unit)
{
    struct record_row *row = g_new(struct record_row, 1);
    row->phase = g_string_chunk_insert_const(record->words, phase);
    row->rank = rank;
    row->metric = g_string_chunk_insert_const(record->words, metric);
    row->unit = g_string_chunk_insert_const(record->words, unit);
    row->word = word ? g_string_chunk_insert_const(record->words, word) : NULL;
    row->value = value;
    row->number[0] = '\0';
    g_ptr_array_add(record->rows, row);
    if (!g_hash_table_contains(record->index, row)) g_hash_table_add(record->index, row);
}

void record_number_format(char text[RECORD_NUMBER_MAX], double value)
{
    if (!isfinite(value)) {
        g_strlcpy(text, "nan", RECORD_NUMBER_MAX);
        return;
    }
    /* 15 digits always suffice for a number typed in decimal, 17 for any double. */
    static const char *const formats[] = { "%.15g", "%.16g", "%.17g" };
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
        g_ascii_formatd(text, RECORD_NUMBER_MAX, formats[i], value);
        if (g_ascii_strtod(text, NULL) == value) return;
    }
    assert(!"17 digits tell any double from any other");
}

/* The end of the decimal number that starts at c in JSON's form, or NULL. */
static const char *record_number_end(const char *c)
{
    if (*c == '-') c++;
    if (*c == '0') c++;
    else if (*c >= '1' && *c <= '9')
        while (g_ascii_isdigit(*c)) c++;
    else return NULL;
    if (*c == '.') {
        if (!g_ascii_isdigit(*++c)) return NULL;
        while (g_ascii_isdigit(*c)) c++;
    }
    if (*c == 'e' || *c == 'E') {
        c++;
        if (*c == '+' || *c == '-') c++;
        if (!g_ascii_isdigit(*c)) return NULL;
        while (g_ascii_isdigit(*c)) c++;
    }
    return c;
}

/* The number between c and end.  If it has few digits, it is the quotient of two numbers that doubles hold exactly.  So
 * it is rounded only once, as by strtod(). */
static double record_number_value(const char *c, const char *end)
{
    enum { DIGITS_EXACT = 15 };
    const char *const begin = c;
    const bool minus = *c == '-';
    double digits = 0, divisor = 1;
    bool point = false;
    if (end - c > DIGITS_EXACT) return g_ascii_strtod(begin, NULL);
    for (c += minus; c < end; c++) {
        if (*c == '.') point = true;
        else if (!g_ascii_isdigit(*c)) return g_ascii_strtod(begin, NULL);
        else {
            digits = digits * 10 + (*c - '0');
            divisor *= point ? 10 : 1;
        }
    }
    return (minus ? -digits : digits) / divisor;
}

bool record_number_parse(const char *text, double *value)
{
    const char *end = record_number_end(text);
    if (!end || *end != '\0') return false;
    *value = record_number_value(text, end);
    return isfinite(*value);
}

void record_add(struct record *record, const char *phase, int32_t rank, const char *metric, double value,
                const char *unit)
{
    assert(rank >= RECORD_ALL && unit);
    const bool known = isfinite(value);
    record_row_append(record, phase, rank, metric, known ? NULL : "nan", known ? value : NAN, unit);
}

/* Adds a row with a text that was read: a number or a word. */
static void record_text_append(struct record *record, const char *phase, int32_t rank, const char *metric,
                               const char *text, const char *unit)
{
    double value = NAN;
    const bool known = record_number_parse(text, &value);
    record_row_append(record, phase, rank, metric, known ? NULL : text, known ? value : NAN, unit);
}

void record_add_text(struct record *record, const char *phase, int32_t rank, const char *metric, const char *text)
{
    assert(rank >= RECORD_ALL);
    g_autofree char *word = record_word_clean(text);
    record_text_append(record, phase, rank, metric, *word ? word : "-", "");
}

void record_add_list(struct record *record, const char *phase, int32_t rank, const char *metric, const double *values,
                     uint32_t count)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t i = 0; i < count; i++) {
        char number[G_ASCII_DTOSTR_BUF_SIZE];
        g_string_append_printf(text, "%s%s", i ? " " : "",
                               g_ascii_formatd(number, sizeof number, "%.4g", isfinite(values[i]) ? values[i] : 0));
    }
    record_add_text(record, phase, rank, metric, text->str);
}

double *record_row_list(const struct record_row *row, uint32_t *count)
{
    const char *at = record_row_text(row);
    uint32_t spaces = 0;
    for (const char *c = at; *c; c++) spaces += *c == ' ';
    double *values = g_new(double, spaces + 1);
    for (*count = 0; *at; (*count)++) {
        const char *end = record_number_end(at);
        if (!end || (*end && *end != ' ') || !isfinite(values[*count] = record_number_value(at, end))) {
            g_free(values);
            return NULL;
        }
        at = end + (*end == ' ');
    }
    return values;
}

uint32_t record_row_count(const struct record *record) { return record->rows->len; }

const struct record_row *record_row(const struct record *record, uint32_t index)
{
    assert(index < record->rows->len);
    return g_ptr_array_index(record->rows, index);
}

const char *record_row_text(const struct record_row *row)
{
    if (row->word) return row->word;
    char *number = ((struct record_row *)row)->number; /* made when it is first asked for */
    if (!*number) record_number_format(number, row->value);
    return number;
}

const struct record_row *record_find(const struct record *record, const char *phase, int32_t rank, const char *metric)
{
    const struct record_row key = { .phase = (char *)phase, .rank = rank, .metric = (char *)metric };
    return g_hash_table_lookup(record->index, &key);
}

double record_value(const struct record *record, const char *phase, int32_t rank, const char *metric)
{
    const struct record_row *row = record_find(record, phase, rank, metric);
    return row ? row->value : NAN;
}

/* ---- text out ---- */

static void record_rank_format(char text[16], int32_t rank)
{
    if (rank == RECORD_ALL) g_strlcpy(text, "all", 16);
    else g_snprintf(text, 16, "%d", rank);
}

void record_csv_field_append(GString *out, const char *field)
{
    if (!strpbrk(field, ",\"#")) {
        g_string_append(out, field);
        return;
    }
    const size_t length = strlen(field), room = 2 * length + 2;
    const size_t start = out->len;
    g_string_set_size(out, start + room);
    g_string_truncate(out, start + csv_write(out->str + start, room, field, length));
}

void record_json_string_append(GString *out, const char *text)
{
    g_string_append_c(out, '"');
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') g_string_append_printf(out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || *c == 0x7f) g_string_append_printf(out, "\\u%04x", (unsigned)*c);
        else g_string_append_c(out, *c);
    }
    g_string_append_c(out, '"');
}

static GString *record_csv_text(const struct record *record)
{
    GString *out = g_string_new(NULL);
    for (guint i = 0; i < record->headers->len; i++) {
        const struct record_header *header = &g_array_index(record->headers, struct record_header, i);
        g_string_append_printf(out, "# %s:%s%s\n", header->key, *header->value ? " " : "", header->value);
    }
    g_string_append_printf(out, "%s\n", record_columns);
    for (guint i = 0; i < record->rows->len; i++) {
        const struct record_row *row = record_row(record, i);
        char rank[16];
        record_rank_format(rank, row->rank);
        const char *const fields[RECORD_FIELDS] = { row->phase, rank, row->metric, record_row_text(row), row->unit };
        for (int f = 0; f < RECORD_FIELDS; f++) {
            if (f) g_string_append_c(out, ',');
            record_csv_field_append(out, fields[f]);
        }
        g_string_append_c(out, '\n');
    }
    return out;
}

static void record_json_member_append(GString *out, const char *name, const char *value)
{
    g_string_append_printf(out, "\"%s\": ", name);
    record_json_string_append(out, value);
}

static GString *record_json_text(const struct record *record)
{
    GString *out = g_string_new("{\n\"header\": {");
    for (guint i = 0; i < record->headers->len; i++) {
        const struct record_header *header = &g_array_index(record->headers, struct record_header, i);
        g_string_append(out, i ? ",\n  " : "\n  ");
        record_json_string_append(out, header->key);
        g_string_append(out, ": ");
        record_json_string_append(out, header->value);
    }
    g_string_append(out, "\n},\n\"rows\": [");
    for (guint i = 0; i < record->rows->len; i++) {
        const struct record_row *row = record_row(record, i);
        g_string_append(out, i ? ",\n  {" : "\n  {");
        record_json_member_append(out, "phase", row->phase);
        if (row->rank == RECORD_ALL) g_string_append(out, ", \"rank\": \"all\", ");
        else g_string_append_printf(out, ", \"rank\": %d, ", row->rank);
        record_json_member_append(out, "metric", row->metric);
        g_string_append(out, ", \"value\": ");
        if (!row->word) g_string_append(out, record_row_text(row));
        else if (strcmp(row->word, "nan") == 0) g_string_append(out, "null");
        else record_json_string_append(out, row->word);
        g_string_append(out, ", ");
        record_json_member_append(out, "unit", row->unit);
        g_string_append_c(out, '}');
    }
    g_string_append(out, "\n]\n}\n");
    return out;
}

bool record_write(const struct record *record, const char *path, enum record_format format, GError **error)
{
    g_autoptr(GString) text = format == RECORD_COLLECTIVEX ? collectivex_text(record, error)
                              : format == RECORD_JSON      ? record_json_text(record)
                                                           : record_csv_text(record);
    return text && whole_file_write(path, text->str, text->len, error);
}

static bool format_parse(const char *name, enum record_format most, enum record_format *format, GError **error)
{
    static const char *const names[] = { "csv", "json", "collectivex" };
    for (enum record_format f = RECORD_CSV; f <= most; f++) {
        if (strcmp(name, names[f]) != 0) continue;
        *format = f;
        return true;
    }
    return error_input(error, "--format: expected %s, found '%s'",
                       most == RECORD_JSON ? "csv or json" : "csv, json or collectivex", name);
}

bool record_format_parse(const char *name, enum record_format *format, GError **error)
{
    return format_parse(name, RECORD_COLLECTIVEX, format, error);
}

bool record_table_format_parse(const char *name, enum record_format *format, GError **error)
{
    return format_parse(name, RECORD_JSON, format, error);
}

/* ---- text in ---- */

static bool record_rank_parse(const char *text, int32_t *rank)
{
    if (strcmp(text, "all") == 0) {
        *rank = RECORD_ALL;
        return true;
    }
    guint64 value;
    if (!g_ascii_string_to_unsigned(text, 10, 0, INT32_MAX, &value, NULL)) return false;
    *rank = (int32_t)value;
    return true;
}

/* Whether a row may have this value.  A row with a unit must have a number, or a value that is not known.  A row
 * without a unit may have any word, but no number that is too large. */
static bool record_value_plausible(const char *text, const char *unit)
{
    double value = 0;
    if (record_number_parse(text, &value) || strcmp(text, "nan") == 0) return true;
    return *unit == '\0' && isfinite(value);
}

/* What is wrong with a row that was read.  The cleaned words `clean` are checked, because these are what is written
 * again.  Messages show the fields as they were.  Returns NULL, or the fault (freed by the caller). */
static char *record_row_wrong(char *const field[RECORD_FIELDS], char *const clean[RECORD_FIELDS], int32_t *rank)
{
    static const char *const names[RECORD_FIELDS] = { "phase", "rank", "metric", "value", "unit" };
    for (int i = 0; i < RECORD_FIELDS - 1; i++)
        if (*clean[i] == '\0') return g_strdup_printf("%s: expected a word, found nothing", names[i]);
    if (!record_rank_parse(clean[1], rank))
        return g_strdup_printf("rank: expected a number or 'all', found '%.40s'", field[1]);
    if (!record_value_plausible(clean[3], clean[4]))
        return g_strdup_printf("value: expected a finite number%s, found '%.40s'", *clean[4] ? "" : " or a word",
                               field[3]);
    if (!g_str_has_prefix(clean[2], "time_us")) return NULL;
    if (*clean[4] && strcmp(clean[4], "us") != 0)
        return g_strdup_printf("unit: expected us of %.40s, found '%.40s'", field[2], field[4]);
    return *clean[3] == '-' ? g_strdup_printf("value: expected a time from 0, found '%.40s'", field[3]) : NULL;
}

/* What is wrong with a time if the record has another one of its phase and rank, of which readers would take the first
 * without a word.  Of rates, measurements may have several.  Returns NULL, or the fault (freed by the caller). */
static char *record_time_contradicted(const struct record *record, char *const clean[RECORD_FIELDS], int32_t rank)
{
    const bool timed = g_str_has_prefix(clean[2], "time_us");
    const struct record_row *before = timed ? record_find(record, clean[0], rank, clean[2]) : NULL;
    double value = NAN;
    if (!before || (record_number_parse(clean[3], &value) ? value == before->value : !isfinite(before->value)))
        return NULL;
    return g_strdup_printf("value: expected '%s', as before for this phase, rank and metric, found '%.40s'",
                           record_row_text(before), clean[3]);
}

/* Adds a row that was read.  Returns NULL, or what is wrong with it (freed by the caller). */
static char *record_row_take(struct record *record, char *const field[RECORD_FIELDS])
{
    int32_t rank = RECORD_ALL;
    char *clean[RECORD_FIELDS];
    for (int i = 0; i < RECORD_FIELDS; i++) clean[i] = record_word_clean(field[i]);
    char *wrong = record_row_wrong(field, clean, &rank);
    if (!wrong) wrong = record_time_contradicted(record, clean, rank);
    if (!wrong) record_text_append(record, clean[0], rank, clean[2], clean[3], clean[4]);
    for (int i = 0; i < RECORD_FIELDS; i++) g_free(clean[i]);
    return wrong;
}

/* The state that libcsv's callbacks fill while the text is fed line by line. */
struct record_csv {
    struct record *record;
    GPtrArray *fields; /* of the row so far, owned */
    char *wrong;       /* the first problem, owned */
};

static void record_csv_field(void *text, size_t length, void *context)
{
    struct record_csv *csv = context;
    if (csv->wrong) return;
    if (length > RECORD_FIELD_BYTES_MAX)
        csv->wrong = g_strdup_printf("field longer than %d bytes", RECORD_FIELD_BYTES_MAX);
    else if (csv->fields->len == RECORD_FIELDS)
        csv->wrong = g_strdup_printf("expected %d fields (%s), found more", RECORD_FIELDS, record_columns);
    else g_ptr_array_add(csv->fields, g_strndup(text ? text : "", length));
}

static void record_csv_row(int terminator, void *context)
{
    (void)terminator;
    struct record_csv *csv = context;
    if (csv->wrong) return;
    if (csv->fields->len != RECORD_FIELDS)
        csv->wrong =
            g_strdup_printf("expected %d fields (%s), found %u", RECORD_FIELDS, record_columns, csv->fields->len);
    else csv->wrong = record_row_take(csv->record, (char **)csv->fields->pdata);
    g_ptr_array_set_size(csv->fields, 0);
}

/* Reads rows, from the beginning of text.  *line is the number of its first line.  Returns NULL, or what is wrong in
 * line *line. */
static char *record_csv_rows_read(struct record *record, const char *text, uint32_t *line)
{
    struct csv_parser parser;
    csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
    struct record_csv csv = { record, g_ptr_array_new_with_free_func(g_free), NULL };
    while (*text && !csv.wrong) {
        const char *end = strchr(text, '\n');
        const size_t length = end ? (size_t)(end - text) + 1 : strlen(text);
        if (csv_parse(&parser, text, length, record_csv_field, record_csv_row, &csv) != length && !csv.wrong)
            csv.wrong = g_strdup_printf("expected CSV, found %s", csv_strerror(csv_error(&parser)));
        text += length;
        if (!csv.wrong && *text) ++*line;
    }
    if (!csv.wrong && csv_fini(&parser, record_csv_field, record_csv_row, &csv) != 0)
        csv.wrong = g_strdup("expected the closing '\"' of a field, found the end of the file");
    csv_free(&parser);
    g_ptr_array_free(csv.fields, TRUE);
    return csv.wrong;
}

/* Reads one "# key: value" (without its line end).  Returns NULL, or what is wrong. */
static char *record_header_take(struct record *record, char *line)
{
    char *colon = strchr(line, ':');
    if (!colon) return g_strdup_printf("expected '# key: value', found '%.40s'", line);
    *colon = '\0';
    const char *key = g_strstrip(line + 1);
    if (!record_key_valid(key)) return g_strdup_printf("expected a key before ':', found '%.40s'", key);
    if (record_get(record, key)) return g_strdup_printf("key '%s' stands twice", key);
    if (record->headers->len == RECORD_KEYS_MAX) return g_strdup_printf("more than %d keys", RECORD_KEYS_MAX);
    record_value_set(record, key, colon + 1);
    return NULL;
}

/* Reads CSV.  Returns NULL, or what is wrong in line *line. */
static char *record_csv_read(struct record *record, const char *text, uint32_t *line)
{
    bool columns = false;
    char *wrong = NULL;
    for (*line = 1; *text && !columns && !wrong; ++*line) {
        const size_t length = strcspn(text, "\n");
        g_autofree char *copy = g_strstrip(g_strndup(text, length));
        text += length + (text[length] == '\n');
        if (*copy == '#') wrong = record_header_take(record, copy);
        else if (strcmp(copy, record_columns) == 0) columns = true;
        else if (*copy) wrong = g_strdup_printf("expected '%s', found '%.40s'", record_columns, copy);
    }
    if (wrong) {
        --*line;
        return wrong;
    }
    if (!columns) return g_strdup_printf("expected '%s', found the end of the file", record_columns);
    return record_csv_rows_read(record, text, line);
}

/* The text of a row's member, which may be a string, a number, or null for a value that is not known. */
static char *record_json_text_of(const json_t *member)
{
    char number[RECORD_NUMBER_MAX];
    if (json_is_string(member)) return g_strdup(json_string_value(member));
    if (json_is_null(member)) return g_strdup("nan");
    record_number_format(number, json_number_value(member));
    return g_strdup(number);
}

/* Adds one row.  Returns NULL, or what is wrong with it. */
static char *record_json_row_take(struct record *record, const json_t *row)
{
    static const char *const names[RECORD_FIELDS] = { "phase", "rank", "metric", "value", "unit" };
    char *field[RECORD_FIELDS] = { NULL }, *wrong = NULL;
    if (json_object_size(row) != RECORD_FIELDS) /* json_object_size() is 0 for a value that is not an object */
        wrong = g_strdup_printf("expected an object of %s", record_columns);
    for (int i = 0; i < RECORD_FIELDS && !wrong; i++) {
        const json_t *member = json_object_get(row, names[i]);
        const bool fits = json_is_string(member) || ((i == 1 || i == 3) && json_is_number(member)) ||
                          (i == 3 && json_is_null(member));
        if (fits) field[i] = record_json_text_of(member);
        else
            wrong = g_strdup_printf("%s: expected a %s, found %s", names[i], i == 3 ? "number or word" : "word",
                                    member ? "another type" : "nothing");
    }
    if (!wrong) wrong = record_row_take(record, field);
    for (int i = 0; i < RECORD_FIELDS; i++) g_free(field[i]);
    return wrong;
}

/* Sets the header's keys.  Returns NULL, or what is wrong with the header. */
static char *record_json_header_take(struct record *record, json_t *header)
{
    const char *key;
    json_t *value;
    if (!json_is_object(header)) return g_strdup("header: expected an object");
    if (json_object_size(header) > RECORD_KEYS_MAX)
        return g_strdup_printf("header: more than %d keys", RECORD_KEYS_MAX);
    json_object_foreach(header, key, value)
    {
        if (!record_key_valid(key)) return g_strdup_printf("header: expected a key, found '%.40s'", key);
        if (!json_is_string(value)) return g_strdup_printf("header: %.40s: expected a string", key);
        record_value_set(record, key, json_string_value(value));
    }
    return NULL;
}

static bool record_json_read(struct record *record, const char *source, const char *text, size_t size_bytes,
                             GError **error)
{
    json_error_t problem;
    json_auto_t *root = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &problem);
    if (!root) return error_input(error, "%s:%d: expected JSON: %s", source, problem.line, problem.text);
    const json_t *rows = json_object_get(root, "rows");
    g_autofree char *wrong = NULL;
    if (json_object_size(root) != 2 || !json_is_array(rows))
        wrong = g_strdup("expected an object of 'header' and an array 'rows'");
    if (!wrong) wrong = record_json_header_take(record, json_object_get(root, "header"));
    if (wrong) error_input(error, "%s: %s", source, wrong);
    for (size_t i = 0; !wrong && i < json_array_size(rows); i++) {
        wrong = record_json_row_take(record, json_array_get(rows, i));
        if (wrong) error_input(error, "%s: rows[%zu]: %s", source, i, wrong);
    }
    return wrong == NULL;
}

/* Whether the text is UTF-8 without NUL; else *error names the first line that is not. */
static bool record_text_check(const char *source, const char *text, size_t size_bytes, GError **error)
{
    const char *bad;
    if (g_utf8_validate(text, (gssize)size_bytes, &bad)) return true; /* a NUL before the end is not valid either */
    uint32_t line = 1;
    for (const char *c = text; c < bad; c++) line += *c == '\n';
    return error_input(error, "%s:%u: expected UTF-8 text, found byte 0x%02x", source, line,
                       (unsigned)(unsigned char)*bad);
}

struct record *record_parse(const char *source, const char *text, size_t size_bytes, GError **error)
{
    assert(text[size_bytes] == '\0');
    if (!record_text_check(source, text, size_bytes, error)) return NULL;
    g_autoptr(record) record = record_new();
    bool done;
    if (text[strspn(text, " \t\r\n")] == '{') {
        done = record_json_read(record, source, text, size_bytes, error);
    } else {
        uint32_t line;
        g_autofree char *wrong = record_csv_read(record, text, &line);
        if (wrong) error_input(error, "%s:%u: %s", source, line, wrong);
        done = wrong == NULL;
    }
    return done ? g_steal_pointer(&record) : NULL;
}

struct record *record_read(const char *path, GError **error)
{
    size_t size_bytes;
    g_autofree char *text = whole_file_read(path, RECORD_FILE_BYTES_MAX, &size_bytes, error);
    if (!text) return NULL;
    return record_parse(strcmp(path, "-") == 0 ? "standard input" : path, text, size_bytes, error);
}
