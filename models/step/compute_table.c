/* compute_table.c - reads tables of compute times by libcsv, and finds times between their points; see
 * compute_table.h. */
#include "models/step/compute_table.h"

#include <csv.h>
#include <math.h>
#include <string.h>
#include "models/step/step_gpu.h"
#include "reports/record.h"
#include "reports/whole_file.h"
#include "sim/error.h"
#include "sim/text.h"

enum { FILE_BYTES_MAX = 1 << 26 };
enum column { OP, GPU, DTYPE, SHAPE, TOKENS, CONTEXT, US, COLUMNS };
static const char *const column_names[COLUMNS] = { "op", "gpu", "dtype", "shape", "tokens", "context", "us" };

struct point {
    double context, tokens, us;
};

struct compute_table {
    GHashTable *surfaces; /* "op,gpu,dtype,shape" -> GArray of struct point, sorted by context and tokens */
};

/* ---- reading ---- */

struct reader {
    struct compute_table *table;
    const char *source;
    GPtrArray *cell;
    uint32_t line;
    int place[COLUMNS]; /* index of each column in a line; -1: the table lacks it */
    GError *error;
};

static void cell_take(void *text, size_t size_bytes, void *context)
{
    const struct reader *r = context;
    g_ptr_array_add(r->cell, g_strstrip(g_strndup(text, size_bytes)));
}

static void header_take(struct reader *r)
{
    for (int c = 0; c < COLUMNS; c++) {
        r->place[c] = -1;
        for (guint i = 0; i < r->cell->len; i++)
            if (g_ascii_strcasecmp(r->cell->pdata[i], column_names[c]) == 0) r->place[c] = (int)i;
        if (r->place[c] >= 0 || r->error) continue;
        error_input(&r->error, "%s:%u: expected a column \"%s\", found none", r->source, r->line, column_names[c]);
    }
}

static const char *cell_of(const struct reader *r, int column)
{
    const int place = r->place[column];
    return place >= 0 && (guint)place < r->cell->len ? r->cell->pdata[place] : "";
}

static bool number_take(struct reader *r, int column, double *value)
{
    const char *text = cell_of(r, column);
    const char *end = text_decimal(text, value);
    if (end && !*end && isfinite(*value) && *value > 0 && *value < 1e12) return true;
    return error_input(&r->error, "%s:%u: %s: expected a positive number, found \"%.40s\"", r->source, r->line,
                       column_names[column], text);
}

static void row_take(struct reader *r)
{
    struct point point;
    for (int c = OP; c <= SHAPE; c++) {
        if (*cell_of(r, c)) continue;
        error_input(&r->error, "%s:%u: %s: expected a word, found nothing", r->source, r->line, column_names[c]);
        return;
    }
    if (!number_take(r, TOKENS, &point.tokens) || !number_take(r, CONTEXT, &point.context) ||
        !number_take(r, US, &point.us))
        return;
    char *key = g_strdup_printf("%s,%s,%s,%s", cell_of(r, OP), cell_of(r, GPU), cell_of(r, DTYPE), cell_of(r, SHAPE));
    GArray *points = g_hash_table_lookup(r->table->surfaces, key);
    if (points) {
        g_free(key);
    } else {
        points = g_array_new(FALSE, FALSE, sizeof(struct point));
        g_hash_table_insert(r->table->surfaces, key, points);
    }
    g_array_append_val(points, point);
}

static void line_take(int end, void *context)
{
    struct reader *r = context;
    (void)end;
    r->line++;
    if (!r->error && r->line == 1) header_take(r);
    else if (!r->error) row_take(r);
    g_ptr_array_set_size(r->cell, 0);
}

static int points_compare(gconstpointer a, gconstpointer b)
{
    const struct point *p = a, *q = b;
    if (p->context != q->context) return p->context < q->context ? -1 : 1;
    return p->tokens < q->tokens ? -1 : p->tokens > q->tokens;
}

static bool surfaces_sort(const struct compute_table *table, const char *source, GError **error)
{
    GHashTableIter i;
    gpointer key, value;
    g_hash_table_iter_init(&i, table->surfaces);
    while (g_hash_table_iter_next(&i, &key, &value)) {
        const GArray *points = value;
        g_array_sort(value, points_compare);
        for (guint k = 1; k < points->len; k++) {
            const struct point *p = &g_array_index(points, struct point, k);
            if (points_compare(p - 1, p) != 0 || p->us == p[-1].us) continue;
            return error_input(error, "%s: %s: expected one time for %g tokens and context %g, found two, %g and %g us",
                               source, (const char *)key, p->tokens, p->context, p[-1].us, p->us);
        }
    }
    return true;
}

static void points_free(gpointer points) { g_array_free(points, TRUE); }

struct compute_table *compute_table_parse(const char *source, const char *text, size_t size_bytes, GError **error)
{
    struct compute_table *table = g_new0(struct compute_table, 1);
    struct csv_parser parser;
    table->surfaces = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, points_free);
    struct reader reader = { .table = table, .source = source, .cell = g_ptr_array_new_with_free_func(g_free) };
    csv_init(&parser, CSV_APPEND_NULL);
    const bool whole = csv_parse(&parser, text, size_bytes, cell_take, line_take, &reader) == size_bytes &&
                       csv_fini(&parser, cell_take, line_take, &reader) == 0;
    csv_free(&parser);
    g_ptr_array_free(reader.cell, TRUE);
    if (!reader.error && whole && reader.line == 1) error_input(&reader.error, "%s: expected rows, found none", source);
    if (!reader.error && (!whole || reader.line == 0))
        error_input(&reader.error, "%s: expected CSV with a header, found %s", source,
                    whole ? "nothing" : "something else");
    if (!reader.error && surfaces_sort(table, source, &reader.error)) return table;
    g_propagate_error(error, reader.error);
    compute_table_free(table);
    return NULL;
}

/* Makes a table of the GEMMs in a record of `eptwin measure --fabric cuda`, for the GPU that its header names. */
static struct compute_table *record_table(const char *path, const char *text, size_t size_bytes, GError **error)
{
    g_autoptr(record) record = record_parse(path, text, size_bytes, error);
    if (!record) return NULL;
    const char *name = record_get(record, "gpu");
    struct step_gpu *gpu = step_gpu_load(NULL, name ? name : "", NULL);
    if (!gpu)
        return error_null(error, "%s: gpu: expected the name of a GPU that --gpu knows, found \"%.40s\"", path,
                          name ? name : "");
    g_autoptr(GString) table = g_string_new("op,gpu,dtype,shape,tokens,context,us\n");
    const gsize header = table->len;
    for (uint32_t i = 0; i < record_row_count(record); i++) {
        const struct record_row *row = record_row(record, i);
        char dtype[16];
        unsigned rows, k, n;
        if (strcmp(row->metric, "time_us") == 0 &&
            sscanf(row->phase, "gemm dtype=%15s rows=%u k=%u n=%u", dtype, &rows, &k, &n) == 4)
            g_string_append_printf(table, "gemm,%s,%s,%ux%u,%u,1,%s\n", gpu->name, dtype, k, n, rows,
                                   record_row_text(row));
    }
    step_gpu_free(gpu);
    if (table->len > header) return compute_table_parse(path, table->str, table->len, error);
    return error_null(
        error, "%s: expected rows of gemm, as eptwin measure --fabric cuda writes them where cuBLASLt is, found none",
        path);
}

struct compute_table *compute_table_load(const char *path, GError **error)
{
    size_t size_bytes;
    g_autofree char *text = whole_file_read(path, FILE_BYTES_MAX, &size_bytes, error);
    if (!text) return NULL;
    return (*text == '#' ? record_table : compute_table_parse)(path, text, size_bytes, error);
}

void compute_table_free(struct compute_table *table)
{
    if (!table) return;
    g_hash_table_destroy(table->surfaces);
    g_free(table);
}

char *compute_table_stranger(const struct compute_table *table, const char *const *ops)
{
    g_autoptr(GList) keys = g_list_sort(g_hash_table_get_keys(table->surfaces), (GCompareFunc)strcmp);
    for (const GList *k = keys; k; k = k->next) {
        g_auto(GStrv) word = g_strsplit(k->data, ",", 2);
        if (!g_strv_contains(ops, word[0])) return g_strdup(word[0]);
    }
    return NULL;
}

/* ---- finding ---- */

/* Interpolates between (x0, y0) and (x1, y1) in logarithms. */
static double between(double x0, double y0, double x1, double y1, double x)
{
    if (x1 <= x0) return y0;
    return exp(log(y0) + (log(y1) - log(y0)) * (log(x) - log(x0)) / (log(x1) - log(x0)));
}

/* The time beyond the last point: each token adds as much time as between the last two points.  If there is one
 * point, time is proportional to tokens. */
static double further(const struct point *p, guint first, guint last, double tokens)
{
    const double x = p[last].tokens, y = p[last].us;
    if (last == first || p[last - 1].tokens >= x) return y * tokens / x;
    return y + fmax((y - p[last - 1].us) / (x - p[last - 1].tokens), 0) * (tokens - x);
}

/* Interpolates over tokens at one context, between the points [first, end). */
static double along_tokens(const struct point *p, guint first, guint end, double tokens, bool *beyond)
{
    *beyond |= tokens < p[first].tokens || tokens > p[end - 1].tokens;
    if (tokens <= p[first].tokens) return p[first].us;
    if (tokens >= p[end - 1].tokens) return further(p, first, end - 1, tokens);
    guint i = first + 1;
    while (p[i].tokens < tokens) i++;
    return between(p[i - 1].tokens, p[i - 1].us, p[i].tokens, p[i].us, tokens);
}

static const GArray *surface_of(const struct compute_table *table, const struct compute_point *at)
{
    g_autofree char *key = g_strdup_printf("%s,%s,%s,%s", at->op, at->gpu, at->dtype, at->shape);
    return g_hash_table_lookup(table->surfaces, key);
}

double compute_table_last(const struct compute_table *table, const struct compute_point *at)
{
    const GArray *points = surface_of(table, at);
    double last = points ? 0 : NAN;
    for (guint i = 0; points && i < points->len; i++) last = fmax(last, g_array_index(points, struct point, i).tokens);
    return last;
}

double compute_table_us(const struct compute_table *table, const struct compute_point *at, bool *beyond)
{
    const GArray *points = surface_of(table, at);
    *beyond = false;
    if (!points) return NAN;
    const struct point *p = &g_array_index(points, struct point, 0);
    double below_us = NAN, below_context = NAN;
    bool below_beyond = false;
    for (guint first = 0, end; first < points->len; first = end) {
        const double context = p[first].context;
        end = first + 1;
        while (end < points->len && p[end].context == context) end++;
        if (context < at->context && end < points->len) {
            below_beyond = false;
            below_us = along_tokens(p, first, end, at->tokens, &below_beyond);
            below_context = context;
            continue;
        }
        const double us = along_tokens(p, first, end, at->tokens, beyond);
        if (context < at->context) { /* even the largest context is too small */
            *beyond = true;
            return us * at->context / context;
        }
        if (isnan(below_us)) {
            *beyond |= context > at->context;
            return us;
        }
        *beyond |= below_beyond;
        return between(below_context, below_us, context, us, at->context);
    }
    return NAN;
}
